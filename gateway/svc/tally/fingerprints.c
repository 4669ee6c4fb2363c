// Failures of a rollout by their fingerprints. tally.c calls this, under its mutex: with changes of
// devices that failed, with texts from the store, and for views. Nothing is allocated before the
// first failure; without memory for it the failures are counted, and not told apart.
#include "svc/tally/fingerprints.h"

#include "wire/report.h"

#include <stdlib.h>
#include <string.h>

struct gw_fingerprint {
    uint64_t value;
    uint64_t devices;
    uint8_t kind;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
};

void gw_fingerprints_done(struct gw_fingerprints *fingerprints)
{
    free(fingerprints->items);
}

static struct gw_fingerprint *find(const struct gw_fingerprints *fingerprints, uint64_t value)
{
    for (uint32_t i = 0; i < fingerprints->count; i++) {
        if (fingerprints->items[i].value == value) {
            return &fingerprints->items[i];
        }
    }
    return NULL;
}

// NULL: it is not remembered, and there is no room for it.
static struct gw_fingerprint *find_or_make(struct gw_fingerprints *fingerprints, uint64_t value)
{
    struct gw_fingerprint *found = find(fingerprints, value);
    if (found != NULL || fingerprints->count == GW_FINGERPRINTS_MAX) {
        return found;
    }
    if (fingerprints->items == NULL) {
        fingerprints->items = calloc(GW_FINGERPRINTS_MAX, sizeof(fingerprints->items[0]));
        if (fingerprints->items == NULL) {
            return NULL;
        }
    }
    struct gw_fingerprint *added = &fingerprints->items[fingerprints->count++];
    added->value = value;
    return added;
}

static void name(struct gw_fingerprint *found, uint8_t kind, struct base_str detail)
{
    found->kind = kind != 0 ? kind : found->kind;
    if (found->detail[0] == 0 && detail.size > 0) {
        size_t size = detail.size < WIRE_REPORT_DETAIL_MAX ? detail.size : WIRE_REPORT_DETAIL_MAX;
        memcpy(found->detail, detail.data, size);
        found->detail[size] = 0;
    }
}

void gw_fingerprints_note(struct gw_fingerprints *fingerprints,
                          const struct gw_tally_change *change)
{
    struct gw_fingerprint *found = find_or_make(fingerprints, change->fingerprint);
    if (found != NULL) {
        found->devices++;
        name(found, change->kind, change->detail);
    }
}

void gw_fingerprints_name(struct gw_fingerprints *fingerprints, uint64_t fingerprint, uint8_t kind,
                          struct base_str detail)
{
    struct gw_fingerprint *found = find_or_make(fingerprints, fingerprint);
    if (found != NULL) {
        name(found, kind, detail);
    }
}

bool gw_fingerprints_know(const struct gw_fingerprints *fingerprints, uint64_t fingerprint)
{
    const struct gw_fingerprint *found = find(fingerprints, fingerprint);
    return found != NULL ? found->detail[0] != 0 : fingerprints->count == GW_FINGERPRINTS_MAX;
}

void gw_fingerprints_view(const struct gw_fingerprints *fingerprints, struct gw_tally_view *view)
{
    bool taken[GW_FINGERPRINTS_MAX] = {false};
    view->fingerprint_count = 0;
    while (view->fingerprint_count < GW_ROLLOUT_FINGERPRINTS) {
        const struct gw_fingerprint *best = NULL;
        for (uint32_t i = 0; i < fingerprints->count; i++) {
            const struct gw_fingerprint *one = &fingerprints->items[i];
            if (!taken[i] && one->devices > (best != NULL ? best->devices : 0)) {
                best = one;
            }
        }
        if (best == NULL) {
            return;
        }
        taken[best - fingerprints->items] = true;
        struct gw_rollout_fingerprint *out = &view->fingerprints[view->fingerprint_count++];
        out->fingerprint = best->value;
        out->devices = best->devices;
        out->kind = best->kind;
        memcpy(out->detail, best->detail, sizeof(out->detail));
    }
}
