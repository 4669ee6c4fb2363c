// Blocks of device records: what is put is read, and whatever bit of one is damaged, few records
// are lost and it is told whose all of them are.
#include "store/store_block.h"

#include "base/prng.h"
#include "test_kit.h"

#define RECORDS   40u
#define BYTES_MAX 4096u
#define BURST     48u

static uint8_t value_bytes[BYTES_MAX];
static struct gw_key key;
static bool alike; // records have one size and differ little

static uint64_t id_of(uint32_t i)
{
    return base_mix64(i + 1);
}

// Sizes from 0, which ends a record, up.
static size_t fill(uint32_t i, uint8_t out[BYTES_MAX])
{
    const size_t size = alike ? 50u : i * 13u % 60u;
    memset(out, alike ? 1 : (int)(i * 7), size);
    for (uint32_t k = 0; alike && k < i % 9; k++) {
        out[(i + k * 11) % size] = (uint8_t)(i + k);
    }
    return size;
}

// Of so many records; a copy of its value, and its key.
static MDB_val make(uint64_t number, uint32_t count)
{
    struct gw_block block = {.number = 0};
    uint8_t bytes[BYTES_MAX];
    gw_block_begin(&block, number);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = 0;
        const size_t size = fill(i, bytes);
        assert_true(gw_block_has_room(&block, size));
        assert_int_equal(
            gw_block_add(&block, id_of(i), (struct base_span){bytes, size}, false, &place), 0);
        assert_int_equal(gw_block_of(place), number);
        assert_int_equal(gw_block_index(place), i);
    }
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi table;
    char dir[] = "/tmp/walle-block-XXXXXX";
    char command[64];
    MDB_val v;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, dir, MDB_NOSYNC, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &table), 0);
    assert_int_equal(gw_block_write(&block, txn, table, MDB_APPEND), 0);
    assert_int_equal(block.number, number + 1);
    assert_int_equal(block.count, 0);
    key = gw_block_key(number);
    MDB_val k = {key.size, key.bytes};
    assert_int_equal(mdb_get(txn, table, &k, &v), 0);
    assert_true(v.mv_size <= GW_BLOCK_BYTES);
    memcpy(value_bytes, v.mv_data, v.mv_size);
    v.mv_data = value_bytes;
    mdb_txn_abort(txn);
    mdb_env_close(env);
    gw_block_done(&block);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    return v;
}

// How many records are sound, each of which is as it was put. -1: whose they are cannot be told.
static int sound_of(MDB_val value, uint32_t count)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_view view;
    struct gw_block_room room;
    MDB_val k = {key.size, key.bytes};
    int sound = 0;
    if (!gw_block_open(k, value, &view) || !gw_block_owners(&view, owners)) {
        return -1;
    }
    assert_int_equal(view.count, count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[BYTES_MAX];
        const struct gw_block_record record = gw_block_get(&view, i, &room);
        assert_true(owners[i].ids[0] == id_of(i) ||
                    (owners[i].count == 2 && owners[i].ids[1] == id_of(i)));
        if (record.sound) {
            assert_int_equal(record.id, id_of(i));
            assert_int_equal(owners[i].count, 1);
            assert_int_equal(record.bytes.size, fill(i, bytes));
            assert_memory_equal(record.bytes.data, bytes, record.bytes.size);
            sound++;
        }
    }
    return sound;
}

static void test_what_is_put_is_read(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= RECORDS; count++) {
        alike = false;
        const MDB_val value = make(count * 1000, count);
        assert_int_equal(sound_of(value, count), count);
        alike = true;
        assert_int_equal(sound_of(make(count * 1000, count), count), count);
    }
    // 50 bytes, id, seal and end each, but most of it once; 17 of the head.
    const MDB_val value = make(1, RECORDS);
    assert_in_range(value.mv_size, 1, 17 + 64 + (RECORDS - 1) * (8 + 4 + 2 + 1 + 7 + 5));
    alike = false;
}

// Each bit of a value: a record is lost at most, and it is known whose.
static void test_each_bit_of_a_value(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, RECORDS};
    for (size_t n = 0; n < TEST_COUNT(counts); n++) {
        const uint32_t count = counts[n];
        MDB_val value = make(77, count);
        size_t lost[3] = {0};
        for (size_t bit = 0; bit < 8 * value.mv_size; bit++) {
            value_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            const int sound = sound_of(value, count);
            assert_in_range(sound, count < 2 ? 0 : count - 2, count);
            lost[count - (uint32_t)sound]++;
            value_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        // Two lanes, a count and where a record ends cost nothing, whether it is shortened that
        // one.
        assert_int_equal(lost[0], 8 * (16 + 1) + 15 * count);
        assert_int_equal(lost[2], 0);
    }
}

// Those that were shortened hang on the one they were shortened by: the first.
static void test_each_bit_of_alike_records(void **state)
{
    (void)state;
    alike = true;
    MDB_val value = make(77, RECORDS);
    const size_t first = 17 + 2 * RECORDS;
    for (size_t bit = 0; bit < 8 * value.mv_size; bit++) {
        value_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int sound = sound_of(value, RECORDS);
        const bool of_first = bit / 8 >= first && bit / 8 < first + 50;
        const bool of_its_end = bit / 8 == 17 || bit / 8 == 18;
        assert_in_range(sound, of_first || of_its_end ? 0 : RECORDS - 2, RECORDS);
        value_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    alike = false;
}

// Each bit of a key: all are lost, known whose they are, and found again by salvage.
static void test_each_bit_of_a_key(void **state)
{
    (void)state;
    MDB_val value = make(UINT64_C(0x0055aa330f77), RECORDS);
    for (size_t bit = 0; bit < 8 * key.size; bit++) {
        struct gw_block_view view;
        struct gw_block_room room;
        key.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sound_of(value, RECORDS), 0);
        assert_true(gw_block_open((MDB_val){key.size, key.bytes}, value, &view));
        assert_true(gw_block_mend_key(&view));
        assert_true(view.number == UINT64_C(0x0055aa330f77));
        assert_true(gw_block_get(&view, 3, &room).sound);
        assert_false(gw_block_mend_key(&view)); // there is nothing to mend
        key.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

// Each is sealed for its place: two that changed places are none of them.
static void test_records_that_changed_places(void **state)
{
    (void)state;
    const size_t size = 12; // of a record that ends its device's
    static const uint32_t others[] = {1, 2, 3};
    for (size_t n = 0; n < TEST_COUNT(others); n++) {
        struct gw_block block = {.number = 0};
        uint8_t kept[12];
        uint64_t place;
        gw_block_begin(&block, 9);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(
                gw_block_add(&block, id_of(i), (struct base_span){NULL, 0}, false, &place), 0);
        }
        memcpy(kept, block.body, size);
        memcpy(block.body, block.body + others[n] * size, size);
        memcpy(block.body + others[n] * size, kept, size);
        MDB_val value = {17 + 2 * 4 + block.body_bytes, value_bytes};
        memcpy(value_bytes, block.lanes, 16);
        value_bytes[16] = 4;
        memcpy(value_bytes + 17, block.ends, 2 * 4);
        memcpy(value_bytes + 17 + 2 * 4, block.body, block.body_bytes);
        gw_block_done(&block);
        key = gw_block_key(9);
        struct gw_block_view view;
        struct gw_block_room room;
        assert_true(gw_block_open((MDB_val){key.size, key.bytes}, value, &view));
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(gw_block_get(&view, i, &room).sound, i != 0 && i != others[n]);
        }
    }
}

// A hole is never taken for records: they are left out, or it is said that nobody knows whose.
static unsigned zero_ranges(void)
{
    uint8_t before[BYTES_MAX];
    MDB_val value = make(5, RECORDS);
    unsigned told = 0;
    memcpy(before, value_bytes, sizeof(before));
    for (size_t size = 1; size <= value.mv_size; size += size < BURST ? 7 : 411) {
        for (size_t at = size % 5; at + size <= value.mv_size; at += 17) {
            struct gw_block_owner owners[GW_BLOCK_RECORDS];
            struct gw_block_view view;
            struct gw_block_room room;
            memset(value_bytes + at, at % 2 == 0 ? 0 : 0xff, size);
            if (gw_block_open((MDB_val){key.size, key.bytes}, value, &view) &&
                gw_block_owners(&view, owners)) {
                told++;
                for (uint32_t i = 0; i < view.count; i++) {
                    const struct gw_block_record record = gw_block_get(&view, i, &room);
                    assert_true(!record.sound || (view.count == RECORDS && record.id == id_of(i)));
                }
            }
            memcpy(value_bytes + at, before + at, size);
        }
    }
    return told;
}

static void test_zeroed_ranges(void **state)
{
    (void)state;
    assert_true(zero_ranges() > 200);
    alike = true;
    assert_true(zero_ranges() > 100);
    alike = false;
}

static void test_what_is_no_block(void **state)
{
    (void)state;
    struct gw_block_view view;
    struct gw_block_room room;
    MDB_val value = make(5, RECORDS);
    MDB_val k = {key.size, key.bytes};
    for (size_t size = 0; size < value.mv_size; size++) {
        if (gw_block_open(k, (MDB_val){size, value_bytes}, &view)) {
            assert_false(view.whole);
            for (uint32_t i = 0; i < view.count; i++) {
                (void)gw_block_get(&view, i, &room); // nothing behind its end is read
            }
        }
        assert_int_equal(gw_block_may_hold((MDB_val){size, value_bytes}), size >= 31);
    }
    uint64_t number;
    for (size_t size = 0; size < 20; size++) {
        uint8_t bytes[20] = {2, 0, 0, 0, 0, 0, 9};
        assert_int_equal(gw_block_key_read((MDB_val){size, bytes}, &number), size == 7);
    }
    assert_int_equal(number, 9);
    uint8_t none[7] = {2};
    uint8_t beyond[7] = {2, 255, 255, 255, 255, 255, 255};
    assert_false(gw_block_key_read((MDB_val){7, none}, &number));
    assert_false(gw_block_key_read((MDB_val){7, beyond}, &number));
}

// One that is full has no room, and a long record one by itself.
static void test_room(void **state)
{
    (void)state;
    static uint8_t bytes[70000];
    struct gw_block block = {.number = 0};
    uint64_t place;
    gw_block_begin(&block, 1);
    while (gw_block_has_room(&block, 0)) {
        assert_int_equal(gw_block_add(&block, 1, (struct base_span){NULL, 0}, false, &place), 0);
    }
    assert_int_equal(block.count, GW_BLOCK_RECORDS);
    gw_block_begin(&block, 2);
    assert_true(gw_block_has_room(&block, GW_BLOCK_BYTES - 19 - 12));
    assert_false(gw_block_has_room(&block, GW_BLOCK_BYTES - 19 - 11));
    assert_int_equal(
        gw_block_add(&block, 1, (struct base_span){bytes, sizeof(bytes)}, false, &place), 0);
    assert_false(gw_block_has_room(&block, 0));
    gw_block_done(&block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_put_is_read),
        cmocka_unit_test(test_each_bit_of_a_value),
        cmocka_unit_test(test_each_bit_of_alike_records),
        cmocka_unit_test(test_each_bit_of_a_key),
        cmocka_unit_test(test_zeroed_ranges),
        cmocka_unit_test(test_records_that_changed_places),
        cmocka_unit_test(test_what_is_no_block),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
