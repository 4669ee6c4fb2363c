// Release statements and envelopes: layout, what is refused, signed bytes.
#include "wire_damage.h"
#include "wire_samples.h"

#include <math.h>

static struct wire_release plain_release(void)
{
    struct wire_release release = {
        .task_name = BASE_STR("abc"),
        .release_counter = 5,
        .floor = 3,
        .manifest_bytes = 200,
        .rollout_id = 6,
        .salt = 7,
        .max_bucket = 100,
        .stage_kind = 2,
        .issued_s = 8,
        .expires_s = 9,
    };
    memset(release.manifest.bytes, 0xee, sizeof release.manifest.bytes);
    return release;
}

static void release_bytes_are_as_documented(void **state)
{
    (void)state;
    struct wire_release release = plain_release();
    uint8_t bytes[256];
    size_t size = 0;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, 1 + 4 + 8 + 8 + 32 + 2 + 8 + 8 + 2 + 1 + 8 + 8);
    static const uint8_t head[] = {5, 3, 'a', 'b', 'c', 5, 0, 0, 0, 0, 0,
                                   0, 0, 3,   0,   0,   0, 0, 0, 0, 0, 0xee};
    static const uint8_t tail[] = {0xee, 0xc8, 1, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
                                   100,  0,    2, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + size - sizeof tail, tail, sizeof tail);
    size_t short_size = 0;
    assert_int_equal(wire_release_encode(&release, bytes, size - 1, &short_size),
                     BASE_ERR_TOO_LARGE);
}

// The payload of plain_release as it was written before there was a floor: kind 1, or 4 with an arm
// behind it.
static size_t older_payload(uint8_t kind, uint8_t *out)
{
    static const uint8_t head[] = {3, 'a', 'b', 'c', 5, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t tail[] = {0xc8, 1, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 100,
                                   0,    2, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t arm[] = {8, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x13, 0x10, 0x27};
    size_t size = 0;
    out[size++] = kind;
    memcpy(out + size, head, sizeof head);
    size += sizeof head;
    memset(out + size, 0xee, WIRE_SHA256_BYTES);
    size += WIRE_SHA256_BYTES;
    memcpy(out + size, tail, sizeof tail);
    size += sizeof tail;
    if (kind == 4) {
        memcpy(out + size, arm, sizeof arm);
        size += sizeof arm;
    }
    return size;
}

// What was signed before is good for as long as it says, with no floor.
static void kinds_without_a_floor_are_read(void **state)
{
    (void)state;
    for (uint8_t kind = 1; kind <= 4; kind += 3) {
        uint8_t bytes[256];
        struct wire_release out;
        size_t size = older_payload(kind, bytes);
        assert_int_equal(wire_release_parse(bytes, size, &out), BASE_OK);
        assert_true(base_str_equal(out.task_name, BASE_STR("abc")));
        assert_true(out.release_counter == 5 && out.floor == 0);
        assert_int_equal(out.manifest.bytes[0], 0xee);
        assert_int_equal(out.manifest.bytes[31], 0xee);
        assert_true(out.manifest_bytes == 200 && out.rollout_id == 6 && out.salt == 7);
        assert_int_equal(out.max_bucket, 100);
        assert_int_equal(out.stage_kind, 2);
        assert_true(out.issued_s == 8 && out.expires_s == 9);
        assert_true(out.arm_salt == (kind == 4 ? 8 : 0));
        assert_int_equal(out.arm_from, kind == 4 ? 5000 : 0);
        assert_int_equal(out.arm_to, kind == 4 ? 10000 : 0);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(wire_release_parse(bytes, cut, &out), BASE_ERR_TRUNCATED);
        }
        bytes[0] = kind == 1 ? 5 : 6; // the kinds with a floor are longer by it
        assert_int_not_equal(wire_release_parse(bytes, size, &out), BASE_OK);
    }
}

// 2 and 3 once were orders; what is not known is told apart from what is malformed.
static void other_kinds_are_not_known(void **state)
{
    (void)state;
    struct wire_release release = plain_release();
    struct wire_release out;
    uint8_t bytes[256];
    size_t size = 0;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_release_kind(bytes, size), 5);
    for (unsigned kind = 0; kind <= UINT8_MAX; kind++) {
        bytes[0] = (uint8_t)kind;
        bool known = kind == 1 || (kind >= 4 && kind <= 6);
        enum base_status status = wire_release_parse(bytes, size, &out);
        if ((status != BASE_ERR_UNSUPPORTED) != known) {
            fail_msg("kind %u: status %d", kind, (int)status);
        }
        assert_int_equal(wire_release_kind(bytes, size), kind);
    }
    assert_int_equal(wire_release_kind(bytes, 0), 0);
    assert_int_equal(wire_release_parse(bytes, 0, &out), BASE_ERR_TRUNCATED);
}

enum spoil {
    SPOIL_NAME,
    SPOIL_COUNTER,
    SPOIL_FLOOR,
    SPOIL_BUCKET_LOW,
    SPOIL_BUCKET_HIGH,
    SPOIL_BYTES_LOW,
    SPOIL_BYTES_HIGH,
    SPOIL_MANIFEST,
    SPOIL_COUNT
};

static void spoil(struct wire_release *release, enum spoil how)
{
    switch (how) {
    case SPOIL_NAME:
        release->task_name = BASE_STR("Abc");
        break;
    case SPOIL_COUNTER:
        release->release_counter = 0;
        break;
    case SPOIL_FLOOR:
        release->floor = release->release_counter + 1;
        break;
    case SPOIL_BUCKET_LOW:
        release->max_bucket = 0;
        break;
    case SPOIL_BUCKET_HIGH:
        release->max_bucket = 10001;
        break;
    case SPOIL_BYTES_LOW:
        release->manifest_bytes = 0;
        break;
    case SPOIL_BYTES_HIGH:
        release->manifest_bytes = WIRE_MANIFEST_BYTES_MAX + 1;
        break;
    case SPOIL_MANIFEST:
        memset(release->manifest.bytes, 0, sizeof release->manifest.bytes);
        break;
    case SPOIL_COUNT:
        break;
    }
}

// What a shadow may cost goes behind the rest, for stage kind 4 alone.
static void shadows_are_signed_too(void **state)
{
    (void)state;
    struct wire_release release = plain_release();
    struct wire_release out;
    uint8_t bytes[256];
    size_t plain_size = 0;
    size_t size = 0;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &plain_size), BASE_OK);
    assert_false(wire_release_is_shadow(&release));
    assert_true(wire_release_task_id(&release) == wire_task_id(release.task_name));
    release.stage_kind = WIRE_STAGE_SHADOW;
    release.shadow_slow_percent = 150;
    release.shadow_memory_percent = 0;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, plain_size + 5);
    assert_int_equal(wire_release_parse(bytes, size, &out), BASE_OK);
    assert_int_equal(out.shadow_slow_percent, 150);
    assert_int_equal(out.shadow_memory_percent, 0);
    assert_true(wire_release_task_id(&out) == wire_shadow_task_id(wire_task_id(out.task_name)));
    assert_true(wire_shadow_task_id(wire_release_task_id(&out)) == wire_task_id(out.task_name));
    assert_int_equal(wire_release_parse(bytes, plain_size, &out), BASE_ERR_TRUNCATED);
    bytes[size - 5] = 99; // a percentage below the least
    assert_int_equal(wire_release_parse(bytes, size, &out), BASE_ERR_INVALID);
    release.shadow_slow_percent = 10001;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    release.shadow_slow_percent = 150;
    release.stage_kind = 2;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
}

// What numbers of a shadow may be off by: there is one way to say it.
static void tolerances_have_one_form(void **state)
{
    (void)state;
    static const struct {
        struct wire_tolerances tolerances;
        bool ok;
    } cases[] = {
        {{.count = 1, .items = {{.absolute = 1e300, .relative = 1}}}, true},
        {{.count = 1, .items = {{.absolute = 0, .relative = 0}}}, false}, // goes without saying
        {{.count = 1, .items = {{.field_size = 2, .field = "id"}}}, true},
        {{.count = 1, .items = {{.absolute = -1}}}, false},
        {{.count = 1, .items = {{.relative = 1.0001}}}, false},
        {{.count = 1, .items = {{.absolute = (double)INFINITY}}}, false},
        {{.count = 1, .items = {{.relative = (double)NAN}}}, false},
        {{.count = 1, .items = {{.field_size = 2, .field = "a\""}}}, false},
        {{.count = 1, .items = {{.field_size = 2, .field = "a\\"}}}, false},
        {{.count = 1, .items = {{.field_size = 2, .field = "a\n"}}}, false},
        {{.count = 1, .items = {{.field_size = 1, .field = "\xff"}}}, false},
        {{.count = 2, .items = {{.relative = 1}, {.relative = 1}}}, false}, // twice
        {{.count = 2, .items = {{.field_size = 1, .field = "b"}, {.field_size = 1, .field = "a"}}},
         false},
        {{.count = 2, .items = {{.field_size = 1, .field = "a"}, {.field_size = 2, .field = "ab"}}},
         true},
        {{.count = WIRE_TOLERANCES_MAX + 1}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire_release release = plain_release();
        struct wire_release out;
        uint8_t bytes[512];
        size_t size = 0;
        release.stage_kind = WIRE_STAGE_SHADOW;
        release.tolerances = cases[i].tolerances;
        enum base_status status = wire_release_encode(&release, bytes, sizeof bytes, &size);
        if (status != (cases[i].ok ? BASE_OK : BASE_ERR_INVALID)) {
            fail_msg("case %zu: status %d", i, (int)status);
        }
        if (status == BASE_OK) {
            assert_int_equal(wire_release_parse(bytes, size, &out), BASE_OK);
            assert_true(wire_tolerances_equal(&release.tolerances, &out.tolerances));
            release.stage_kind = 2; // of a shadow alone
            assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size),
                             BASE_ERR_INVALID);
        }
    }
}

// An arm goes behind the rest, under a kind of its own; what is no arm is not written and not read.
static void arms_are_signed_too(void **state)
{
    (void)state;
    struct wire_release release = plain_release();
    struct wire_release out;
    uint8_t bytes[256];
    size_t plain_size = 0;
    size_t size = 0;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &plain_size), BASE_OK);
    release.arm_salt = release.salt + 1;
    release.arm_from = 5000;
    release.arm_to = 10000;
    assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, plain_size + 12);
    assert_int_equal(bytes[0], 6);
    assert_int_equal(wire_release_parse(bytes, size, &out), BASE_OK);
    assert_true(out.floor == release.floor);
    assert_true(out.arm_salt == release.arm_salt);
    assert_int_equal(out.arm_from, 5000);
    assert_int_equal(out.arm_to, 10000);
    // Without the arm, as a plain INSTALL with something behind it, or with an arm that is none.
    assert_int_equal(wire_release_parse(bytes, plain_size, &out), BASE_ERR_TRUNCATED);
    bytes[0] = 5;
    assert_int_equal(wire_release_parse(bytes, size, &out), BASE_ERR_INVALID);
    bytes[0] = 6;
    memset(bytes + plain_size, 0, 12);
    assert_int_equal(wire_release_parse(bytes, size, &out), BASE_ERR_INVALID);
    static const struct {
        uint64_t salt_over;
        uint16_t from;
        uint16_t to;
    } bad[] = {{0, 0, 5000}, {1, 5000, 5000}, {1, 6000, 5000}, {1, 0, 10001}, {1, 1, 0}};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        release.arm_salt = release.salt + bad[i].salt_over;
        release.arm_from = bad[i].from;
        release.arm_to = bad[i].to;
        assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size),
                         BASE_ERR_INVALID);
    }
}

static void bad_releases_are_neither_written_nor_read(void **state)
{
    (void)state;
    // Where each spoiled field is in the bytes of plain_release, and what makes it bad there.
    static const struct {
        size_t at;
        uint8_t value;
    } patches[SPOIL_COUNT] = {
        [SPOIL_NAME] = {2, 'A'},
        [SPOIL_COUNTER] = {5, 0},
        [SPOIL_FLOOR] = {13, 6},
        [SPOIL_BUCKET_LOW] = {71, 0},
        [SPOIL_BUCKET_HIGH] = {72, 0x28},
        [SPOIL_BYTES_LOW] = {53, 0x80}, // then a varint in the long form
    };
    for (unsigned how = 0; how < SPOIL_COUNT; how++) {
        struct wire_release release = plain_release();
        uint8_t bytes[256];
        size_t size = 0;
        assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size), BASE_OK);
        if (patches[how].at != 0) {
            bytes[patches[how].at] = patches[how].value;
            if (how == SPOIL_BYTES_LOW) {
                bytes[54] = 0;
            }
            struct wire_release out;
            assert_int_equal(wire_release_parse(bytes, size, &out), BASE_ERR_INVALID);
        }
        spoil(&release, (enum spoil)how);
        assert_int_equal(wire_release_encode(&release, bytes, sizeof bytes, &size),
                         BASE_ERR_INVALID);
    }
}

static void random_releases_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 300; round++) {
        struct wire_sample_release sample;
        wire_sample_release(&prng, &sample);
        uint8_t bytes[256];
        size_t size = 0;
        assert_int_equal(wire_release_encode(&sample.release, bytes, sizeof bytes, &size), BASE_OK);
        struct wire_release back;
        assert_int_equal(wire_release_parse(bytes, size, &back), BASE_OK);
        assert_true(base_str_equal(back.task_name, sample.release.task_name));
        back.task_name = sample.release.task_name;
        assert_true(back.release_counter == sample.release.release_counter);
        assert_true(back.floor == sample.release.floor);
        assert_true(wire_sha256_equal(&back.manifest, &sample.release.manifest));
        assert_true(back.manifest_bytes == sample.release.manifest_bytes);
        assert_true(back.rollout_id == sample.release.rollout_id);
        assert_true(back.salt == sample.release.salt);
        assert_int_equal(back.max_bucket, sample.release.max_bucket);
        assert_int_equal(back.stage_kind, sample.release.stage_kind);
        assert_true(back.issued_s == sample.release.issued_s);
        assert_true(back.expires_s == sample.release.expires_s);
        uint8_t older[256];
        size_t older_size = older_release(bytes, size, older);
        assert_int_equal(wire_release_parse(older, older_size, &back), BASE_OK);
        assert_true(back.release_counter == sample.release.release_counter && back.floor == 0);
        assert_true(wire_sha256_equal(&back.manifest, &sample.release.manifest));
        assert_true(back.arm_salt == sample.release.arm_salt);
        if (round < 15) {
            wire_damage(&prng, bytes, size, wire_check_release);
            wire_damage(&prng, older, older_size, wire_check_release);
        }
    }
}

static void envelopes_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t signatures = 1; signatures <= WIRE_STATEMENT_SIGNATURES; signatures++) {
        uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
        size_t size = wire_sample_envelope(&prng, bytes, sizeof bytes, signatures);
        struct wire_envelope envelope;
        assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
        assert_int_equal(envelope.signature_count, signatures);
        assert_int_equal(envelope.type, WIRE_ENVELOPE_TYPE_RELEASE);
        for (uint32_t i = 0; i < signatures; i++) {
            assert_int_equal(envelope.signatures[i].bytes[63], i);
        }
        wire_damage(&prng, bytes, size, wire_check_envelope);
    }
}

static void bad_envelopes_are_refused(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = wire_sample_envelope(&prng, bytes, sizeof bytes, 2);
    struct wire_envelope good;
    struct wire_envelope out;
    assert_int_equal(wire_envelope_parse(bytes, size, &good), BASE_OK);
    uint8_t again[WIRE_STATEMENT_BYTES_MAX];
    size_t again_size;

    struct wire_envelope bad = good;
    bad.signatures[1] = bad.signatures[0]; // a key id counts once
    assert_int_equal(wire_envelope_encode(&bad, again, sizeof again, &again_size),
                     BASE_ERR_INVALID);
    bad = good;
    bad.signature_count = 0;
    assert_int_equal(wire_envelope_encode(&bad, again, sizeof again, &again_size),
                     BASE_ERR_INVALID);
    bad.signature_count = WIRE_STATEMENT_SIGNATURES + 1;
    assert_int_equal(wire_envelope_encode(&bad, again, sizeof again, &again_size),
                     BASE_ERR_INVALID);
    bad = good;
    bad.payload_bytes = 0;
    assert_int_equal(wire_envelope_encode(&bad, again, sizeof again, &again_size),
                     BASE_ERR_INVALID);
    bad = good;
    bad.type = 9;
    assert_int_equal(wire_envelope_encode(&bad, again, sizeof again, &again_size),
                     BASE_ERR_UNSUPPORTED);

    // The same on the way in: duplicate key, type, magic, size.
    size_t signature = WIRE_SHA256_BYTES + WIRE_SIGNATURE_BYTES;
    memcpy(bytes + size - signature, bytes + size - 2 * signature, WIRE_SHA256_BYTES);
    assert_int_equal(wire_envelope_parse(bytes, size, &out), BASE_ERR_INVALID);
    size = wire_sample_envelope(&prng, bytes, sizeof bytes, 1);
    bytes[4] = 9;
    assert_int_equal(wire_envelope_parse(bytes, size, &out), BASE_ERR_UNSUPPORTED);
    bytes[4] = 1;
    bytes[3] = '2';
    assert_int_equal(wire_envelope_parse(bytes, size, &out), BASE_ERR_UNSUPPORTED);
    bytes[3] = '1';
    assert_int_equal(wire_envelope_parse(bytes, WIRE_STATEMENT_BYTES_MAX + 1, &out),
                     BASE_ERR_TOO_LARGE);
    static const uint8_t unsigned_one[] = {'W', 'L', 'S', '1', 1, 1, 'x', 0};
    assert_int_equal(wire_envelope_parse(unsigned_one, sizeof unsigned_one, &out),
                     BASE_ERR_INVALID);
    static const uint8_t empty[] = {'W', 'L', 'S', '1', 1, 0, 1};
    assert_int_equal(wire_envelope_parse(empty, sizeof empty, &out), BASE_ERR_TRUNCATED);
}

// The one envelope without signatures.
static void a_stop_is_not_signed(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint8_t payload[16];
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    uint64_t task_id = 0;
    struct wire_envelope stop = {.type = WIRE_ENVELOPE_TYPE_STOP, .payload = payload};
    struct wire_envelope back;
    assert_int_equal(
        wire_stop_encode(0x1122334455667788, payload, sizeof payload, &stop.payload_bytes),
        BASE_OK);
    assert_int_equal(wire_stop_encode(1, payload, 7, &size), BASE_ERR_TOO_LARGE);
    assert_int_equal(wire_envelope_encode(&stop, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, 4 + 1 + 1 + 8 + 1);
    assert_int_equal(wire_envelope_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.type, WIRE_ENVELOPE_TYPE_STOP);
    assert_int_equal(back.signature_count, 0);
    assert_int_equal(wire_stop_parse(back.payload, back.payload_bytes, &task_id), BASE_OK);
    assert_true(task_id == 0x1122334455667788);
    assert_int_equal(wire_stop_parse(back.payload, 7, &task_id), BASE_ERR_TRUNCATED);
    assert_int_equal(wire_stop_parse(payload, 9, &task_id), BASE_ERR_INVALID);
    wire_damage(&prng, bytes, size, wire_check_envelope);
    stop.signature_count = 1;
    assert_int_equal(wire_envelope_encode(&stop, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    size = wire_sample_envelope(&prng, bytes, sizeof bytes, 1);
    bytes[4] = WIRE_ENVELOPE_TYPE_STOP; // a signed release under another name
    assert_int_equal(wire_envelope_parse(bytes, size, &back), BASE_ERR_INVALID);
}

static void signed_bytes_carry_domain_and_type(void **state)
{
    (void)state;
    uint8_t out[32];
    size_t size = 0;
    assert_int_equal(wire_envelope_signed_bytes(1, (struct base_span){(const uint8_t *)"pay", 3},
                                                out, sizeof out, &size),
                     BASE_OK);
    assert_int_equal(size, 18);
    assert_memory_equal(out, "walle-meta-v1\0\001pay", 18);
    assert_int_equal(wire_envelope_signed_bytes(1, (struct base_span){(const uint8_t *)"pay", 3},
                                                out, 17, &size),
                     BASE_ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(release_bytes_are_as_documented),
        cmocka_unit_test(kinds_without_a_floor_are_read),
        cmocka_unit_test(other_kinds_are_not_known),
        cmocka_unit_test(arms_are_signed_too),
        cmocka_unit_test(shadows_are_signed_too),
        cmocka_unit_test(tolerances_have_one_form),
        cmocka_unit_test(bad_releases_are_neither_written_nor_read),
        cmocka_unit_test(random_releases_round_trip_and_survive_damage),
        cmocka_unit_test(envelopes_round_trip_and_survive_damage),
        cmocka_unit_test(bad_envelopes_are_refused),
        cmocka_unit_test(a_stop_is_not_signed),
        cmocka_unit_test(signed_bytes_carry_domain_and_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
