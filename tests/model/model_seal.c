// Seals: see the header. One thread, but for the signer port, which has no state.
#include "model_seal.h"

#include "base/hash.h"
#include "store/store.h"

#include <string.h>

#define ROOT_LIFE_S (20u * 365u * 86400u)

void model_key_public(enum model_key key, uint8_t out[WIRE_PUBLIC_KEY_BYTES])
{
    memset(out, 0x5a, WIRE_PUBLIC_KEY_BYTES);
    out[0] = (uint8_t)(1 + key);
}

struct wire_sha256 model_sha256(const void *bytes, size_t size)
{
    struct wire_sha256 digest;
    gw_sha256(bytes, size, &digest);
    return digest;
}

static void seal(const uint8_t *key, const uint8_t *message, size_t size,
                 uint8_t out[WIRE_SIGNATURE_BYTES])
{
    uint64_t seed = base_hash64(key, WIRE_PUBLIC_KEY_BYTES);
    for (uint32_t i = 0; i < WIRE_SIGNATURE_BYTES / sizeof(seed); i++) {
        uint64_t word = base_hash64_seed(message, size, seed + i);
        memcpy(out + i * sizeof(word), &word, sizeof(word));
    }
}

enum base_status model_seal_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                   const uint8_t *message, size_t size,
                                   const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    uint8_t expected[WIRE_SIGNATURE_BYTES];
    (void)ctx;
    seal(key, message, size, expected);
    return memcmp(expected, signature, sizeof(expected)) == 0 ? BASE_OK : BASE_ERR_SIGNATURE;
}

enum base_status model_seal_envelope(uint32_t keys, uint8_t type, const uint8_t *payload,
                                     size_t payload_bytes, uint8_t *out, size_t capacity,
                                     size_t *out_size)
{
    uint8_t message[WIRE_STATEMENT_BYTES_MAX + 64];
    size_t size = 0;
    struct wire_sha256 digest;
    const uint8_t *said = payload;
    size_t said_bytes = payload_bytes;
    struct wire_envelope envelope = {
        .type = type, .payload = payload, .payload_bytes = payload_bytes};
    if (wire_envelope_is_hashed(type)) {
        digest = model_sha256(payload, payload_bytes);
        said = digest.bytes;
        said_bytes = sizeof(digest.bytes);
    }
    BASE_TRY(wire_envelope_signed_bytes(type, (struct base_span){said, said_bytes}, message,
                                        sizeof(message), &size));
    for (uint32_t key = 0; key < MODEL_KEY_COUNT; key++) {
        if ((keys >> key & 1) != 0) {
            uint8_t public[WIRE_PUBLIC_KEY_BYTES];
            uint32_t at = envelope.signature_count++;
            model_key_public((enum model_key)key, public);
            digest = model_sha256(public, sizeof(public));
            memcpy(envelope.signatures[at].key_id, digest.bytes, sizeof(digest.bytes));
            seal(public, message, size, envelope.signatures[at].bytes);
        }
    }
    return wire_envelope_encode(&envelope, out, capacity, out_size);
}

static const enum model_key online_keys[2][GW_ONLINE_COUNT] = {
    {[GW_ONLINE_TIMESTAMP] = MODEL_KEY_TIMESTAMP,
     [GW_ONLINE_SNAPSHOT] = MODEL_KEY_SNAPSHOT,
     [GW_ONLINE_DIRECTOR] = MODEL_KEY_DIRECTOR},
    {[GW_ONLINE_TIMESTAMP] = MODEL_KEY_TIMESTAMP_NEXT,
     [GW_ONLINE_SNAPSHOT] = MODEL_KEY_SNAPSHOT_NEXT,
     [GW_ONLINE_DIRECTOR] = MODEL_KEY_DIRECTOR_NEXT},
};

enum base_status model_seal_root(const struct model_seal_root *root, uint8_t *out, size_t capacity,
                                 size_t *out_size)
{
    const enum model_key *online = online_keys[root->online_next];
    uint8_t payload[1024];
    size_t size = 0;
    struct wire_root whole = {
        .version = root->version,
        .issued_s = root->issued_s,
        .expires_s = root->issued_s + ROOT_LIFE_S,
        .wide_bucket = 10000,
        .lease_max_s = root->lease_max_s,
        .key_count = MODEL_KEY_COUNT,
        .roles = {[WIRE_ROLE_ROOT] = {1, 1u << MODEL_KEY_ROOT},
                  [WIRE_ROLE_TIMESTAMP] = {1, (uint16_t)(1u << online[GW_ONLINE_TIMESTAMP])},
                  [WIRE_ROLE_SNAPSHOT] = {1, (uint16_t)(1u << online[GW_ONLINE_SNAPSHOT])},
                  [WIRE_ROLE_DIRECTOR] = {1, (uint16_t)(1u << online[GW_ONLINE_DIRECTOR])}},
        .delegation_count = 1,
        .delegations = {{BASE_STR(""), root->releases.threshold, root->releases}},
    };
    for (uint32_t i = 0; i < MODEL_KEY_COUNT; i++) {
        model_key_public((enum model_key)i, whole.keys[i]);
    }
    BASE_TRY(wire_root_encode(&whole, payload, sizeof(payload), &size));
    return model_seal_envelope(1u << MODEL_KEY_ROOT, WIRE_ENVELOPE_TYPE_ROOT, payload, size, out,
                               capacity, out_size);
}

// ---- Ports

static enum base_status sign(void *ctx, enum gw_online_role role, const uint8_t *message,
                             size_t size, uint8_t out[WIRE_SIGNATURE_BYTES])
{
    const struct gw_signer_port *port = ctx;
    seal(port->keys[role], message, size, out);
    return BASE_OK;
}

const struct gw_signer_port *model_seal_signer(bool next)
{
    static struct gw_signer_port ports[2];
    struct gw_signer_port *port = &ports[next];
    if (port->sign == NULL) {
        for (uint32_t i = 0; i < GW_ONLINE_COUNT; i++) {
            model_key_public(online_keys[next][i], port->keys[i]);
        }
        port->ctx = port;
        port->verify = model_seal_verify;
        port->sign = sign;
    }
    return port;
}

struct dev_crypto_port model_seal_crypto(void)
{
    struct dev_crypto_port port = *dev_crypto_openssl();
    port.verify = model_seal_verify;
    return port;
}
