// Collective storage: thresholds, groups, large values, quotas, failing commits; and, against a
// ledger of its own, that what a kill leaves is always the store after some prefix of what was put,
// never less than what was said to be durable and never half a group.
#include "test_kit.h"

#include "mem/mem_kv.h"
#include "pipeline/storage/collect.h"

#define MS 1000u
#define S  (1000u * MS)

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    void *memory;
    size_t memory_bytes;
    uint64_t now;
};

static void rig_start(struct rig *rig)
{
    free(rig->memory);
    rig->memory = malloc(rig->memory_bytes);
    assert_non_null(rig->memory);
    memset(rig->memory, 0xa5, rig->memory_bytes);
    assert_int_equal(dev_collect_init(rig->memory, rig->memory_bytes, &rig->port, &rig->collect),
                     BASE_OK);
    assert_int_equal(dev_collect_boot(rig->collect, rig->now), BASE_OK);
}

static void rig_init(struct rig *rig, size_t memory_bytes)
{
    *rig = (struct rig){.now = 5 * S, .memory_bytes = memory_bytes};
    mem_kv_init(&rig->kv);
    rig->port = mem_kv_port(&rig->kv);
    rig_start(rig);
}

static void rig_done(struct rig *rig)
{
    assert_true(dev_collect_validate(rig->collect));
    free(rig->memory);
    mem_kv_done(&rig->kv);
}

static struct dev_kv_key feature_key(const char *key)
{
    return (struct dev_kv_key){DEV_SPACE_FEATURES, key, strlen(key)};
}

static enum base_status put(struct rig *rig, const char *key, size_t value_size, bool high)
{
    static uint8_t value[DEV_COLLECT_VALUE_MAX + 1];
    memset(value, key[0], value_size);
    return dev_collect_put(rig->collect, rig->now, feature_key(key),
                           (struct base_span){value, value_size}, high);
}

static enum base_status size_of(struct rig *rig, const char *key, size_t *out)
{
    enum base_status status = dev_collect_get(rig->collect, feature_key(key), NULL, 0, out);
    return status == BASE_ERR_TOO_LARGE ? BASE_OK : status;
}

static void a_group_is_committed_by_count_bytes_age_and_class(void **state)
{
    (void)state;
    struct rig rig;
    char key[16];
    rig_init(&rig, dev_collect_bytes());
    for (unsigned i = 0; i < DEV_COLLECT_PUTS_MAX; i++) {
        assert_true(dev_collect_step(rig.collect, rig.now) > rig.now);
        assert_int_equal(rig.kv.commits, 0);
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_int_equal(put(&rig, key, 10, false), BASE_OK);
    }
    assert_true(dev_collect_step(rig.collect, rig.now) == UINT64_MAX);
    assert_int_equal(rig.kv.commits, 1);
    assert_int_equal(rig.kv.changes, DEV_COLLECT_PUTS_MAX);

    assert_int_equal(put(&rig, "b", DEV_COLLECT_BYTES_MAX - 2, false), BASE_OK);
    assert_true(dev_collect_step(rig.collect, rig.now) == rig.now + 2 * S);
    assert_int_equal(put(&rig, "c", 0, false), BASE_OK);
    assert_true(dev_collect_step(rig.collect, rig.now) == UINT64_MAX);
    assert_int_equal(rig.kv.commits, 2);

    assert_int_equal(put(&rig, "d", 1, false), BASE_OK);
    rig.now += 2 * S - 1;
    assert_int_equal(put(&rig, "e", 1, false), BASE_OK);
    assert_true(dev_collect_step(rig.collect, rig.now) == rig.now + 1);
    assert_int_equal(rig.kv.commits, 2);
    rig.now++;
    (void)dev_collect_step(rig.collect, rig.now);
    assert_int_equal(rig.kv.commits, 3);

    assert_int_equal(put(&rig, "f", 1, false), BASE_OK);
    assert_int_equal(put(&rig, "g", 1, true), BASE_OK);
    assert_int_equal(rig.kv.commits, 3);
    assert_true(dev_collect_durable(rig.collect) + 2 == dev_collect_changes(rig.collect));
    (void)dev_collect_step(rig.collect, rig.now);
    assert_int_equal(rig.kv.commits, 4);
    assert_true(dev_collect_durable(rig.collect) == dev_collect_changes(rig.collect));
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK); // nothing waits
    assert_int_equal(rig.kv.commits, 4);
    rig_done(&rig);
}

static void later_changes_replace_earlier_ones(void **state)
{
    (void)state;
    struct rig rig;
    size_t size = 0;
    rig_init(&rig, dev_collect_bytes());
    for (unsigned i = 0; i < 1000; i++) { // far more bytes than the buffer holds
        assert_int_equal(put(&rig, "k", 500 + i % 7, false), BASE_OK);
    }
    assert_int_equal(rig.kv.commits, 0);
    assert_int_equal(size_of(&rig, "k", &size), BASE_OK);
    assert_int_equal(size, 500 + 999 % 7);
    assert_int_equal(dev_collect_usage(rig.collect, DEV_SPACE_FEATURES), 1 + size);
    assert_int_equal(dev_collect_delete(rig.collect, rig.now, feature_key("k"), false), BASE_OK);
    assert_int_equal(size_of(&rig, "k", &size), BASE_ERR_NOT_FOUND);
    assert_int_equal(dev_collect_usage(rig.collect, DEV_SPACE_FEATURES), 0);
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    assert_int_equal(rig.kv.changes, 1);
    rig_done(&rig);
}

static void groups_are_whole_or_nothing(void **state)
{
    (void)state;
    struct rig rig;
    size_t size = 0;
    rig_init(&rig, dev_collect_bytes());
    assert_int_equal(put(&rig, "a", 3, false), BASE_OK);
    dev_collect_begin(rig.collect);
    assert_int_equal(put(&rig, "a", 5, false), BASE_OK);
    assert_int_equal(put(&rig, "b", 5, true), BASE_OK);
    assert_int_equal(put(&rig, "b", 6, true), BASE_OK);
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 5);
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_ERR_CONFLICT);
    dev_collect_abandon(rig.collect);
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 3);
    assert_int_equal(size_of(&rig, "b", &size), BASE_ERR_NOT_FOUND);
    assert_int_equal(dev_collect_usage(rig.collect, DEV_SPACE_FEATURES), 4);
    assert_int_equal(dev_collect_changes(rig.collect), 1);

    // A put that fails takes its group with it, and the ones after it are refused.
    dev_collect_begin(rig.collect);
    assert_int_equal(put(&rig, "a", 9, false), BASE_OK);
    assert_int_equal(put(&rig, "b", DEV_COLLECT_VALUE_MAX + 1, false), BASE_ERR_TOO_LARGE);
    assert_int_equal(put(&rig, "c", 1, false), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_collect_end(rig.collect, rig.now), BASE_ERR_TOO_LARGE);
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 3);

    dev_collect_begin(rig.collect);
    assert_int_equal(put(&rig, "a", 7, false), BASE_OK);
    assert_int_equal(put(&rig, "d", 1, false), BASE_OK);
    assert_int_equal(dev_collect_end(rig.collect, rig.now), BASE_OK);
    assert_true(dev_collect_validate(rig.collect));
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    assert_int_equal(rig.kv.changes, 2); // a once, d
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 7);
    rig_done(&rig);
}

static void large_values_are_committed_at_once(void **state)
{
    (void)state;
    struct rig rig;
    size_t size = 0;
    rig_init(&rig, dev_collect_bytes());
    assert_int_equal(put(&rig, "a", 1, false), BASE_OK);
    assert_int_equal(put(&rig, "b", DEV_COLLECT_VALUE_MAX, false), BASE_OK);
    assert_int_equal(rig.kv.commits, 2); // what waited, then the large one
    assert_true(dev_collect_durable(rig.collect) == 2);
    rig.kv.fail_at = 4; // the second of the next two
    assert_int_equal(put(&rig, "a", 2, false), BASE_OK);
    assert_int_equal(put(&rig, "c", DEV_COLLECT_BUFFER, false), BASE_ERR_IO);
    assert_int_equal(size_of(&rig, "c", &size), BASE_ERR_NOT_FOUND);
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 2);

    // In a group they lie with the caller until its end.
    dev_collect_begin(rig.collect);
    assert_int_equal(put(&rig, "a", 3, false), BASE_OK);
    assert_int_equal(put(&rig, "l1", 30000, false), BASE_OK);
    assert_int_equal(put(&rig, "l1", 30001, false), BASE_OK);
    assert_int_equal(put(&rig, "l1", 1, false), BASE_OK);
    for (unsigned i = 2; i < 2 + DEV_COLLECT_LARGE_MAX; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "l%u", i);
        assert_int_equal(put(&rig, key, 30000, false), BASE_OK);
    }
    assert_int_equal(size_of(&rig, "l2", &size), BASE_OK);
    assert_int_equal(size, 30000);
    uint64_t commits = rig.kv.commits;
    assert_int_equal(dev_collect_end(rig.collect, rig.now), BASE_OK);
    assert_int_equal(rig.kv.commits, commits + 1);
    assert_true(dev_collect_durable(rig.collect) == dev_collect_changes(rig.collect));

    assert_int_equal(put(&rig, "a", 4, false), BASE_OK);
    rig.kv.fail_at = rig.kv.commits + 2;
    dev_collect_begin(rig.collect);
    assert_int_equal(put(&rig, "a", 5, false), BASE_OK);
    assert_int_equal(put(&rig, "l2", 40000, false), BASE_OK);
    assert_int_equal(dev_collect_end(rig.collect, rig.now), BASE_ERR_IO);
    assert_int_equal(size_of(&rig, "a", &size), BASE_OK);
    assert_int_equal(size, 4); // the group went, what was before it is committed
    assert_int_equal(size_of(&rig, "l2", &size), BASE_OK);
    assert_int_equal(size, 30000);
    rig_done(&rig);
}

static void a_quota_refuses_growth(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, dev_collect_bytes());
    dev_collect_quota(rig.collect, DEV_SPACE_FEATURES, 100);
    assert_int_equal(put(&rig, "a", 99, false), BASE_OK);
    assert_int_equal(put(&rig, "b", 1, false), BASE_ERR_FULL);
    assert_int_equal(put(&rig, "a", 50, false), BASE_OK);
    assert_int_equal(put(&rig, "b", 48, false), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    rig_start(&rig); // counted anew
    dev_collect_quota(rig.collect, DEV_SPACE_FEATURES, 100);
    assert_int_equal(dev_collect_usage(rig.collect, DEV_SPACE_FEATURES), 100);
    assert_int_equal(put(&rig, "c", 0, false), BASE_ERR_FULL);
    struct dev_collect_stats stats;
    dev_collect_stats(rig.collect, &stats);
    assert_int_equal(stats.over_quota, 1);
    assert_int_equal(stats.bytes_stored, 100);
    rig_done(&rig);
}

static void a_failing_store_keeps_the_group_and_backs_off(void **state)
{
    (void)state;
    struct rig rig;
    char key[16];
    rig_init(&rig, dev_collect_bytes());
    rig.kv.fail_from = 1;
    rig.kv.fail_status = BASE_ERR_FULL;
    assert_int_equal(put(&rig, "high", 10, true), BASE_OK);
    uint64_t waits[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    for (size_t i = 0; i < TEST_COUNT(waits); i++) {
        uint64_t next = dev_collect_step(rig.collect, rig.now);
        assert_int_equal(next - rig.now, waits[i] * MS);
        assert_int_equal(rig.kv.commits, i + 1);
        assert_int_equal(dev_collect_step(rig.collect, next - 1), next);
        assert_int_equal(rig.kv.commits, i + 1);
        rig.now = next;
    }
    enum base_status status = BASE_OK;
    unsigned kept = 1;
    while (status == BASE_OK) {
        (void)snprintf(key, sizeof(key), "%u", kept);
        status = put(&rig, key, 100, false);
        kept += status == BASE_OK ? 1 : 0;
    }
    assert_int_equal(status, BASE_ERR_BUSY);
    assert_true(kept > 400);
    assert_true(dev_collect_validate(rig.collect));
    rig.kv.fail_from = 0;
    assert_int_equal(put(&rig, "more", 100, false), BASE_ERR_BUSY); // not yet: the back-off runs
    rig.now += 30 * (uint64_t)S;
    (void)dev_collect_step(rig.collect, rig.now);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_FEATURES].count, kept);
    assert_int_equal(put(&rig, "more", 100, false), BASE_OK);
    struct dev_collect_stats stats;
    dev_collect_stats(rig.collect, &stats);
    assert_int_equal(stats.refused, 2);
    assert_true(stats.failed_commits >= TEST_COUNT(waits));
    rig_done(&rig);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    size_t size = 0;
    rig_init(&rig, dev_collect_bytes());
    uint8_t key[DEV_COLLECT_KEY_MAX + 1] = {0};
    struct dev_collect *c = rig.collect;
    const struct base_span value = {key, 1};
    const struct dev_kv_key none = {DEV_SPACE_STATE, key, 0};
    const struct dev_kv_key nowhere = {DEV_SPACE_COUNT, key, 1};
    const struct dev_kv_key long_one = {DEV_SPACE_STATE, key, sizeof(key)};
    assert_int_equal(dev_collect_put(c, 0, none, value, false), BASE_ERR_INVALID);
    assert_int_equal(dev_collect_put(c, 0, nowhere, value, false), BASE_ERR_INVALID);
    assert_int_equal(dev_collect_put(c, 0, long_one, value, false), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_collect_delete(c, 0, long_one, false), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_collect_get(c, long_one, NULL, 0, &size), BASE_ERR_INVALID);
    struct dev_collect *out;
    uint64_t small[DEV_COLLECT_SMALLEST / sizeof(uint64_t)];
    assert_int_equal(dev_collect_init(small, sizeof(small) - 1, &rig.port, &out), BASE_ERR_INVALID);
    assert_int_equal(dev_collect_init(small, sizeof(small), &rig.port, &out), BASE_OK);
    rig_done(&rig);
}

// ---- The ledger

#define KEYS     6
#define OPS_MAX  4000
#define KEY_SIZE 1

struct op {
    uint8_t key; // space and key in one
    bool delete;
    uint32_t size;
    uint32_t stamp;
};

struct ledger {
    struct op ops[OPS_MAX];   // accepted, in order
    bool cut_ok[OPS_MAX + 1]; // may the store end here?
    uint32_t count;
};

static void value_of(const struct op *op, uint8_t *value)
{
    memset(value, op->key, op->size);
    memcpy(value, &op->stamp, sizeof(op->stamp));
}

// Does the store hold exactly what the first `count` ops leave?
static bool holds(const struct mem_kv *kv, const struct ledger *ledger, uint32_t count)
{
    const struct op *last[KEYS * 2] = {0};
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        last[ledger->ops[i].key] = &ledger->ops[i];
    }
    for (uint8_t key = 0; key < KEYS * 2; key++) {
        const struct mem_kv_space *space = &kv->spaces[key % 2 == 0 ? 0 : 2];
        const struct mem_kv_row *row = NULL;
        for (uint32_t r = 0; r < space->count; r++) {
            row = space->rows[r].bytes[0] == key ? &space->rows[r] : row;
        }
        bool wanted = last[key] != NULL && !last[key]->delete;
        rows += wanted ? 1 : 0;
        if (wanted != (row != NULL) || (wanted && row->value_size != last[key]->size)) {
            return false;
        }
        if (wanted && memcmp(row->bytes + 1, &last[key]->stamp, sizeof(last[key]->stamp)) != 0) {
            return false;
        }
    }
    return rows == kv->spaces[0].count + kv->spaces[2].count;
}

static uint32_t random_size(struct base_prng *prng)
{
    switch (base_prng_below(prng, 12)) {
    case 0:
        return 3000 + (uint32_t)base_prng_below(prng, 8000); // large for a small buffer
    case 1:
    case 2:
        return 4 + (uint32_t)base_prng_below(prng, 900);
    default:
        return 4 + (uint32_t)base_prng_below(prng, 60);
    }
}

static bool random_op(struct rig *rig, struct base_prng *prng, struct ledger *ledger,
                      uint8_t values[8][11008], uint32_t *used)
{
    struct op op = {
        .key = (uint8_t)base_prng_below(prng, KEYS * 2),
        .delete = base_prng_below(prng, 5) == 0,
        .size = random_size(prng),
        .stamp = (uint32_t)base_prng_next(prng),
    };
    enum dev_space space = op.key % 2 == 0 ? DEV_SPACE_STATE : DEV_SPACE_FEATURES;
    bool high = base_prng_below(prng, 20) == 0;
    enum base_status status;
    ledger->ops[ledger->count] = op; // before: a kill inside may leave it in the store
    ledger->cut_ok[ledger->count + 1] = true;
    const struct dev_kv_key key = {space, &op.key, KEY_SIZE};
    if (op.delete) {
        status = dev_collect_delete(rig->collect, rig->now, key, high);
    } else {
        uint8_t *value = values[*used];
        value_of(&op, value);
        *used += 1;
        status =
            dev_collect_put(rig->collect, rig->now, key, (struct base_span){value, op.size}, high);
    }
    if (status == BASE_OK) {
        ledger->count++;
    }
    return status == BASE_OK;
}

static void random_group(struct rig *rig, struct base_prng *prng, struct ledger *ledger)
{
    static uint8_t values[8][11008]; // borrowed when large
    uint32_t used = 0;
    uint32_t before = ledger->count;
    uint64_t ops = 1 + base_prng_below(prng, 7);
    bool fine = true;
    dev_collect_begin(rig->collect);
    for (uint64_t i = 0; i < ops && fine; i++) {
        fine = random_op(rig, prng, ledger, values, &used);
    }
    for (uint32_t i = before + 1; i < ledger->count; i++) {
        ledger->cut_ok[i] = false;
    }
    if (fine && base_prng_below(prng, 6) == 0) {
        dev_collect_abandon(rig->collect);
        ledger->count = before;
        return;
    }
    // A kill within the end may leave the group in the store, unacknowledged.
    if (dev_collect_end(rig->collect, rig->now) != BASE_OK && !rig->kv.killed) {
        ledger->count = before;
    }
}

// One process: works until it is killed or has done enough; returns changes known to be durable.
static uint32_t live(struct rig *rig, struct base_prng *prng, struct ledger *ledger)
{
    static uint8_t values[8][11008];
    uint32_t base = ledger->count;
    while (!rig->kv.killed && ledger->count + 8 < OPS_MAX) {
        uint32_t used = 0;
        uint32_t before = ledger->count;
        switch (base_prng_below(prng, 8)) {
        case 0:
            random_group(rig, prng, ledger);
            break;
        case 1:
            rig->now += base_prng_below(prng, 900) * MS;
            (void)dev_collect_step(rig->collect, rig->now);
            break;
        case 2:
            if (base_prng_below(prng, 4) == 0) {
                enum base_status flushed = dev_collect_flush(rig->collect, rig->now);
                assert_true(flushed == BASE_OK || flushed == BASE_ERR_IO);
            }
            break;
        default:
            if (!random_op(rig, prng, ledger, values, &used) && rig->kv.killed) {
                ledger->count = before + 1; // perhaps it is there
            }
            break;
        }
        assert_true(dev_collect_validate(rig->collect));
    }
    return base + (uint32_t)dev_collect_durable(rig->collect);
}

static void a_kill_leaves_the_store_after_some_prefix(void **state)
{
    (void)state;
    static struct ledger ledger;
    struct base_prng prng;
    test_seed(&prng);
    unsigned applied = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct rig rig;
        size_t memory = base_prng_below(&prng, 2) == 0 ? DEV_COLLECT_SMALLEST : 9000;
        rig_init(&rig, memory);
        ledger.count = 0;
        ledger.cut_ok[0] = true;
        for (unsigned life = 0; life < 4; life++) {
            rig.kv.kill_at = rig.kv.commits + 1 + base_prng_below(&prng, 12);
            rig.kv.kill_applied = base_prng_below(&prng, 2) == 0;
            rig.kv.fail_at = rig.kv.commits + 1 + base_prng_below(&prng, 12);
            uint32_t durable = live(&rig, &prng, &ledger);
            uint32_t end = ledger.count + 1;
            while (end-- > durable) {
                if (ledger.cut_ok[end] && holds(&rig.kv, &ledger, end)) {
                    break;
                }
            }
            if (end + 1 == durable) {
                fail_msg("round %u, life %u: of %u changes, %u durable, no prefix fits", round,
                         life, ledger.count, durable);
            }
            applied += end > durable ? 1 : 0;
            ledger.count = end;
            mem_kv_revive(&rig.kv);
            rig_start(&rig);
            uint64_t usage = dev_collect_usage(rig.collect, DEV_SPACE_STATE) +
                             dev_collect_usage(rig.collect, DEV_SPACE_FEATURES);
            assert_true(usage == rig.kv.bytes);
        }
        rig_done(&rig);
    }
    assert_true(applied > 100); // kills after the commit took effect were seen
}

// Without kills, what is read is what was put, waiting or stored, and bytes are counted right.
static void reads_see_what_was_put(void **state)
{
    (void)state;
    static struct ledger ledger;
    static uint8_t values[8][11008];
    struct base_prng prng;
    test_seed(&prng);
    struct rig rig;
    rig_init(&rig, 9000);
    for (unsigned round = 0; round < 20; round++) {
        while (ledger.count + 8 < OPS_MAX) {
            uint32_t used = 0;
            rig.kv.fail_at = base_prng_below(&prng, 9) == 0 ? rig.kv.commits + 1 : 0;
            (void)random_op(&rig, &prng, &ledger, values, &used);
            rig.now += 30 * MS;
            (void)dev_collect_step(rig.collect, rig.now);
            uint8_t key = (uint8_t)base_prng_below(&prng, KEYS * 2);
            const struct op *last = NULL;
            for (uint32_t i = 0; i < ledger.count; i++) {
                last = ledger.ops[i].key == key ? &ledger.ops[i] : last;
            }
            static uint8_t got[12000];
            size_t size = 0;
            const struct dev_kv_key of = {key % 2 == 0 ? DEV_SPACE_STATE : DEV_SPACE_FEATURES, &key,
                                          1};
            enum base_status status = dev_collect_get(rig.collect, of, got, sizeof(got), &size);
            bool there = last != NULL && !last->delete;
            assert_int_equal(status, there ? BASE_OK : BASE_ERR_NOT_FOUND);
            if (there) {
                static uint8_t wanted[12000];
                value_of(last, wanted);
                assert_int_equal(size, last->size);
                assert_memory_equal(got, wanted, size);
            }
            if (ledger.count % 500 == 0) {
                break;
            }
        }
        rig.kv.fail_at = 0;
        assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
        assert_true(holds(&rig.kv, &ledger, ledger.count));
        struct dev_collect_stats stats;
        dev_collect_stats(rig.collect, &stats);
        assert_true(stats.bytes_stored == rig.kv.bytes);
    }
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_committed_by_count_bytes_age_and_class),
        cmocka_unit_test(later_changes_replace_earlier_ones),
        cmocka_unit_test(groups_are_whole_or_nothing),
        cmocka_unit_test(large_values_are_committed_at_once),
        cmocka_unit_test(a_quota_refuses_growth),
        cmocka_unit_test(a_failing_store_keeps_the_group_and_backs_off),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_kill_leaves_the_store_after_some_prefix),
        cmocka_unit_test(reads_see_what_was_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
