// The tunnel's codec: round trips, dictionaries by id, bounds, and what a dictionary is worth on
// single events of people it was not trained on.
#include "ipv_world.h"
#include "zstd/codec_zstd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zdict.h>
#include <zstd.h>

#define DICT_BYTES    (32 * 1024)
#define SAMPLES       8000
#define SAMPLES_BYTES (SAMPLES * 1500)
#define EVENT_GAIN    2.5 // at least, of one event with the dictionary

struct dict {
    uint8_t bytes[DICT_BYTES];
    size_t size;
    struct wire_sha256 digest; // any will do: the codec believes the downloader
};

static struct dict trained;

// Raw events of devices `first` and on, one behind the other; the number of them.
static uint32_t events(uint64_t first, uint32_t max, uint8_t *out, size_t *sizes)
{
    static struct ipv_device device;
    struct dev_event event;
    uint32_t count = 0;
    while (count < max) {
        ipv_device_init(&device, 5, first++, 1);
        while (count < max && ipv_device_next(&device, &event)) {
            size_t size = ipv_raw_json(device.id, &event, (char *)out, IPV_RAW_LINE_MAX);
            assert_true(size > 0);
            sizes[count++] = size;
            out += size;
        }
    }
    return count;
}

static int train(void **state)
{
    (void)state;
    uint8_t *samples = malloc(SAMPLES_BYTES + IPV_RAW_LINE_MAX);
    size_t *sizes = malloc(SAMPLES * sizeof(*sizes));
    uint32_t count = events(0, SAMPLES, samples, sizes);
    trained.size = ZDICT_trainFromBuffer(trained.bytes, DICT_BYTES, samples, sizes, count);
    assert_false(ZDICT_isError(trained.size));
    memset(trained.digest.bytes, 0x5a, sizeof(trained.digest.bytes));
    free(samples);
    free(sizes);
    return 0;
}

static struct dev_codec *codec_make(void)
{
    struct dev_codec *codec = NULL;
    assert_int_equal(dev_codec_new(0, &codec), BASE_OK);
    return codec;
}

static struct wire_sha256 digest_of(uint32_t id)
{
    struct wire_sha256 digest = {{0}};
    for (int i = 0; i < 4; i++) {
        digest.bytes[i] = (uint8_t)(id >> (8 * i));
    }
    return digest;
}

static void assert_back(const uint8_t *packed, size_t packed_size, const uint8_t *raw, size_t size,
                        const struct dict *dict)
{
    static uint8_t back[256 * 1024];
    ZSTD_DCtx *decoder = ZSTD_createDCtx();
    assert_int_equal(ZSTD_getFrameContentSize(packed, packed_size), size);
    size_t got =
        ZSTD_decompress_usingDict(decoder, back, sizeof(back), packed, packed_size,
                                  dict != NULL ? dict->bytes : NULL, dict != NULL ? dict->size : 0);
    assert_int_equal(got, size);
    assert_memory_equal(back, raw, size);
    ZSTD_freeDCtx(decoder);
}

static void test_one_event(void **state)
{
    (void)state;
    enum { HELD_OUT = 500 };
    static uint8_t raw[HELD_OUT * 1500 + IPV_RAW_LINE_MAX];
    static size_t sizes[HELD_OUT];
    static uint8_t packed[IPV_RAW_LINE_MAX * 2];
    struct dev_codec *codec = codec_make();
    struct dev_tunnel_codec port = dev_codec_port(codec);
    uint32_t id = wire_tunnel_dict_id(&trained.digest);
    assert_int_equal(dev_codec_dict_add(codec, &trained.digest, trained.bytes, trained.size),
                     BASE_OK);
    uint32_t count = events(100000, HELD_OUT, raw, sizes); // other people
    size_t raw_bytes = 0;
    size_t plain_bytes = 0;
    size_t dict_bytes = 0;
    const uint8_t *at = raw;
    for (uint32_t i = 0; i < count; i++) {
        size_t size = 0;
        assert_int_equal(
            port.compress(port.ctx,
                          &(struct dev_tunnel_compression){0, at, sizes[i], packed, sizeof(packed)},
                          &size),
            BASE_OK);
        assert_back(packed, size, at, sizes[i], NULL);
        plain_bytes += size;
        assert_int_equal(port.compress(port.ctx,
                                       &(struct dev_tunnel_compression){id, at, sizes[i], packed,
                                                                        sizeof(packed)},
                                       &size),
                         BASE_OK);
        assert_back(packed, size, at, sizes[i], &trained);
        dict_bytes += size;
        raw_bytes += sizes[i];
        at += sizes[i];
    }
    double gain = (double)raw_bytes / (double)dict_bytes;
    print_message("one event of %zu bytes: %.2fx alone, %.2fx with the dictionary; zstd holds %zu "
                  "bytes\n",
                  raw_bytes / count, (double)raw_bytes / (double)plain_bytes, gain,
                  dev_codec_memory(codec));
    assert_true(gain >= EVENT_GAIN);
    dev_codec_free(codec);
}

static void test_missing_or_wrong(void **state)
{
    (void)state;
    struct dev_codec *codec = codec_make();
    struct dev_tunnel_codec port = dev_codec_port(codec);
    static uint8_t bad[DICT_BYTES];
    uint8_t out[256];
    size_t size = 7;
    const uint8_t in[] = "hello hello hello hello hello hello hello hello hello";
    assert_int_equal(
        port.compress(port.ctx,
                      &(struct dev_tunnel_compression){5, in, sizeof(in), out, sizeof(out)}, &size),
        BASE_ERR_NOT_FOUND);
    assert_int_equal(size, 7);
    struct wire_sha256 five = digest_of(5);
    struct wire_sha256 zero = digest_of(0);
    assert_int_equal(dev_codec_dict_add(codec, &five, in, sizeof(in)), BASE_ERR_INVALID);
    assert_int_equal(dev_codec_dict_add(codec, &zero, trained.bytes, trained.size),
                     BASE_ERR_INVALID);
    // A dictionary whose tables are damaged is found out when it is first used; then not used.
    memcpy(bad, trained.bytes, trained.size);
    memset(bad + 8, 0xff, 64);
    assert_int_equal(dev_codec_dict_add(codec, &five, bad, trained.size), BASE_OK);
    assert_int_not_equal(
        port.compress(port.ctx,
                      &(struct dev_tunnel_compression){5, in, sizeof(in), out, sizeof(out)}, &size),
        BASE_OK);
    assert_int_equal(
        port.compress(port.ctx,
                      &(struct dev_tunnel_compression){0, in, sizeof(in), out, sizeof(out)}, &size),
        BASE_OK);
    assert_back(out, size, in, sizeof(in), NULL);
    assert_int_equal(
        port.compress(port.ctx, &(struct dev_tunnel_compression){0, in, sizeof(in), out, 9}, &size),
        BASE_ERR_TOO_LARGE);
    dev_codec_free(codec);
    dev_codec_free(NULL);
    struct dev_codec *none = NULL;
    assert_int_equal(dev_codec_new(-1, &none), BASE_ERR_INVALID);
    assert_int_equal(dev_codec_new(DEV_CODEC_LEVEL_MAX + 1, &none), BASE_ERR_INVALID);
}

static void assert_listed(const struct dev_tunnel_codec *port, const uint32_t *ids, uint32_t count)
{
    uint32_t listed[WIRE_TUNNEL_DICTS_MAX];
    assert_int_equal(port->dicts(port->ctx, listed), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(listed[i], ids[i]);
    }
}

static void test_the_set(void **state)
{
    (void)state;
    struct dev_codec *codec = codec_make();
    struct dev_tunnel_codec port = dev_codec_port(codec);
    uint32_t newest_first[WIRE_TUNNEL_DICTS_MAX];
    for (uint32_t i = 0; i < WIRE_TUNNEL_DICTS_MAX; i++) {
        struct wire_sha256 digest = digest_of(100 + i);
        assert_int_equal(dev_codec_dict_add(codec, &digest, trained.bytes, trained.size), BASE_OK);
        newest_first[WIRE_TUNNEL_DICTS_MAX - 1 - i] = 100 + i;
    }
    assert_listed(&port, newest_first, WIRE_TUNNEL_DICTS_MAX);
    struct wire_sha256 more = digest_of(900);
    assert_int_equal(dev_codec_dict_add(codec, &more, trained.bytes, trained.size), BASE_ERR_LIMIT);
    // An update of the set: two stay, in another order, one comes.
    dev_codec_dicts_begin(codec);
    assert_listed(&port, NULL, 0);
    const uint32_t next[] = {900, 101, 105};
    for (int i = 2; i >= 0; i--) {
        struct wire_sha256 digest = digest_of(next[i]);
        assert_int_equal(dev_codec_dict_add(codec, &digest, trained.bytes, trained.size), BASE_OK);
    }
    assert_listed(&port, next, 3);
    uint8_t out[256];
    size_t size = 0;
    assert_int_equal(
        port.compress(port.ctx, &(struct dev_tunnel_compression){100, out, 1, out + 1, 200}, &size),
        BASE_ERR_NOT_FOUND);
    dev_codec_free(codec);
}

// Whatever order dictionaries are used in and whatever sizes come: what zstd holds stays bounded,
// and every frame comes back.
static void test_memory_is_bounded(void **state)
{
    (void)state;
    enum { BOUND = 3 * 1024 * 1024 };
    static uint8_t raw[256 * 1024];
    static uint8_t packed[300 * 1024];
    static size_t sizes[200];
    struct dev_codec *codec = codec_make();
    struct dev_tunnel_codec port = dev_codec_port(codec);
    struct base_prng prng;
    size_t most = 0;
    base_prng_seed(&prng, 11);
    (void)events(7, 150, raw, sizes);
    for (uint32_t i = 0; i < WIRE_TUNNEL_DICTS_MAX; i++) {
        struct wire_sha256 digest = digest_of(1 + i);
        assert_int_equal(dev_codec_dict_add(codec, &digest, trained.bytes, trained.size), BASE_OK);
    }
    for (int i = 0; i < 300; i++) {
        uint32_t id = (uint32_t)base_prng_below(&prng, WIRE_TUNNEL_DICTS_MAX + 1);
        size_t in_size = 1 + base_prng_below(&prng, i % 10 == 0 ? sizeof(raw) : 16384);
        size_t size = 0;
        assert_int_equal(port.compress(port.ctx,
                                       &(struct dev_tunnel_compression){id, raw, in_size, packed,
                                                                        sizeof(packed)},
                                       &size),
                         BASE_OK);
        assert_back(packed, size, raw, in_size, id != 0 ? &trained : NULL);
        most = dev_codec_memory(codec) > most ? dev_codec_memory(codec) : most;
    }
    print_message("zstd held %zu bytes at most\n", most);
    assert_true(most < BOUND);
    dev_codec_free(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_event),
        cmocka_unit_test(test_missing_or_wrong),
        cmocka_unit_test(test_the_set),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, train, NULL);
}
