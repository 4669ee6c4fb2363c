// Exclusive files at the gateway: what a version with a list needs, who gets a proof and content,
// and who is told nothing. Proofs are verified as a device does; lists of many sizes are looked up
// subject by subject.
#include "core_rig.h"
#include "failing_heap.h"

#include "base/check.h"
#include "svc/access/device_user.h"
#include "svc/content/exclusive.h"
#include "svc/access/operators.h"
#include "svc/access/credentials.h"
#include "wire/enrolment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUBJECTS_MAX 1200u
#define LIST_MAX     (SUBJECTS_MAX * WIRE_ENTRY_BYTES_MAX + 16)
#define TASK         "shop/view"

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    gw_sha256(bytes, size, out);
}

static const struct wire_hasher hasher = {.sha256 = hash};

// A version of TASK with exclusive files, as the build command makes it.
struct version {
    uint32_t count;
    struct wire_entry entries[SUBJECTS_MAX];
    char subjects[SUBJECTS_MAX][32];
    struct wire_sha256 files[SUBJECTS_MAX]; // one a subject
    struct wire_sha256 shared;
    struct wire_sha256 nodes[2 * SUBJECTS_MAX + 32];
    struct wire_sha256 root;
    struct wire_sha256 manifest;
    struct wire_sha256 list;
    uint8_t list_bytes[LIST_MAX];
    size_t list_size;
    const char *file_name; // of every subject; NULL takes "me.bin"
};

static struct version version;

static struct wire_sha256 put(struct rig *rig, bool exclusive, const void *bytes, size_t size)
{
    struct wire_sha256 digest;
    struct base_error error = {0};
    bool created;
    gw_sha256(bytes, size, &digest);
    const struct gw_store_item item = {digest, bytes, size};
    enum base_status status = exclusive
                                  ? gw_blob_put_exclusive(rig->core, 0, &item, &created, &error)
                                  : gw_blob_put(rig->core, &item, &created, &error);
    assert_int_equal(status, BASE_OK);
    return digest;
}

static void add_subject(struct rig *rig, enum wire_subject_kind kind, const char *subject)
{
    uint32_t at = version.count++;
    char content[64];
    uint8_t bytes[WIRE_EXCLUSIVE_BYTES_MAX];
    size_t size = 0;
    int content_size = snprintf(content, sizeof(content), "the model of %s", subject);
    version.files[at] = put(rig, true, content, (size_t)content_size);
    struct wire_exclusive_files exclusive = {.file_count = 1};
    exclusive.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_DATA,
        .name = base_str_of(version.file_name != NULL ? version.file_name : "me.bin"),
        .bytes = (uint64_t)content_size,
        .digest = version.files[at],
    };
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof(bytes), &size), BASE_OK);
    (void)snprintf(version.subjects[at], sizeof(version.subjects[at]), "%s", subject);
    version.entries[at] = (struct wire_entry){.kind = kind,
                                              .subject = base_str_of(version.subjects[at]),
                                              .exclusive = put(rig, true, bytes, size),
                                              .bytes = (uint32_t)size};
}

// The list, the tree and the manifest over the subjects added before.
static void finish(struct rig *rig)
{
    static struct wire_manifest manifest;
    uint8_t bytes[2048];
    struct base_writer writer;
    base_writer_init(&writer, version.list_bytes, sizeof(version.list_bytes));
    wire_entry_list_head(&writer, version.count);
    for (uint32_t i = 0; i < version.count; i++) {
        wire_entry_write(&writer, &version.entries[i]);
        wire_entry_leaf(&hasher, &version.entries[i], &version.nodes[i]);
    }
    assert_int_equal(writer.status, BASE_OK);
    version.list_size = base_writer_size(&writer);
    wire_tree_build(&hasher, version.nodes, version.count);
    version.root = version.nodes[wire_tree_nodes(version.count) - 1];
    version.list = put(rig, true, version.list_bytes, version.list_size);
    version.shared = put(rig, false, "script", 6);
    manifest = (struct wire_manifest){
        .task_name = BASE_STR(TASK),
        .version = BASE_STR("1.0.0"),
        .runtime_abi = 1,
        .entry = BASE_STR("run"),
        .exclusive = WIRE_EXCLUSIVE_OPTIONAL,
        .exclusive_root = version.root,
        .file_count = 1,
    };
    manifest.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_SCRIPT,
                                                    .name = BASE_STR("run.mpy"),
                                                    .bytes = 6,
                                                    .digest = version.shared};
    size_t size = 0;
    assert_int_equal(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &size), BASE_OK);
    version.manifest = put(rig, false, bytes, size);
}

static enum base_status add(struct rig *rig, const struct wire_sha256 *list,
                            struct wire_sha256 *missing, uint32_t capacity, uint32_t *out_missing,
                            struct base_error *error)
{
    struct gw_version_new wish = {.task = BASE_STR(TASK),
                                  .manifest = version.manifest,
                                  .missing = missing,
                                  .missing_capacity = capacity};
    struct gw_version_view view;
    bool created = false;
    if (list != NULL) {
        wish.exclusive = *list;
    }
    enum base_status status = gw_catalog_version_add(rig->core, &wish, &view, &created, error);
    *out_missing = wish.missing_count;
    assert_true(status != BASE_OK || view.subjects == version.count);
    return status;
}

static void registered(struct rig *rig)
{
    struct base_error error = {0};
    struct wire_sha256 missing[4];
    uint32_t count = 0;
    enum base_status status = add(rig, &version.list, missing, 4, &count, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", base_status_name(status), error.text);
    }
}

static void start(struct rig *rig)
{
    struct base_error error = {0};
    bool created;
    memset(&version, 0, sizeof(version));
    rig_init(rig);
    rig_start(rig);
    assert_int_equal(
        gw_catalog_task_create(rig->core, rig->tenant, BASE_STR(TASK), &created, &error), BASE_OK);
}

// ---- What a device asks

struct answer {
    int status;
    uint8_t body[8192];
    size_t size;
    char caching[64];
};

static char *credential_of(struct rig *rig, uint64_t id)
{
    static char credentials[4][GW_SECRET_TEXT_BYTES + 1];
    static uint32_t next;
    char *out = credentials[next++ % 4];
    struct gw_credential credential = {.state = GW_CREDENTIAL_TOKEN, .tenant = rig->tenant};
    for (uint32_t i = 0; i < GW_SECRET_TEXT_BYTES; i++) {
        out[i] = i < 4 ? "wdt_"[i] : 'A';
    }
    out[5] = (char)('A' + next % 20);
    out[GW_SECRET_TEXT_BYTES] = '\0';
    assert_true(gw_secret_hash(base_str_of(out), GW_SECRET_DEVICE, &credential.hash));
    assert_true(gw_credentials_set(rig->core->credentials, id, &credential));
    return out;
}

static struct answer ask_path(struct rig *rig, uint64_t id, const char *credential,
                              const char *path, const char *range)
{
    struct rig_exchange exchange;
    struct answer answer = {0};
    char hex[WIRE_DEVICE_HEX + 1];
    wire_device_hex(id, hex);
    rig_exchange_init(&exchange, GW_METHOD_GET, path);
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.credential = base_str_of(credential);
    exchange.exchange.request.range = base_str_of(range);
    exchange.exchange.request.accept_encoding = BASE_STR("zstd, dcz");
    rig_run(rig, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    answer.status = reply->status;
    const uint8_t *bytes = reply->body;
    answer.size = reply->body_bytes;
    if (reply->kind == GW_REPLY_BLOB) {
        bytes = gw_blob_bytes(reply->blob, reply->blob_from, &answer.size);
        answer.size = (size_t)reply->blob_bytes;
    }
    assert_true(answer.size <= sizeof(answer.body));
    if (answer.size > 0) {
        memcpy(answer.body, bytes, answer.size);
    }
    struct base_str caching = rig_header(&exchange, "cache-control");
    (void)snprintf(answer.caching, sizeof(answer.caching), "%.*s", (int)caching.size, caching.data);
    assert_int_equal(rig_header(&exchange, "content-encoding").size, 0);
    rig_exchange_done(&exchange);
    return answer;
}

static struct answer ask(struct rig *rig, uint64_t id, const char *credential,
                         const struct wire_sha256 *content)
{
    char path[256];
    char root[WIRE_SHA256_HEX + 1];
    char hex[WIRE_SHA256_HEX + 1] = "";
    wire_sha256_hex(&version.root, root);
    if (content != NULL) {
        wire_sha256_hex(content, hex);
    }
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s%s%s", root, content != NULL ? "/" : "",
                   hex);
    return ask_path(rig, id, credential, path, NULL);
}

static void expect_proof(const struct answer *answer, const char *subject)
{
    struct wire_proof proof;
    assert_int_equal(answer->status, 200);
    assert_string_equal(answer->caching, "private, no-store");
    assert_int_equal(wire_proof_parse(answer->body, answer->size, &proof), BASE_OK);
    assert_int_equal(wire_proof_verify(&proof, &hasher, &version.root), BASE_OK);
    assert_true(base_str_equal(proof.entry.subject, base_str_of(subject)));
}

static int blob_status(struct rig *rig, const struct wire_sha256 *digest)
{
    char path[128] = "/v1/blob/";
    wire_sha256_hex(digest, path + strlen(path));
    return ask_path(rig, 0x99, NULL, path, NULL).status;
}

// ---- Tests

static void test_devices_get_their_own(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000002");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    finish(&rig);
    registered(&rig);
    const char *one = credential_of(&rig, 1);
    const char *two = credential_of(&rig, 2);
    const char *three = credential_of(&rig, 3);
    struct answer answer = ask(&rig, 1, one, NULL);
    expect_proof(&answer, "0000000000000001");
    answer = ask(&rig, 1, one, &version.entries[0].exclusive);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, version.entries[0].bytes);
    answer = ask(&rig, 1, one, &version.files[0]);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.caching, "private, no-store");
    assert_memory_equal(answer.body, "the model of 0000000000000001", 29);
    // Nothing of anybody else's, nothing that is not in the tree, nothing for who has no leaf.
    assert_int_equal(ask(&rig, 1, one, &version.files[1]).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.entries[1].exclusive).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.files[2]).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.shared).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.list).status, 404);
    assert_int_equal(ask(&rig, 3, three, NULL).status, 404);
    assert_int_equal(ask(&rig, 3, three, &version.files[0]).status, 404);
    // Who shows nothing, or somebody else's credential.
    assert_int_equal(ask(&rig, 1, NULL, NULL).status, 401);
    assert_int_equal(ask(&rig, 1, two, &version.files[0]).status, 401);
    assert_int_equal(ask(&rig, 77, NULL, NULL).status, 401); // a stranger, served elsewhere
    // Content of single devices is at no public door, the shared is.
    assert_int_equal(blob_status(&rig, &version.files[0]), 404);
    assert_int_equal(blob_status(&rig, &version.entries[0].exclusive), 404);
    assert_int_equal(blob_status(&rig, &version.list), 404);
    assert_int_equal(blob_status(&rig, &version.shared), 200);
    assert_int_equal(blob_status(&rig, &version.manifest), 200);
    rig_done(&rig);
}

static void test_ranges_and_bad_paths(void **state)
{
    (void)state;
    struct rig rig;
    char root[WIRE_SHA256_HEX + 1];
    char file[WIRE_SHA256_HEX + 1];
    char path[256];
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    finish(&rig);
    registered(&rig);
    const char *one = credential_of(&rig, 1);
    wire_sha256_hex(&version.root, root);
    wire_sha256_hex(&version.files[0], file);
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s/%s", root, file);
    struct answer answer = ask_path(&rig, 1, one, path, "bytes=4-");
    assert_int_equal(answer.status, 206);
    assert_int_equal(answer.size, 25);
    assert_memory_equal(answer.body, "model", 5);
    assert_int_equal(ask_path(&rig, 1, one, path, "bytes=999-").status, 416);
    static const char *const bad[] = {"", "x", "/", "00"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/exclusive/%s", bad[i]);
        assert_int_equal(ask_path(&rig, 1, one, path, NULL).status, 400);
        (void)snprintf(path, sizeof(path), "/v1/exclusive/%s/%s", root, bad[i]);
        assert_int_equal(ask_path(&rig, 1, one, path, NULL).status, 400);
    }
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s/%s/", root, file);
    assert_int_equal(ask_path(&rig, 1, one, path, NULL).status, 400);
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s", file); // no tree
    assert_int_equal(ask_path(&rig, 1, one, path, NULL).status, 404);
    rig_done(&rig);
}

static void test_users_are_bound_by_operators(void **state)
{
    (void)state;
    struct rig rig;
    char user[WIRE_SUBJECT_MAX + 1];
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000002");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    add_subject(&rig, WIRE_SUBJECT_USER, "ben");
    finish(&rig);
    registered(&rig);
    const char *one = credential_of(&rig, 1);
    const char *two = credential_of(&rig, 2);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 404);
    assert_int_equal(gw_device_user_set(rig.core, 0, 1, BASE_STR("ana")), BASE_OK);
    struct answer answer = ask(&rig, 1, one, NULL);
    expect_proof(&answer, "ana");
    assert_int_equal(ask(&rig, 1, one, &version.files[1]).status, 200);
    assert_int_equal(ask(&rig, 1, one, &version.files[2]).status, 404);
    // A device's own leaf goes before its user's.
    assert_int_equal(gw_device_user_set(rig.core, 0, 2, BASE_STR("ben")), BASE_OK);
    answer = ask(&rig, 2, two, NULL);
    expect_proof(&answer, "0000000000000002");
    // Bound anew, durable, and unbound.
    assert_int_equal(gw_device_user_set(rig.core, 0, 1, BASE_STR("ben")), BASE_OK);
    rig_stop(&rig);
    rig_start(&rig);
    one = credential_of(&rig, 1);
    answer = ask(&rig, 1, one, NULL);
    expect_proof(&answer, "ben");
    assert_int_equal(ask(&rig, 1, one, &version.files[1]).status, 404);
    assert_int_equal(gw_device_user_set(rig.core, 0, 1, BASE_STR("")), BASE_OK);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.files[2]).status, 404);
    assert_int_equal(gw_device_user_set(rig.core, 0, 1, BASE_STR("../x")), BASE_ERR_INVALID);
    // Another tenant's binding means nothing here, and a reset forgets.
    assert_int_equal(gw_device_user_set(rig.core, 7, 1, BASE_STR("ana")), BASE_OK);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 404);
    assert_int_equal(gw_device_user_set(rig.core, 0, 1, BASE_STR("ana")), BASE_OK);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 200);
    struct gw_credential forgotten;
    assert_int_equal(gw_device_forget(rig.core, 1, &forgotten), BASE_OK);
    assert_int_equal(gw_device_user_get(rig.core, 0, 1, user), BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

static void test_tenants_are_apart(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    finish(&rig);
    registered(&rig);
    rig.tenant = 3; // of the credential: the task is the default tenant's
    const char *one = credential_of(&rig, 1);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 404);
    assert_int_equal(ask(&rig, 1, one, &version.files[0]).status, 404);
    rig.tenant = 0;
    one = credential_of(&rig, 1);
    assert_int_equal(ask(&rig, 1, one, NULL).status, 200);
    rig_done(&rig);
}

static void test_every_subject_is_found(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 31, 64, 65, SUBJECTS_MAX};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct rig rig;
        char subject[32];
        start(&rig);
        for (uint32_t i = 0; i < counts[c]; i++) {
            (void)snprintf(subject, sizeof(subject), "%016x", i * 3 + 1);
            add_subject(&rig, WIRE_SUBJECT_DEVICE, subject);
        }
        finish(&rig);
        registered(&rig);
        uint32_t step = counts[c] > 100 ? 37 : 1;
        for (uint32_t id = 0; id < counts[c] * 3 + 3; id += step) {
            struct gw_exclusive_leaf leaf;
            enum base_status status = gw_exclusive_find(rig.core, 0, &version.root, id, &leaf);
            assert_int_equal(status,
                             id % 3 == 1 && id / 3 < counts[c] ? BASE_OK : BASE_ERR_NOT_FOUND);
            if (status == BASE_OK) {
                assert_int_equal(leaf.proof.index, id / 3);
                assert_int_equal(wire_proof_verify(&leaf.proof, &hasher, &version.root), BASE_OK);
                gw_exclusive_leaf_done(&leaf);
            }
        }
        rig_done(&rig);
    }
}

static void expect_refused(struct rig *rig, const struct wire_sha256 *list, const char *text)
{
    struct base_error error = {0};
    struct wire_sha256 missing[4];
    uint32_t count = 0;
    assert_int_equal(add(rig, list, missing, 4, &count, &error), BASE_ERR_INVALID);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
}

static void test_versions_are_checked_by_subject(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error = {0};
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    finish(&rig);
    expect_refused(&rig, NULL, "list is needed");
    expect_refused(&rig, &version.shared, "no list");
    // The list of another version: a leaf less, so another root.
    struct wire_sha256 list = version.list;
    struct wire_sha256 manifest = version.manifest;
    version.count = 1;
    finish(&rig);
    version.manifest = manifest;
    expect_refused(&rig, &version.list, "not the one whose root");
    version.count = 2;
    version.manifest = manifest;
    // A list that names what is no exclusive manifest, and one of another size.
    struct wire_sha256 kept = version.entries[1].exclusive;
    version.entries[1].exclusive = version.shared;
    finish(&rig);
    expect_refused(&rig, &version.list, "user ana: what the list names is no exclusive manifest");
    version.entries[1].exclusive = kept;
    version.entries[1].bytes++;
    finish(&rig);
    expect_refused(&rig, &version.list, "user ana: what the list names is no exclusive manifest");
    version.entries[1].bytes--;
    // A file of the version's name.
    version.file_name = "run.mpy";
    add_subject(&rig, WIRE_SUBJECT_USER, "ben");
    finish(&rig);
    expect_refused(&rig, &version.list, "user ben: file run.mpy is one of the version's, too");
    // What is missing is named, as far as there is room, and in rounds.
    version.count = 2;
    version.entries[0].exclusive.bytes[0] ^= 1;
    version.entries[1].exclusive.bytes[0] ^= 1;
    finish(&rig);
    struct wire_sha256 missing[2];
    uint32_t count = 0;
    assert_int_equal(add(&rig, &version.list, missing, 2, &count, &error), BASE_ERR_CONFLICT);
    assert_int_equal(count, 2);
    assert_memory_equal(missing[0].bytes, version.entries[0].exclusive.bytes, 32);
    assert_int_equal(add(&rig, &version.list, missing, 1, &count, &error), BASE_ERR_CONFLICT);
    assert_int_equal(count, 1);
    list.bytes[0] ^= 1;
    assert_int_equal(add(&rig, &list, missing, 2, &count, &error), BASE_ERR_CONFLICT);
    assert_int_equal(count, 1);
    assert_memory_equal(missing[0].bytes, list.bytes, 32);
    // A list for a version that has no exclusive files.
    uint8_t bytes[256];
    size_t size = 0;
    static struct wire_manifest plain;
    plain = (struct wire_manifest){.task_name = BASE_STR(TASK),
                                   .version = BASE_STR("2.0.0"),
                                   .entry = BASE_STR("run"),
                                   .file_count = 1};
    plain.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_SCRIPT,
                                                 .name = BASE_STR("run.mpy"),
                                                 .bytes = 6,
                                                 .digest = version.shared};
    assert_int_equal(wire_manifest_encode(&plain, bytes, sizeof(bytes), &size), BASE_OK);
    version.manifest = put(&rig, false, bytes, size);
    expect_refused(&rig, &version.list, "names no exclusive files");
    rig_done(&rig);
}

static void test_what_is_shared_is_public(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    struct wire_sha256 script = put(&rig, true, "script", 6); // of everybody, but came exclusive
    assert_int_equal(blob_status(&rig, &script), 404);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    version.shared = script;
    // As finish(), but what is shared is not put publicly.
    finish(&rig);
    assert_int_equal(blob_status(&rig, &script), 200); // put publicly: public
    struct wire_sha256 other = put(&rig, true, "other", 5);
    assert_int_equal(blob_status(&rig, &other), 404);
    assert_int_equal(gw_store_blob_publish(rig.core->store, &other), BASE_OK);
    assert_int_equal(blob_status(&rig, &other), 200); // cached before as exclusive
    put(&rig, true, "other", 5);                      // stays
    assert_int_equal(blob_status(&rig, &other), 200);
    struct wire_sha256 nothing = {{1}};
    assert_int_equal(gw_store_blob_publish(rig.core->store, &nothing), BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

static void test_packs(void **state)
{
    (void)state;
    static uint8_t pack[3 * GW_STORE_BLOB_INLINE];
    static const size_t sizes[] = {5, 0, GW_STORE_BLOB_INLINE, 7, GW_STORE_BLOB_INLINE + 1, 5};
    struct rig rig;
    struct base_error error = {0};
    struct base_writer writer;
    struct gw_blob_pack found = {0};
    start(&rig);
    base_writer_init(&writer, pack, sizeof(pack));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        static uint8_t bytes[GW_STORE_BLOB_INLINE + 1];
        memset(bytes, (int)(sizes[i] % 251), sizeof(bytes));
        base_writer_u32(&writer, (uint32_t)sizes[i]);
        base_writer_bytes(&writer, bytes, sizes[i]);
    }
    size_t size = base_writer_size(&writer);
    struct wire_sha256 known = put(&rig, false, "\7\7\7\7\7\7\7", 7); // public, and stays so
    assert_int_equal(
        gw_blobs_put_exclusive(rig.core, 0, (struct base_span){pack, size}, &found, &error),
        BASE_OK);
    assert_int_equal(found.count, 6);
    assert_int_equal(found.created, 4); // one was there, one is there twice
    assert_int_equal(
        gw_blobs_put_exclusive(rig.core, 0, (struct base_span){pack, size}, &found, &error),
        BASE_OK);
    assert_int_equal(found.created, 0);
    assert_int_equal(blob_status(&rig, &known), 200);
    struct wire_sha256 five;
    gw_sha256("\5\5\5\5\5", 5, &five);
    assert_true(gw_blob_held(rig.core, 0, &five));
    assert_int_equal(blob_status(&rig, &five), 404);
    static const size_t cuts[] = {1, 3, 4, 8};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        assert_int_equal(
            gw_blobs_put_exclusive(rig.core, 0, (struct base_span){pack, cuts[i]}, &found, &error),
            BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, "blob 0 is cut off"));
    }
    assert_int_equal(
        gw_blobs_put_exclusive(rig.core, 0, (struct base_span){pack, 0}, &found, &error),
        BASE_ERR_INVALID);
    memset(pack, 0, 4 * (GW_BLOB_PACK_MAX + 1));
    assert_int_equal(gw_blobs_put_exclusive(rig.core, 0,
                                            (struct base_span){pack, 4 * (GW_BLOB_PACK_MAX + 1)},
                                            &found, &error),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "more than 4096"));
    rig_done(&rig);
}

// ---- Without memory

#define ALLOCATIONS_MAX 60u

// A look-up on a cold cache, each allocation failed in turn: it says so, and nothing is lost.
static void test_looking_up_without_memory(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    finish(&rig);
    registered(&rig);
    assert_int_equal(gw_device_user_set(rig.core, 0, 2, BASE_STR("ana")), BASE_OK);
    uint32_t allowed = 0;
    for (bool last = false; !last; allowed++) {
        struct gw_exclusive_leaf leaf;
        rig_stop(&rig);
        rig_start(&rig);
        assert_true(allowed < ALLOCATIONS_MAX);
        failing_heap_arm(allowed, allowed % 2 == 0);
        enum base_status status =
            gw_exclusive_find(rig.core, 0, &version.root, 1 + allowed % 2, &leaf);
        last = !failing_heap_has_failed();
        (void)failing_heap_disarm();
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        assert_true(!last || status == BASE_OK);
        if (status == BASE_OK) {
            assert_int_equal(wire_proof_verify(&leaf.proof, &hasher, &version.root), BASE_OK);
            gw_exclusive_leaf_done(&leaf);
        }
    }
    assert_true(allowed > 4);
    rig_done(&rig);
}

// Registering likewise: refused without memory, taken with it, and the same afterwards.
static void test_registering_without_memory(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error = {0};
    struct wire_sha256 missing[4];
    uint32_t count = 0;
    uint32_t allowed = 0;
    enum base_status status = BASE_ERR_NOMEM;
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    finish(&rig);
    for (; status != BASE_OK; allowed++) {
        assert_true(allowed < ALLOCATIONS_MAX);
        failing_heap_arm(allowed, true);
        status = add(&rig, &version.list, missing, 4, &count, &error);
        bool failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        assert_true(status == BASE_OK || (failed && status == BASE_ERR_NOMEM));
    }
    assert_true(allowed > 4);
    const char *one = credential_of(&rig, 1);
    assert_int_equal(ask(&rig, 1, one, &version.files[0]).status, 200);
    rig_done(&rig);
}

// ---- Several threads

#define LANES  3
#define ROUNDS 300

struct lane {
    pthread_t thread;
    struct gw_core *core;
    struct wire_sha256 blob; // exclusive at first, public in the end
    uint32_t found;
    bool was_public;
};

static void *walk(void *arg)
{
    struct lane *lane = arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct gw_exclusive_leaf leaf;
        struct gw_blob *blob;
        if (gw_exclusive_find(lane->core, 0, &version.root, 1 + i % 2, &leaf) == BASE_OK) {
            lane->found++;
            gw_exclusive_leaf_done(&leaf);
        }
        if (gw_blob_open(lane->core, &lane->blob, &blob) == BASE_OK) {
            bool now = !gw_blob_exclusive(lane->core, blob);
            base_check(now || !lane->was_public); // never back
            lane->was_public = now;
            gw_blob_release(blob);
        }
    }
    return NULL;
}

static void test_workers_look_up_while_operators_change(void **state)
{
    (void)state;
    struct rig rig;
    struct lane lanes[LANES] = {0};
    start(&rig);
    add_subject(&rig, WIRE_SUBJECT_DEVICE, "0000000000000001");
    add_subject(&rig, WIRE_SUBJECT_USER, "ana");
    finish(&rig);
    registered(&rig);
    struct wire_sha256 blob = put(&rig, true, "some content", 12);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i].core = rig.core;
        lanes[i].blob = blob;
        assert_int_equal(pthread_create(&lanes[i].thread, NULL, walk, &lanes[i]), 0);
    }
    for (uint32_t i = 0; i < 10; i++) {
        struct base_str user = i % 2 == 0 ? BASE_STR("ana") : BASE_STR("");
        assert_int_equal(gw_device_user_set(rig.core, 0, 2, user), BASE_OK);
        if (i == 5) {
            assert_int_equal(gw_store_blob_publish(rig.core->store, &blob), BASE_OK);
        }
    }
    for (uint32_t i = 0; i < LANES; i++) {
        (void)pthread_join(lanes[i].thread, NULL);
        assert_true(lanes[i].found >= ROUNDS / 2); // device 1 every time
    }
    assert_int_equal(blob_status(&rig, &blob), 200);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_get_their_own),
        cmocka_unit_test(test_ranges_and_bad_paths),
        cmocka_unit_test(test_users_are_bound_by_operators),
        cmocka_unit_test(test_tenants_are_apart),
        cmocka_unit_test(test_every_subject_is_found),
        cmocka_unit_test(test_versions_are_checked_by_subject),
        cmocka_unit_test(test_what_is_shared_is_public),
        cmocka_unit_test(test_packs),
        cmocka_unit_test(test_looking_up_without_memory),
        cmocka_unit_test(test_registering_without_memory),
        cmocka_unit_test(test_workers_look_up_while_operators_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
