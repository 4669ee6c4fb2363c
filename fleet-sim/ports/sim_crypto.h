// The crypto port of virtual devices: pure work on immutable bytes is done once per content.
//
// Hashing: when the runtime hopes for the digest of content that was already verified, the bytes
// are compared with it instead. The first byte that differs, or a length that does, sends the whole
// of it through the real hash from the start, so the result is always what the real hash gives.
// Signatures: the answer of the real check is kept by (key, message, signature), compared whole.
// A director's answer that is signed alone is for one device and one question: it is checked for
// real every time. One of many is checked by the head of its tree, which all of them share: the
// latest heads are kept, each in place of an older one.
// One memo per shard, owned by its thread; in virtual time one for all of them.
#ifndef SIM_SIM_CRYPTO_H
#define SIM_SIM_CRYPTO_H

#include "ports/content_store.h"
#include "ports/shared_verify.h"
#include "wire/trust/root.h"

#define SIM_VERIFY_MEMO_MAX 4096
#define SIM_HEADS_MAX       64 // of trees of answers: those of about the last tenth of a second

struct sim_verify_memo;

struct sim_crypto {
    const struct dev_crypto_port *real;
    struct sim_store *store;
    const struct base_alloc_port *alloc;
    struct sim_shared_verify *shared; // in virtual time, in place of the two memos; else NULL
    struct sim_verify_memo *memo;     // SIM_VERIFY_MEMO_MAX entries
    uint32_t memo_count;
    struct sim_verify_memo *heads; // SIM_HEADS_MAX entries, by their hash
    uint64_t shared_bytes;         // hashed by comparison
    uint64_t real_bytes;           // hashed for real
    uint64_t verify_hits;
    uint64_t verify_real;
    uint64_t fallbacks; // comparisons that turned into real hashing
};

// `shared` NULL: memos of its own. NOMEM; UNSUPPORTED when the real port's hash state leaves no
// room for the memo's.
BASE_NODISCARD enum base_status sim_crypto_init(struct sim_crypto *crypto,
                                                const struct base_alloc_port *alloc,
                                                const struct dev_crypto_port *real,
                                                struct sim_store *store,
                                                struct sim_shared_verify *shared);
void sim_crypto_done(struct sim_crypto *crypto);
// `crypto` must stay where it is.
struct dev_crypto_port sim_crypto_port(struct sim_crypto *crypto);
// Keys become content of the store: signatures name them by their hash, so that every device hashes
// them for each signature. Where there is no room they are hashed for real.
void sim_crypto_keep_keys(struct sim_crypto *crypto, const struct wire_root *root);
// Type of the envelope that signed bytes are of (enum wire_envelope_type); 0: too short for one.
uint8_t sim_message_type(const uint8_t *message, size_t size);

#endif
