// Reading the kill list: its rows, the versions they name, the rollouts of these. Control thread;
// see kill_list.h. Callers are api_trust.c, api_rollouts.c and api_audit.c. It only reads: putting
// on and off is director_trust.c, what that does to rollouts is kill_rollouts.c. A version that
// nobody pushed has a hash and no name.
#include "svc/rollout/kill_list.h"

#include "svc/core_private.h"
#include "wire/manifest.h"

#include <stdlib.h>
#include <string.h>

static struct gw_kill_view *find(struct gw_kill_view *views, uint32_t count,
                                 const struct wire_sha256 *manifest)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = memcmp(views[middle].manifest.bytes, manifest->bytes, WIRE_SHA256_BYTES);
        if (order == 0) {
            return &views[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

// One that had gone back before was ended by something else.
static bool was_ended(const struct gw_rollout *rollout, uint64_t kill_us)
{
    bool back = rollout->state.state == POL_ROLLOUT_ROLLING_BACK ||
                rollout->state.state == POL_ROLLOUT_ROLLED_BACK;
    uint64_t since_us =
        rollout->rollback_since_us > 0 ? rollout->rollback_since_us : rollout->closed_us;
    return !back || since_us >= kill_us;
}

static void add_rollouts(const struct gw_core *core, struct gw_kill_view *views, uint32_t count)
{
    for (uint32_t i = 0; i < core->catalog.rollout_count; i++) {
        const struct gw_rollout *rollout = core->catalog.rollouts[i];
        struct gw_kill_view *view = find(views, count, &rollout->release->manifest);
        if (view == NULL) {
            continue;
        }
        memcpy(view->task, rollout->release->task, sizeof(view->task));
        if (!was_ended(rollout, view->time_us)) {
            continue;
        }
        if (view->rollout_count < GW_KILL_ROLLOUTS_MAX) {
            view->rollouts[view->rollout_count] = rollout->release->id;
        }
        view->rollout_count++;
    }
}

// The task of a version that was never released: its manifest says it, where it was pushed.
static void find_task(struct gw_core *core, struct gw_kill_view *view)
{
    struct gw_store_bytes bytes;
    if (gw_store_blob_load(core->store, &view->manifest, &bytes) != BASE_OK) {
        return;
    }
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    if (manifest != NULL && wire_manifest_parse(bytes.data, bytes.size, manifest) == BASE_OK &&
        manifest->task_name.size <= WIRE_TASK_NAME_MAX) {
        memcpy(view->task, manifest->task_name.data, manifest->task_name.size);
    }
    free(manifest);
    gw_store_bytes_done(&bytes);
}

static void name_version(struct gw_core *core, struct gw_kill_view *view)
{
    struct gw_version_view version;
    if (view->task[0] == '\0') {
        find_task(core, view);
    }
    if (view->task[0] != '\0' && gw_catalog_version_get(core, base_str_of(view->task),
                                                        &view->manifest, &version) == BASE_OK) {
        memcpy(view->version, version.version, sizeof(view->version));
    }
}

static struct gw_kill_view view_of(const struct gw_kill *kill)
{
    return (struct gw_kill_view){.manifest = kill->manifest,
                                 .version_id = wire_version_id(&kill->manifest),
                                 .tenant = kill->tenant,
                                 .is_killed = true,
                                 .time_us = kill->time_us,
                                 .by = kill->by,
                                 .reason = kill->reason,
                                 .is_signed = kill->told == GW_KILL_TOLD,
                                 .is_untold = kill->told == GW_KILL_UNTOLD};
}

void gw_kill_get(struct gw_core *core, const struct wire_sha256 *manifest, struct gw_kill_view *out)
{
    const struct gw_kill *kill = gw_director_kill(&core->director, manifest);
    *out = kill != NULL ? view_of(kill)
                        : (struct gw_kill_view){.manifest = *manifest,
                                                .version_id = wire_version_id(manifest),
                                                .tenant = GW_TENANT_EVERY,
                                                .by = "",
                                                .reason = ""};
    add_rollouts(core, out, 1);
    out->rollout_count = kill != NULL ? out->rollout_count : 0;
    name_version(core, out);
}

uint32_t gw_kill_list(struct gw_core *core, const struct wire_sha256 *after, uint32_t limit,
                      struct gw_kill_view *out, bool *out_more)
{
    const struct gw_director *director = &core->director;
    uint32_t count = 0;
    bool more = false;
    for (uint32_t i = 0; i < director->kill_count && !more; i++) {
        const struct gw_kill *kill = &director->kills[i];
        if (after != NULL && memcmp(kill->manifest.bytes, after->bytes, WIRE_SHA256_BYTES) <= 0) {
            continue;
        }
        if (count == limit) {
            more = true;
            continue;
        }
        out[count++] = view_of(kill);
    }
    add_rollouts(core, out, count);
    for (uint32_t i = 0; i < count; i++) {
        name_version(core, &out[i]);
    }
    *out_more = more;
    return count;
}
