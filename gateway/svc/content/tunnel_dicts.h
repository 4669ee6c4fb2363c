// The tunnel's compression dictionaries (wire/tunnel_dict.h) that released or pushed versions
// brought. A row of GW_TABLE_TUNNEL_DICTS is {u8 version, u64 created_s, u32 bytes, sha256[32]}
// under the dictionary's id; its bytes are a blob like any other. Rows are never deleted.
#ifndef GW_TUNNEL_DICTS_H
#define GW_TUNNEL_DICTS_H

#include "base/error.h"
#include "store/store.h"
#include "wire/manifest.h"
#include "wire/tunnel_dict.h"

struct gw_core;

struct gw_tunnel_dict {
    uint32_t id;
    uint32_t bytes;
    uint64_t created_s; // the newest is the one to prefer
    struct wire_sha256 digest;
};

// Learns the dictionary of a manifest whose blobs are there; durable when it returns. OK when it
// has none. INVALID: the file is no dictionary; CONFLICT: another dictionary has its id. Control
// thread.
BASE_NODISCARD enum base_status gw_tunnel_dicts_learn(struct gw_core *core,
                                                      const struct wire_manifest *manifest,
                                                      struct base_error *error);
// Any thread. NOT_FOUND, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_tunnel_dicts_find(struct gw_store *store, uint32_t id,
                                                     struct gw_tunnel_dict *out);
// Its bytes (gw_store_bytes_done). NOT_FOUND, IO, NOMEM, CORRUPT. Any thread but the writer's.
BASE_NODISCARD enum base_status gw_tunnel_dicts_load(struct gw_store *store, uint32_t id,
                                                     struct gw_store_bytes *out);

#endif
