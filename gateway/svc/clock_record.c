// The record of the core's time in the store, by which a start with a wrong clock is noticed, and
// what an operator's word that the wall clock is right means for everything that goes by the time.
//
//   meta["clock"]          := u64 time_us
//   meta["clock_accepted"] := u64 time_us, when somebody accepted a jump last
//
// Control thread.
#include "svc/access/audit.h"
#include "svc/control.h"
#include "svc/core_private.h"
#include "svc/device/device_table.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/rollout/watch.h"
#include "svc/rollout/way_back.h"
#include "svc/tally/tally.h"

#include <stdlib.h>

#define ROW_TIME     "clock"
#define ROW_ACCEPTED "clock_accepted"
#define ROW_DOUBTED  "clock_doubted" // what it showed when it was ahead last; 0: it was sure since
#define SECOND_US    1000000u

static void say_doubt(const struct gw_core *core)
{
    const struct gw_clock_guard *guard = &core->time.guard;
    base_log_error(core->log, "clock",
                   "the wall clock is %lld s %s where it should be (%s): nothing is signed with a "
                   "later time and no rollout goes on until it is back, or until 'walle clock "
                   "accept'",
                   llabs(guard->ahead_us / (int64_t)SECOND_US),
                   guard->ahead_us < 0 ? "behind" : "ahead of", gw_clock_doubt_name(guard->doubt));
}

static void doubt_began(struct gw_core *core)
{
    atomic_fetch_add_explicit(&core->time.doubts, 1, memory_order_relaxed);
    say_doubt(core);
}

struct clock_op {
    struct gw_store_op op;
    bool accepted;
    uint8_t bytes[8];
    uint8_t doubted[8];
};

static enum base_status clock_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct clock_op *row = (const struct clock_op *)self;
    struct gw_key time = gw_key_text(ROW_TIME);
    struct gw_key accepted = gw_key_text(ROW_ACCEPTED);
    struct gw_key doubted = gw_key_text(ROW_DOUBTED);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_META, &doubted, row->doubted, sizeof(row->doubted)));
    if (row->accepted) {
        BASE_TRY(gw_store_txn_put(txn, GW_TABLE_META, &accepted, row->bytes, sizeof(row->bytes)));
    }
    return gw_store_txn_put(txn, GW_TABLE_META, &time, row->bytes, sizeof(row->bytes));
}

static void put_u64(uint8_t out[8], uint64_t value)
{
    struct base_writer writer;
    base_writer_init(&writer, out, 8);
    base_writer_u64(&writer, value);
}

static enum base_status record(struct gw_core *core, uint64_t time_us, bool accepted)
{
    const struct gw_clock_guard *guard = &core->time.guard;
    struct clock_op row = {.op = {.apply = clock_apply}, .accepted = accepted};
    put_u64(row.bytes, time_us);
    put_u64(row.doubted, guard->doubt == GW_CLOCK_AHEAD ? guard->last.wall_us : 0);
    core->time.recorded_us = time_us; // also when it fails: the next one is not at every tick
    return gw_audit_submit_wait(core, &row.op);
}

static enum base_status recorded(struct gw_core *core, const char *name, uint64_t *out_us)
{
    struct gw_store_read *read = NULL;
    struct gw_key key = gw_key_text(name);
    struct base_span value;
    *out_us = 0;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_META, &key, &value);
    if (status == BASE_OK) {
        struct base_reader reader;
        base_reader_init(&reader, value.data, value.size);
        *out_us = base_reader_u64(&reader);
        status = base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
    }
    gw_store_read_end(read);
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

enum base_status gw_core_clock_begin(struct gw_core *core, uint64_t born_s)
{
    struct gw_clock_look now = gw_core_clock_look(core);
    uint64_t accepted_us = 0;
    BASE_TRY(recorded(core, ROW_TIME, &core->time.recorded_us));
    BASE_TRY(recorded(core, ROW_ACCEPTED, &accepted_us));
    core->time.accepted_s = (uint32_t)(accepted_us / SECOND_US);
    uint64_t doubted_us = 0;
    BASE_TRY(recorded(core, ROW_DOUBTED, &doubted_us));
    gw_clock_guard_begin(&core->time.guard, &now, core->time.recorded_us, born_s * SECOND_US);
    gw_clock_guard_still_ahead(&core->time.guard, core->time.recorded_us, doubted_us);
    gw_core_clock_tell(core);
    if (core->time.guard.doubt != GW_CLOCK_SURE) {
        doubt_began(core);
    }
    return BASE_OK;
}

void gw_core_clock_step(struct gw_core *core)
{
    struct gw_core_clock *time = &core->time;
    struct gw_clock_look now = gw_core_clock_look(core);
    bool sure = time->guard.doubt == GW_CLOCK_SURE;
    bool changed = gw_clock_guard_look(&time->guard, &now);
    gw_core_clock_tell(core);
    if (changed && time->guard.doubt != GW_CLOCK_SURE) {
        if (sure) {
            doubt_began(core);
        } else {
            say_doubt(core); // the clock turned again
        }
    } else if (changed) {
        base_log_info(core->log, "clock", "the wall clock is back: the time is sure again");
    }
    // A doubt outlasts the process: it may end before the clock is right, or accepted.
    uint64_t time_us = gw_core_sure_us(core);
    bool due =
        time->guard.doubt == GW_CLOCK_SURE && time_us >= time->recorded_us + GW_CLOCK_RECORD_US;
    if ((changed || due) && record(core, time_us, false) != BASE_OK) {
        base_log_debug(core->log, "clock", "the time could not be recorded");
    }
}

// A rollout that devices were offered. One that waits for its first approval has nobody.
static bool is_under_way(const struct pol_rollout *rollout)
{
    return rollout->state == POL_ROLLOUT_RUNNING || rollout->state == POL_ROLLOUT_GUARDING ||
           (rollout->state == POL_ROLLOUT_WAITING && !rollout->before_first);
}

// Every rollout under way goes on from where it was, when somebody says so.
static enum base_status move_rollouts(struct gw_core *core, int64_t moved_us,
                                      const struct gw_rollout_who *who, uint32_t *out_paused)
{
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog->rollouts[i];
        BASE_TRY(gw_rollout_move(core, rollout, moved_us));
        if (is_under_way(&rollout->state)) {
            struct base_error ignored = {0};
            BASE_TRY(
                gw_rollout_command(core, rollout->release->id, POL_COMMAND_PAUSE, who, &ignored));
            ++*out_paused;
        }
    }
    return BASE_OK;
}

enum base_status gw_clock_accept(struct gw_core *core, struct base_str by, struct base_str reason,
                                 struct gw_clock_accepted *out, struct base_error *error)
{
    struct gw_clock_look now = gw_core_clock_look(core);
    const struct gw_rollout_who who = {.by = by, .comment = reason};
    bool doubted = core->time.guard.doubt != GW_CLOCK_SURE;
    *out = (struct gw_clock_accepted){0};
    if (!doubted) {
        return BASE_OK; // there is nothing to accept
    }
    out->moved_us = gw_clock_guard_accept(&core->time.guard, &now);
    gw_core_clock_tell(core);
    base_log_warn(core->log, "clock", "accepted: the time moved by %lld s",
                  (long long)(out->moved_us / (int64_t)SECOND_US));
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        gw_rollout_time_moved(core, core->catalog->rollouts[i], out->moved_us);
    }
    core->time.accepted_s = gw_core_now_s(core);
    gw_tally_tick(core->tally, core->time.accepted_s);
    gw_tally_time_moved(core->tally, core->time.accepted_s);
    gw_device_table_time_moved(core->table, core->time.accepted_s);
    gw_watch_time_moved(core->watch);
    gw_way_back_time_moved(core->way_back);
    enum base_status status = record(core, gw_core_now_us(core), true);
    if (status == BASE_OK) {
        status = move_rollouts(core, out->moved_us, &who, &out->paused);
    }
    gw_core_publish(core); // what was signed by another time is signed anew
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "accepted, but not all of it could be stored: %s",
                                base_status_text(status));
}
