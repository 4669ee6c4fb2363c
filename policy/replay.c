// Replays of recorded rollouts. Called by the operator's command
// (gateway/cli/rollout/rollout_replay.c) and by tests, on their thread; the caller keeps the state
// between records. It runs the machine itself (rollout.c, slices.c) on what was recorded, and
// compares all of what it decides with the record. A look at slices comes from outside and is
// checked against what the replay knows before it is judged, since a log may be damaged or made up.
#include "policy/replay.h"

#include "policy/stat/assert.h"

void pol_replay_init(struct pol_replay *replay, uint64_t created_us)
{
    *replay = (struct pol_replay){0};
    replay->rollout.state = POL_ROLLOUT_DRAFT;
    replay->rollout.stage_since_us = created_us;
}

bool pol_rollout_equal(const struct pol_rollout *a, const struct pol_rollout *b)
{
    return a->state == b->state && a->stage_index == b->stage_index &&
           a->before_first == b->before_first && a->stage_failed == b->stage_failed &&
           a->paged == b->paged && a->killed == b->killed && a->guarding == b->guarding &&
           a->passed == b->passed && a->stage_since_us == b->stage_since_us;
}

// Whether a look fits what the replay knows: a stage is open, as many slices are held as it says,
// and none is listed that is held or was lifted, none twice.
static bool look_fits(const struct pol_replay *replay, uint32_t stage_count,
                      const struct pol_slices *slices)
{
    const struct pol_rollout *rollout = &replay->rollout;
    bool open = (rollout->state == POL_ROLLOUT_RUNNING || rollout->state == POL_ROLLOUT_WAITING ||
                 rollout->state == POL_ROLLOUT_GUARDING) &&
                !rollout->before_first && rollout->stage_index < stage_count;
    bool fits = open && slices->held_count == replay->held.count &&
                slices->count <= POL_SLICES_MAX && slices->failing_count <= slices->count;
    uint64_t completed = 0;
    for (uint32_t i = 0; fits && i < slices->failing_count; i++) {
        const struct pol_slice *slice = &slices->failing[i];
        completed += slice->seen.trials;
        fits = slice->seen.failures > 0 && slice->seen.failures <= slice->seen.trials &&
               completed <= slices->completed && !pol_held_has(&replay->held, slice->name) &&
               !pol_held_has(&replay->lifted, slice->name);
        for (uint32_t k = 0; fits && k < i; k++) {
            fits = slices->failing[k].name != slice->name;
        }
    }
    return fits;
}

// True: the slices found are those recorded.
static bool replay_look(struct pol_replay *replay, const struct pol_stage *stages,
                        uint32_t stage_count, const struct pol_record *record)
{
    if (!look_fits(replay, stage_count, &record->slices)) {
        return false;
    }
    pol_assert(replay->rollout.stage_index < stage_count); // look_fits saw it
    pol_slices_judge(&stages[replay->rollout.stage_index].gate, &record->slices,
                     &record->counts.control, &replay->found);
    pol_held_add(&replay->held, &replay->found);
    return pol_held_equal(&replay->found, &record->held);
}

static bool replay_lift(struct pol_replay *replay, const struct pol_held *lifted)
{
    bool all = lifted->count > 0;
    for (uint32_t i = 0; i < lifted->count && i < POL_HELD_MAX; i++) {
        all = pol_held_lift(&replay->held, &replay->lifted, lifted->names[i]) && all;
    }
    return all;
}

struct pol_decision pol_replay_step(struct pol_replay *replay, const struct pol_stage *stages,
                                    uint32_t stage_count, const struct pol_record *record,
                                    bool *out_differs)
{
    struct pol_decision decision = {
        .action = POL_ACTION_HOLD, .reason = POL_REASON_NONE, .next = replay->rollout};
    bool judged = false;
    bool same_slices = true;
    replay->found.count = 0;
    switch (record->kind) {
    case POL_RECORD_TICK:
        decision = pol_rollout_tick(&replay->rollout, stages, stage_count, &record->counts,
                                    record->now_us);
        judged = true;
        break;
    case POL_RECORD_COMMAND:
        decision = pol_rollout_command(&replay->rollout, stages, stage_count, record->command,
                                       record->now_us);
        judged = true;
        break;
    case POL_RECORD_CLOCK:
        decision.next.stage_since_us = record->now_us;
        break;
    case POL_RECORD_SLICES:
        same_slices = replay_look(replay, stages, stage_count, record);
        break;
    case POL_RECORD_LIFT:
        same_slices = replay_lift(replay, &record->held);
        break;
    case POL_RECORD_NOTE:
    case POL_RECORD_KIND_COUNT:
        break;
    }
    pol_assert(replay->held.count <= POL_HELD_MAX);
    pol_assert(replay->lifted.count <= POL_HELD_MAX);
    if (decision.next.stage_index != replay->rollout.stage_index) {
        replay->lifted.count = 0;
    }
    replay->rollout = decision.next;
    replay->records++;
    replay->decisions += (judged && decision.action != POL_ACTION_HOLD) || replay->found.count > 0;
    // Logs from before commands had reasons of their own.
    bool unnamed = record->kind == POL_RECORD_COMMAND && record->reason == POL_REASON_OPERATOR;
    bool apart = !same_slices || !pol_rollout_equal(&decision.next, &record->after);
    *out_differs = apart || (judged && (decision.action != record->action ||
                                        decision.verdict != record->verdict ||
                                        (decision.reason != record->reason && !unnamed)));
    replay->apart = replay->apart || apart;
    replay->differences += *out_differs;
    return decision;
}
