// Roots: bytes, the rules of a chain, and which keys a release needs.
//
// The command writes them, gateway and device verify. Cryptography comes in as two functions; the
// rest is pure, any thread, nothing is allocated.
#include "wire/trust/root.h"

#include "base/check.h"
#include "wire/hash_tree.h"
#include "wire/trust/answer.h"
#include "wire/wiretext.h"

#include <string.h>

#define BUCKETS          10000u
#define SIGNED_BYTES_MAX (WIRE_STATEMENT_BYTES_MAX + 16)

static uint32_t bits(uint16_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask = (uint16_t)(mask & (mask - 1u))) {
        count++;
    }
    return count;
}

static bool role_ok(const struct wire_role *role, uint32_t key_count)
{
    base_assert(key_count <= WIRE_ROOT_KEYS_MAX);
    return role->keys != 0 && (role->keys >> key_count) == 0 && role->threshold > 0 &&
           role->threshold <= bits(role->keys) && role->threshold <= WIRE_STATEMENT_SIGNATURES;
}

static bool prefix_ok(struct base_str prefix)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789._/-";
    for (size_t i = 0; i < prefix.size; i++) {
        if (memchr(alphabet, prefix.data[i], sizeof(alphabet) - 1) == NULL) {
            return false;
        }
    }
    return prefix.size <= WIRE_TASK_NAME_MAX;
}

static int prefix_order(struct base_str a, struct base_str b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.data, b.data, size) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static bool keys_ok(const struct wire_root *root)
{
    if (root->key_count == 0 || root->key_count > WIRE_ROOT_KEYS_MAX) {
        return false;
    }
    for (uint32_t i = 1; i < root->key_count; i++) {
        if (memcmp(root->keys[i - 1], root->keys[i], WIRE_PUBLIC_KEY_BYTES) >= 0) {
            return false;
        }
    }
    return true;
}

static bool delegations_ok(const struct wire_root *root)
{
    if (root->delegation_count == 0 || root->delegation_count > WIRE_ROOT_DELEGATIONS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < root->delegation_count; i++) {
        const struct wire_delegation *delegation = &root->delegations[i];
        if (!prefix_ok(delegation->prefix) || !role_ok(&delegation->role, root->key_count) ||
            delegation->wide_threshold < delegation->role.threshold ||
            delegation->wide_threshold > bits(delegation->role.keys) ||
            delegation->wide_threshold > WIRE_STATEMENT_SIGNATURES) {
            return false;
        }
        if (i > 0 && prefix_order(root->delegations[i - 1].prefix, delegation->prefix) >= 0) {
            return false;
        }
    }
    return true;
}

static bool root_ok(const struct wire_root *root)
{
    if (root->version == 0 || root->issued_s >= root->expires_s || root->wide_bucket > BUCKETS ||
        root->lease_max_s > WIRE_ROOT_LEASE_S_MAX || !keys_ok(root)) {
        return false;
    }
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        if (!role_ok(&root->roles[i], root->key_count)) {
            return false;
        }
    }
    return delegations_ok(root);
}

static void role_write(struct base_writer *writer, const struct wire_role *role)
{
    base_writer_u8(writer, role->threshold);
    base_writer_u16(writer, role->keys);
}

static struct wire_role role_read(struct base_reader *reader)
{
    struct wire_role role = {.threshold = base_reader_u8(reader)};
    role.keys = base_reader_u16(reader);
    return role;
}

enum base_status wire_root_encode(const struct wire_root *root, uint8_t *out, size_t capacity,
                                  size_t *out_size)
{
    if (!root_ok(root)) {
        return BASE_ERR_INVALID;
    }
    _Static_assert(WIRE_ROOT_KEYS_MAX <= 8 * sizeof(root->roles[0].keys), "a bit for each key");
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, WIRE_ROOT_SPEC);
    base_writer_u64(&writer, root->version);
    base_writer_u64(&writer, root->issued_s);
    base_writer_u64(&writer, root->expires_s);
    base_writer_u16(&writer, root->wide_bucket);
    base_writer_u32(&writer, root->lease_max_s);
    base_writer_varint(&writer, root->key_count);
    base_writer_bytes(&writer, root->keys, (size_t)root->key_count * WIRE_PUBLIC_KEY_BYTES);
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        role_write(&writer, &root->roles[i]);
    }
    base_writer_varint(&writer, root->delegation_count);
    for (uint32_t i = 0; i < root->delegation_count; i++) {
        wire_text_write(&writer, root->delegations[i].prefix, WIRE_TASK_NAME_MAX);
        base_writer_u8(&writer, root->delegations[i].wide_threshold);
        role_write(&writer, &root->delegations[i].role);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static void root_read(struct base_reader *reader, struct wire_root *root)
{
    root->version = base_reader_u64(reader);
    root->issued_s = base_reader_u64(reader);
    root->expires_s = base_reader_u64(reader);
    root->wide_bucket = base_reader_u16(reader);
    root->lease_max_s = base_reader_u32(reader);
    root->key_count = (uint32_t)base_reader_varint_max(reader, WIRE_ROOT_KEYS_MAX);
    base_reader_copy(reader, root->keys, (size_t)root->key_count * WIRE_PUBLIC_KEY_BYTES);
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        root->roles[i] = role_read(reader);
    }
    root->delegation_count = (uint32_t)base_reader_varint_max(reader, WIRE_ROOT_DELEGATIONS_MAX);
    for (uint32_t i = 0; i < root->delegation_count; i++) {
        root->delegations[i].prefix = wire_text_read(reader, WIRE_TASK_NAME_MAX);
        root->delegations[i].wide_threshold = base_reader_u8(reader);
        root->delegations[i].role = role_read(reader);
    }
}

enum base_status wire_root_parse(const uint8_t *payload, size_t size, struct wire_root *out)
{
    struct base_reader reader;
    struct wire_root root;
    memset(&root, 0, sizeof(root));
    base_reader_init(&reader, payload, size);
    uint8_t spec = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (spec != WIRE_ROOT_SPEC) {
        return BASE_ERR_UNSUPPORTED;
    }
    root_read(&reader, &root);
    BASE_TRY(base_reader_finish(&reader));
    if (!root_ok(&root)) {
        return BASE_ERR_INVALID;
    }
    *out = root;
    return BASE_OK;
}

const struct wire_delegation *wire_root_delegation(const struct wire_root *root,
                                                   struct base_str task)
{
    const struct wire_delegation *best = NULL;
    for (uint32_t i = 0; i < root->delegation_count; i++) {
        const struct wire_delegation *delegation = &root->delegations[i];
        if (base_str_starts(task, delegation->prefix) &&
            (best == NULL || delegation->prefix.size > best->prefix.size)) {
            best = delegation;
        }
    }
    return best;
}

// Did this key sign? The envelope names a key id at most once, and keys of a root are distinct.
static bool key_signed(const uint8_t *key, const struct wire_envelope *envelope,
                       const uint8_t *message, size_t size, const struct wire_verifier *verifier)
{
    base_assert(envelope->signature_count <= WIRE_STATEMENT_SIGNATURES);
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        const struct wire_signature *signature = &envelope->signatures[i];
        struct wire_sha256 said;
        struct wire_sha256 key_id;
        memcpy(said.bytes, signature->key_id, sizeof(said.bytes));
        verifier->sha256(verifier->ctx, key, WIRE_PUBLIC_KEY_BYTES, &said, &key_id);
        if (wire_sha256_equal(&said, &key_id)) {
            return verifier->verify(verifier->ctx, key, message, size, signature->bytes) == BASE_OK;
        }
    }
    return false;
}

static void sha256_of(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    const struct wire_verifier *verifier = ctx;
    verifier->sha256(verifier->ctx, bytes, size, NULL, out);
}

struct wire_hasher wire_verifier_hasher(const struct wire_verifier *verifier)
{
    return (struct wire_hasher){.ctx = (void *)verifier, .sha256 = sha256_of};
}

// What is signed instead of the payload of a large type, or of an answer that is one of many.
struct stand_in {
    struct wire_sha256 digest;
    uint8_t head[WIRE_ANSWER_HEAD_BYTES];
};

static enum base_status said_of(const struct wire_envelope *envelope,
                                const struct wire_verifier *verifier, struct stand_in *memory,
                                struct base_span *out)
{
    *out = (struct base_span){envelope->payload, envelope->payload_bytes};
    if (wire_envelope_is_hashed(envelope->type)) {
        verifier->sha256(verifier->ctx, out->data, out->size, NULL, &memory->digest);
        *out = (struct base_span){memory->digest.bytes, sizeof(memory->digest.bytes)};
    } else if (envelope->type == WIRE_ENVELOPE_TYPE_ANSWER) {
        struct wire_answer answer;
        BASE_TRY(wire_answer_parse(out->data, out->size, &answer));
        const struct wire_hasher hasher = wire_verifier_hasher(verifier);
        BASE_TRY(wire_answer_fold(&answer, &hasher, memory->head));
        *out = (struct base_span){memory->head, sizeof(memory->head)};
    }
    return BASE_OK;
}

enum base_status wire_root_verify(const struct wire_root *root, const struct wire_role *role,
                                  uint8_t threshold, const struct wire_envelope *envelope,
                                  const struct wire_verifier *verifier)
{
    base_assert(threshold <= WIRE_STATEMENT_SIGNATURES);
    base_assert(root->key_count <= WIRE_ROOT_KEYS_MAX);
    uint8_t message[SIGNED_BYTES_MAX];
    struct stand_in memory;
    struct base_span said;
    size_t size = 0;
    uint32_t signers = 0;
    BASE_TRY(said_of(envelope, verifier, &memory, &said));
    BASE_TRY(wire_envelope_signed_bytes(envelope->type, said, message, sizeof(message), &size));
    for (uint32_t i = 0; i < root->key_count && signers < threshold; i++) {
        if ((role->keys >> i & 1u) != 0) {
            signers += key_signed(root->keys[i], envelope, message, size, verifier) ? 1 : 0;
        }
    }
    if (signers >= threshold && threshold > 0) {
        return BASE_OK;
    }
    return signers == 0 ? BASE_ERR_SIGNATURE : BASE_ERR_THRESHOLD;
}

static enum base_status open_envelope(const uint8_t *bytes, size_t size,
                                      struct wire_envelope *envelope, struct wire_root *out)
{
    BASE_TRY(wire_envelope_parse(bytes, size, envelope));
    if (envelope->type != WIRE_ENVELOPE_TYPE_ROOT) {
        return BASE_ERR_UNSUPPORTED;
    }
    return wire_root_parse(envelope->payload, envelope->payload_bytes, out);
}

enum base_status wire_root_open(const uint8_t *bytes, size_t size,
                                const struct wire_verifier *verifier, struct wire_root *out)
{
    struct wire_envelope envelope;
    struct wire_root root;
    BASE_TRY(open_envelope(bytes, size, &envelope, &root));
    const struct wire_role *role = &root.roles[WIRE_ROLE_ROOT];
    BASE_TRY(wire_root_verify(&root, role, role->threshold, &envelope, verifier));
    *out = root;
    return BASE_OK;
}

enum base_status wire_root_follow(const struct wire_root *before, const uint8_t *bytes, size_t size,
                                  const struct wire_verifier *verifier, struct wire_root *out)
{
    struct wire_envelope envelope;
    struct wire_root root;
    // The keys of the old root speak before a byte of the new one is believed.
    BASE_TRY(wire_envelope_parse(bytes, size, &envelope));
    if (envelope.type != WIRE_ENVELOPE_TYPE_ROOT) {
        return BASE_ERR_UNSUPPORTED;
    }
    const struct wire_role *old = &before->roles[WIRE_ROLE_ROOT];
    BASE_TRY(wire_root_verify(before, old, old->threshold, &envelope, verifier));
    BASE_TRY(wire_root_open(bytes, size, verifier, &root));
    base_assert(root.version > 0);
    if (before->version == UINT64_MAX || root.version != before->version + 1) {
        return BASE_ERR_ROOT;
    }
    *out = root;
    return BASE_OK;
}

static bool has_key(const struct wire_root *root, const struct wire_role *role, const uint8_t *key)
{
    base_assert(root->key_count <= WIRE_ROOT_KEYS_MAX);
    for (uint32_t i = 0; i < root->key_count; i++) {
        if ((role->keys >> i & 1u) != 0 && memcmp(root->keys[i], key, WIRE_PUBLIC_KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

bool wire_root_same_role(const struct wire_root *a, const struct wire_root *b,
                         enum wire_root_role role)
{
    base_assert((unsigned)role < WIRE_ROLE_COUNT);
    const struct wire_role *of_a = &a->roles[role];
    const struct wire_role *of_b = &b->roles[role];
    if (of_a->threshold != of_b->threshold || bits(of_a->keys) != bits(of_b->keys)) {
        return false;
    }
    for (uint32_t i = 0; i < a->key_count; i++) {
        if ((of_a->keys >> i & 1u) != 0 && !has_key(b, of_b, a->keys[i])) {
            return false;
        }
    }
    return true;
}

uint8_t wire_root_release_threshold(const struct wire_root *root,
                                    const struct wire_delegation *delegation,
                                    const struct wire_release *release, bool beta_device)
{
    base_assert(delegation->wide_threshold >= delegation->role.threshold);
    bool narrow = release->max_bucket <= root->wide_bucket ||
                  (release->stage_kind == WIRE_STAGE_BETA && beta_device);
    return narrow ? delegation->role.threshold : delegation->wide_threshold;
}
