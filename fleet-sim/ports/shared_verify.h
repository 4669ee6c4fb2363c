// Signatures that were verified, for all shards of a run in virtual time: each is checked for real
// once, whichever thread asks first, and equal questions get the same answer because they are the
// same bytes, compared whole.
//
// Whether something is in the memo depends on what was asked, not on who asked first: nothing is
// put out while shards run. What was not asked for a while goes when the memo ages, between
// windows.
//
// What the gateway's core signs in a run may be noted (--own-signatures): that it is signed follows
// from the signing, so nobody verifies it. Devices that do all for real, and bytes that differ, are
// not spared.
//
// Threads. Any may ask. Who asks what another is verifying waits for it.
#ifndef SIM_SHARED_VERIFY_H
#define SIM_SHARED_VERIFY_H

#include "base/hash.h"
#include "device/port.h"

#define SIM_SHARED_VERIFY_CHAINS 4096u
#define SIM_SHARED_VERIFY_AGES   4096u // so many answers, and the memo ages

struct sim_shared_verify;

// Did this key sign this? Valid while it is asked.
struct sim_verify_question {
    const uint8_t *key;
    const uint8_t *message;
    size_t size;
    const uint8_t *signature;
    uint64_t hash; // of all of it
};
static inline struct sim_verify_question sim_verify_question(const uint8_t *key,
                                                             const uint8_t *message, size_t size,
                                                             const uint8_t *signature)
{
    uint64_t hash = base_hash64_seed(key, WIRE_PUBLIC_KEY_BYTES, size);
    hash = base_hash64_seed(signature, WIRE_SIGNATURE_BYTES, hash);
    hash = base_hash64_seed(message, size, hash);
    return (struct sim_verify_question){key, message, size, signature, hash != 0 ? hash : 1};
}

// NOMEM.
BASE_NODISCARD enum base_status sim_shared_verify_new(struct sim_shared_verify **out_memo);
void sim_shared_verify_free(struct sim_shared_verify *memo); // accepts NULL
// The key signed this: who asks hears so. On the core's thread; nothing is noted without memory.
void sim_shared_verify_note(struct sim_shared_verify *memo,
                            const struct sim_verify_question *question);
// What `real` says of the question, or said before. *out_real: it was asked for this.
enum base_status sim_shared_verify_ask(struct sim_shared_verify *memo,
                                       const struct dev_crypto_port *real,
                                       const struct sim_verify_question *question, bool *out_real);
// While nobody asks: with many answers in the memo, those go that are older than the last ones.
void sim_shared_verify_age(struct sim_shared_verify *memo);

#endif
