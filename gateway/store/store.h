// The gateway's store: one LMDB environment, a writer thread that commits in groups, and files for
// large blobs. The only module that knows LMDB.
//
// Reading. A `gw_store_read` is a read transaction taken from a pool: begin renews it, end resets
// it, so that a sleeping reader never pins old pages. What it returns is borrowed until end: copy
// it out.
//
// Writing. Everybody posts `gw_store_op`s. The writer thread takes what has gathered, applies it in
// the order of sort keys (equal keys in the order of posting) in one write transaction, commits
// with fsync, and only then calls each `done` with the outcome. So "done with BASE_OK" means
// durable. An `apply` must check before its first put: a status it returns from checking fails that
// op alone, while a put that fails ends the whole group. `apply` may run again, when the map had to
// grow: it writes its own results afresh each time.
//
// Damage. Before the environment is opened its pages are walked (base/os/lmdb_pages.h); every value
// carries a checksum (base/record_seal.h). A record that fails its checksum is named in the log and
// counted. Of tables whose records can be made again or done without (`gw_table_spares`) it is left
// out, as if it had never been; of the others it is BASE_ERR_CORRUPT, and a gateway does not start
// on it.
//
// Device records are packed by recency (store_packed.h). The functions here take and give them
// under their ids all the same, but for two things: a read that sees a device's record sees the
// newest one, not that of when the read began; and what a scan gives is borrowed until `visit`
// returns.
//
// Growth. The map doubles by itself up to a maximum, when no transaction is open. A full map or
// disk is BASE_ERR_FULL to whoever posted; what was committed stays whole.
//
// Threads: gw_store_submit, the read functions and the blob readers from any thread; `apply` and
// `done` run on the writer thread. With `no_thread` there is none, and all of it is the caller's.
#ifndef GW_STORE_H
#define GW_STORE_H

#include "base/error.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/span.h"
#include "wire/digest.h"

#include <stddef.h>
#include <stdint.h>

#define GW_STORE_SCHEMA          7u
#define GW_STORE_SCHEMA_ROWS     6u // device records in rows of their own, the first wider than now
#define GW_STORE_SCHEMA_WIDE     5u
#define GW_STORE_SCHEMA_LOOSE    4u // device records under their ids
#define GW_STORE_SCHEMA_UNSEALED 3u // ... and without seals
#define GW_STORE_KEY_VERSION     1u
#define GW_STORE_KEY_MAX         96u
#define GW_STORE_QUEUE_MAX       65536u // operations waiting; beyond it submit answers BUSY
#define GW_STORE_GROUP_MAX       8192u  // operations of one commit
#define GW_STORE_LEFT_OUT_MAX    64u    // ... that meet damage, and fail alone; of more, all fail
#define GW_STORE_MAP_FIRST       (UINT64_C(64) << 20)
#define GW_STORE_MAP_MAX         (UINT64_C(64) << 30)
#define GW_STORE_BLOB_INLINE     (64u * 1024) // larger ones become files
#define GW_STORE_READERS_MAX     256u
#define GW_STORE_COMMIT_DELAY_US 2000u

// X(name, text)
#define GW_TABLE_MAP(X)                                                                            \
    X(META, "meta")                                                                                \
    X(TASKS, "tasks")                                                                              \
    X(VERSIONS, "versions")                                                                        \
    X(BLOBS, "blobs")                                                                              \
    X(ROLLOUTS, "rollouts")                                                                        \
    X(ROLLOUT_LOG, "rollout_log")                                                                  \
    X(DEVICES, "devices")                                                                          \
    X(OUTCOMES, "outcomes")                                                                        \
    X(TENANTS, "tenants")                                                                          \
    X(TOKENS, "tokens")                                                                            \
    X(CREDENTIALS, "credentials")                                                                  \
    X(AUDIT, "audit")                                                                              \
    X(IDEMPOTENCY, "idempotency")                                                                  \
    X(CAUSES, "causes")                                                                            \
    X(TRUST, "trust")                                                                              \
    X(EXCLUSIVE, "exclusive")                                                                      \
    X(USERS, "users")                                                                              \
    X(TUNNEL_DICTS, "tunnel_dicts")                                                                \
    X(PAST, "past_outcomes")                                                                       \
    X(MODELS, "models")

enum gw_table {
#define GW_TABLE_ENUM(name, text) GW_TABLE_##name,
    GW_TABLE_MAP(GW_TABLE_ENUM)
#undef GW_TABLE_ENUM
        GW_TABLE_COUNT
};

const char *gw_table_name(enum gw_table table);
// Can a single damaged record of the table be left out? Blobs are pushed again, devices report
// again; credentials, rollouts and the like must not vanish in silence.
bool gw_table_spares(enum gw_table table);

// ---- Keys: a version byte, then numbers in big-endian order, so that keys sort as numbers do.

struct gw_key {
    uint8_t bytes[GW_STORE_KEY_MAX];
    size_t size;
};

struct gw_key gw_key_u64(uint64_t id);
struct gw_key gw_key_u64_u64(uint64_t a, uint64_t b);
struct gw_key gw_key_sha(const struct wire_sha256 *digest);
struct gw_key gw_key_u64_sha(uint64_t a, const struct wire_sha256 *digest);
struct gw_key gw_key_text(const char *text);
// The n-th u64 of a key made above; false when the key is shorter or of another version.
bool gw_key_read_u64(const uint8_t *key, size_t size, uint32_t index, uint64_t *out);

// ---- Environment

struct gw_store;
struct gw_store_read;
struct gw_store_txn;

struct gw_store_options {
    const char *dir;
    uint64_t map_bytes_first; // 0 takes GW_STORE_MAP_FIRST
    uint64_t map_bytes_max;   // 0 takes GW_STORE_MAP_MAX
    uint32_t commit_delay_us; // 0 takes GW_STORE_COMMIT_DELAY_US
    bool read_only;           // no writer, no lock: for the offline tool
    bool no_thread;           // who waits writes, and gw_store_step: for simulations of one thread
    bool lean;                // room is dear: dead rows go early, at the price of writing more
    struct base_hash_key hash_key; // of the process; a tool's may be zero
    const struct base_log *log;
};

// Creates the directory, takes its lock, opens the environment, checks the schema number, starts
// the writer. A store of the last two schemas is rewritten first, beside the old one, which a
// rename then replaces. BUSY: another process has the directory; UNSUPPORTED: another schema;
// CORRUPT: the file is damaged, `error` says where; IO, FULL, NOMEM.
BASE_NODISCARD enum base_status gw_store_open(const struct gw_store_options *options,
                                              struct gw_store **out_store,
                                              struct base_error *error);
// Commits what was accepted. No reader may be open. Accepts NULL.
void gw_store_close(struct gw_store *store);

// ---- Reading

BASE_NODISCARD enum base_status gw_store_read_begin(struct gw_store *store,
                                                    struct gw_store_read **out_read);
void gw_store_read_end(struct gw_store_read *read);
// NOT_FOUND, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_store_read_get(struct gw_store_read *read, enum gw_table table,
                                                  const struct gw_key *key, struct base_span *out);
// Calls `visit` in key order for keys >= `from` until it returns false or the table ends.
typedef bool (*gw_store_visit_fn)(void *ctx, struct base_span key, struct base_span value);
BASE_NODISCARD enum base_status gw_store_read_scan(struct gw_store_read *read, enum gw_table table,
                                                   const struct gw_key *from,
                                                   gw_store_visit_fn visit, void *ctx);
// Calls `visit` for every record of the table, in no order, until it returns false: the quickest
// way to all of them. While nothing is written: of a device that is, it may miss the record.
BASE_NODISCARD enum base_status gw_store_read_all(struct gw_store_read *read, enum gw_table table,
                                                  gw_store_visit_fn visit, void *ctx);
// The first key from `from` on, its value unread: also that of a damaged record. Not of devices.
// NOT_FOUND, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_store_read_seek(struct gw_store_read *read, enum gw_table table,
                                                   const struct gw_key *from,
                                                   struct gw_key *out_key);
// Of devices: how many have a record.
uint64_t gw_store_read_count(struct gw_store_read *read, enum gw_table table);

// ---- Writing

struct gw_store_op {
    struct gw_store_op *next; // private
    uint64_t order;           // private
    uint64_t sort_key;        // for example a device id: neighbours share pages
    bool urgent;              // commit without waiting for company
    enum base_status status;  // private until done
    bool damaged;             // private: it met a record that is, and is left out of its group
    enum base_status (*apply)(struct gw_store_txn *txn, struct gw_store_op *self);
    void (*done)(struct gw_store_op *self, enum base_status status);
};

// BUSY: the queue is full, neither apply nor done will be called; CLOSED after close began. An
// operation that meets a damaged record of a table that cannot spare it ends with CORRUPT, and
// nothing of it is written; the others of its group are not concerned.
BASE_NODISCARD enum base_status gw_store_submit(struct gw_store *store, struct gw_store_op *op);
// Submits, and waits for the outcome; `done` is not used. Not from the writer thread.
BASE_NODISCARD enum base_status gw_store_submit_wait(struct gw_store *store,
                                                     struct gw_store_op *op);
// With `no_thread`: commits what was submitted, one group. False: nothing waits.
bool gw_store_step(struct gw_store *store);

// Within apply. Borrowed until the next put of the transaction, a record of a device also until the
// next get of one.
BASE_NODISCARD enum base_status gw_store_txn_get(struct gw_store_txn *txn, enum gw_table table,
                                                 const struct gw_key *key, struct base_span *out);
// Is there one that gw_store_txn_get left out because it is damaged?
bool gw_store_txn_left_out(struct gw_store_txn *txn, enum gw_table table, const struct gw_key *key);
BASE_NODISCARD enum base_status gw_store_txn_put(struct gw_store_txn *txn, enum gw_table table,
                                                 const struct gw_key *key, const void *value,
                                                 size_t size);
// As gw_store_read_scan; `visit` may not write.
BASE_NODISCARD enum base_status gw_store_txn_scan(struct gw_store_txn *txn, enum gw_table table,
                                                  const struct gw_key *from,
                                                  gw_store_visit_fn visit, void *ctx);
// OK also when there was nothing.
BASE_NODISCARD enum base_status gw_store_txn_delete(struct gw_store_txn *txn, enum gw_table table,
                                                    const struct gw_key *key);

// ---- Blobs

// Bytes of a blob: copied to the heap (inline) or a private read-only mapping of its file.
struct gw_store_bytes {
    const uint8_t *data;
    size_t size;
    bool exclusive; // not for everybody
    void *heap;     // one of the two
    void *map;
};

// Content with its name.
struct gw_store_item {
    struct wire_sha256 digest;
    const uint8_t *bytes;
    size_t size;
};
// Stores content that was checked against its digest; blocks until durable. *out_created false: it
// was there. TOO_LARGE, FULL, IO, BUSY. Not on the writer thread.
BASE_NODISCARD enum base_status gw_store_blob_put(struct gw_store *store,
                                                  const struct wire_sha256 *digest,
                                                  const uint8_t *bytes, size_t size,
                                                  bool *out_created);
// The same for content that is for single devices only, which `holder` holds from then on. What is
// there for everybody stays so, and gw_store_blob_put makes what is exclusive public (*out_created
// true). *out_created false: it was there for everybody, or this holder's. So nobody learns from it
// what others hold.
BASE_NODISCARD enum base_status gw_store_blob_put_exclusive(struct gw_store *store, uint32_t holder,
                                                            const struct gw_store_item *item,
                                                            bool *out_created);
// Many at once, in one commit but for large ones. *out_created: of how many it is true.
BASE_NODISCARD enum base_status gw_store_blobs_put_exclusive(struct gw_store *store,
                                                             uint32_t holder,
                                                             const struct gw_store_item *items,
                                                             uint32_t count, uint32_t *out_created);
// The holder lets go of what is exclusive. Content that nobody else holds goes: its row, then its
// file, and only then what says that it was held, so that after a kill a drop begun can be ended by
// another. What is for everybody stays. NOT_FOUND: the holder has it not; CORRUPT, IO, BUSY.
BASE_NODISCARD enum base_status gw_store_blob_drop(struct gw_store *store, uint32_t holder,
                                                   const struct wire_sha256 *digest);
// Tells `visit` what the holder holds, until it returns false; it may not write. IO, CORRUPT.
BASE_NODISCARD enum base_status
gw_store_blobs_held(struct gw_store *store, uint32_t holder,
                    bool (*visit)(void *ctx, const struct wire_sha256 *digest), void *ctx);
// Makes what is exclusive public; OK also when it is. As gw_store_blob_put, and NOT_FOUND.
BASE_NODISCARD enum base_status gw_store_blob_publish(struct gw_store *store,
                                                      const struct wire_sha256 *digest);
// Its size, when it is for everybody or this holder brought it; else NOT_FOUND, as for what is not
// there. GW_STORE_NOBODY asks for what is for everybody.
#define GW_STORE_NOBODY UINT32_MAX
BASE_NODISCARD enum base_status gw_store_blob_held(struct gw_store *store, uint32_t holder,
                                                   const struct wire_sha256 *digest,
                                                   uint64_t *out_size);
// Is it there, and exclusive?
bool gw_store_blob_exclusive(struct gw_store *store, const struct wire_sha256 *digest);
// NOT_FOUND, IO, NOMEM, CORRUPT.
BASE_NODISCARD enum base_status gw_store_blob_load(struct gw_store *store,
                                                   const struct wire_sha256 *digest,
                                                   struct gw_store_bytes *out);
void gw_store_bytes_done(struct gw_store_bytes *bytes);
// NOT_FOUND or the size.
BASE_NODISCARD enum base_status
gw_store_blob_stat(struct gw_store *store, const struct wire_sha256 *digest, uint64_t *out_size);

void gw_sha256(const void *bytes, size_t size, struct wire_sha256 *out);

// ---- Introspection

struct gw_store_stats {
    uint64_t commits;
    uint64_t operations;
    uint64_t failed_groups;
    uint64_t growths;
    uint64_t map_bytes;
    uint64_t used_bytes; // pages in use
    uint64_t queue;
    uint64_t group_max; // largest group so far
    uint64_t damaged;   // records found that fail their checksum
    bool full;          // the last group found no room
};
void gw_store_stats(struct gw_store *store, struct gw_store_stats *out);

// Walks every table and blob file and checks that records can be read, blobs have the bytes their
// names promise, and keys have the known version. Each finding is told to `tell`; returns how many.
uint64_t gw_store_check(struct gw_store *store, void (*tell)(void *ctx, const char *text),
                        void *ctx);
// Writes every record of `dir` that can be read and passes its checksum to a new store, which takes
// the place of the damaged one; that one is kept as store.mdb.damaged. What had to be left behind
// is told. BUSY: a gateway runs there; EXISTS: there is a store.mdb.damaged already; NOT_FOUND, IO,
// FULL, NOMEM.
BASE_NODISCARD enum base_status gw_store_salvage(const char *dir,
                                                 void (*tell)(void *ctx, const char *text),
                                                 void *ctx, uint64_t *out_copied,
                                                 struct base_error *error);
// Writes a compacted copy of the environment into `dir`. EXISTS where that is not empty; IO, FULL.
BASE_NODISCARD enum base_status gw_store_compact(struct gw_store *store, const char *dir,
                                                 struct base_error *error);

#endif
