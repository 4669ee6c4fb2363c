// Device records: what is written comes back, most take few bytes, and those of before are read.
#include "svc/device/device_record.h"

#include "base/cursor.h"
#include "test_kit.h"

#include <string.h>

#define ATTRS        "\x01\x02os\x00\x05linux"
#define COMMON_BYTES 31u // of a record without attributes, with one outcome that went well

static struct gw_device_record common(void)
{
    struct gw_device_record record = {.first_seen_s = 1805000000,
                                      .last_seen_s = 1805000060,
                                      .epoch = 0x98765432,
                                      .report_seq = 3,
                                      .has_epoch = true,
                                      .outcome_count = 1};
    record.outcomes[0] = (struct gw_record_outcome){.rollout_id = 0xcd0918c94d5964b9,
                                                    .offered_s = 1805000000,
                                                    .updated_s = 1805000001,
                                                    .activated_s = 1805000001,
                                                    .bits = 0x0f,
                                                    .last_kind = WIRE_OUTCOME_RAN};
    return record;
}

// Every field has something, and times run backwards.
static struct gw_device_record full(void)
{
    struct gw_device_record record = common();
    record.last_seen_s = 7;
    record.previous_epoch = 9;
    record.report_seq = UINT64_MAX;
    record.interval_s = UINT32_MAX;
    record.proven = true;
    record.attrs_size = WIRE_ATTRS_BYTES_MAX;
    memset(record.attrs, 0xa5, sizeof(record.attrs));
    record.outcome_count = GW_DEVICE_OUTCOMES_MAX;
    for (uint32_t i = 0; i < record.outcome_count; i++) {
        record.outcomes[i] = (struct gw_record_outcome){
            .rollout_id = UINT64_MAX - i,
            .fingerprint = UINT64_MAX,
            .offered_s = record.first_seen_s - 1,
            .updated_s = record.first_seen_s - 2,
            .activated_s = 1,
            .stage = 15,
            .tries = 255,
            .bits = UINT16_MAX,
            .last_kind = 255,
            .figures = {.heap_peak_bytes = UINT64_MAX,
                        .left_out = UINT64_MAX,
                        .privacy_refusals = UINT64_MAX,
                        .cloud_counts = UINT64_MAX,
                        .cloud_times = UINT64_MAX},
            .answered_s = UINT32_MAX,
            .failed_s = UINT32_MAX,
            .segment = UINT64_MAX,
        };
    }
    return record;
}

static void check_same(const struct gw_device_record *a, const struct gw_device_record *b)
{
    assert_int_equal(a->first_seen_s, b->first_seen_s);
    assert_int_equal(a->last_seen_s, b->last_seen_s);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->previous_epoch, b->previous_epoch);
    assert_int_equal(a->report_seq, b->report_seq);
    assert_int_equal(a->interval_s, b->interval_s);
    assert_int_equal(a->has_epoch, b->has_epoch);
    assert_int_equal(a->proven, b->proven);
    assert_int_equal(a->attrs_size, b->attrs_size);
    assert_memory_equal(a->attrs, b->attrs, a->attrs_size);
    assert_int_equal(a->outcome_count, b->outcome_count);
    for (uint32_t i = 0; i < a->outcome_count; i++) {
        const struct gw_record_outcome *x = &a->outcomes[i];
        const struct gw_record_outcome *y = &b->outcomes[i];
        assert_int_equal(x->rollout_id, y->rollout_id);
        assert_int_equal(x->fingerprint, y->fingerprint);
        assert_int_equal(x->offered_s, y->offered_s);
        assert_int_equal(x->updated_s, y->updated_s);
        assert_int_equal(x->activated_s, y->activated_s);
        assert_int_equal(x->stage, y->stage);
        assert_int_equal(x->tries, y->tries);
        assert_int_equal(x->bits, y->bits);
        assert_int_equal(x->last_kind, y->last_kind);
        assert_int_equal(x->figures.heap_peak_bytes, y->figures.heap_peak_bytes);
        assert_int_equal(x->figures.left_out, y->figures.left_out);
        assert_int_equal(x->figures.cloud_counts, y->figures.cloud_counts);
        assert_int_equal(x->figures.cloud_times, y->figures.cloud_times);
        assert_int_equal(x->answered_s, y->answered_s);
        assert_int_equal(x->failed_s, y->failed_s);
        assert_int_equal(x->segment, y->segment);
    }
}

static void check_round(const struct gw_device_record *record, size_t size_max)
{
    static struct gw_device_record back;
    uint8_t bytes[GW_DEVICE_RECORD_BYTES_MAX + 1] = {0};
    size_t size = gw_device_record_encode(record, bytes);
    assert_in_range(size, 1, size_max);
    for (size_t cut = 0; cut <= size + 1; cut++) { // and one byte more
        memset(&back, 0xee, sizeof(back));
        assert_int_equal(gw_device_record_decode(bytes, cut, &back),
                         cut == size ? BASE_OK : BASE_ERR_CORRUPT);
        if (cut == size) {
            check_same(record, &back);
        }
    }
}

static void test_what_is_written_comes_back(void **state)
{
    (void)state;
    static struct gw_device_record record;
    check_round(&record, 11);
    record = common();
    check_round(&record, COMMON_BYTES);
    record.attrs_size = sizeof(ATTRS) - 1;
    memcpy(record.attrs, ATTRS, record.attrs_size);
    check_round(&record, COMMON_BYTES + sizeof(ATTRS) - 1);
    record = full();
    check_round(&record, GW_DEVICE_RECORD_BYTES_MAX);
}

// As programs of before wrote it.
static size_t write_before(const struct gw_device_record *record, uint8_t version,
                           uint8_t out[GW_DEVICE_RECORD_BYTES_MAX])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_DEVICE_RECORD_BYTES_MAX);
    base_writer_u8(&writer, version);
    base_writer_u8(&writer, (uint8_t)(record->has_epoch | record->proven << 1));
    base_writer_u32(&writer, record->first_seen_s);
    base_writer_u32(&writer, record->last_seen_s);
    base_writer_u32(&writer, record->epoch);
    base_writer_u32(&writer, record->previous_epoch);
    base_writer_u64(&writer, record->report_seq);
    if (version > 2) {
        base_writer_u32(&writer, record->interval_s);
    }
    base_writer_varint(&writer, record->attrs_size);
    base_writer_bytes(&writer, record->attrs, record->attrs_size);
    base_writer_varint(&writer, record->outcome_count);
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        gw_record_outcome_write(&writer, &record->outcomes[i]);
    }
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static void test_records_of_before_are_read(void **state)
{
    (void)state;
    static struct gw_device_record record;
    static struct gw_device_record back;
    uint8_t bytes[GW_DEVICE_RECORD_BYTES_MAX];
    for (uint8_t version = 1; version <= 6; version++) {
        record = full();
        record.interval_s = version > 2 ? record.interval_s : 0;
        size_t size = write_before(&record, version, bytes);
        bool known = version >= 2 && version <= 4;
        assert_int_equal(gw_device_record_decode(bytes, size, &back) == BASE_OK, known);
        if (known) {
            check_same(&record, &back);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_records_of_before_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
