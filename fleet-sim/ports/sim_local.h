// A responder in the same process for the simulate stage: it offers one version to every device
// and serves its files, so that a version runs in the real runtime on virtual devices before any
// gateway offers it to anybody.
//
// Permission here is the simulator's own: statements carry a seal of this process instead of a
// signature, and the crypto port made here accepts that seal and nothing else. Without a root
// devices pin sim_local_key; with one they are born with it, and the responder seals for as many of
// its keys as it wants (sim_local_trust.h). One thread; answers are handed out by
// sim_local_deliver.
#ifndef SIM_SIM_LOCAL_H
#define SIM_SIM_LOCAL_H

#include "ports/content_store.h"
#include "ports/sim_exclusive.h"
#include "ports/sim_local_trust.h"
#include "wire/manifest.h"
#include "wire/trust/offer.h"

struct sim_local {
    struct sim_transport_events events;
    struct sim_store *store;    // holds the manifest and its files
    struct sim_exchange *first; // answers waiting, in order
    struct sim_exchange *last;
    uint64_t task_id;
    uint64_t version_id;
    struct sim_local_trust trust;
    uint8_t statement[WIRE_STATEMENT_BYTES_MAX];
    size_t statement_bytes;
    uint8_t offer[WIRE_OFFERS_BYTES_MAX]; // the statement alone
    size_t offer_bytes;
    uint64_t reports;
    const struct sim_exclusive *exclusive; // NULL: there are none
    struct wire_manifest manifest;         // of the version; strings borrow from the store
};

extern const uint8_t sim_local_key[1][WIRE_PUBLIC_KEY_BYTES];

// The root devices are born with: an envelope that stays where it is; 0 bytes: none.
struct sim_local_root {
    const uint8_t *envelope;
    size_t bytes;
};

// `manifest` must be in `store`, and parse. INVALID, NOT_FOUND; the codes of sim_local_trust_init.
BASE_NODISCARD enum base_status sim_local_init(struct sim_local *local, struct sim_store *store,
                                               const struct wire_sha256 *manifest,
                                               const struct sim_local_root *root,
                                               const struct sim_transport_events *events);
struct sim_transport sim_local_transport(struct sim_local *local);
// Hands out the answers that wait now; those that come meanwhile wait for the next call. Returns
// how many.
uint32_t sim_local_deliver(struct sim_local *local);
// A crypto port that hashes as `real` does and accepts the seals of this process, and of roots real
// signatures. Static.
struct dev_crypto_port sim_local_crypto(const struct dev_crypto_port *real);

#endif
