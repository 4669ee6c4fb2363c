// docs/PROTOCOL.md, "The tunnel": its examples are what the codecs write, its limits are the
// code's.
#include "protocol_page.h"
#include "wire_check_tunnel.h"

#define DEVICE 0x4d2u
#define EPOCH  0x00019c4du

// The examples' batch: two records of one upload.
static size_t make_payload(uint8_t *out)
{
    const struct wire_upload_key upload = {BASE_STR("shop/page-view"), BASE_STR("feature"), 3};
    const struct wire_record records[2] = {
        {0, WIRE_RECORD_JSON, 1790000000000, (const uint8_t *)"{\"dwell\":4}", 11},
        {0, WIRE_RECORD_JSON, 1790000001500, (const uint8_t *)"{\"dwell\":9}", 11},
    };
    size_t size = 0;
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){&upload, 1, records, 2}, out,
                                       BLOCK_MAX, &size),
                     BASE_OK);
    return size;
}

static struct wire_tunnel_batch make_batch(const uint8_t *payload, size_t size)
{
    uint64_t first = wire_tunnel_chain_first(DEVICE, 2, EPOCH);
    return (struct wire_tunnel_batch){
        .class_id = 2,
        .epoch = EPOCH,
        .number = 0,
        .first_seq = 0,
        .count = 2,
        .prev_hash = first,
        .hash = wire_tunnel_chain(first, payload, size),
        .raw_bytes = (uint32_t)size,
        .sent_bytes = (uint32_t)size,
        .bytes = payload,
        .part_bytes = (uint32_t)size,
    };
}

static struct wire_tunnel_loss_frame make_loss(uint64_t prev_hash)
{
    struct wire_tunnel_loss_frame loss = {
        .class_id = 2,
        .epoch = EPOCH,
        .number = 1,
        .numbers = 3,
        .first_seq = 2,
        .count = 100,
        .reason = WIRE_TUNNEL_LOSS_QUOTA,
        .prev_hash = prev_hash,
    };
    loss.hash = wire_tunnel_chain_loss(&loss);
    return loss;
}

static void what_devices_say(void **state)
{
    (void)state;
    uint8_t payload[BLOCK_MAX];
    uint8_t bytes[BLOCK_MAX];
    size_t size = make_payload(payload);
    expect("batch-payload", payload, size);
    const struct wire_tunnel_batch batch = make_batch(payload, size);
    const struct wire_tunnel_loss_frame loss = make_loss(batch.hash);
    const struct wire_tunnel_hello hello = {
        .device = DEVICE,
        .app = BASE_STR("3.4.1"),
        .os = BASE_STR("android 14"),
        .wall_ms = 1790000002000,
        .dict_count = 1,
        .dicts = {0x2a1c0709},
        .class_count = 1,
        .classes =
            {{.class_id = 2, .epoch = EPOCH, .tail = 0, .next = 4, .tail_hash = batch.prev_hash}},
    };
    assert_int_equal(wire_tunnel_hello_encode(&hello, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-hello", bytes, size);
    assert_int_equal(wire_tunnel_batch_encode(&batch, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-batch", bytes, size);
    assert_int_equal(wire_tunnel_loss_encode(&loss, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-loss", bytes, size);
    const struct wire_tunnel_chunk chunk = {2, 4, 65536, (const uint8_t *)"abc", 3};
    assert_int_equal(wire_tunnel_chunk_encode(&chunk, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-chunk", bytes, size);
    assert_int_equal(wire_tunnel_ping_encode(WIRE_TUNNEL_PING, 7, bytes, sizeof bytes, &size),
                     BASE_OK);
    expect("tunnel-ping", bytes, size);
}

static void what_gateways_say(void **state)
{
    (void)state;
    uint8_t payload[BLOCK_MAX];
    uint8_t bytes[BLOCK_MAX];
    size_t size = make_payload(payload);
    const struct wire_tunnel_batch batch = make_batch(payload, size);
    const struct wire_tunnel_welcome welcome = {
        .wall_ms = 1790000002100,
        .dict = 0x2a1c0709,
        .class_count = 1,
        .classes = {{.class_id = 2,
                     .epoch = EPOCH,
                     .high_water = 1,
                     .hash = batch.hash,
                     .credit_bytes = 262144,
                     .credit_records = 16384}},
    };
    assert_int_equal(wire_tunnel_welcome_encode(&welcome, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-welcome", bytes, size);
    const struct wire_tunnel_ack ack = {2, WIRE_TUNNEL_DURABLE, EPOCH, 4, 0};
    assert_int_equal(wire_tunnel_ack_encode(&ack, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-ack", bytes, size);
    const struct wire_tunnel_credit credit = {2, 65536, 4096};
    assert_int_equal(wire_tunnel_credit_encode(&credit, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-credit", bytes, size);
    const struct wire_tunnel_throttle throttle = {0x0c, 1000, 5000, 250000};
    assert_int_equal(wire_tunnel_throttle_encode(&throttle, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-throttle", bytes, size);
    const struct wire_tunnel_reject reject = {2, 4, 37, BASE_ERR_INVALID, 5};
    assert_int_equal(wire_tunnel_reject_encode(&reject, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-reject", bytes, size);
    const struct wire_tunnel_needfull needfull = {2, 4};
    assert_int_equal(wire_tunnel_needfull_encode(&needfull, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-needfull", bytes, size);
    const struct wire_tunnel_fork fork = {2, EPOCH, 1, batch.hash};
    assert_int_equal(wire_tunnel_fork_encode(&fork, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-fork", bytes, size);
    const struct wire_tunnel_drain drain = {1000, 4000};
    assert_int_equal(wire_tunnel_drain_encode(&drain, bytes, sizeof bytes, &size), BASE_OK);
    expect("tunnel-drain", bytes, size);
}

static void every_example_parses(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "tunnel-hello",    "tunnel-batch", "tunnel-loss",   "tunnel-chunk",    "tunnel-ping",
        "tunnel-welcome",  "tunnel-ack",   "tunnel-credit", "tunnel-throttle", "tunnel-reject",
        "tunnel-needfull", "tunnel-fork",  "tunnel-drain"};
    struct block block;
    for (size_t i = 0; i < TEST_COUNT(frames); i++) {
        read_hex(frames[i], &block);
        assert_int_equal(wire_check_tunnel_frame(block.bytes, block.size), BASE_OK);
    }
    read_hex("batch-payload", &block);
    assert_int_equal(wire_check_batch(block.bytes, block.size), BASE_OK);
}

#define LIMIT(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct limit limits[] = {
    LIMIT(WIRE_TUNNEL_WINDOW),     LIMIT(WIRE_TUNNEL_FRAME_MAX),  LIMIT(WIRE_TUNNEL_PART_MAX),
    LIMIT(WIRE_TUNNEL_CHUNK_MAX),  LIMIT(WIRE_TUNNEL_RAW_MAX),    LIMIT(WIRE_TUNNEL_RECORDS_MAX),
    LIMIT(WIRE_TUNNEL_DICTS_MAX),  LIMIT(WIRE_TUNNEL_TEXT_MAX),   LIMIT(WIRE_TUNNEL_FIRST_CREDIT),
    LIMIT(WIRE_TUNNEL_NUMBER_MAX), LIMIT(WIRE_TUNNEL_CREDIT_MAX), LIMIT(WIRE_TUNNEL_DELAY_MS_MAX),
    LIMIT(WIRE_BATCH_UPLOADS_MAX), LIMIT(WIRE_UPLOAD_NAME_MAX),   LIMIT(WIRE_RECORD_BYTES_MAX),
    LIMIT(WIRE_WALL_MS_MAX),
};
#undef LIMIT

static void limits_are_the_code(void **state)
{
    (void)state;
    check_limits(limits, TEST_COUNT(limits));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_devices_say),
        cmocka_unit_test(what_gateways_say),
        cmocka_unit_test(every_example_parses),
        cmocka_unit_test(limits_are_the_code),
    };
    return cmocka_run_group_tests(tests, read_page, NULL);
}
