// Memoised hashing and signature checks of a shard. Called by the device runtimes on the shard's
// thread.
//
// The streaming state lives in the tail of struct dev_hash_state, behind what the real port uses
// (checked at start): while bytes equal the verified content the real part is unused.
#include "ports/sim_crypto.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define TAIL_WORDS 4

// Tail of the hash state. `blob` NULL: hashing for real.
struct tail {
    const struct sim_blob *blob;
    uint64_t position;
    uint64_t unused[2];
};

struct sim_verify_memo {
    uint64_t hash; // of all that follows; 0: free
    uint8_t key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t signature[WIRE_SIGNATURE_BYTES];
    uint8_t *message;
    size_t message_bytes;
    enum base_status status;
};

static struct tail *tail_of(struct dev_hash_state *state)
{
    _Static_assert(sizeof(struct tail) == TAIL_WORDS * sizeof(uint64_t), "tail size");
    size_t words = sizeof(state->opaque) / sizeof(state->opaque[0]);
    return (struct tail *)(void *)&state->opaque[words - TAIL_WORDS];
}

// The real port must not touch the tail.
static bool tail_is_free(const struct dev_crypto_port *real)
{
    struct dev_hash_state state;
    struct wire_sha256 digest;
    uint8_t block[200];
    memset(block, 0x5a, sizeof(block));
    memset(&state, 0xa5, sizeof(state));
    struct tail before = *tail_of(&state);
    real->hash_begin(real->ctx, &state, NULL);
    real->hash_update(real->ctx, &state, block, sizeof(block));
    real->hash_end(real->ctx, &state, &digest);
    return memcmp(&before, tail_of(&state), sizeof(before)) == 0;
}

enum base_status sim_crypto_init(struct sim_crypto *crypto, const struct base_alloc_port *alloc,
                                 const struct dev_crypto_port *real, struct sim_store *store,
                                 struct sim_shared_verify *shared)
{
    *crypto = (struct sim_crypto){.real = real, .store = store, .alloc = alloc, .shared = shared};
    if (!tail_is_free(real)) {
        return BASE_ERR_UNSUPPORTED;
    }
    if (shared != NULL) {
        return BASE_OK;
    }
    size_t bytes = sizeof(struct sim_verify_memo) * (SIM_VERIFY_MEMO_MAX + SIM_HEADS_MAX);
    crypto->memo = alloc->alloc(alloc->ctx, bytes);
    if (crypto->memo == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(crypto->memo, 0, bytes);
    crypto->heads = crypto->memo + SIM_VERIFY_MEMO_MAX;
    return BASE_OK;
}

void sim_crypto_done(struct sim_crypto *crypto)
{
    if (crypto->memo != NULL) {
        for (uint32_t i = 0; i < SIM_VERIFY_MEMO_MAX + SIM_HEADS_MAX; i++) {
            crypto->alloc->release(crypto->alloc->ctx, crypto->memo[i].message);
        }
        crypto->alloc->release(crypto->alloc->ctx, crypto->memo);
    }
    *crypto = (struct sim_crypto){0};
}

static void hash_begin(void *ctx, struct dev_hash_state *state, const struct wire_sha256 *expected)
{
    struct sim_crypto *crypto = ctx;
    const struct sim_blob *blob = expected != NULL ? sim_store_find(crypto->store, expected) : NULL;
    *tail_of(state) = (struct tail){.blob = blob};
    if (blob == NULL) {
        crypto->real->hash_begin(crypto->real->ctx, state, expected);
    }
}

// Leaves comparison: the real hash takes the part that was equal so far.
static void fall_back(struct sim_crypto *crypto, struct dev_hash_state *state)
{
    struct tail *tail = tail_of(state);
    const struct sim_blob *blob = tail->blob;
    size_t position = (size_t)tail->position;
    tail->blob = NULL;
    crypto->fallbacks++;
    crypto->real_bytes += position;
    crypto->real->hash_begin(crypto->real->ctx, state, NULL);
    crypto->real->hash_update(crypto->real->ctx, state, blob->bytes, position);
}

static void hash_update(void *ctx, struct dev_hash_state *state, const uint8_t *bytes, size_t size)
{
    struct sim_crypto *crypto = ctx;
    struct tail *tail = tail_of(state);
    if (tail->blob != NULL) {
        const uint8_t *have = tail->blob->bytes + tail->position;
        if (size <= tail->blob->size - tail->position &&
            (have == bytes || memcmp(have, bytes, size) == 0)) {
            tail->position += size;
            crypto->shared_bytes += size;
            return;
        }
        fall_back(crypto, state);
    }
    crypto->real_bytes += size;
    crypto->real->hash_update(crypto->real->ctx, state, bytes, size);
}

static void hash_end(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out_digest)
{
    struct sim_crypto *crypto = ctx;
    const struct tail *tail = tail_of(state);
    if (tail->blob != NULL) {
        if (tail->position == tail->blob->size) {
            *out_digest = tail->blob->name;
            return;
        }
        fall_back(crypto, state);
    }
    crypto->real->hash_end(crypto->real->ctx, state, out_digest);
}

static bool same(const struct sim_verify_memo *memo, const uint8_t *key, const uint8_t *message,
                 size_t size, const uint8_t *signature)
{
    return memo->message_bytes == size && memcmp(memo->key, key, sizeof(memo->key)) == 0 &&
           memcmp(memo->signature, signature, sizeof(memo->signature)) == 0 &&
           memcmp(memo->message, message, size) == 0;
}

static enum base_status ask_real(struct sim_crypto *crypto,
                                 const struct sim_verify_question *question)
{
    crypto->verify_real++;
    return crypto->real->verify(crypto->real->ctx, question->key, question->message, question->size,
                                question->signature);
}

// Keeps an answer in a slot, whose memory it takes over. False: there is no more.
static bool remember(struct sim_crypto *crypto, struct sim_verify_memo *slot,
                     const struct sim_verify_question *question, enum base_status status)
{
    const struct base_alloc_port *alloc = crypto->alloc;
    uint8_t *message = alloc->alloc(alloc->ctx, question->size + 1);
    if (message == NULL) {
        return false;
    }
    alloc->release(alloc->ctx, slot->message);
    *slot = (struct sim_verify_memo){.hash = question->hash,
                                     .message = message,
                                     .message_bytes = question->size,
                                     .status = status};
    memcpy(message, question->message, question->size);
    memcpy(slot->key, question->key, sizeof(slot->key));
    memcpy(slot->signature, question->signature, sizeof(slot->signature));
    return true;
}

static bool knows(const struct sim_verify_memo *slot, const struct sim_verify_question *question)
{
    return slot->hash == question->hash &&
           same(slot, question->key, question->message, question->size, question->signature);
}

static enum base_status verify_head(struct sim_crypto *crypto,
                                    const struct sim_verify_question *question)
{
    struct sim_verify_memo *slot = &crypto->heads[question->hash % SIM_HEADS_MAX];
    if (knows(slot, question)) {
        crypto->verify_hits++;
        return slot->status;
    }
    enum base_status status = ask_real(crypto, question);
    (void)remember(crypto, slot, question, status);
    return status;
}

// Past half the table nothing more is kept: later ones are checked for real.
static enum base_status verify_statement(struct sim_crypto *crypto,
                                         const struct sim_verify_question *question)
{
    uint32_t at = (uint32_t)(question->hash % SIM_VERIFY_MEMO_MAX);
    for (; crypto->memo[at].hash != 0; at = (at + 1) % SIM_VERIFY_MEMO_MAX) {
        if (knows(&crypto->memo[at], question)) {
            crypto->verify_hits++;
            return crypto->memo[at].status;
        }
    }
    enum base_status status = ask_real(crypto, question);
    if (crypto->memo_count < SIM_VERIFY_MEMO_MAX / 2 &&
        remember(crypto, &crypto->memo[at], question, status)) {
        crypto->memo_count++;
    }
    return status;
}

static enum base_status ask_shared(struct sim_crypto *crypto,
                                   const struct sim_verify_question *question)
{
    bool real = false;
    enum base_status status = sim_shared_verify_ask(crypto->shared, crypto->real, question, &real);
    crypto->verify_real += real;
    crypto->verify_hits += !real;
    return status;
}

static enum base_status verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    struct sim_crypto *crypto = ctx;
    const struct sim_verify_question question = sim_verify_question(key, message, size, signature);
    enum wire_envelope_type type = (enum wire_envelope_type)sim_message_type(message, size);
    if (crypto->shared != NULL && type != WIRE_ENVELOPE_TYPE_DIRECTOR) {
        return ask_shared(crypto, &question);
    }
    switch (type) {
    case WIRE_ENVELOPE_TYPE_DIRECTOR:
        return ask_real(crypto, &question);
    case WIRE_ENVELOPE_TYPE_ANSWER:
        return verify_head(crypto, &question);
    default:
        return verify_statement(crypto, &question);
    }
}

void sim_crypto_keep_keys(struct sim_crypto *crypto, const struct wire_root *root)
{
    const struct dev_crypto_port *real = crypto->real;
    base_assert(root->key_count <= WIRE_ROOT_KEYS_MAX);
    for (uint32_t i = 0; i < root->key_count; i++) {
        struct dev_hash_state state;
        struct wire_sha256 id;
        const struct sim_blob *blob = NULL;
        real->hash_begin(real->ctx, &state, NULL);
        real->hash_update(real->ctx, &state, root->keys[i], WIRE_PUBLIC_KEY_BYTES);
        real->hash_end(real->ctx, &state, &id);
        if (sim_store_add(crypto->store, &id, root->keys[i], WIRE_PUBLIC_KEY_BYTES, &blob) !=
            BASE_OK) {
            return;
        }
    }
}

uint8_t sim_message_type(const uint8_t *message, size_t size)
{
    return size > sizeof(WIRE_STATEMENT_DOMAIN) ? message[sizeof(WIRE_STATEMENT_DOMAIN)] : 0;
}

struct dev_crypto_port sim_crypto_port(struct sim_crypto *crypto)
{
    return (struct dev_crypto_port){
        .ctx = crypto,
        .hash_begin = hash_begin,
        .hash_update = hash_update,
        .hash_end = hash_end,
        .verify = verify,
    };
}
