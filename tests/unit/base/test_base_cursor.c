// Cursors: values, varint forms, sticky failure, and bounds at every size.
#include "test_kit.h"

#include "base/cursor.h"

static void integers_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[15];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof bytes);
    base_writer_u8(&writer, 0x01);
    base_writer_u16(&writer, 0x0302);
    base_writer_u32(&writer, 0x07060504);
    base_writer_u64(&writer, 0x0f0e0d0c0b0a0908u);
    assert_int_equal(writer.status, BASE_OK);
    assert_int_equal(base_writer_size(&writer), sizeof bytes);
    for (unsigned i = 0; i < sizeof bytes; i++) {
        assert_int_equal(bytes[i], i + 1);
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, sizeof bytes);
    assert_int_equal(base_reader_u8(&reader), 0x01);
    assert_int_equal(base_reader_u16(&reader), 0x0302);
    assert_int_equal(base_reader_u32(&reader), 0x07060504);
    assert_int_equal(base_reader_offset(&reader), 7);
    assert_int_equal(base_reader_left(&reader), 8);
    assert_true(base_reader_u64(&reader) == 0x0f0e0d0c0b0a0908u);
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
}

struct varint_row {
    uint64_t value;
    size_t size;
    uint8_t bytes[10];
};

static const struct varint_row varints[] = {
    {0, 1, {0x00}},
    {1, 1, {0x01}},
    {127, 1, {0x7f}},
    {128, 2, {0x80, 0x01}},
    {300, 2, {0xac, 0x02}},
    {16383, 2, {0xff, 0x7f}},
    {16384, 3, {0x80, 0x80, 0x01}},
    {UINT32_MAX, 5, {0xff, 0xff, 0xff, 0xff, 0x0f}},
    {(uint64_t)1 << 63, 10, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
    {UINT64_MAX, 10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
};

static void varints_have_one_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(varints); i++) {
        const struct varint_row *row = &varints[i];
        uint8_t bytes[10];
        struct base_writer writer;
        base_writer_init(&writer, bytes, sizeof bytes);
        base_writer_varint(&writer, row->value);
        assert_int_equal(base_writer_size(&writer), row->size);
        assert_memory_equal(bytes, row->bytes, row->size);
        for (size_t size = 0; size <= row->size; size++) {
            uint8_t *exact = test_exact(row->bytes, size);
            struct base_reader reader;
            base_reader_init(&reader, exact, size);
            uint64_t value = base_reader_varint(&reader);
            assert_true(value == (size == row->size ? row->value : 0));
            assert_int_equal(base_reader_finish(&reader),
                             size == row->size ? BASE_OK : BASE_ERR_TRUNCATED);
            free(exact);
        }
    }
}

static void bad_varints_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint8_t bytes[11];
    } bad[] = {
        {2, {0x80, 0x00}},                                                        // 0, too long
        {2, {0xff, 0x00}},                                                        // 127, too long
        {3, {0x80, 0x80, 0x00}},                                                  // 0, longer still
        {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}},       // 2^64 and more
        {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81}},       // goes on
        {11, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}}, // eleven bytes
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct base_reader reader;
        base_reader_init(&reader, bad[i].bytes, bad[i].size);
        assert_true(base_reader_varint(&reader) == 0);
        assert_int_equal(reader.status, BASE_ERR_INVALID);
    }
}

static void varint_max_and_zigzag(void **state)
{
    (void)state;
    static const uint8_t hundred[] = {100, 100};
    struct base_reader reader;
    base_reader_init(&reader, hundred, sizeof hundred);
    assert_true(base_reader_varint_max(&reader, 100) == 100);
    assert_true(base_reader_varint_max(&reader, 99) == 0);
    assert_int_equal(reader.status, BASE_ERR_INVALID);

    static const struct {
        int64_t value;
        uint64_t coded;
    } rows[] = {{0, 0},
                {-1, 1},
                {1, 2},
                {-2, 3},
                {150, 300},
                {INT64_MAX, UINT64_MAX - 1},
                {INT64_MIN, UINT64_MAX}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint8_t bytes[10];
        struct base_writer writer;
        base_writer_init(&writer, bytes, sizeof bytes);
        base_writer_zigzag(&writer, rows[i].value);
        base_reader_init(&reader, bytes, base_writer_size(&writer));
        assert_true(base_reader_varint(&reader) == rows[i].coded);
        base_reader_init(&reader, bytes, base_writer_size(&writer));
        assert_true(base_reader_zigzag(&reader) == rows[i].value);
        assert_int_equal(base_reader_finish(&reader), BASE_OK);
    }
}

static void failure_stays(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3, 4};
    struct base_reader reader;
    base_reader_init(&reader, bytes, sizeof bytes);
    assert_int_equal(base_reader_u8(&reader), 1);
    assert_true(base_reader_u64(&reader) == 0);
    assert_int_equal(reader.status, BASE_ERR_TRUNCATED);
    assert_int_equal(base_reader_u8(&reader), 0); // though bytes are left
    assert_null(base_reader_bytes(&reader, 1));
    uint8_t out[2] = {9, 9};
    base_reader_copy(&reader, out, 2);
    assert_int_equal(out[0] | out[1], 0);
    base_reader_fail(&reader, BASE_ERR_IO);
    assert_int_equal(base_reader_finish(&reader), BASE_ERR_TRUNCATED);

    base_reader_init(&reader, bytes, sizeof bytes);
    assert_int_equal(base_reader_u8(&reader), 1);
    assert_int_equal(base_reader_finish(&reader), BASE_ERR_INVALID); // bytes left over

    base_reader_init(&reader, NULL, 0);
    assert_int_equal(base_reader_left(&reader), 0);
    assert_non_null(base_reader_bytes(&reader, 0));
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
    base_reader_init(&reader, bytes, sizeof bytes);
    assert_null(base_reader_bytes(&reader, SIZE_MAX));
}

static void full_writers_write_nothing_more(void **state)
{
    (void)state;
    uint8_t bytes[6] = {0, 0, 0, 0, 0, 0x77};
    struct base_writer writer;
    base_writer_init(&writer, bytes, 5);
    base_writer_u32(&writer, 1);
    base_writer_u16(&writer, 0xffff);
    assert_int_equal(writer.status, BASE_ERR_TOO_LARGE);
    base_writer_u8(&writer, 0xff); // would fit, but the writer has failed
    assert_int_equal(base_writer_size(&writer), 4);
    assert_int_equal(bytes[4], 0);
    assert_int_equal(bytes[5], 0x77);

    base_writer_init(&writer, bytes, 5);
    base_writer_fail(&writer, BASE_ERR_INVALID);
    base_writer_fail(&writer, BASE_ERR_IO);
    base_writer_u8(&writer, 1);
    assert_int_equal(writer.status, BASE_ERR_INVALID);
    assert_int_equal(base_writer_size(&writer), 0);

    base_writer_init(&writer, bytes, 5);
    assert_ptr_equal(base_writer_room(&writer, 3), bytes);
    assert_ptr_equal(base_writer_room(&writer, 2), bytes + 3);
    assert_int_equal(base_writer_size(&writer), 5);
    assert_null(base_writer_room(&writer, SIZE_MAX));
    assert_int_equal(writer.status, BASE_ERR_TOO_LARGE);
    assert_null(base_writer_room(&writer, 0));
    assert_int_equal(base_writer_size(&writer), 5);

    base_writer_init(&writer, NULL, 0);
    base_writer_bytes(&writer, NULL, 0);
    assert_int_equal(writer.status, BASE_OK);
    base_writer_u8(&writer, 1);
    assert_int_equal(writer.status, BASE_ERR_TOO_LARGE);
}

// A random sequence of typed values, written and read back; then every prefix must fail.
static void random_sequences_round_trip(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 300; round++) {
        uint8_t kinds[20];
        uint64_t values[20];
        uint8_t bytes[256];
        struct base_writer writer;
        base_writer_init(&writer, bytes, sizeof bytes);
        for (unsigned i = 0; i < 20; i++) {
            kinds[i] = (uint8_t)base_prng_below(&prng, 6);
            values[i] = base_prng_next(&prng) >> base_prng_below(&prng, 64);
            switch (kinds[i]) {
            case 0:
                base_writer_u8(&writer, (uint8_t)values[i]);
                break;
            case 1:
                base_writer_u16(&writer, (uint16_t)values[i]);
                break;
            case 2:
                base_writer_u32(&writer, (uint32_t)values[i]);
                break;
            case 3:
                base_writer_u64(&writer, values[i]);
                break;
            case 4:
                base_writer_varint(&writer, values[i]);
                break;
            default:
                base_writer_zigzag(&writer, (int64_t)values[i]);
                break;
            }
        }
        assert_int_equal(writer.status, BASE_OK);
        size_t size = base_writer_size(&writer);
        size_t cut = (size_t)base_prng_below(&prng, size + 1);
        uint8_t *exact = test_exact(bytes, cut);
        struct base_reader reader;
        base_reader_init(&reader, exact, cut);
        for (unsigned i = 0; i < 20; i++) {
            bool fine = true;
            switch (kinds[i]) {
            case 0:
                fine = base_reader_u8(&reader) == (uint8_t)values[i];
                break;
            case 1:
                fine = base_reader_u16(&reader) == (uint16_t)values[i];
                break;
            case 2:
                fine = base_reader_u32(&reader) == (uint32_t)values[i];
                break;
            case 3:
                fine = base_reader_u64(&reader) == values[i];
                break;
            case 4:
                fine = base_reader_varint(&reader) == values[i];
                break;
            default:
                fine = base_reader_zigzag(&reader) == (int64_t)values[i];
                break;
            }
            assert_true(fine || reader.status != BASE_OK);
        }
        assert_int_equal(base_reader_finish(&reader), cut == size ? BASE_OK : BASE_ERR_TRUNCATED);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(varints_have_one_form),
        cmocka_unit_test(bad_varints_are_refused),
        cmocka_unit_test(varint_max_and_zigzag),
        cmocka_unit_test(failure_stays),
        cmocka_unit_test(full_writers_write_nothing_more),
        cmocka_unit_test(random_sequences_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
