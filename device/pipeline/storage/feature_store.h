// Features on the device: values by feature name, key and time, in collective storage. Tasks put
// them and ask for them; windows put their results under the start of the window, so that a window
// that fires again replaces its row.
//
// A row is (feature, key, time_ms) -> value. `key` tells rows of one feature apart (an item, a
// user, nothing). Rows of one key lie newest first; a query gives them in that order, by key first.
//
// Each feature has a quota in bytes, and, if wanted, an age: over the quota the oldest rows of the
// feature go, whatever their keys, until DEV_FEATURE_KEEP_PERCENT of it are left. The space as a
// whole has a quota too: beyond it a put is refused.
//
// Memory is the caller's block; the runtime's thread. Counts of bytes are kept in memory, made by
// _boot and corrected by each eviction; what a group that was abandoned had counted is wrong until
// then.
#ifndef DEV_FEATURE_STORE_H
#define DEV_FEATURE_STORE_H

#include "pipeline/storage/collect.h"

#define DEV_FEATURE_NAME_MAX     32 // [a-z][a-z0-9_.]*
#define DEV_FEATURE_KEY_MAX      64 // bytes, may be empty
#define DEV_FEATURE_VALUE_MAX    (16 * 1024)
#define DEV_FEATURES_MAX         64           // names
#define DEV_FEATURE_QUOTA_BYTES  (256 * 1024) // of one feature, unless said otherwise
#define DEV_FEATURE_SPACE_BYTES  (4 * 1024 * 1024)
#define DEV_FEATURE_KEEP_PERCENT 87
#define DEV_FEATURE_QUERY_MAX    4096 // rows of one query

struct dev_feature_store;

struct dev_feature_row { // borrowed during the call
    struct base_str feature;
    struct base_str key;
    uint64_t time_ms;
    const void *value;
    size_t value_size;
};
// False ends the query. Must not put.
typedef bool (*dev_feature_visit_fn)(void *ctx, const struct dev_feature_row *row);

struct dev_feature_query {
    struct base_str feature;
    struct base_str key;
    bool every_key;   // then `key` is not looked at
    uint64_t from_ms; // from <= time < to
    uint64_t to_ms;   // UINT64_MAX: no end
    uint32_t newest;  // of each key at most so many; 0: all
};

struct dev_feature_stats {
    uint64_t puts;
    uint64_t refused; // of any reason
    uint64_t evicted_rows;
    uint64_t evicted_bytes;
    uint64_t bytes;
    uint32_t features;
};

size_t dev_feature_store_bytes(void);
// INVALID. `collect` must outlive it, and be booted before _boot.
BASE_NODISCARD enum base_status dev_feature_store_init(void *memory, size_t memory_bytes,
                                                       struct dev_collect *collect,
                                                       struct dev_feature_store **out);
// Counts rows and bytes by feature. The port's errors.
BASE_NODISCARD enum base_status dev_feature_store_boot(struct dev_feature_store *store,
                                                       uint64_t now_us);
// Quota and greatest age (0: none) of a feature; applies from the next put or _evict. LIMIT,
// INVALID.
BASE_NODISCARD enum base_status dev_feature_limit(struct dev_feature_store *store,
                                                  struct base_str feature, uint64_t quota_bytes,
                                                  uint64_t age_ms);

// Puts or replaces one row; evicts before when the quota says so (that may commit). INVALID,
// TOO_LARGE, LIMIT (one name too many), and the errors of dev_collect_put.
BASE_NODISCARD enum base_status dev_feature_put(struct dev_feature_store *store, uint64_t now_us,
                                                const struct dev_feature_row *row, bool high);
// Rows that match, newest first within a key. Commits what waits. INVALID, the port's errors;
// LIMIT: more than DEV_FEATURE_QUERY_MAX rows matched, those visited were the first.
BASE_NODISCARD enum base_status dev_feature_find(struct dev_feature_store *store, uint64_t now_us,
                                                 const struct dev_feature_query *query,
                                                 dev_feature_visit_fn visit, void *ctx);
// Drops what is too old by `wall_ms` and what is over a quota. On boot and once a day.
BASE_NODISCARD enum base_status dev_feature_evict(struct dev_feature_store *store, uint64_t now_us,
                                                  uint64_t wall_ms);
// What it lies in, for who asks for other rows of the same device (storage/task_store.h); borrowed.
struct dev_collect *dev_feature_store_collect(struct dev_feature_store *store);
void dev_feature_store_stats(const struct dev_feature_store *store, struct dev_feature_stats *out);

#endif
