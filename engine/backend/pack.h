// Weights in the form kernels want them, kept once per model and shared by its sessions.
//
// Keyed by the weights' address in the model and by the form; entries live as long as the cache.
// Thread-safe; two sessions that ask for the same entry at once pack it once.
#ifndef ENG_BACKEND_PACK_H
#define ENG_BACKEND_PACK_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct eng_pack_cache;

// What form: a number of the kernel family's own (algorithm, panel width, type), and its
// parameters.
struct eng_pack_key {
    const void *identity; // eng_tensor.identity
    uint64_t form;
    uint64_t a, b; // whatever else distinguishes two forms of the same weights
};
typedef void (*eng_pack_fn)(void *ctx, void *out);
// What an entry holds, and who fills it.
struct eng_pack_content {
    size_t bytes; // of 64-byte aligned memory
    eng_pack_fn fill;
    void *ctx; // fill's
};

BASE_NODISCARD enum base_status eng_pack_cache_new(struct eng_pack_cache **out_cache);
void eng_pack_cache_free(struct eng_pack_cache *cache);
// Finds or makes the entry: memory filled by fill(ctx, memory). NOMEM; BUG: it is there already, of
// another size.
BASE_NODISCARD enum base_status eng_pack_get(struct eng_pack_cache *cache,
                                             const struct eng_pack_key *key,
                                             const struct eng_pack_content *content,
                                             const void **out);
size_t eng_pack_bytes(const struct eng_pack_cache *cache);
// Whether some form of these weights is in the cache.
bool eng_pack_has(struct eng_pack_cache *cache, const void *identity);

#endif
