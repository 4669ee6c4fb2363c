// Puts what is known of roots at the end of a run (run/fleet_trust.c gathers it) in a sentence, for
// report_html.c and run_summary.c, on the coordinator's thread. A run with a pinned key has no
// chain and says nothing here.
#include "report/trust_report.h"

#include <stdio.h>
#include <string.h>

static uint32_t keys_of(const struct wire_role *role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WIRE_ROOT_KEYS_MAX; i++) {
        count += role->keys >> i & 1u;
    }
    return count;
}

// What happened is told, what did not is not. The length so far.
static size_t add_count(char out[SIM_TRUST_TEXT_MAX], size_t at, uint64_t count, const char *what)
{
    int size = count > 0 && at < SIM_TRUST_TEXT_MAX
                   ? snprintf(out + at, SIM_TRUST_TEXT_MAX - at, "; %llu %s",
                              (unsigned long long)count, what)
                   : 0;
    return at + (size > 0 ? (size_t)size : 0);
}

void sim_trust_text(const struct sim_trust_result *trust, const struct sim_counters *counters,
                    char out[SIM_TRUST_TEXT_MAX])
{
    const struct wire_root *root = &trust->newest;
    out[0] = 0;
    if (!trust->has_root || trust->online == 0) {
        return;
    }
    char release[120 + WIRE_TASK_NAME_MAX] = "";
    const struct wire_delegation *delegation =
        trust->task[0] != '\0' ? wire_root_delegation(root, base_str_of(trust->task)) : NULL;
    if (delegation != NULL) {
        (void)snprintf(release, sizeof(release),
                       ", a release of %s %u of %u, above %g %% of the devices %u", trust->task,
                       delegation->role.threshold, keys_of(&delegation->role),
                       root->wide_bucket / 100.0, delegation->wide_threshold);
    }
    const struct wire_role *root_role = &root->roles[WIRE_ROLE_ROOT];
    uint64_t on_newest = root->version < SIM_ROOT_NUMBERS ? trust->devices[root->version]
                                                          : trust->devices[UINT8_MAX];
    int size = snprintf(
        out, SIM_TRUST_TEXT_MAX,
        "root %llu (born with %llu) on %llu of %llu devices; the next root needs %u of %u keys%s, "
        "lease %u s",
        (unsigned long long)root->version, (unsigned long long)trust->born.version,
        (unsigned long long)on_newest, (unsigned long long)trust->online, root_role->threshold,
        keys_of(root_role), release, root->lease_max_s);
    size_t at = size > 0 ? (size_t)size : 0;
    at = add_count(out, at, counters->refused_offers, "offers refused");
    at = add_count(out, at, counters->refused_metadata,
                   "roots, timestamps, snapshots or orders refused");
    at = add_count(out, at, counters->leases_lost, "leases ran out");
    (void)add_count(out, at, counters->kills, "active versions stopped by the kill list");
}
