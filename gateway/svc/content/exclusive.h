// Exclusive files: what a version holds for single devices and users
// (device/wire/trust/exclusive_files.h).
//
// With a version comes the list of its leaves, a blob like any other. When the version is
// registered the list is checked, its tree is computed, and an index of both is stored as one more
// blob: where each entry of the list lies, and all nodes. A row of the table `exclusive`, by tenant
// and root, names the two. So a version costs one row however many subjects it has, a proof is read
// out of mapped bytes, and what a device may have follows from the tree and from whose it is now.
#ifndef GW_EXCLUSIVE_H
#define GW_EXCLUSIVE_H

#include "base/error.h"
#include "store/store.h"
#include "svc/exchange.h"
#include "wire/trust/exclusive_files.h"

#define GW_EXCLUSIVE_CACHING "private, no-store"

struct gw_core;
struct gw_worker;
struct gw_blob;

// ---- Registering: control thread

struct gw_exclusive_new {
    const struct wire_manifest *manifest; // which names the root
    struct wire_sha256 list;
    uint16_t tenant;
    struct wire_sha256 *missing; // blobs to put first
    uint32_t missing_capacity;
    uint32_t missing_count;
    uint32_t subjects; // result
};

// Checks all and stores the index and the row. CONFLICT: blobs are missing (`missing`), or
// exclusive ones that another tenant brought; INVALID with the subject and the file in `error`;
// NOMEM, FULL, IO.
BASE_NODISCARD enum base_status
gw_exclusive_add(struct gw_core *core, struct gw_exclusive_new *wish, struct base_error *error);

// ---- Looking up: any thread

// The leaf of a device in a tree, or of its user.
struct gw_exclusive_leaf {
    struct wire_proof proof; // its subject is borrowed from `list`
    struct gw_blob *list;
};
// NOT_FOUND: the tenant has no such tree, or it has no leaf for the device; CORRUPT, IO, NOMEM.
BASE_NODISCARD enum base_status gw_exclusive_find(struct gw_core *core, uint16_t tenant,
                                                  const struct wire_sha256 *root,
                                                  uint64_t device_id,
                                                  struct gw_exclusive_leaf *out);
void gw_exclusive_leaf_done(struct gw_exclusive_leaf *leaf);

// ---- Serving: GET and HEAD /v1/exclusive/{root}[/{sha256}]; worker's thread

void gw_exclusive_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#endif
