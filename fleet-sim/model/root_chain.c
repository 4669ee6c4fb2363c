// The simulator's own view of the chain of roots. Called on the shard's thread whenever a device
// keeps new content or verifies a signature; both happen a handful of times per root and release.
// fleet_statement.c adds roots and counts signers, report/trust_report.c reads the newest root when
// the run is over. It does not ask the device what it believes: the oracle about signatures has to
// be independent of the code it judges.
#include "model/root_chain.h"

#include <string.h>

enum base_status sim_root_chain_begin(struct sim_root_chain *chain, const uint8_t *bytes,
                                      size_t size, const struct wire_verifier *verifier)
{
    chain->count = 0;
    BASE_TRY(wire_root_open(bytes, size, verifier, &chain->items[0]));
    chain->count = 1;
    return BASE_OK;
}

bool sim_root_chain_add(struct sim_root_chain *chain, const uint8_t *bytes, size_t size,
                        const struct wire_verifier *verifier)
{
    struct wire_root next;
    if (chain->count == 0 || wire_root_follow(&chain->items[chain->count - 1], bytes, size,
                                              verifier, &next) != BASE_OK) {
        return false;
    }
    if (chain->count == SIM_ROOTS_MAX) {
        memmove(&chain->items[0], &chain->items[1], sizeof(next) * (SIM_ROOTS_MAX - 1));
        chain->count--;
    }
    chain->items[chain->count++] = next;
    return true;
}

const struct wire_root *sim_root_chain_find(const struct sim_root_chain *chain, uint64_t version)
{
    for (uint32_t i = chain->count; i > 0; i--) {
        if (chain->items[i - 1].version == version) {
            return &chain->items[i - 1];
        }
    }
    return NULL;
}

uint64_t sim_root_chain_newest(const struct sim_root_chain *chain)
{
    return chain->count > 0 ? chain->items[chain->count - 1].version : 0;
}

void sim_signers_add(struct sim_signers *signers, const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    for (uint32_t i = 0; i < signers->count; i++) {
        if (memcmp(signers->keys[i], key, WIRE_PUBLIC_KEY_BYTES) == 0) {
            return;
        }
    }
    if (signers->count < WIRE_STATEMENT_SIGNATURES) {
        memcpy(signers->keys[signers->count++], key, WIRE_PUBLIC_KEY_BYTES);
    }
}

// How many of the signers the role names.
static uint32_t count_of(const struct wire_root *root, const struct wire_role *role,
                         const struct sim_signers *signers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < root->key_count; i++) {
        for (uint32_t k = 0; k < signers->count && (role->keys >> i & 1u) != 0; k++) {
            count += memcmp(root->keys[i], signers->keys[k], WIRE_PUBLIC_KEY_BYTES) == 0;
        }
    }
    return count;
}

enum sim_reach sim_root_reach(const struct wire_root *root, const struct wire_release *release,
                              const struct sim_signers *signers)
{
    const struct wire_delegation *delegation = wire_root_delegation(root, release->task_name);
    if (delegation == NULL) {
        return SIM_REACH_NOBODY;
    }
    uint32_t have = count_of(root, &delegation->role, signers);
    if (have >= wire_root_release_threshold(root, delegation, release, false)) {
        return SIM_REACH_ALL;
    }
    return have >= wire_root_release_threshold(root, delegation, release, true) ? SIM_REACH_BETA
                                                                                : SIM_REACH_NOBODY;
}

enum sim_reach sim_root_chain_reach(const struct sim_root_chain *chain,
                                    const struct wire_release *release,
                                    const struct sim_signers *signers)
{
    enum sim_reach most = SIM_REACH_NOBODY;
    if (chain->count == 0) {
        return signers->count > 0 ? SIM_REACH_ALL : SIM_REACH_NOBODY;
    }
    for (uint32_t i = 0; i < chain->count; i++) {
        enum sim_reach reach = sim_root_reach(&chain->items[i], release, signers);
        most = reach > most ? reach : most;
    }
    return most;
}
