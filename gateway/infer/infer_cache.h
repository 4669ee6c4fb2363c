// Answers of one version of a model, kept by what was asked: inputs and the outputs wanted, by a
// hash of 128 bits under keys of this process, so that nobody who chooses inputs finds two alike.
// The ones unused longest go when the memory is used up. A version that is replaced or unloaded
// takes its cache with it, so no answer outlives what made it.
//
// Texts are not kept: a call with one in its inputs or outputs has no key. Any thread.
#ifndef GW_INFER_CACHE_H
#define GW_INFER_CACHE_H

#include "base/arena.h"
#include "base/keyed_hash.h"
#include "infer/infer_call.h"

struct gw_infer_cache;

// What was asked; all zero: it has no place in the cache.
struct gw_infer_cache_key {
    uint64_t words[2];
};

struct gw_infer_asked {
    const struct gw_infer_tensor *const *inputs; // in the model's order
    size_t input_count;
    const uint8_t *outputs; // indices, in the order of the answer
    size_t output_count;
};

// `bytes_max`: of answers and what is kept beside them. NULL: no memory.
struct gw_infer_cache *gw_infer_cache_new(size_t bytes_max, const struct base_hash_key *secret);
void gw_infer_cache_free(struct gw_infer_cache *cache); // accepts NULL

struct gw_infer_cache_key gw_infer_cache_key_of(const struct gw_infer_cache *cache,
                                                const struct gw_infer_asked *asked);
bool gw_infer_cache_has_key(const struct gw_infer_cache_key *key);
// Copies the outputs into the arena. False: there are none, or no memory; nothing changed.
bool gw_infer_cache_get(struct gw_infer_cache *cache, const struct gw_infer_cache_key *key,
                        struct base_arena *arena, struct gw_infer_result *out);
// Keeps a copy of the outputs, if it has room for it.
void gw_infer_cache_put(struct gw_infer_cache *cache, const struct gw_infer_cache_key *key,
                        const struct gw_infer_result *result);
size_t gw_infer_cache_bytes(struct gw_infer_cache *cache); // held now

#endif
