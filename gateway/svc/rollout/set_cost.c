// The cost of sets of versions, as set_cost.h says. Called when a rollout is made and when somebody
// asks what it would cost; control thread. api_cost.c asks, rollouts.c refuses by it. What a
// version takes is read from its manifest's declaration once and kept in a bounded table, since
// many questions are about the same versions. The certificate is device/pipeline's own: the gateway
// does not estimate what a phone computes.
#include "svc/rollout/set_cost.h"

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
    struct member *members; // [0] is the version itself
    uint32_t count;
};

// Versions of other tasks that may be on a device beside the one that is asked about.
struct walk {
    struct gw_core *core;
    const struct gw_task *own;
    const struct pol_target *target; // its
    const struct pol_target *world;  // only devices like this; NULL: all
    void (*visit)(void *ctx, const struct gw_task *task, const struct gw_release *release,
                  const struct kept *kept);
    void *ctx;
};

static enum base_status walk_task(const struct walk *walk, const struct gw_task *task)
{
    for (uint32_t i = 0; i < task->open_count + task->base_count; i++) {
        const struct gw_rollout *rollout =
            i < task->open_count ? task->open[i] : task->bases[i - task->open_count];
        const struct kept *kept = NULL;
        if (!pol_targets_meet(walk->target, &rollout->release->target) ||
            (walk->world != NULL && !pol_targets_meet(walk->world, &rollout->release->target))) {
            continue;
        }
        enum base_status status = look(walk->core, &rollout->release->manifest, &kept, NULL);
        if (status == BASE_ERR_NOMEM) {
            return status;
        }
        if (status == BASE_OK && kept->size > 0) {
            walk->visit(walk->ctx, task, rollout->release, kept);
        } // a manifest that cannot be read is no device's either
    }
    return BASE_OK;
}

// Task by task.
static enum base_status walk_all(const struct walk *walk)
{
    for (uint32_t i = 0; i < walk->core->catalog.task_count; i++) {
        const struct gw_task *task = walk->core->catalog.tasks[i];
        if (task != walk->own && task->tenant == walk->own->tenant) {
            BASE_TRY(walk_task(walk, task));
        }
    }
    return BASE_OK;
}

// Of each task the dearest version.
static void take_dearest(void *ctx, const struct gw_task *task, const struct gw_release *release,
                         const struct kept *kept)
{
    struct set *set = ctx;
    struct member *last = &set->members[set->count - 1];
    uint64_t share_ppm = dev_declaration_share_ppm(&kept->cost);
    if (last->task != task) {
        last = &set->members[set->count++];
    } else if (share_ppm <= last->share_ppm) {
        return;
    }
    *last = (struct member){task, release->id, kept, share_ppm};
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

// Others of the tenant behind members[0].
static enum base_status gather(const struct walk *walk, struct set *set)
{
    struct walk dearest = *walk;
    dearest.visit = take_dearest;
    dearest.ctx = set;
    set->count = 1;
    BASE_TRY(walk_all(&dearest));
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

// What the set comes to.
static enum base_status certify(const struct set *set, struct gw_set_cost *out,
                                struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    out->declares = true;
    list(set, out);
    return add_up(set, out, error);
}

// ---- Worlds: others that exclude each other by one attribute are on no device together

struct attrs {
    struct pol_text names[GW_SET_COST_ATTRS];
    uint32_t count;
};

static bool same_text(struct pol_text a, struct pol_text b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static void note_attr(void *ctx, const struct gw_task *task, const struct gw_release *release,
                      const struct kept *kept)
{
    struct attrs *attrs = ctx;
    struct pol_anchor anchor;
    (void)task, (void)kept;
    bool known = !pol_target_anchor(&release->target, &anchor);
    for (uint32_t i = 0; i < attrs->count && !known; i++) {
        known = same_text(attrs->names[i], anchor.attr);
    }
    if (!known && attrs->count < GW_SET_COST_ATTRS) {
        attrs->names[attrs->count++] = anchor.attr;
    }
}

// The values of an attribute that releases list.
struct worlds {
    struct pol_text attr;
    const struct pol_value *values[GW_SET_COST_WORLDS];
    uint32_t count; // GW_SET_COST_WORLDS + 1: too many
};

static bool same_value(const struct pol_value *a, const struct pol_value *b)
{
    if (a->type != b->type || a->type == POL_TYPE_VERSION) {
        return false;
    }
    return a->type == POL_TYPE_STRING    ? same_text(a->text, b->text)
           : a->type == POL_TYPE_INTEGER ? a->integer == b->integer
                                         : a->boolean == b->boolean;
}

static void note_values(void *ctx, const struct gw_task *task, const struct gw_release *release,
                        const struct kept *kept)
{
    struct worlds *worlds = ctx;
    struct pol_anchor anchor;
    (void)task, (void)kept;
    if (!pol_target_anchor(&release->target, &anchor) || !same_text(anchor.attr, worlds->attr)) {
        return;
    }
    for (uint32_t i = 0; i < anchor.value_count && worlds->count <= GW_SET_COST_WORLDS; i++) {
        bool known = false;
        for (uint32_t k = 0; k < worlds->count && !known; k++) {
            known = same_value(worlds->values[k], &anchor.values[i]);
        }
        if (!known && worlds->count < GW_SET_COST_WORLDS) {
            worlds->values[worlds->count++] = &anchor.values[i];
        } else if (!known) {
            worlds->count = GW_SET_COST_WORLDS + 1;
        }
    }
}

// Does the set fit in every world of the attribute? A device that some of these releases are for
// has one of the listed values, so all it holds is in that value's world; one that none of them is
// for holds less than any world. *dearest is then what the dearest world comes to.
static enum base_status worlds_fit(const struct walk *walk, struct worlds *worlds, struct set *set,
                                   struct gw_set_cost *dearest, bool *out_fit)
{
    struct gw_set_cost cost;
    struct base_error error = {0};
    uint64_t most_ppm = 0;
    bool fit = worlds->count <= GW_SET_COST_WORLDS;
    bool looked = false;
    for (uint32_t i = 0; i < worlds->count && fit; i++) {
        const struct pol_cond cond = {.attr = worlds->attr,
                                      .op = POL_OP_EQ,
                                      .operands = worlds->values[i],
                                      .operand_count = 1};
        const struct pol_target world = {.conds = &cond, .cond_count = 1};
        struct walk inside = *walk;
        inside.world = &world;
        if (!pol_targets_meet(&world, walk->target)) {
            continue; // no device of the version is there
        }
        BASE_TRY(gather(&inside, set));
        BASE_TRY(certify(set, &cost, &error));
        uint64_t share_ppm = dev_declaration_share_ppm(&cost.sum);
        fit = cost.fits;
        if (!looked || share_ppm > most_ppm) {
            most_ppm = share_ppm;
            *dearest = cost;
        }
        looked = true;
    }
    *out_fit = fit && looked;
    return BASE_OK;
}

// When all others together are too much: are they on no device together? Then *out is what the
// dearest of the sets is that may be.
static enum base_status split(const struct walk *walk, struct set *set, struct gw_set_cost *out)
{
    struct attrs attrs = {.count = 0};
    struct walk noting = *walk;
    struct gw_set_cost dearest;
    noting.visit = note_attr;
    noting.ctx = &attrs;
    BASE_TRY(walk_all(&noting));
    for (uint32_t i = 0; i < attrs.count; i++) {
        struct worlds worlds = {.attr = attrs.names[i]};
        bool fit = false;
        noting.visit = note_values;
        noting.ctx = &worlds;
        BASE_TRY(walk_all(&noting));
        BASE_TRY(worlds_fit(walk, &worlds, set, &dearest, &fit));
        if (fit) {
            *out = dearest;
            return BASE_OK;
        }
    }
    return BASE_OK;
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
    if (own->size == 0) {
        out->fits = true;
        return BASE_OK;
    }
    set->members = calloc(core->catalog.task_count + 1, sizeof(set->members[0]));
    if (set->members == NULL) {
        return BASE_ERR_NOMEM;
    }
    const struct walk walk = {.core = core, .own = task, .target = &spec->target};
    set->members[0] = (struct member){.task = task, .kept = own};
    BASE_TRY(gather(&walk, set));
    BASE_TRY(certify(set, out, error));
    return out->fits || set->count > GW_SET_COST_SPLIT_TASKS ? BASE_OK : split(&walk, set, out);
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
