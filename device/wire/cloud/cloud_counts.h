// What became of the decisions between a device's own result and the cloud's model: counts that a
// device keeps for the version it runs, and tells in the figures of an outcome (wire/outcome.h).
// They hold no word of a script's making and nothing of an input.
//
//   cloud_counts := asked | sent << 16 | answered << 32 | differed << 48
//   cloud_times  := for each step of time i a byte << 8 * i: its share of `answered`, in 255ths
//
// Counts are of up to 65,535 decisions: before there are more all of them are halved, so that what
// they say is of the last ones rather than of long ago. Pure; any thread.
#ifndef WIRE_CLOUD_COUNTS_H
#define WIRE_CLOUD_COUNTS_H

#include "wire/outcome.h"

BASE_C_BEGIN

#define WIRE_CLOUD_TIMES        8  // steps: up to 25 ms, 50, 100, .. 1600, and longer
#define WIRE_CLOUD_TIME_MS      25 // of the first
#define WIRE_CLOUD_TIME_MS_LAST (WIRE_CLOUD_TIME_MS << (WIRE_CLOUD_TIMES - 2))

// differed <= answered <= sent <= asked; the times add up to `answered`, but for what rounding to
// shares and halving lost.
struct wire_cloud_counts {
    uint16_t asked;    // inputs for which it was decided who answers
    uint16_t sent;     // of them: to the cloud
    uint16_t answered; // of those
    uint16_t differed; // of those: the script said that its own result was another one
    uint16_t times[WIRE_CLOUD_TIMES]; // that answers took
};

// The step of a time.
unsigned wire_cloud_step(uint64_t took_us);
// Returns whether all were halved.
bool wire_cloud_add(struct wire_cloud_counts *counts, const struct wire_cloud_counts *more);
// Do they fit together, as said above?
bool wire_cloud_counts_ok(const struct wire_cloud_counts *counts);
// Answers that took longer than `ms`, which counts as the end of its step; never too many.
uint32_t wire_cloud_later(const struct wire_cloud_counts *counts, uint32_t ms);

// Into the figures, and out of them. False: there are none, or they do not fit together.
void wire_cloud_figures_set(struct wire_figures *figures, const struct wire_cloud_counts *counts);
bool wire_cloud_figures_get(const struct wire_figures *figures, struct wire_cloud_counts *out);

BASE_C_END

#endif
