// A table of attribute values, bounded; further values are in none. Called by the tally alone, with
// its mutex held. So it needs no lock of its own. It is for people who look for what failing
// devices have in common: the policy never reads it, quarantine has counts of its own. A view sorts
// the worst first.
#include "svc/tally/value_slices.h"

#include "wire/attrs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES_MAX 256u

struct slice {
    uint64_t hash;
    struct gw_rollout_slice counts;
};

struct gw_value_slices {
    uint32_t count;
    struct slice items[SLICES_MAX * 2]; // open addressing, hash 0: free
};

void gw_value_slices_free(struct gw_value_slices *slices)
{
    free(slices);
}

static void attr_text(const struct wire_attr *attr, char *out, size_t capacity)
{
    if (attr->type == WIRE_ATTR_STRING) {
        snprintf(out, capacity, "%.*s", (int)attr->text.size, attr->text.data);
    } else if (attr->type == WIRE_ATTR_BOOLEAN) {
        snprintf(out, capacity, "%s", attr->integer != 0 ? "true" : "false");
    } else {
        snprintf(out, capacity, "%lld", (long long)attr->integer);
    }
}

static struct slice *find_slice(struct gw_value_slices *slices, const struct base_hash_key *key,
                                const struct wire_attr *attr)
{
    // The hash stands for the value: keyed, nobody finds two that share one.
    uint64_t value = attr->type == WIRE_ATTR_STRING
                         ? base_keyed64(key, attr->text.data, attr->text.size)
                         : (uint64_t)attr->integer;
    uint64_t name = base_keyed64(key, attr->name.data, attr->name.size);
    uint64_t hash = base_keyed64_pair(key, name + attr->type, value);
    hash = hash != 0 ? hash : 1;
    uint32_t at = (uint32_t)hash % (SLICES_MAX * 2);
    while (slices->items[at].hash != 0 && slices->items[at].hash != hash) {
        at = (at + 1) % (SLICES_MAX * 2);
    }
    struct slice *slice = &slices->items[at];
    if (slice->hash == 0) {
        if (slices->count == SLICES_MAX) {
            return NULL;
        }
        slices->count++;
        slice->hash = hash;
        snprintf(slice->counts.attr, sizeof(slice->counts.attr), "%.*s", (int)attr->name.size,
                 attr->name.data);
        attr_text(attr, slice->counts.value, sizeof(slice->counts.value));
    }
    return slice;
}

void gw_value_slices_note(struct gw_value_slices **slices, const struct base_hash_key *key,
                          const struct gw_tally_change *change, bool completed, bool failed)
{
    struct wire_attrs attrs;
    if (change->attrs == NULL ||
        wire_attrs_parse(change->attrs, change->attrs_size, &attrs) != BASE_OK) {
        return;
    }
    if (*slices == NULL) {
        *slices = calloc(1, sizeof(**slices));
        if (*slices == NULL) {
            return;
        }
    }
    for (uint32_t i = 0; i < attrs.count; i++) {
        struct slice *slice = find_slice(*slices, key, &attrs.items[i]);
        if (slice != NULL) {
            slice->counts.failed += failed;
            slice->counts.completed =
                gw_slice_completed(slice->counts.completed + completed, slice->counts.failed);
        }
    }
}

static int worse_slice(const void *a, const void *b)
{
    const struct gw_rollout_slice *x = a;
    const struct gw_rollout_slice *y = b;
    // failed / completed, compared without division; then the larger one.
    uint64_t left = x->failed * y->completed;
    uint64_t right = y->failed * x->completed;
    if (left != right) {
        return left > right ? -1 : 1;
    }
    return x->completed > y->completed ? -1 : x->completed < y->completed;
}

uint32_t gw_value_slices_worst(const struct gw_value_slices *slices,
                               struct gw_rollout_slice out[GW_ROLLOUT_SLICES])
{
    struct gw_rollout_slice *all = calloc(SLICES_MAX, sizeof(*all));
    uint32_t count = 0;
    for (uint32_t i = 0; all != NULL && slices != NULL && i < SLICES_MAX * 2; i++) {
        if (slices->items[i].hash != 0) {
            all[count++] = slices->items[i].counts;
        }
    }
    if (count > 0) {
        qsort(all, count, sizeof(all[0]), worse_slice);
    }
    count = count < GW_ROLLOUT_SLICES ? count : GW_ROLLOUT_SLICES;
    if (count > 0) {
        memcpy(out, all, count * sizeof(all[0]));
    }
    free(all);
    return count;
}
