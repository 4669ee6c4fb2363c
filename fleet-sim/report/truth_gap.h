// The telemetry truth gap: what really became of a version on the devices, by the ledgers, beside
// what the gateway counts of it, which is what devices could tell. A device that cannot say that it
// failed is in the one and not in the other.
//
// The gateway's counts are those since the run looked first, over all rollouts of the version that
// it saw. It keeps no counts by cohort, so there is no gap by cohort.
#ifndef SIM_TRUTH_GAP_H
#define SIM_TRUTH_GAP_H

#include "report/run_result.h"

enum sim_gap_row {
    SIM_GAP_OFFERED,
    SIM_GAP_RAN,
    SIM_GAP_FAILED,
    SIM_GAP_UNDECIDED,
    SIM_GAP_BACK,
    SIM_GAP_CURRENT,
    SIM_GAP_ROWS
};

struct sim_gap {
    const char *why_not; // the gateway counts nothing: the reason; NULL: it does
    uint32_t rollouts;   // that the counts are of
    uint64_t unproven;   // devices that are in none of the counts: they did not show who they are
    uint64_t truth[SIM_GAP_ROWS];
    uint64_t said[SIM_GAP_ROWS]; // 0 where `why_not`
};

void sim_gap_of(const struct sim_run_result *result, uint8_t version, struct sim_gap *out);
// "failed"; and "devices on which a run of it failed".
const char *sim_gap_name(enum sim_gap_row row);
const char *sim_gap_text(enum sim_gap_row row);
// The gap in per cent of the truth; false: there is no share, for the truth is 0 and the gap is
// not.
bool sim_gap_share(const struct sim_gap *gap, enum sim_gap_row row, double *out_percent);

// A table for each version that was offered.
void sim_page_gap(const struct sim_run_result *result, FILE *file);
// A line for each of them, for the log.
void sim_gap_print(const struct sim_run_result *result, FILE *log);

#endif
