// Payloads of batches: layout, limits, round trips, damage.
#include "wire_check_tunnel.h"
#include "wire_damage.h"
#include "wire_samples.h"

static uint8_t bytes[WIRE_TUNNEL_RAW_MAX + 1];
static uint8_t body[WIRE_RECORD_BYTES_MAX + 1];
static struct wire_record records[WIRE_TUNNEL_RECORDS_MAX + 1];

static void bytes_are_as_documented(void **state)
{
    (void)state;
    const struct wire_upload_key uploads[2] = {{BASE_STR("ipv"), BASE_STR("feature"), 3},
                                               {BASE_STR("ui"), BASE_STR("e"), 258}};
    const struct wire_record two[2] = {
        {1, WIRE_RECORD_JSON, 300, (const uint8_t *)"[]", 2},
        {0, WIRE_RECORD_EVENTS, 299, (const uint8_t *)"abc", 3},
    };
    static const uint8_t wanted[] = {1,   2, 3, 'i', 'p', 'v', 7, 'f', 'e', 'a', 't', 'u',  'r',
                                     'e', 3, 0, 2,   'u', 'i', 1, 'e', 2,   1,   2,   0xac, 2,
                                     1,   0, 1, 2,   1,   2,   3, '[', ']', 'a', 'b', 'c'};
    size_t size = 0;
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){uploads, 2, two, 2}, bytes,
                                       sizeof bytes, &size),
                     BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_int_equal(
        wire_batch_encode(&(struct wire_batch_content){uploads, 2, two, 2}, bytes, size - 1, &size),
        BASE_ERR_TOO_LARGE);
    struct wire_batch batch;
    uint32_t bad = 0;
    assert_int_equal(wire_batch_parse(wanted, sizeof wanted, &batch, &bad), BASE_OK);
    struct wire_record record;
    assert_true(wire_batch_next(&batch, &record));
    assert_true(record.upload == 1 && record.wall_ms == 300 && record.size == 2);
    assert_true(wire_batch_next(&batch, &record));
    assert_true(record.upload == 0 && record.wall_ms == 299 && record.size == 3);
    assert_memory_equal(record.bytes, "abc", 3);
    assert_false(wire_batch_next(&batch, &record));
}

static void inputs_are_checked(void **state)
{
    (void)state;
    static const struct {
        struct wire_upload_key upload;
        struct wire_record record;
        enum base_status status;
    } rows[] = {
        {{BASE_STR("t"), BASE_STR("u"), 0}, {0, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_OK},
        {{BASE_STR("T"), BASE_STR("u"), 0}, {0, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("U"), 0}, {0, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("1"), 0}, {0, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR(""), 0}, {0, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("u"), 0}, {1, WIRE_RECORD_BYTES, 0, NULL, 0}, BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("u"), 0},
         {0, WIRE_RECORD_FORMAT_END, 0, NULL, 0},
         BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("u"), 0},
         {0, WIRE_RECORD_BYTES, WIRE_WALL_MS_MAX, NULL, 0},
         BASE_OK},
        {{BASE_STR("t"), BASE_STR("u"), 0},
         {0, WIRE_RECORD_BYTES, WIRE_WALL_MS_MAX + 1, NULL, 0},
         BASE_ERR_INVALID},
        {{BASE_STR("t"), BASE_STR("u"), 0},
         {0, WIRE_RECORD_BYTES, 0, body, WIRE_RECORD_BYTES_MAX},
         BASE_OK},
        {{BASE_STR("t"), BASE_STR("u"), 0},
         {0, WIRE_RECORD_BYTES, 0, body, WIRE_RECORD_BYTES_MAX + 1},
         BASE_ERR_TOO_LARGE},
    };
    size_t size = 0;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        enum base_status status =
            wire_batch_encode(&(struct wire_batch_content){&rows[i].upload, 1, &rows[i].record, 1},
                              bytes, sizeof bytes, &size);
        if (status != rows[i].status) {
            fail_msg("row %zu: %s instead of %s", i, base_status_name(status),
                     base_status_name(rows[i].status));
        }
    }
    const struct wire_upload_key same[2] = {rows[0].upload, rows[0].upload};
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){same, 2, &rows[0].record, 1},
                                       bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){same, 0, &rows[0].record, 1},
                                       bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){same, 1, &rows[0].record, 0},
                                       bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){same, 1, records,
                                                                    WIRE_TUNNEL_RECORDS_MAX + 1},
                                       bytes, sizeof bytes, &size),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(
        wire_batch_encode(&(struct wire_batch_content){same, 1, records, WIRE_TUNNEL_RECORDS_MAX},
                          bytes, sizeof bytes, &size),
        BASE_OK);
    assert_int_equal(wire_check_batch(bytes, size), BASE_OK);
}

// What is wrong with one record names it, and what is wrong with the whole does not.
static void the_bad_record_is_named(void **state)
{
    (void)state;
    const struct wire_upload_key upload = {BASE_STR("t"), BASE_STR("u"), 0};
    struct wire_record four[4] = {{.size = 1, .bytes = body},
                                  {.size = 1, .bytes = body},
                                  {.size = 1, .bytes = body},
                                  {.size = 1, .bytes = body}};
    size_t size = 0;
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){&upload, 1, four, 4}, bytes,
                                       sizeof bytes, &size),
                     BASE_OK);
    // version, upload count, upload (2 + 2 + 2), record count, time: columns begin at 10.
    const struct {
        size_t at;
        uint8_t value;
        enum base_status status;
        uint32_t record;
    } rows[] = {
        {0, 2, BASE_ERR_UNSUPPORTED, WIRE_TUNNEL_NO_RECORD},
        {1, 65, BASE_ERR_TOO_LARGE, WIRE_TUNNEL_NO_RECORD},
        {8, 0, BASE_ERR_INVALID, WIRE_TUNNEL_NO_RECORD},
        {10 + 2, 1, BASE_ERR_INVALID, 2},     // upload
        {10 + 4 + 3, 9, BASE_ERR_INVALID, 3}, // format
        {10 + 8, 1, BASE_ERR_INVALID, 1},     // time before the epoch
        {10 + 11, 2, BASE_ERR_TRUNCATED, WIRE_TUNNEL_NO_RECORD},
        {10 + 11, 0, BASE_ERR_INVALID, WIRE_TUNNEL_NO_RECORD}, // a byte is left over
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint8_t *copy = test_exact(bytes, size);
        copy[rows[i].at] = rows[i].value;
        struct wire_batch batch;
        uint32_t bad = 0;
        enum base_status status = wire_batch_parse(copy, size, &batch, &bad);
        if (status != rows[i].status || bad != rows[i].record) {
            fail_msg("row %zu: %s, record %u", i, base_status_name(status), (unsigned)bad);
        }
        free(copy);
    }
    struct wire_batch batch;
    uint32_t bad = 0;
    assert_int_equal(wire_batch_parse(bytes, WIRE_TUNNEL_RAW_MAX + 1, &batch, &bad),
                     BASE_ERR_TOO_LARGE);
}

static void random_batches_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    static struct wire_sample_text names[2 * WIRE_BATCH_UPLOADS_MAX];
    struct wire_upload_key uploads[WIRE_BATCH_UPLOADS_MAX];
    for (unsigned round = 0; round < 200; round++) {
        uint32_t upload_count =
            1 + (uint32_t)base_prng_below(&prng, round % 10 == 0 ? WIRE_BATCH_UPLOADS_MAX : 3);
        for (uint32_t i = 0; i < upload_count; i++) {
            uploads[i].task = wire_sample_str(&prng, &names[2 * i], "abc019", 1 + round % 20);
            uploads[i].name = wire_sample_str(&prng, &names[2 * i + 1], "xyz", 1 + round % 9);
            uploads[i].schema = (uint16_t)i; // unique
        }
        uint32_t count = 1 + (uint32_t)base_prng_below(&prng, round % 10 == 0 ? 500 : 20);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = (uint32_t)base_prng_below(&prng, 1000);
            records[i] = (struct wire_record){
                .upload = (uint32_t)base_prng_below(&prng, upload_count),
                .format = (enum wire_record_format)base_prng_below(&prng, WIRE_RECORD_FORMAT_END),
                .wall_ms = base_prng_next(&prng) >> (16 + base_prng_below(&prng, 48)),
                .bytes = body + at,
                .size = (uint32_t)base_prng_below(&prng, 30),
            };
        }
        size_t size = 0;
        assert_int_equal(
            wire_batch_encode(&(struct wire_batch_content){uploads, upload_count, records, count},
                              bytes, sizeof bytes, &size),
            BASE_OK);
        struct wire_batch batch;
        uint32_t bad = 0;
        assert_int_equal(wire_batch_parse(bytes, size, &batch, &bad), BASE_OK);
        assert_int_equal(batch.record_count, count);
        for (uint32_t i = 0; i < count; i++) {
            struct wire_record back;
            assert_true(wire_batch_next(&batch, &back));
            assert_int_equal(back.upload, records[i].upload);
            assert_int_equal(back.format, records[i].format);
            assert_true(back.wall_ms == records[i].wall_ms);
            assert_int_equal(back.size, records[i].size);
            assert_memory_equal(back.bytes, records[i].bytes, back.size);
        }
        if (round % 20 == 1) {
            static uint8_t copy[sizeof bytes];
            memcpy(copy, bytes, size);
            wire_damage(&prng, copy, size, wire_check_batch);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(inputs_are_checked),
        cmocka_unit_test(the_bad_record_is_named),
        cmocka_unit_test(random_batches_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
