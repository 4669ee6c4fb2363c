// The simulate stage under a root: the responder in this process speaks for every role the root
// names, so that the version goes through the very checks it will meet at a gateway, before anybody
// has signed anything. Whether the root lets anyone release the task, and how many have to sign, is
// the real root's to say; only the signatures are this process's seals (see sim_local.h).
//
// One thread owns it. All is made once but the director's answers, which are for one device and one
// question each.
#ifndef SIM_LOCAL_TRUST_H
#define SIM_LOCAL_TRUST_H

#include "ports/sim_transport.h"
#include "wire/trust/meta.h"
#include "wire/trust/root.h"

#define SIM_LOCAL_LIFE_S 86400u // of timestamp and snapshot: longer than a simulation

struct sim_local_trust {
    bool on;               // false: the one key of this process is pinned
    struct wire_root root; // texts are borrowed from the bytes it was made from
    struct wire_director_entry entry;
    uint64_t now_s;
    size_t timestamp_bytes;
    size_t snapshot_bytes;
    uint8_t timestamp[WIRE_STATEMENT_BYTES_MAX * 2];
    uint8_t snapshot[WIRE_STATEMENT_BYTES_MAX * 2];
    uint8_t next[WIRE_NEXT_HEAD_BYTES + WIRE_STATEMENT_BYTES_MAX * 4]; // both in one answer
};

// What is signed as this process does, and by which keys.
struct sim_sealing {
    uint8_t type; // of the envelope
    const uint8_t *payload;
    size_t payload_bytes;
    const uint8_t (*keys)[WIRE_PUBLIC_KEY_BYTES];
    uint32_t key_count;
};
// A seal over key and message, by each of the keys.
BASE_NODISCARD enum base_status sim_seal(const struct sim_sealing *sealing, uint8_t *out,
                                         size_t capacity, size_t *out_size);
// Is it the seal of this process for this key?
bool sim_seal_holds(const uint8_t key[WIRE_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size,
                    const uint8_t signature[WIRE_SIGNATURE_BYTES]);

// Timestamp and snapshot for one release. `root` is an envelope and must stay where it is.
// SIGNATURE: the root lets nobody release the task; EXPIRED: it ran out.
BASE_NODISCARD enum base_status sim_local_trust_init(struct sim_local_trust *trust,
                                                     const uint8_t *root, size_t root_bytes,
                                                     const struct wire_release *release);
// The release's envelope, signed by as many as the root wants for all devices.
BASE_NODISCARD enum base_status sim_local_trust_release(const struct sim_local_trust *trust,
                                                        const struct wire_release *release,
                                                        uint8_t *out, size_t capacity,
                                                        size_t *out_size);
// The answer to one device's question. INVALID: the request carries none.
BASE_NODISCARD enum base_status sim_local_trust_director(const struct sim_local_trust *trust,
                                                         const struct dev_request *request,
                                                         uint8_t *out, size_t capacity,
                                                         size_t *out_size);
// What comes with that answer: timestamp and snapshot, where the device asks for what is new to it.
struct base_span sim_local_trust_brings(const struct sim_local_trust *trust,
                                        const struct dev_request *request);
// Body for a path below /v1/meta/; NULL: there is none.
const uint8_t *sim_local_trust_meta(const struct sim_local_trust *trust, struct base_str path,
                                    size_t *out_size);

#endif
