// Dictionaries from end to end: a device's real tunnel with the real codec against the real
// tunnel. Whatever the gateway has under the dictionary's id, every record arrives once, in order.
#include "tunnel_rig.h"

#include "ipv_world.h"
#include "mem/mem_kv.h"
#include "zstd/codec_zstd.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zdict.h>
#include <zstd.h>

#define DEVICE     UINT64_C(0x77)
#define RECORDS    40
#define SAMPLES    2000
#define DICT_BYTES 8192
#define ROUNDS_MAX 20000
#define CLASS_ID   2

enum holding { HAS_IT, HAS_NONE, HAS_ANOTHER, HOLDING_COUNT };

struct world {
    enum holding holding;
    uint8_t dict[DICT_BYTES];
    uint8_t other[DICT_BYTES];
    size_t dict_size;
    struct wire_sha256 digest;
    char expected[RECORDS][IPV_RAW_LINE_MAX];
    uint32_t arrived;
    uint32_t dict_batches;
    size_t sent_bytes;
    size_t raw_bytes;
};

static struct world world;
static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static bool wants_open;

static size_t event_json(uint64_t person, char *out)
{
    static struct ipv_device device;
    struct dev_event event;
    ipv_device_init(&device, 23, person, 1);
    assert_true(ipv_device_next(&device, &event));
    return ipv_raw_json(device.id, &event, out, IPV_RAW_LINE_MAX);
}

static int train(void **state)
{
    (void)state;
    char *samples = malloc((size_t)SAMPLES * IPV_RAW_LINE_MAX);
    size_t *sizes = malloc(SAMPLES * sizeof(*sizes));
    size_t total = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sizes[i] = event_json(i, samples + total);
        total += sizes[i];
    }
    world.dict_size = ZDICT_trainFromBuffer(world.dict, DICT_BYTES, samples, sizes, SAMPLES);
    assert_false(ZDICT_isError(world.dict_size));
    memcpy(world.other, world.dict, world.dict_size);
    for (size_t i = world.dict_size / 2; i < world.dict_size; i++) {
        world.other[i] ^= 0x15;
    }
    world.digest.bytes[0] = 9;
    free(samples);
    free(sizes);
    return 0;
}

// On the keeper's thread.
static enum base_status load(void *ctx, uint32_t id, uint8_t **out_bytes, size_t *out_size)
{
    (void)ctx;
    if (world.holding == HAS_NONE || id != 9) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_bytes = malloc(world.dict_size);
    memcpy(*out_bytes, world.holding == HAS_IT ? world.dict : world.other, world.dict_size);
    *out_size = world.dict_size;
    return BASE_OK;
}

// What lands is opened with what the device had, not with what the gateway believes.
static void keep(void *ctx, const struct gw_sink_batch *batch)
{
    (void)ctx;
    static uint8_t raw[WIRE_TUNNEL_RAW_MAX];
    const struct wire_tunnel_batch *sent = &batch->batch;
    struct wire_batch view;
    struct wire_record record;
    uint32_t bad;
    assert_false(batch->is_loss);
    bool with_dict = sent->codec == WIRE_TUNNEL_ZSTD_DICT;
    if (sent->codec == WIRE_TUNNEL_PLAIN) {
        memcpy(raw, sent->bytes, sent->raw_bytes);
    } else {
        ZSTD_DCtx *decoder = ZSTD_createDCtx();
        size_t got = ZSTD_decompress_usingDict(decoder, raw, sizeof(raw), sent->bytes,
                                               sent->sent_bytes, with_dict ? world.dict : NULL,
                                               with_dict ? world.dict_size : 0);
        ZSTD_freeDCtx(decoder);
        assert_int_equal(got, sent->raw_bytes);
    }
    world.dict_batches += with_dict;
    world.sent_bytes += sent->sent_bytes;
    world.raw_bytes += sent->raw_bytes;
    assert_int_equal(wire_batch_parse(raw, sent->raw_bytes, &view, &bad), BASE_OK);
    while (wire_batch_next(&view, &record)) {
        assert_true(world.arrived < RECORDS);
        const char *expected = world.expected[world.arrived++];
        assert_int_equal(record.size, strlen(expected));
        assert_memory_equal(record.bytes, expected, record.size);
    }
}

static enum base_status transport_open(void *ctx, uint32_t number, uint8_t class_id)
{
    (void)ctx;
    (void)number;
    (void)class_id;
    wants_open = true;
    return BASE_OK;
}

static uint8_t up[1024 * 1024];
static size_t up_size;

static enum base_status transport_send(void *ctx, uint32_t number, const uint8_t *bytes,
                                       size_t size, bool early)
{
    (void)ctx;
    (void)number;
    (void)early;
    if (up_size + size > sizeof(up)) {
        return BASE_ERR_BUSY;
    }
    memcpy(up + up_size, bytes, size);
    up_size += size;
    return BASE_OK;
}

static void transport_close(void *ctx, uint32_t number)
{
    (void)ctx;
    (void)number;
    fail_msg("the stream was closed");
}

// One turn of both loops, 10 ms of time.
static void turn(struct dev_tunnel *tunnel)
{
    uint64_t now_us = rig.mono_us += 10000;
    (void)dev_tunnel_step(tunnel, now_us);
    if (wants_open) {
        wants_open = false;
        tunnel_rig_open(&rig, &stream, 0, DEVICE);
        dev_tunnel_on_open(tunnel, 0, now_us);
    }
    if (up_size > 0 && stream.session != NULL) {
        size_t size = up_size;
        up_size = 0;
        tunnel_rig_send(&stream, up, size);
        assert_int_equal(stream.status, BASE_OK);
    }
    (void)tunnel_rig_land(&rig, 1000, BASE_OK);
    gw_tunnel_worker_flush(rig.workers[0].worker);
    if (stream.out_size > 0) {
        static uint8_t down[RIG_OUT_MAX];
        size_t size = stream.out_size;
        memcpy(down, stream.out, size);
        stream.out_size = 0;
        dev_tunnel_on_bytes(tunnel, 0, now_us, down, size);
    }
    (void)sched_yield(); // the keeper's thread may be fetching
}

static struct dev_tunnel *tunnel_make(struct dev_codec *codec, struct dev_collect *collect,
                                      struct base_prng *prng, void **out_memory)
{
    struct dev_tunnel_config config = {.device_id = DEVICE,
                                       .app = BASE_STR("1.0"),
                                       .os = BASE_STR("test"),
                                       .classes = 1u << CLASS_ID,
                                       .one_stream = true};
    struct dev_tunnel_ports ports = {
        .collect = collect,
        .random = base_prng_port(prng),
        .transport = {NULL, transport_open, transport_send, transport_close},
        .codec = dev_codec_port(codec),
    };
    struct dev_tunnel *tunnel = NULL;
    size_t bytes = dev_tunnel_bytes(&config);
    *out_memory = malloc(bytes);
    assert_int_equal(dev_tunnel_init(*out_memory, bytes, &config, &ports, &tunnel), BASE_OK);
    assert_int_equal(dev_tunnel_boot(tunnel, rig.mono_us), BASE_OK);
    return tunnel;
}

static void offer_all(struct dev_tunnel *tunnel)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct wire_upload_record record = {
            .class_id = CLASS_ID,
            .key = {BASE_STR("shop"), BASE_STR("events"), 1},
            .format = WIRE_RECORD_JSON,
            .wall_ms = 1795000000000 + i,
            .bytes = (const uint8_t *)world.expected[i],
            .size = (uint32_t)event_json(100000 + i, world.expected[i]),
        };
        assert_int_equal(dev_tunnel_offer(tunnel, rig.mono_us, &record, NULL), BASE_OK);
        dev_tunnel_flush(tunnel, rig.mono_us); // a batch each
        for (int k = 0; k < 5; k++) {
            turn(tunnel);
        }
    }
}

static void play(enum holding holding)
{
    struct mem_kv kv;
    struct base_prng prng;
    struct dev_codec *codec = NULL;
    struct dev_collect *collect = NULL;
    struct dev_tunnel_stats stats;
    void *tunnel_memory = NULL;
    void *collect_memory = malloc(dev_collect_bytes());
    world.holding = holding;
    world.arrived = world.dict_batches = 0;
    world.sent_bytes = world.raw_bytes = 0;
    up_size = 0;
    tunnel_rig_init(&rig);
    rig.options.dicts = (struct gw_dict_port){NULL, load};
    rig.sink.keep = keep;
    tunnel_rig_start(&rig, false);
    mem_kv_init(&kv);
    base_prng_seed(&prng, 3);
    struct dev_kv_port port = mem_kv_port(&kv);
    assert_int_equal(dev_collect_init(collect_memory, dev_collect_bytes(), &port, &collect),
                     BASE_OK);
    assert_int_equal(dev_collect_boot(collect, rig.mono_us), BASE_OK);
    assert_int_equal(dev_codec_new(0, &codec), BASE_OK);
    assert_int_equal(dev_codec_dict_add(codec, &world.digest, world.dict, world.dict_size),
                     BASE_OK);
    if (holding != HAS_NONE) {
        while (gw_tunnel_zstd_dict(rig.tunnel, 9) == NULL) {
            (void)sched_yield();
        }
    }
    struct dev_tunnel *tunnel = tunnel_make(codec, collect, &prng, &tunnel_memory);
    offer_all(tunnel);
    for (int i = 0; i < ROUNDS_MAX && !dev_tunnel_is_idle(tunnel); i++) {
        turn(tunnel);
    }
    assert_true(dev_tunnel_is_idle(tunnel));
    assert_true(dev_tunnel_validate(tunnel));
    assert_int_equal(world.arrived, RECORDS);
    dev_tunnel_stats(tunnel, &stats);
    assert_int_equal(stats.classes[CLASS_ID].durable, RECORDS);
    print_message("%s: %u of the batches with the dictionary, %zu bytes for %zu, %llu NEEDFULL\n",
                  holding == HAS_IT     ? "the dictionary"
                  : holding == HAS_NONE ? "no dictionary"
                                        : "another dictionary",
                  world.dict_batches, world.sent_bytes, world.raw_bytes,
                  (unsigned long long)stats.needfulls);
    assert_true(holding == HAS_IT ? world.dict_batches > RECORDS / 2 : world.dict_batches == 0);
    assert_true(holding != HAS_IT || world.sent_bytes * 5 < world.raw_bytes * 2); // 2.5 times
    assert_true(holding != HAS_ANOTHER || stats.needfulls > 0);
    tunnel_rig_close(&stream);
    tunnel_rig_done(&rig);
    mem_kv_done(&kv);
    dev_codec_free(codec);
    free(tunnel_memory);
    free(collect_memory);
}

static void test_it_has_the_dictionary(void **state)
{
    (void)state;
    play(HAS_IT);
}

static void test_it_has_none(void **state)
{
    (void)state;
    play(HAS_NONE);
}

static void test_it_has_another(void **state)
{
    (void)state;
    play(HAS_ANOTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_has_the_dictionary),
        cmocka_unit_test(test_it_has_none),
        cmocka_unit_test(test_it_has_another),
    };
    return cmocka_run_group_tests(tests, train, NULL);
}
