// The pages of an LMDB file, walked without LMDB. LMDB follows page numbers and offsets as it finds
// them, so a damaged file makes it read outside its map, or abort. A gateway therefore walks the
// file before it opens it: every page that is reached lies in the file, is reached once, is what
// its parent says it is, and holds nodes that tile it; keys are in order; free pages are free. What
// passes cannot lead LMDB astray. Salvage uses the same walk and goes around what is damaged.
//
// Layout: LMDB 0.9, data version 1, on a little-endian machine of 64 bits: `struct MDB_page`,
// `MDB_node`, `MDB_meta` and `MDB_db` of its mdb.c; databases without duplicates only, as ours are.
//
// One thread; nothing may write the file meanwhile.
#ifndef GW_STORE_PAGES_H
#define GW_STORE_PAGES_H

#include "base/error.h"
#include "store/store.h"

#define GW_PAGES_DEPTH_MAX  32u // levels of a tree, as in LMDB
#define GW_PAGES_TABLES_MAX 64u
#define GW_PAGES_NAME_MAX   32u
#define GW_PAGES_TEXT_MAX   160u

struct gw_pages_visitor {
    // A record of a table, in key order; the spans are valid during the call. NULL: not wanted.
    void (*record)(void *ctx, const char *table, struct gw_span key, struct gw_span value);
    // Something is wrong: `text` says which page of which table, and what. The walk goes around it.
    // NULL: the walk ends with the first.
    void (*bad)(void *ctx, const char *text);
    void *ctx;
};

// Walks the newest state of the file. OK: nothing was wrong. CORRUPT: `error` says what was wrong
// first. NOT_FOUND: there is no such file; IO, NOMEM, UNSUPPORTED (another version of the format).
BASE_NODISCARD enum base_status gw_store_pages_walk(const char *path,
                                                    const struct gw_pages_visitor *visitor,
                                                    struct base_error *error);

#endif
