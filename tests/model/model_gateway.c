// The gateway of the model: life, kills, calls. One thread drives it; the store's writer posts to
// it.
#include "model_gateway.h"

#include "api/api.h"
#include "base/alloc.h"
#include "model_seal.h"
#include "store/store.h"
#include "svc/content/blob.h"
#include "svc/core_private.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ADMIN_TOKEN    "model-administrator"
#define COPY_BYTES     (64u * 1024)
#define WAIT_S         60 // a gateway that answers no more ends the run
#define MAP_BYTES_MAX  (UINT64_C(256) << 20)
#define APPROVER_TOKEN "{\"name\":\"ben\",\"role\":\"approver\"}"

static bool fault(struct model_gateway *gateway, const char *what, const char *more)
{
    if (gateway->fault[0] == '\0') {
        (void)snprintf(gateway->fault, sizeof(gateway->fault), "%s: %s", what, more);
    }
    return false;
}

// ---- Folders

static bool copy_file(const char *from, const char *to)
{
    static uint8_t bytes[COPY_BYTES];
    FILE *in = fopen(from, "rb");
    FILE *out = in != NULL ? fopen(to, "wb") : NULL;
    bool ok = out != NULL;
    size_t size;
    while (ok && (size = fread(bytes, 1, sizeof(bytes), in)) > 0) {
        ok = fwrite(bytes, 1, size, out) == size;
    }
    ok = out != NULL && fclose(out) == 0 && ok;
    if (in != NULL) {
        (void)fclose(in);
    }
    return ok;
}

// Every file of the folder but locks. The store makes no folders for content as small as ours.
static bool copy_folder(const char *from, const char *to)
{
    DIR *dir = opendir(from);
    bool ok = dir != NULL && mkdir(to, 0700) == 0;
    const struct dirent *entry;
    while (ok && (entry = readdir(dir)) != NULL) {
        char source[MODEL_PATH_MAX + 280];
        char target[MODEL_PATH_MAX + 280];
        struct stat about;
        (void)snprintf(source, sizeof(source), "%s/%s", from, entry->d_name);
        (void)snprintf(target, sizeof(target), "%s/%s", to, entry->d_name);
        bool lock = strstr(entry->d_name, "lock") != NULL;
        if (!lock && stat(source, &about) == 0 && S_ISREG(about.st_mode)) {
            ok = copy_file(source, target);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return ok;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char inner[MODEL_PATH_MAX + 280];
        (void)snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(inner) != 0) {
            (void)rmdir(inner);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

// ---- The worker's messages

static void post(void *ctx, struct gw_message *message)
{
    struct model_gateway *gateway = ctx;
    message->next = NULL;
    pthread_mutex_lock(&gateway->lock);
    *gateway->last = message;
    gateway->last = &message->next;
    pthread_cond_signal(&gateway->came);
    pthread_mutex_unlock(&gateway->lock);
}

static struct gw_message *take(struct model_gateway *gateway, bool wait)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&gateway->lock);
    int late = 0;
    while (wait && gateway->first == NULL && late == 0) {
        late = pthread_cond_timedwait(&gateway->came, &gateway->lock, &until);
    }
    struct gw_message *message = gateway->first;
    if (message != NULL) {
        gateway->first = message->next;
        gateway->last = gateway->first == NULL ? &gateway->first : gateway->last;
    }
    pthread_mutex_unlock(&gateway->lock);
    return message;
}

static void pump(struct model_gateway *gateway)
{
    struct gw_message *message;
    while ((message = take(gateway, false)) != NULL) {
        message->run(message);
    }
}

void model_gateway_tick(struct model_gateway *gateway)
{
    pump(gateway);
    (void)gw_core_tick(gateway->core);
    pump(gateway);
}

// ---- Life

static bool start_core(struct model_gateway *gateway)
{
    struct base_error error = {0};
    struct gw_core_options options = {
        .dir = gateway->dir,
        .map_bytes_max = MAP_BYTES_MAX,
        .commit_delay_us = 1,
        .control_thread = false,
        .admin_token = BASE_STR(ADMIN_TOKEN),
        .signer = gateway->signer ? model_seal_signer(gateway->online_next) : NULL,
        .random = base_prng_port(&gateway->prng),
        .clock = gateway->clock,
    };
    if (gw_core_new(&options, &gateway->core, &error) != BASE_OK) {
        return fault(gateway, "the gateway does not start", error.text);
    }
    gw_api_install(gateway->core);
    gateway->first = NULL;
    gateway->last = &gateway->first;
    if (gw_worker_new(gateway->core, gateway, post, &gateway->worker) != BASE_OK) {
        return fault(gateway, "the gateway does not start", "no worker");
    }
    model_gateway_tick(gateway);
    return true;
}

static void drop_core(struct model_gateway *gateway)
{
    if (gateway->core != NULL) {
        pump(gateway);
        gw_worker_free(gateway->worker);
        pump(gateway);
        gw_core_free(gateway->core);
    }
    gateway->core = NULL;
    gateway->worker = NULL;
}

static void next_dir(struct model_gateway *gateway, char out[MODEL_PATH_MAX])
{
    (void)snprintf(out, MODEL_PATH_MAX, "%.100s/life%u", gateway->home, ++gateway->life);
}

static bool make_approver(struct model_gateway *gateway)
{
    json_t *token = NULL;
    int status = model_gateway_call(gateway, GW_METHOD_POST, "/api/v1/tokens", APPROVER_TOKEN,
                                    strlen(APPROVER_TOKEN), MODEL_ADMIN, &token);
    const char *secret = json_string_value(json_object_get(token, "secret"));
    (void)snprintf(gateway->approver, sizeof(gateway->approver), "Bearer %s",
                   secret != NULL ? secret : "");
    json_decref(token);
    return status == 201 || fault(gateway, "no token for the approver", "");
}

bool model_gateway_open(struct model_gateway *gateway, const char *home,
                        const struct base_clock_port *clock, bool signer)
{
    memset(gateway, 0, sizeof(*gateway));
    (void)snprintf(gateway->home, sizeof(gateway->home), "%s", home);
    gateway->clock = *clock;
    gateway->signer = signer;
    base_prng_seed(&gateway->prng, 0x6a7e);
    (void)pthread_mutex_init(&gateway->lock, NULL);
    (void)pthread_cond_init(&gateway->came, NULL);
    next_dir(gateway, gateway->dir);
    return start_core(gateway) && make_approver(gateway);
}

static void backup_dir(const struct model_gateway *gateway, char out[MODEL_PATH_MAX])
{
    (void)snprintf(out, MODEL_PATH_MAX, "%.100s/backup", gateway->home);
}

void model_gateway_done(struct model_gateway *gateway)
{
    char backup[MODEL_PATH_MAX];
    drop_core(gateway);
    remove_folder(gateway->dir);
    backup_dir(gateway, backup);
    remove_folder(backup);
    (void)pthread_mutex_destroy(&gateway->lock);
    (void)pthread_cond_destroy(&gateway->came);
}

// ---- Kills and copies

static enum base_status no_change(struct gw_store_txn *txn, struct gw_store_op *self)
{
    (void)txn;
    (void)self;
    return BASE_OK;
}

enum base_status __real_gw_store_submit_wait(struct gw_store *store, struct gw_store_op *op);
enum base_status __wrap_gw_store_submit_wait(struct gw_store *store, struct gw_store_op *op);

static struct model_gateway *dying; // the gateway whose commits are counted; NULL: none's are

// What was submitted before is on disk after this, and the writer has nothing to do.
static bool still(struct model_gateway *gateway, struct gw_store *store)
{
    struct gw_store_op op = {.urgent = true, .apply = no_change};
    return __real_gw_store_submit_wait(store, &op) == BASE_OK ||
           fault(gateway, "the store takes no more", gateway->dir);
}

bool model_gateway_still(struct model_gateway *gateway)
{
    return still(gateway, gateway->core->store);
}

static bool copy_to(struct model_gateway *gateway, struct gw_store *store, const char *to)
{
    remove_folder(to);
    return still(gateway, store) &&
           (copy_folder(gateway->dir, to) || fault(gateway, "cannot copy the folder", to));
}

static void at_death(const struct model_gateway *gateway, char out[MODEL_PATH_MAX])
{
    (void)snprintf(out, MODEL_PATH_MAX, "%.100s/death", gateway->home);
}

// Stands in front of the store (linker option --wrap): behind the commit at which it dies the
// folder is taken as it is, and what the call does after that never was.
enum base_status __wrap_gw_store_submit_wait(struct gw_store *store, struct gw_store_op *op)
{
    enum base_status status = __real_gw_store_submit_wait(store, op);
    struct model_gateway *gateway = dying;
    if (gateway != NULL && gateway->dies_after > 0 && --gateway->dies_after == 0) {
        char to[MODEL_PATH_MAX];
        at_death(gateway, to);
        gateway->died = copy_to(gateway, store, to);
    }
    return status;
}

// The core goes, and one starts on what `from` has.
static bool go_on_with(struct model_gateway *gateway, const char *from, bool move)
{
    char to[MODEL_PATH_MAX];
    drop_core(gateway);
    remove_folder(gateway->dir);
    next_dir(gateway, to);
    bool there = move ? rename(from, to) == 0 : copy_folder(from, to);
    memcpy(gateway->dir, to, sizeof(gateway->dir));
    return (there || fault(gateway, "cannot take the folder", from)) && start_core(gateway);
}

bool model_gateway_kill(struct model_gateway *gateway)
{
    char to[MODEL_PATH_MAX];
    at_death(gateway, to);
    return copy_to(gateway, gateway->core->store, to) && go_on_with(gateway, to, true);
}

bool model_gateway_backup(struct model_gateway *gateway)
{
    char to[MODEL_PATH_MAX];
    backup_dir(gateway, to);
    gateway->has_backup = copy_to(gateway, gateway->core->store, to);
    return gateway->has_backup;
}

bool model_gateway_restore(struct model_gateway *gateway)
{
    char from[MODEL_PATH_MAX];
    backup_dir(gateway, from);
    return go_on_with(gateway, from, false);
}

// ---- Requests

static void finish(struct gw_exchange *exchange)
{
    struct model_exchange *self = exchange->owner;
    self->finished = true;
}

void model_exchange_init(struct model_exchange *exchange)
{
    memset(exchange, 0, sizeof(*exchange));
    base_arena_init(&exchange->arena, base_alloc_heap(), 0, 0);
    exchange->exchange.arena = &exchange->arena;
    exchange->exchange.owner = exchange;
    exchange->exchange.finish = finish;
}

void model_exchange_done(struct model_exchange *exchange)
{
    gw_blob_release(exchange->exchange.reply.blob);
    base_arena_done(&exchange->arena);
}

void model_gateway_send(struct model_gateway *gateway, struct model_exchange *exchange)
{
    gateway->requests++;
    gw_core_handle(gateway->worker, &exchange->exchange);
    pump(gateway);
    while (!exchange->finished) { // a report waits for the store's writer
        struct gw_message *message = take(gateway, true);
        if (message == NULL) {
            (void)fault(gateway, "no answer", exchange->exchange.request.path.data);
            abort();
        }
        message->run(message);
    }
    if (exchange->exchange.reply.status >= 500) {
        char text[160];
        const struct gw_reply *reply = &exchange->exchange.reply;
        (void)snprintf(text, sizeof(text), "%d to %.*s: %.*s", reply->status,
                       (int)exchange->exchange.request.path.size,
                       exchange->exchange.request.path.data,
                       (int)(reply->kind == GW_REPLY_BYTES ? reply->body_bytes : 0),
                       (const char *)reply->body);
        (void)fault(gateway, "an answer of the gateway's own failure", text);
    }
}

static void send_api(struct model_gateway *gateway, struct model_exchange *exchange)
{
    gateway->requests++;
    gateway->died = false;
    dying = gateway;
    gw_core_handle(gateway->worker, &exchange->exchange);
    pump(gateway);
    model_gateway_tick(gateway); // runs the call, which waits for its commits
    dying = NULL;
    gateway->dies_after = 0;
    while (!exchange->finished) {
        struct gw_message *message = take(gateway, true);
        if (message == NULL) {
            abort();
        }
        message->run(message);
    }
}

int model_gateway_call(struct model_gateway *gateway, enum gw_method method, const char *path,
                       const void *body, size_t size, enum model_bearer bearer, json_t **out_json)
{
    struct model_exchange exchange;
    const char *query = strchr(path, '?');
    model_exchange_init(&exchange);
    struct gw_request *request = &exchange.exchange.request;
    request->method = method;
    request->path =
        query != NULL ? (struct base_str){path, (size_t)(query - path)} : base_str_of(path);
    request->query = query != NULL ? base_str_of(query + 1) : (struct base_str){NULL, 0};
    request->body = body;
    request->body_bytes = size;
    request->content_type = BASE_STR("application/json");
    request->loopback = true;
    request->idempotency_key = base_str_of(method != GW_METHOD_GET ? gateway->key : "");
    request->authorization =
        bearer == MODEL_ADMIN ? BASE_STR("Bearer " ADMIN_TOKEN) : base_str_of(gateway->approver);
    send_api(gateway, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    int status = reply->status;
    if (out_json != NULL) {
        *out_json = reply->kind == GW_REPLY_BYTES && reply->body_bytes > 0
                        ? json_loadb((const char *)reply->body, reply->body_bytes, 0, NULL)
                        : NULL;
    }
    if (status >= 500 && !gateway->died) {
        char text[200];
        (void)snprintf(text, sizeof(text), "%d to %.60s: %.*s", status, path,
                       (int)(reply->body_bytes < 120 ? reply->body_bytes : 120),
                       (const char *)reply->body);
        (void)fault(gateway, "an answer of the gateway's own failure", text);
    }
    model_exchange_done(&exchange);
    if (gateway->died) {
        char from[MODEL_PATH_MAX];
        at_death(gateway, from);
        (void)go_on_with(gateway, from, true);
        return 0;
    }
    return status;
}
