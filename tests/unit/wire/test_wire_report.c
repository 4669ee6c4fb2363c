// Reports: layout, kinds, numbering, damage.
#include "wire_damage.h"
#include "wire_samples.h"

static void bytes_are_as_documented(void **state)
{
    (void)state;
    struct wire_report report = {.device_id = 1, .epoch = 2, .first_seq = 3, .count = 1};
    report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_FAIL_TIMEOUT,
                                               .task_id = 4,
                                               .version_id = 5,
                                               .rollout_id = 6,
                                               .duration_us = 300,
                                               .fingerprint = 7,
                                               .detail = BASE_STR("slow")};
    static const uint8_t wanted[] = {1, 1, 0, 0, 0, 0, 0,  0, 0, 2, 0,   0,   0,   3,  0, 0,
                                     0, 0, 0, 0, 0, 1, 20, 4, 0, 0, 0,   0,   0,   0,  0, 5,
                                     0, 0, 0, 0, 0, 0, 0,  6, 0, 0, 0,   0,   0,   0,  0, 0xac,
                                     2, 7, 0, 0, 0, 0, 0,  0, 0, 4, 's', 'l', 'o', 'w'};
    uint8_t bytes[128];
    size_t size = 0;
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_int_equal(wire_report_encode(&report, bytes, size - 1, &size), BASE_ERR_TOO_LARGE);
}

// One outcome with figures makes the report one of version 2; they stand behind its fingerprint.
static void figures_are_as_documented(void **state)
{
    (void)state;
    struct wire_report report = {.device_id = 1, .epoch = 2, .first_seq = 3, .count = 1};
    struct wire_report back;
    report.outcomes[0] = (struct wire_outcome){
        .kind = WIRE_OUTCOME_RAN, .fingerprint = 7, .figures = {.heap_peak_bytes = 300}};
    uint8_t bytes[128];
    size_t size = 0;
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(bytes[0], 2);
    assert_int_equal(bytes[22], 128 + WIRE_OUTCOME_RAN);
    static const uint8_t wanted[] = {0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0xac, 2, 0};
    assert_memory_equal(bytes + size - sizeof wanted, wanted, sizeof wanted);
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.outcomes[0].figures.heap_peak_bytes, 300);
    bytes[0] = 1; // which has none
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_ERR_INVALID);
    bytes[0] = 2;
    bytes[size - 2] = 0; // no varint ends so
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_ERR_INVALID);
    // Those that this reader does not know are passed over; a 0 at the end nobody writes.
    uint8_t *figures = bytes + size - 4;
    size += WIRE_FIGURES_BYTES_MAX - 2;
    memset(figures, 5, 1 + WIRE_FIGURES_BYTES_MAX);
    figures[0] = WIRE_FIGURES_BYTES_MAX;
    bytes[size - 1] = 0; // no detail
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.outcomes[0].figures.heap_peak_bytes, 5);
    bytes[size - 2] = 0;
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_ERR_INVALID);
}

// A number that is not known stands before one that is.
static void each_figure_comes_through(void **state)
{
    (void)state;
    struct wire_report report = {.device_id = 1, .epoch = 2, .first_seq = 3, .count = 1};
    struct wire_report back;
    report.outcomes[0] =
        (struct wire_outcome){.kind = WIRE_OUTCOME_RAN, .figures = {.left_out = 9}};
    uint8_t bytes[128];
    size_t size = 0;
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
    static const uint8_t wanted[] = {2, 0, 9, 0};
    assert_memory_equal(bytes + size - sizeof wanted, wanted, sizeof wanted);
    assert_int_equal(wire_report_parse(bytes, size, &back), BASE_OK);
    assert_memory_equal(&back.outcomes[0].figures, &report.outcomes[0].figures,
                        sizeof report.outcomes[0].figures);
}

static void kinds_have_names_and_classes(void **state)
{
    (void)state;
    unsigned known = 0;
    for (unsigned kind = 0; kind < 256; kind++) {
        const char *name = wire_outcome_name((enum wire_outcome_kind)kind);
        bool is_known = strcmp(name, "unknown") != 0;
        known += is_known;
        if (is_known) {
            assert_int_equal(wire_outcome_is_failure((enum wire_outcome_kind)kind),
                             strncmp(name, "fail_", 5) == 0);
            assert_int_equal(wire_outcome_blames((enum wire_outcome_kind)kind),
                             strncmp(name, "fail_", 5) == 0 && strcmp(name, "fail_integrity") != 0);
        }
        struct wire_report report = {.first_seq = 1, .count = 1};
        report.outcomes[0].kind = (enum wire_outcome_kind)kind;
        uint8_t bytes[128];
        size_t size;
        assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size),
                         is_known ? BASE_OK : BASE_ERR_INVALID);
    }
    assert_int_equal(known, 21);
}

static void numbering(void **state)
{
    (void)state;
    static const struct {
        uint64_t first;
        uint32_t count;
        enum base_status status;
    } rows[] = {
        {0, 1, BASE_ERR_INVALID},
        {1, 0, BASE_ERR_INVALID},
        {1, 64, BASE_OK},
        {1, 65, BASE_ERR_TOO_LARGE},
        {UINT64_MAX - 1, 1, BASE_OK},
        {UINT64_MAX, 1, BASE_ERR_INVALID}, // the number after it would wrap
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        static struct wire_report report;
        static struct wire_report out;
        static uint8_t bytes[WIRE_REPORT_BYTES_MAX];
        report = (struct wire_report){.first_seq = rows[i].first, .count = rows[i].count};
        for (size_t j = 0; j < WIRE_REPORT_MAX; j++) {
            report.outcomes[j].kind = WIRE_OUTCOME_RAN;
        }
        size_t size = 0;
        assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), rows[i].status);
        if (rows[i].count == 1) { // the same refusal on the way in
            report.first_seq = 1;
            assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
            for (unsigned b = 0; b < 8; b++) {
                bytes[13 + b] = (uint8_t)(rows[i].first >> (8 * b));
            }
            assert_int_equal(wire_report_parse(bytes, size, &out), rows[i].status);
        }
    }
}

static void limits_hold(void **state)
{
    (void)state;
    static struct wire_report report;
    static struct wire_report out;
    static uint8_t bytes[2 * WIRE_REPORT_BYTES_MAX];
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
    memset(detail, 'd', sizeof detail);
    report = (struct wire_report){.first_seq = 1, .count = WIRE_REPORT_MAX};
    for (size_t i = 0; i < WIRE_REPORT_MAX; i++) {
        report.outcomes[i] = (struct wire_outcome){.kind = WIRE_OUTCOME_RAN,
                                                   .duration_us = UINT64_MAX,
                                                   .figures = {.heap_peak_bytes = UINT64_MAX},
                                                   .detail = {detail, WIRE_REPORT_DETAIL_MAX}};
    }
    size_t size = 0;
    // The largest report there is fits the limit of the whole.
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_OK);
    assert_true(size <= WIRE_REPORT_BYTES_MAX);
    assert_int_equal(wire_report_parse(bytes, size, &out), BASE_OK);
    report.outcomes[63].detail.size++;
    assert_int_equal(wire_report_encode(&report, bytes, sizeof bytes, &size), BASE_ERR_TOO_LARGE);
    assert_int_equal(wire_report_parse(bytes, WIRE_REPORT_BYTES_MAX + 1, &out), BASE_ERR_TOO_LARGE);
    bytes[0] = 3;
    assert_int_equal(wire_report_parse(bytes, 100, &out), BASE_ERR_UNSUPPORTED);
    assert_int_equal(wire_report_parse(bytes, 0, &out), BASE_ERR_TRUNCATED);
    bytes[0] = 2;
    bytes[21] = 65;
    assert_int_equal(wire_report_parse(bytes, 100, &out), BASE_ERR_TOO_LARGE);
}

static void random_reports_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct wire_sample_report sample;
    static struct wire_report back;
    static uint8_t bytes[WIRE_REPORT_BYTES_MAX];
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 1; count <= WIRE_REPORT_MAX; count++) {
        wire_sample_report(&prng, &sample, count);
        size_t size = 0;
        assert_int_equal(wire_report_encode(&sample.report, bytes, sizeof bytes, &size), BASE_OK);
        assert_int_equal(wire_report_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.count, count);
        assert_true(back.device_id == sample.report.device_id);
        assert_int_equal(back.epoch, sample.report.epoch);
        assert_true(back.first_seq == sample.report.first_seq);
        for (uint32_t i = 0; i < count; i++) {
            const struct wire_outcome *a = &sample.report.outcomes[i];
            const struct wire_outcome *b = &back.outcomes[i];
            assert_int_equal(a->kind, b->kind);
            assert_true(a->task_id == b->task_id && a->version_id == b->version_id);
            assert_true(a->rollout_id == b->rollout_id && a->duration_us == b->duration_us);
            assert_true(a->fingerprint == b->fingerprint);
            assert_memory_equal(&a->figures, &b->figures, sizeof a->figures);
            assert_true(base_str_equal(a->detail, b->detail));
        }
        if (count <= 4) {
            wire_damage(&prng, bytes, size, wire_check_report);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(figures_are_as_documented),
        cmocka_unit_test(each_figure_comes_through),
        cmocka_unit_test(kinds_have_names_and_classes),
        cmocka_unit_test(numbering),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(random_reports_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
