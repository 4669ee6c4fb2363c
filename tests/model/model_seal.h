// Signatures of the model's world: a keyed hash in place of Ed25519. What is tested is who may
// order what, not the curve; a run has hundreds of thousands of signatures.
#ifndef MODEL_SEAL_H
#define MODEL_SEAL_H

#include "device/port.h"
#include "svc/signer.h"
#include "wire/trust/root.h"
#include "wire/trust/statement.h"

enum model_key {
    MODEL_KEY_RELEASE,
    MODEL_KEY_ROOT,
    MODEL_KEY_TIMESTAMP,
    MODEL_KEY_SNAPSHOT,
    MODEL_KEY_DIRECTOR,
    MODEL_KEY_RELEASE_NEXT,
    MODEL_KEY_TIMESTAMP_NEXT,
    MODEL_KEY_SNAPSHOT_NEXT,
    MODEL_KEY_DIRECTOR_NEXT,
    MODEL_KEY_COUNT
};

// 32 bytes, ascending with the number, as a root wants them.
void model_key_public(enum model_key key, uint8_t out[WIRE_PUBLIC_KEY_BYTES]);
// OK or SIGNATURE. `ctx` is not looked at: it fits the ports of devices and of the gateway.
enum base_status model_seal_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                   const uint8_t *message, size_t size,
                                   const uint8_t signature[WIRE_SIGNATURE_BYTES]);
// An envelope with the seal of each key of the mask.
BASE_NODISCARD enum base_status model_seal_envelope(uint32_t keys, uint8_t type,
                                                    const uint8_t *payload, size_t payload_bytes,
                                                    uint8_t *out, size_t capacity,
                                                    size_t *out_size);
// A root of the world: all tasks, one key a role; of the release role as many as `releases` says.
struct model_seal_root {
    uint64_t version;
    uint64_t issued_s;
    uint32_t lease_max_s;
    struct wire_role releases;
    bool online_next; // it names the other online keys
};
BASE_NODISCARD enum base_status model_seal_root(const struct model_seal_root *root, uint8_t *out,
                                                size_t capacity, size_t *out_size);
// The gateway's online keys, the first ones or the next. Static.
const struct gw_signer_port *model_seal_signer(bool next);
// Real hashes, the verification above. Static.
struct dev_crypto_port model_seal_crypto(void);
struct wire_sha256 model_sha256(const void *bytes, size_t size);

#endif
