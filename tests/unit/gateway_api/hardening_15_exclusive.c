// Exclusive content between tenants: to know a hash makes nothing public and nothing one's own, and
// nobody is told what others brought.
#include "api_kit.h"

#include "wire/trust/exclusive_files.h"

#define SECRET "the secret of ann"

struct bearer {
    char text[80];
};

struct world {
    struct api_kit kit;
    struct bearer one; // releasers of two tenants
    struct bearer two;
    struct wire_sha256 secret; // tenant one brought them
    struct wire_sha256 exclusive;
    struct wire_sha256 list;
    struct wire_sha256 root;
    uint8_t exclusive_bytes[256];
    size_t exclusive_size;
    uint8_t list_bytes[512];
    size_t list_size;
};

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    assert_int_equal(signing_sha256(bytes, size, out), BASE_OK);
}

static const struct wire_hasher hasher = {.sha256 = hash};

static struct bearer tenant_new(struct api_kit *kit, const char *name)
{
    struct bearer out;
    char body[64];
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tenants", body, 201));
    kit->tenant = name;
    json_t *token =
        api_call(kit, GW_METHOD_POST, "/api/v1/tokens", "{\"name\":\"a\",\"role\":\"admin\"}", 201);
    kit->tenant = NULL;
    snprintf(out.text, sizeof(out.text), "Bearer %s", api_text(token, "secret"));
    json_decref(token);
    return out;
}

static int blob_call(struct api_kit *kit, enum gw_method method, const char *door,
                     const struct wire_sha256 *digest, const void *bytes, size_t size)
{
    struct api_answer answer;
    char hex[WIRE_SHA256_HEX + 1];
    char path[128];
    wire_sha256_hex(digest, hex);
    snprintf(path, sizeof(path), "%s%s", door, hex);
    api_send(kit, method, path, bytes, size, &answer);
    int status = answer.status;
    api_answer_done(&answer);
    return status;
}

#define PUBLIC    "/v1/blob/"
#define SHARED    "/api/v1/blobs/"
#define EXCLUSIVE "/api/v1/exclusive/"

static int put(struct api_kit *kit, const char *door, const void *bytes, size_t size,
               struct wire_sha256 *out)
{
    hash(NULL, bytes, size, out);
    return blob_call(kit, GW_METHOD_PUT, door, out, bytes, size);
}

static int ask(struct api_kit *kit, const char *door, const struct wire_sha256 *digest)
{
    return blob_call(kit, GW_METHOD_GET, door, digest, NULL, 0);
}

// A file of one user, with its exclusive manifest and its list, brought by tenant one.
static void world_init(struct world *world)
{
    struct wire_exclusive_files exclusive = {.file_count = 1};
    struct wire_entry entry = {.kind = WIRE_SUBJECT_USER, .subject = BASE_STR("ann")};
    struct base_writer writer;
    memset(world, 0, sizeof(*world));
    api_kit_init(&world->kit);
    world->one = tenant_new(&world->kit, "one");
    world->two = tenant_new(&world->kit, "two");
    world->kit.bearer = world->one.text;
    assert_int_equal(put(&world->kit, EXCLUSIVE, SECRET, strlen(SECRET), &world->secret), 201);
    exclusive.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_DATA,
                                                     .name = BASE_STR("w.bin"),
                                                     .bytes = strlen(SECRET),
                                                     .digest = world->secret};
    assert_int_equal(wire_exclusive_encode(&exclusive, world->exclusive_bytes,
                                           sizeof(world->exclusive_bytes), &world->exclusive_size),
                     BASE_OK);
    assert_int_equal(put(&world->kit, EXCLUSIVE, world->exclusive_bytes, world->exclusive_size,
                         &world->exclusive),
                     201);
    entry.exclusive = world->exclusive;
    entry.bytes = (uint32_t)world->exclusive_size;
    base_writer_init(&writer, world->list_bytes, sizeof(world->list_bytes));
    wire_entry_list_head(&writer, 1);
    wire_entry_write(&writer, &entry);
    world->list_size = base_writer_size(&writer);
    assert_int_equal(put(&world->kit, EXCLUSIVE, world->list_bytes, world->list_size, &world->list),
                     201);
    wire_entry_leaf(&hasher, &entry, &world->root); // of one leaf: the root
}

// Puts and registers a version of `task` with these: a shared file, a tree. Returns the answer.
static json_t *version(struct world *world, const char *task, const struct wire_sha256 *shared,
                       bool exclusive, int status)
{
    struct wire_manifest manifest = {.task_name = base_str_of(task),
                                     .version = BASE_STR("1.0.0"),
                                     .runtime_abi = WIRE_RUNTIME_ABI,
                                     .entry = BASE_STR("main"),
                                     .exclusive =
                                         exclusive ? WIRE_EXCLUSIVE_OPTIONAL : WIRE_EXCLUSIVE_NONE,
                                     .file_count = 2};
    manifest.exclusive_root = exclusive ? world->root : manifest.exclusive_root;
    struct wire_sha256 script;
    struct wire_sha256 digest;
    uint8_t bytes[1024];
    char body[256];
    char path[128];
    char hex[2][WIRE_SHA256_HEX + 1];
    size_t size = 0;
    (void)put(&world->kit, SHARED, "script", 6, &script);
    manifest.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("main.mpy"), .bytes = 6, .digest = script};
    manifest.files[1] = (struct wire_manifest_file){.kind = WIRE_FILE_DATA,
                                                    .name = BASE_STR("x.bin"),
                                                    .bytes = shared != NULL ? strlen(SECRET) : 6,
                                                    .digest = shared != NULL ? *shared : script};
    assert_int_equal(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &size), BASE_OK);
    (void)put(&world->kit, SHARED, bytes, size, &digest);
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", task);
    struct api_answer answer;
    api_send(&world->kit, GW_METHOD_POST, "/api/v1/tasks", body, strlen(body), &answer);
    api_answer_done(&answer);
    wire_sha256_hex(&digest, hex[0]);
    wire_sha256_hex(&world->list, hex[1]);
    snprintf(path, sizeof(path), "/api/v1/tasks/%s/versions", task);
    snprintf(body, sizeof(body), "{\"manifest\":\"%s\"%s%s%s}", hex[0],
             exclusive ? ",\"exclusive\":\"" : "", exclusive ? hex[1] : "", exclusive ? "\"" : "");
    return api_call(&world->kit, GW_METHOD_POST, path, body, status);
}

// The answer lacks just this blob, as if it were not there.
static void expect_missing_take(json_t *answer, const struct wire_sha256 *digest)
{
    char hex[WIRE_SHA256_HEX + 1];
    const json_t *missing = json_object_get(answer, "missing");
    wire_sha256_hex(digest, hex);
    assert_int_equal(json_array_size(missing), 1);
    assert_string_equal(json_string_value(json_array_get(missing, 0)), hex);
    json_decref(answer);
}

static void test_a_hash_makes_nothing_public(void **state)
{
    struct world world;
    struct api_kit *kit = &world.kit;
    struct wire_sha256 digest;

    (void)state;
    world_init(&world);
    const char *all[] = {world.two.text, world.one.text}; // nor for who brought it
    for (size_t i = 0; i < TEST_COUNT(all); ++i) {
        kit->bearer = all[i];
        expect_missing_take(version(&world, i == 0 ? "evil" : "shop", &world.secret, false, 409),
                            &world.secret);
        assert_int_equal(ask(kit, PUBLIC, &world.secret), 404);
    }
    // Nor is a list, or a manifest, that came as exclusive.
    assert_int_equal(ask(kit, PUBLIC, &world.list), 404);
    uint8_t bytes[1024];
    struct wire_sha256 script;
    size_t size = api_manifest("shop", "2.0.0", "script", bytes, sizeof(bytes), &digest, &script);
    assert_int_equal(put(kit, EXCLUSIVE, bytes, size, &digest), 201);
    char body[128];
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&digest, hex);
    snprintf(body, sizeof(body), "{\"manifest\":\"%s\"}", hex);
    expect_missing_take(api_call(kit, GW_METHOD_POST, "/api/v1/tasks/shop/versions", body, 409),
                        &digest);
    // Who has the bytes may say that they are for everybody.
    kit->bearer = world.one.text;
    assert_int_equal(put(kit, SHARED, SECRET, strlen(SECRET), &digest), 201);
    json_decref(version(&world, "shop", &world.secret, false, 201));
    assert_int_equal(ask(kit, PUBLIC, &world.secret), 200);
    api_kit_done(kit);
}

static void test_a_hash_makes_nothing_ones_own(void **state)
{
    struct world world;
    struct api_kit *kit = &world.kit;
    struct wire_sha256 digest;

    (void)state;
    world_init(&world);
    kit->bearer = world.two.text;
    expect_missing_take(version(&world, "evil", NULL, true, 409), &world.list);
    assert_int_equal(put(kit, EXCLUSIVE, world.list_bytes, world.list_size, &digest), 201);
    expect_missing_take(version(&world, "evil", NULL, true, 409), &world.exclusive);
    assert_int_equal(put(kit, EXCLUSIVE, world.exclusive_bytes, world.exclusive_size, &digest),
                     201);
    expect_missing_take(version(&world, "evil", NULL, true, 409), &world.secret);
    // Who has all the bytes brings all of them, and it is theirs as well; over a restart, too.
    assert_int_equal(put(kit, EXCLUSIVE, SECRET, strlen(SECRET), &digest), 201);
    api_kit_close(kit);
    api_kit_open(kit);
    json_decref(version(&world, "evil", NULL, true, 201));
    kit->bearer = world.one.text;
    json_decref(version(&world, "shop", NULL, true, 201));
    api_kit_done(kit);
}

// By no answer: not by a look, a put, a pack, or what the audit log shows of before.
static void test_what_others_brought_is_not_told(void **state)
{
    struct world world;
    struct api_kit *kit = &world.kit;
    struct wire_sha256 digest;
    uint8_t pack[64];
    struct base_writer writer;

    (void)state;
    world_init(&world);
    assert_int_equal(ask(kit, EXCLUSIVE, &world.secret), 200); // its own
    kit->bearer = world.two.text;
    assert_int_equal(ask(kit, EXCLUSIVE, &world.secret), 404);
    assert_int_equal(blob_call(kit, GW_METHOD_PUT, EXCLUSIVE, &world.secret, "x", 1), 422);
    json_t *page = api_call(kit, GW_METHOD_GET, "/api/v1/audit?limit=500", NULL, 200);
    const json_t *items = json_object_get(page, "items");
    json_t *entry =
        json_loads(api_text(json_array_get(items, json_array_size(items) - 1), "entry"), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(entry, "status")), 422);
    assert_true(json_is_null(json_object_get(entry, "before")));
    json_decref(entry);
    json_decref(page);
    base_writer_init(&writer, pack, sizeof(pack));
    base_writer_u32(&writer, (uint32_t)strlen(SECRET));
    base_writer_bytes(&writer, SECRET, strlen(SECRET));
    for (unsigned i = 0; i < 2; ++i) {
        json_t *answer = NULL;
        struct api_answer raw;
        api_send(kit, GW_METHOD_PUT, "/api/v1/exclusive", pack, base_writer_size(&writer), &raw);
        answer = raw.json;
        assert_int_equal(raw.status, i == 0 ? 201 : 200);
        assert_int_equal(json_integer_value(json_object_get(answer, "stored")), i == 0);
        api_answer_done(&raw);
    }
    assert_int_equal(put(kit, EXCLUSIVE, SECRET, strlen(SECRET), &digest), 200);
    assert_int_equal(ask(kit, EXCLUSIVE, &world.secret), 200);
    assert_int_equal(put(kit, EXCLUSIVE, world.list_bytes, world.list_size, &digest), 201);
    assert_int_equal(put(kit, EXCLUSIVE, world.list_bytes, world.list_size, &digest), 200);
    // What is for everybody is there for everybody.
    assert_int_equal(put(kit, SHARED, "all", 3, &digest), 201);
    kit->bearer = world.one.text;
    assert_int_equal(ask(kit, EXCLUSIVE, &digest), 200);
    assert_int_equal(put(kit, EXCLUSIVE, "all", 3, &digest), 200);
    assert_int_equal(ask(kit, PUBLIC, &digest), 200);
    api_kit_done(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hash_makes_nothing_public),
        cmocka_unit_test(test_a_hash_makes_nothing_ones_own),
        cmocka_unit_test(test_what_others_brought_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
