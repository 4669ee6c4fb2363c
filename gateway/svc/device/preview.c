// The dry run. Two passes: over the devices, counting per attribute block (and, of blocks that
// match, per stage); then over the blocks, adding up segments and reasons. Background thread; see
// preview.h.
#include "svc/device/preview.h"

#include "policy/expr.h"
#include "svc/core_private.h"
#include "svc/plan/want.h"
#include "svc/access/credentials.h"
#include "svc/access/operators.h"
#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALK_BATCH   256u // devices looked at with a shard's mutex held
#define REASONS_KEPT 600u // every condition and test, each for more than one reason
#define SLOTS        (2u * GW_PREVIEW_DISTINCT)

static const char *const segment_names[GW_PREVIEW_ATTRS] = {"os",         "model",  "app_version",
                                                            "os_version", "region", "channel"};

const char *gw_preview_attr_name(uint32_t i)
{
    return segment_names[i];
}

// What a block means. The stages are asked once per block, too.
struct block {
    struct pol_match match;
    uint32_t audience; // bit per stage
    uint64_t devices;
    uint64_t matched; // inside the arm
    bool known;       // evaluated
};

struct value {
    const char *text; // in the pool's block, or `number`
    uint32_t size;
    uint32_t attr;
    char number[21];
    uint64_t matched;
    uint64_t known;
};

struct preview {
    struct gw_core *core;
    const struct gw_preview_spec *spec;
    struct gw_preview *out;
    struct block *blocks; // by attrs_id
    uint32_t block_count;
    struct value *values;
    uint32_t value_count;
    uint32_t *slots; // number + 1 of a value, 0: free
    struct gw_preview_reason *reasons;
    uint32_t reason_count;
};

// ---- Devices

// None when the block is not known. Valid as long as `view`.
static struct pol_attrs attrs_of(const struct preview *preview, uint32_t attrs_id,
                                 struct gw_attrs_view *view)
{
    size_t size = 0;
    const uint8_t *bytes = gw_attr_pool_get(preview->core->pool, attrs_id, &size);
    bool known = bytes != NULL && gw_attrs_view(bytes, size, view) == BASE_OK;
    return known ? view->attrs : (struct pol_attrs){NULL, 0};
}

static void evaluate(struct preview *preview, uint32_t attrs_id, struct block *block)
{
    struct gw_attrs_view view;
    struct pol_attrs attrs = attrs_of(preview, attrs_id, &view);
    const struct gw_preview_spec *spec = preview->spec;
    block->known = true;
    block->match = pol_target_match(&spec->target, &attrs);
    for (uint32_t i = 0; i < spec->stage_count && block->match.matched; i++) {
        bool in = pol_target_match(&spec->stages[i].audience, &attrs).matched;
        block->audience |= in ? 1u << i : 0;
    }
}

// Does a device that the release admits follow another rollout of the task? Counts it there, or
// where it would be if it did not follow this one.
static bool follows_another(struct preview *preview, uint64_t device_id, uint32_t attrs_id)
{
    const struct gw_preview_spec *spec = preview->spec;
    struct gw_attrs_view view;
    if (spec->task == NULL || spec->task->open_count == 0) {
        return false;
    }
    const struct pol_attrs attrs = attrs_of(preview, attrs_id, &view);
    uint8_t number = gw_want_followed(spec->task, spec->priority, spec->self, device_id, &attrs);
    if (number != GW_PLAN_OPEN_MAX) {
        preview->out->followed[number].devices++;
        preview->out->elsewhere++;
        return true;
    }
    uint32_t waiting = gw_want_waiting(spec->task, spec->priority, spec->self, device_id, &attrs);
    for (uint32_t i = 0; i < spec->task->open_count; i++) {
        preview->out->waiting[i].devices += waiting >> i & 1u;
    }
    return false;
}

// The stage in which the device enters, when each is opened in its turn; the count of stages: none.
static uint32_t enters(struct preview *preview, const struct block *block, uint64_t device_id,
                       uint32_t attrs_id)
{
    const struct gw_preview_spec *spec = preview->spec;
    const struct pol_rollout last = {.state = POL_ROLLOUT_RUNNING,
                                     .stage_index = (uint16_t)(spec->stage_count - 1)};
    struct pol_match in =
        pol_rollout_admits(&last, spec->stages, spec->stage_count,
                           (struct pol_candidate){.targeted = true,
                                                  .audience_mask = block->audience,
                                                  .bucket = pol_bucket(device_id, spec->salt)});
    if (in.matched && follows_another(preview, device_id, attrs_id)) {
        return spec->stage_count;
    }
    return in.matched ? in.cond_index : spec->stage_count;
}

static void count_stages(struct preview *preview, const struct block *block, uint64_t device_id,
                         uint32_t attrs_id)
{
    const struct gw_preview_spec *spec = preview->spec;
    uint32_t from = enters(preview, block, device_id, attrs_id);
    for (uint32_t i = 0; i < spec->stage_count; i++) {
        const struct pol_rollout open = {.state = POL_ROLLOUT_RUNNING, .stage_index = (uint16_t)i};
        bool shadows =
            i < from &&
            pol_rollout_shadows(&open, spec->stages, spec->stage_count,
                                (struct pol_candidate){.targeted = true,
                                                       .audience_mask = block->audience,
                                                       .bucket = pol_bucket(device_id, spec->salt)})
                .matched;
        preview->out->stages[i].devices += i == from || shadows;
        preview->out->stages[i].total += i >= from;
    }
}

static void see_device(void *ctx, struct gw_device_visit *visit)
{
    struct preview *preview = ctx;
    struct gw_credentials *credentials = preview->core->credentials;
    uint16_t tenant = gw_credentials_plain(credentials)
                          ? GW_TENANT_DEFAULT
                          : gw_credentials_tenant(credentials, visit->device_id);
    if (tenant != preview->spec->tenant) {
        return;
    }
    uint32_t id = visit->attrs_id < preview->block_count ? visit->attrs_id : 0;
    struct block *block = &preview->blocks[id];
    if (!block->known) {
        evaluate(preview, id, block);
    }
    block->devices++;
    preview->out->devices++;
    if (!block->match.matched) {
        return;
    }
    if (!pol_arm_has(&preview->spec->arm, visit->device_id)) {
        preview->out->outside_arm++;
        return;
    }
    block->matched++;
    preview->out->matched++;
    if (preview->spec->stage_count > 0) {
        count_stages(preview, block, visit->device_id, id);
    }
}

static void walk(struct preview *preview)
{
    for (uint32_t shard = 0; shard < GW_DEVICE_TABLE_SHARDS; shard++) {
        uint32_t from = 0;
        uint32_t seen;
        do {
            seen = gw_device_table_walk(preview->core->table, (struct gw_device_place){shard, from},
                                        WALK_BATCH, see_device, preview);
            from += seen;
        } while (seen == WALK_BATCH);
    }
}

// ---- Segments

// The value's place; NULL when there are too many different ones.
static struct value *find_value(struct preview *preview, uint32_t attr, const char *text,
                                uint32_t size)
{
    uint64_t hash = base_keyed64(&preview->core->hash_key, text, size) + attr;
    uint32_t at = (uint32_t)hash % SLOTS;
    for (; preview->slots[at] != 0; at = (at + 1) % SLOTS) {
        struct value *value = &preview->values[preview->slots[at] - 1];
        if (value->attr == attr && value->size == size && memcmp(value->text, text, size) == 0) {
            return value;
        }
    }
    if (preview->value_count == GW_PREVIEW_DISTINCT) {
        return NULL;
    }
    struct value *value = &preview->values[preview->value_count++];
    preview->slots[at] = preview->value_count;
    *value = (struct value){.text = text, .size = size, .attr = attr};
    return value;
}

static struct value *value_of(struct preview *preview, uint32_t attr, const struct pol_value *value)
{
    char number[21];
    if (value->type == POL_TYPE_STRING) {
        return find_value(preview, attr, value->text.data, value->text.size);
    }
    int size = value->type == POL_TYPE_BOOLEAN
                   ? snprintf(number, sizeof(number), "%s", value->boolean ? "true" : "false")
                   : snprintf(number, sizeof(number), "%lld", (long long)value->integer);
    struct value *found = find_value(preview, attr, number, (uint32_t)size);
    if (found != NULL && found->text == number) {
        memcpy(found->number, number, (size_t)size);
        found->text = found->number;
    }
    return found;
}

static const struct pol_value *attr_of(const struct pol_attrs *attrs, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 0; i < attrs->count; i++) {
        if (attrs->items[i].name.size == size &&
            memcmp(attrs->items[i].name.data, name, size) == 0) {
            return &attrs->items[i].value;
        }
    }
    return NULL;
}

static void add_segments(struct preview *preview, uint32_t attrs_id, const struct block *block)
{
    struct gw_attrs_view view;
    struct pol_attrs attrs = attrs_of(preview, attrs_id, &view);
    for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; i++) {
        const struct pol_value *value = attr_of(&attrs, segment_names[i]);
        if (value == NULL) {
            preview->out->attrs[i].without_matched += block->matched;
            continue;
        }
        struct value *counted = value_of(preview, i, value);
        if (counted == NULL) {
            preview->out->attrs[i].other_matched += block->matched;
            continue;
        }
        counted->matched += block->matched;
        counted->known += block->devices;
    }
}

static bool goes_before(const struct value *a, const struct gw_preview_value *b)
{
    return a->matched != b->matched ? a->matched > b->matched : a->known > b->known;
}

// Into the list of its attribute, by insertion; what falls off is "other".
static void list_value(struct gw_preview_attr *attr, const struct value *value)
{
    uint32_t at = attr->count;
    while (at > 0 && goes_before(value, &attr->values[at - 1])) {
        at--;
    }
    if (at == GW_PREVIEW_VALUES) {
        attr->other_matched += value->matched;
        return;
    }
    if (attr->count == GW_PREVIEW_VALUES) {
        attr->other_matched += attr->values[--attr->count].matched;
    }
    memmove(&attr->values[at + 1], &attr->values[at], (attr->count - at) * sizeof(attr->values[0]));
    struct gw_preview_value *to = &attr->values[at];
    uint32_t size = value->size < sizeof(to->value) - 1 ? value->size : sizeof(to->value) - 1;
    *to = (struct gw_preview_value){.matched = value->matched, .known = value->known};
    memcpy(to->value, value->text, size);
    attr->count++;
}

// ---- Reasons

static void say_reason(const struct gw_preview_spec *spec, struct gw_preview_reason *reason)
{
    struct pol_text text = {NULL, 0};
    bool test =
        reason->reason == POL_REASON_EXPR_FALSE || reason->reason == POL_REASON_EXPR_UNKNOWN;
    if (test && spec->target.expr != NULL) {
        text = pol_expr_test_text(spec->target.expr, reason->index);
    } else if (reason->index < spec->target.cond_count) {
        text = spec->target.conds[reason->index].attr;
    }
    size_t size = text.size < sizeof(reason->text) - 1 ? text.size : sizeof(reason->text) - 1;
    if (size > 0) {
        memcpy(reason->text, text.data, size);
    }
}

static void add_reason(struct preview *preview, const struct pol_match *match, uint64_t devices)
{
    uint32_t at = 0;
    while (at < preview->reason_count && (preview->reasons[at].reason != match->reason ||
                                          preview->reasons[at].index != match->cond_index)) {
        at++;
    }
    if (at == REASONS_KEPT) {
        return;
    }
    if (at == preview->reason_count) {
        preview->reason_count++;
        preview->reasons[at] =
            (struct gw_preview_reason){.reason = match->reason, .index = match->cond_index};
    }
    preview->reasons[at].devices += devices;
}

static int more_devices(const void *a, const void *b)
{
    const struct gw_preview_reason *x = a;
    const struct gw_preview_reason *y = b;
    if (x->devices != y->devices) {
        return x->devices > y->devices ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

// ---- All of it

static void sum_up(struct preview *preview)
{
    struct gw_preview *out = preview->out;
    for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; i++) {
        (void)snprintf(out->attrs[i].name, sizeof(out->attrs[i].name), "%s", segment_names[i]);
    }
    for (uint32_t id = 0; id < preview->block_count; id++) {
        const struct block *block = &preview->blocks[id];
        if (!block->known) {
            continue;
        }
        out->blocks++;
        add_segments(preview, id, block);
        if (!block->match.matched) {
            add_reason(preview, &block->match, block->devices);
        }
    }
    for (uint32_t i = 0; i < preview->value_count; i++) {
        list_value(&out->attrs[preview->values[i].attr], &preview->values[i]);
    }
    if (preview->reason_count > 0) {
        qsort(preview->reasons, preview->reason_count, sizeof(preview->reasons[0]), more_devices);
    }
    out->reason_count =
        preview->reason_count < GW_PREVIEW_REASONS ? preview->reason_count : GW_PREVIEW_REASONS;
    for (uint32_t i = 0; i < out->reason_count; i++) {
        out->reasons[i] = preview->reasons[i];
        say_reason(preview->spec, &out->reasons[i]);
    }
}

static enum base_status find_unknown(struct preview *preview)
{
    const struct gw_preview_spec *spec = preview->spec;
    const struct gw_reach_spec ask = {.tenant = spec->tenant,
                                      .target = spec->target,
                                      .stages = spec->stages,
                                      .stage_count = spec->stage_count};
    struct gw_reach seen;
    BASE_TRY(gw_reach_find(preview->core, &ask, &seen));
    preview->out->unknown_count = seen.unknown_count;
    memcpy(preview->out->unknown, seen.unknown, sizeof(seen.unknown));
    return BASE_OK;
}

enum base_status gw_preview_run(struct gw_core *core, const struct gw_preview_spec *spec,
                                struct gw_preview *out)
{
    if (spec->stage_count > POL_STAGES_MAX) {
        return BASE_ERR_INVALID;
    }
    memset(out, 0, sizeof(*out));
    // Blocks that come while it runs count as one without attributes: their devices came just now.
    struct preview preview = {.core = core, .spec = spec, .out = out};
    preview.block_count = gw_attr_pool_count(core->pool) + 1;
    preview.blocks = calloc(preview.block_count, sizeof(preview.blocks[0]));
    preview.values = calloc(GW_PREVIEW_DISTINCT, sizeof(preview.values[0]));
    preview.slots = calloc(SLOTS, sizeof(preview.slots[0]));
    preview.reasons = calloc(REASONS_KEPT, sizeof(preview.reasons[0]));
    enum base_status status = BASE_ERR_NOMEM;
    if (preview.blocks != NULL && preview.values != NULL && preview.slots != NULL &&
        preview.reasons != NULL) {
        for (uint32_t i = 0; spec->task != NULL && i < spec->task->open_count; i++) {
            out->followed[i].rollout = spec->task->open[i].release->id;
            out->waiting[i].rollout = spec->task->open[i].release->id;
        }
        walk(&preview);
        sum_up(&preview);
        status = find_unknown(&preview);
    }
    free(preview.blocks);
    free(preview.values);
    free(preview.slots);
    free(preview.reasons);
    return status;
}
