// Blobs: immutable bytes named by their SHA-256.
//
// gw_blob_put and gw_blob_held: control thread. The rest: any thread. Small blobs lie in the
// store, large ones in files of their own; readers see one kind of reference, counted, borrowed
// from a bounded cache.
#ifndef GW_BLOB_H
#define GW_BLOB_H

#include "base/error.h"
#include "base/span.h"
#include "store/store.h"
#include "svc/exchange.h"
#include "wire/digest.h"

#include <stdint.h>

#define GW_BLOB_CACHE_BYTES_MAX (256u * 1024 * 1024) // kept when nobody borrows; as many mapped
#define GW_BLOB_PACK_MAX        4096u                // of one upload
#define GW_BLOB_NOTE_MAX        79u
#define GW_BLOB_ZSTD_MIN        256u                 // smaller ones are sent as they are
#define GW_BLOB_ZSTD_MAX        (8u * 1024 * 1024)   // larger ones too
#define GW_BLOB_WHOLE_MAX       (64u * 1024)         // of a version that comes in one answer
#define GW_BLOB_DELTA_MIN       128u                 // smaller ones are never sent as deltas
#define GW_BLOB_DELTA_MAX       (256u * 1024 * 1024) // larger ones, or dictionaries, neither

struct gw_core;
struct gw_worker;

// Checks the hash and stores; durable when it returns. HASH: the bytes have another hash (the text
// names it); FULL, IO. *out_created false: it was there already.
BASE_NODISCARD enum base_status gw_blob_put(struct gw_core *core, const struct gw_store_item *item,
                                            bool *out_created, struct base_error *error);
// The same for content of single devices, which the tenant holds from then on; what was there for
// everybody stays so. *out_created false: it was, or this tenant's; what others hold is not told.
BASE_NODISCARD enum base_status gw_blob_put_exclusive(struct gw_core *core, uint16_t tenant,
                                                      const struct gw_store_item *item,
                                                      bool *out_created, struct base_error *error);
// What was in a pack.
struct gw_blob_pack {
    uint32_t count;   // blobs
    uint32_t created; // of them, those that were not there, as *out_created says it of one
};
// A pack of them: u32 size and the bytes, one after another, at most GW_BLOB_PACK_MAX; each is
// stored under its hash. INVALID: a pack that is cut off or empty.
BASE_NODISCARD enum base_status gw_blobs_put_exclusive(struct gw_core *core, uint16_t tenant,
                                                       struct base_span pack,
                                                       struct gw_blob_pack *out,
                                                       struct base_error *error);
// Is it there for everybody, or did the tenant bring it?
bool gw_blob_held(struct gw_core *core, uint16_t tenant, const struct wire_sha256 *digest);

// A counted reference to the identity bytes. NOT_FOUND, NOMEM, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_blob_open(struct gw_core *core, const struct wire_sha256 *digest,
                                             struct gw_blob **out_blob);
// Is it for single devices only? Whoever has a reference may ask.
bool gw_blob_exclusive(struct gw_core *core, struct gw_blob *blob);
uint64_t gw_blob_size(const struct gw_blob *blob);
// Bytes that are in no store, in the form the transport sends: copied, one reference. NULL: no
// memory.
struct gw_blob *gw_blob_of(const uint8_t *bytes, size_t size);
struct gw_blob *gw_blob_ref(struct gw_blob *blob);
// A short text that is kept with the blob as long as it is cached: what is costly to compute from
// its bytes. NULL: not set. Background thread only.
const char *gw_blob_note(const struct gw_blob *blob);
void gw_blob_set_note(struct gw_blob *blob, const char *text); // cut at GW_BLOB_NOTE_MAX

// GET and HEAD /v1/blob/{sha256}, and /v1/blob/{sha256}/files for a version.
#define GW_BLOB_PATH "/v1/blob/" // and the hash
void gw_blob_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#endif
