// Hot blobs in memory, and their compressed variants: counted references, least recently used goes
// first. SHARED: any thread; one mutex.
#ifndef GW_BLOB_CACHE_H
#define GW_BLOB_CACHE_H

#include "svc/content/blob.h"

struct gw_blob_cache;
struct gw_core;

#define GW_ETAG_MAX 96u

enum gw_blob_variant {
    GW_BLOB_IDENTITY,
    GW_BLOB_ZSTD,
    GW_BLOB_DELTA,
    GW_BLOB_WHOLE, // a version's manifest with its files behind it
    GW_BLOB_VARIANT_COUNT
};

// The zstd variant if it is cached already. NULL: not there.
struct gw_blob *gw_blob_cached_zstd(struct gw_core *core, const struct wire_sha256 *digest);
// Makes the zstd variant and caches it; UNSUPPORTED when compression does not pay (remembered).
// Background thread: it costs CPU.
BASE_NODISCARD enum base_status gw_blob_make_zstd(struct gw_core *core,
                                                  const struct wire_sha256 *digest,
                                                  struct gw_blob **out_blob);
// What makes a blob from a dictionary, and the codings its client reads (GW_CODING_* or'ed).
#define GW_CODING_DCZ    0x1u // RFC 9842
#define GW_CODING_WDELTA 0x2u // wire/delta_piece.h
struct gw_delta_name {
    struct wire_sha256 digest;
    struct wire_sha256 dictionary;
    uint8_t codings;
};

// The delta if it is cached already. NULL: not there, with *out_useless true when it was tried and
// does not pay.
struct gw_blob *gw_blob_cached_delta(struct gw_core *core, const struct gw_delta_name *name,
                                     bool *out_useless);
// Makes the delta in each of the codings, and caches the smallest. UNSUPPORTED when none pays
// (remembered) or one of the two is too large; NOT_FOUND when one is not there; NOMEM. The thread
// of deltas.
BASE_NODISCARD enum base_status gw_blob_make_delta(struct gw_core *core,
                                                   const struct gw_delta_name *name,
                                                   struct gw_blob **out_blob);
// The version of a manifest if it is cached already. NULL: not there.
struct gw_blob *gw_blob_cached_whole(struct gw_core *core, const struct wire_sha256 *digest);
// Puts a version (blob_whole.c) in place of its manifest, whose reference goes in any case.
// NOT_FOUND: it is no manifest, or too large. NOMEM. Worker's thread.
BASE_NODISCARD enum base_status
gw_blob_whole(struct gw_core *core, const struct wire_sha256 *digest, struct gw_blob **inout_blob);
// A version of these bytes, whose heap block it takes over in any case. `lasting`: no byte will
// come to it, and it is cached. NOMEM.
BASE_NODISCARD enum base_status gw_blob_new_whole(struct gw_core *core,
                                                  const struct wire_sha256 *digest,
                                                  const struct gw_store_bytes *bytes, bool lasting,
                                                  struct gw_blob **out_blob);
// May whoever got it keep it for ever? All but a version that lacks files.
bool gw_blob_lasting(const struct gw_blob *blob);
// Keeps at most so many bytes of each sort, in place of GW_BLOB_CACHE_BYTES_MAX, from now on.
void gw_blob_cache_limit(struct gw_core *core, uint64_t bytes);
bool gw_blob_may_compress(const struct gw_blob *identity);
// Conditions and ranges on a representation that was chosen. Fills the reply; takes over the
// reference.
void gw_blob_serve(struct gw_exchange *exchange, struct gw_blob *blob);
struct base_str gw_blob_etag(const struct gw_blob *blob); // quoted; valid as long as the blob
enum gw_blob_variant gw_blob_variant(const struct gw_blob *blob);
// The name of its content coding; empty: the bytes as they are.
struct base_str gw_blob_coding(const struct gw_blob *blob);

enum base_status gw_blob_cache_new(struct gw_core *core, struct gw_blob_cache **out_cache);
void gw_blob_cache_free(struct gw_blob_cache *cache);
struct gw_blob_cache_stats {
    uint64_t bytes;
    uint64_t entries;
    uint64_t hits;
    uint64_t misses;
};
void gw_blob_cache_stats(struct gw_blob_cache *cache, struct gw_blob_cache_stats *out);

#endif
