// Offers: layout, limits, damage.
#include "wire_damage.h"
#include "wire_samples.h"

static void bytes_are_as_documented(void **state)
{
    (void)state;
    struct wire_offers offers = {.flags = WIRE_OFFER_FLAG_MORE, .next_checkin_s = 300, .count = 2};
    offers.items[0].envelope = (const uint8_t *)"ab";
    offers.items[0].envelope_bytes = 2;
    offers.items[1].envelope = (const uint8_t *)"c";
    offers.items[1].envelope_bytes = 1;
    static const uint8_t wanted[] = {1, 2, 0xac, 2, 2, 2, 'a', 'b', 1, 'c'};
    uint8_t bytes[64];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_int_equal(wire_offers_encode(&offers, bytes, size - 1, &size), BASE_ERR_TOO_LARGE);
    struct wire_offers back;
    assert_int_equal(wire_offers_parse(wanted, sizeof wanted, &back), BASE_OK);
    assert_int_equal(back.flags, WIRE_OFFER_FLAG_MORE);
    assert_int_equal(back.next_checkin_s, 300);
    assert_int_equal(back.count, 2);
    assert_int_equal(back.items[0].envelope_bytes, 2);
    assert_memory_equal(back.items[1].envelope, "c", 1);
}

static const struct wire_again marks[] = {{0x11, 0x2233, 4}, {0x12, UINT64_MAX, 255}};

static void marks_are_as_documented(void **state)
{
    (void)state;
    struct wire_offers offers = {.next_checkin_s = 5, .count = 1, .again_count = 2};
    offers.items[0].envelope = (const uint8_t *)"a";
    offers.items[0].envelope_bytes = 1;
    memcpy(offers.again, marks, sizeof marks);
    static const uint8_t wanted[] = {1,    32,   5,    1,    1,    'a',  2,    0x11, 0, 0, 0,
                                     0,    0,    0,    0,    0x33, 0x22, 0,    0,    0, 0, 0,
                                     0,    4,    0x12, 0,    0,    0,    0,    0,    0, 0, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 255};
    uint8_t bytes[64];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    for (size_t less = 1; less < size; less++) {
        size_t none = 0;
        assert_int_equal(wire_offers_encode(&offers, bytes, size - less, &none),
                         BASE_ERR_TOO_LARGE);
    }
    struct wire_offers back;
    assert_int_equal(wire_offers_parse(wanted, sizeof wanted, &back), BASE_OK);
    assert_int_equal(back.flags, WIRE_OFFER_FLAG_AGAIN);
    assert_int_equal(back.count, 1);
    assert_int_equal(back.again_count, 2);
    for (size_t i = 0; i < TEST_COUNT(marks); i++) {
        assert_true(back.again[i].task_id == marks[i].task_id);
        assert_true(back.again[i].rollout_id == marks[i].rollout_id);
        assert_int_equal(back.again[i].attempt, marks[i].attempt);
    }
}

// Metadata comes last, behind marks where there are some, and says itself that it is there.
static void metadata_is_as_documented(void **state)
{
    (void)state;
    struct wire_offers offers = {
        .next_checkin_s = 5, .count = 1, .metadata = {(const uint8_t *)"\2\1", 2}};
    offers.items[0].envelope = (const uint8_t *)"a";
    offers.items[0].envelope_bytes = 1;
    static const uint8_t wanted[] = {1, 64, 5, 1, 1, 'a', 2, 2, 1};
    static uint8_t bytes[WIRE_OFFERS_BYTES_MAX];
    static uint8_t most[WIRE_OFFERS_META_MAX + 1];
    size_t size = 0;
    struct wire_offers back;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_int_equal(wire_offers_parse(wanted, sizeof wanted, &back), BASE_OK);
    assert_int_equal(back.metadata.size, 2);
    assert_memory_equal(back.metadata.data, "\2\1", 2);
    offers.again_count = 2;
    memcpy(offers.again, marks, sizeof marks);
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(bytes[1], WIRE_OFFER_FLAG_AGAIN | WIRE_OFFER_FLAG_METADATA);
    assert_memory_equal(bytes + size - 3, "\2\2\1", 3);
    assert_int_equal(wire_offers_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.again_count, 2);
    assert_int_equal(back.metadata.size, 2);
    for (size_t less = 1; less < size; less++) {
        assert_int_equal(wire_offers_parse(bytes, size - less, &back), BASE_ERR_TRUNCATED);
    }
    offers.metadata = (struct base_span){most, WIRE_OFFERS_META_MAX};
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_check_offers(bytes, size), BASE_OK);
    offers.metadata.size++;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);
    offers.metadata.size = 0;
    offers.flags = WIRE_OFFER_FLAG_METADATA;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
}

// One task has one mark, a mark is of a rollout, and the flag is there when marks are.
static void marks_have_one_form(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_OFFERS_BYTES_MAX];
    size_t size = 0;
    struct wire_offers offers = {.flags = WIRE_OFFER_FLAG_AGAIN};
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    offers.again_count = WIRE_AGAIN_MAX;
    for (uint32_t i = 0; i < WIRE_AGAIN_MAX; i++) {
        offers.again[i] = (struct wire_again){.task_id = i, .rollout_id = 1 + i};
    }
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_check_offers(bytes, size), BASE_OK);
    uint8_t out_of_order[sizeof bytes];
    memcpy(out_of_order, bytes, size);
    out_of_order[5] = 1; // the first mark's task is the second's
    struct wire_offers back;
    assert_int_equal(wire_offers_parse(out_of_order, size, &back), BASE_ERR_INVALID);
    assert_int_equal(wire_offers_parse(bytes, size - 1, &back), BASE_ERR_TRUNCATED);
    bytes[size] = 0;
    assert_int_equal(wire_offers_parse(bytes, size + 1, &back), BASE_ERR_INVALID);
    bytes[5 + 8] = 0; // no rollout
    assert_int_equal(wire_offers_parse(bytes, size, &back), BASE_ERR_INVALID);
    offers.again[3].rollout_id = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    offers.again[3] = (struct wire_again){.task_id = 2, .rollout_id = 9};
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    offers.again_count = WIRE_AGAIN_MAX + 1;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);
}

static void limits_hold(void **state)
{
    (void)state;
    static uint8_t bytes[2 * WIRE_OFFERS_BYTES_MAX];
    size_t size = 0;
    struct wire_offers offers = {.count = WIRE_OFFERS_MAX + 1};
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);
    offers.count = 1;
    offers.items[0].envelope = bytes;
    offers.items[0].envelope_bytes = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    offers.items[0].envelope_bytes = WIRE_ANSWER_BYTES_MAX + 1;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);
    offers.count = 0;
    offers.flags = 64;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_INVALID);

    // As many as there may be, and one as large as it may be.
    offers = (struct wire_offers){.count = WIRE_OFFERS_MAX};
    for (uint32_t i = 0; i < WIRE_OFFERS_MAX; i++) {
        offers.items[i].envelope = bytes;
        offers.items[i].envelope_bytes = i == 0 ? WIRE_ANSWER_BYTES_MAX : 1;
    }
    static uint8_t other[WIRE_OFFERS_BYTES_MAX];
    assert_int_equal(wire_offers_encode(&offers, other, sizeof other, &size), BASE_OK);
    assert_int_equal(wire_check_offers(other, size), BASE_OK);

    // All envelopes at their largest do not fit the whole: 32 * 1,026 + 4 bytes.
    static const uint8_t envelope[WIRE_STATEMENT_BYTES_MAX];
    offers = (struct wire_offers){.count = WIRE_OFFERS_MAX};
    for (uint32_t i = 0; i < WIRE_OFFERS_MAX; i++) {
        offers.items[i].envelope = envelope;
        offers.items[i].envelope_bytes = sizeof envelope;
    }
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);

    static const struct {
        size_t size;
        uint8_t bytes[12];
        enum base_status status;
    } rows[] = {
        {0, {0}, BASE_ERR_TRUNCATED},
        {4, {1, 0, 0, 0}, BASE_OK},
        {4, {2, 0, 0, 0}, BASE_ERR_UNSUPPORTED},
        {4, {1, 16, 0, 0}, BASE_OK},
        {4, {1, 64, 0, 0}, BASE_ERR_TRUNCATED},
        {4, {1, 128, 0, 0}, BASE_ERR_INVALID},
        {5, {1, 64, 0, 0, 0}, BASE_ERR_INVALID},
        {6, {1, 64, 0, 0, 2, 7}, BASE_ERR_TRUNCATED},
        {7, {1, 64, 0, 0, 2, 7, 7}, BASE_OK},
        {8, {1, 64, 0, 0, 2, 7, 7, 7}, BASE_ERR_INVALID},
        {7, {1, 64, 0, 0, 0x82, 0, 7}, BASE_ERR_INVALID},      // not the shortest form
        {7, {1, 64, 0, 0, 0x81, 0x40, 7}, BASE_ERR_TOO_LARGE}, // one more than WIRE_OFFERS_META_MAX
        {7, {1, 64, 0, 0, 0x80, 0x40, 7}, BASE_ERR_TRUNCATED},
        {4, {1, 32, 0, 0}, BASE_ERR_TRUNCATED},
        {5, {1, 32, 0, 0, 0}, BASE_ERR_INVALID},
        {5, {1, 32, 0, 0, 17}, BASE_ERR_TOO_LARGE},
        {5, {1, 0, 0, 0, 1}, BASE_ERR_INVALID},
        {4, {1, 0, 0, 33}, BASE_ERR_TOO_LARGE},
        {5, {1, 0, 0, 1, 0}, BASE_ERR_INVALID},
        {6, {1, 0, 0, 1, 0x85, 10}, BASE_ERR_TOO_LARGE}, // one more than WIRE_ANSWER_BYTES_MAX
        {5, {1, 0, 0, 0, 0}, BASE_ERR_INVALID},
        {8, {1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, BASE_OK},
        {8, {1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0}, BASE_ERR_INVALID},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_offers out;
        assert_int_equal(wire_offers_parse(rows[i].bytes, rows[i].size, &out), rows[i].status);
    }
    struct wire_offers out;
    assert_int_equal(wire_offers_parse(bytes, WIRE_OFFERS_BYTES_MAX + 1, &out), BASE_ERR_TOO_LARGE);
}

static void random_offers_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static uint8_t envelopes[WIRE_OFFERS_MAX][WIRE_STATEMENT_BYTES_MAX];
    static uint8_t bytes[WIRE_OFFERS_BYTES_MAX];
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 20; round++) {
        struct wire_offers offers = {
            .flags = (uint8_t)base_prng_below(&prng, 8),
            .next_checkin_s = (uint32_t)wire_sample_u64(&prng),
            .count = round < 4 ? round : (uint32_t)base_prng_below(&prng, WIRE_OFFERS_MAX + 1)};
        for (uint32_t i = 0; i < offers.count; i++) {
            offers.items[i].envelope = envelopes[i];
            offers.items[i].envelope_bytes = wire_sample_envelope(
                &prng, envelopes[i], sizeof envelopes[i], 1 + (uint32_t)base_prng_below(&prng, 3));
        }
        offers.again_count = (uint32_t)base_prng_below(&prng, round < 10 ? 3 : WIRE_AGAIN_MAX + 1);
        for (uint32_t i = 0; i < offers.again_count; i++) {
            offers.again[i] = (struct wire_again){2 * i + base_prng_below(&prng, 2),
                                                  1 + base_prng_below(&prng, UINT64_MAX),
                                                  (uint8_t)base_prng_below(&prng, 256)};
        }
        size_t size = 0;
        offers.metadata.data = envelopes[0];
        offers.metadata.size = round % 2 == 0 ? (size_t)base_prng_below(&prng, 900) : 0;
        enum base_status status = wire_offers_encode(&offers, bytes, sizeof bytes, &size);
        if (status == BASE_ERR_TOO_LARGE) { // all of it together
            offers.metadata.size = 0;
            status = wire_offers_encode(&offers, bytes, sizeof bytes, &size);
        }
        assert_int_equal(status, BASE_OK);
        struct wire_offers back;
        assert_int_equal(wire_offers_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.metadata.size, offers.metadata.size);
        assert_int_equal(back.count, offers.count);
        assert_int_equal(back.again_count, offers.again_count);
        for (uint32_t i = 0; i < offers.count; i++) {
            assert_int_equal(back.items[i].envelope_bytes, offers.items[i].envelope_bytes);
            assert_memory_equal(back.items[i].envelope, envelopes[i],
                                offers.items[i].envelope_bytes);
        }
        if (round < 4) {
            wire_damage(&prng, bytes, size, wire_check_offers);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(marks_are_as_documented),
        cmocka_unit_test(metadata_is_as_documented),
        cmocka_unit_test(marks_have_one_form),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(random_offers_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
