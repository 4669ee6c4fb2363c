// Evidence of simulations: round trip and damage, the bytes as documented, what does not fit
// together.
#include "wire_damage.h"

#include "wire/trust/run_evidence.h"

static struct wire_evidence sample(void)
{
    struct wire_evidence evidence = {
        .simulator = BASE_STR("0.1.0"),
        .task = BASE_STR("shop/score"),
        .root_version = 3,
        .target = BASE_STR("os == \"android\""),
        .seed = 7,
        .drawn = 4000,
        .matched = 1000,
        .completed = 990,
        .failed = 5,
        .began_s = 100,
        .ended_s = 130,
        .class_count = 2,
        .classes = {{WIRE_OUTCOME_FAIL_EXCEPTION, 3, BASE_STR("KeyError")},
                    {WIRE_OUTCOME_FAIL_TIMEOUT, 2, BASE_STR("")}},
        .oracle_count = 2,
        .oracles = {{BASE_STR("verified"), true}, {BASE_STR("exact"), false}},
    };
    memset(evidence.manifest.bytes, 1, sizeof evidence.manifest.bytes);
    memset(evidence.root.bytes, 2, sizeof evidence.root.bytes);
    memset(evidence.population.bytes, 3, sizeof evidence.population.bytes);
    return evidence;
}

static enum base_status encode(const struct wire_evidence *evidence)
{
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    return wire_evidence_encode(evidence, bytes, sizeof bytes, &size);
}

static void evidence_goes_round(void **state)
{
    (void)state;
    struct wire_evidence evidence = sample();
    struct wire_evidence back;
    struct base_prng prng;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    assert_int_equal(wire_evidence_encode(&evidence, bytes, sizeof bytes, &size), BASE_OK);
    static const uint8_t head[] = {2, 5, '0', '.', '1', '.', '0', 10, 's', 'h', 'o', 'p', '/'};
    static const uint8_t tail[] = {2,   8, 'v', 'e', 'r', 'i', 'f', 'i', 'e',
                                   'd', 1, 5,   'e', 'x', 'a', 'c', 't', 0};
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + size - sizeof tail, tail, sizeof tail);
    assert_int_equal(wire_evidence_parse(bytes, size, &back), BASE_OK);
    assert_true(base_str_equal(back.target, evidence.target));
    assert_int_equal(back.drawn, 4000);
    assert_int_equal(back.matched, 1000);
    assert_int_equal(back.completed, 990);
    assert_int_equal(back.failed, 5);
    assert_int_equal(back.classes[1].devices, 2);
    assert_true(base_str_equal(back.classes[0].detail, BASE_STR("KeyError")));
    assert_int_equal(back.classes[1].detail.size, 0);
    assert_false(back.oracles[1].holds);
    assert_int_equal(wire_evidence_encode(&evidence, bytes, size - 1, &size), BASE_ERR_TOO_LARGE);
    base_prng_seed(&prng, 11);
    wire_damage(&prng, bytes, size, wire_check_evidence);
}

// Without details, as simulators of before write it.
static void the_format_before_is_read(void **state)
{
    (void)state;
    struct wire_evidence evidence = sample();
    struct wire_evidence back;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    evidence.format = 1;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID); // it says a detail
    evidence.classes[0].detail = BASE_STR("");
    assert_int_equal(wire_evidence_encode(&evidence, bytes, sizeof bytes, &size), BASE_OK);
    static const uint8_t classes[] = {2, WIRE_OUTCOME_FAIL_EXCEPTION, 3, 0, 0, 0, 0, 0, 0,
                                      0, WIRE_OUTCOME_FAIL_TIMEOUT,   2, 0, 0, 0, 0, 0, 0,
                                      0};
    assert_int_equal(bytes[0], 1);
    assert_memory_equal(bytes + size - 18 - sizeof classes, classes, sizeof classes);
    assert_int_equal(wire_evidence_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.class_count, 2);
    assert_int_equal(back.classes[0].devices, 3);
    assert_int_equal(back.classes[0].detail.size, 0);
    assert_int_equal(back.oracle_count, 2);
    bytes[0] = 3;
    assert_int_equal(wire_evidence_parse(bytes, size, &back), BASE_ERR_UNSUPPORTED);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct wire_evidence evidence = sample();
    assert_int_equal(encode(&evidence), BASE_OK);
    evidence.matched = evidence.drawn + 1;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.completed = evidence.matched + 1;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.failed = evidence.completed + 1;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.failed = 4; // fewer than by class
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.classes[1].detail = BASE_STR("a\nb");
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.classes[1].outcome = WIRE_OUTCOME_RAN;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.classes[1].outcome = evidence.classes[0].outcome;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.oracles[1].name = evidence.oracles[0].name;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.root_version = 0; // but the hash of one
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.ended_s = evidence.began_s - 1;
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
    evidence = sample();
    evidence.simulator = BASE_STR("0.1\n");
    assert_int_equal(encode(&evidence), BASE_ERR_INVALID);
}

// Domain and type keep a signature of evidence from being one of anything else; the hash is signed.
static void its_envelope_is_its_own(void **state)
{
    (void)state;
    struct wire_envelope back;
    uint8_t payload[WIRE_META_BYTES_MAX];
    uint8_t bytes[WIRE_META_BYTES_MAX];
    struct wire_evidence evidence = sample();
    size_t payload_size = 0;
    size_t size = 0;
    assert_int_equal(wire_evidence_encode(&evidence, payload, sizeof payload, &payload_size),
                     BASE_OK);
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_EVIDENCE,
                                     .payload = payload,
                                     .payload_bytes = payload_size,
                                     .signature_count = 1};
    assert_int_equal(wire_envelope_encode(&envelope, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_envelope_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.type, WIRE_ENVELOPE_TYPE_EVIDENCE);
    assert_true(wire_envelope_is_hashed(back.type));
}

static void series_are_compared(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } rows[] = {{"0.1.0", "0.1.7", true},  {"0.1.0", "0.2.0", false}, {"0.1.0", "0.10.0", false},
                {"0.1.0", "0.1", false},   {"1", "1", false},         {"1.2", "1.3", true},
                {"0.1.0", "10.1.0", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool same = wire_evidence_same_series(base_str_of(rows[i].a), base_str_of(rows[i].b));
        if (same != rows[i].same) {
            fail_msg("%s and %s: %d", rows[i].a, rows[i].b, (int)same);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_goes_round),          cmocka_unit_test(the_format_before_is_read),
        cmocka_unit_test(what_does_not_fit_is_refused), cmocka_unit_test(its_envelope_is_its_own),
        cmocka_unit_test(series_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
