// What a change of the wall clock does to a rollout: nothing, as far as one can tell. At start, and
// when an operator accepts another time. Control thread. rollouts.c calls at start, core_clock.c
// for a change. All moments a rollout keeps are moved by the same amount, so how long a stage has
// been open stays as it was; the log gets a line, without which a replay would find another time.
#include "svc/rollout/rollout_state.h"

void gw_rollout_mend_clock(struct gw_core *core, struct gw_rollout *rollout)
{
    uint64_t now_us = gw_core_now_us(core);
    if (rollout->rollback_since_us > now_us) {
        rollout->rollback_since_us = now_us;
    }
    if (gw_rollout_is_closed(rollout)) {
        return;
    }
    uint64_t last = gw_rollout_last_line(core, rollout->release->id, rollout->log_seq + 1);
    rollout->log_seq = last > rollout->log_seq ? last : rollout->log_seq;
    if (rollout->state.stage_since_us <= now_us) {
        return;
    }
    rollout->state.stage_since_us = now_us;
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_CLOCK, NULL, &change);
    change.line.record.kind = POL_RECORD_CLOCK;
    change.line.record.now_us = now_us;
    change.line.record.after = rollout->state;
    change.line.revision = rollout->revision;
    rollout->log_seq = change.line.seq;
    gw_rollout_note(core, rollout->release->id, &change.line);
}

static uint64_t moved(uint64_t at_us, int64_t by_us)
{
    uint64_t to_us = at_us + (uint64_t)by_us;
    return by_us < 0 && to_us > at_us ? 1 : to_us; // before 1970
}

static bool moves(const struct gw_rollout *rollout)
{
    return rollout->state.state != POL_ROLLOUT_DRAFT && !gw_rollout_is_closed(rollout);
}

void gw_rollout_time_moved(struct gw_core *core, struct gw_rollout *rollout, int64_t by_us)
{
    if (moves(rollout)) {
        // Rounded down, a trial's time never goes back.
        int64_t part_us = by_us % 1000000;
        rollout->moved_s += by_us / 1000000 - (part_us < 0);
        gw_rollout_tell_tally(core, rollout);
    }
}

enum base_status gw_rollout_move(struct gw_core *core, struct gw_rollout *rollout, int64_t by_us)
{
    if (!moves(rollout)) {
        return BASE_OK;
    }
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_CLOCK, NULL, &change);
    change.next.state.stage_since_us = moved(rollout->state.stage_since_us, by_us);
    if (rollout->rollback_since_us > 0) {
        change.next.rollback_since_us = moved(rollout->rollback_since_us, by_us);
    }
    change.line.record.kind = POL_RECORD_CLOCK;
    change.line.record.now_us = change.next.state.stage_since_us;
    return gw_rollout_commit(core, rollout, &change);
}
