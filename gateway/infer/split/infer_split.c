// See infer_split.h. The service asks for every call of a model that is being released, with its
// lock held; release_gate.c counts what was seen. One hash and one comparison a call. Who a caller
// is must not depend on the process, so that it stays on its version through a restart.
#include "infer/split/infer_split.h"

#include "base/check.h"
#include "base/hash.h"
#include "policy/bucket.h"

#include <string.h>

// A second salt, so that who is shadowed has nothing to do with who is in the share.
#define SHADOW_SALT UINT64_C(0x736861646f77)

uint64_t gw_infer_caller(struct base_str text)
{
    uint64_t hash = text.size > 0 ? base_hash64(text.data, text.size) : 0;
    return hash != 0 || text.size == 0 ? hash : 1;
}

bool gw_infer_split_has(const struct gw_infer_split *split, uint64_t caller)
{
    base_assert(split->share <= POL_BUCKET_COUNT);
    return split->share > 0 && pol_bucket(caller, split->salt) < split->share;
}

bool gw_infer_split_shadows(const struct gw_infer_split *split, uint64_t call)
{
    base_assert(split->shadow <= POL_BUCKET_COUNT);
    return split->shadow > 0 && pol_bucket(call, split->salt ^ SHADOW_SALT) < split->shadow;
}

// ---- What one caller may count

void gw_infer_callers_init(struct gw_infer_callers *callers, const struct base_hash_key *key,
                           uint32_t per_caller)
{
    base_assert(per_caller <= GW_INFER_PER_CALLER_MAX);
    memset(callers, 0, sizeof(*callers));
    callers->key = *key;
    callers->per_caller = per_caller;
}

static uint32_t slot_of(const struct gw_infer_callers *callers, uint64_t who)
{
    return (uint32_t)(base_keyed64_u64(&callers->key, who) % GW_INFER_CALLER_SLOTS);
}

bool gw_infer_callers_full(const struct gw_infer_callers *callers, enum gw_infer_counted kind,
                           uint64_t who)
{
    const struct gw_infer_tally *tally = &callers->slots[kind][slot_of(callers, who)];
    return callers->per_caller > 0 && (uint32_t)tally->good + tally->bad >= callers->per_caller;
}

bool gw_infer_callers_count(struct gw_infer_callers *callers, enum gw_infer_counted kind,
                            uint64_t who, bool good, struct gw_infer_most *most)
{
    struct gw_infer_tally *tally = &callers->slots[kind][slot_of(callers, who)];
    if (callers->per_caller == 0) {
        return true;
    }
    if (gw_infer_callers_full(callers, kind, who)) {
        return false;
    }
    most->callers += tally->good == 0 && tally->bad == 0;
    tally->good = (uint16_t)(tally->good + good);
    tally->bad = (uint16_t)(tally->bad + !good);
    most->good = tally->good > most->good ? tally->good : most->good;
    most->bad = tally->bad > most->bad ? tally->bad : most->bad;
    return true;
}

// ---- What was seen

void gw_infer_trial_init(struct gw_infer_trial *trial)
{
    memset(trial, 0, sizeof(*trial));
    base_hist_init(&trial->serving.us);
    base_hist_init(&trial->candidate.us);
    base_hist_init(&trial->shadow_us);
}

uint64_t gw_infer_seen_over(const struct gw_infer_seen *seen, uint64_t limit_us)
{
    uint64_t count = 0;
    for (uint32_t i = BASE_HIST_BUCKETS - 1; i > 0 && base_hist_edge(i - 1) >= limit_us; i--) {
        count += seen->us.buckets[i];
    }
    return count < seen->us.count ? count : seen->us.count;
}
