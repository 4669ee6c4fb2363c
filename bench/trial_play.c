// Blocks that are fed by a script: see trial_play.h. At each look the blocks may go by what a core
// with one thread lets them go by: the reports of the seconds before, and the offers of those that
// are in the store for certain.
#include "trial_play.h"

#include "policy/rollout.h"
#include "svc/tally/trial_blocks.h"

#include <stdlib.h>
#include <string.h>

#define STAGES 2u

struct trial_play {
    struct gw_release *release;
    struct gw_trial_blocks *blocks;
    struct trial_script *script;
    struct pol_rollout rollout;
    struct pol_held held;
    uint32_t failed;                     // updated devices, heard of
    bool completed[TRIAL_SCRIPT_MODELS]; // any updated device of the segment did
    struct pol_slices slices;
};

struct trial_play *trial_play_new(void)
{
    struct trial_play *play = calloc(1, sizeof(*play));
    if (play != NULL) {
        play->release = calloc(1, sizeof(*play->release));
    }
    if (play != NULL && play->release == NULL) {
        free(play);
        return NULL;
    }
    return play;
}

void trial_play_free(struct trial_play *play)
{
    if (play != NULL) {
        gw_trial_blocks_free(play->blocks);
        free(play->release);
        free(play);
    }
}

static uint32_t now_s(uint32_t step)
{
    return (uint32_t)TRIAL_SCRIPT_BEGIN_S + 1 + step;
}

static uint64_t segment_of(const struct trial_play *play, const struct trial_device *device)
{
    return play->script->segments[device->model];
}

static struct gw_trial_entry entry_of(const struct trial_play *play,
                                      const struct trial_device *device)
{
    unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN;
    bits |= device->updated ? 0 : GW_OUTCOME_CONTROL;
    return (struct gw_trial_entry){.order = gw_trial_order(device->id),
                                   .segment = segment_of(play, device),
                                   .offered_s = device->offered_s,
                                   .bits = (uint16_t)bits};
}

static void come(struct trial_play *play, uint32_t step)
{
    struct trial_device *devices = play->script->devices;
    for (uint32_t at = play->script->comes[step]; at != TRIAL_SCRIPT_NONE;
         at = devices[at].next_to_come) {
        struct trial_device *device = &devices[at];
        device->drawn = !pol_held_has(&play->held, segment_of(play, device));
        device->offered_s = now_s(step);
        if (device->drawn) {
            struct gw_trial_entry entry = entry_of(play, device);
            gw_trial_blocks_add(play->blocks, &entry);
        }
    }
}

static void report(struct trial_play *play, uint32_t step)
{
    struct trial_device *devices = play->script->devices;
    for (uint32_t at = play->script->reports[step]; at != TRIAL_SCRIPT_NONE;
         at = devices[at].next_to_report) {
        const struct trial_device *device = &devices[at];
        if (!device->drawn) {
            continue;
        }
        struct gw_trial_entry entry = entry_of(play, device);
        gw_trial_blocks_take(play->blocks, &entry);
        entry.bits |= device->fails ? GW_OUTCOME_FAILED : GW_OUTCOME_RAN;
        *(device->fails ? &entry.failed_s : &entry.answered_s) = now_s(step);
        gw_trial_blocks_add(play->blocks, &entry);
        play->failed += device->updated && device->fails;
        play->completed[device->model] = play->completed[device->model] || device->updated;
    }
}

static uint32_t segments_completed(const struct trial_play *play)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRIAL_SCRIPT_MODELS; i++) {
        count += play->completed[i];
    }
    return count;
}

static void hold_slices(struct trial_play *play, const struct gw_trial_look *look)
{
    static const struct pol_held nobody = {.count = 0};
    struct pol_held found;
    if (play->failed == 0 || segments_completed(play) < 2) {
        return;
    }
    gw_trial_blocks_slices(play->blocks, look, &nobody, &play->slices);
    pol_slices_judge(&play->release->stages[0].gate, &play->slices, NULL, &found);
    pol_held_add(&play->held, &found);
}

// A tick of the core. True: the stage is over.
static bool tick(struct trial_play *play, uint32_t step, struct trial_seen *out)
{
    struct pol_counts counts = {.offered = 0};
    struct gw_trial_look look = {
        .heard_s = now_s(step) - 1, .offers_s = now_s(step) - GW_TRIAL_LAG_S, .held = &play->held};
    hold_slices(play, &look);
    gw_trial_blocks_judged(play->blocks, &look, &counts.trial);
    struct pol_decision decision = pol_rollout_tick(&play->rollout, play->release->stages, STAGES,
                                                    &counts, (uint64_t)now_s(step) * 1000000);
    play->rollout = decision.next;
    out->trial = counts.trial;
    out->reason = decision.reason;
    out->held = play->held.count;
    out->stopped = decision.next.stage_failed;
    out->passed = decision.next.state == POL_ROLLOUT_WAITING;
    return out->stopped || out->passed;
}

static bool begin(struct trial_play *play, struct trial_script *script, const struct pol_gate *gate)
{
    struct gw_release *release = play->release;
    const struct pol_rollout draft = {.state = POL_ROLLOUT_DRAFT};
    release->checkin_interval_s = TRIAL_SCRIPT_INTERVAL_S;
    release->stage_count = STAGES;
    trial_script_stages(gate, release->stages);
    play->rollout = pol_rollout_command(&draft, release->stages, STAGES, POL_COMMAND_START,
                                        TRIAL_SCRIPT_BEGIN_S * 1000000)
                        .next;
    play->script = script;
    play->held.count = 0;
    play->failed = 0;
    memset(play->completed, 0, sizeof(play->completed));
    gw_trial_blocks_free(play->blocks);
    play->blocks = gw_trial_blocks_new(release);
    return play->blocks != NULL;
}

bool trial_play_run(struct trial_play *play, struct trial_script *script,
                    const struct pol_gate *gate, struct trial_seen *out)
{
    bool over = false;
    *out = (struct trial_seen){.stopped = false};
    if (!begin(play, script, gate)) {
        return false;
    }
    for (; out->steps < TRIAL_SCRIPT_STEPS && !over; out->steps++) {
        report(play, out->steps);
        come(play, out->steps);
        over = trial_script_is_due(script, out->steps) && tick(play, out->steps, out);
    }
    return gw_trial_blocks_lost(play->blocks) == 0;
}
