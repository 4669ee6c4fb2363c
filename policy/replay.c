// Replays of recorded rollouts. Called by the operator's command and by tests; the caller keeps the
// state between records.
#include "policy/replay.h"

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
           a->paged == b->paged && a->killed == b->killed && a->stage_since_us == b->stage_since_us;
}

struct pol_decision pol_replay_step(struct pol_replay *replay, const struct pol_stage *stages,
                                    uint32_t stage_count, const struct pol_record *record,
                                    bool *out_differs)
{
    struct pol_decision decision = {
        .action = POL_ACTION_HOLD, .reason = POL_REASON_NONE, .next = replay->rollout};
    bool judged = false;
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
    case POL_RECORD_NOTE:
    case POL_RECORD_KIND_COUNT:
        break;
    }
    replay->rollout = decision.next;
    replay->records++;
    replay->decisions += judged && decision.action != POL_ACTION_HOLD;
    *out_differs =
        !pol_rollout_equal(&decision.next, &record->after) ||
        (judged && (decision.action != record->action || decision.verdict != record->verdict ||
                    decision.reason != record->reason));
    replay->differences += *out_differs;
    return decision;
}
