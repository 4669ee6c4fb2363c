// Our gate in the simulated rollout: the rollout machine of policy/ decides on the counts of the
// open stage, and slices of the fleet are compared each with its own control.
//
// Called by gate_sim.c and its unit test; one thread.
#include "gate_play.h"

#include "policy/bucket.h"
#include "policy/rollout.h"

// Decisions are asked for whenever counts changed; slices, and silence where nothing else moves,
// every ten seconds.
#define SLOW_STEPS 5u

struct gate_ours gate_ours_standard(void)
{
    // Alpha of 5 % for the rollout, half of it for the first stage, where large faults are found.
    // The rise is what a stage can rule out with its size: 3 points, 1, 0.5; the last stage is
    // everybody and has no control.
    return (struct gate_ours){.alpha_ppm = {25000, 10000, 10000, 5000},
                              .beta_ppm = 100000,
                              .max_failure_ppm = 50000,
                              .max_rise_ppm = {30000, 10000, 5000, POL_TEST_NOT_ASKED},
                              .min_sample = 200,
                              .min_dwell_s = {2700, 2700, 1800, 1800},
                              .max_silence_percent = POL_GATE_SILENCE_PERCENT,
                              .control_ratio = 4};
}

struct play {
    struct gate_world *world;
    const struct gate_ours *settings;
    struct gate_outcome *out;
    struct pol_stage stages[GATE_STAGES];
    struct pol_rollout rollout;
    struct pol_counts counts; // of the last decision
    double credit;
    uint64_t offered;             // in earlier stages
    uint32_t slices[GATE_SLICES]; // failures when the slice was last asked about
};

static const uint16_t buckets[GATE_STAGES] = {100, 500, 2000, 10000};

static uint64_t now_us(const struct play *play)
{
    return (uint64_t)play->world->step * GATE_STEP_S * 1000000u;
}

static const struct gate_stage_tally *open_stage(const struct play *play)
{
    return &play->world->stages[play->world->stage_count - 1];
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// Counts of the open stage without the slices that are held.
static struct pol_counts counts_of(const struct play *play)
{
    const struct gate_stage_tally *stage = open_stage(play);
    struct pol_counts counts = {
        .offered = stage->offered,
        .silent = stage->updated.silent,
        .hazard = {stage->updated.observed_s, stage->updated.silent},
        .control_hazard = {stage->control.observed_s, stage->control.silent}};
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        if (!play->world->held_slices[i]) {
            counts.succeeded += stage->slice_updated[i][0] - stage->slice_updated[i][1];
            counts.failed += stage->slice_updated[i][1];
            counts.control.trials += stage->slice_control[i][0];
            counts.control.failures += stage->slice_control[i][1];
        }
    }
    counts.succeeded = minus(counts.succeeded, counts.silent);
    counts.control.trials = minus(counts.control.trials, stage->control.silent);
    return counts;
}

static void hold_slice(struct play *play, uint32_t slice)
{
    play->world->held_slices[slice] = true;
    if (play->out->quarantined++ == 0) {
        play->out->at_s = gate_world_now_s(play->world);
    }
}

// Holds the slices that are shown worse than their own control.
static void judge_slices(struct play *play)
{
    const struct gate_stage_tally *stage = open_stage(play);
    uint32_t alpha_ppm =
        play->settings->alpha_ppm[play->world->stage_count - 1] * POL_GATE_SLICES_PERCENT / 100;
    struct pol_test test = {.max_failure_ppm = POL_TEST_NOT_ASKED,
                            .max_rise_ppm = POL_TEST_NOT_ASKED - 1,
                            .alpha_ppm = alpha_ppm};
    double evidence[GATE_SLICES];
    bool marked[GATE_SLICES];
    bool news = false;
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        news = news || stage->slice_updated[i][1] != play->slices[i];
        play->slices[i] = stage->slice_updated[i][1];
    }
    for (uint32_t i = 0; news && i < GATE_SLICES; i++) {
        struct pol_sample updated = {stage->slice_updated[i][0], stage->slice_updated[i][1]};
        struct pol_sample control = {stage->slice_control[i][0], stage->slice_control[i][1]};
        evidence[i] = updated.failures > 0 ? pol_test_judge(&test, &updated, &control).evidence : 0;
    }
    if (!news || pol_slices_reject(evidence, GATE_SLICES, alpha_ppm, marked) == 0) {
        return;
    }
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        if (marked[i] && !play->world->held_slices[i]) {
            hold_slice(play, i);
        }
    }
}

// The stage is worse. True: because of one slice, which is held from now on.
static bool blame_slice(struct play *play)
{
    const struct gate_stage_tally *stage = open_stage(play);
    const struct pol_gate *gate = &play->stages[play->rollout.stage_index].gate;
    struct pol_test test = {.max_failure_ppm = gate->max_failure_ppm,
                            .max_rise_ppm = gate->max_rise_ppm,
                            .alpha_ppm = gate->alpha_ppm,
                            .beta_ppm = gate->beta_ppm};
    struct pol_sample updated[GATE_SLICES] = {{0, 0}};
    struct pol_sample control[GATE_SLICES] = {{0, 0}};
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        if (!play->world->held_slices[i]) {
            updated[i] =
                (struct pol_sample){stage->slice_updated[i][0], stage->slice_updated[i][1]};
            control[i] =
                (struct pol_sample){stage->slice_control[i][0], stage->slice_control[i][1]};
        }
    }
    uint32_t slice = pol_slices_blame(&test, updated, control, GATE_SLICES,
                                      gate->alpha_ppm * POL_GATE_SLICES_PERCENT / 100);
    if (slice < GATE_SLICES) {
        hold_slice(play, slice);
    }
    return slice < GATE_SLICES;
}

static bool changed(const struct pol_counts *a, const struct pol_counts *b)
{
    return a->succeeded != b->succeeded || a->failed != b->failed || a->silent != b->silent ||
           a->control.trials != b->control.trials || a->control.failures != b->control.failures;
}

// Asks the rollout machine about the open stage. True: the rollout is over.
static bool decide(struct play *play)
{
    struct gate_world *world = play->world;
    bool slow = world->step % SLOW_STEPS == 0;
    if (slow) {
        judge_slices(play);
    }
    struct pol_counts counts = counts_of(play);
    if (!slow && !changed(&counts, &play->counts)) {
        return false;
    }
    play->counts = counts;
    struct pol_decision decision =
        pol_rollout_tick(&play->rollout, play->stages, GATE_STAGES, &counts, now_us(play));
    if (decision.action == POL_ACTION_ROLL_BACK &&
        decision.reason != POL_REASON_SILENT_OVER_CONTROL && blame_slice(play)) {
        return false; // asked again without the slice
    }
    play->rollout = decision.next;
    if (decision.action == POL_ACTION_ROLL_BACK) {
        play->out->end = GATE_END_STOPPED;
        return true;
    }
    if (decision.action == POL_ACTION_COMPLETE) {
        play->out->end = GATE_END_COMPLETED;
        return true;
    }
    if (decision.action == POL_ACTION_ADVANCE) {
        play->offered += open_stage(play)->offered;
        uint64_t to = (uint64_t)world->fleet->count * buckets[play->rollout.stage_index];
        gate_world_open(world, (uint32_t)(to / POL_BUCKET_COUNT));
    }
    return false;
}

static void prepare(struct play *play)
{
    const struct gate_ours *settings = play->settings;
    for (uint32_t i = 0; i < GATE_STAGES; i++) {
        play->stages[i] = (struct pol_stage){
            .kind = i + 1 < GATE_STAGES ? POL_STAGE_GRAY : POL_STAGE_FULL,
            .max_bucket = buckets[i],
            .gate = {.min_sample = settings->min_sample,
                     .max_failure_ppm = settings->max_failure_ppm,
                     .min_dwell_us = (uint64_t)settings->min_dwell_s[i] * 1000000,
                     .rule = POL_GATE_SEQUENTIAL,
                     .max_rise_ppm = settings->max_rise_ppm[i],
                     .alpha_ppm = settings->alpha_ppm[i],
                     .beta_ppm = settings->beta_ppm,
                     .max_silence_percent = settings->max_silence_percent}};
    }
    struct pol_rollout draft = {.state = POL_ROLLOUT_DRAFT};
    play->rollout =
        pol_rollout_command(&draft, play->stages, GATE_STAGES, POL_COMMAND_START, 0).next;
}

void gate_play_ours(struct gate_world *world, const struct gate_fleet *fleet,
                    const struct gate_ours *settings, struct gate_outcome *out)
{
    struct gate_settings how = {.timeout_s = 3600, .control_ratio = settings->control_ratio};
    struct play play = {.world = world, .settings = settings, .out = out};
    *out = (struct gate_outcome){.end = GATE_END_HELD};
    prepare(&play);
    gate_world_reset(world, fleet, &how);
    gate_world_open(world, (uint32_t)((uint64_t)fleet->count * buckets[0] / POL_BUCKET_COUNT));
    bool over = false;
    while (!over && world->step + 1 < GATE_STEPS) {
        uint64_t offered = play.offered + open_stage(&play)->offered;
        gate_world_step(world, gate_ramp_offers(&play.credit, offered));
        over = decide(&play);
    }
    out->at_s = out->quarantined > 0 ? out->at_s : gate_world_now_s(world);
    if (out->end == GATE_END_COMPLETED) {
        gate_world_flood(world);
    }
    out->exposed = world->exposed;
    out->harmed = world->harmed;
    out->stage = world->stage_count - 1;
}
