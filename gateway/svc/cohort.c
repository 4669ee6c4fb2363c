// The per-worker cohort cache. One thread: the worker's.
#include "svc/cohort.h"

#include "base/check.h"
#include "base/hash.h"
#include "policy/bucket.h"
#include "store/store.h"
#include "wire/profile.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u

enum base_status gw_attrs_view(const uint8_t *block, size_t size, struct gw_attrs_view *out)
{
    BASE_TRY(wire_attrs_parse(block, size, &out->wire));
    for (uint32_t i = 0; i < out->wire.count; i++) {
        const struct wire_attr *from = &out->wire.items[i];
        struct pol_attr *to = &out->items[i];
        to->name = (struct pol_text){from->name.data, (uint32_t)from->name.size};
        switch (from->type) {
        case WIRE_ATTR_STRING:
            to->value.type = POL_TYPE_STRING;
            to->value.text = (struct pol_text){from->text.data, (uint32_t)from->text.size};
            break;
        case WIRE_ATTR_INTEGER:
            to->value.type = POL_TYPE_INTEGER;
            to->value.integer = from->integer;
            break;
        case WIRE_ATTR_BOOLEAN:
        case WIRE_ATTR_TYPE_COUNT:
            to->value.type = POL_TYPE_BOOLEAN;
            to->value.boolean = from->integer != 0;
            break;
        }
    }
    out->attrs = (struct pol_attrs){out->items, out->wire.count};
    return BASE_OK;
}

void gw_cohorts_init(struct gw_cohorts *cohorts)
{
    memset(cohorts, 0, sizeof(*cohorts));
}

static void free_cohort(struct gw_cohort *cohort)
{
    if (cohort != NULL) {
        free(cohort->partials);
        free(cohort->relevant);
        free(cohort->attrs);
        free(cohort);
    }
}

void gw_cohorts_done(struct gw_cohorts *cohorts)
{
    for (uint32_t i = 0; i < cohorts->used; i++) {
        free_cohort(cohorts->items[i]);
    }
    free(cohorts->items);
    free(cohorts->slots);
    gw_cohorts_init(cohorts);
}

// ---- Computing a cohort from the plan

// How far the open rollout reaches into this cohort: devices with bucket < limit are in. Found by
// asking the policy, so that there is one rule for admission; a pause is no answer here, because a
// device that was let in keeps what it has.
static uint16_t open_limit(const struct gw_plan_task *task, const struct pol_attrs *attrs)
{
    const struct gw_release *release = task->open;
    if (!pol_target_match(&release->target, attrs).matched) {
        return 0;
    }
    uint32_t mask = 0;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        if (pol_target_match(&release->stages[i].audience, attrs).matched) {
            mask |= 1u << i;
        }
    }
    struct pol_rollout running = task->open_state;
    running.state = POL_ROLLOUT_RUNNING;
    uint32_t low = 0; // buckets below are in
    uint32_t high = POL_BUCKET_COUNT;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        bool in = pol_rollout_admits(&running, release->stages, release->stage_count, true, mask,
                                     (uint16_t)middle)
                      .matched;
        if (in) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint16_t)low;
}

// Room for the worst case of one task, doubling.
static bool reserve(void **items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *grown = realloc(*items, (size_t)wanted * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

struct compile {
    struct gw_cohort *cohort;
    const struct pol_attrs *attrs;
    uint32_t partial_capacity;
    uint32_t relevant_capacity;
};

// Goes on with a hash of what the decision for this task depends on, besides the device itself.
static uint32_t sign_task(uint32_t signature, const struct gw_plan_task *task, uint32_t flags)
{
    uint64_t facts[4 + GW_PLAN_RETIRED_MAX] = {task->task_id, flags, 0, 0};
    if (task->baseline != NULL) {
        facts[2] = task->baseline->id;
    }
    if (task->open != NULL) {
        facts[1] |= (uint64_t)task->open_state.state << 8 | (uint64_t)task->open_state.stage_index
                                                                << 16;
        facts[3] = task->open->id;
    }
    for (uint32_t i = 0; i < task->retired_count; i++) {
        facts[4 + i] = task->retired[i]->id;
    }
    return (uint32_t)base_hash64_seed(facts, sizeof(facts), signature);
}

static enum base_status compile_task(struct compile *compile, const struct gw_plan_task *task,
                                     uint32_t index)
{
    struct gw_cohort *cohort = compile->cohort;
    uint32_t flags = 0;
    uint64_t base_term = 0;
    if (task->baseline != NULL &&
        pol_target_match(&task->baseline->target, compile->attrs).matched) {
        flags |= GW_RELEVANT_BASELINE;
        base_term = wire_profile_term(task->task_id, task->baseline->version_id, 0);
    }
    uint16_t limit = task->open != NULL ? open_limit(task, compile->attrs) : 0;
    if (limit > 0) {
        uint64_t open_term = wire_profile_term(task->task_id, task->open->version_id, 0);
        flags |= limit == POL_BUCKET_COUNT ? GW_RELEVANT_ALL : GW_RELEVANT_SHARE;
        if (limit == POL_BUCKET_COUNT) {
            base_term = open_term;
        } else {
            if (!reserve((void **)&cohort->partials, cohort->partial_count,
                         &compile->partial_capacity, sizeof(struct gw_partial))) {
                return BASE_ERR_NOMEM;
            }
            cohort->partials[cohort->partial_count++] =
                (struct gw_partial){task->open->salt, open_term - base_term, index, limit};
        }
    }
    cohort->digest += base_term;
    if (flags != 0 || task->retired_count > 0) {
        cohort->signature = sign_task(cohort->signature, task, flags);
        if (!reserve((void **)&cohort->relevant, cohort->relevant_count,
                     &compile->relevant_capacity, sizeof(uint32_t))) {
            return BASE_ERR_NOMEM;
        }
        cohort->relevant[cohort->relevant_count++] = index << 3 | flags;
    }
    return BASE_OK;
}

static enum base_status compile_cohort(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                       const struct gw_plan *plan)
{
    struct gw_attrs_view view;
    BASE_TRY(gw_attrs_view(cohort->attrs, cohort->attrs_size, &view));
    free(cohort->partials);
    free(cohort->relevant);
    cohort->partials = NULL;
    cohort->relevant = NULL;
    cohort->partial_count = 0;
    cohort->relevant_count = 0;
    cohort->digest = 0;
    cohort->signature = cohort->tenant;
    cohort->generation = 0;
    struct compile compile = {.cohort = cohort, .attrs = &view.attrs};
    for (uint32_t i = 0; i < plan->task_count; i++) {
        if (plan->tasks[i].tenant == cohort->tenant) {
            BASE_TRY(compile_task(&compile, &plan->tasks[i], i));
        }
    }
    cohort->generation = plan->generation;
    cohorts->compiled++;
    return BASE_OK;
}

// ---- The table

static void slot_insert(struct gw_cohorts *cohorts, const struct gw_cohort *cohort)
{
    uint32_t at = (uint32_t)cohort->hash & cohorts->slot_mask;
    while (cohorts->slots[at] != GW_COHORT_NONE) {
        at = (at + 1) & cohorts->slot_mask;
    }
    cohorts->slots[at] = cohort->index;
}

static bool rebuild_slots(struct gw_cohorts *cohorts, uint32_t slot_count)
{
    uint32_t *slots = malloc((size_t)slot_count * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots, 0xff, (size_t)slot_count * sizeof(*slots));
    free(cohorts->slots);
    cohorts->slots = slots;
    cohorts->slot_mask = slot_count - 1;
    for (uint32_t i = 0; i < cohorts->used; i++) {
        if (cohorts->items[i] != NULL) {
            slot_insert(cohorts, cohorts->items[i]);
        }
    }
    return true;
}

// Frees what no hint stream refers to. The slots are rebuilt by the caller.
static void flush(struct gw_cohorts *cohorts)
{
    for (uint32_t i = 0; i < cohorts->used; i++) {
        struct gw_cohort *cohort = cohorts->items[i];
        if (cohort != NULL && cohort->pins == 0) {
            free_cohort(cohort);
            cohorts->items[i] = NULL;
            cohorts->count--;
        }
    }
    cohorts->free_hint = 0;
    cohorts->flushed++;
}

static bool make_room(struct gw_cohorts *cohorts)
{
    if (cohorts->count >= GW_COHORTS_MAX) {
        flush(cohorts);
        if (!rebuild_slots(cohorts, cohorts->slot_mask + 1)) {
            return false;
        }
        if (cohorts->count >= GW_COHORTS_MAX) {
            return false; // every one is pinned
        }
    }
    uint32_t slot_count = cohorts->slots == NULL ? 0 : cohorts->slot_mask + 1;
    if ((cohorts->count + 1) * 2 > slot_count) {
        return rebuild_slots(cohorts, slot_count == 0 ? SLOTS_FIRST : slot_count * 2);
    }
    return true;
}

static bool take_index(struct gw_cohorts *cohorts, uint32_t *out)
{
    while (cohorts->free_hint < cohorts->used && cohorts->items[cohorts->free_hint] != NULL) {
        cohorts->free_hint++;
    }
    if (cohorts->free_hint == cohorts->used) {
        if (!reserve((void **)&cohorts->items, cohorts->used, &cohorts->capacity,
                     sizeof(cohorts->items[0]))) {
            return false;
        }
        cohorts->items[cohorts->used++] = NULL;
    }
    *out = cohorts->free_hint;
    return true;
}

static enum base_status create(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                               uint64_t hash, uint16_t tenant, struct gw_span block,
                               struct gw_cohort **out_cohort)
{
    uint32_t index;
    if (!make_room(cohorts) || !take_index(cohorts, &index)) {
        return BASE_ERR_NOMEM;
    }
    struct gw_cohort *cohort = calloc(1, sizeof(*cohort));
    uint8_t *copy = malloc(block.size + 1);
    if (cohort == NULL || copy == NULL) {
        free(cohort);
        free(copy);
        return BASE_ERR_NOMEM;
    }
    if (block.size > 0) {
        memcpy(copy, block.data, block.size);
    }
    cohort->attrs = copy;
    cohort->attrs_size = (uint32_t)block.size;
    cohort->hash = hash;
    cohort->index = index;
    cohort->tenant = tenant;
    enum base_status status = compile_cohort(cohorts, cohort, plan);
    if (status != BASE_OK) {
        free_cohort(cohort);
        return status;
    }
    cohorts->items[index] = cohort;
    cohorts->count++;
    slot_insert(cohorts, cohort);
    *out_cohort = cohort;
    return BASE_OK;
}

enum base_status gw_cohorts_find(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                 uint16_t tenant, const uint8_t *block, size_t size,
                                 struct gw_cohort **out_cohort, bool *out_created)
{
    uint64_t hash = base_hash64_seed(block, size, tenant);
    *out_created = false;
    if (cohorts->slots != NULL) {
        uint32_t at = (uint32_t)hash & cohorts->slot_mask;
        for (; cohorts->slots[at] != GW_COHORT_NONE; at = (at + 1) & cohorts->slot_mask) {
            struct gw_cohort *cohort = cohorts->items[cohorts->slots[at]];
            if (cohort->hash != hash || cohort->tenant != tenant || cohort->attrs_size != size ||
                memcmp(cohort->attrs, block, size) != 0) {
                continue;
            }
            if (__builtin_expect(cohort->generation != plan->generation, 0)) {
                BASE_TRY(compile_cohort(cohorts, cohort, plan));
            }
            *out_cohort = cohort;
            return BASE_OK;
        }
    }
    BASE_TRY(create(cohorts, plan, hash, tenant, (struct gw_span){block, size}, out_cohort));
    *out_created = true;
    return BASE_OK;
}

struct gw_cohort *gw_cohorts_at(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                uint32_t index)
{
    if (index >= cohorts->used || cohorts->items[index] == NULL) {
        return NULL;
    }
    struct gw_cohort *cohort = cohorts->items[index];
    if (cohort->generation != plan->generation &&
        compile_cohort(cohorts, cohort, plan) != BASE_OK) {
        return NULL;
    }
    return cohort;
}

uint64_t gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id)
{
    uint64_t digest = cohort->digest;
    for (uint32_t i = 0; i < cohort->partial_count; i++) {
        const struct gw_partial *partial = &cohort->partials[i];
        if (pol_bucket(device_id, partial->salt) < partial->limit) {
            digest += partial->delta;
        }
    }
    return digest;
}

uint16_t gw_cohort_limit(const struct gw_cohort *cohort, uint32_t relevant)
{
    if ((relevant & GW_RELEVANT_ALL) != 0) {
        return POL_BUCKET_COUNT;
    }
    if ((relevant & GW_RELEVANT_SHARE) == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < cohort->partial_count; i++) {
        if (cohort->partials[i].task_index == relevant >> 3) {
            return cohort->partials[i].limit;
        }
    }
    return 0;
}
