// The root of trust: which keys speak for which role, and how many of them it takes.
//
// A device is born with one root. The next one, exactly one version on, is followed when enough
// keys of the old root and enough of its own signed it; so keys are exchanged without touching a
// device. Everything a device believes is verified against the newest root it holds.
//
//   root       := u8 spec (1), u64 version, u64 issued_s, u64 expires_s, u16 wide_bucket,
//                 u32 lease_max_s, varint key_count, key_count x key[32],
//                 4 x role (root, timestamp, snapshot, director),
//                 varint delegation_count, delegation_count x { text8 prefix, u8 wide, role }
//   role       := u8 threshold, u16 keys           (bit i: key i of the list)
//
// Keys ascend. A delegation speaks for the tasks whose name begins with its prefix; the longest
// prefix that fits decides alone (a delegation is terminating), and prefixes ascend. Its role's
// threshold is for releases to few devices, `wide` for those to many: see wire_root_releases.
#ifndef WIRE_ROOT_H
#define WIRE_ROOT_H

#include "wire/trust/statement.h"

BASE_C_BEGIN

#define WIRE_ROOT_SPEC            1
#define WIRE_ROOT_KEYS_MAX        16
#define WIRE_ROOT_DELEGATIONS_MAX 16
#define WIRE_ROOT_LEASE_S_MAX     (30 * 86400)

enum wire_root_role {
    WIRE_ROLE_ROOT,
    WIRE_ROLE_TIMESTAMP,
    WIRE_ROLE_SNAPSHOT,
    WIRE_ROLE_DIRECTOR,
    WIRE_ROLE_COUNT
};

struct wire_hasher;

struct wire_role {
    uint8_t threshold; // 1..keys
    uint16_t keys;     // bit mask over the root's list
};

struct wire_delegation {
    struct base_str prefix; // borrowed from the payload; empty: every task
    uint8_t wide_threshold; // at least the role's
    struct wire_role role;
};

struct wire_root {
    uint64_t version; // from 1
    uint64_t issued_s;
    uint64_t expires_s;
    uint16_t wide_bucket; // a release with a larger max_bucket needs the wide threshold; 0..10000
    uint32_t lease_max_s; // longest lease in beta and gray stages; 0: they need none
    uint32_t key_count;
    uint8_t keys[WIRE_ROOT_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
    struct wire_role roles[WIRE_ROLE_COUNT];
    uint32_t delegation_count;
    struct wire_delegation delegations[WIRE_ROOT_DELEGATIONS_MAX];
};

// What is hashed and what is verified with: the caller's cryptography. `verify` gives OK or
// SIGNATURE.
struct wire_verifier {
    void *ctx;
    void (*sha256)(void *ctx, const void *bytes, size_t size, const struct wire_sha256 *hoped,
                   struct wire_sha256 *out);
    enum base_status (*verify)(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES]);
};

// Hashes alone (wire/hash_tree.h); `verifier` must stay where it is.
struct wire_hasher wire_verifier_hasher(const struct wire_verifier *verifier);

// Payload. INVALID (order, thresholds, masks, prefixes, times), TOO_LARGE.
BASE_NODISCARD enum base_status wire_root_encode(const struct wire_root *root, uint8_t *out,
                                                 size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status wire_root_parse(const uint8_t *payload, size_t size,
                                                struct wire_root *out);

// The delegation for a task; NULL: nobody may release it.
const struct wire_delegation *wire_root_delegation(const struct wire_root *root,
                                                   struct base_str task);
// Did `threshold` distinct keys of `role` sign the envelope? SIGNATURE: none did; THRESHOLD: too
// few did; of an ANSWER also what wire_answer_parse says.
BASE_NODISCARD enum base_status wire_root_verify(const struct wire_root *root,
                                                 const struct wire_role *role, uint8_t threshold,
                                                 const struct wire_envelope *envelope,
                                                 const struct wire_verifier *verifier);
// Is `bytes` (an envelope) a root that signs for itself? It is what a device may be born with.
// UNSUPPORTED for another type, INVALID, SIGNATURE, THRESHOLD.
BASE_NODISCARD enum base_status wire_root_open(const uint8_t *bytes, size_t size,
                                               const struct wire_verifier *verifier,
                                               struct wire_root *out);
// Is `bytes` the successor of `before`: version + 1, signed by thresholds of both? ROOT: another
// version; the others as above. The texts of *out are borrowed from `bytes`.
BASE_NODISCARD enum base_status wire_root_follow(const struct wire_root *before,
                                                 const uint8_t *bytes, size_t size,
                                                 const struct wire_verifier *verifier,
                                                 struct wire_root *out);
// Do both trust the same keys with the same threshold for `role`?
bool wire_root_same_role(const struct wire_root *a, const struct wire_root *b,
                         enum wire_root_role role);
// How many of the delegation's keys a release needs: its threshold for at most wide_bucket buckets,
// and in beta on a device of the beta channel; the wide one otherwise.
uint8_t wire_root_release_threshold(const struct wire_root *root,
                                    const struct wire_delegation *delegation,
                                    const struct wire_release *release, bool beta_device);

BASE_C_END

#endif
