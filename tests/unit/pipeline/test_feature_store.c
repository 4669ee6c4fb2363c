// Features: rows by key and time against a plain array as oracle, quotas, ages, limits, restarts.
#include "test_kit.h"

#include "mem/mem_kv.h"
#include "pipeline/storage/feature_store.h"

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_feature_store *store;
    void *collect_memory;
    void *store_memory;
};

static void rig_start(struct rig *rig)
{
    free(rig->collect_memory);
    free(rig->store_memory);
    rig->collect_memory = malloc(dev_collect_bytes());
    rig->store_memory = malloc(dev_feature_store_bytes());
    assert_int_equal(
        dev_collect_init(rig->collect_memory, dev_collect_bytes(), &rig->port, &rig->collect),
        BASE_OK);
    assert_int_equal(dev_collect_boot(rig->collect, 0), BASE_OK);
    assert_int_equal(dev_feature_store_init(rig->store_memory, dev_feature_store_bytes(),
                                            rig->collect, &rig->store),
                     BASE_OK);
    assert_int_equal(dev_feature_store_boot(rig->store, 0), BASE_OK);
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){0};
    mem_kv_init(&rig->kv);
    rig->port = mem_kv_port(&rig->kv);
    rig_start(rig);
}

static void rig_done(struct rig *rig)
{
    free(rig->collect_memory);
    free(rig->store_memory);
    mem_kv_done(&rig->kv);
}

static enum base_status put(struct rig *rig, const char *feature, const char *key, uint64_t time_ms,
                            uint32_t stamp)
{
    const struct dev_feature_row row = {.feature = base_str_of(feature),
                                        .key = base_str_of(key),
                                        .time_ms = time_ms,
                                        .value = &stamp,
                                        .value_size = sizeof(stamp)};
    return dev_feature_put(rig->store, 0, &row, false);
}

struct seen {
    struct {
        char feature[8];
        char key[8];
        uint64_t time_ms;
        uint32_t stamp;
        size_t size;
    } rows[DEV_FEATURE_QUERY_MAX];
    uint32_t count;
    uint32_t stop_after; // 0: never
};

static bool see(void *ctx, const struct dev_feature_row *row)
{
    struct seen *seen = ctx;
    memset(&seen->rows[seen->count], 0, sizeof(seen->rows[0]));
    memcpy(seen->rows[seen->count].feature, row->feature.data, row->feature.size % 8);
    memcpy(seen->rows[seen->count].key, row->key.data, row->key.size % 8);
    seen->rows[seen->count].time_ms = row->time_ms;
    seen->rows[seen->count].size = row->value_size;
    memcpy(&seen->rows[seen->count].stamp, row->value, row->value_size < 4 ? row->value_size : 4);
    seen->count++;
    return seen->count != seen->stop_after;
}

static struct seen seen;

static uint32_t find(struct rig *rig, const struct dev_feature_query *query)
{
    seen.count = 0;
    assert_int_equal(dev_feature_find(rig->store, 0, query, see, &seen), BASE_OK);
    return seen.count;
}

// ---- Against an array

#define ROWS_MAX 800

struct row {
    char feature[4];
    char key[4];
    uint64_t time_ms;
    uint32_t stamp;
    bool used;
};

static int by_key_newest_first(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    size_t x_size = strlen(x->key);
    size_t y_size = strlen(y->key);
    if (x_size != y_size) { // shorter keys first: the size byte is in front
        return x_size < y_size ? -1 : 1;
    }
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->time_ms < y->time_ms) - (x->time_ms > y->time_ms);
}

static uint32_t expect(struct row *rows, const struct dev_feature_query *query, struct row *out)
{
    struct row sorted[ROWS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        bool matches = rows[i].used &&
                       base_str_equal(base_str_of(rows[i].feature), query->feature) &&
                       (query->every_key || base_str_equal(base_str_of(rows[i].key), query->key)) &&
                       rows[i].time_ms >= query->from_ms &&
                       (rows[i].time_ms < query->to_ms || query->to_ms == UINT64_MAX);
        if (matches) {
            sorted[count++] = rows[i];
        }
    }
    qsort(sorted, count, sizeof(sorted[0]), by_key_newest_first);
    uint32_t kept = 0;
    uint32_t of_key = 0;
    for (uint32_t i = 0; i < count; i++) {
        of_key = i > 0 && strcmp(sorted[i].key, sorted[i - 1].key) == 0 ? of_key + 1 : 1;
        if (query->newest == 0 || of_key <= query->newest) {
            out[kept++] = sorted[i];
        }
    }
    return kept;
}

static void queries_agree_with_an_array(void **state)
{
    (void)state;
    static const char *const features[] = {"a", "ab", "b"};
    static const char *const keys[] = {"", "x", "y", "xy", "\xff"};
    static struct row rows[ROWS_MAX];
    static struct row wanted[ROWS_MAX];
    static const uint64_t times[] = {0, 1, 2, 1000, UINT64_MAX - 1, UINT64_MAX};
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    for (unsigned step = 0; step < 4000; step++) {
        const char *feature = features[base_prng_below(&prng, TEST_COUNT(features))];
        const char *key = keys[base_prng_below(&prng, TEST_COUNT(keys))];
        uint64_t time = base_prng_below(&prng, 3) == 0
                            ? times[base_prng_below(&prng, TEST_COUNT(times))]
                            : base_prng_below(&prng, 40);
        if (base_prng_below(&prng, 4) > 0) {
            uint32_t at = 0;
            while (rows[at].used && (strcmp(rows[at].feature, feature) != 0 ||
                                     strcmp(rows[at].key, key) != 0 || rows[at].time_ms != time)) {
                at++;
                assert_true(at < ROWS_MAX);
            }
            rows[at] = (struct row){.time_ms = time, .stamp = step, .used = true};
            (void)snprintf(rows[at].feature, sizeof(rows[at].feature), "%s", feature);
            (void)snprintf(rows[at].key, sizeof(rows[at].key), "%s", key);
            assert_int_equal(put(&rig, feature, key, time, step), BASE_OK);
            continue;
        }
        struct dev_feature_query query = {
            .feature = base_str_of(feature),
            .key = base_str_of(key),
            .every_key = base_prng_below(&prng, 2) == 0,
            .from_ms = base_prng_below(&prng, 2) == 0 ? 0 : base_prng_below(&prng, 40),
            .to_ms = base_prng_below(&prng, 2) == 0 ? UINT64_MAX : time,
            .newest = (uint32_t)base_prng_below(&prng, 4),
        };
        uint32_t count = expect(rows, &query, wanted);
        assert_int_equal(find(&rig, &query), count);
        for (uint32_t i = 0; i < count; i++) {
            assert_string_equal(seen.rows[i].feature, feature);
            assert_string_equal(seen.rows[i].key, wanted[i].key);
            assert_true(seen.rows[i].time_ms == wanted[i].time_ms);
            assert_int_equal(seen.rows[i].stamp, wanted[i].stamp);
        }
        if (base_prng_below(&prng, 50) == 0) {
            assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
            struct dev_feature_stats before;
            struct dev_feature_stats after;
            dev_feature_store_stats(rig.store, &before);
            rig_start(&rig);
            dev_feature_store_stats(rig.store, &after);
            assert_int_equal(before.bytes, after.bytes);
            assert_int_equal(after.bytes, rig.kv.bytes);
        }
    }
    rig_done(&rig);
}

// ---- Eviction

static uint64_t bytes_of(struct rig *rig)
{
    struct dev_feature_stats stats;
    dev_feature_store_stats(rig->store, &stats);
    return stats.bytes;
}

static void the_oldest_rows_go_first(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned shape = 0; shape < 4; shape++) {
        struct rig rig;
        rig_init(&rig);
        uint64_t quota = 20000;
        assert_int_equal(dev_feature_limit(rig.store, BASE_STR("f"), quota, 0), BASE_OK);
        uint64_t newest = 0;
        for (uint32_t i = 0; i < 5000; i++) {
            uint64_t time = shape == 0   ? i
                            : shape == 1 ? base_prng_next(&prng)
                            : shape == 2 ? 77 // all at once
                                         : (uint64_t)1 << base_prng_below(&prng, 64);
            newest = time > newest ? time : newest;
            char key[8];
            (void)snprintf(key, sizeof(key), "k%u", i % 97);
            assert_int_equal(put(&rig, "f", key, time, i), BASE_OK);
            assert_true(bytes_of(&rig) <= quota);
        }
        struct dev_feature_stats stats;
        dev_feature_store_stats(rig.store, &stats);
        assert_int_equal(stats.refused, 0);
        struct dev_feature_query query = {
            .feature = BASE_STR("f"), .every_key = true, .to_ms = UINT64_MAX};
        uint32_t left = find(&rig, &query);
        assert_int_equal(stats.bytes, rig.kv.bytes);
        if (shape == 0) { // exactly the newest are left
            for (uint32_t i = 0; i < left; i++) {
                assert_true(seen.rows[i].time_ms >= 5000 - left);
            }
            assert_true(bytes_of(&rig) > quota / 100 * 80);
            assert_true(stats.evicted_rows == 5000 - left);
        }
        if (shape == 2) {
            assert_int_equal(left, 97); // one row a key, each replaced
        }
        bool newest_there = false;
        for (uint32_t i = 0; i < left; i++) {
            newest_there = newest_there || seen.rows[i].time_ms == newest;
        }
        assert_true(newest_there);
        rig_done(&rig);
    }
}

// Rows of one moment do not all go because one more came.
static void one_moment_is_cut_in_part(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    assert_int_equal(dev_feature_limit(rig.store, BASE_STR("f"), 3000, 0), BASE_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "%03u", i);
        assert_int_equal(put(&rig, "f", key, 5, i), BASE_OK);
        assert_true(i < 200 || bytes_of(&rig) > 2400);
    }
    rig_done(&rig);
}

static void old_rows_go_by_age(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    assert_int_equal(dev_feature_limit(rig.store, BASE_STR("f"), 100000, 1000), BASE_OK);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(put(&rig, "f", "k", i * 10, i), BASE_OK);
        assert_int_equal(put(&rig, "g", "k", i * 10, i), BASE_OK);
    }
    assert_int_equal(dev_feature_evict(rig.store, 0, 2500), BASE_OK);
    struct dev_feature_query query = {
        .feature = BASE_STR("f"), .every_key = true, .to_ms = UINT64_MAX};
    assert_int_equal(find(&rig, &query), 50);
    assert_true(seen.rows[49].time_ms == 1500);
    query.feature = BASE_STR("g");
    assert_int_equal(find(&rig, &query), 200);
    rig_done(&rig);
}

static void the_space_as_a_whole_is_bounded(void **state)
{
    (void)state;
    static uint8_t value[DEV_FEATURE_VALUE_MAX];
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < 1200; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "f%u", i % 40);
        const struct dev_feature_row row = {base_str_of(name), BASE_STR("k"), i, value,
                                            sizeof(value)};
        assert_int_equal(dev_feature_put(rig.store, 0, &row, false), BASE_OK);
        assert_true(dev_collect_usage(rig.collect, DEV_SPACE_FEATURES) <= DEV_FEATURE_SPACE_BYTES);
    }
    assert_true(bytes_of(&rig) > DEV_FEATURE_SPACE_BYTES / 2);
    rig_done(&rig);
}

static void bad_rows_are_refused(void **state)
{
    (void)state;
    static uint8_t value[DEV_FEATURE_VALUE_MAX + 1];
    struct rig rig;
    rig_init(&rig);
    char key[DEV_FEATURE_KEY_MAX + 1];
    memset(key, 'k', sizeof(key));
    assert_int_equal(put(&rig, "", "k", 0, 0), BASE_ERR_INVALID);
    assert_int_equal(put(&rig, "F", "k", 0, 0), BASE_ERR_INVALID);
    const struct dev_feature_row long_key = {BASE_STR("f"), {key, sizeof(key)}, 0, value, 1};
    const struct dev_feature_row long_value = {BASE_STR("f"), BASE_STR("k"), 0, value,
                                               sizeof(value)};
    assert_int_equal(dev_feature_put(rig.store, 0, &long_key, false), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_feature_put(rig.store, 0, &long_value, false), BASE_ERR_TOO_LARGE);
    for (uint32_t i = 0; i < DEV_FEATURES_MAX; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "f%u", i);
        assert_int_equal(put(&rig, name, "k", 0, 0), BASE_OK);
    }
    assert_int_equal(put(&rig, "more", "k", 0, 0), BASE_ERR_LIMIT);
    struct dev_feature_stats stats;
    dev_feature_store_stats(rig.store, &stats);
    assert_int_equal(stats.refused, 5);
    assert_int_equal(stats.features, DEV_FEATURES_MAX);
    struct dev_feature_query query = {.feature = BASE_STR("-"), .to_ms = UINT64_MAX};
    assert_int_equal(dev_feature_find(rig.store, 0, &query, see, &seen), BASE_ERR_INVALID);
    rig_done(&rig);
}

static void long_answers_are_cut_and_said_to_be(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    assert_int_equal(dev_feature_limit(rig.store, BASE_STR("f"), 1 << 20, 0), BASE_OK);
    for (uint32_t i = 0; i <= DEV_FEATURE_QUERY_MAX; i++) {
        assert_int_equal(put(&rig, "f", "k", i, i), BASE_OK);
    }
    struct dev_feature_query query = {
        .feature = BASE_STR("f"), .key = BASE_STR("k"), .to_ms = UINT64_MAX};
    seen.count = 0;
    assert_int_equal(dev_feature_find(rig.store, 0, &query, see, &seen), BASE_ERR_LIMIT);
    assert_int_equal(seen.count, DEV_FEATURE_QUERY_MAX);
    assert_true(seen.rows[0].time_ms == DEV_FEATURE_QUERY_MAX);
    seen.stop_after = 3;
    assert_int_equal(find(&rig, &query), 3);
    seen.stop_after = 0;
    rig_done(&rig);
}

// Rows put within a group cannot evict; the next put outside of one does.
static void groups_evict_later(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    assert_int_equal(dev_feature_limit(rig.store, BASE_STR("f"), 500, 0), BASE_OK);
    dev_collect_begin(rig.collect);
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(put(&rig, "f", "k", i, i), BASE_OK);
    }
    assert_int_equal(dev_collect_end(rig.collect, 0), BASE_OK);
    assert_true(bytes_of(&rig) > 500);
    assert_int_equal(put(&rig, "f", "k", 60, 60), BASE_OK);
    assert_true(bytes_of(&rig) <= 500);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_agree_with_an_array),
        cmocka_unit_test(the_oldest_rows_go_first),
        cmocka_unit_test(one_moment_is_cut_in_part),
        cmocka_unit_test(old_rows_go_by_age),
        cmocka_unit_test(the_space_as_a_whole_is_bounded),
        cmocka_unit_test(bad_rows_are_refused),
        cmocka_unit_test(long_answers_are_cut_and_said_to_be),
        cmocka_unit_test(groups_evict_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
