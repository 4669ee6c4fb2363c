// Thinning: while batches come faster than they reach the disk, devices are asked to keep only a
// sample of what can be missed, long before anything is refused. A rule of numbers alone: same
// input, same answer.
//
// The level is what batches and input occupy, in parts of tunnel.memory_bytes. From step to step:
//
//   step  from                        class 3 (debug)   class 2 (behaviour)   classes 0 and 1
//   1     thin_percent                1/4 is kept       all                   all
//   2     half-way between 1 and 3    1/16              1/2                   all
//   3     all of it: no more credit   1/64              1/4                   all
//
// A step is left when the level is below three quarters of where it begins. Which batches a device
// keeps is wire_tunnel_keeps; the rest it declares as LOSS(policy).
#ifndef GW_THINNING_H
#define GW_THINNING_H

#include <stdint.h>

#define GW_THIN_STEPS   3u
#define GW_THIN_PERCENT 50u // of the memory, where step 1 begins

struct gw_thin {
    uint64_t enter[GW_THIN_STEPS + 1]; // bytes from which a step is taken; [0]: 0
};

// `percent` is 1 to 100; 0 takes GW_THIN_PERCENT.
void gw_thin_init(struct gw_thin *thin, uint64_t memory_max, uint32_t percent);
// The step after `step`, with so many bytes.
uint32_t gw_thin_next(const struct gw_thin *thin, uint32_t step, uint64_t bytes);
// What is kept of a class's new batches, in millionths.
uint32_t gw_thin_ppm(uint32_t step, uint8_t class_id);

#endif
