// Budgets and the end of unproven devices' records. _admit on workers, _step on the control thread;
// the deletes run on the writer thread while the control thread waits. checkin_answer.c and
// report_intake.c ask on a worker whether a record may begin, control_thread.c steps,
// metrics_text.c asks for figures. A step ends a bounded number of records: in memory and in the
// store in one go, and what they counted in rollouts stays.
#include "svc/device/strangers.h"

#include "svc/core_private.h"
#include "svc/access/peer_limits.h"
#include "svc/device/record_edit.h"
#include "svc/access/credentials.h"

#include <stdlib.h>

struct gw_strangers {
    uint64_t records_max;
    uint32_t expire_s;
    struct gw_peer_limits *peers;
    uint32_t shard; // where the walk is
    uint32_t entry;
    _Atomic uint64_t refused;
    _Atomic uint64_t expired;
    uint64_t ids[GW_EXPIRE_SLICE];
};

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

enum base_status gw_strangers_new(const struct gw_core_options *options,
                                  const struct base_hash_key *key, struct gw_strangers **out)
{
    struct gw_strangers *strangers = calloc(1, sizeof(*strangers));
    if (strangers == NULL) {
        return BASE_ERR_NOMEM;
    }
    strangers->records_max = or_default(options->unproven_records, GW_UNPROVEN_RECORDS);
    strangers->expire_s = (uint32_t)or_default(options->unproven_expire_s, GW_UNPROVEN_EXPIRE_S);
    uint64_t each = or_default(options->unproven_per_address, GW_UNPROVEN_PER_ADDRESS);
    const struct pol_ratelimit_config config = {
        .burst = each,
        .refill = each,
        .interval_us = (uint64_t)strangers->expire_s * 1000000u,
    };
    enum base_status status = gw_peer_limits_new(key, &config, &strangers->peers);
    if (status != BASE_OK) {
        gw_strangers_free(strangers);
        return status;
    }
    *out = strangers;
    return BASE_OK;
}

void gw_strangers_free(struct gw_strangers *strangers)
{
    if (strangers != NULL) {
        gw_peer_limits_free(strangers->peers);
        free(strangers);
    }
}

bool gw_strangers_admit(struct gw_core *core, uint64_t peer)
{
    struct gw_strangers *strangers = core->strangers;
    bool admitted =
        gw_device_table_unproven(core->table) < strangers->records_max &&
        gw_peer_limits_take(strangers->peers, peer, core->clock.mono_us(core->clock.ctx));
    if (!admitted) {
        atomic_fetch_add_explicit(&strangers->refused, 1, memory_order_relaxed);
    }
    return admitted;
}

void gw_strangers_stats(const struct gw_strangers *strangers, struct gw_strangers_stats *out)
{
    out->refused = atomic_load_explicit(&strangers->refused, memory_order_relaxed);
    out->expired = atomic_load_explicit(&strangers->expired, memory_order_relaxed);
}

// ---- The end

struct expire_op {
    struct gw_store_op op;
    struct gw_core *core;
    const uint64_t *ids;
    uint32_t count;
    uint32_t seen_s;
    uint32_t ended;
};

// Whoever is known by a credential is kept, seen or not.
static bool keep(void *ctx, uint64_t device_id)
{
    const struct gw_core *core = ctx;
    return gw_credentials_count(core->credentials) > 0 &&
           gw_credentials_state(core->credentials, device_id) != GW_CREDENTIAL_NONE;
}

// What was heard of it since it left the table is in the record, or in the table again: then it
// stays.
static enum base_status expire_one(struct gw_store_txn *txn, struct expire_op *expire,
                                   uint64_t device_id)
{
    struct gw_record_edit edit = {.core = expire->core, .txn = txn, .device_id = device_id};
    struct gw_key key = gw_key_u64(device_id);
    if (gw_device_table_has(expire->core->table, device_id)) {
        return BASE_OK;
    }
    BASE_TRY(gw_record_edit_begin(&edit, NULL));
    if (edit.record.proven || edit.record.last_seen_s >= expire->seen_s) {
        return BASE_OK;
    }
    BASE_TRY(gw_record_edit_archive(&edit));
    enum base_status status = gw_store_txn_delete(txn, GW_TABLE_DEVICES, &key);
    expire->ended += status == BASE_OK;
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

static enum base_status apply_expire(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct expire_op *expire = (struct expire_op *)self;
    expire->ended = 0;
    for (uint32_t i = 0; i < expire->count; i++) {
        BASE_TRY(expire_one(txn, expire, expire->ids[i]));
    }
    return BASE_OK;
}

// Not on disk: a restart finds the records again, and ends them then.
static void end_records(struct gw_core *core, uint32_t count, uint32_t seen_s)
{
    struct gw_strangers *strangers = core->strangers;
    struct expire_op expire = {
        .core = core, .ids = strangers->ids, .count = count, .seen_s = seen_s};
    expire.op.apply = apply_expire;
    expire.op.sort_key = strangers->ids[0];
    enum base_status status = gw_store_submit_wait(core->store, &expire.op);
    if (status != BASE_OK) {
        base_log_warn(core->log, "devices",
                      "records of %u devices that expired cannot be removed: %s", count,
                      base_status_text(status));
        return;
    }
    atomic_fetch_add_explicit(&strangers->expired, expire.ended, memory_order_relaxed);
}

void gw_strangers_step(struct gw_core *core)
{
    struct gw_strangers *strangers = core->strangers;
    uint32_t now_s = gw_core_now_s(core);
    struct gw_device_forgotten forgotten = {.ids = strangers->ids};
    if (gw_device_table_unproven(core->table) == 0 || now_s < strangers->expire_s) {
        return;
    }
    const struct gw_device_expiry expiry = {
        .seen_s = now_s - strangers->expire_s, .keep = keep, .ctx = core};
    // As many shards as a slice has devices for, none twice.
    uint32_t left = GW_EXPIRE_SLICE;
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS && left > 0; i++) {
        uint32_t seen = gw_device_table_expire(
            core->table, (struct gw_device_place){strangers->shard, strangers->entry}, left,
            &expiry, &forgotten);
        strangers->entry += seen;
        if (seen < left) {
            strangers->entry = 0;
            strangers->shard = (strangers->shard + 1) % GW_DEVICE_TABLE_SHARDS;
        }
        left -= seen;
    }
    if (forgotten.count > 0) {
        end_records(core, forgotten.count, expiry.seen_s);
    }
}
