// Cells of trials: what is the same of all rollouts of one figure. How often devices fail, when
// that is heard of, what gets lost, and how many there are; half of them are control. Pure.
#ifndef TRIAL_CELL_H
#define TRIAL_CELL_H

#include "base/prng.h"
#include "policy/gate.h"

#include <stddef.h>

struct trial_cell {
    uint32_t devices;  // updated, and as many of control: chance divides
    double base;       // chance to fail, in control
    double rise;       // added to it by the update
    double late_s;     // successes are heard of so much later than failures
    bool heavy;        // ... and later by a time with a heavy tail
    bool reversed;     // it is failures that are late
    double loss;       // share of reports that never come
    double fetch_s;    // updated devices are later by that, whatever comes of them
    double slice_base; // chance to fail of the first segment in control; 0: as the others
    double slice_rise; // added to it by the update
    bool look_on;      // hardly anything is stopped: what is asked is how often it passes
};

// Identical versions: base rates x delays x sizes x loss.
#define TRIAL_NULL_CELLS 216u
// Behind them: a segment that always failed six times as often as others, with two delays.
#define TRIAL_SLICE_CELLS 2u
// Behind those: a version worse by `max_rise`, or that fails at `max_failure`, which may not pass.
#define TRIAL_BAD_CELLS 16u
#define TRIAL_CELLS     (TRIAL_NULL_CELLS + TRIAL_SLICE_CELLS + TRIAL_BAD_CELLS)

struct trial_cell trial_cell_at(uint32_t index); // below TRIAL_CELLS
// "base 2 %, successes 25 s late, 1000 devices, loss 5 %".
void trial_cell_name(const struct trial_cell *cell, char *out, size_t size);
// Alpha 5 %, beta 10 %, `max_failure` 5 %, `max_rise` 2 points; alpha of a cell that looks on is 1
// in a million.
struct pol_gate trial_cell_gate(const struct trial_cell *cell);
// When a device is heard of after its offer, in seconds.
double trial_cell_delay_s(const struct trial_cell *cell, bool fails, struct base_prng *prng);

#endif
