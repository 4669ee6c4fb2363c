// Plays stages under two rules. Steps are seconds; what happens in one is in the calendar.
//
// Called by verdict_sim.c and its unit test, each with a play of its own.
#include "verdict_play.h"

#include "base/prng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW_S    180u
#define BLOCK_S     10u
#define STEPS_MAX   8192u
#define BLOCKS_MAX  (STEPS_MAX / BLOCK_S + 1)
#define RUN_MEAN_S  4.0
#define TAIL_S      2.0 // least of the heavy-tailed delays
#define TAIL_POWER  1.1
#define INSTALL_SD  0.8
#define FIRST_SHARE 0.03 // of the first slice
#define NONE        UINT32_MAX

struct device {
    uint32_t next; // in the list of a step
    uint16_t block;
    uint8_t slice;
    uint8_t cohort;
    bool fails;
    bool answered;
};

struct block {
    struct pol_block whole;
    struct pol_block slices[VERDICT_SLICES];
    uint32_t from; // its devices
    uint32_t to;
    uint32_t over_at; // step; 0: it is not closed
};

struct verdict_play {
    struct device *devices;
    struct block *blocks;
    uint32_t heads[STEPS_MAX];
    uint32_t device_count;
    uint32_t block_count;
    uint32_t first_open; // block whose window is not over
    const struct verdict_cell *cell;
    struct pol_gate gates[VERDICT_RULE_COUNT];
    struct pol_trial kept; // blocks whose window is over, and the wealth of all
    struct pol_logrank slice_rise[VERDICT_SLICES];
    // By slice and cohort: offered, heard of or timed out, and failed of these; failed for certain.
    uint32_t offered[VERDICT_SLICES][POL_COHORT_COUNT];
    uint32_t completed[VERDICT_SLICES][POL_COHORT_COUNT];
    uint32_t bad[VERDICT_SLICES][POL_COHORT_COUNT];
    uint32_t failed[VERDICT_SLICES];
    struct pol_held held[VERDICT_RULE_COUNT];
    bool news[VERDICT_RULE_COUNT];
};

struct pol_gate verdict_gate(void)
{
    return (struct pol_gate){.min_sample = 50,
                             .max_failure_ppm = 50000,
                             .max_rise_ppm = 20000,
                             .alpha_ppm = 50000,
                             .beta_ppm = 100000,
                             .min_answered_ppm = POL_GATE_MIN_ANSWERED_PPM};
}

struct verdict_play *verdict_play_new(uint32_t devices_max)
{
    struct verdict_play *play = calloc(1, sizeof(*play));
    if (play != NULL) {
        play->devices = calloc(devices_max, sizeof(*play->devices));
        play->blocks = calloc(BLOCKS_MAX, sizeof(*play->blocks));
    }
    if (play != NULL && (play->devices == NULL || play->blocks == NULL)) {
        verdict_play_free(play);
        return NULL;
    }
    return play;
}

void verdict_play_free(struct verdict_play *play)
{
    if (play != NULL) {
        free(play->devices);
        free(play->blocks);
        free(play);
    }
}

// ---- Draws ----

static double exponential(struct base_prng *prng, double mean)
{
    return -log(1 - base_prng_unit(prng)) * mean;
}

static double normal(struct base_prng *prng)
{
    double radius = sqrt(-2 * log(1 - base_prng_unit(prng)));
    return radius * cos(6.28318530717958648 * base_prng_unit(prng));
}

double verdict_delay_s(const struct verdict_cell *cell, bool fails, struct base_prng *prng)
{
    double seconds = exponential(prng, RUN_MEAN_S);
    if (cell->install_s > 0) {
        seconds += cell->install_s * exp(INSTALL_SD * normal(prng));
    }
    if (fails == cell->reversed) {
        seconds += cell->late_s;
        seconds += cell->heavy ? TAIL_S * pow(1 - base_prng_unit(prng), -1 / TAIL_POWER) : 0;
    }
    return seconds < STEPS_MAX ? seconds : STEPS_MAX;
}

static uint8_t slice_of(struct base_prng *prng)
{
    double at = base_prng_unit(prng);
    if (at < FIRST_SHARE) {
        return 0;
    }
    double u = (at - FIRST_SHARE) / (1 - FIRST_SHARE);
    return (uint8_t)(1 + (uint32_t)((VERDICT_SLICES - 1) * u * u));
}

static double chance_to_fail(const struct verdict_cell *cell, const struct device *device)
{
    bool first = device->slice == 0;
    double base = first && cell->slice_base > 0 ? cell->slice_base : cell->base;
    return device->cohort == POL_COHORT_UPDATED ? base + cell->rise + (first ? cell->slice_rise : 0)
                                                : base;
}

static void offer(struct verdict_play *play, uint32_t step, struct base_prng *prng)
{
    const struct verdict_cell *cell = play->cell;
    struct block *block = &play->blocks[play->block_count - 1];
    uint32_t index = play->device_count++;
    struct device *device = &play->devices[index];
    bool updated = base_prng_below(prng, cell->control + 1) == 0;
    *device = (struct device){.block = (uint16_t)(play->block_count - 1),
                              .cohort = updated ? POL_COHORT_UPDATED : POL_COHORT_CONTROL,
                              .slice = slice_of(prng),
                              .next = NONE};
    device->fails = base_prng_unit(prng) < chance_to_fail(cell, device);
    (void)pol_block_offer(&block->whole, (enum pol_cohort)device->cohort);
    (void)pol_block_offer(&block->slices[device->slice], (enum pol_cohort)device->cohort);
    block->to = play->device_count;
    play->offered[device->slice][device->cohort]++;
    double seconds = verdict_delay_s(cell, device->fails, prng) + (updated ? cell->fetch_s : 0);
    uint32_t at = step + 1 + (uint32_t)seconds;
    if (at < STEPS_MAX && base_prng_unit(prng) >= cell->loss) {
        device->next = play->heads[at];
        play->heads[at] = index;
    }
}

// ---- What happens ----

static void report(struct verdict_play *play, struct device *device)
{
    struct block *block = &play->blocks[device->block];
    enum pol_cohort cohort = (enum pol_cohort)device->cohort;
    if (device->block < play->first_open) {
        return; // its window is over
    }
    device->answered = true;
    play->completed[device->slice][cohort]++;
    play->bad[device->slice][cohort] += device->fails;
    play->news[VERDICT_SEQUENTIAL] = true;
    if (device->fails) {
        (void)pol_block_fail(&block->whole, cohort, false, 0, &play->kept.rise);
        (void)pol_block_fail(&block->slices[device->slice], cohort, false, 0,
                             &play->slice_rise[device->slice]);
        play->failed[device->slice] += cohort == POL_COHORT_UPDATED;
        play->news[VERDICT_LOGRANK] = true;
    } else {
        (void)pol_block_succeed(&block->whole, cohort);
        (void)pol_block_succeed(&block->slices[device->slice], cohort);
    }
}

static void close_block(struct verdict_play *play, uint32_t step)
{
    struct block *block = &play->blocks[play->block_count - 1];
    pol_block_close(&block->whole, 0, &play->kept.rise);
    for (uint32_t i = 0; i < VERDICT_SLICES; i++) {
        pol_block_close(&block->slices[i], 0, &play->slice_rise[i]);
    }
    block->over_at = step + (play->cell->window_s > 0 ? play->cell->window_s : WINDOW_S);
    play->news[VERDICT_LOGRANK] = true;
}

// Who has not answered has timed out: a failure for the rule that counts completed devices.
static void end_window(struct verdict_play *play)
{
    struct block *block = &play->blocks[play->first_open++];
    for (uint32_t i = block->from; i < block->to; i++) {
        const struct device *device = &play->devices[i];
        play->completed[device->slice][device->cohort] += !device->answered;
        play->bad[device->slice][device->cohort] += !device->answered;
    }
    pol_trial_add(&play->kept, &block->whole, true, play->gates[VERDICT_LOGRANK].max_failure_ppm);
    play->news[VERDICT_SEQUENTIAL] = play->news[VERDICT_LOGRANK] = true;
}

// ---- Judgements ----

static struct pol_counts counts_of(const struct verdict_play *play, enum verdict_rule rule)
{
    struct pol_counts counts = {.trial = play->kept};
    if (rule == VERDICT_LOGRANK) {
        for (uint32_t i = play->first_open; i < play->block_count; i++) {
            pol_trial_add(&counts.trial, &play->blocks[i].whole, false,
                          play->gates[rule].max_failure_ppm);
        }
        return counts;
    }
    for (uint32_t i = 0; i < VERDICT_SLICES; i++) {
        if (!pol_held_has(&play->held[rule], i + 1)) {
            counts.failed += play->bad[i][POL_COHORT_UPDATED];
            counts.succeeded +=
                play->completed[i][POL_COHORT_UPDATED] - play->bad[i][POL_COHORT_UPDATED];
            counts.control.trials += play->completed[i][POL_COHORT_CONTROL];
            counts.control.failures += play->bad[i][POL_COHORT_CONTROL];
        }
    }
    return counts;
}

static void judge_slices(struct verdict_play *play, enum verdict_rule rule,
                         const struct pol_counts *counts, struct verdict_seen *seen)
{
    struct pol_slices slices = {.held_count = play->held[rule].count, .count = VERDICT_SLICES};
    struct pol_held found;
    bool own = rule == VERDICT_LOGRANK;
    for (uint32_t i = 0; i < VERDICT_SLICES; i++) {
        uint32_t trials =
            own ? play->offered[i][POL_COHORT_UPDATED] : play->completed[i][POL_COHORT_UPDATED];
        uint32_t failures = own ? play->failed[i] : play->bad[i][POL_COHORT_UPDATED];
        if (pol_held_has(&play->held[rule], i + 1)) {
            continue;
        }
        slices.completed += trials;
        if (failures > 0) {
            slices.failing[slices.failing_count++] =
                (struct pol_slice){.name = i + 1,
                                   .seen = {trials, failures},
                                   .rise = pol_logrank_evidence(&play->slice_rise[i])};
        }
    }
    pol_slices_judge(&play->gates[rule], &slices, &counts->control, &found);
    pol_held_add(&play->held[rule], &found);
    seen->held = play->held[rule].count;
    if (!seen->first_held && pol_held_has(&found, 1)) {
        seen->first_held = true;
        seen->slice_offered = play->offered[0][POL_COHORT_UPDATED];
    }
}

static uint64_t updated_so_far(const struct verdict_play *play)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < VERDICT_SLICES; i++) {
        sum += play->offered[i][POL_COHORT_UPDATED];
    }
    return sum;
}

static void judge(struct verdict_play *play, enum verdict_rule rule, struct verdict_seen *seen)
{
    if (!play->news[rule] || seen->stopped || (play->cell->alone && rule != VERDICT_LOGRANK)) {
        return;
    }
    struct pol_judgement judgement;
    struct pol_counts counts = counts_of(play, rule);
    play->news[rule] = false;
    if (play->cell->sliced) {
        judge_slices(play, rule, &counts, seen);
    }
    pol_gate_judge(&play->gates[rule], &counts, UINT64_MAX, &judgement);
    seen->passed = seen->passed || judgement.verdict == POL_VERDICT_PASS;
    // Where a slice is held the trial would have to be played again without it; the comparison of
    // slices ends there.
    if (judgement.verdict == POL_VERDICT_FAIL && seen->held == 0) {
        seen->stopped = true;
        seen->reason = judgement.reason;
        seen->offered = updated_so_far(play);
        seen->slice_offered = play->offered[0][POL_COHORT_UPDATED];
    }
}

// ---- A run ----

static uint32_t offers_at(const struct verdict_play *play, double *credit)
{
    const struct verdict_cell *cell = play->cell;
    double per_s = cell->devices <= 100 ? 2 : cell->devices <= 1000 ? 5 : 20;
    if (cell->ramp) {
        double share = 1.0 / (1 + cell->control);
        double minute = 50 * exp2(floor(play->device_count * share / 1000));
        per_s = (minute < 1000 ? minute : 1000) / 60;
    }
    *credit += per_s * (1 + cell->control);
    uint32_t offers = (uint32_t)*credit;
    *credit -= offers;
    uint32_t left = cell->devices * (1 + cell->control) - play->device_count;
    return offers < left ? offers : left;
}

static void reset(struct verdict_play *play, const struct verdict_cell *cell,
                  const struct pol_gate *gate)
{
    struct device *devices = play->devices;
    struct block *blocks = play->blocks;
    *play = (struct verdict_play){.devices = devices, .blocks = blocks, .cell = cell};
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        play->heads[i] = NONE;
    }
    play->gates[VERDICT_SEQUENTIAL] = play->gates[VERDICT_LOGRANK] = *gate;
    play->gates[VERDICT_SEQUENTIAL].rule = POL_GATE_SEQUENTIAL;
    play->gates[VERDICT_LOGRANK].rule = POL_GATE_LOGRANK;
}

static void offer_some(struct verdict_play *play, uint32_t step, double *credit,
                       struct base_prng *prng)
{
    uint32_t offers = offers_at(play, credit);
    if (offers > 0 && (play->block_count == 0 || play->blocks[play->block_count - 1].over_at > 0)) {
        play->blocks[play->block_count++] =
            (struct block){.from = play->device_count, .to = play->device_count};
    }
    for (; offers > 0; offers--) {
        offer(play, step, prng);
    }
}

void verdict_play_run(struct verdict_play *play, const struct verdict_cell *cell,
                      const struct pol_gate *gate, uint64_t seed,
                      struct verdict_seen out[VERDICT_RULE_COUNT])
{
    struct base_prng prng;
    double credit = 0;
    uint32_t all = cell->devices * (1 + cell->control);
    base_prng_seed(&prng, seed);
    reset(play, cell, gate);
    out[VERDICT_SEQUENTIAL] = out[VERDICT_LOGRANK] = (struct verdict_seen){.stopped = false};
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        for (uint32_t i = play->heads[step]; i != NONE; i = play->devices[i].next) {
            report(play, &play->devices[i]);
        }
        offer_some(play, step, &credit, &prng);
        struct block *last = play->block_count > 0 ? &play->blocks[play->block_count - 1] : NULL;
        if (last != NULL && last->over_at == 0 &&
            (step % BLOCK_S == BLOCK_S - 1 || play->device_count == all)) {
            close_block(play, step);
        }
        while (play->first_open < play->block_count && step > 0 &&
               play->blocks[play->first_open].over_at == step) {
            end_window(play);
        }
        judge(play, VERDICT_SEQUENTIAL, &out[VERDICT_SEQUENTIAL]);
        judge(play, VERDICT_LOGRANK, &out[VERDICT_LOGRANK]);
        bool done = play->device_count == all && play->first_open == play->block_count;
        bool both = out[VERDICT_SEQUENTIAL].stopped || cell->alone;
        if (done || (both && out[VERDICT_LOGRANK].stopped)) {
            break;
        }
    }
    for (int i = 0; i < VERDICT_RULE_COUNT; i++) {
        bool slice_out = out[i].stopped || out[i].first_held;
        out[i].offered = out[i].stopped ? out[i].offered : cell->devices;
        out[i].slice_offered =
            slice_out ? out[i].slice_offered : (uint64_t)(cell->devices * FIRST_SHARE);
    }
}

// ---- Cells ----

static const double bases[] = {0, 0.001, 0.005, 0.01, 0.02, 0.05};
static const double delays_s[] = {0, 2, 8, 25, 60, -1}; // the last: heavy-tailed
static const uint32_t sizes[] = {100, 1000, 20000};
static const double losses[] = {0, 0.05};

struct verdict_cell verdict_null_cell(uint32_t index)
{
    double late_s = delays_s[index / 6 % 6];
    if (index >= VERDICT_NULL_CELLS) {
        return (struct verdict_cell){.base = 0.005,
                                     .late_s = index > VERDICT_NULL_CELLS ? 25 : 0,
                                     .devices = 40000,
                                     .control = 1,
                                     .slice_base = 0.03};
    }
    return (struct verdict_cell){.base = bases[index % 6],
                                 .late_s = late_s > 0 ? late_s : 0,
                                 .heavy = late_s < 0,
                                 .devices = sizes[index / 36 % 3],
                                 .loss = losses[index / 108],
                                 .control = 1};
}

void verdict_cell_name(const struct verdict_cell *cell, char *out, size_t size)
{
    char late[32];
    (void)snprintf(late, sizeof(late), cell->heavy ? "heavy tail" : "%g s", cell->late_s);
    char slice[32] = "";
    if (cell->slice_base > 0) {
        (void)snprintf(slice, sizeof(slice), " (a segment %g %%)", cell->slice_base * 100);
    }
    (void)snprintf(out, size, "base %g %%%s, %s late %s, %u devices, loss %g %%", cell->base * 100,
                   slice, cell->reversed ? "failures" : "successes", late, cell->devices,
                   cell->loss * 100);
}
