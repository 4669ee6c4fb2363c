// Features by name, key and time on top of collective storage: puts, queries, eviction.
//
// Called by the runtime's thread, for tasks and for stream functions. A row's key is
//   text8 feature, text8 key, u64 big-endian of UINT64_MAX - time_ms
// so that rows of one key lie together, newest first.
#include "pipeline/storage/feature_store.h"

#include "base/check.h"
#include "base/cursor.h"
#include "wire/event_attrs.h"

#include <string.h>

#define ROW_KEY_MAX (2 + DEV_FEATURE_NAME_MAX + DEV_FEATURE_KEY_MAX + 8)
#define DROP_ROWS   64 // keys gathered in one scan before they are deleted
#define CUT_BUCKETS 64
#define CUT_ROUNDS  12 // 64 buckets a round: 11 rounds tell any two times apart

_Static_assert(ROW_KEY_MAX <= DEV_COLLECT_KEY_MAX, "a row's key is a key");
_Static_assert(DEV_FEATURE_NAME_MAX == WIRE_EVENT_ATTR_NAME_MAX, "one grammar of names");

struct feature {
    char name[DEV_FEATURE_NAME_MAX];
    uint8_t name_size;
    uint64_t bytes;
    uint64_t quota;
    uint64_t age_ms;
};

struct dev_feature_store {
    struct dev_collect *collect;
    struct dev_feature_stats stats;
    uint32_t count;
    struct feature features[DEV_FEATURES_MAX];
};

struct row_key {
    uint8_t bytes[ROW_KEY_MAX];
    size_t size;
};

static struct dev_kv_key kv_key_of(const struct row_key *key)
{
    return (struct dev_kv_key){DEV_SPACE_FEATURES, key->bytes, key->size};
}

size_t dev_feature_store_bytes(void)
{
    return sizeof(struct dev_feature_store);
}

enum base_status dev_feature_store_init(void *memory, size_t memory_bytes,
                                        struct dev_collect *collect, struct dev_feature_store **out)
{
    if (memory == NULL || memory_bytes < sizeof(struct dev_feature_store) ||
        (uintptr_t)memory % _Alignof(struct dev_feature_store) != 0) {
        return BASE_ERR_INVALID;
    }
    struct dev_feature_store *store = memory;
    memset(store, 0, sizeof(*store));
    store->collect = collect;
    *out = store;
    return BASE_OK;
}

// ---- Keys and names

static void store_u64_be(uint8_t *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

static uint64_t load_u64_be(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static void add_text(struct row_key *out, struct base_str text)
{
    base_assert(text.size <= UINT8_MAX && out->size + 1 + text.size <= sizeof(out->bytes));
    out->bytes[out->size++] = (uint8_t)text.size;
    if (text.size > 0) {
        memcpy(out->bytes + out->size, text.data, text.size);
    }
    out->size += text.size;
}

static void add_time(struct row_key *out, uint64_t time_ms)
{
    base_assert(out->size + 8 <= sizeof(out->bytes));
    store_u64_be(out->bytes + out->size, UINT64_MAX - time_ms);
    out->size += 8;
}

static bool row_parse(const uint8_t *key, size_t key_size, struct dev_feature_row *out)
{
    struct base_reader reader;
    base_reader_init(&reader, key, key_size);
    size_t size = base_reader_u8(&reader);
    out->feature = (struct base_str){(const char *)base_reader_bytes(&reader, size), size};
    size = base_reader_u8(&reader);
    out->key = (struct base_str){(const char *)base_reader_bytes(&reader, size), size};
    const uint8_t *time = base_reader_bytes(&reader, 8);
    if (base_reader_finish(&reader) != BASE_OK || out->key.size > DEV_FEATURE_KEY_MAX ||
        !wire_event_name_ok(out->feature)) {
        return false;
    }
    out->time_ms = UINT64_MAX - load_u64_be(time);
    return true;
}

static struct base_str name_of(const struct feature *feature)
{
    return (struct base_str){feature->name, feature->name_size};
}

static struct feature *feature_find(struct dev_feature_store *store, struct base_str name)
{
    for (uint32_t i = 0; i < store->count; i++) {
        if (base_str_equal(name_of(&store->features[i]), name)) {
            return &store->features[i];
        }
    }
    return NULL;
}

// NULL: one name too many.
static struct feature *feature_make(struct dev_feature_store *store, struct base_str name)
{
    struct feature *feature = feature_find(store, name);
    if (feature != NULL || store->count == DEV_FEATURES_MAX) {
        return feature;
    }
    base_assert(name.size > 0 && name.size <= DEV_FEATURE_NAME_MAX);
    feature = &store->features[store->count++];
    *feature = (struct feature){
        .name_size = (uint8_t)name.size,
        .quota = DEV_FEATURE_QUOTA_BYTES,
    };
    memcpy(feature->name, name.data, name.size);
    return feature;
}

// ---- Boot

static bool boot_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    (void)value;
    struct dev_feature_store *store = ctx;
    struct dev_feature_row row;
    if (row_parse(key, key_size, &row)) {
        struct feature *feature = feature_make(store, row.feature);
        if (feature != NULL) {
            feature->bytes += key_size + value_size;
        }
    }
    return true;
}

enum base_status dev_feature_store_boot(struct dev_feature_store *store, uint64_t now_us)
{
    for (uint32_t i = 0; i < store->count; i++) {
        store->features[i].bytes = 0;
    }
    dev_collect_quota(store->collect, DEV_SPACE_FEATURES, DEV_FEATURE_SPACE_BYTES);
    const struct dev_kv_range all = {.space = DEV_SPACE_FEATURES};
    return dev_collect_scan(store->collect, now_us, &all, boot_row, store);
}

enum base_status dev_feature_limit(struct dev_feature_store *store, struct base_str feature,
                                   uint64_t quota_bytes, uint64_t age_ms)
{
    if (!wire_event_name_ok(feature) || quota_bytes == 0) {
        return BASE_ERR_INVALID;
    }
    struct feature *made = feature_make(store, feature);
    if (made == NULL) {
        return BASE_ERR_LIMIT;
    }
    made->quota = quota_bytes;
    made->age_ms = age_ms;
    return BASE_OK;
}

// ---- Eviction

struct span { // what one scan of a feature's times finds
    uint64_t low;
    uint64_t high;
    uint64_t width;
    uint64_t bytes;                // of all rows
    uint64_t buckets[CUT_BUCKETS]; // bytes of rows with low <= time <= high
    uint64_t least;                // times
    uint64_t most;
};

static bool span_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    (void)value;
    struct span *span = ctx;
    struct dev_feature_row row;
    if (!row_parse(key, key_size, &row)) {
        return true;
    }
    uint64_t bytes = key_size + value_size;
    span->bytes += bytes;
    span->least = row.time_ms < span->least ? row.time_ms : span->least;
    span->most = row.time_ms > span->most ? row.time_ms : span->most;
    if (row.time_ms >= span->low && row.time_ms <= span->high) {
        span->buckets[(row.time_ms - span->low) / span->width] += bytes;
    }
    return true;
}

// The rows of a feature, from a key on.
struct rows {
    struct base_str feature;
    struct row_key from; // size 0: the feature's first
};

static enum base_status rows_scan(struct dev_feature_store *store, uint64_t now_us,
                                  const struct rows *rows, dev_kv_visit_fn visit, void *ctx)
{
    struct row_key prefix = {.size = 0};
    add_text(&prefix, rows->feature);
    const struct dev_kv_range range = {.space = DEV_SPACE_FEATURES,
                                       .prefix = prefix.bytes,
                                       .prefix_size = prefix.size,
                                       .from = rows->from.bytes,
                                       .from_size = rows->from.size};
    return dev_collect_scan(store->collect, now_us, &range, visit, ctx);
}

// The rows to drop: all before `time_ms`, and of those at it as many as it takes.
struct cut {
    uint64_t time_ms;
    uint64_t need; // bytes
    uint64_t dropped;
    uint32_t count;
    struct row_key keys[DROP_ROWS];
    uint64_t sizes[DROP_ROWS];
};

static bool drop_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    (void)value;
    struct cut *cut = ctx;
    struct dev_feature_row row;
    if (!row_parse(key, key_size, &row)) {
        return true;
    }
    bool drop =
        row.time_ms < cut->time_ms || (row.time_ms == cut->time_ms && cut->dropped < cut->need);
    if (!drop) {
        return true;
    }
    base_assert(cut->count < DROP_ROWS && key_size <= ROW_KEY_MAX);
    cut->dropped += key_size + value_size;
    memcpy(cut->keys[cut->count].bytes, key, key_size);
    cut->keys[cut->count].size = key_size;
    cut->sizes[cut->count] = key_size + value_size;
    cut->count++;
    return cut->count < DROP_ROWS;
}

static enum base_status drop(struct dev_feature_store *store, uint64_t now_us,
                             struct feature *feature, struct cut *cut)
{
    struct rows rows = {.feature = name_of(feature)};
    do {
        cut->count = 0;
        BASE_TRY(rows_scan(store, now_us, &rows, drop_row, cut));
        for (uint32_t i = 0; i < cut->count; i++) {
            BASE_TRY(dev_collect_delete(store->collect, now_us, kv_key_of(&cut->keys[i]), false));
            store->stats.evicted_rows++;
            store->stats.evicted_bytes += cut->sizes[i];
            feature->bytes -= cut->sizes[i] < feature->bytes ? cut->sizes[i] : feature->bytes;
        }
        if (cut->count > 0) {
            rows.from = cut->keys[cut->count - 1];
        }
    } while (cut->count == DROP_ROWS);
    return BASE_OK;
}

// Finds the time that parts `need` bytes of the oldest rows from the rest, by narrowing a span of
// times to the bucket it falls into. What lies before the span is in `before`.
static enum base_status find_cut(struct dev_feature_store *store, uint64_t now_us,
                                 const struct feature *feature, struct span *span, struct cut *cut)
{
    uint64_t before = 0;
    uint64_t low = span->least;
    uint64_t high = span->most;
    const struct rows rows = {.feature = name_of(feature)};
    base_assert(cut->need > 0 && low <= high);
    for (unsigned round = 0; round < CUT_ROUNDS; round++) {
        *span = (struct span){.low = low, .high = high, .width = (high - low) / CUT_BUCKETS + 1};
        BASE_TRY(rows_scan(store, now_us, &rows, span_row, span));
        unsigned bucket = 0;
        while (bucket < CUT_BUCKETS - 1 && before + span->buckets[bucket] < cut->need) {
            before += span->buckets[bucket];
            bucket++;
        }
        low += bucket * span->width;
        if (span->width == 1) {
            break;
        }
        uint64_t last = low + (span->width - 1);
        high = last < high ? last : high;
    }
    cut->time_ms = low;
    return BASE_OK;
}

// Takes the feature down to `target` bytes, and counts it anew.
static enum base_status evict(struct dev_feature_store *store, uint64_t now_us,
                              struct feature *feature, uint64_t target)
{
    struct span span = {.low = 1, .high = 0, .width = 1, .least = UINT64_MAX};
    struct cut cut = {.dropped = 0};
    const struct rows rows = {.feature = name_of(feature)};
    BASE_TRY(rows_scan(store, now_us, &rows, span_row, &span));
    feature->bytes = span.bytes;
    if (span.bytes <= target) {
        return BASE_OK;
    }
    cut.need = span.bytes - target;
    BASE_TRY(find_cut(store, now_us, feature, &span, &cut));
    return drop(store, now_us, feature, &cut);
}

static uint64_t kept_bytes(uint64_t quota)
{
    return quota / 100 * DEV_FEATURE_KEEP_PERCENT + quota % 100 * DEV_FEATURE_KEEP_PERCENT / 100;
}

enum base_status dev_feature_evict(struct dev_feature_store *store, uint64_t now_us,
                                   uint64_t wall_ms)
{
    for (uint32_t i = 0; i < store->count; i++) {
        struct feature *feature = &store->features[i];
        if (feature->age_ms > 0 && wall_ms > feature->age_ms) {
            struct cut cut = {.time_ms = wall_ms - feature->age_ms};
            BASE_TRY(drop(store, now_us, feature, &cut));
        }
        if (feature->bytes > feature->quota) {
            BASE_TRY(evict(store, now_us, feature, kept_bytes(feature->quota)));
        }
    }
    return BASE_OK;
}

// ---- Puts

// The space is full: the feature that has most gives way.
static enum base_status evict_largest(struct dev_feature_store *store, uint64_t now_us)
{
    struct feature *largest = &store->features[0];
    for (uint32_t i = 1; i < store->count; i++) {
        largest = store->features[i].bytes > largest->bytes ? &store->features[i] : largest;
    }
    return evict(store, now_us, largest, kept_bytes(largest->bytes));
}

// A row on its way into the store.
struct arrival {
    struct row_key key;
    struct base_span value;
    bool high; // dev_collect_put's
};

static enum base_status put_row(struct dev_feature_store *store, uint64_t now_us,
                                struct feature *feature, const struct arrival *row)
{
    base_assert(feature >= store->features && feature < store->features + store->count);
    size_t old = 0;
    struct dev_kv_key key = kv_key_of(&row->key);
    enum base_status status = dev_collect_get(store->collect, key, NULL, 0, &old);
    bool there = status == BASE_OK || status == BASE_ERR_TOO_LARGE;
    uint64_t was = there ? key.size + old : 0;
    uint64_t bytes = key.size + row->value.size;
    if (bytes > feature->quota) {
        return BASE_ERR_TOO_LARGE;
    }
    if (feature->bytes + bytes > feature->quota + was) {
        uint64_t target = kept_bytes(feature->quota);
        target = target > bytes ? target - bytes : 0;
        status = evict(store, now_us, feature, target);
        // Within a group nothing can be read back: the next put outside of one makes up for it.
        if (status != BASE_OK && status != BASE_ERR_CONFLICT) {
            return status;
        }
        if (status == BASE_OK && there) { // perhaps it was among those that went
            status = dev_collect_get(store->collect, key, NULL, 0, &old);
            was = status == BASE_ERR_NOT_FOUND ? 0 : was;
        }
    }
    status = dev_collect_put(store->collect, now_us, key, row->value, row->high);
    if (status == BASE_OK) {
        feature->bytes = feature->bytes + bytes - (was < feature->bytes ? was : feature->bytes);
    }
    return status;
}

enum base_status dev_feature_put(struct dev_feature_store *store, uint64_t now_us,
                                 const struct dev_feature_row *row, bool high)
{
    enum base_status status = BASE_OK;
    struct feature *found = NULL;
    if (!wire_event_name_ok(row->feature)) {
        status = BASE_ERR_INVALID;
    } else if (row->key.size > DEV_FEATURE_KEY_MAX || row->value_size > DEV_FEATURE_VALUE_MAX) {
        status = BASE_ERR_TOO_LARGE;
    } else {
        found = feature_make(store, row->feature);
        status = found != NULL ? BASE_OK : BASE_ERR_LIMIT;
    }
    if (status == BASE_OK) {
        base_assert(store->count > 0 && store->count <= DEV_FEATURES_MAX);
        struct arrival arrival = {.value = {row->value, row->value_size}, .high = high};
        add_text(&arrival.key, row->feature);
        add_text(&arrival.key, row->key);
        add_time(&arrival.key, row->time_ms);
        status = put_row(store, now_us, found, &arrival);
        if (status == BASE_ERR_FULL && evict_largest(store, now_us) == BASE_OK) {
            status = put_row(store, now_us, found, &arrival);
        }
    }
    store->stats.puts += status == BASE_OK ? 1 : 0;
    store->stats.refused += status == BASE_OK ? 0 : 1;
    return status;
}

// ---- Queries

struct find {
    const struct dev_feature_query *query;
    dev_feature_visit_fn visit;
    void *ctx;
    char key[DEV_FEATURE_KEY_MAX]; // of the row before
    size_t key_size;
    uint32_t of_key; // rows given of that key
    uint32_t given;
    bool limit;
};

static bool find_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    struct find *find = ctx;
    const struct dev_feature_query *query = find->query;
    struct dev_feature_row row;
    if (!row_parse(key, key_size, &row)) {
        return true;
    }
    base_assert(row.key.size <= sizeof(find->key) && find->given <= DEV_FEATURE_QUERY_MAX);
    if (!base_str_equal(row.key, (struct base_str){find->key, find->key_size})) {
        if (row.key.size > 0) {
            memcpy(find->key, row.key.data, row.key.size);
        }
        find->key_size = row.key.size;
        find->of_key = 0;
    }
    if (row.time_ms < query->from_ms || (query->newest > 0 && find->of_key == query->newest)) {
        return query->every_key; // the rest of this key is older
    }
    if (row.time_ms >= query->to_ms && query->to_ms != UINT64_MAX) {
        return true;
    }
    if (find->given == DEV_FEATURE_QUERY_MAX) {
        find->limit = true;
        return false;
    }
    row.value = value;
    row.value_size = value_size;
    find->of_key++;
    find->given++;
    return find->visit(find->ctx, &row);
}

enum base_status dev_feature_find(struct dev_feature_store *store, uint64_t now_us,
                                  const struct dev_feature_query *query, dev_feature_visit_fn visit,
                                  void *ctx)
{
    if (!wire_event_name_ok(query->feature) || query->key.size > DEV_FEATURE_KEY_MAX) {
        return BASE_ERR_INVALID;
    }
    struct row_key prefix = {.size = 0};
    add_text(&prefix, query->feature);
    if (!query->every_key) {
        add_text(&prefix, query->key);
    }
    struct row_key from = prefix;
    bool ends = !query->every_key && query->to_ms != UINT64_MAX && query->to_ms > 0;
    if (ends) {
        add_time(&from, query->to_ms - 1); // the newest that is wanted
    }
    struct find find = {.query = query, .visit = visit, .ctx = ctx};
    const struct dev_kv_range range = {.space = DEV_SPACE_FEATURES,
                                       .prefix = prefix.bytes,
                                       .prefix_size = prefix.size,
                                       .from = from.bytes,
                                       .from_size = from.size};
    BASE_TRY(dev_collect_scan(store->collect, now_us, &range, find_row, &find));
    base_assert(!find.limit || find.given == DEV_FEATURE_QUERY_MAX);
    return find.limit ? BASE_ERR_LIMIT : BASE_OK;
}

struct dev_collect *dev_feature_store_collect(struct dev_feature_store *store)
{
    return store->collect;
}

void dev_feature_store_stats(const struct dev_feature_store *store, struct dev_feature_stats *out)
{
    *out = store->stats;
    out->features = store->count;
    out->bytes = 0;
    for (uint32_t i = 0; i < store->count; i++) {
        out->bytes += store->features[i].bytes;
    }
}
