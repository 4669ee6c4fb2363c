// The roots a run has seen, and what they say about a release: how many people have to sign it for
// which devices. Kept by the simulator beside the devices' own belief, and checked by itself, so
// that an oracle can say whether what ran was signed by enough of them.
//
// One chain per shard, owned by its thread. Without a root (a pinned key) the chain is empty, and
// one signature is enough for everybody.
#ifndef SIM_ROOT_CHAIN_H
#define SIM_ROOT_CHAIN_H

#include "wire/trust/root.h"

#define SIM_ROOTS_MAX 64 // of a chain; past that the oldest is forgotten

// Whom the signatures seen so far let a release reach.
enum sim_reach {
    SIM_REACH_NOBODY,
    SIM_REACH_BETA, // devices of the beta channel
    SIM_REACH_ALL
};

struct sim_root_chain {
    struct wire_root items[SIM_ROOTS_MAX]; // ascending versions
    uint32_t count;
};

// The root that the devices are born with. UNSUPPORTED, INVALID, SIGNATURE, THRESHOLD: it is none.
// Texts are borrowed from `bytes`, here and in the next.
BASE_NODISCARD enum base_status sim_root_chain_begin(struct sim_root_chain *chain,
                                                     const uint8_t *bytes, size_t size,
                                                     const struct wire_verifier *verifier);
// Content that a device has kept: added when it is the successor of the newest root here. False:
// it is something else.
bool sim_root_chain_add(struct sim_root_chain *chain, const uint8_t *bytes, size_t size,
                        const struct wire_verifier *verifier);
// The root of this version, NULL when it is not in the chain.
const struct wire_root *sim_root_chain_find(const struct sim_root_chain *chain, uint64_t version);
uint64_t sim_root_chain_newest(const struct sim_root_chain *chain); // 0: none

// Keys whose signature of a release verified; each is there once.
struct sim_signers {
    uint8_t keys[WIRE_STATEMENT_SIGNATURES][WIRE_PUBLIC_KEY_BYTES];
    uint32_t count;
};

void sim_signers_add(struct sim_signers *signers, const uint8_t key[WIRE_PUBLIC_KEY_BYTES]);
// By one root, and by the most generous one of the chain (a device may still hold an older root).
enum sim_reach sim_root_reach(const struct wire_root *root, const struct wire_release *release,
                              const struct sim_signers *signers);
enum sim_reach sim_root_chain_reach(const struct sim_root_chain *chain,
                                    const struct wire_release *release,
                                    const struct sim_signers *signers);

#endif
