// One stage played under two rules at once: `sequential` (who has completed) and `logrank` (blocks
// of offers with a placebo control), at the level of policy/. Virtual devices of both cohorts are
// offered together, run, and report after delays that may depend on the outcome; some reports are
// lost. Both rules see the same devices and the same reports, and are asked whenever something
// changed. Used by verdict_sim.c and by a unit test; one thread.
#ifndef VERDICT_PLAY_H
#define VERDICT_PLAY_H

#include "base/prng.h"
#include "policy/gate.h"
#include "policy/slices.h"

#include <stddef.h>

#define VERDICT_SLICES 25u

enum verdict_rule { VERDICT_SEQUENTIAL, VERDICT_LOGRANK, VERDICT_RULE_COUNT };

struct verdict_cell {
    uint32_t devices;  // updated
    uint32_t control;  // devices for each updated one, on average: chance divides
    double base;       // chance to fail, in control
    double rise;       // added to it by the update
    double late_s;     // successes are heard of so much later than failures
    bool heavy;        // ... and later by a time with a heavy tail
    bool reversed;     // it is failures that are late
    double loss;       // share of reports that never come
    double install_s;  // median from the offer to the run, log-normal; 0: none
    double fetch_s;    // updated devices are later by that, whatever comes of them
    uint32_t window_s; // from the offer; 0: 180
    bool ramp;   // 50 offers a minute, doubled every 1,000, at most 1,000; else as fast as the
                 // stage's size lets it
    bool alone;  // only `logrank` is asked
    bool sliced; // slices are judged too
    double slice_base; // chance to fail of the first slice (3 %) in control; 0: as the others
    double slice_rise; // added to it by the update
};

struct verdict_seen {
    bool stopped; // FAIL, ever
    bool passed;
    enum pol_reason reason; // of the stop
    uint64_t offered;       // updated devices offered when it stopped; else all
    uint32_t held;          // slices
    bool first_held;        // the first slice is among them
    uint64_t slice_offered; // updated devices of the first slice, when it was held or stopped
};

// The gate of the cells: alpha 5 %, beta 10 %, `max_failure` 5 %, `max_rise` 2 points.
struct pol_gate verdict_gate(void);

struct verdict_play;
struct verdict_play *verdict_play_new(uint32_t devices_max); // of both cohorts; NULL: no memory
void verdict_play_free(struct verdict_play *play);
// The run is drawn from the seed alone. devices * (1 + control) <= devices_max.
void verdict_play_run(struct verdict_play *play, const struct verdict_cell *cell,
                      const struct pol_gate *gate, uint64_t seed,
                      struct verdict_seen out[VERDICT_RULE_COUNT]);

// When a device of the cell is heard of after its offer, in seconds.
double verdict_delay_s(const struct verdict_cell *cell, bool fails, struct base_prng *prng);

// ---- Cells of the null: base rates x delays x sizes x loss

#define VERDICT_NULL_CELLS 216u
// Behind them: a segment that always failed six times as often as others, with two delays.
#define VERDICT_CELLS (VERDICT_NULL_CELLS + 2u)

// `index` below VERDICT_CELLS; one control device for each updated one.
struct verdict_cell verdict_null_cell(uint32_t index);
// "base 2 %, late 25 s, 1000, loss 5 %".
void verdict_cell_name(const struct verdict_cell *cell, char *out, size_t size);

#endif
