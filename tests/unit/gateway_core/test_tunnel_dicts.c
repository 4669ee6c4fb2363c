// Dictionaries come with versions: learnt once, found by id, kept across a restart; what is none is
// refused and leaves nothing behind.
#include "core_rig.h"

#include "svc/content/blob.h"
#include "svc/content/tunnel_dicts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DICT_BYTES 1000

static void make_dict(uint8_t *out, size_t size, uint8_t fill)
{
    static const uint8_t magic[] = {0x37, 0xA4, 0x30, 0xEC};
    memset(out, fill, size);
    memcpy(out, magic, sizeof(magic));
}

static struct wire_sha256 put_blob(struct rig *rig, const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    struct base_error error = {0};
    bool created;
    gw_sha256(bytes, size, &digest);
    assert_int_equal(
        gw_blob_put(rig->core, &(struct gw_store_item){digest, bytes, size}, &created, &error),
        BASE_OK);
    return digest;
}

// Registers a version whose only data file is `bytes` under `name`.
static enum base_status push(struct rig *rig, const char *version, const char *name,
                             enum wire_file_kind kind, const uint8_t *bytes, size_t size,
                             struct base_error *error)
{
    struct gw_version_view view;
    uint8_t encoded[2048];
    size_t encoded_size = 0;
    bool created;
    assert_int_equal(gw_catalog_task_create(rig->core, rig->tenant, BASE_STR("t"), &created, error),
                     BASE_OK);
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    assert_non_null(manifest);
    manifest->task_name = BASE_STR("t");
    manifest->version = base_str_of(version);
    manifest->runtime_abi = WIRE_RUNTIME_ABI;
    manifest->entry = BASE_STR("run");
    manifest->file_count = 2;
    manifest->files[0] = (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("run.mpy"), 3,
                                                     put_blob(rig, (const uint8_t *)"run", 3)};
    manifest->files[1] =
        (struct wire_manifest_file){kind, base_str_of(name), size, put_blob(rig, bytes, size)};
    assert_int_equal(wire_manifest_encode(manifest, encoded, sizeof(encoded), &encoded_size),
                     BASE_OK);
    free(manifest);
    struct wire_sha256 digest = put_blob(rig, encoded, encoded_size);
    struct gw_version_new wish = {.task = BASE_STR("t"), .manifest = digest};
    return gw_catalog_version_add(rig->core, &wish, &view, &created, error);
}

static uint32_t id_of(const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    gw_sha256(bytes, size, &digest);
    return wire_tunnel_dict_id(&digest);
}

static void assert_known(struct rig *rig, const uint8_t *bytes, size_t size, bool known)
{
    struct gw_tunnel_dict dict;
    struct gw_store_bytes loaded;
    uint32_t id = id_of(bytes, size);
    assert_int_equal(gw_tunnel_dicts_find(rig->core->store, id, &dict),
                     known ? BASE_OK : BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_tunnel_dicts_load(rig->core->store, id, &loaded),
                     known ? BASE_OK : BASE_ERR_NOT_FOUND);
    if (known) {
        assert_int_equal(dict.id, id);
        assert_int_equal(dict.bytes, size);
        assert_int_equal(loaded.size, size);
        assert_memory_equal(loaded.data, bytes, size);
        gw_store_bytes_done(&loaded);
    }
}

static void test_learnt_with_a_version(void **state)
{
    (void)state;
    static struct rig rig;
    struct base_error error = {0};
    uint8_t dict[DICT_BYTES];
    make_dict(dict, sizeof(dict), 1);
    rig_init(&rig);
    rig_start(&rig);
    assert_known(&rig, dict, sizeof(dict), false);
    assert_int_equal(
        push(&rig, "1.0.0", WIRE_TUNNEL_DICT_FILE, WIRE_FILE_DATA, dict, sizeof(dict), &error),
        BASE_OK);
    assert_known(&rig, dict, sizeof(dict), true);
    struct gw_tunnel_dict first;
    uint32_t id = id_of(dict, sizeof(dict));
    assert_int_equal(gw_tunnel_dicts_find(rig.core->store, id, &first), BASE_OK);
    // A later version with the same dictionary, and one that only looks like it.
    assert_int_equal(
        push(&rig, "1.1.0", WIRE_TUNNEL_DICT_FILE, WIRE_FILE_DATA, dict, sizeof(dict), &error),
        BASE_OK);
    struct gw_tunnel_dict again;
    assert_int_equal(gw_tunnel_dicts_find(rig.core->store, id, &again), BASE_OK);
    assert_memory_equal(&again, &first, sizeof(first));
    make_dict(dict, sizeof(dict), 2);
    assert_int_equal(push(&rig, "1.2.0", "other.dict", WIRE_FILE_DATA, dict, sizeof(dict), &error),
                     BASE_OK);
    assert_int_equal(
        push(&rig, "1.3.0", WIRE_TUNNEL_DICT_FILE, WIRE_FILE_MODEL, dict, sizeof(dict), &error),
        BASE_OK);
    assert_known(&rig, dict, sizeof(dict), false);
    make_dict(dict, sizeof(dict), 1);
    rig_stop(&rig);
    rig_start(&rig);
    assert_known(&rig, dict, sizeof(dict), true);
    rig_done(&rig);
}

static void test_refused(void **state)
{
    (void)state;
    static struct rig rig;
    static uint8_t dict[WIRE_TUNNEL_DICT_BYTES_MAX + 1];
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    const struct {
        size_t size;
        bool magic;
        enum base_status status;
    } cases[] = {
        {DICT_BYTES, false, BASE_ERR_INVALID},
        {WIRE_TUNNEL_DICT_BYTES_MIN - 1, true, BASE_ERR_INVALID},
        {WIRE_TUNNEL_DICT_BYTES_MAX + 1, true, BASE_ERR_TOO_LARGE},
        {WIRE_TUNNEL_DICT_BYTES_MAX, true, BASE_OK},
        {WIRE_TUNNEL_DICT_BYTES_MIN, true, BASE_OK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char version[] = "1.0.0";
        version[4] = (char)('0' + i);
        make_dict(dict, cases[i].size, (uint8_t)(10 + i));
        dict[0] = cases[i].magic ? dict[0] : 0;
        assert_int_equal(
            push(&rig, version, WIRE_TUNNEL_DICT_FILE, WIRE_FILE_DATA, dict, cases[i].size, &error),
            cases[i].status);
        if (cases[i].status != BASE_OK) {
            assert_non_null(strstr(error.text, "tunnel.dict: "));
        }
        assert_known(&rig, dict, cases[i].size, cases[i].status == BASE_OK);
    }
    rig_done(&rig);
}

// Puts a row whose hash differs from the real one in its last byte.
static enum base_status forge_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    (void)self;
    uint8_t dict[DICT_BYTES];
    uint8_t row[1 + 8 + 4 + WIRE_SHA256_BYTES] = {1};
    struct wire_sha256 digest;
    make_dict(dict, sizeof(dict), 3);
    gw_sha256(dict, sizeof(dict), &digest);
    struct gw_key key = gw_key_u64(wire_tunnel_dict_id(&digest));
    digest.bytes[WIRE_SHA256_BYTES - 1] ^= 1;
    memcpy(row + 13, digest.bytes, WIRE_SHA256_BYTES);
    return gw_store_txn_put(txn, GW_TABLE_TUNNEL_DICTS, &key, row, sizeof(row));
}

// Four bytes name a dictionary: a second one of the same name must not take the first one's place.
static void test_same_id(void **state)
{
    (void)state;
    static struct rig rig;
    struct base_error error = {0};
    uint8_t dict[DICT_BYTES];
    rig_init(&rig);
    rig_start(&rig);
    struct gw_store_op forge = {.apply = forge_apply};
    assert_int_equal(gw_store_submit_wait(rig.core->store, &forge), BASE_OK);
    make_dict(dict, sizeof(dict), 3);
    assert_int_equal(
        push(&rig, "1.0.0", WIRE_TUNNEL_DICT_FILE, WIRE_FILE_DATA, dict, sizeof(dict), &error),
        BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "another dictionary has its id"));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learnt_with_a_version),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_same_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
