// The per-worker cohort cache: the table. What a cohort is computed from is in cohort_compile.c.
// One thread: the worker's. checkin_answer.c finds a device's cohort by the hash of its raw
// attribute block, hints.c pins those of devices with an open stream, core.c begins and ends the
// cache. When it is full the cohorts that nobody pinned make room; a cohort that went is computed
// again when a device of it comes. It is nobody else's, so there is no lock.
#include "svc/plan/cohort.h"

#include "base/check.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u

enum base_status gw_cohorts_new(const struct base_hash_key *key, struct gw_cohorts **out_cohorts)
{
    struct gw_cohorts *cohorts = calloc(1, sizeof(*cohorts));
    if (cohorts == NULL) {
        return BASE_ERR_NOMEM;
    }
    cohorts->key = *key;
    *out_cohorts = cohorts;
    return BASE_OK;
}

// What it points to; the head belongs to its chunk.
static void done_cohort(struct gw_cohort *cohort)
{
    if (cohort != NULL) {
        free(cohort->partials);
        free(cohort->tasks);
        if (cohort->attrs != cohort->inline_attrs) {
            free(cohort->attrs);
        }
    }
}

void gw_cohorts_free(struct gw_cohorts *cohorts)
{
    if (cohorts == NULL) {
        return;
    }
    for (uint32_t i = 0; i < cohorts->used; i++) {
        done_cohort(cohorts->items[i]);
    }
    for (uint32_t i = 0; i < cohorts->chunk_count; i++) {
        free(cohorts->chunks[i]);
    }
    free(cohorts->chunks);
    free(cohorts->items);
    free(cohorts->slots);
    gw_slots_done(&cohorts->candidates);
    free(cohorts);
}

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
            cohorts->bytes -= gw_cohort_bytes(cohort);
            done_cohort(cohort);
            cohorts->items[i] = NULL;
            cohorts->count--;
        }
    }
    cohorts->free_hint = 0;
    cohorts->flushed++;
}

static bool make_room(struct gw_cohorts *cohorts)
{
    if (cohorts->count >= GW_COHORTS_MAX || cohorts->bytes >= GW_COHORTS_BYTES_MAX) {
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

// The head at `index`, zeroed.
static struct gw_cohort *take_head(struct gw_cohorts *cohorts, uint32_t index)
{
    while (index / GW_COHORTS_CHUNK >= cohorts->chunk_count) {
        struct gw_cohort **grown =
            realloc(cohorts->chunks, (cohorts->chunk_count + 1) * sizeof(grown[0]));
        if (grown == NULL) {
            return NULL;
        }
        cohorts->chunks = grown;
        grown[cohorts->chunk_count] = malloc(GW_COHORTS_CHUNK * sizeof(struct gw_cohort));
        if (grown[cohorts->chunk_count] == NULL) {
            return NULL;
        }
        cohorts->chunk_count++;
    }
    struct gw_cohort *cohort = &cohorts->chunks[index / GW_COHORTS_CHUNK][index % GW_COHORTS_CHUNK];
    memset(cohort, 0, sizeof(*cohort));
    return cohort;
}

static enum base_status create(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                               uint64_t hash, const struct gw_cohort_name *name,
                               struct gw_cohort **out_cohort)
{
    struct base_span block = name->attrs;
    uint32_t index;
    if (!make_room(cohorts) || !take_index(cohorts, &index)) {
        return BASE_ERR_NOMEM;
    }
    struct gw_cohort *cohort = take_head(cohorts, index);
    if (cohort == NULL) {
        return BASE_ERR_NOMEM;
    }
    cohort->attrs =
        block.size <= sizeof(cohort->inline_attrs) ? cohort->inline_attrs : malloc(block.size);
    if (cohort->attrs == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (block.size > 0) {
        memcpy(cohort->attrs, block.data, block.size);
    }
    cohort->attrs_size = (uint32_t)block.size;
    cohorts->bytes += gw_cohort_bytes(cohort);
    cohort->hash = hash;
    cohort->index = index;
    cohort->tenant = name->tenant;
    enum base_status status = gw_cohort_refresh(cohorts, cohort, plan);
    if (status != BASE_OK) {
        cohorts->bytes -= gw_cohort_bytes(cohort);
        done_cohort(cohort);
        return status;
    }
    cohorts->items[index] = cohort;
    cohorts->count++;
    slot_insert(cohorts, cohort);
    *out_cohort = cohort;
    return BASE_OK;
}

enum base_status gw_cohorts_find(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                 const struct gw_cohort_name *name, struct gw_cohort **out_cohort,
                                 bool *out_created)
{
    const uint16_t tenant = name->tenant;
    const struct base_span block = name->attrs;
    uint64_t hash = base_keyed64(&cohorts->key, block.data, block.size) + tenant;
    *out_created = false;
    if (cohorts->slots != NULL) {
        uint32_t at = (uint32_t)hash & cohorts->slot_mask;
        uint32_t steps = 0;
        for (; cohorts->slots[at] != GW_COHORT_NONE; at = (at + 1) & cohorts->slot_mask) {
            struct gw_cohort *cohort = cohorts->items[cohorts->slots[at]];
            if (cohort->hash != hash || cohort->tenant != tenant ||
                cohort->attrs_size != block.size ||
                memcmp(cohort->attrs, block.data, block.size) != 0) {
                cohorts->probes_long += ++steps == BASE_PROBE_LONG;
                continue;
            }
            if (__builtin_expect(cohort->generation != plan->generation, 0)) {
                BASE_TRY(gw_cohort_refresh(cohorts, cohort, plan));
            }
            *out_cohort = cohort;
            return BASE_OK;
        }
    }
    BASE_TRY(create(cohorts, plan, hash, name, out_cohort));
    *out_created = true;
    return BASE_OK;
}

bool gw_cohorts_pin(struct gw_cohorts *cohorts, struct gw_cohort *cohort, bool proven)
{
    if (cohort->pins == 0 && !proven) {
        if (cohorts->strange >= GW_COHORTS_STRANGE) {
            return false;
        }
        cohort->strange = true;
        cohorts->strange++;
    } else if (cohort->strange && proven) {
        cohort->strange = false;
        cohorts->strange--;
    }
    cohort->pins++;
    return true;
}

void gw_cohorts_unpin(struct gw_cohorts *cohorts, uint32_t index)
{
    if (index >= cohorts->used || cohorts->items[index] == NULL) {
        return;
    }
    struct gw_cohort *cohort = cohorts->items[index];
    base_assert(cohort->pins > 0);
    cohort->pins--;
    if (cohort->pins == 0 && cohort->strange) {
        cohort->strange = false;
        cohorts->strange--;
    }
}

struct gw_cohort *gw_cohorts_at(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                uint32_t index)
{
    if (index >= cohorts->used || cohorts->items[index] == NULL) {
        return NULL;
    }
    struct gw_cohort *cohort = cohorts->items[index];
    if (cohort->generation != plan->generation &&
        gw_cohort_refresh(cohorts, cohort, plan) != BASE_OK) {
        return NULL;
    }
    return cohort;
}
