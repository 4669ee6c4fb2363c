// Metadata, signers and director's answers of the simulate stage. Called by sim_local on the
// shard's thread; the first calls come from the coordinator, before the shards run. A seal is a
// hash of key and message, no signature: it holds in this process only, which is what a stage
// before anybody signed needs. Apart from sim_local.c, because all but the director's answers is
// made once and needs no exchange.
#include "ports/sim_local_trust.h"

#include "base/clock.h"
#include "base/hash.h"
#include "device/device.h"

#include <string.h>

#define TIMESTAMP_VERSION 1 // there is one

static struct wire_sha256 sha256(const void *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

static void seal(const uint8_t *key, const uint8_t *message, size_t size,
                 uint8_t out[WIRE_SIGNATURE_BYTES])
{
    uint64_t seed = base_hash64(key, WIRE_PUBLIC_KEY_BYTES);
    for (uint32_t i = 0; i < WIRE_SIGNATURE_BYTES / sizeof(uint64_t); i++) {
        uint64_t word = base_hash64_seed(message, size, seed + i + 1);
        memcpy(out + i * sizeof(word), &word, sizeof(word));
    }
}

bool sim_seal_holds(const uint8_t key[WIRE_PUBLIC_KEY_BYTES], const uint8_t *message, size_t size,
                    const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    uint8_t expected[WIRE_SIGNATURE_BYTES];
    seal(key, message, size, expected);
    return memcmp(expected, signature, sizeof(expected)) == 0;
}

enum base_status sim_seal(const struct sim_sealing *sealing, uint8_t *out, size_t capacity,
                          size_t *out_size)
{
    struct wire_envelope envelope = {.type = sealing->type,
                                     .payload = sealing->payload,
                                     .payload_bytes = sealing->payload_bytes};
    uint8_t message[WIRE_STATEMENT_BYTES_MAX + 64];
    size_t size = 0;
    struct wire_sha256 digest;
    const uint8_t *said = sealing->payload;
    size_t said_bytes = sealing->payload_bytes;
    if (wire_envelope_is_hashed(sealing->type)) {
        digest = sha256(said, said_bytes);
        said = digest.bytes;
        said_bytes = sizeof(digest.bytes);
    }
    BASE_TRY(wire_envelope_signed_bytes(sealing->type, (struct base_span){said, said_bytes},
                                        message, sizeof(message), &size));
    for (uint32_t i = 0; i < sealing->key_count && i < WIRE_STATEMENT_SIGNATURES; i++) {
        struct wire_signature *signature = &envelope.signatures[envelope.signature_count++];
        struct wire_sha256 key_id = sha256(sealing->keys[i], WIRE_PUBLIC_KEY_BYTES);
        memcpy(signature->key_id, key_id.bytes, sizeof(signature->key_id));
        seal(sealing->keys[i], message, size, signature->bytes);
    }
    return wire_envelope_encode(&envelope, out, capacity, out_size);
}

// The first `count` keys of a role.
struct signers {
    const struct wire_root *root;
    const struct wire_role *role;
    uint32_t count;
};

static enum base_status role_seal(const struct signers *by, struct sim_sealing sealing,
                                  uint8_t *out, size_t capacity, size_t *out_size)
{
    uint8_t keys[WIRE_STATEMENT_SIGNATURES][WIRE_PUBLIC_KEY_BYTES];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < by->root->key_count && taken < by->count; i++) {
        if ((by->role->keys >> i & 1u) != 0 && taken < WIRE_STATEMENT_SIGNATURES) {
            memcpy(keys[taken++], by->root->keys[i], WIRE_PUBLIC_KEY_BYTES);
        }
    }
    sealing.keys = (const uint8_t(*)[WIRE_PUBLIC_KEY_BYTES])keys;
    sealing.key_count = taken;
    return sim_seal(&sealing, out, capacity, out_size);
}

static enum base_status snapshot_make(struct sim_local_trust *trust, struct base_str scenario)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_snapshot snapshot = {.scenario = scenario,
                                     .version = 1,
                                     .issued_s = trust->now_s,
                                     .expires_s = trust->now_s + SIM_LOCAL_LIFE_S,
                                     .count = 1};
    struct wire_snapshot_entry entry = {.task_id = trust->entry.task_id,
                                        .counter = trust->entry.counter,
                                        .manifest = trust->entry.manifest};
    BASE_TRY(wire_snapshot_encode(&snapshot, &entry, payload, sizeof(payload), &size));
    const struct wire_role *role = &trust->root.roles[WIRE_ROLE_SNAPSHOT];
    const struct signers by = {&trust->root, role, role->threshold};
    return role_seal(&by,
                     (struct sim_sealing){.type = WIRE_ENVELOPE_TYPE_SNAPSHOT,
                                          .payload = payload,
                                          .payload_bytes = size},
                     trust->snapshot, sizeof(trust->snapshot), &trust->snapshot_bytes);
}

static enum base_status timestamp_make(struct sim_local_trust *trust, struct base_str scenario)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_timestamp timestamp = {.version = TIMESTAMP_VERSION,
                                       .issued_s = trust->now_s,
                                       .expires_s = trust->now_s + SIM_LOCAL_LIFE_S,
                                       .scenario_count = 1};
    timestamp.scenarios[0] = (struct wire_timestamp_scenario){
        .name = scenario,
        .version = 1,
        .bytes = trust->snapshot_bytes,
        .digest = sha256(trust->snapshot, trust->snapshot_bytes),
    };
    BASE_TRY(wire_timestamp_encode(&timestamp, payload, sizeof(payload), &size));
    const struct wire_role *role = &trust->root.roles[WIRE_ROLE_TIMESTAMP];
    const struct signers by = {&trust->root, role, role->threshold};
    return role_seal(&by,
                     (struct sim_sealing){.type = WIRE_ENVELOPE_TYPE_TIMESTAMP,
                                          .payload = payload,
                                          .payload_bytes = size},
                     trust->timestamp, sizeof(trust->timestamp), &trust->timestamp_bytes);
}

enum base_status sim_local_trust_init(struct sim_local_trust *trust, const uint8_t *root,
                                      size_t root_bytes, const struct wire_release *release)
{
    struct wire_envelope envelope;
    memset(trust, 0, sizeof(*trust));
    BASE_TRY(wire_envelope_parse(root, root_bytes, &envelope));
    BASE_TRY(wire_root_parse(envelope.payload, envelope.payload_bytes, &trust->root));
    trust->on = true;
    trust->now_s = base_clock_wall_us() / 1000000;
    trust->entry = (struct wire_director_entry){
        .task_id = wire_release_task_id(release),
        .counter = release->release_counter,
        .manifest_bytes = release->manifest_bytes,
        .manifest = release->manifest,
    };
    if (wire_root_delegation(&trust->root, release->task_name) == NULL) {
        return BASE_ERR_SIGNATURE;
    }
    if (trust->now_s >= trust->root.expires_s) {
        return BASE_ERR_EXPIRED;
    }
    struct base_str scenario = wire_scenario_of(release->task_name);
    BASE_TRY(snapshot_make(trust, scenario));
    BASE_TRY(timestamp_make(trust, scenario));
    wire_next_head(trust->timestamp_bytes, trust->next);
    memcpy(trust->next + WIRE_NEXT_HEAD_BYTES, trust->timestamp, trust->timestamp_bytes);
    memcpy(trust->next + WIRE_NEXT_HEAD_BYTES + trust->timestamp_bytes, trust->snapshot,
           trust->snapshot_bytes);
    return BASE_OK;
}

enum base_status sim_local_trust_release(const struct sim_local_trust *trust,
                                         const struct wire_release *release, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    const struct wire_delegation *delegation =
        wire_root_delegation(&trust->root, release->task_name);
    if (delegation == NULL) {
        return BASE_ERR_SIGNATURE;
    }
    BASE_TRY(wire_release_encode(release, payload, sizeof(payload), &size));
    const struct signers by = {&trust->root, &delegation->role, delegation->wide_threshold};
    return role_seal(&by,
                     (struct sim_sealing){.type = WIRE_ENVELOPE_TYPE_RELEASE,
                                          .payload = payload,
                                          .payload_bytes = size},
                     out, capacity, out_size);
}

enum base_status sim_local_trust_director(const struct sim_local_trust *trust,
                                          const struct dev_request *request, uint8_t *out,
                                          size_t capacity, size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_ask ask;
    struct wire_director director = {
        .issued_s = trust->now_s, .timestamp_version = TIMESTAMP_VERSION, .count = 1};
    BASE_TRY(wire_ask_parse(request->nonce, &ask));
    BASE_TRY(wire_device_parse(request->device, &director.device_id));
    memcpy(director.nonce, ask.nonce, sizeof(director.nonce));
    director.order = ask.order + 1;
    director.entries[0] = trust->entry;
    BASE_TRY(wire_director_encode(&director, payload, sizeof(payload), &size));
    const struct wire_role *role = &trust->root.roles[WIRE_ROLE_DIRECTOR];
    const struct signers by = {&trust->root, role, role->threshold};
    return role_seal(&by,
                     (struct sim_sealing){.type = WIRE_ENVELOPE_TYPE_DIRECTOR,
                                          .payload = payload,
                                          .payload_bytes = size},
                     out, capacity, out_size);
}

struct base_span sim_local_trust_brings(const struct sim_local_trust *trust,
                                        const struct dev_request *request)
{
    size_t size = WIRE_NEXT_HEAD_BYTES + trust->timestamp_bytes + trust->snapshot_bytes;
    struct wire_ask ask;
    bool asked = wire_ask_parse(request->nonce, &ask) == BASE_OK &&
                 (ask.flags & WIRE_ASK_FLAG_METADATA) != 0 &&
                 ask.timestamp_version < TIMESTAMP_VERSION;
    return asked ? (struct base_span){trust->next, size} : (struct base_span){0};
}

const uint8_t *sim_local_trust_meta(const struct sim_local_trust *trust, struct base_str path,
                                    size_t *out_size)
{
    *out_size = 0;
    if (!trust->on) {
        return NULL;
    }
    if (base_str_starts(path, BASE_STR("/v1/meta/next/"))) {
        // There is no next root, and no scenario but one, so whoever names one names that.
        size_t at = sizeof("/v1/meta/next/") - 1;
        bool named = memchr(path.data + at, '/', path.size - at) != NULL;
        *out_size = WIRE_NEXT_HEAD_BYTES + trust->timestamp_bytes;
        *out_size += named ? trust->snapshot_bytes : 0;
        return trust->next;
    }
    if (base_str_equal(path, BASE_STR("/v1/meta/timestamp"))) {
        *out_size = trust->timestamp_bytes;
        return trust->timestamp;
    }
    if (base_str_starts(path, BASE_STR("/v1/meta/snapshot/"))) {
        *out_size = trust->snapshot_bytes;
        return trust->snapshot;
    }
    return NULL;
}
