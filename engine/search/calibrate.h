// What this machine can do, measured in a few milliseconds a figure: the rates of the cost model.
#ifndef ENG_SEARCH_CALIBRATE_H
#define ENG_SEARCH_CALIBRATE_H

#include "base/ports.h"
#include "base/status.h"

#include <stdint.h>

// Rates of one core. The caller's compute kernel gives the float32 rate, so that it is the rate of
// the instruction set in use.
struct eng_machine {
    double flops_f32; // floating-point operations a second (a multiply-add counts 2)
    double bytes_l2;  // bytes a second read from the second-level cache
    double bytes_l3;
    double bytes_memory;
    double call_us; // of starting one command
};

#define ENG_MACHINE_CALL_US 0.15 // call_us: the same order everywhere

// Runs the compute kernel of the instruction set in use `rounds` times; returns the operations
// done.
typedef double (*eng_flops_fn)(void *ctx, uint64_t rounds);

// Measures within about 100 ms. Never fails: without `flops` the rate is estimated from plain C.
void eng_machine_calibrate(const struct base_clock_port *clock, eng_flops_fn flops, void *ctx,
                           struct eng_machine *out_machine);

#endif
