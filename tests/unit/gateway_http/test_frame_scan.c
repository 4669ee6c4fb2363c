// Frame headers are found in every split of the bytes.
#include "http/parse/frame_scan.h"

#include "test_kit.h"

static const struct gw_frame_head frames[] = {
    {0, 4, 0, 0}, {300, 1, 5, 1}, {1, 0, 1, 0x7fffffff}, {8, 6, 0, 0}, {70000, 0xfe, 0xff, 3},
};

static size_t build(uint8_t *out)
{
    size_t at = GW_FRAME_PREFACE_BYTES;
    memset(out, 0xff, at);
    for (size_t i = 0; i < TEST_COUNT(frames); i++) {
        const struct gw_frame_head *frame = &frames[i];
        uint32_t stream = (uint32_t)frame->stream | 0x80000000u; // the reserved bit is ignored
        uint8_t head[GW_FRAME_HEAD_BYTES] = {(uint8_t)(frame->payload_bytes >> 16),
                                             (uint8_t)(frame->payload_bytes >> 8),
                                             (uint8_t)frame->payload_bytes,
                                             frame->type,
                                             frame->flags,
                                             (uint8_t)(stream >> 24),
                                             (uint8_t)(stream >> 16),
                                             (uint8_t)(stream >> 8),
                                             (uint8_t)stream};
        memcpy(out + at, head, sizeof(head));
        at += sizeof(head);
        memset(out + at, 0xff, frame->payload_bytes);
        at += frame->payload_bytes;
    }
    return at;
}

static void test_every_split(void **state)
{
    (void)state;
    static uint8_t bytes[80000];
    size_t size = build(bytes);
    for (size_t step = 1; step < 700; step++) {
        struct gw_frame_scan scan;
        struct gw_frame_head head;
        size_t found = 0;
        gw_frame_scan_init(&scan);
        for (size_t from = 0; from < size; from += step) {
            size_t piece = size - from < step ? size - from : step;
            size_t at = 0;
            while (gw_frame_scan_next(&scan, bytes + from, piece, &at, &head)) {
                assert_true(found < TEST_COUNT(frames));
                assert_int_equal(head.payload_bytes, frames[found].payload_bytes);
                assert_int_equal(head.type, frames[found].type);
                assert_int_equal(head.flags, frames[found].flags);
                assert_int_equal(head.stream, frames[found].stream);
                found++;
            }
            assert_int_equal(at, piece);
        }
        assert_int_equal(found, TEST_COUNT(frames));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
