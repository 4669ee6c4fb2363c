// Sessions of the tunnel over a sink in memory: order, acknowledgement, duplicates, forks, chunks,
// refusals, credit, takeover, and what a hostile peer gets.
#include "tunnel_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICE UINT64_C(0x1122334455667788)
#define EPOCH  0x00010007u

static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static struct tunnel_rig_stream other;
static uint8_t big[2 * WIRE_TUNNEL_RAW_MAX];

static int setup(void **state)
{
    (void)state;
    tunnel_rig_init(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (stream.session != NULL) {
        tunnel_rig_close(&stream);
    }
    if (other.session != NULL) {
        tunnel_rig_close(&other);
    }
    tunnel_rig_done(&rig);
    return 0;
}

static void expect_ack(struct tunnel_rig_stream *from, uint64_t high_water)
{
    enum wire_tunnel_type type;
    const uint8_t *payload;
    size_t size;
    struct wire_tunnel_ack ack;
    assert_true(tunnel_rig_next(from, &type, &payload, &size));
    assert_int_equal(type, WIRE_TUNNEL_ACK);
    assert_int_equal(wire_tunnel_ack_parse(payload, size, &ack), BASE_OK);
    assert_int_equal(ack.level, WIRE_TUNNEL_DURABLE);
    assert_int_equal(ack.high_water, high_water);
    assert_int_equal(ack.sack, 0);
}

static void expect_nothing(struct tunnel_rig_stream *from)
{
    assert_int_equal(from->out_size, 0);
}

static const uint8_t *expect(struct tunnel_rig_stream *from, enum wire_tunnel_type wanted,
                             size_t *out_size)
{
    enum wire_tunnel_type type;
    const uint8_t *payload;
    assert_true(tunnel_rig_next(from, &type, &payload, out_size));
    assert_int_equal(type, wanted);
    return payload;
}

static void test_acknowledged_when_durable(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    assert_int_equal(welcome.high_water, 0);
    assert_int_equal(welcome.hash, device.next_hash);
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    expect_nothing(&stream);
    assert_int_equal(rig.sink.waiting, 3);
    assert_int_equal(tunnel_rig_land(&rig, 2, BASE_OK), 2);
    expect_ack(&stream, 2);
    assert_int_equal(tunnel_rig_land(&rig, 1, BASE_OK), 1);
    expect_ack(&stream, 3);
    expect_nothing(&stream);
    uint64_t high_water;
    uint64_t hash;
    assert_true(gw_tunnel_high_water(rig.tunnel, &(struct gw_mark_key){DEVICE, 1, EPOCH},
                                     &high_water, &hash));
    assert_int_equal(high_water, 3);
    assert_int_equal(hash, device.next_hash);
    assert_true(gw_tunnel_validate(rig.tunnel));
}

static void test_duplicates_are_dropped(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    struct tunnel_rig_device again = device;
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &again, 0);
    assert_int_equal(rig.sink.waiting, 1);
    (void)tunnel_rig_land(&rig, 1, BASE_OK);
    tunnel_rig_device(&again, DEVICE, 2, EPOCH);
    tunnel_rig_send_batch(&stream, &again, 0);
    assert_int_equal(rig.sink.waiting, 0);
    expect_ack(&stream, 1);
    expect_nothing(&stream);
}

// A device that comes back on another worker is welcomed when what it sent before has landed.
static void test_takeover_waits_for_what_is_under_way(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    uint8_t frame[512];
    size_t size;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_send(&other, frame, tunnel_rig_hello(&device, frame));
    expect_nothing(&other);
    (void)tunnel_rig_pump(&rig, 0);
    (void)expect(&stream, WIRE_TUNNEL_DRAIN, &size);
    assert_true(stream.ended);
    // Sent before WELCOME: waits too.
    struct tunnel_rig_device again;
    tunnel_rig_device(&again, DEVICE, 1, EPOCH);
    tunnel_rig_send_batch(&other, &again, 0);
    tunnel_rig_send_batch(&other, &again, 0);
    tunnel_rig_send_batch(&other, &again, 0);
    (void)tunnel_rig_land(&rig, 1, BASE_OK);
    expect_nothing(&other);
    (void)tunnel_rig_land(&rig, 1, BASE_OK);
    struct wire_tunnel_welcome told;
    const uint8_t *payload = expect(&other, WIRE_TUNNEL_WELCOME, &size);
    assert_int_equal(wire_tunnel_welcome_parse(payload, size, &told), BASE_OK);
    assert_int_equal(told.classes[0].high_water, 2);
    assert_int_equal(told.classes[0].hash, device.next_hash);
    while (tunnel_rig_pump(&rig, 1)) {
    }
    assert_int_equal(rig.sink.waiting, 1);
    (void)tunnel_rig_land(&rig, 1, BASE_OK);
    expect_ack(&other, 3);
}

static void test_forks(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    size_t size;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    struct tunnel_rig_device backup = device;
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    (void)tunnel_rig_land(&rig, 2, BASE_OK);
    // Restored from a backup: it is behind.
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_greet(&other, &backup, &welcome);
    assert_int_equal(welcome.high_water, 2);
    const uint8_t *payload = expect(&other, WIRE_TUNNEL_FORK, &size);
    struct wire_tunnel_fork fork;
    assert_int_equal(wire_tunnel_fork_parse(payload, size, &fork), BASE_OK);
    assert_int_equal(fork.high_water, 2);
    assert_int_equal(fork.hash, device.next_hash);
    tunnel_rig_send_batch(&other, &backup, 99); // dropped
    assert_int_equal(rig.sink.waiting, 0);
    tunnel_rig_close(&other);
    // A clone that went as far with other content, and says that it is durable.
    struct tunnel_rig_device clone = device;
    clone.tail = clone.next;
    clone.tail_hash = clone.next_hash ^ 1;
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_greet(&other, &clone, &welcome);
    (void)expect(&other, WIRE_TUNNEL_FORK, &size);
    tunnel_rig_close(&other);
    // One that has something the gateway never had.
    clone = device;
    clone.next += 5;
    clone.tail = clone.next;
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_greet(&other, &clone, &welcome);
    (void)expect(&other, WIRE_TUNNEL_FORK, &size);
    tunnel_rig_close(&other);
    // One that does not see it at WELCOME and goes on: its batch does not link.
    clone = device;
    clone.next_hash ^= 4;
    tunnel_rig_open(&rig, &other, 1, DEVICE);
    tunnel_rig_greet(&other, &clone, &welcome);
    expect_nothing(&other);
    tunnel_rig_send_batch(&other, &clone, 1);
    (void)expect(&other, WIRE_TUNNEL_FORK, &size);
    assert_int_equal(rig.sink.waiting, 0);
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.forks_total, 4);
}

// Two clones with epochs of their own alternate: each goes on where it was.
static void test_epochs_stay(void **state)
{
    (void)state;
    struct tunnel_rig_device devices[3];
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_start(&rig, false);
    for (uint32_t i = 0; i < 3; i++) {
        tunnel_rig_device(&devices[i], DEVICE, 1, EPOCH + i);
    }
    for (uint32_t round = 0; round < 9; round++) {
        struct tunnel_rig_device *device = &devices[round % 3];
        tunnel_rig_open(&rig, &stream, round % 2, DEVICE);
        tunnel_rig_greet(&stream, device, &welcome);
        assert_int_equal(welcome.high_water, round / 3);
        assert_int_equal(welcome.hash, device->next_hash);
        tunnel_rig_send_batch(&stream, device, round);
        (void)tunnel_rig_land(&rig, 1, BASE_OK);
        expect_ack(&stream, round / 3 + 1);
        device->tail = device->next;
        device->tail_hash = device->next_hash;
        tunnel_rig_close(&stream);
    }
    assert_true(gw_tunnel_validate(rig.tunnel));
}

static void test_large_batch_resumes(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    size_t size = tunnel_rig_payload(3, 50000, 5, big, sizeof(big));
    static uint8_t frames[400 * 1024];
    struct tunnel_rig_device sent = device;
    size_t whole = tunnel_rig_batch(&sent, big, size, 3, frames, sizeof(frames));
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &sent, &welcome);
    tunnel_rig_send(&stream, frames, whole - 20000); // breaks within the last CHUNK
    assert_int_equal(stream.status, BASE_OK);
    assert_int_equal(rig.sink.waiting, 0);
    tunnel_rig_close(&stream);
    tunnel_rig_open(&rig, &stream, 1, DEVICE);
    tunnel_rig_greet(&stream, &sent, &welcome);
    assert_int_equal(welcome.partial_batch, 0);
    assert_true(welcome.partial_bytes >= WIRE_TUNNEL_PART_MAX && welcome.partial_bytes < size);
    for (size_t at = welcome.partial_bytes; at < size;) {
        size_t part = size - at < WIRE_TUNNEL_CHUNK_MAX ? size - at : WIRE_TUNNEL_CHUNK_MAX;
        const struct wire_tunnel_chunk chunk = {.class_id = 2,
                                                .number = 0,
                                                .offset = (uint32_t)at,
                                                .bytes = big + at,
                                                .size = (uint32_t)part};
        uint8_t frame[RIG_FRAME_MAX];
        size_t wrote;
        assert_int_equal(wire_tunnel_chunk_encode(&chunk, frame, sizeof(frame), &wrote), BASE_OK);
        tunnel_rig_send(&stream, frame, wrote);
        at += part;
    }
    assert_int_equal(rig.sink.waiting, 1);
    assert_memory_equal(rig.sink.first->batch.bytes, big, size);
    (void)tunnel_rig_land(&rig, 1, BASE_OK);
    expect_ack(&stream, 1);
}

static void test_loss_stands_like_a_batch(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    uint8_t frame[512];
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 3, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send(&stream, frame, tunnel_rig_loss(&device, 5, 70, WIRE_TUNNEL_LOSS_QUOTA, frame));
    tunnel_rig_send_batch(&stream, &device, 0);
    assert_int_equal(tunnel_rig_land(&rig, 9, BASE_OK), 3);
    expect_ack(&stream, 7);
    // One whose hash is not its own.
    struct tunnel_rig_device bad = device;
    size_t size = tunnel_rig_loss(&bad, 1, 1, WIRE_TUNNEL_LOSS_QUOTA, frame);
    frame[size - 1] ^= 1;
    tunnel_rig_send(&stream, frame, size);
    assert_int_equal(stream.status, BASE_ERR_INVALID);
}

// What the content is refused for; what comes behind it is dropped until the number is filled.
static void test_refused_content(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    uint8_t payload[1024];
    uint8_t frame[2048];
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    struct tunnel_rig_device before = device;
    size_t size = tunnel_rig_payload(2, 64, 1, payload, sizeof(payload));
    payload[0] = 9; // no version we know
    size = tunnel_rig_batch(&device, payload, size, 2, frame, sizeof(frame));
    tunnel_rig_send(&stream, frame, size);
    size_t got;
    const uint8_t *bytes = expect(&stream, WIRE_TUNNEL_REJECT, &got);
    struct wire_tunnel_reject reject;
    assert_int_equal(wire_tunnel_reject_parse(bytes, got, &reject), BASE_OK);
    assert_int_equal(reject.number, 0);
    assert_int_equal(reject.record, WIRE_TUNNEL_NO_RECORD);
    assert_int_equal(reject.status, BASE_ERR_UNSUPPORTED);
    tunnel_rig_send_batch(&stream, &device, 0);
    assert_int_equal(rig.sink.waiting, 0);
    expect_nothing(&stream);
    device = before;
    tunnel_rig_send(&stream, frame,
                    tunnel_rig_loss(&device, 1, 2, WIRE_TUNNEL_LOSS_REJECTED, frame));
    tunnel_rig_send_batch(&stream, &device, 0);
    assert_int_equal(tunnel_rig_land(&rig, 9, BASE_OK), 2);
    expect_ack(&stream, 2);
    // A payload that is not what the hash says.
    size = tunnel_rig_payload(2, 64, 1, payload, sizeof(payload));
    size = tunnel_rig_batch(&device, payload, size, 2, frame, sizeof(frame));
    frame[size - 1] ^= 1;
    tunnel_rig_send(&stream, frame, size);
    bytes = expect(&stream, WIRE_TUNNEL_REJECT, &got);
    assert_int_equal(wire_tunnel_reject_parse(bytes, got, &reject), BASE_OK);
    assert_int_equal(reject.status, BASE_ERR_HASH);
}

static void test_a_failed_sink_sends_away(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    size_t size;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    struct tunnel_rig_device before = device;
    tunnel_rig_send_batch(&stream, &device, 0);
    tunnel_rig_send_batch(&stream, &device, 0);
    (void)tunnel_rig_land(&rig, 2, BASE_ERR_FULL);
    (void)expect(&stream, WIRE_TUNNEL_DRAIN, &size);
    assert_true(stream.ended && !stream.reset);
    tunnel_rig_close(&stream);
    assert_true(gw_tunnel_validate(rig.tunnel));
    // It comes again, all of it.
    device = before;
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    assert_int_equal(welcome.high_water, 0);
    rig.sink.refuse = BASE_ERR_FULL;
    tunnel_rig_send_batch(&stream, &device, 0);
    (void)expect(&stream, WIRE_TUNNEL_DRAIN, &size);
    tunnel_rig_close(&stream);
    rig.sink.refuse = BASE_OK;
    device = before;
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send_batch(&stream, &device, 0);
    assert_int_equal(tunnel_rig_land(&rig, 2, BASE_OK), 1);
    expect_ack(&stream, 1);
    assert_true(gw_tunnel_validate(rig.tunnel));
}

static void test_credit(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    static uint8_t frames[64 * 1024];
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    assert_int_equal(welcome.credit_bytes, GW_TUNNEL_CREDIT_BYTES);
    uint64_t used = 0;
    uint64_t granted = welcome.credit_bytes;
    while (used + 20100 <= granted) { // honest to the last byte
        size_t size = tunnel_rig_payload(1, 20000, used, big, sizeof(big));
        used += size;
        size = tunnel_rig_batch(&device, big, size, 1, frames, sizeof(frames));
        tunnel_rig_send(&stream, frames, size);
        assert_int_equal(stream.status, BASE_OK);
    }
    expect_nothing(&stream);
    (void)tunnel_rig_land(&rig, 100, BASE_OK);
    expect_ack(&stream, device.next);
    size_t size;
    const uint8_t *payload = expect(&stream, WIRE_TUNNEL_CREDIT, &size);
    struct wire_tunnel_credit credit;
    assert_int_equal(wire_tunnel_credit_parse(payload, size, &credit), BASE_OK);
    assert_int_equal(credit.bytes, used);
    granted += credit.bytes;
    enum base_status status = BASE_OK;
    while (status == BASE_OK && used < granted + 100000) {
        size = tunnel_rig_payload(1, 20000, used, big, sizeof(big));
        used += size;
        size = tunnel_rig_batch(&device, big, size, 1, frames, sizeof(frames));
        tunnel_rig_send(&stream, frames, size);
        status = stream.status;
        assert_true(status == BASE_OK ? used <= granted : used > granted);
    }
    assert_int_equal(status, BASE_ERR_LIMIT);
}

static void send_raw(const char *bytes, size_t size)
{
    tunnel_rig_send(&stream, (const uint8_t *)bytes, size);
}

static void test_hostile_frames(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_start(&rig, false);
    tunnel_rig_device(&device, DEVICE, 2, EPOCH);
    // Not HELLO first; a frame of no type; a huge one; another device's HELLO; WELCOME from a
    // device.
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {{"\x02\x01\x00\x00x", 5}, {"\x77\x01\x00\x00x", 5}, {"\x01\xff\xff\xff", 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tunnel_rig_open(&rig, &stream, 0, DEVICE);
        send_raw(cases[i].bytes, cases[i].size);
        assert_true(stream.status < 0);
        send_raw("more", 4); // dropped
        assert_int_equal(stream.status, BASE_OK);
        tunnel_rig_close(&stream);
    }
    tunnel_rig_open(&rig, &stream, 0, DEVICE + 1);
    uint8_t frame[512];
    tunnel_rig_send(&stream, frame, tunnel_rig_hello(&device, frame));
    assert_int_equal(stream.status, BASE_ERR_DENIED);
    tunnel_rig_close(&stream);
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send(&stream, frame, tunnel_rig_hello(&device, frame)); // a second one
    assert_int_equal(stream.status, BASE_ERR_INVALID);
    tunnel_rig_close(&stream);
    // Reads nothing.
    tunnel_rig_open(&rig, &stream, 0, DEVICE);
    stream.out_limit = 10;
    tunnel_rig_send(&stream, frame, tunnel_rig_hello(&device, frame));
    assert_true(stream.ended && stream.reset);
    tunnel_rig_close(&stream);
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.violations_total, 5);
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(stats.memory_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_acknowledged_when_durable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicates_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_takeover_waits_for_what_is_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epochs_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_batch_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loss_stands_like_a_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_sink_sends_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_frames, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
