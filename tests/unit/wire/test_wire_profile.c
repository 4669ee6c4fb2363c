// The profile: frame, pairs, limits, and the set digest.
#include "wire_damage.h"
#include "wire_samples.h"

// Computed from the definition by another program:
//   mix(x): x += 0x9e3779b97f4a7c15; x = (x ^ x>>30) * 0xbf58476d1ce4e5b9;
//           x = (x ^ x>>27) * 0x94d049bb133111eb; x ^ x>>31
//   term(t, v, b) = v == b == 0 ? 0 : mix(mix(mix(t) ^ v) ^ b)
static void terms_are_pinned(void **state)
{
    (void)state;
    static const struct {
        uint64_t task;
        uint64_t version;
        uint64_t blocked;
        uint64_t term;
    } rows[] = {
        {0, 0, 0, 0},
        {7, 0, 0, 0},
        {0, 1, 0, 0x44e5b98100c67fb0u},
        {1, 2, 0, 0xe68e6fc01df08360u},
        {1, 2, 3, 0xd0734750fde362b3u},
        {1, 0, 2, 0x1cf38a51a82265f3u},
        {0xdeadbeefcafebabeu, 0x0123456789abcdefu, 0, 0xbaab79978a9e485fu},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x595b17f487c0e71bu},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint64_t term = wire_profile_term(rows[i].task, rows[i].version, rows[i].blocked);
        assert_true(term == rows[i].term);
    }
    uint64_t set = wire_profile_term(1, 2, 0) + wire_profile_term(5, 6, 0);
    assert_true(set == 0xa80d92feb3626c32u);
}

static void terms_do_not_cancel(void **state)
{
    (void)state;
    // Small ids in all roles: every sum of two distinct terms is distinct from every other.
    uint64_t sums[2000];
    size_t count = 0;
    uint64_t terms[48];
    size_t term_count = 0;
    for (uint64_t task = 1; task <= 4; task++) {
        for (uint64_t version = 0; version <= 3; version++) {
            for (uint64_t blocked = 0; blocked <= 2; blocked++) {
                terms[term_count++] = wire_profile_term(task, version, blocked);
            }
        }
    }
    for (size_t i = 0; i < term_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (terms[i] != 0 && terms[j] != 0) {
                sums[count++] = terms[i] + terms[j];
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(sums[i] != sums[j]);
        }
    }
}

static size_t encode(const struct wire_profile *profile, const struct wire_profile_pair *pairs,
                     uint8_t *out, size_t capacity, enum base_status wanted)
{
    size_t size = 0;
    assert_int_equal(wire_profile_encode(profile, pairs, out, capacity, &size), wanted);
    return size;
}

static void bytes_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t attrs[] = {1, 6, 0, 3, 'i', 'o', 's'};
    struct wire_profile profile = {.task_count = 1,
                                   .digest = 0x0807060504030201u,
                                   .attrs = attrs,
                                   .attrs_bytes = sizeof attrs};
    struct wire_profile_pair pair = {
        .task_id = 0x11, .version_id = 0x22, .blocked_version_id = 0x33, .floor = 300};
    static const uint8_t wanted[] = {1, 1,   1,   1,   2,    3,    4, 5, 6, 7, 8, 7, 1,    6,    0,
                                     3, 'i', 'o', 's', 0x11, 0,    0, 0, 0, 0, 0, 0, 0x22, 0,    0,
                                     0, 0,   0,   0,   0,    0x33, 0, 0, 0, 0, 0, 0, 0,    0xac, 2};
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    size_t size = encode(&profile, &pair, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    size = encode(&profile, NULL, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, 19);
    assert_int_equal(bytes[1], 0);
    (void)encode(&profile, NULL, bytes, 18, BASE_ERR_TOO_LARGE);
    (void)encode(&profile, &pair, bytes, sizeof wanted - 1, BASE_ERR_TOO_LARGE);
}

// What version 2 says more: room, interval, and what is refused.
static void limits_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t attrs[] = {0};
    static const uint8_t refused[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9};
    struct wire_profile profile = {.flags = WIRE_PROFILE_FLAG_OWN_PACE,
                                   .tasks_max = 8,
                                   .interval_s = 300,
                                   .digest = 0x0807060504030201u,
                                   .attrs = attrs,
                                   .attrs_bytes = sizeof attrs,
                                   .refused = refused,
                                   .refused_count = 2};
    static const uint8_t wanted[] = {3, 3, 8, 0xac, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 2,
                                     1, 2, 3, 4,    5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9};
    struct wire_profile_pair none = {0};
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    size_t size = encode(&profile, &none, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    struct wire_profile back;
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.tasks_max, 8);
    assert_int_equal(back.interval_s, 300);
    assert_int_equal(back.flags, WIRE_PROFILE_FLAG_PAIRS | WIRE_PROFILE_FLAG_OWN_PACE);
    assert_true(wire_profile_refuses(&back, 0x0807060504030201u));
    assert_true(wire_profile_refuses(&back, 0x0909090909090909u));
    assert_false(wire_profile_refuses(&back, 0x0101010101010101u));
    size = encode(&profile, NULL, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, 16); // what is refused comes with the pairs
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.refused_count, 0);
    profile.flags |= WIRE_PROFILE_FLAG_AGAIN;
    size = encode(&profile, NULL, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, 16); // that it knows marks takes no byte
    assert_int_equal(bytes[1], 6);
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.flags, WIRE_PROFILE_FLAG_OWN_PACE | WIRE_PROFILE_FLAG_AGAIN);
    // No profile of version 1 has limits, and none of version 2 only some.
    profile.interval_s = 0;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_INVALID);
    profile.tasks_max = 0;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_INVALID);
    profile.flags = 0;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_INVALID);
    profile.refused_count = 0;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(bytes[0], 1);
    profile.tasks_max = WIRE_PROFILE_TASKS_MAX + 1;
    profile.interval_s = 1;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
    profile.tasks_max = 1;
    profile.refused_count = WIRE_PROFILE_REFUSED_MAX + 1;
    (void)encode(&profile, &none, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
}

// What version 3 says more: by which release a device has what it has.
static void approvals_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t attrs[] = {0};
    struct wire_profile profile = {.tasks_max = 8,
                                   .interval_s = 60,
                                   .task_count = 1,
                                   .digest = 0x0807060504030201u,
                                   .attrs = attrs,
                                   .attrs_bytes = sizeof attrs};
    const struct wire_profile_pair pair = {.task_id = 0x11,
                                           .version_id = 0x22,
                                           .blocked_version_id = 0x33,
                                           .floor = 7,
                                           .approved = 300};
    static const uint8_t wanted[] = {3,    1,    8, 60, 1, 1, 2, 3, 4,    5, 6,    7, 8, 1, 0,
                                     0x11, 0,    0, 0,  0, 0, 0, 0, 0x22, 0, 0,    0, 0, 0, 0,
                                     0,    0x33, 0, 0,  0, 0, 0, 0, 0,    7, 0xac, 2, 0};
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    size_t size = encode(&profile, &pair, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    struct wire_profile back;
    struct wire_profile_pair out;
    struct base_reader reader;
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    base_reader_init(&reader, back.pairs, back.pairs_bytes);
    assert_int_equal(wire_profile_pair_next(&back, &reader, &out), BASE_OK);
    assert_memory_equal(&out, &pair, sizeof out);
    // A device of before does not say it.
    profile.version = WIRE_PROFILE_VERSION_2;
    size = encode(&profile, &pair, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, sizeof wanted - 2);
    assert_int_equal(bytes[0], 2);
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    base_reader_init(&reader, back.pairs, back.pairs_bytes);
    assert_int_equal(wire_profile_pair_next(&back, &reader, &out), BASE_OK);
    assert_true(out.floor == 7 && out.approved == 0);
    // What has limits is not of the first version, and nothing is of one that is to come.
    profile.version = WIRE_PROFILE_VERSION_FIRST;
    (void)encode(&profile, &pair, bytes, sizeof bytes, BASE_ERR_INVALID);
    profile.version = WIRE_PROFILE_VERSION + 1;
    (void)encode(&profile, &pair, bytes, sizeof bytes, BASE_ERR_INVALID);
}

static void nothing_is_there_twice(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct wire_profile_pair pairs[COUNT] = {0};
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    uint8_t marks[3 * sizeof(uint64_t)] = {2, [8] = 3, [16] = 2};
    struct wire_profile profile = {.tasks_max = COUNT, .interval_s = 1, .task_count = COUNT};
    struct wire_profile back;
    for (uint32_t down = 0; down < 2; down++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            pairs[i].task_id = down == 0 ? i + 1 : COUNT - i;
        }
        size_t size = encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
        assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
        pairs[COUNT - 1].task_id = pairs[COUNT / 2].task_id;
        size = encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
        assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_ERR_INVALID);
    }
    profile.task_count = 0;
    profile.refused = marks;
    profile.refused_count = 2;
    size_t size = encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    profile.refused_count = 3;
    size = encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_ERR_INVALID);
}

static void a_refusal_is_no_task(void **state)
{
    (void)state;
    assert_true(wire_profile_refused_term(1) != wire_profile_term(1, 0, 0));
    assert_true(wire_profile_refused_term(1) != wire_profile_term(1, 1, 0));
    assert_true(wire_profile_refused_term(1) != wire_profile_refused_term(2));
    static const uint8_t statement[] = "a statement";
    assert_true(wire_profile_mark(statement, 11) != wire_profile_mark(statement, 10));
}

static void no_attributes_are_one_byte(void **state)
{
    (void)state;
    struct wire_profile profile = {.task_count = 0};
    uint8_t bytes[64];
    size_t size = encode(&profile, NULL, bytes, sizeof bytes, BASE_OK);
    assert_int_equal(size, 13);
    struct wire_profile back;
    assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.attrs_bytes, 1);
    assert_int_equal(back.attrs[0], 0);
    assert_null(back.pairs);
    bytes[11] = 0; // a block of no bytes
    assert_int_equal(wire_profile_parse(bytes, size - 1, &back), BASE_ERR_INVALID);
}

static void limits_hold(void **state)
{
    (void)state;
    static uint8_t bytes[2 * WIRE_PROFILE_BYTES_MAX];
    static struct wire_profile_pair pairs[WIRE_PROFILE_TASKS_MAX];
    struct wire_profile profile = {.task_count = WIRE_PROFILE_TASKS_MAX + 1};
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
    profile.task_count = WIRE_PROFILE_TASKS_MAX;
    (void)encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
    for (size_t i = 0; i < WIRE_PROFILE_TASKS_MAX; i++) {
        pairs[i].floor = UINT64_MAX; // ten bytes each: over the whole
    }
    (void)encode(&profile, pairs, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
    profile.attrs = bytes;
    profile.attrs_bytes = WIRE_ATTRS_BYTES_MAX + 1;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
    profile.attrs_bytes = 1;
    profile.flags = 0x80;
    (void)encode(&profile, NULL, bytes, sizeof bytes, BASE_ERR_INVALID);

    struct wire_profile out;
    assert_int_equal(wire_profile_parse(bytes, WIRE_PROFILE_BYTES_MAX + 1, &out),
                     BASE_ERR_TOO_LARGE);
    static const struct {
        size_t size;
        uint8_t bytes[16];
        enum base_status status;
    } rows[] = {
        {0, {0}, BASE_ERR_TRUNCATED},
        {13, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_UNSUPPORTED},
        {13, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_UNSUPPORTED},
        {15, {2, 0, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_OK},
        {15, {2, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_INVALID}, // no room
        {15, {2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_INVALID},  // no interval
        {15, {2, 6, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_OK},
        {15, {2, 8, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_INVALID}, // unknown flag
        {16, {2, 0, 0x81, 2, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_TOO_LARGE},
        {15, {2, 1, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_TRUNCATED},
        {16, {2, 1, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 65}, BASE_ERR_TOO_LARGE},
        {16, {2, 1, 8, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}, BASE_ERR_TRUNCATED},
        {13, {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_INVALID},
        {13, {1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_INVALID},
        {14, {1, 0, 0x81, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_TOO_LARGE},
        {14, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 4, 0}, BASE_ERR_TOO_LARGE},
        {14, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, BASE_ERR_INVALID}, // a byte too many
        {13, {1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_ERR_TRUNCATED},  // pair missing
        {13, {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, BASE_OK},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(wire_profile_parse(rows[i].bytes, rows[i].size, &out), rows[i].status);
    }
}

// The largest profile there may be, to the byte, and one byte more.
static void a_profile_may_be_full(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_PROFILE_BYTES_MAX + 1];
    static struct wire_profile_pair pairs[WIRE_PROFILE_TASKS_MAX];
    static const uint8_t attrs[WIRE_ATTRS_BYTES_MAX];
    struct wire_profile profile = {
        .task_count = WIRE_PROFILE_TASKS_MAX, .attrs = attrs, .attrs_bytes = sizeof attrs};
    for (uint32_t i = 0; i < WIRE_PROFILE_TASKS_MAX; i++) {
        pairs[i].task_id = i;
    }
    size_t size = encode(&profile, pairs, bytes, sizeof bytes, BASE_OK);
    // Each counter may take up to nine bytes more than now.
    for (size_t i = 0; size < WIRE_PROFILE_BYTES_MAX; i++) {
        size_t more = WIRE_PROFILE_BYTES_MAX - size < 9 ? WIRE_PROFILE_BYTES_MAX - size : 9;
        pairs[i].floor = (uint64_t)1 << (7 * more);
        size += more;
    }
    assert_int_equal(encode(&profile, pairs, bytes, sizeof bytes, BASE_OK), size);
    struct wire_profile out;
    assert_int_equal(wire_profile_parse(bytes, WIRE_PROFILE_BYTES_MAX, &out), BASE_OK);
    pairs[WIRE_PROFILE_TASKS_MAX - 1].floor = 128;
    (void)encode(&profile, pairs, bytes, sizeof bytes, BASE_ERR_TOO_LARGE);
}

static void random_profiles_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct wire_sample_attrs sample;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 60; round++) {
        uint8_t attrs[WIRE_ATTRS_BYTES_MAX];
        struct base_writer writer;
        base_writer_init(&writer, attrs, sizeof attrs);
        wire_sample_attrs(&prng, &sample, (uint32_t)base_prng_below(&prng, 12));
        wire_attrs_write(&writer, &sample.attrs);
        assert_int_equal(writer.status, BASE_OK);
        struct wire_profile_pair pairs[12];
        struct wire_profile profile = {.task_count = (uint32_t)base_prng_below(&prng, 12),
                                       .digest = base_prng_next(&prng),
                                       .attrs = attrs,
                                       .attrs_bytes = base_writer_size(&writer)};
        for (uint32_t i = 0; i < profile.task_count; i++) {
            pairs[i] = (struct wire_profile_pair){base_prng_next(&prng), base_prng_next(&prng),
                                                  base_prng_next(&prng), wire_sample_u64(&prng),
                                                  wire_sample_u64(&prng)};
        }
        bool with_pairs = round % 2 == 0;
        uint8_t refused[16 * sizeof(uint64_t)];
        for (size_t i = 0; i < sizeof refused; i++) {
            refused[i] = (uint8_t)base_prng_below(&prng, 256);
        }
        if (round % 4 < 2) { // not of the first version
            profile.version = round % 8 < 4 ? WIRE_PROFILE_VERSION : WIRE_PROFILE_VERSION_2;
            profile.tasks_max = 1 + (uint32_t)base_prng_below(&prng, WIRE_PROFILE_TASKS_MAX);
            profile.interval_s = 1 + (uint32_t)base_prng_below(&prng, UINT32_MAX);
            profile.refused = refused;
            profile.flags = (uint8_t)(base_prng_below(&prng, 4) * WIRE_PROFILE_FLAG_OWN_PACE);
            profile.refused_count = (uint32_t)base_prng_below(&prng, 17);
        }
        uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
        size_t size = encode(&profile, with_pairs ? pairs : NULL, bytes, sizeof bytes, BASE_OK);
        struct wire_profile back;
        assert_int_equal(wire_profile_parse(bytes, size, &back), BASE_OK);
        assert_true(back.digest == profile.digest && back.task_count == profile.task_count);
        assert_int_equal(back.attrs_bytes, profile.attrs_bytes);
        assert_memory_equal(back.attrs, attrs, back.attrs_bytes);
        assert_true(back.tasks_max == profile.tasks_max && back.interval_s == profile.interval_s);
        assert_int_equal(back.refused_count, with_pairs ? profile.refused_count : 0);
        struct base_reader reader;
        base_reader_init(&reader, back.pairs, back.pairs_bytes);
        for (uint32_t i = 0; with_pairs && i < profile.task_count; i++) {
            struct wire_profile_pair pair;
            assert_int_equal(wire_profile_pair_next(&back, &reader, &pair), BASE_OK);
            assert_true(pair.approved == pairs[i].approved || back.version < WIRE_PROFILE_VERSION);
            pairs[i].approved = pair.approved;
            assert_memory_equal(&pair, &pairs[i], sizeof pair);
        }
        if (round < 12) {
            wire_damage(&prng, bytes, size, wire_check_profile);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_are_pinned),
        cmocka_unit_test(terms_do_not_cancel),
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(limits_are_as_documented),
        cmocka_unit_test(approvals_are_as_documented),
        cmocka_unit_test(nothing_is_there_twice),
        cmocka_unit_test(a_refusal_is_no_task),
        cmocka_unit_test(no_attributes_are_one_byte),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_profile_may_be_full),
        cmocka_unit_test(random_profiles_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
