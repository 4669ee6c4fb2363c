// What of batches is looked at: schemas and who may upload what, compression with and without
// dictionaries, bombs; and what bounds a session: its rate, the memory of all, the turn of a
// worker.
#include "test_kit.h"
#include "tunnel_rig.h"

#include "base/check.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#define DEVICE UINT64_C(0x42)
#define DICT   0x00c0ffeeu

static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static struct tunnel_rig_stream other;
static struct tunnel_rig_stream late;
static struct tunnel_rig_device device;
static struct wire_tunnel_welcome_class welcome;
static uint8_t payload[WIRE_TUNNEL_RAW_MAX];
static uint8_t frame[256 * 1024];
static _Atomic bool dict_is_there;
static const char dictionary[] =
    "{\"item\":\"i-17\",\"dwell\":12.5,\"clicks\":3,\"log\":[{\"k\":\"scroll\",\"v\":1}]}";

static enum base_status load_dict(void *ctx, uint32_t id, uint8_t **out_bytes, size_t *out_size)
{
    (void)ctx;
    if (id != DICT || !dict_is_there) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_bytes = malloc(sizeof(dictionary));
    base_check(*out_bytes != NULL);
    memcpy(*out_bytes, dictionary, sizeof(dictionary));
    *out_size = sizeof(dictionary);
    return BASE_OK;
}

static int setup(void **state)
{
    (void)state;
    tunnel_rig_init(&rig);
    rig.options.dicts.load = load_dict;
    dict_is_there = true;
    return 0;
}

static void start(void)
{
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, 1);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
}

static int teardown(void **state)
{
    (void)state;
    tunnel_rig_close(&stream);
    tunnel_rig_close(&other);
    tunnel_rig_close(&late);
    tunnel_rig_done(&rig);
    return 0;
}

static const uint8_t *expect(enum wire_tunnel_type wanted, size_t *out_size)
{
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    assert_true(tunnel_rig_next(&stream, &type, &bytes, out_size));
    assert_int_equal(type, wanted);
    return bytes;
}

static void expect_reject(enum base_status status, uint32_t record)
{
    size_t size;
    struct wire_tunnel_reject reject;
    const uint8_t *bytes = expect(WIRE_TUNNEL_REJECT, &size);
    assert_int_equal(wire_tunnel_reject_parse(bytes, size, &reject), BASE_OK);
    assert_int_equal(reject.status, status);
    assert_int_equal(reject.record, record);
}

// Records of one upload; the device goes on only when they are to be taken.
static void send_records(struct wire_upload_key upload, const char *const *bodies, uint32_t count,
                         bool taken)
{
    struct wire_record records[80];
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        records[i] = (struct wire_record){.format = WIRE_RECORD_JSON,
                                          .wall_ms = 5,
                                          .bytes = (const uint8_t *)bodies[i],
                                          .size = (uint32_t)strlen(bodies[i])};
    }
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){&upload, 1, records, count},
                                       payload, sizeof(payload), &size),
                     BASE_OK);
    struct tunnel_rig_device before = device;
    size = tunnel_rig_batch(&device, payload, size, count, frame, sizeof(frame));
    tunnel_rig_send(&stream, frame, size);
    assert_int_equal(stream.status, BASE_OK);
    device = taken ? device : before;
}

static void test_schemas(void **state)
{
    (void)state;
    const struct wire_upload_key upload = {BASE_STR("shop/ipv"), BASE_STR("feature"), 1};
    const struct wire_upload_key foreign = {BASE_STR("bank/ipv"), BASE_STR("feature"), 1};
    const struct wire_upload_key unknown = {BASE_STR("shop/ipv"), BASE_STR("other"), 1};
    static const char *const good[] = {"{\"a\":1}", "{\"a\":2,\"b\":\"x\"}", "{\"a\":3}"};
    static const char *const third[] = {"{\"a\":1}", "{\"a\":2}", "{\"a\":\"3\"}"};
    static const char *const broken[] = {"{\"a\":1}", "{\"a\":"};
    static const char *const large[] = {"{\"a\":1,\"b\":\"12345\"}"};
    struct base_error error = {0};
    rig.options.refuse_unknown = true;
    start();
    assert_int_equal(
        gw_tunnel_declare(
            rig.tunnel,
            &(struct gw_upload){7, upload, 2,
                                BASE_STR("{\"fields\":{\"a\":\"integer\",\"b?\":{\"type\":"
                                         "\"string\",\"max\":4}}}")},
            &error),
        BASE_OK);
    assert_int_equal(
        gw_tunnel_declare(rig.tunnel, &(struct gw_upload){8, foreign, 2, BASE_STR("")}, &error),
        BASE_OK);
    send_records(upload, good, 3, true);
    assert_int_equal(rig.sink.waiting, 1);
    send_records(upload, third, 3, false);
    expect_reject(BASE_ERR_INVALID, 2);
    send_records(upload, broken, 2, false);
    expect_reject(BASE_ERR_INVALID, 1);
    send_records(upload, large, 1, false);
    expect_reject(BASE_ERR_TOO_LARGE, 0);
    send_records(foreign, good, 1, false);
    expect_reject(BASE_ERR_DENIED, 0);
    send_records(unknown, good, 1, false);
    expect_reject(BASE_ERR_DENIED, 0);
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.unknown_total, 2);
    send_records(upload, good, 1, true);
    assert_int_equal(rig.sink.waiting, 2);
    // Of another class than it was declared for.
    assert_int_equal(
        gw_tunnel_declare(rig.tunnel, &(struct gw_upload){7, upload, 1, BASE_STR("")}, &error),
        BASE_OK);
    send_records(upload, good, 1, false);
    expect_reject(BASE_ERR_INVALID, 0);
    const struct gw_upload_entry *found = gw_uploads_find(gw_tunnel_uploads(rig.tunnel), &upload);
    assert_int_equal(found->records, 4);
    assert_int_equal(found->rejected, 4);
}

// One REJECT names all bad records of a batch; what is bad of the batch behind it is told with it;
// and however many there are, the stream stays.
static void test_refused_records_are_told_together(void **state)
{
    (void)state;
    const struct wire_upload_key upload = {BASE_STR("shop/ipv"), BASE_STR("feature"), 1};
    static const char *const mixed[] = {"{\"a\":1}", "{\"a\":\"x\"}", "{\"a\":2}", "{}", "[]"};
    static const char *const good[] = {"{\"a\":1}"};
    struct base_error error = {0};
    struct wire_tunnel_reject told;
    size_t size;
    start();
    assert_int_equal(
        gw_tunnel_declare(
            rig.tunnel,
            &(struct gw_upload){7, upload, 2, BASE_STR("{\"fields\":{\"a\":\"integer\"}}")},
            &error),
        BASE_OK);
    struct tunnel_rig_device first = device;
    send_records(upload, mixed, 5, true);
    send_records(upload, mixed, 3, true);
    send_records(upload, good, 1, true);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *bytes = expect(WIRE_TUNNEL_REJECT, &size);
        assert_int_equal(wire_tunnel_reject_parse(bytes, size, &told), BASE_OK);
        assert_int_equal(told.number, first.next + i);
        assert_int_equal(told.record, 1);
        assert_int_equal(told.more, i == 0 ? 6 : 0);
    }
    assert_int_equal(rig.sink.waiting, 0);
    const struct gw_upload_entry *found = gw_uploads_find(gw_tunnel_uploads(rig.tunnel), &upload);
    assert_int_equal(found->rejected, 4);
    assert_int_equal(found->records, 0);
    // The second comes again: it is refused again, and counted once.
    device = first;
    size = tunnel_rig_loss(&device, 1, 5, WIRE_TUNNEL_LOSS_SPLIT, frame);
    tunnel_rig_send(&stream, frame, size);
    const struct tunnel_rig_device second = device;
    for (uint32_t i = 0; i < 3 * GW_TUNNEL_STRIKES_MAX; i++) {
        device = second;
        rig.mono_us += 1000000;
        send_records(upload, mixed, 3, false);
    }
    assert_int_equal(stream.status, BASE_OK);
    assert_false(stream.ended);
    assert_int_equal(found->rejected, 4);
    send_records(upload, good, 1, true);
    assert_int_equal(found->records, 1);
}

static void declare_integers(const struct wire_upload_key *upload)
{
    struct base_error error = {0};
    assert_int_equal(
        gw_tunnel_declare(
            rig.tunnel,
            &(struct gw_upload){7, *upload, 2, BASE_STR("{\"fields\":{\"a\":\"integer\"}}")},
            &error),
        BASE_OK);
}

static void read_reject(struct wire_tunnel_reject *out)
{
    size_t size;
    const uint8_t *bytes = expect(WIRE_TUNNEL_REJECT, &size);
    assert_int_equal(wire_tunnel_reject_parse(bytes, size, out), BASE_OK);
}

// One REJECT names the first bad record and those of the 64 behind it; what is bad beyond is told
// when the rest comes again.
static void test_a_refusal_names_65_records(void **state)
{
    (void)state;
    const struct wire_upload_key upload = {BASE_STR("shop/ipv"), BASE_STR("feature"), 1};
    static const uint32_t bad[] = {1, 2, 7, 40, 64, 65, 66, 70};
    const char *bodies[72];
    struct wire_tunnel_reject told;
    uint64_t mask = 0;
    for (uint32_t i = 0; i < TEST_COUNT(bodies); i++) {
        bodies[i] = "{\"a\":1}";
    }
    for (uint32_t i = 0; i < TEST_COUNT(bad); i++) {
        bodies[bad[i]] = "{}";
        mask |= bad[i] >= 2 && bad[i] <= 65 ? UINT64_C(1) << (bad[i] - 2) : 0;
    }
    start();
    declare_integers(&upload);
    send_records(upload, bodies, TEST_COUNT(bodies), false);
    read_reject(&told);
    assert_int_equal(told.record, 1);
    assert_true(told.more == mask);
    const struct gw_upload_entry *found = gw_uploads_find(gw_tunnel_uploads(rig.tunnel), &upload);
    assert_int_equal(found->rejected, 6);
    // All bad: the mask is full.
    for (uint32_t i = 0; i < TEST_COUNT(bodies); i++) {
        bodies[i] = "{}";
    }
    send_records(upload, bodies, TEST_COUNT(bodies), false);
    read_reject(&told);
    assert_int_equal(told.record, 0);
    assert_true(told.more == UINT64_MAX);
    // Its very last record.
    bodies[0] = bodies[1] = "{\"a\":1}";
    send_records(upload, bodies, 3, false);
    read_reject(&told);
    assert_int_equal(told.record, 2);
    assert_true(told.more == 0);
    assert_false(stream.ended);
}

// An agent of before, which says 1 in its HELLO, hears of one bad record at a time and of nothing
// behind it, and what it has split then is taken.
static void test_an_older_device_hears_of_one_record(void **state)
{
    (void)state;
    const struct wire_upload_key upload = {BASE_STR("shop/ipv"), BASE_STR("feature"), 1};
    static const char *const mixed[] = {"{\"a\":1}", "{}", "{\"a\":2}", "{}", "[]"};
    static const char *const rest[] = {"{\"a\":1}", "{\"a\":2}"};
    struct wire_tunnel_reject told;
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    size_t size;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, 1);
    device.older = true;
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    declare_integers(&upload);
    struct tunnel_rig_device first = device;
    send_records(upload, mixed, 5, true);
    send_records(upload, mixed, 5, true); // dropped without a word
    read_reject(&told);
    assert_int_equal(told.number, first.next);
    assert_int_equal(told.record, 1);
    assert_true(told.more == 0);
    assert_false(tunnel_rig_next(&stream, &type, &bytes, &size));
    device = first;
    size = tunnel_rig_loss(&device, 1, 5, WIRE_TUNNEL_LOSS_SPLIT, frame);
    tunnel_rig_send(&stream, frame, size);
    size = tunnel_rig_loss(&device, 1, 1, WIRE_TUNNEL_LOSS_REJECTED, frame);
    tunnel_rig_send(&stream, frame, size);
    send_records(upload, rest, 2, true);
    const struct gw_upload_entry *found = gw_uploads_find(gw_tunnel_uploads(rig.tunnel), &upload);
    assert_int_equal(found->records, 2);
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.splits_total, 1);
    assert_int_equal(stats.losses_total, 1); // the five that were sent anew are not lost
    assert_int_equal(stats.lost_records_total, 1);
    assert_false(stream.ended);
}

// ---- Compression

static size_t compressed_batch(uint32_t dict, bool use_dict, uint32_t raw_bytes, uint32_t lie)
{
    static uint8_t sent[WIRE_TUNNEL_RAW_MAX];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t size = use_dict ? ZSTD_compress_usingDict(context, sent, sizeof(sent), payload,
                                                     raw_bytes, dictionary, sizeof(dictionary), 3)
                           : ZSTD_compress2(context, sent, sizeof(sent), payload, raw_bytes);
    ZSTD_freeCCtx(context);
    assert_false(ZSTD_isError(size));
    struct wire_tunnel_batch batch = {
        .class_id = device.class_id,
        .epoch = device.epoch,
        .number = device.next,
        .first_seq = device.next_seq,
        .count = 2,
        .prev_hash = device.next_hash,
        .hash = wire_tunnel_chain(device.next_hash, payload, raw_bytes),
        .codec = dict != 0 ? WIRE_TUNNEL_ZSTD_DICT : WIRE_TUNNEL_ZSTD,
        .dict = dict,
        .raw_bytes = lie != 0 ? lie : raw_bytes,
        .sent_bytes = (uint32_t)size,
        .bytes = sent,
        .part_bytes = (uint32_t)size,
    };
    size_t wrote = 0;
    assert_int_equal(wire_tunnel_batch_encode(&batch, frame, sizeof(frame), &wrote), BASE_OK);
    return wrote;
}

static void advance(uint32_t raw_bytes)
{
    device.next_hash = wire_tunnel_chain(device.next_hash, payload, raw_bytes);
    device.next++;
    device.next_seq += 2;
}

static void test_dictionaries(void **state)
{
    (void)state;
    size_t got;
    dict_is_there = false;
    start();
    uint32_t size = (uint32_t)tunnel_rig_payload(2, 400, 1, payload, sizeof(payload));
    tunnel_rig_send(&stream, frame, compressed_batch(0, false, size, 0));
    assert_int_equal(rig.sink.waiting, 1);
    advance(size);
    // Not known: in full, please. Nothing is lost.
    tunnel_rig_send(&stream, frame, compressed_batch(DICT, true, size, 0));
    (void)expect(WIRE_TUNNEL_NEEDFULL, &got);
    assert_int_equal(rig.sink.waiting, 1);
    // It turns up; the keeper fetches it when it is asked for again.
    dict_is_there = true;
    for (uint32_t i = 0; i < 60 && rig.sink.waiting == 1; i++) {
        assert_non_null(gw_tunnel_dict_wait(rig.tunnel, DICT));
        tunnel_rig_send(&stream, frame, compressed_batch(DICT, true, size, 0));
    }
    assert_int_equal(rig.sink.waiting, 2);
    advance(size);
    // Made with another dictionary under this id: in full, too.
    tunnel_rig_send(&stream, frame, compressed_batch(DICT, false, size, 0));
    if (rig.sink.waiting == 2) {
        (void)expect(WIRE_TUNNEL_NEEDFULL, &got);
    } else {
        advance(size); // zstd did not need it
    }
    tunnel_rig_send(&stream, frame, compressed_batch(0, false, size, 0));
    assert_true(rig.sink.waiting >= 3);
    assert_int_equal(stream.status, BASE_OK);
}

static void test_bombs(void **state)
{
    (void)state;
    start();
    memset(payload, 0, sizeof(payload));
    // The frame says another size than the batch; then what comes out is no batch of records.
    tunnel_rig_send(&stream, frame, compressed_batch(0, false, WIRE_TUNNEL_RAW_MAX, 100));
    // (a BATCH whose sent size is above its raw size does not even parse)
    if (stream.status == BASE_OK) {
        expect_reject(BASE_ERR_TOO_LARGE, WIRE_TUNNEL_NO_RECORD);
    }
    tunnel_rig_close(&stream);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send(&stream, frame, compressed_batch(0, false, WIRE_TUNNEL_RAW_MAX, 4000));
    expect_reject(BASE_ERR_TOO_LARGE, WIRE_TUNNEL_NO_RECORD);
    size_t size = compressed_batch(0, false, WIRE_TUNNEL_RAW_MAX, 0);
    // A worker's turn ends after a few of them; the rest waits for the next.
    uint32_t sent = 0;
    for (uint32_t i = 0; i < 20; i++) {
        enum base_status status = gw_session_receive(stream.session, frame, size);
        assert_int_equal(status, BASE_OK);
        sent++;
    }
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    uint64_t first = stats.rejects_total;
    assert_true(first < sent);
    while (tunnel_rig_pump(&rig, 0)) { // turn after turn
    }
    gw_tunnel_worker_flush(rig.workers[0].worker);
    while (tunnel_rig_pump(&rig, 0)) {
    }
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_true(stats.rejects_total >= first + sent - 8);
    // Too many refusals, and it is over.
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < 200 && status == BASE_OK && !stream.ended; i++) {
        status = gw_session_receive(stream.session, frame, size);
        gw_tunnel_worker_flush(rig.workers[0].worker);
    }
    assert_true(status == BASE_ERR_LIMIT || stream.ended);
    assert_int_equal(rig.sink.waiting, 0);
}

// ---- Bounds

static void test_rate(void **state)
{
    (void)state;
    size_t size;
    rig.options.device_batches_per_s = 10;
    start();
    for (uint32_t i = 0; i < 20; i++) {
        tunnel_rig_send_batch(&stream, &device, 0);
    }
    assert_int_equal(stream.out_size, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    const uint8_t *bytes = expect(WIRE_TUNNEL_THROTTLE, &size);
    struct wire_tunnel_throttle throttle;
    assert_int_equal(wire_tunnel_throttle_parse(bytes, size, &throttle), BASE_OK);
    assert_int_equal(throttle.class_mask, 1u << 2);
    assert_true(throttle.not_before_ms > 0 && throttle.spread_ms > 0);
    // Said once a second, not for each.
    tunnel_rig_send_batch(&stream, &device, 0);
    assert_int_equal(stream.out_size, 0);
    rig.mono_us += 10000000;
    for (uint32_t i = 0; i < 20; i++) {
        tunnel_rig_send_batch(&stream, &device, 0);
    }
    assert_int_equal(stream.out_size, 0);
    for (uint32_t i = 0; i < 200 && stream.status == BASE_OK; i++) {
        tunnel_rig_send_batch(&stream, &device, 0);
    }
    assert_int_equal(stream.status, BASE_ERR_LIMIT);
}

// The rate is the device's: streams on two workers share it, and coming back gains nothing.
static void test_rate_is_of_the_device(void **state)
{
    (void)state;
    struct tunnel_rig_device second;
    size_t size;
    rig.options.device_batches_per_s = 10;
    start();
    tunnel_rig_device(&second, DEVICE, 3, 1);
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_greet(&other, &second, &welcome);
    for (uint32_t i = 0; i < 10; i++) {
        tunnel_rig_send_batch(&stream, &device, 0);
        tunnel_rig_send_batch(&other, &second, 0);
    }
    assert_int_equal(stream.out_size + other.out_size, 0);
    tunnel_rig_send_batch(&other, &second, 0);
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    assert_true(tunnel_rig_next(&other, &type, &bytes, &size));
    assert_int_equal(type, WIRE_TUNNEL_THROTTLE);
    for (uint32_t i = 0; i < 80 && stream.status == BASE_OK; i++) {
        tunnel_rig_send_batch(&stream, &device, 0);
    }
    assert_int_equal(stream.status, BASE_ERR_LIMIT);
    tunnel_rig_close(&stream);
    tunnel_rig_close(&other);
    while (tunnel_rig_land(&rig, 200, BASE_OK) > 0) {
    }
    tunnel_rig_open(&rig, &stream, 1, DEVICE);
    tunnel_rig_greet(&stream, &second, &welcome);
    tunnel_rig_send_batch(&stream, &second, 0);
    assert_int_equal(stream.status, BASE_ERR_LIMIT);
    tunnel_rig_close(&stream);
    // In time it is as good as any.
    rig.mono_us += 11000000;
    tunnel_rig_open(&rig, &stream, 1, DEVICE);
    tunnel_rig_greet(&stream, &second, &welcome);
    tunnel_rig_send_batch(&stream, &second, 0);
    assert_int_equal(stream.status, BASE_OK);
    assert_int_equal(stream.out_size, 0);
}

// Beyond the memory no credit is given; who waits gets it when there is memory again, without
// having to send anything.
static void test_memory(void **state)
{
    (void)state;
    struct tunnel_rig_device second;
    size_t size;
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    rig.options.memory_bytes = 460 * 1024;
    start();
    tunnel_rig_device(&second, DEVICE + 1, 2, 1);
    tunnel_rig_open(&rig, &other, 1, DEVICE + 1);
    tunnel_rig_greet(&other, &second, &welcome);
    for (uint32_t i = 0; i < 12; i++) {
        size_t raw = tunnel_rig_payload(1, 20000, i, payload, sizeof(payload));
        size = tunnel_rig_batch(&device, payload, raw, 1, frame, sizeof(frame));
        tunnel_rig_send(&stream, frame, size);
        raw = tunnel_rig_payload(1, 21000, i, payload, sizeof(payload));
        size = tunnel_rig_batch(&second, payload, raw, 1, frame, sizeof(frame));
        tunnel_rig_send(&other, frame, size);
    }
    assert_int_equal(rig.sink.waiting, 24);
    // A third one is welcomed with the least there is.
    struct tunnel_rig_device third;
    tunnel_rig_device(&third, DEVICE + 2, 2, 1);
    tunnel_rig_open(&rig, &late, 0, DEVICE + 2);
    tunnel_rig_greet(&late, &third, &welcome);
    size_t raw = tunnel_rig_payload(1, 60000, 3, payload, sizeof(payload));
    size = tunnel_rig_batch(&third, payload, raw, 1, frame, sizeof(frame));
    tunnel_rig_send(&late, frame, size);
    assert_int_equal(welcome.credit_bytes, WIRE_TUNNEL_FIRST_CREDIT);
    assert_int_equal(tunnel_rig_land(&rig, 1, BASE_OK), 1);
    uint32_t credits = 0;
    while (tunnel_rig_next(&stream, &type, &bytes, &size)) {
        credits += type == WIRE_TUNNEL_CREDIT;
    }
    assert_int_equal(credits, 0);
    (void)tunnel_rig_land(&rig, 30, BASE_OK);
    while (tunnel_rig_next(&stream, &type, &bytes, &size)) {
        credits += type == WIRE_TUNNEL_CREDIT;
    }
    assert_true(credits > 0);
    // Far beyond: sent away, and nothing is lost by it.
    rig.options.memory_bytes = 0;
    tunnel_rig_close(&late);
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.memory_bytes, 0);
    assert_true(gw_tunnel_validate(rig.tunnel));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_schemas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_records_are_told_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_refusal_names_65_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_older_device_hears_of_one_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dictionaries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bombs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rate_is_of_the_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
