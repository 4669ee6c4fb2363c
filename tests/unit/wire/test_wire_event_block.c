// Blocks of events: bytes as documented, every event back, limits, and damage.
#include "wire_damage.h"
#include "wire_event_samples.h"

static struct wire_event_block block;
static uint8_t bytes[WIRE_EVENT_BLOCK_BYTES_MAX];

static void bytes_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t attrs[] = {3, 'p', 'o', 's', 1, 6, 2, 'o', 'k', 3, 1};
    const struct wire_event events[] = {
        {.seq = 7,
         .wall_ms = 1000,
         .mono_us = 500,
         .visit = 2,
         .kind = 1,
         .page = BASE_STR("home")},
        {.seq = 9,
         .wall_ms = 1250,
         .mono_us = 600,
         .visit = 2,
         .instance = 1,
         .kind = 4,
         .page = BASE_STR("home"),
         .item = BASE_STR("buy"),
         .attrs = attrs,
         .attrs_bytes = sizeof(attrs),
         .attr_count = 2},
    };
    static const uint8_t wanted[] = {
        1,    2,                                          // version, events
        7,    0,    0,   0,   0,   0,   0, 0,             // first seq
        0xe8, 3,    0,   0,   0,   0,   0, 0,             // wall_ms
        0xf4, 1,    0,   0,   0,   0,   0, 0,             // mono_us
        5,    0,    0,   0,                               // boot
        2,    4,    'h', 'o', 'm', 'e', 3, 'b', 'u', 'y', // texts
        2,    3,    'p', 'o', 's', 1,   1,                // names, with bytes of values
        2,    'o',  'k', 3,   1,                          //
        0,    1,                                          // seq
        1,    4,                                          // kind
        0,    0xf4, 3,                                    // wall: 250
        0,    0xc8, 1,                                    // mono: 100
        4,    0,                                          // visit
        0,    1,                                          // instance
        1,    1,    0,   2,   0,   0,                     // page, item, name
        0,    2,    0,   1,                               // attributes
        6,    1,                                          // values: 3, true
    };
    size_t size = 0;
    assert_int_equal(wire_event_block_encode(&(struct wire_event_list){events, 2, 5}, bytes,
                                             sizeof(bytes), &size),
                     BASE_OK);
    assert_int_equal(size, sizeof(wanted));
    assert_memory_equal(bytes, wanted, sizeof(wanted));
    assert_int_equal(wire_event_block_parse(bytes, size, &block), BASE_OK);
    assert_int_equal(block.boot, 5);
    struct wire_event got;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(wire_event_block_next(&block, &got));
        wire_event_check_same(&got, &events[i]);
    }
    assert_false(wire_event_block_next(&block, &got));
}

static uint32_t sample_block(struct base_prng *prng, struct wire_event_sample *samples,
                             struct wire_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        wire_sample_event(prng, i > 0 ? &events[i - 1] : NULL, &samples[i]);
        events[i] = samples[i].event;
    }
    return count;
}

static struct wire_event_sample samples[WIRE_EVENT_BLOCK_EVENTS_MAX + 1];
static struct wire_event events[WIRE_EVENT_BLOCK_EVENTS_MAX + 1];

static void random_blocks_come_back(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint64_t raw = 0;
    uint64_t encoded = 0;
    for (unsigned round = 0; round < 1500; round++) {
        uint32_t count =
            sample_block(&prng, samples, events, 1 + (uint32_t)base_prng_below(&prng, 100));
        uint32_t boot = (uint32_t)base_prng_next(&prng);
        size_t size = 0;
        enum base_status status = wire_event_block_encode(
            &(struct wire_event_list){events, count, boot}, bytes, sizeof(bytes), &size);
        assert_int_equal(status, BASE_OK);
        uint8_t *exact = test_exact(bytes, size);
        assert_int_equal(wire_event_block_parse(exact, size, &block), BASE_OK);
        assert_int_equal(block.count, count);
        assert_int_equal(block.boot, boot);
        struct wire_event got;
        for (uint32_t i = 0; i < count; i++) {
            assert_true(wire_event_block_next(&block, &got));
            wire_event_check_same(&got, &events[i]);
            raw += 8 * 3 + 4 * 2 + 1 + got.page.size + got.item.size + got.attrs_bytes;
        }
        assert_false(wire_event_block_next(&block, &got));
        assert_int_equal(wire_check_event_block(exact, size), BASE_OK);
        encoded += size;
        if (round % 50 == 0) {
            for (size_t room = 0; room < size; room += 1 + size / 300) {
                uint8_t *small = malloc(room + 1);
                assert_int_equal(
                    wire_event_block_encode(&(struct wire_event_list){events, count, boot}, small,
                                            room, &size),
                    BASE_ERR_TOO_LARGE);
                free(small);
            }
        }
        free(exact);
    }
    printf("%llu bytes of events in %llu\n", (unsigned long long)raw, (unsigned long long)encoded);
    assert_true(encoded < raw);
}

static void damaged_blocks_are_refused(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 6; round++) {
        uint32_t count = sample_block(&prng, samples, events, 1 + round * 2);
        size_t size = 0;
        assert_int_equal(wire_event_block_encode(&(struct wire_event_list){events, count, 1}, bytes,
                                                 sizeof(bytes), &size),
                         BASE_OK);
        wire_damage(&prng, bytes, size, wire_check_event_block);
    }
}

static void bad_events_are_refused(void **state)
{
    (void)state;
    const struct wire_event good = {.seq = 3, .kind = 2, .page = BASE_STR("p")};
    static const uint8_t attrs[] = {1, 'a', 3, 1, 1, 'a', 3, 1};
    struct wire_event bad[10];
    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].kind = 0;
    bad[1].kind = 7;
    bad[2].page = BASE_STR("");
    bad[3].page = BASE_STR("a\nb");
    bad[4].item = BASE_STR("\xff");
    bad[5].name = BASE_STR("named");
    bad[6].kind = 6; // without a name
    bad[7].attrs = attrs;
    bad[7].attrs_bytes = sizeof(attrs);
    bad[7].attr_count = 2; // one name twice
    bad[8].attr_count = 1;
    bad[9].attr_count = WIRE_EVENT_ATTRS_MAX + 1;
    size_t size = 99;
    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        enum base_status status = wire_event_block_encode(&(struct wire_event_list){&bad[i], 1, 1},
                                                          bytes, sizeof(bytes), &size);
        if (status != BASE_ERR_INVALID) {
            fail_msg("event %u: %s", i, base_status_name(status));
        }
    }
    const struct wire_event backwards[] = {good, good};
    assert_int_equal(wire_event_block_encode(&(struct wire_event_list){backwards, 2, 1}, bytes,
                                             sizeof(bytes), &size),
                     BASE_ERR_INVALID);
    assert_int_equal(wire_event_block_encode(&(struct wire_event_list){&good, 0, 1}, bytes,
                                             sizeof(bytes), &size),
                     BASE_ERR_INVALID);
    assert_int_equal(size, 99);
}

static void limits_hold(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    size_t size = 0;
    for (uint32_t i = 0; i <= WIRE_EVENT_BLOCK_EVENTS_MAX; i++) {
        events[i] = (struct wire_event){.seq = i, .kind = 1, .page = BASE_STR("p")};
    }
    assert_int_equal(wire_event_block_encode(
                         &(struct wire_event_list){events, WIRE_EVENT_BLOCK_EVENTS_MAX + 1, 1},
                         bytes, sizeof(bytes), &size),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(
        wire_event_block_encode(&(struct wire_event_list){events, WIRE_EVENT_BLOCK_EVENTS_MAX, 1},
                                bytes, sizeof(bytes), &size),
        BASE_OK);
    // Three texts an event is more than the table holds.
    for (uint32_t i = 0; i < WIRE_EVENT_BLOCK_EVENTS_MAX; i++) {
        events[i].kind = 6;
        events[i].page = wire_sample_text(samples[i].page, sizeof(samples[i].page), "p", i);
        events[i].item = wire_sample_text(samples[i].item, sizeof(samples[i].item), "i", i);
        events[i].name = wire_sample_text(samples[i].name, sizeof(samples[i].name), "n", i);
    }
    assert_int_equal(
        wire_event_block_encode(&(struct wire_event_list){events, WIRE_EVENT_BLOCK_EVENTS_MAX, 1},
                                bytes, sizeof(bytes), &size),
        BASE_ERR_TOO_LARGE);
    assert_int_equal(wire_event_block_encode(
                         &(struct wire_event_list){events, WIRE_EVENT_BLOCK_TEXTS_MAX / 3, 1},
                         bytes, sizeof(bytes), &size),
                     BASE_OK);
    assert_int_equal(wire_check_event_block(bytes, size), BASE_OK);
    // An event of the greatest size there is.
    wire_sample_event(&prng, NULL, &samples[0]);
    wire_sample_attrs(&prng, &samples[0], WIRE_EVENT_ATTRS_MAX, 600);
    assert_true(samples[0].event.attrs_bytes > WIRE_EVENT_ATTRS_BYTES - 400);
    assert_int_equal(wire_event_block_encode(&(struct wire_event_list){&samples[0].event, 1, 1},
                                             bytes, sizeof(bytes), &size),
                     BASE_OK);
    assert_int_equal(wire_check_event_block(bytes, size), BASE_OK);
    bytes[0] = 2;
    assert_int_equal(wire_event_block_parse(bytes, size, &block), BASE_ERR_UNSUPPORTED);
    struct wire_event_block_head head;
    assert_int_equal(wire_event_block_head(bytes, size, &head), BASE_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(random_blocks_come_back),
        cmocka_unit_test(damaged_blocks_are_refused),
        cmocka_unit_test(bad_events_are_refused),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
