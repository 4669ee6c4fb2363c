// Who is where in the end. A device may be on the release, or hold a reason against it: it failed
// there, or there is no place for its task. run/fleet_facts.c counts when the shards have ended,
// and run/fleet_outcome.c judges once the rollouts of the run are known.
#include "model/end_states.h"

#include "base/check.h"

#include <string.h>

static bool settled(const struct sim_ledger_entry *entry, const struct sim_ledger_masks *masks,
                    uint8_t version)
{
    uint64_t bit = UINT64_C(1) << version;
    bool runs = entry->active == version && (masks->good & bit) != 0;
    return runs || entry->no_room || entry->blocked == version || (masks->failed & bit) != 0;
}

static void count_one(uint64_t *count, uint32_t *first, uint32_t number)
{
    if ((*count)++ == 0) {
        *first = number;
    }
}

// `number`: of the device in the run; `device`: in its ledger.
static void count_entry(const struct sim_ledger *ledger, uint32_t device, uint32_t number,
                        struct sim_ends *out)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    struct sim_ledger_masks masks = sim_ledger_masks(ledger, device);
    if (!entry->arrived) {
        return;
    }
    out->devices++;
    for (uint8_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        if (!settled(entry, &masks, v)) {
            count_one(&out->astray[v], &out->astray_first[v], number);
        }
    }
    count_one(&out->on[entry->active], &out->on_first[entry->active], number);
}

bool sim_ends_astray(const struct sim_ends *ends, const char *state, uint8_t version,
                     struct sim_astray *out)
{
    bool back = strcmp(state, "rolled_back") == 0;
    if (version == SIM_VERSION_NONE || (!back && strcmp(state, "completed") != 0)) {
        return false;
    }
    base_assert(version < SIM_VERSIONS_MAX);
    out->count = back ? ends->on[version] : ends->astray[version];
    out->first = back ? ends->on_first[version] : ends->astray_first[version];
    return true;
}

bool sim_rest_due(const struct sim_rest *rest, double now_s)
{
    return now_s >= rest->next_s;
}

bool sim_rest_look(struct sim_rest *rest, double now_s, bool there)
{
    base_assert(now_s >= rest->next_s);
    rest->next_s = now_s + SIM_REST_LOOK_S;
    rest->since_s = there ? rest->since_s : now_s;
    return there && now_s - rest->since_s >= SIM_REST_S;
}

void sim_ends_count(const struct sim_ledger *const *ledgers, uint32_t count, struct sim_ends *out)
{
    uint32_t before = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t s = 0; s < count; s++) {
        const struct sim_ledger *ledger = ledgers[s];
        for (uint32_t i = 0; i < ledger->count; i++) {
            base_assert(ledger->entries[i].active < SIM_VERSIONS_MAX);
            count_entry(ledger, i, before + i, out);
        }
        before += ledger->count;
    }
}
