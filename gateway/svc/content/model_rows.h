// What the inference service keeps in the store: a row for each model that has versions there or is
// being released, and the versions' files, named by their SHA-256 as all content is. What is in a
// row is the service's (infer/release/release_row.h). The files are the service's alone: no device
// can fetch them.
//
// Threads: any, and it waits for the disk, but the writer's.
#ifndef GW_MODEL_ROWS_H
#define GW_MODEL_ROWS_H

#include "base/error.h"
#include "base/span.h"
#include "base/str.h"
#include "wire/digest.h"

#include <stdbool.h>
#include <stddef.h>

struct gw_core;

#define GW_MODEL_ROW_MAX ((size_t)256 << 10) // bytes of one

// Durable when it returns. TOO_LARGE, FULL, IO, BUSY.
BASE_NODISCARD enum base_status gw_model_row_put(struct gw_core *core, struct base_str model,
                                                 struct base_str row);
BASE_NODISCARD enum base_status gw_model_row_delete(struct gw_core *core, struct base_str model);
// All of them, in no order, until `visit` returns false. CORRUPT: one is damaged; IO.
BASE_NODISCARD enum base_status
gw_model_rows_each(struct gw_core *core, bool (*visit)(void *ctx, struct base_str row), void *ctx);

// The file under its name, which *out_digest is; durable when it returns. TOO_LARGE, FULL, IO,
// BUSY.
BASE_NODISCARD enum base_status gw_model_file_put(struct gw_core *core, struct base_span file,
                                                  struct wire_sha256 *out_digest);
// Lets go of it: the file goes, unless others brought the same bytes. As gw_store_blob_drop.
BASE_NODISCARD enum base_status gw_model_file_drop(struct gw_core *core,
                                                   const struct wire_sha256 *digest);
// Lets go of all of which `wanted` says no, which a kill left behind; how many is in *out_dropped.
BASE_NODISCARD enum base_status
gw_model_files_sweep(struct gw_core *core,
                     bool (*wanted)(void *ctx, const struct wire_sha256 *digest), void *ctx,
                     uint32_t *out_dropped);
// A copy on the heap, the caller's. NOT_FOUND, CORRUPT, IO, NOMEM.
BASE_NODISCARD enum base_status gw_model_file_load(struct gw_core *core,
                                                   const struct wire_sha256 *digest,
                                                   struct base_span *out_file);

#endif
