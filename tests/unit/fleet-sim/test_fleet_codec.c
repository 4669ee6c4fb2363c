// Codecs of virtual devices: devices with the same dictionaries share one, what it makes is byte
// for byte what a device's own codec makes, sets that nobody has make room, and there is always
// one.
#include "test_kit.h"

#include "device/device.h"
#include "ports/sim_codec.h"
#include "zstd/codec_zstd.h"

#include <zdict.h>

#define RECORD     "{\"events\":%u,\"item\":\"i-%u\",\"before\":%u}"
#define MADE       (SIM_CODECS_MAX + 4u)
#define DICT_BYTES 2048u
#define SAMPLES    400u

struct made {
    struct wire_sha256 name;
    uint32_t id;
    uint8_t bytes[DICT_BYTES];
    size_t size;
};

static struct test_alloc alloc;
static struct sim_store *store;
static struct sim_codecs codecs;
static struct made made[MADE];

static struct wire_sha256 digest_of(const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

// A dictionary of records of some shop, different for each number.
static void dictionary_make(uint32_t number)
{
    static char samples[SAMPLES * 64];
    static size_t sizes[SAMPLES];
    struct made *out = &made[number];
    char content[600];
    size_t used = 0;
    size_t filled = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sizes[i] = (size_t)snprintf(samples + used, sizeof(samples) - used, RECORD, i % 5,
                                    number * 1000 + i % 40, i % 7);
        used += sizes[i];
    }
    while (filled + 64 < sizeof(content)) {
        filled += (size_t)snprintf(content + filled, sizeof(content) - filled, RECORD, 3,
                                   number * 1000, 1);
    }
    ZDICT_params_t params = {.compressionLevel = DEV_CODEC_LEVEL};
    out->size = ZDICT_finalizeDictionary(out->bytes, sizeof(out->bytes), content, filled, samples,
                                         sizes, SAMPLES, params);
    assert_false(ZDICT_isError(out->size));
    out->name = digest_of(out->bytes, out->size);
    out->id = wire_tunnel_dict_id(&out->name);
}

static int make_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MADE; i++) {
        dictionary_make(i);
    }
    return 0;
}

static int setup(void **state)
{
    const struct sim_blob *blob;
    (void)state;
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, dev_crypto_openssl(), &store), BASE_OK);
    for (uint32_t i = 0; i < MADE; i++) {
        assert_int_equal(sim_store_add(store, &made[i].name, made[i].bytes, made[i].size, &blob),
                         BASE_OK);
    }
    assert_int_equal(sim_codecs_init(&codecs), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_codecs_done(&codecs);
    sim_store_free(store);
    assert_int_equal(alloc.live, 0);
    return 0;
}

static size_t compress(const struct dev_tunnel_codec *port, uint32_t dict, uint8_t out[256])
{
    char record[200];
    size_t size = 0;
    int wrote = snprintf(record, sizeof(record), RECORD RECORD, 3, 7003, 1, 2, 7011, 4);
    enum base_status status = port->compress(
        port->ctx,
        &(struct dev_tunnel_compression){dict, (const uint8_t *)record, (size_t)wrote, out, 256},
        &size);
    return status == BASE_OK ? size : 0;
}

static void test_as_a_device_alone_would(void **state)
{
    (void)state;
    struct wire_sha256 names[2] = {made[3].name, made[7].name};
    struct sim_codec *shared = sim_codecs_take(&codecs, store, names, 2);
    const struct dev_tunnel_codec port = sim_codec_port(&shared);
    struct dev_codec *own = NULL;
    assert_int_equal(dev_codec_new(0, &own), BASE_OK);
    dev_codec_dicts_begin(own);
    assert_int_equal(dev_codec_dict_add(own, &names[0], made[3].bytes, made[3].size), BASE_OK);
    assert_int_equal(dev_codec_dict_add(own, &names[1], made[7].bytes, made[7].size), BASE_OK);
    const struct dev_tunnel_codec alone = dev_codec_port(own);
    uint32_t ids[WIRE_TUNNEL_DICTS_MAX];
    assert_int_equal(port.dicts(port.ctx, ids), 2);
    assert_int_equal(ids[0], made[7].id); // the newest first
    assert_int_equal(ids[1], made[3].id);
    const uint32_t dicts[] = {0, made[3].id, made[7].id, made[5].id};
    size_t sizes[TEST_COUNT(dicts)];
    for (size_t i = 0; i < TEST_COUNT(dicts); i++) {
        uint8_t a[256];
        uint8_t b[256];
        sizes[i] = compress(&port, dicts[i], a);
        assert_int_equal(sizes[i], compress(&alone, dicts[i], b));
        assert_memory_equal(a, b, sizes[i]);
    }
    assert_int_equal(sizes[3], 0);        // it has no such dictionary
    assert_true(sizes[2] * 2 < sizes[0]); // and this one is worth it
    assert_true(sizes[2] < sizes[1]);     // more than another shop's
    dev_codec_free(own);
    sim_codecs_give(shared);
}

static void test_shared_by_set(void **state)
{
    (void)state;
    struct wire_sha256 two[2] = {made[0].name, made[1].name};
    struct wire_sha256 swapped[2] = {made[1].name, made[0].name};
    struct sim_codec *none = sim_codecs_take(&codecs, store, NULL, 0);
    struct sim_codec *a = sim_codecs_take(&codecs, store, two, 2);
    assert_ptr_equal(sim_codecs_take(&codecs, store, two, 2), a);
    assert_ptr_not_equal(sim_codecs_take(&codecs, store, swapped, 2), a); // another is the newest
    assert_ptr_not_equal(sim_codecs_take(&codecs, store, two, 1), a);
    assert_ptr_not_equal(none, a);
    assert_int_equal(a->users, 2);
    sim_codecs_give(a);
    assert_int_equal(a->users, 1);
    sim_codecs_give(NULL);
    // A device's port follows what the device has.
    struct sim_codec *at = none;
    const struct dev_tunnel_codec port = sim_codec_port(&at);
    uint32_t ids[WIRE_TUNNEL_DICTS_MAX];
    assert_int_equal(port.dicts(port.ctx, ids), 0);
    at = a;
    assert_int_equal(port.dicts(port.ctx, ids), 2);
}

static void test_what_is_no_dictionary_is_left_out(void **state)
{
    (void)state;
    const struct sim_blob *blob;
    uint8_t prose[400];
    memset(prose, 'x', sizeof(prose));
    struct wire_sha256 names[3] = {{{1}}, digest_of(prose, sizeof(prose)), made[2].name};
    assert_int_equal(sim_store_add(store, &names[1], prose, sizeof(prose), &blob), BASE_OK);
    struct sim_codec *codec = sim_codecs_take(&codecs, store, names, 3);
    const struct dev_tunnel_codec port = sim_codec_port(&codec);
    uint32_t ids[WIRE_TUNNEL_DICTS_MAX];
    assert_int_equal(port.dicts(port.ctx, ids), 1);
    assert_int_equal(ids[0], made[2].id);
}

static void test_sets_make_room(void **state)
{
    (void)state;
    struct sim_codec *taken[MADE];
    for (uint32_t i = 0; i < MADE; i++) {
        taken[i] = sim_codecs_take(&codecs, store, &made[i].name, 1);
        bool room = i < SIM_CODECS_MAX - 1; // beside the one without
        assert_int_equal(taken[i] != &codecs.items[0], room);
    }
    // Used as long as somebody has them; then the one that was taken first goes first.
    sim_codecs_give(taken[5]);
    sim_codecs_give(taken[2]);
    struct sim_codec *fresh = sim_codecs_take(&codecs, store, &made[SIM_CODECS_MAX].name, 1);
    assert_ptr_equal(fresh, taken[2]);
    assert_ptr_equal(sim_codecs_take(&codecs, store, &made[5].name, 1), taken[5]);
    assert_ptr_equal(sim_codecs_take(&codecs, store, &made[2].name, 1), &codecs.items[0]);
    const struct dev_tunnel_codec port = sim_codec_port(&fresh);
    uint32_t ids[WIRE_TUNNEL_DICTS_MAX];
    assert_int_equal(port.dicts(port.ctx, ids), 1);
    assert_int_equal(ids[0], made[SIM_CODECS_MAX].id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_a_device_alone_would, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_by_set, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_dictionary_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sets_make_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, make_all, NULL);
}
