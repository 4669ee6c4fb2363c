// Kills as operators order them: the list, and with it the rollouts of the version. Control thread;
// called by api_trust.c, and by core.c at start. The list is on disk before a rollout is touched;
// what a death cuts off in between is done at the next start.
#include "svc/rollout/kill_commands.h"

#include "base/text/str_cut.h"
#include "svc/access/operators.h"
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/kill_places.h"
#include "svc/rollout/kill_rollouts.h"
#include "svc/rollout/publish.h"
#include "svc/trust/director_private.h"

static void say_yielded(struct gw_core *core, const struct gw_kill *kill)
{
    char hex[WIRE_SHA256_HEX + 1];
    char tenant[GW_TENANT_NAME_MAX + 1];
    wire_sha256_hex(&kill->manifest, hex);
    gw_tenant_name(core, kill->tenant, tenant);
    base_log_error(
        core->log, "trust",
        "the kill list is full: %s of tenant %s, which has the most, gave way to another", hex,
        tenant);
    atomic_fetch_add_explicit(&core->director->kills_yielded, 1, memory_order_relaxed);
}

// `asker`: a tenant, or GW_TENANT_EVERY.
static enum base_status list_kill(struct gw_core *core, const struct gw_kill *kill, uint16_t asker,
                                  struct base_error *error)
{
    struct gw_kill yielded;
    bool full = core->director->kill_count >= GW_KILLS_MAX;
    if (full) {
        BASE_TRY(gw_kill_places_yield(core, asker, &yielded, error));
    }
    BASE_TRY(gw_kills_add(core, kill, full ? &yielded : NULL, error));
    if (full) {
        say_yielded(core, &yielded);
    }
    return BASE_OK;
}

// `everywhere`: for all tenants.
static enum base_status put_kill(struct gw_core *core, const struct gw_kill_order *order,
                                 bool everywhere, bool *out_created, struct base_error *error)
{
    struct gw_kill kill = {.manifest = *order->manifest,
                           .time_us = gw_core_now_us(core),
                           .tenant = gw_kill_places_owner(core, order->manifest)};
    *out_created = false;
    if (gw_director_kills(core, order->manifest)) {
        return BASE_OK;
    }
    base_str_copy(order->by, kill.by, sizeof(kill.by));
    base_str_copy(order->reason, kill.reason, sizeof(kill.reason));
    BASE_TRY(list_kill(core, &kill, everywhere ? GW_TENANT_EVERY : kill.tenant, error));
    *out_created = true;
    return BASE_OK;
}

enum base_status gw_trust_list(struct gw_core *core, const struct gw_kill_order *order,
                               bool *out_created, struct base_error *error)
{
    return put_kill(core, order, false, out_created, error);
}

enum base_status gw_trust_kill(struct gw_core *core, const struct gw_kill_order *order,
                               bool *out_created, struct base_error *error)
{
    const struct gw_rollout_who who = {.by = order->by, .comment = order->reason};
    BASE_TRY(put_kill(core, order, true, out_created, error));
    gw_kill_rollouts(core, order->manifest, *out_created, &who);
    return BASE_OK;
}

enum base_status gw_trust_unkill(struct gw_core *core, const struct gw_kill_order *order,
                                 struct base_error *error)
{
    struct gw_kill end = {.manifest = *order->manifest, .time_us = gw_core_now_us(core)};
    if (!gw_director_kills(core, order->manifest)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "the version is not on the kill list");
    }
    base_str_copy(order->by, end.by, sizeof(end.by));
    base_str_copy(order->reason, end.reason, sizeof(end.reason));
    BASE_TRY(gw_kills_end(core, &end, error));
    gw_core_publish(core);
    return BASE_OK;
}

// One is cut off at most, unless logs could not be written; an end that is there again after it was
// said could not be taken away, and waits for another start.
static void finish_ends(struct gw_core *core)
{
    struct gw_kill end;
    struct gw_kill before = {.time_us = 0};
    while (gw_kills_next_end(core, &end) && !wire_sha256_equal(&end.manifest, &before.manifest)) {
        gw_kill_finish_end(core, &end);
        before = end;
    }
}

void gw_trust_finish_kills(struct gw_core *core)
{
    finish_ends(core);
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog->rollouts[i];
        const struct wire_sha256 *manifest = &rollout->release->manifest;
        struct gw_kill *kill = gw_kills_entry(core->director, manifest);
        if (kill != NULL) {
            kill->tenant = rollout->task->tenant;
            gw_kill_finish(core, rollout, kill);
        }
    }
}
