// The index over anchors. Built on the control thread, read by workers.
//
//   posts    (key, rank) sorted by key, then rank: a task's rank is its place by ascending id
//   heads    open addressing over the distinct keys: where in posts a key begins
//   always   ranks of the tasks with a release that has no anchor
#include "svc/plan/plan_index.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define EMPTY UINT32_MAX

struct post {
    uint64_t key;
    uint32_t rank;
};

struct gw_plan_index {
    _Atomic uint32_t refs;
    uint64_t generation;
    struct post *posts;
    uint32_t post_count;
    uint32_t post_capacity;
    uint32_t *heads;
    uint32_t head_mask;
    struct gw_slots always;
    uint32_t *slots; // by rank
    uint32_t task_count;
};

// ---- Lists

enum base_status gw_slots_add(struct gw_slots *slots, uint32_t slot)
{
    if (slots->count == slots->capacity) {
        uint32_t wanted = slots->capacity == 0 ? 32 : slots->capacity * 2;
        uint32_t *grown = realloc(slots->items, (size_t)wanted * sizeof(grown[0]));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        slots->items = grown;
        slots->capacity = wanted;
    }
    slots->items[slots->count++] = slot;
    return BASE_OK;
}

void gw_slots_done(struct gw_slots *slots)
{
    free(slots->items);
    memset(slots, 0, sizeof(*slots));
}

// ---- Building

static uint64_t key_of(struct pol_text name, const struct pol_value *value)
{
    uint64_t seed = base_hash64_seed(name.data, name.size, (uint64_t)value->type);
    if (value->type == POL_TYPE_STRING) {
        return base_hash64_seed(value->text.data, value->text.size, seed);
    }
    int64_t number = value->type == POL_TYPE_INTEGER ? value->integer : value->boolean;
    return base_hash64_seed(&number, sizeof(number), seed);
}

static enum base_status add_post(struct gw_plan_index *index, uint64_t key, uint32_t rank)
{
    if (index->post_count == index->post_capacity) {
        uint32_t wanted = index->post_capacity == 0 ? 64 : index->post_capacity * 2;
        struct post *grown = realloc(index->posts, (size_t)wanted * sizeof(grown[0]));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        index->posts = grown;
        index->post_capacity = wanted;
    }
    index->posts[index->post_count++] = (struct post){key, rank};
    return BASE_OK;
}

static bool find_anchor(const struct gw_release *release, struct pol_anchor *out)
{
    return pol_target_anchor(&release->target, out) && out->value_count <= GW_ANCHOR_VALUES_MAX;
}

static enum base_status add_release(struct gw_plan_index *index, const struct gw_release *release,
                                    uint32_t rank)
{
    struct pol_anchor anchor;
    (void)find_anchor(release, &anchor);
    for (uint32_t i = 0; i < anchor.value_count; i++) {
        BASE_TRY(add_post(index, key_of(anchor.attr, &anchor.values[i]), rank));
    }
    return BASE_OK;
}

static enum base_status add_task(struct gw_plan_index *index, const struct gw_plan_task *task,
                                 uint32_t rank)
{
    struct pol_anchor anchor;
    bool anchored = true;
    for (uint32_t i = 0; i < task->base_count && anchored; i++) {
        anchored = find_anchor(task->bases[i].release, &anchor);
    }
    for (uint32_t i = 0; i < task->open_count && anchored; i++) {
        anchored = find_anchor(task->open[i].release, &anchor);
    }
    if (!anchored) {
        return gw_slots_add(&index->always, rank);
    }
    for (uint32_t i = 0; i < task->base_count; i++) {
        BASE_TRY(add_release(index, task->bases[i].release, rank));
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        BASE_TRY(add_release(index, task->open[i].release, rank));
    }
    return BASE_OK;
}

static int compare_posts(const void *a, const void *b)
{
    const struct post *x = a;
    const struct post *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static enum base_status build_heads(struct gw_plan_index *index)
{
    uint32_t size = 16;
    while (size < index->post_count * 2) {
        size *= 2;
    }
    index->heads = malloc((size_t)size * sizeof(index->heads[0]));
    if (index->heads == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(index->heads, 0xff, (size_t)size * sizeof(index->heads[0]));
    index->head_mask = size - 1;
    for (uint32_t i = 0; i < index->post_count; i++) {
        uint64_t key = index->posts[i].key;
        if (i > 0 && index->posts[i - 1].key == key) {
            continue;
        }
        uint32_t at = (uint32_t)key & index->head_mask;
        while (index->heads[at] != EMPTY) {
            at = (at + 1) & index->head_mask;
        }
        index->heads[at] = i;
    }
    return BASE_OK;
}

static enum base_status build(struct gw_plan_index *index, const struct gw_plan *plan)
{
    index->slots = malloc((plan->task_count + 1) * sizeof(index->slots[0]));
    if (index->slots == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(index->slots, plan->by_id, plan->task_count * sizeof(index->slots[0]));
    index->task_count = plan->task_count;
    for (uint32_t rank = 0; rank < plan->task_count; rank++) {
        BASE_TRY(add_task(index, plan->tasks[plan->by_id[rank]], rank));
    }
    if (index->post_count > 0) {
        qsort(index->posts, index->post_count, sizeof(index->posts[0]), compare_posts);
    }
    return build_heads(index);
}

enum base_status gw_plan_index_new(const struct gw_plan *plan, struct gw_plan_index **out_index)
{
    struct gw_plan_index *index = calloc(1, sizeof(*index));
    if (index == NULL) {
        return BASE_ERR_NOMEM;
    }
    atomic_init(&index->refs, 1);
    index->generation = plan->generation;
    enum base_status status = build(index, plan);
    if (status != BASE_OK) {
        gw_plan_index_unref(index);
        return status;
    }
    *out_index = index;
    return BASE_OK;
}

struct gw_plan_index *gw_plan_index_ref(struct gw_plan_index *index)
{
    atomic_fetch_add_explicit(&index->refs, 1, memory_order_relaxed);
    return index;
}

void gw_plan_index_unref(struct gw_plan_index *index)
{
    if (index == NULL || atomic_fetch_sub_explicit(&index->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    free(index->posts);
    free(index->heads);
    free(index->slots);
    gw_slots_done(&index->always);
    free(index);
}

uint64_t gw_plan_index_generation(const struct gw_plan_index *index)
{
    return index->generation;
}

// ---- Looking up

static enum base_status add_key(const struct gw_plan_index *index, uint64_t key,
                                struct gw_slots *out)
{
    uint32_t at = (uint32_t)key & index->head_mask;
    while (index->heads[at] != EMPTY && index->posts[index->heads[at]].key != key) {
        at = (at + 1) & index->head_mask;
    }
    if (index->heads[at] == EMPTY) {
        return BASE_OK;
    }
    for (uint32_t i = index->heads[at]; i < index->post_count && index->posts[i].key == key; i++) {
        BASE_TRY(gw_slots_add(out, index->posts[i].rank));
    }
    return BASE_OK;
}

// A text that is the version N.0.0 is also what an integer anchor N means.
static enum base_status add_attr(const struct gw_plan_index *index, const struct pol_attr *attr,
                                 struct gw_slots *out)
{
    struct pol_semver version;
    BASE_TRY(add_key(index, key_of(attr->name, &attr->value), out));
    if (attr->value.type != POL_TYPE_STRING ||
        !pol_semver_parse(attr->value.text.data, attr->value.text.size, &version)) {
        return BASE_OK;
    }
    struct pol_semver whole = {.numbers = {version.numbers[0], 0, 0, 0}};
    if (pol_semver_compare(&version, &whole) != 0 || version.numbers[0] > INT64_MAX) {
        return BASE_OK;
    }
    struct pol_value number = {.type = POL_TYPE_INTEGER, .integer = (int64_t)version.numbers[0]};
    return add_key(index, key_of(attr->name, &number), out);
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Behind the `anchored` sorted ranks at its beginning, `out` gets the slots of those and of
// `always`, each once, in order; they then move to the front.
static enum base_status merge(const struct gw_plan_index *index, uint32_t anchored,
                              struct gw_slots *out)
{
    uint32_t a = 0;
    uint32_t b = 0;
    while (a < anchored || b < index->always.count) {
        uint32_t left = a < anchored ? out->items[a] : UINT32_MAX;
        uint32_t right = b < index->always.count ? index->always.items[b] : UINT32_MAX;
        uint32_t rank = left < right ? left : right;
        BASE_TRY(gw_slots_add(out, index->slots[rank]));
        while (a < anchored && out->items[a] == rank) {
            a++;
        }
        b += rank == right;
    }
    out->count -= anchored;
    memmove(out->items, out->items + anchored, out->count * sizeof(out->items[0]));
    return BASE_OK;
}

enum base_status gw_plan_index_find(const struct gw_plan_index *index,
                                    const struct pol_attrs *attrs, struct gw_slots *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < attrs->count; i++) {
        BASE_TRY(add_attr(index, &attrs->items[i], out));
    }
    BASE_TRY(gw_slots_add(out, 0)); // so that there is an array
    out->count--;
    qsort(out->items, out->count, sizeof(out->items[0]), compare_ranks);
    return merge(index, out->count, out);
}
