// Batches compressed with dictionaries, from the device's codec to the sink: which dictionary the
// gateway asks for, that a missing or wrong one loses nothing, and that bombs are refused.
#include "tunnel_rig.h"

#include "ipv_world.h"
#include "zstd/codec_zstd.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zdict.h>
#include <zstd.h>

#define DEVICE      UINT64_C(0x99)
#define EPOCH       0x00010007u
#define DICTS       11
#define DICT_BYTES  8192
#define SAMPLES     2000
#define PAYLOAD_MAX (64 * 1024)

// What the gateway knows: ids 1 .. known of one trained dictionary, and what the test makes of it.
struct library {
    uint8_t bytes[DICT_BYTES];
    size_t size;
    _Atomic uint32_t known;
    _Atomic uint32_t damaged; // this id has other bytes; 0: none
    _Atomic enum base_status fails;
    _Atomic uint32_t loads;
    uint8_t other[DICT_BYTES];
};

static struct library library;
static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static struct dev_codec *codec;
static uint8_t *seen; // payload of the last batch that landed
static struct wire_tunnel_batch landed;

// On the keeper's thread.
static enum base_status library_load(void *ctx, uint32_t id, uint8_t **out_bytes, size_t *out_size)
{
    (void)ctx;
    atomic_fetch_add(&library.loads, 1);
    if (library.fails != BASE_OK) {
        return library.fails;
    }
    if (id > library.known) {
        return BASE_ERR_NOT_FOUND;
    }
    uint8_t *copy = malloc(library.size);
    memcpy(copy, id == library.damaged ? library.other : library.bytes, library.size);
    *out_bytes = copy;
    *out_size = library.size;
    return BASE_OK;
}

// Until the keeper has fetched it.
static void await_dict(uint32_t id)
{
    while (gw_tunnel_zstd_dict(rig.tunnel, id) == NULL) {
        (void)sched_yield();
    }
}

static void keep(void *ctx, const struct gw_sink_batch *batch)
{
    (void)ctx;
    free(seen);
    seen = malloc(batch->batch.sent_bytes);
    assert_non_null(seen);
    memcpy(seen, batch->batch.bytes, batch->batch.sent_bytes);
    landed = batch->batch;
    landed.bytes = seen;
}

// A payload of one raw event as a record.
static size_t event_payload(uint64_t person, uint8_t *out)
{
    static struct ipv_device device;
    static char json[IPV_RAW_LINE_MAX];
    struct dev_event event;
    size_t size = 0;
    ipv_device_init(&device, 17, person, 1);
    uint32_t left = 1 + (uint32_t)(person % 4); // sometimes there are fewer
    while (left > 0 && ipv_device_next(&device, &event)) {
        left--;
    }
    struct wire_upload_key upload = {BASE_STR("shop/behaviour"), BASE_STR("events"), 1};
    struct wire_record record = {.format = WIRE_RECORD_JSON,
                                 .wall_ms = event.wall_ms,
                                 .bytes = (const uint8_t *)json,
                                 .size =
                                     (uint32_t)ipv_raw_json(device.id, &event, json, sizeof(json))};
    assert_int_equal(wire_batch_encode(&(struct wire_batch_content){&upload, 1, &record, 1}, out,
                                       PAYLOAD_MAX, &size),
                     BASE_OK);
    return size;
}

static int train(void **state)
{
    (void)state;
    uint8_t *samples = malloc((size_t)SAMPLES * IPV_RAW_LINE_MAX + PAYLOAD_MAX);
    size_t *sizes = malloc(SAMPLES * sizeof(*sizes));
    size_t total = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sizes[i] = event_payload(i, samples + total);
        total += sizes[i];
    }
    library.size = ZDICT_trainFromBuffer(library.bytes, DICT_BYTES, samples, sizes, SAMPLES);
    assert_false(ZDICT_isError(library.size));
    // Another dictionary of the same size: the same tables, other content.
    memcpy(library.other, library.bytes, library.size);
    for (size_t i = library.size / 2; i < library.size; i++) {
        library.other[i] ^= 0x15;
    }
    free(samples);
    free(sizes);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    library.known = DICTS;
    library.damaged = 0;
    library.fails = BASE_OK;
    library.loads = 0;
    tunnel_rig_init(&rig);
    rig.options.dicts = (struct gw_dict_port){NULL, library_load};
    rig.sink.keep = keep;
    tunnel_rig_start(&rig, false);
    assert_int_equal(dev_codec_new(0, &codec), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tunnel_rig_close(&stream);
    tunnel_rig_done(&rig);
    dev_codec_free(codec);
    codec = NULL;
    free(seen);
    seen = NULL;
    return 0;
}

// Opens a stream whose HELLO offers dictionaries; the one the gateway wants.
static uint32_t greet(struct tunnel_rig_device *device, const uint32_t *dicts, uint32_t count)
{
    uint8_t frame[1024];
    size_t size = 0;
    enum wire_tunnel_type type;
    const uint8_t *payload;
    struct wire_tunnel_welcome welcome;
    struct wire_tunnel_hello hello = {
        .device = device->device,
        .app = BASE_STR("1.0"),
        .os = BASE_STR("test"),
        .dict_count = count,
        .class_count = 1,
        .classes[0] = {.class_id = device->class_id,
                       .epoch = device->epoch,
                       .tail = device->tail,
                       .next = device->next,
                       .tail_hash = device->tail_hash},
    };
    memcpy(hello.dicts, dicts, count * sizeof(dicts[0]));
    tunnel_rig_open(&rig, &stream, 0, device->device);
    assert_int_equal(wire_tunnel_hello_encode(&hello, frame, sizeof(frame), &size), BASE_OK);
    tunnel_rig_send(&stream, frame, size);
    assert_true(tunnel_rig_next(&stream, &type, &payload, &size));
    assert_int_equal(type, WIRE_TUNNEL_WELCOME);
    assert_int_equal(wire_tunnel_welcome_parse(payload, size, &welcome), BASE_OK);
    return welcome.dict;
}

// Sends the device's next batch as told; does not go on in the chain.
static void send_as(const struct tunnel_rig_device *device, const uint8_t *payload, size_t size,
                    enum wire_tunnel_codec how, uint32_t dict, const uint8_t *bytes, size_t sent,
                    uint32_t raw)
{
    static uint8_t frame[PAYLOAD_MAX + 256];
    size_t wrote = 0;
    struct wire_tunnel_batch batch = {
        .class_id = device->class_id,
        .epoch = device->epoch,
        .number = device->next,
        .first_seq = device->next_seq,
        .count = 1,
        .prev_hash = device->next_hash,
        .hash = wire_tunnel_chain(device->next_hash, payload, size),
        .codec = (uint8_t)how,
        .dict = dict,
        .raw_bytes = raw,
        .sent_bytes = (uint32_t)sent,
        .bytes = bytes,
        .part_bytes = (uint32_t)sent,
    };
    assert_int_equal(wire_tunnel_batch_encode(&batch, frame, sizeof(frame), &wrote), BASE_OK);
    tunnel_rig_send(&stream, frame, wrote);
    gw_tunnel_worker_flush(rig.workers[0].worker);
}

static void go_on(struct tunnel_rig_device *device, const uint8_t *payload, size_t size)
{
    device->next++;
    device->next_seq++;
    device->next_hash = wire_tunnel_chain(device->next_hash, payload, size);
}

static void expect(enum wire_tunnel_type wanted)
{
    enum wire_tunnel_type type;
    const uint8_t *payload;
    size_t size;
    assert_true(tunnel_rig_next(&stream, &type, &payload, &size));
    assert_int_equal(type, wanted);
}

static void land(void)
{
    assert_int_equal(tunnel_rig_land(&rig, 1, BASE_OK), 1);
    gw_tunnel_worker_flush(rig.workers[0].worker);
    expect(WIRE_TUNNEL_ACK);
}

static size_t compress(uint32_t dict, const uint8_t *payload, size_t size, uint8_t *out)
{
    struct wire_sha256 digest = {{(uint8_t)dict}};
    size_t wrote = 0;
    struct dev_tunnel_codec port = dev_codec_port(codec);
    dev_codec_dicts_begin(codec);
    assert_int_equal(dev_codec_dict_add(codec, &digest, library.bytes, library.size), BASE_OK);
    assert_int_equal(
        port.compress(port.ctx,
                      &(struct dev_tunnel_compression){dict, payload, size, out, PAYLOAD_MAX},
                      &wrote),
        BASE_OK);
    return wrote;
}

static void test_every_dictionary_is_read(void **state)
{
    (void)state;
    static uint8_t payload[PAYLOAD_MAX];
    static uint8_t packed[PAYLOAD_MAX];
    static uint8_t back[PAYLOAD_MAX];
    struct tunnel_rig_device device;
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    for (uint32_t id = 1; id <= DICTS; id++) {
        await_dict(id);
    }
    // The first that is known: a device names its newest first.
    assert_int_equal(greet(&device, (const uint32_t[]){500, 4, 9, 3}, 4), 4);
    for (uint32_t i = 0; i < 3 * DICTS; i++) {
        uint32_t dict = 1 + i % DICTS;
        size_t size = event_payload(100000 + i, payload);
        size_t sent = compress(dict, payload, size, packed);
        assert_true(sent * 2 < size);
        send_as(&device, payload, size, WIRE_TUNNEL_ZSTD_DICT, dict, packed, sent, (uint32_t)size);
        land();
        assert_int_equal(landed.dict, dict);
        assert_int_equal(landed.sent_bytes, sent);
        ZSTD_DCtx *decoder = ZSTD_createDCtx();
        assert_int_equal(ZSTD_decompress_usingDict(decoder, back, sizeof(back), seen, sent,
                                                   library.bytes, library.size),
                         size);
        ZSTD_freeDCtx(decoder);
        assert_memory_equal(back, payload, size);
        go_on(&device, payload, size);
    }
    // Each was read once; what is not known is asked for again with each HELLO, and never found.
    assert_true(library.loads <= DICTS + 1);
}

// Unknown, damaged, or not to be read: the device is asked for the same batch without it.
static void test_missing_or_wrong_loses_nothing(void **state)
{
    (void)state;
    static uint8_t payload[PAYLOAD_MAX];
    static uint8_t packed[PAYLOAD_MAX];
    struct tunnel_rig_device device;
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    assert_int_equal(greet(&device, (const uint32_t[]){500}, 1), 0);
    for (int kind = 0; kind < 3; kind++) {
        uint32_t dict = (uint32_t)kind + 1;
        size_t size = event_payload(300000 + (uint64_t)kind, payload);
        size_t sent = compress(dict, payload, size, packed);
        library.known = kind == 0 ? 0 : DICTS;
        library.damaged = kind == 1 ? dict : 0;
        library.fails = kind == 2 ? BASE_ERR_IO : BASE_OK;
        if (kind == 1) {
            await_dict(dict);
        }
        send_as(&device, payload, size, WIRE_TUNNEL_ZSTD_DICT, dict, packed, sent, (uint32_t)size);
        expect(WIRE_TUNNEL_NEEDFULL);
        assert_int_equal(tunnel_rig_land(&rig, 1, BASE_OK), 0);
        send_as(&device, payload, size, WIRE_TUNNEL_PLAIN, 0, payload, size, (uint32_t)size);
        land();
        assert_int_equal(landed.sent_bytes, size);
        assert_memory_equal(seen, payload, size);
        go_on(&device, payload, size);
    }
    // Once it is known it is used.
    library.fails = BASE_OK;
    await_dict(1);
    size_t size = event_payload(400000, payload);
    size_t sent = compress(1, payload, size, packed);
    send_as(&device, payload, size, WIRE_TUNNEL_ZSTD_DICT, 1, packed, sent, (uint32_t)size);
    land();
    assert_int_equal(landed.dict, 1);
}

// A frame that says another size than the batch, or holds more than it says.
static void test_bombs(void **state)
{
    (void)state;
    static uint8_t payload[PAYLOAD_MAX];
    static uint8_t bomb[PAYLOAD_MAX];
    static uint8_t zeros[4 * 1024 * 1024];
    struct tunnel_rig_device device;
    tunnel_rig_device(&device, DEVICE, 1, EPOCH);
    await_dict(1);
    assert_int_equal(greet(&device, (const uint32_t[]){1}, 1), 1);
    size_t size = event_payload(500000, payload);
    size_t sent = ZSTD_compress(bomb, sizeof(bomb), zeros, sizeof(zeros), 3);
    assert_false(ZSTD_isError(sent));
    struct gw_tunnel_stats before;
    struct gw_tunnel_stats after;
    gw_tunnel_stats(rig.tunnel, &before);
    for (int with = 0; with < 2; with++) {
        send_as(&device, payload, size, with != 0 ? WIRE_TUNNEL_ZSTD_DICT : WIRE_TUNNEL_ZSTD,
                (uint32_t)with, bomb, sent, WIRE_TUNNEL_RAW_MAX);
        expect(WIRE_TUNNEL_REJECT);
    }
    gw_tunnel_stats(rig.tunnel, &after);
    assert_int_equal(after.rejects_total, before.rejects_total + 2);
    assert_int_equal(after.memory_bytes, before.memory_bytes);
    assert_int_equal(tunnel_rig_land(&rig, 1, BASE_OK), 0);
    send_as(&device, payload, size, WIRE_TUNNEL_PLAIN, 0, payload, size, (uint32_t)size);
    land();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_dictionary_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_or_wrong_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bombs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, train, NULL);
}
