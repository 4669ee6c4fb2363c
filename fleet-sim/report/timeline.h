// The timeline of a run: one row a second, kept in memory and written as timeline.csv and drawn in
// the report.
//
// When the table is full every second row is dropped and the rows come half as often from then on,
// so a run of any length fits. Owned by the coordinator.
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H

#include "base/hist.h"
#include "base/ports.h"
#include "model/gateway_view.h"
#include "model/ledger.h"
#include "model/rollouts_seen.h"

#include <stdio.h>

#define SIM_ROWS_MAX     7200
#define SIM_ROW_VERSIONS 8 // version numbers 1 .. 7
#define SIM_MARKS_MAX    128
#define SIM_MARK_TEXT    64

struct sim_row {
    double t_s;
    uint64_t arrived;
    uint64_t awake;
    uint64_t skipped;
    uint64_t checkins;
    uint64_t requests;
    uint64_t request_errors;
    uint64_t runs;
    uint64_t run_failures;
    uint64_t exposed;
    uint64_t links_up;
    uint64_t unenrolled; // devices without a credential so far; of now, not in the file
    uint64_t no_room;    // devices without a place for the task followed; of now, not in the file
    uint64_t lag_p50_us;
    uint64_t lag_p99_us;
    uint64_t checkin_p50_us;
    uint64_t checkin_p99_us;
    struct sim_version_counters version[SIM_ROW_VERSIONS];
    struct sim_behaviour_sums behaviour;
    struct sim_gateway_load gateway;
    uint8_t said_of; // the version whose rollout the gateway told the counts of; 0: it told none
    uint64_t said_offered;
    uint64_t said_ran;
    uint64_t said_failed;
};

// Something that happened at a moment: a stage opened, a rollout rolled back.
struct sim_mark {
    double t_s;
    char text[SIM_MARK_TEXT];
};

struct sim_timeline {
    const struct base_alloc_port *alloc;
    struct sim_row *rows; // SIM_ROWS_MAX
    uint32_t count;
    double step_s; // least distance of rows
    struct sim_mark marks[SIM_MARKS_MAX];
    uint32_t mark_count;
};

BASE_NODISCARD enum base_status sim_timeline_init(struct sim_timeline *timeline,
                                                  const struct base_alloc_port *alloc);
void sim_timeline_done(struct sim_timeline *timeline);
// What one second came to.
struct sim_second {
    double t_s; // since the start of the run
    const struct sim_counters *counters;
    const struct base_hist *lag_us;
    const struct base_hist *checkin_us;
    const struct sim_gateway_load *gateway;
    uint8_t said_of; // SIM_VERSION_NONE: nothing was said
    const struct sim_gateway_counts *said;
};
void sim_row_fill(struct sim_row *row, const struct sim_second *second);
// Ignored when it comes sooner than `step_s` after the last one.
void sim_timeline_add(struct sim_timeline *timeline, const struct sim_row *row);
void sim_timeline_mark(struct sim_timeline *timeline, double t_s, const char *text);
// IO.
BASE_NODISCARD enum base_status sim_timeline_write(const struct sim_timeline *timeline, FILE *file,
                                                   uint32_t version_count);

#endif
