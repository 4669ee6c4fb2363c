// Collective storage: puts and deletes gather in memory and reach the disk in groups, one durable
// commit a group. Events, features, trigger state and the tunnel's queue all go through one
// collect, so what belongs together (a feature and the queue entry that carries it; an acknowledged
// batch and the new tail) is stored together or not at all.
//
// A group is committed when it has DEV_COLLECT_PUTS_MAX changes or DEV_COLLECT_BYTES_MAX bytes,
// when it is DEV_COLLECT_AGE_MS old, on page exit, when the app goes to the background, with the
// first change of a high class, and before a scan. What is lost by a kill: at most the changes of
// the last DEV_COLLECT_AGE_MS that were not of a high class, and those as a whole group: the store
// after a kill is always the store after some commit.
//
// Spaces are tables. Keys are bytes, ordered. A later change of a key in a group replaces the
// earlier. A value above a quarter of the buffer is not copied: outside of begin and end it is
// committed before _put returns; between them it is borrowed until _end, which commits.
//
// Memory is the caller's block; one thread; no clock of its own (times are arguments). Errors: what
// the port answers. A failed commit keeps the group and tries again with back-off; while the buffer
// is full of uncommitted changes _put answers BUSY and the caller accounts for what it drops.
#ifndef DEV_COLLECT_H
#define DEV_COLLECT_H

#include "base/span.h"
#include "base/status.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

#define DEV_COLLECT_PUTS_MAX  64
#define DEV_COLLECT_BYTES_MAX (16 * 1024)
#define DEV_COLLECT_AGE_MS    2000
#define DEV_COLLECT_BUFFER    (64 * 1024) // changes in memory at most, with 40 bytes for each
#define DEV_COLLECT_SMALLEST  (4 * 1024)  // least memory a collect works with
#define DEV_COLLECT_KEY_MAX   128
#define DEV_COLLECT_VALUE_MAX (1024 * 1024 + 4096)
#define DEV_COLLECT_LARGE_MAX 4    // borrowed values between begin and end
#define DEV_KV_CHANGES_MAX    1024 // of one commit
// A commit that failed is tried again after the first, doubled each time up to the last.
#define DEV_COLLECT_RETRY_FIRST_MS 100
#define DEV_COLLECT_RETRY_LAST_MS  30000

enum dev_space {
    DEV_SPACE_STATE,    // one record each: recorder, triggers, streams, tunnel
    DEV_SPACE_EVENTS,   // blocks of events by first seq
    DEV_SPACE_FEATURES, // rows by feature, key and time
    DEV_SPACE_QUEUE,    // the tunnel's batches by class, epoch and number
    DEV_SPACE_COUNT
};

struct dev_kv_change {
    enum dev_space space;
    const uint8_t *key;
    uint32_t key_size;
    const uint8_t *value; // NULL: delete
    uint32_t value_size;
};

// What a row is named by. The key is borrowed during the call.
struct dev_kv_key {
    enum dev_space space;
    const void *data;
    size_t size; // at least 1, at most DEV_COLLECT_KEY_MAX
};

// Rows of a space in key order: from the first key >= `from` while keys begin with `prefix`. Both
// are borrowed during the call, have at most DEV_COLLECT_KEY_MAX bytes, and are empty for all rows.
struct dev_kv_range {
    enum dev_space space;
    const void *prefix;
    size_t prefix_size;
    const void *from; // one before `prefix` begins with its first
    size_t from_size;
};

// Called for each row in key order; false ends the scan. Borrowed during the call.
typedef bool (*dev_kv_visit_fn)(void *ctx, const uint8_t *key, size_t key_size,
                                const uint8_t *value, size_t value_size);

// A small ordered store with durable transactions: LMDB on posix, memory in tests and the
// simulator.
struct dev_kv_port {
    void *ctx;
    // All of it, durably, or nothing. No key occurs twice. IO, FULL (quota of the disk or map),
    // CORRUPT.
    enum base_status (*commit)(void *ctx, const struct dev_kv_change *changes, uint32_t count);
    // NOT_FOUND, TOO_LARGE (then *out_size says how much), IO, CORRUPT. `capacity` may be 0.
    enum base_status (*get)(void *ctx, struct dev_kv_key key, void *out, size_t capacity,
                            size_t *out_size);
    // TOO_LARGE, IO, CORRUPT.
    enum base_status (*scan)(void *ctx, const struct dev_kv_range *range, dev_kv_visit_fn visit,
                             void *visit_ctx);
};

struct dev_collect;

struct dev_collect_stats {
    uint64_t puts;
    uint64_t commits;
    uint64_t committed_changes;
    uint64_t failed_commits;
    uint64_t refused;    // BUSY
    uint64_t over_quota; // FULL by _quota
    uint64_t abandoned;  // groups that were given up whole
    uint64_t bytes_waiting;
    uint64_t bytes_stored; // keys and values, per _usage of all spaces
};

size_t dev_collect_bytes(void); // with a buffer of DEV_COLLECT_BUFFER
// `port` must outlive it. Less memory than _bytes makes the buffer smaller, INVALID when it is less
// than DEV_COLLECT_SMALLEST. Thresholds in bytes are at most a quarter of the buffer.
BASE_NODISCARD enum base_status dev_collect_init(void *memory, size_t memory_bytes,
                                                 const struct dev_kv_port *port,
                                                 struct dev_collect **out);
// Counts what is stored, for quotas. The port's errors.
BASE_NODISCARD enum base_status dev_collect_boot(struct dev_collect *collect, uint64_t now_us);
// A put that would take the space above `bytes` is refused with FULL; 0: no such quota. What to
// evict before it comes to that is the affair of the space's owner.
void dev_collect_quota(struct dev_collect *collect, enum dev_space space, uint64_t bytes);

// `high`: the group is to be committed at the end of the current step (dev_collect_step), not
// later. BUSY, FULL, TOO_LARGE, INVALID; a large value outside of a group: the port's errors too,
// and then it is not kept.
BASE_NODISCARD enum base_status dev_collect_put(struct dev_collect *collect, uint64_t now_us,
                                                struct dev_kv_key key, struct base_span value,
                                                bool high);
BASE_NODISCARD enum base_status dev_collect_delete(struct dev_collect *collect, uint64_t now_us,
                                                   struct dev_kv_key key, bool high);
// Between begin and end a commit does not cut: what was put in between is in one group, and is
// forgotten whole when one of the puts failed; _end then answers that put's status. Groups do not
// nest. With a large value inside, _end commits; when that fails the group is forgotten too.
void dev_collect_begin(struct dev_collect *collect);
BASE_NODISCARD enum base_status dev_collect_end(struct dev_collect *collect, uint64_t now_us);
void dev_collect_abandon(struct dev_collect *collect); // instead of _end: nothing was put
// Page exit, background, shutdown: commit what waits, now, back-off or not. OK when nothing waits.
// CONFLICT between begin and end.
BASE_NODISCARD enum base_status dev_collect_flush(struct dev_collect *collect, uint64_t now_us);
// Commits when a threshold says so; returns when to call again (UINT64_MAX: not before the next
// put).
uint64_t dev_collect_step(struct dev_collect *collect, uint64_t now_us);
// Changes accepted so far: a put made when _changes was n is durable once _durable is above n.
uint64_t dev_collect_changes(const struct dev_collect *collect);
uint64_t dev_collect_durable(const struct dev_collect *collect);

// What waits is seen, without a commit; then the port is asked.
BASE_NODISCARD enum base_status dev_collect_get(struct dev_collect *collect, struct dev_kv_key key,
                                                void *out, size_t capacity, size_t *out_size);
// Commits what waits, then scans the port; `visit` must not change anything. CONFLICT between begin
// and end.
BASE_NODISCARD enum base_status dev_collect_scan(struct dev_collect *collect, uint64_t now_us,
                                                 const struct dev_kv_range *range,
                                                 dev_kv_visit_fn visit, void *visit_ctx);
// Bytes of keys and values: stored, with what waits.
uint64_t dev_collect_usage(const struct dev_collect *collect, enum dev_space space);
void dev_collect_stats(const struct dev_collect *collect, struct dev_collect_stats *out);
bool dev_collect_validate(const struct dev_collect *collect);

#endif
