// The audit log, idempotency keys and expected revisions, over the operator API: what is written,
// by whom, in which order; that the chain holds and that a change of it shows; what is left when
// the gateway ends between a change and its entry.
#include "api_kit.h"

#include "api/api_call.h"
#include "svc/core_private.h"
#include "svc/access/answers.h"
#include "svc/access/audit.h"

static json_t *audit_page(struct api_kit *kit, const char *query)
{
    char path[96];
    snprintf(path, sizeof(path), "/api/v1/audit%s", query);
    return api_call(kit, GW_METHOD_GET, path, NULL, 200);
}

// The entry with this number, parsed; the caller owns it. NULL: there is none.
static json_t *entry_at(struct api_kit *kit, uint64_t seq)
{
    char query[48];
    snprintf(query, sizeof(query), "?limit=1&after=%llu", (unsigned long long)(seq - 1));
    json_t *page = audit_page(kit, query);
    json_t *item = json_array_get(json_object_get(page, "items"), 0);
    json_t *entry = item != NULL ? json_loads(api_text(item, "entry"), 0, NULL) : NULL;
    json_decref(page);
    return entry;
}

static uint64_t head_seq(struct api_kit *kit)
{
    json_t *page = audit_page(kit, "?limit=1");
    uint64_t seq =
        (uint64_t)json_integer_value(json_object_get(json_object_get(page, "head"), "seq"));
    json_decref(page);
    return seq;
}

// Follows the chain over every page with a hash of our own making. Returns the number of entries.
static uint64_t expect_chain(struct api_kit *kit)
{
    struct wire_sha256 hash = {{0}};
    uint64_t seq = 0;
    bool more = true;
    char head[WIRE_SHA256_HEX + 1] = "";
    while (more) {
        char query[48];
        size_t index;
        json_t *item;
        snprintf(query, sizeof(query), "?limit=3&after=%llu", (unsigned long long)seq);
        json_t *page = audit_page(kit, query);
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            const char *entry = json_string_value(json_object_get(item, "entry"));
            struct wire_sha256 text;
            uint8_t bytes[13 + 8 + 2 + 64];
            char hex[WIRE_SHA256_HEX + 1];
            uint64_t number = (uint64_t)json_integer_value(json_object_get(item, "seq"));
            uint64_t tenant = (uint64_t)json_integer_value(json_object_get(item, "tenant"));
            assert_int_equal(number, ++seq);
            assert_int_equal(wire_sha256_parse(base_str_of(api_text(item, "entry_sha256")), &text),
                             BASE_OK);
            if (entry != NULL) {
                struct wire_sha256 own;
                assert_int_equal(signing_sha256(entry, strlen(entry), &own), BASE_OK);
                assert_memory_equal(own.bytes, text.bytes, 32);
            }
            memcpy(bytes, "walle-audit-1", 13);
            for (unsigned i = 0; i < 8; ++i) {
                bytes[13 + i] = (uint8_t)(number >> (8 * i));
            }
            bytes[21] = (uint8_t)tenant;
            bytes[22] = (uint8_t)(tenant >> 8);
            memcpy(bytes + 23, hash.bytes, 32);
            memcpy(bytes + 55, text.bytes, 32);
            assert_int_equal(signing_sha256(bytes, sizeof(bytes), &hash), BASE_OK);
            wire_sha256_hex(&hash, hex);
            assert_string_equal(hex, api_text(item, "hash"));
        }
        more = json_is_integer(json_object_get(page, "next"));
        snprintf(head, sizeof(head), "%s", api_text(json_object_get(page, "head"), "hash"));
        json_decref(page);
    }
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&hash, hex);
    assert_string_equal(hex, head);
    return seq;
}

static void test_entries(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    assert_int_equal(head_seq(&kit), 0);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"shop\"}", 201));
    json_t *entry = entry_at(&kit, 1);
    assert_string_equal(api_text(entry, "method"), "POST");
    assert_string_equal(api_text(entry, "path"), "/api/v1/tasks");
    assert_string_equal(api_text(entry, "outcome"), "done");
    assert_int_equal(json_integer_value(json_object_get(entry, "status")), 201);
    assert_string_equal(api_text(entry, "tenant"), "default");
    assert_string_equal(api_text(json_object_get(entry, "actor"), "name"), "admin");
    assert_true(json_is_null(json_object_get(entry, "before")));
    assert_string_equal(api_text(json_object_get(entry, "after"), "name"), "shop");
    assert_int_equal(strlen(api_text(entry, "request")), 16);
    json_decref(entry);
    // Refusals: of the body, of the subject, of the role.
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"nome\":\"shop\"}", 400, "unknown field");
    api_refused(&kit, GW_METHOD_POST, "/api/v1/rollouts/00000000000000aa/start", "{}", 404,
                "no such");
    json_t *token = api_call(&kit, GW_METHOD_POST, "/api/v1/tokens",
                             "{\"name\":\"vera\",\"role\":\"viewer\"}", 201);
    char bearer[80];
    snprintf(bearer, sizeof(bearer), "Bearer %s", api_text(token, "secret"));
    kit.bearer = bearer;
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"x\"}", 403, "releaser");
    kit.bearer = "Bearer nonsense";
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"x\"}", 401, "bearer");
    // Reading leaves no entry.
    kit.bearer = bearer;
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200));
    kit.bearer = NULL;
    static const struct {
        uint64_t seq;
        const char *outcome;
        int status;
        const char *says;
    } rest[] = {{2, "refused", 400, "unknown field"},
                {3, "refused", 404, "no such rollout"},
                {4, "done", 201, ""},
                {5, "refused", 403, "releaser"},
                {6, "refused", 401, "bearer token"}};
    for (size_t i = 0; i < TEST_COUNT(rest); ++i) {
        entry = entry_at(&kit, rest[i].seq);
        assert_string_equal(api_text(entry, "outcome"), rest[i].outcome);
        assert_int_equal(json_integer_value(json_object_get(entry, "status")), rest[i].status);
        assert_non_null(strstr(api_text(entry, "detail"), rest[i].says));
        char *whole = json_dumps(entry, 0);
        assert_null(strstr(whole, "wat_")); // no secret, not even of the token made
        free(whole);
        json_decref(entry);
    }
    entry = entry_at(&kit, 5);
    assert_string_equal(api_text(json_object_get(entry, "actor"), "name"), "vera");
    assert_string_equal(api_text(json_object_get(entry, "actor"), "token"), api_text(token, "id"));
    json_decref(entry);
    entry = entry_at(&kit, 6);
    assert_true(json_is_null(json_object_get(entry, "actor")));
    json_decref(entry);
    assert_int_equal(expect_chain(&kit), 6);
    json_decref(token);
    api_kit_done(&kit);
}

static void test_chain_goes_on_over_restarts(void **state)
{
    struct api_kit kit;
    char body[48];

    (void)state;
    api_kit_init(&kit);
    for (unsigned i = 0; i < 8; ++i) {
        snprintf(body, sizeof(body), "{\"name\":\"t%u\"}", i);
        json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
        api_kit_close(&kit);
        api_kit_open(&kit);
    }
    assert_int_equal(expect_chain(&kit), 8);
    api_kit_done(&kit);
}

// ---- What is left of a request that is cut off

struct tamper {
    struct gw_store_op op;
    uint64_t seq;
    int what;
};

static enum base_status tamper_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct tamper *tamper = (struct tamper *)self;
    struct gw_key key = gw_key_u64(tamper->seq);
    struct base_span value;
    uint8_t row[1024];
    if (tamper->what == 1) {
        return gw_store_txn_delete(txn, GW_TABLE_AUDIT, &key);
    }
    BASE_TRY(gw_store_txn_get(txn, GW_TABLE_AUDIT, &key, &value));
    assert_true(value.size <= sizeof(row));
    memcpy(row, value.data, value.size);
    row[value.size - 3] ^= 1; // in the entry's text
    return gw_store_txn_put(txn, GW_TABLE_AUDIT, &key, row, value.size);
}

static void tamper_with(struct api_kit *kit, uint64_t seq, int what)
{
    struct tamper tamper = {.seq = seq, .what = what};
    tamper.op.apply = tamper_apply;
    assert_int_equal(gw_store_submit_wait(kit->core->store, &tamper.op), BASE_OK);
}

static void five_entries(struct api_kit *kit)
{
    char body[48];
    api_kit_init(kit);
    for (unsigned i = 0; i < 5; ++i) {
        snprintf(body, sizeof(body), "{\"name\":\"t%u\"}", i);
        json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
    }
}

// The store of a core that stands, by hand.
static void remove_folder(struct api_kit *kit)
{
    signing_key_free(kit->key);
    pthread_mutex_destroy(&kit->lock);
    (void)nftw(kit->folder, api_kit_remove, 16, FTW_DEPTH | FTW_PHYS);
}

struct said {
    char text[4096]; // every line, one after another
};

static void hear(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    struct said *said = ctx;
    size_t used = strlen(said->text);
    (void)level;
    (void)snprintf(said->text + used, sizeof(said->text) - used, "%s: %s\n", area, text);
}

static enum base_status start_and_hear(struct api_kit *kit, struct said *said,
                                       struct base_error *error)
{
    struct gw_core *core = NULL;
    const struct base_log log = {said, BASE_LOG_ERROR, hear};
    struct gw_core_options options = {.dir = kit->folder,
                                      .map_bytes_max = 256u * 1024 * 1024,
                                      .clock = *base_clock_real(),
                                      .log = &log};
    enum base_status status = gw_core_new(&options, &core, error);
    if (status == BASE_OK) {
        gw_core_free(core);
    }
    return status;
}

// The gateway does not go on behind an end that was altered. A hole, which is what a salvaged
// store has, is said, and the chain goes on.
static void test_tampering_shows(void **state)
{
    (void)state;
    for (int what = 0; what < 2; ++what) {
        struct api_kit kit;
        struct base_error error = {0};
        struct said said = {""};
        five_entries(&kit);
        tamper_with(&kit, what == 0 ? 5 : 2, what);
        api_kit_close(&kit);
        assert_int_equal(start_and_hear(&kit, &said, &error),
                         what == 0 ? BASE_ERR_CORRUPT : BASE_OK);
        if (what == 0) {
            assert_non_null(strstr(error.text, "audit log: its last entry, 5,"));
        } else {
            assert_non_null(strstr(said.text, "audit: 1 of the audit log's 5 entries"));
            assert_non_null(strstr(said.text, "entry 2"));
        }
        remove_folder(&kit);
    }
}

// A bit of the stored entry about `name` flips in the file of a store that nobody has open.
static void flip_in_file(const struct api_kit *kit, const char *text)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/store.mdb", kit->folder);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    static uint8_t bytes[1u << 20];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    unsigned found = 0;
    for (uint8_t *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text, strlen(text)));
         ++at) {
        // A page of an older state may have it as well.
        assert_int_equal(fseek(file, at - bytes, SEEK_SET), 0);
        assert_int_equal(fputc(*at ^ 1, file), *at ^ 1);
        found++;
    }
    assert_int_equal(fclose(file), 0);
    assert_true(found > 0);
}

// An entry whose record is damaged: said at the start, and by whoever reads the log; behind the
// last one nothing can follow.
static void test_damage_is_said(void **state)
{
    struct api_kit kit;
    struct base_error error = {0};
    struct said said = {""};

    (void)state;
    five_entries(&kit);
    api_kit_close(&kit);
    flip_in_file(&kit, "\"after\":{\"name\":\"t2\"");
    assert_int_equal(start_and_hear(&kit, &said, &error), BASE_OK);
    assert_non_null(strstr(said.text, "audit: 1 of the audit log's 5 entries"));
    assert_non_null(strstr(said.text, "the first is entry 3; `walle-store check"));
    assert_non_null(strstr(said.text, "salvage"));
    api_kit_open(&kit);
    api_refused(&kit, GW_METHOD_GET, "/api/v1/audit", NULL, 500, "entry 3 of the audit log is");
    api_refused(&kit, GW_METHOD_GET, "/api/v1/audit", NULL, 500, "walle-store salvage");
    json_decref(audit_page(&kit, "?after=3"));
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"t5\"}", 201));
    api_kit_close(&kit);
    flip_in_file(&kit, "\"after\":{\"name\":\"t5\"");
    assert_int_equal(start_and_hear(&kit, &said, &error), BASE_ERR_CORRUPT);
    assert_non_null(strstr(error.text, "its last entry, 6, is damaged"));
    remove_folder(&kit);
}

// The last but one: the chain cannot be looked at there, and goes on. All are counted, and the
// first is named.
static void test_damage_before_the_last(void **state)
{
    struct api_kit kit;
    struct base_error error = {0};
    struct said said = {""};

    (void)state;
    five_entries(&kit);
    api_kit_close(&kit);
    flip_in_file(&kit, "\"after\":{\"name\":\"t1\"");
    flip_in_file(&kit, "\"after\":{\"name\":\"t3\"");
    assert_int_equal(start_and_hear(&kit, &said, &error), BASE_OK);
    assert_non_null(strstr(said.text, "audit: 2 of the audit log's 5 entries"));
    assert_non_null(strstr(said.text, "the first is entry 2; "));
    api_kit_open(&kit);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"t5\"}", 201));
    api_kit_close(&kit);
    assert_int_equal(start_and_hear(&kit, &said, &error), BASE_OK);
    assert_non_null(strstr(said.text, "audit: 2 of the audit log's 6 entries"));
    remove_folder(&kit);
}

// The change is on disk, the entry is not: the process ends there.
static void test_cut_off_between_change_and_entry(void **state)
{
    struct api_kit kit;
    struct base_error error = {0};
    bool created = false;
    struct gw_answer answer = {0};

    (void)state;
    api_kit_init(&kit);
    answer.key.bytes[0] = 7;
    answer.request.bytes[0] = 9;
    struct gw_audit_open open = {.text = BASE_STR("{\"outcome\":\"interrupted\"}"),
                                 .answer = &answer};
    assert_int_equal(gw_audit_begin(kit.core, &open), BASE_OK);
    assert_int_equal(gw_catalog_task_create(kit.core, 0, BASE_STR("shop"), &created, &error),
                     BASE_OK);
    api_kit_close(&kit); // no gw_audit_end
    api_kit_open(&kit);
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks/shop", NULL, 200));
    assert_int_equal(head_seq(&kit), 1);
    json_t *entry = entry_at(&kit, 1);
    assert_string_equal(api_text(entry, "outcome"), "interrupted");
    json_decref(entry);
    assert_int_equal(expect_chain(&kit), 1);
    // Its key is used up: a repeated request is told to look, instead of changing again.
    struct gw_answer kept;
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_answers_find(kit.core, &answer.key, &arena, &kept), BASE_OK);
    assert_int_equal(kept.status, 409);
    assert_memory_equal(kept.request.bytes, answer.request.bytes, 32);
    base_arena_done(&arena);
    // And without a restart: begun, changed, not ended; the next change completes it first.
    assert_int_equal(gw_audit_begin(kit.core, &open), BASE_OK);
    assert_int_equal(gw_catalog_task_create(kit.core, 0, BASE_STR("shop-2"), &created, &error),
                     BASE_OK);
    gw_audit_cancel(kit.core);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"shop-3\"}", 201));
    assert_int_equal(head_seq(&kit), 3);
    assert_int_equal(expect_chain(&kit), 3);
    api_kit_done(&kit);
}

// ---- Idempotency

static void test_keys(void **state)
{
    struct api_kit kit;
    struct api_answer answer;
    static const char body[] = "{\"name\":\"shop\"}";

    (void)state;
    api_kit_init(&kit);
    kit.key_header = "k1";
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
    for (unsigned i = 0; i < 3; ++i) {
        api_send(&kit, GW_METHOD_POST, "/api/v1/tasks", body, strlen(body), &answer);
        assert_int_equal(answer.status, 201); // without the key it were 200
        assert_string_equal(api_text(answer.json, "name"), "shop");
        bool replayed = false;
        for (uint32_t k = 0; k < answer.exchange.reply.header_count; ++k) {
            replayed = replayed || base_str_equal(answer.exchange.reply.headers[k].name,
                                                  BASE_STR("idempotency-replayed"));
        }
        assert_true(replayed);
        api_answer_done(&answer);
    }
    assert_int_equal(head_seq(&kit), 1); // one change, one entry
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"other\"}", 422,
                "another request");
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tenants", body, 422, "another request");
    // A refusal is an answer too.
    kit.key_header = "k2";
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens/00000000000000aa/revoke", "{}", 404,
                "no such");
    uint64_t before = head_seq(&kit);
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens/00000000000000aa/revoke", "{}", 404,
                "no such");
    assert_int_equal(head_seq(&kit), before);
    // Kept over a restart, and for a day.
    kit.key_header = "k1";
    api_kit_close(&kit);
    api_kit_open(&kit);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
    kit.clock_ahead_us = (GW_ANSWER_KEEP_S - 60) * UINT64_C(1000000);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
    kit.clock_ahead_us = (GW_ANSWER_KEEP_S + 60) * UINT64_C(1000000);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 200));
    kit.key_header = "a\nb";
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 400, "printable");
    api_kit_done(&kit);
}

// The secret of a token is answered once, even to whoever repeats the request.
static void test_secrets_are_not_kept(void **state)
{
    struct api_kit kit;
    static const char body[] = "{\"name\":\"ana\",\"role\":\"viewer\"}";

    (void)state;
    api_kit_init(&kit);
    kit.key_header = "k";
    json_t *first = api_call(&kit, GW_METHOD_POST, "/api/v1/tokens", body, 201);
    json_t *again = api_call(&kit, GW_METHOD_POST, "/api/v1/tokens", body, 201);
    assert_string_equal(api_text(first, "id"), api_text(again, "id"));
    assert_int_equal(strlen(api_text(first, "secret")), GW_SECRET_TEXT_BYTES);
    assert_null(json_object_get(again, "secret"));
    // Neither on disk, in no table.
    char path[128];
    snprintf(path, sizeof(path), "%s/store.mdb", kit.folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char bytes[8 * 1024 * 1024];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    const char *secret = api_text(first, "secret");
    assert_null(memmem(bytes, size, secret, strlen(secret)));
    assert_non_null(memmem(bytes, size, api_text(first, "name"), 3)); // we did look at the store
    json_decref(first);
    json_decref(again);
    api_kit_done(&kit);
}

// ---- Expected revisions

static void test_if_match(void **state)
{
    struct api_kit kit;
    char path[64];

    (void)state;
    api_kit_init(&kit);
    json_t *token = api_call(&kit, GW_METHOD_POST, "/api/v1/tokens",
                             "{\"name\":\"a\",\"role\":\"viewer\"}", 201);
    assert_int_equal(json_integer_value(json_object_get(token, "revision")), 1);
    snprintf(path, sizeof(path), "/api/v1/tokens/%s/revoke", api_text(token, "id"));
    kit.if_match = "\"r2\"";
    api_refused(&kit, GW_METHOD_POST, path, "{}", 412, "it is at \"r1\" now");
    kit.if_match = "W/\"r1\"";
    api_refused(&kit, GW_METHOD_POST, path, "{}", 412, "if-match");
    kit.if_match = "\"r1\"";
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{}", 200));
    api_refused(&kit, GW_METHOD_POST, path, "{}", 412, "it is at \"r2\" now");
    kit.if_match = "*";
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{}", 200));
    kit.if_match = "\"r1\"";
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"x\"}", 412, "no revision");
    json_decref(token);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_chain_goes_on_over_restarts),
        cmocka_unit_test(test_tampering_shows),
        cmocka_unit_test(test_damage_is_said),
        cmocka_unit_test(test_damage_before_the_last),
        cmocka_unit_test(test_cut_off_between_change_and_entry),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_secrets_are_not_kept),
        cmocka_unit_test(test_if_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
