// Measures the rates of the cost model: float operations, and reading from each level of the
// memory. Called once per process and cache file, on the planning thread.
#include "search/calibrate.h"

#include <stdlib.h>
#include <string.h>

#define FLOPS_ROUNDS      2000u
#define REPEATS           5
#define L2_BYTES          (256u << 10)
#define L3_BYTES          (4u << 20)
#define MEMORY_BYTES      (48u << 20)
#define READ_TOTAL_BYTES  (32u << 20)
#define FALLBACK_BYTES    1e10
#define PLAIN_FLOPS_ROUND 64.0

static double plain_flops(void *ctx, uint64_t rounds)
{
    (void)ctx;
    float lanes[32];
    for (int i = 0; i < 32; i++) {
        lanes[i] = (float)i;
    }
    for (uint64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < 32; i++) {
            lanes[i] = lanes[i] * 0.999f + 0.001f;
        }
        __asm__ volatile("" ::"r"(lanes) : "memory");
    }
    return (double)rounds * PLAIN_FLOPS_ROUND;
}

static uint64_t sum_words(const uint64_t *words, size_t count)
{
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    uint64_t d = 0;
    for (size_t i = 0; i + 4 <= count; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
    }
    return a + b + c + d;
}

// Bytes a second of the best pass over a buffer of `bytes`.
static double read_rate(const struct base_clock_port *clock, const uint64_t *buffer, size_t bytes)
{
    double best = 0;
    uint64_t sink = 0;
    size_t passes = READ_TOTAL_BYTES / bytes + 1;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t begin = clock->mono_us(clock->ctx);
        for (size_t pass = 0; pass < passes; pass++) {
            sink += sum_words(buffer, bytes / sizeof *buffer);
            __asm__ volatile("" ::"r"(sink) : "memory");
        }
        uint64_t us = clock->mono_us(clock->ctx) - begin;
        double rate = us > 0 ? (double)bytes * (double)passes * 1e6 / (double)us : 0;
        best = rate > best ? rate : best;
    }
    return best > 0 ? best : FALLBACK_BYTES;
}

void eng_machine_calibrate(const struct base_clock_port *clock, eng_flops_fn flops, void *ctx,
                           struct eng_machine *out_machine)
{
    eng_flops_fn run = flops ? flops : plain_flops;
    double best = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t begin = clock->mono_us(clock->ctx);
        double done = run(ctx, FLOPS_ROUNDS);
        uint64_t us = clock->mono_us(clock->ctx) - begin;
        double rate = us > 0 ? done * 1e6 / (double)us : 0;
        best = rate > best ? rate : best;
    }
    struct eng_machine machine = {.flops_f32 = best > 0 ? best : FALLBACK_BYTES,
                                  .call_us = ENG_MACHINE_CALL_US};
    uint64_t *buffer = malloc(MEMORY_BYTES);
    if (buffer) {
        memset(buffer, 1, MEMORY_BYTES);
        machine.bytes_l2 = read_rate(clock, buffer, L2_BYTES);
        machine.bytes_l3 = read_rate(clock, buffer, L3_BYTES);
        machine.bytes_memory = read_rate(clock, buffer, MEMORY_BYTES);
        free(buffer);
    } else {
        machine.bytes_l2 = machine.bytes_l3 = machine.bytes_memory = FALLBACK_BYTES;
    }
    *out_machine = machine;
}
