// The pages of an LMDB file, walked without LMDB. LMDB follows page numbers and offsets as it finds
// them, so a damaged file makes it read outside its map, or abort. Gateway and device therefore
// walk the file before they open it: every page that is reached lies in the file, is reached once,
// is what its parent says it is, and holds nodes that tile it; keys are in order; free pages are
// free. What passes cannot lead LMDB astray. Salvage uses the same walk and goes around what is
// damaged.
//
// Layout: LMDB 0.9, data version 1, on a little-endian machine of 64 bits: `struct MDB_page`,
// `MDB_node`, `MDB_meta` and `MDB_db` of its mdb.c; databases without duplicates only, as ours are.
//
// One thread; nothing may write the file meanwhile.
#ifndef BASE_LMDB_PAGES_H
#define BASE_LMDB_PAGES_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_PAGES_DEPTH_MAX  32u // levels of a tree, as in LMDB
#define BASE_PAGES_TABLES_MAX 64u
#define BASE_PAGES_NAME_MAX   32u
#define BASE_PAGES_TEXT_MAX   160u

struct base_pages_visitor {
    // A record of a table, in key order; the spans are valid during the call. NULL: not wanted.
    void (*record)(void *ctx, const char *table, struct base_span key, struct base_span value);
    // Something is wrong: `text` says which page of which table, and what. The walk goes around it.
    // NULL: the walk ends with the first.
    void (*bad)(void *ctx, const char *text);
    void *ctx;
};

struct base_pages_file {
    const char *path;
    const char *name; // as findings call it
    bool plain; // records lie in the main tree, which the visitor knows as "records"; no tables
};

// Walks the newest state of the file. OK: nothing was wrong. CORRUPT: `error` says what was wrong
// first. NOT_FOUND: there is no such file; INVALID: it is no regular one; IO, NOMEM, UNSUPPORTED
// (another version of the format).
BASE_NODISCARD enum base_status base_pages_walk(const struct base_pages_file *file,
                                                const struct base_pages_visitor *visitor,
                                                struct base_error *error);

#endif
