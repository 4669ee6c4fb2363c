// Measures the rates of the cost model: float operations of each backend, and reading from each
// level of the memory. Called by search.c when a rate is first asked for and neither the cache file
// nor an earlier session of the process knew it; on the planning thread. All figures together take
// ENG_CALIBRATE_MAX_US: a busy machine gives fewer passes, not more time. Each figure is the best
// of REPEATS, as other work only ever makes one worse.
#include "search/calibrate.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS          3
#define ROUNDS_FIRST     4u
#define ROUNDS_MAX       (1u << 24)
#define FLOPS_US         500u // one figure covers at least this much
#define L2_BYTES         (256u << 10)
#define L3_BYTES         (4u << 20)
#define READ_TOTAL_BYTES (16u << 20)
#define FALLBACK_BYTES   1e10
#define FALLBACK_FLOPS   1e9
#define CHAIN_LENGTH     64

double eng_machine_flops(const struct eng_machine *machine, const char *name)
{
    for (uint32_t i = 0; i < machine->rate_count; i++) {
        if (strcmp(machine->rates[i].name, name) == 0) {
            return machine->rates[i].flops;
        }
    }
    return 0;
}

double eng_machine_bytes(const struct eng_machine *machine, double block_bytes, double l2_bytes,
                         double l3_bytes)
{
    base_assert(machine->bytes_l2 > 0); // calibrated
    return block_bytes <= l2_bytes   ? machine->bytes_l2
           : block_bytes <= l3_bytes ? machine->bytes_l3
                                     : machine->bytes_memory;
}

// One product after the other: each waits for the sum before it.
static double chain_flops(void *ctx, uint64_t rounds)
{
    (void)ctx;
    float sum = 0;
    for (uint64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < CHAIN_LENGTH; i++) {
            sum += (float)i * 0.5F;
            __asm__ volatile("" : "+m"(sum));
        }
    }
    return (double)rounds * 2 * CHAIN_LENGTH;
}

struct stopwatch {
    const struct base_clock_port *clock;
    uint64_t end_us; // no repeats after that
};

static uint64_t now_us(const struct stopwatch *watch)
{
    return watch->clock->mono_us(watch->clock->ctx);
}

// The best of a few runs long enough for the clock.
static double flops_rate(const struct stopwatch *watch, const struct eng_rate_source *source)
{
    eng_flops_fn run = source->flops != NULL ? source->flops : chain_flops;
    uint64_t rounds = ROUNDS_FIRST;
    double best = 0;
    for (int repeat = 0; repeat < REPEATS;) {
        uint64_t begin = now_us(watch);
        double done = run(source->ctx, rounds);
        uint64_t end = now_us(watch);
        base_assert(end >= begin);
        if (done <= 0) {
            return 0;
        }
        double rate = end > begin ? done * 1e6 / (double)(end - begin) : 0;
        bool is_long = end - begin >= FLOPS_US || rounds >= ROUNDS_MAX;
        best = is_long && rate > best ? rate : best;
        if (end >= watch->end_us) {
            return best > 0 ? best : rate > 0 ? rate : FALLBACK_FLOPS;
        }
        repeat += is_long ? 1 : 0;
        rounds = is_long ? rounds : rounds * 2;
    }
    return best > 0 ? best : FALLBACK_FLOPS;
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
static double read_rate(const struct stopwatch *watch, const uint64_t *buffer, size_t bytes)
{
    double best = 0;
    uint64_t sink = 0;
    base_assert(bytes <= ENG_CALIBRATE_BYTES && bytes % (4 * sizeof *buffer) == 0);
    size_t passes = now_us(watch) < watch->end_us ? READ_TOTAL_BYTES / bytes + 1 : 1;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t begin = now_us(watch);
        for (size_t pass = 0; pass < passes; pass++) {
            sink += sum_words(buffer, bytes / sizeof *buffer);
            __asm__ volatile("" ::"r"(sink) : "memory");
        }
        uint64_t end = now_us(watch);
        double rate =
            end > begin ? (double)bytes * (double)passes * 1e6 / (double)(end - begin) : 0;
        best = rate > best ? rate : best;
        if (end >= watch->end_us) {
            break;
        }
    }
    return best > 0 ? best : FALLBACK_BYTES;
}

void eng_machine_calibrate(const struct base_clock_port *clock,
                           const struct eng_rate_source *sources, size_t count,
                           struct eng_machine *out_machine)
{
    struct stopwatch watch = {.clock = clock};
    watch.end_us = now_us(&watch) + ENG_CALIBRATE_MAX_US;
    struct eng_machine machine = {.call_us = ENG_MACHINE_CALL_US};
    for (size_t i = 0; i < count && machine.rate_count < ENG_RATES_MAX; i++) {
        struct eng_rate *rate = &machine.rates[machine.rate_count];
        rate->flops = flops_rate(&watch, &sources[i]);
        snprintf(rate->name, sizeof rate->name, "%s", sources[i].name);
        machine.rate_count += rate->flops > 0 ? 1 : 0;
    }
    uint64_t *buffer = malloc(ENG_CALIBRATE_BYTES);
    if (buffer) {
        memset(buffer, 1, ENG_CALIBRATE_BYTES);
        machine.bytes_l2 = read_rate(&watch, buffer, L2_BYTES);
        machine.bytes_l3 = read_rate(&watch, buffer, L3_BYTES);
        machine.bytes_memory = read_rate(&watch, buffer, ENG_CALIBRATE_BYTES);
        free(buffer);
    } else {
        machine.bytes_l2 = machine.bytes_l3 = machine.bytes_memory = FALLBACK_BYTES;
    }
    base_assert(machine.bytes_l2 > 0 && machine.bytes_l3 > 0 && machine.bytes_memory > 0);
    *out_machine = machine;
}
