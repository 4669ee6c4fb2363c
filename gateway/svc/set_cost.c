// The cost of sets of versions, as set_cost.h says. Called when a rollout is made and when somebody
// asks what it would cost; control thread.
#include "svc/set_cost.h"

#include "svc/core_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS    1024u // of what is kept
#define NAMES_TEXT 72u   // of an error's text, for names

// What a version declares. Content named by its hash never changes.
struct kept {
    struct kept *next; // in the bucket
    struct wire_sha256 manifest;
    struct dev_declaration_cost cost; // alone
    uint32_t size;                    // 0: it declares nothing
    uint8_t bytes[];
};

struct gw_set_costs {
    size_t bytes;
    struct kept *buckets[BUCKETS];
};

enum base_status gw_set_costs_new(struct gw_set_costs **out)
{
    struct gw_set_costs *costs = calloc(1, sizeof(*costs));
    if (costs == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out = costs;
    return BASE_OK;
}

static void forget_all(struct gw_set_costs *costs)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (costs->buckets[i] != NULL) {
            struct kept *kept = costs->buckets[i];
            costs->buckets[i] = kept->next;
            free(kept);
        }
    }
    costs->bytes = 0;
}

void gw_set_costs_free(struct gw_set_costs *costs)
{
    if (costs != NULL) {
        forget_all(costs);
        free(costs);
    }
}

// ---- What a version declares

static struct kept **bucket_of(struct gw_set_costs *costs, const struct wire_sha256 *manifest)
{
    uint32_t hash;
    memcpy(&hash, manifest->bytes, sizeof(hash));
    return &costs->buckets[hash % BUCKETS];
}

static enum base_status make_kept(const struct wire_manifest *manifest,
                                  const struct wire_sha256 *digest, struct kept **out,
                                  struct base_error *error)
{
    struct base_str bytes = manifest->declaration;
    struct kept *kept = calloc(1, sizeof(*kept) + bytes.size);
    if (kept == NULL) {
        return BASE_ERR_NOMEM;
    }
    kept->manifest = *digest;
    kept->size = (uint32_t)bytes.size;
    if (bytes.size > 0) {
        memcpy(kept->bytes, bytes.data, bytes.size);
        const struct dev_declared_task alone = {.name = manifest->task_name, .declaration = bytes};
        enum base_status status =
            dev_declaration_cost(&alone, 1, base_alloc_heap(), &kept->cost, error);
        if (status != BASE_OK) {
            free(kept);
            return status;
        }
    }
    *out = kept;
    return BASE_OK;
}

static enum base_status read_kept(struct gw_core *core, const struct wire_sha256 *digest,
                                  struct kept **out, struct base_error *error)
{
    struct gw_store_bytes bytes;
    BASE_TRY(gw_store_blob_load(core->store, digest, &bytes));
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    enum base_status status = BASE_ERR_NOMEM;
    if (manifest != NULL) {
        status = wire_manifest_parse(bytes.data, bytes.size, manifest);
    }
    if (status == BASE_OK) {
        status = make_kept(manifest, digest, out, error);
    }
    free(manifest);
    gw_store_bytes_done(&bytes);
    return status;
}

// *out lives until memory is cleared: at the latest to the next gw_set_cost_find.
static enum base_status look(struct gw_core *core, const struct wire_sha256 *digest,
                             const struct kept **out, struct base_error *error)
{
    struct kept **bucket = bucket_of(core->set_costs, digest);
    for (struct kept *kept = *bucket; kept != NULL; kept = kept->next) {
        if (wire_sha256_equal(&kept->manifest, digest)) {
            *out = kept;
            return BASE_OK;
        }
    }
    struct kept *kept = NULL;
    BASE_TRY(read_kept(core, digest, &kept, error));
    kept->next = *bucket;
    *bucket = kept;
    core->set_costs->bytes += sizeof(*kept) + kept->size;
    *out = kept;
    return BASE_OK;
}

// ---- The set

struct member {
    const struct gw_task *task;
    uint64_t rollout;
    const struct kept *kept;
    uint64_t share_ppm;
};

struct set {
    struct member *members;
    uint32_t count;
};

// The dearest version of another task that may be on a device beside the one that is asked about.
static enum base_status dearest(struct gw_core *core, const struct gw_task *task,
                                const struct pol_target *target, struct member *out)
{
    *out = (struct member){.task = task};
    for (uint32_t i = 0; i <= task->open_count; i++) {
        const struct gw_rollout *rollout =
            i < task->open_count ? task->open[i] : task->baseline; // the last one
        const struct kept *kept = NULL;
        if (rollout == NULL || !pol_targets_meet(target, &rollout->release->target)) {
            continue;
        }
        enum base_status status = look(core, &rollout->release->manifest, &kept, NULL);
        if (status == BASE_ERR_NOMEM) {
            return status;
        }
        if (status != BASE_OK || kept->size == 0) {
            continue; // a manifest that cannot be read is no device's either
        }
        uint64_t share_ppm = dev_declaration_share_ppm(&kept->cost);
        if (out->kept == NULL || share_ppm > out->share_ppm) {
            out->rollout = rollout->release->id;
            out->kept = kept;
            out->share_ppm = share_ppm;
        }
    }
    return BASE_OK;
}

static int by_share(const void *a, const void *b)
{
    const struct member *left = a;
    const struct member *right = b;
    if (left->share_ppm != right->share_ppm) {
        return left->share_ppm < right->share_ppm ? 1 : -1;
    }
    return strcmp(left->task->name, right->task->name);
}

// Others of the tenant behind members[0], which is the version itself.
static enum base_status gather(struct gw_core *core, const struct pol_target *target,
                               struct set *set)
{
    const struct gw_task *own = set->members[0].task;
    for (uint32_t i = 0; i < core->catalog.task_count; i++) {
        const struct gw_task *task = core->catalog.tasks[i];
        struct member *next = &set->members[set->count];
        if (task == own || task->tenant != own->tenant) {
            continue;
        }
        BASE_TRY(dearest(core, task, target, next));
        set->count += next->kept != NULL ? 1 : 0;
    }
    qsort(set->members + 1, set->count - 1, sizeof(set->members[0]), by_share);
    return BASE_OK;
}

static void list(const struct set *set, struct gw_set_cost *out)
{
    out->listed = set->count < GW_SET_COST_TASKS ? set->count : GW_SET_COST_TASKS;
    for (uint32_t i = 0; i < out->listed; i++) {
        const struct member *member = &set->members[i];
        struct gw_set_cost_task *task = &out->tasks[i];
        memcpy(task->task, member->task->name, sizeof(task->task));
        task->rollout = member->rollout;
        task->manifest = member->kept->manifest;
        task->cost = member->kept->cost;
    }
}

static enum base_status add_up(const struct set *set, struct gw_set_cost *out,
                               struct base_error *error)
{
    struct dev_declared_task *tasks = calloc(set->count, sizeof(*tasks));
    if (tasks == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const struct member *member = &set->members[i];
        tasks[i].name = base_str_of(member->task->name);
        tasks[i].declaration =
            (struct base_str){(const char *)member->kept->bytes, member->kept->size};
    }
    enum base_status status =
        dev_declaration_cost(tasks, set->count, base_alloc_heap(), &out->sum, error);
    free(tasks);
    if (status == BASE_OK) {
        struct base_error crossed = {0};
        out->fits = dev_declaration_afford(&out->sum, &crossed) == BASE_OK;
        memcpy(out->why, crossed.text, sizeof(out->why));
    }
    return status;
}

static enum base_status find(struct gw_core *core, const struct gw_set_cost_spec *spec,
                             struct set *set, struct gw_set_cost *out, struct base_error *error)
{
    struct gw_version_view version;
    const struct kept *own = NULL;
    const struct gw_task *task = gw_catalog_find_task(core, wire_task_id(spec->task));
    if (task == NULL ||
        gw_catalog_version_get(core, spec->task, &spec->manifest, &version) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%s: no such %s",
                              task == NULL ? "task" : "manifest",
                              task == NULL ? "task" : "version of it");
    }
    BASE_TRY(look(core, &spec->manifest, &own, error));
    out->fits = true;
    out->declares = own->size > 0;
    if (!out->declares) {
        return BASE_OK;
    }
    set->members = calloc(core->catalog.task_count + 1, sizeof(set->members[0]));
    if (set->members == NULL) {
        return BASE_ERR_NOMEM;
    }
    set->members[set->count++] = (struct member){.task = task, .kept = own};
    BASE_TRY(gather(core, &spec->target, set));
    list(set, out);
    return add_up(set, out, error);
}

enum base_status gw_set_cost_find(struct gw_core *core, const struct gw_set_cost_spec *spec,
                                  struct gw_set_cost *out, struct base_error *error)
{
    struct set set = {0};
    memset(out, 0, sizeof(*out));
    if (core->set_costs->bytes > GW_SET_COST_KEPT) {
        forget_all(core->set_costs);
    }
    enum base_status status = find(core, spec, &set, out, error);
    free(set.members);
    return status;
}

void gw_set_cost_text(const struct gw_set_cost *cost, char out[BASE_ERROR_TEXT_MAX])
{
    char names[NAMES_TEXT + WIRE_TASK_NAME_MAX + 4] = "";
    size_t used = 0;
    uint32_t named = 0;
    for (; named < cost->listed && used < NAMES_TEXT; named++) {
        int size = snprintf(names + used, sizeof(names) - used, "%s%s", named > 0 ? ", " : "",
                            cost->tasks[named].task);
        if (size < 0 || (named > 0 && used + (size_t)size > NAMES_TEXT)) {
            names[used] = '\0';
            break;
        }
        used += (size_t)size;
    }
    char more[32] = "";
    if (cost->sum.tasks > named) {
        (void)snprintf(more, sizeof(more), " and %u more", cost->sum.tasks - named);
    }
    (void)snprintf(out, BASE_ERROR_TEXT_MAX, "%s%s together: %s", names, more, cost->why);
}
