// What this machine can do, measured in a few milliseconds a figure: the rates of the cost model.
#ifndef ENG_SEARCH_CALIBRATE_H
#define ENG_SEARCH_CALIBRATE_H

#include "base/ports.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ENG_RATE_NAME_BYTES  16
#define ENG_RATES_MAX        8           // backends a machine has rates of
#define ENG_MACHINE_CALL_US  0.15        // of starting one command: the same order everywhere
#define ENG_CALIBRATE_MAX_US 100000u     // calibrating stops refining its figures after that
#define ENG_CALIBRATE_BYTES  (32u << 20) // read to learn the memory's rate

// Float32 operations a second of one backend on one core (a multiply-add counts 2).
struct eng_rate {
    char name[ENG_RATE_NAME_BYTES]; // "avx512", "ref", "blas"
    double flops;
};

// Rates of one core.
struct eng_machine {
    struct eng_rate rates[ENG_RATES_MAX];
    uint32_t rate_count;
    double bytes_l2; // bytes a second read from the second-level cache; 0: not calibrated yet
    double bytes_l3;
    double bytes_memory;
    double call_us; // of starting one command
};

// The rate of a backend; 0 when there is none of that name.
double eng_machine_flops(const struct eng_machine *machine, const char *name);
// Bytes a second from where a block of that size stays: caches of l2_bytes and l3_bytes.
double eng_machine_bytes(const struct eng_machine *machine, double block_bytes, double l2_bytes,
                         double l3_bytes);

// Runs a compute kernel `rounds` times; returns the operations done, 0 when it cannot run.
typedef double (*eng_flops_fn)(void *ctx, uint64_t rounds);
// A backend to be calibrated. flops NULL: plain C that adds one product at a time, as the reference
// backend does.
struct eng_rate_source {
    const char *name;
    eng_flops_fn flops;
    void *ctx;
};

// Measures within ENG_CALIBRATE_MAX_US, most often in a fifth of it: each figure at least once,
// again while there is time. Never fails: what cannot be measured gets a cautious figure; a source
// that cannot run gets no rate.
void eng_machine_calibrate(const struct base_clock_port *clock,
                           const struct eng_rate_source *sources, size_t count,
                           struct eng_machine *out_machine);

#endif
