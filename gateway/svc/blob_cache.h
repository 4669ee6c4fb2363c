// Hot blobs in memory, and their compressed variants: counted references, least recently used goes
// first. SHARED: any thread; one mutex.
#ifndef GW_BLOB_CACHE_H
#define GW_BLOB_CACHE_H

#include "svc/blob.h"
#include "svc/core_private.h"

#define GW_ETAG_MAX 96u

enum gw_blob_variant { GW_BLOB_IDENTITY, GW_BLOB_ZSTD, GW_BLOB_DCZ, GW_BLOB_VARIANT_COUNT };

// The zstd variant if it is cached already. NULL: not there.
struct gw_blob *gw_blob_cached_zstd(struct gw_core *core, const struct wire_sha256 *digest);
// Makes the zstd variant and caches it; UNSUPPORTED when compression does not pay (remembered).
// Background thread: it costs CPU.
BASE_NODISCARD enum base_status gw_blob_make_zstd(struct gw_core *core,
                                                  const struct wire_sha256 *digest,
                                                  struct gw_blob **out_blob);
// The delta (RFC 9842) that makes `digest` from `dictionary`, if it is cached already. NULL: not
// there, with *out_useless true when it was tried and does not pay.
struct gw_blob *gw_blob_cached_dcz(struct gw_core *core, const struct wire_sha256 *digest,
                                   const struct wire_sha256 *dictionary, bool *out_useless);
// Makes the delta and caches it. UNSUPPORTED when it does not pay (remembered) or one of the two is
// too large; NOT_FOUND when one is not there. Background thread.
BASE_NODISCARD enum base_status gw_blob_make_dcz(struct gw_core *core,
                                                 const struct wire_sha256 *digest,
                                                 const struct wire_sha256 *dictionary,
                                                 struct gw_blob **out_blob);
bool gw_blob_may_compress(const struct gw_blob *identity);
// Conditions and ranges on a representation that was chosen. Fills the reply; takes over the
// reference.
void gw_blob_serve(struct gw_exchange *exchange, struct gw_blob *blob);
struct base_str gw_blob_etag(const struct gw_blob *blob); // quoted; valid as long as the blob
enum gw_blob_variant gw_blob_variant(const struct gw_blob *blob);

#endif
