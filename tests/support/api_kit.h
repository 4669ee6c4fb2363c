// What the operator API's tests share: a real core in a scratch folder, driven by hand; requests
// in, replies out; a signed release made as the command makes it.
#ifndef API_KIT_H
#define API_KIT_H

#include "test_kit.h"

#include "api/api.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/prng.h"
#include "cli/rollout/rollout_draft.h"
#include "svc/core.h"
#include "tunnel/gw_tunnel.h"
#include "wire/manifest.h"

#include <jansson.h>

#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#define API_KIT_ADMIN       "secret"
#define API_KIT_STEPS_MAX   100000
#define API_KIT_ARENA_BYTES (256 * 1024) // as the transport gives a stream

struct api_kit {
    char folder[64];
    struct gw_core *core;
    struct gw_worker *worker;
    struct gw_tunnel *tunnel; // of the tunnel
    pthread_mutex_t lock;
    struct gw_message *first;
    struct gw_message **last;
    struct signing_key *key;
    struct base_prng prng;
    const char *bearer; // "Bearer ..." of the requests sent; empty: none; NULL: the administrator's
    const char *tenant;
    const char *key_header; // idempotency-key
    const char *if_match;
    uint64_t peer;
    uint64_t clock_ahead_us; // of the real clock
};

struct api_answer {
    struct base_arena arena;
    struct gw_exchange exchange;
    bool finished;
    int status;
    json_t *json; // NULL: no JSON body
};

static inline void api_kit_post(void *ctx, struct gw_message *message)
{
    struct api_kit *kit = ctx;
    message->next = NULL;
    pthread_mutex_lock(&kit->lock);
    *kit->last = message;
    kit->last = &message->next;
    pthread_mutex_unlock(&kit->lock);
}

static inline void api_kit_drain(struct api_kit *kit)
{
    for (;;) {
        pthread_mutex_lock(&kit->lock);
        struct gw_message *message = kit->first;
        if (message != NULL) {
            kit->first = message->next;
            kit->last = kit->first == NULL ? &kit->first : kit->last;
        }
        pthread_mutex_unlock(&kit->lock);
        if (message == NULL) {
            return;
        }
        message->run(message);
    }
}

static inline uint64_t api_kit_mono_us(void *ctx)
{
    return base_clock_mono_us() + ((const struct api_kit *)ctx)->clock_ahead_us;
}

static inline uint64_t api_kit_wall_us(void *ctx)
{
    return base_clock_wall_us() + ((const struct api_kit *)ctx)->clock_ahead_us;
}

static inline void api_kit_open(struct api_kit *kit)
{
    struct base_error error = {0};
    struct gw_core_options options = {.dir = kit->folder,
                                      .map_bytes_max = 256u * 1024 * 1024,
                                      .tick_ms = 1,
                                      .control_thread = false,
                                      .admin_token = BASE_STR(API_KIT_ADMIN),
                                      .random = base_prng_port(&kit->prng),
                                      .clock = {kit, api_kit_mono_us, api_kit_wall_us}};
    if (gw_core_new(&options, &kit->core, &error) != BASE_OK) {
        fail_msg("core: %s", error.text);
    }
    gw_api_install(kit->core);
    char tunnel[80];
    snprintf(tunnel, sizeof(tunnel), "%s/tunnel", kit->folder);
    const struct gw_tunnel_options tunnel_options = {.dir = tunnel, .clock = options.clock};
    if (gw_tunnel_new(&tunnel_options, &kit->tunnel, &error) != BASE_OK) {
        fail_msg("tunnel: %s", error.text);
    }
    const struct gw_tunnel_seam seam = {kit->tunnel, gw_tunnel_declare, gw_tunnel_figures};
    gw_core_set_tunnel(kit->core, &seam);
    kit->first = NULL;
    kit->last = &kit->first;
    assert_int_equal(gw_worker_new(kit->core, kit, api_kit_post, &kit->worker), BASE_OK);
}

static inline void api_kit_close(struct api_kit *kit)
{
    api_kit_drain(kit);
    gw_worker_free(kit->worker);
    gw_core_free(kit->core);
    gw_tunnel_free(kit->tunnel);
}

static inline void api_kit_init(struct api_kit *kit)
{
    memset(kit, 0, sizeof(*kit));
    snprintf(kit->folder, sizeof(kit->folder), "/tmp/walle-api-XXXXXX");
    assert_non_null(mkdtemp(kit->folder));
    assert_int_equal(pthread_mutex_init(&kit->lock, NULL), 0);
    assert_int_equal(signing_key_new(&kit->key), BASE_OK);
    base_prng_seed(&kit->prng, 0x5eed);
    api_kit_open(kit);
}

static inline int api_kit_remove(const char *path, const struct stat *about, int flag,
                                 struct FTW *walk)
{
    (void)about;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline void api_kit_done(struct api_kit *kit)
{
    api_kit_close(kit);
    signing_key_free(kit->key);
    pthread_mutex_destroy(&kit->lock);
    (void)nftw(kit->folder, api_kit_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void api_kit_finish(struct gw_exchange *exchange)
{
    struct api_answer *answer = exchange->owner;
    assert_false(answer->finished);
    answer->finished = true;
}

// Sends a request and waits for its answer; release with api_answer_done. The path may hold a
// query.
static inline void api_send(struct api_kit *kit, enum gw_method method, const char *path,
                            const void *body, size_t body_bytes, struct api_answer *answer)
{
    const char *query = strchr(path, '?');

    memset(answer, 0, sizeof(*answer));
    base_arena_init(&answer->arena, base_alloc_heap(), 0, API_KIT_ARENA_BYTES);
    answer->exchange.arena = &answer->arena;
    answer->exchange.owner = answer;
    answer->exchange.finish = api_kit_finish;
    struct gw_request *request = &answer->exchange.request;
    request->method = method;
    request->path =
        query != NULL ? (struct base_str){path, (size_t)(query - path)} : base_str_of(path);
    request->query = query != NULL ? base_str_of(query + 1) : (struct base_str){NULL, 0};
    request->body = body;
    request->body_bytes = body_bytes;
    request->content_type = BASE_STR("application/json");
    request->loopback = true;
    request->authorization =
        base_str_of(kit->bearer != NULL ? kit->bearer : "Bearer " API_KIT_ADMIN);
    request->tenant = base_str_of(kit->tenant);
    request->idempotency_key = base_str_of(kit->key_header);
    request->if_match = base_str_of(kit->if_match);
    request->peer = kit->peer;
    gw_core_handle(kit->worker, &answer->exchange);
    for (unsigned i = 0; !answer->finished && i < API_KIT_STEPS_MAX; ++i) {
        (void)gw_core_tick(kit->core);
        api_kit_drain(kit);
    }
    assert_true(answer->finished);
    const struct gw_reply *reply = &answer->exchange.reply;
    answer->status = reply->status;
    if (reply->kind == GW_REPLY_BYTES && reply->body_bytes > 0) {
        answer->json =
            json_loadb((const char *)reply->body, reply->body_bytes, JSON_REJECT_DUPLICATES, NULL);
    }
}

static inline void api_answer_done(struct api_answer *answer)
{
    json_decref(answer->json);
    gw_blob_release(answer->exchange.reply.blob);
    base_arena_done(&answer->arena);
}

// Sends JSON text; fails the test unless the status is `status`. The caller owns the JSON.
static inline json_t *api_call(struct api_kit *kit, enum gw_method method, const char *path,
                               const char *body, int status)
{
    struct api_answer answer;
    api_send(kit, method, path, body, body != NULL ? strlen(body) : 0, &answer);
    if (answer.status != status) {
        fail_msg("%s: status %d, expected %d: %.*s", path, answer.status, status,
                 (int)answer.exchange.reply.body_bytes, (const char *)answer.exchange.reply.body);
    }
    json_t *json = json_incref(answer.json);
    api_answer_done(&answer);
    return json;
}

// The same, and what the problem's detail has to say.
static inline void api_refused(struct api_kit *kit, enum gw_method method, const char *path,
                               const char *body, int status, const char *says)
{
    json_t *problem = api_call(kit, method, path, body, status);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    if (detail == NULL || strstr(detail, says) == NULL ||
        json_integer_value(json_object_get(problem, "status")) != status) {
        fail_msg("%s: '%s' does not say '%s'", path, detail != NULL ? detail : "(none)", says);
    }
    json_decref(problem);
}

static inline void api_put_blob(struct api_kit *kit, const void *bytes, size_t size, int status,
                                struct wire_sha256 *out_digest)
{
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    struct api_answer answer;

    assert_int_equal(signing_sha256(bytes, size, out_digest), BASE_OK);
    wire_sha256_hex(out_digest, hex);
    snprintf(path, sizeof(path), "/api/v1/blobs/%s", hex);
    api_send(kit, GW_METHOD_PUT, path, bytes, size, &answer);
    assert_int_equal(answer.status, status);
    api_answer_done(&answer);
}

// A manifest of task `task` with one script of content `script`; its file's digest too.
static inline size_t api_manifest(const char *task, const char *version, const char *script,
                                  uint8_t *out, size_t capacity, struct wire_sha256 *out_digest,
                                  struct wire_sha256 *out_script)
{
    struct wire_manifest manifest = {.task_name = base_str_of(task),
                                     .version = base_str_of(version),
                                     .runtime_abi = WIRE_RUNTIME_ABI,
                                     .entry = BASE_STR("main"),
                                     .file_count = 1};
    size_t size = 0;
    assert_int_equal(signing_sha256(script, strlen(script), out_script), BASE_OK);
    manifest.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_SCRIPT,
                                                    .name = BASE_STR("main.mpy"),
                                                    .bytes = strlen(script),
                                                    .digest = *out_script};
    assert_int_equal(wire_manifest_encode(&manifest, out, capacity, &size), BASE_OK);
    assert_int_equal(signing_sha256(out, size, out_digest), BASE_OK);
    return size;
}

// Puts and registers a version of `task` (made when absent). Fills the draft's manifest.
static inline void api_version(struct api_kit *kit, const char *task, const char *version,
                               struct rollout_draft *draft)
{
    uint8_t bytes[1024];
    char script[64];
    char text[128];
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    struct wire_sha256 digest;

    snprintf(script, sizeof(script), "script of %s %s", task, version);
    size_t size =
        api_manifest(task, version, script, bytes, sizeof(bytes), &draft->manifest, &digest);
    draft->manifest_bytes = size;
    api_put_blob(kit, script, strlen(script), 201, &digest);
    api_put_blob(kit, bytes, size, 201, &digest);
    snprintf(text, sizeof(text), "{\"name\":\"%s\"}", task);
    struct api_answer answer;
    api_send(kit, GW_METHOD_POST, "/api/v1/tasks", text, strlen(text), &answer);
    assert_true(answer.status == 201 || answer.status == 200);
    api_answer_done(&answer);
    wire_sha256_hex(&draft->manifest, hex);
    snprintf(path, sizeof(path), "/api/v1/tasks/%s/versions", task);
    snprintf(text, sizeof(text), "{\"manifest\":\"%s\"}", hex);
    json_decref(api_call(kit, GW_METHOD_POST, path, text, 201));
}

// The signed body of a rollout as text; free() it.
static inline char *api_rollout_text(struct api_kit *kit, const struct rollout_draft *draft,
                                     const char *stages_text)
{
    struct base_error error = {0};
    json_t *body = NULL;
    json_t *stages = json_loads(stages_text, 0, NULL);
    json_t *target = json_array();
    struct signing_keys keys = {.keys = {kit->key}, .count = 1};

    assert_non_null(stages);
    if (rollout_draft_body(draft, &keys, (struct rollout_ladder){stages, target}, &body, &error) !=
        BASE_OK) {
        fail_msg("draft: %s", error.text);
    }
    (void)json_object_set_new(body, "accept_empty", json_true()); // no device came yet
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    json_decref(stages);
    json_decref(target);
    return text;
}

static inline const char *api_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

#endif
