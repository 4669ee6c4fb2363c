// Asking the gateway about itself: a rollout and the load figures, over a connection of its own.
// See gateway_watch_json.c for the answers. fleet_run.c asks once a second on the coordinator's
// thread, whose event loop drives it, and live_view.c, fleet_outcome.c and the summary read the
// view. One question of each kind is open at a time; a gateway that does not answer leaves the view
// as it was.
#include "run/gateway_watch.h"

#include "run/fleet.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "h2/h2_client.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES (64 + 3 * WIRE_TASK_NAME_MAX)

enum question { QUESTION_ROLLOUT, QUESTION_METRICS, QUESTION_COUNT };

struct answer {
    struct sim_watch *watch;
    enum question question;
    bool open;
    int status;
    struct base_buffer body;
    uint64_t taken; // hash of the body that was read last; 0: none was
};

struct sim_watch {
    struct sim_watch_options options;
    char task[WIRE_TASK_NAME_MAX + 1]; // options.task
    struct h2_client *client;
    bool dead;
    struct answer answers[QUESTION_COUNT];
    struct sim_watch_view view;
    struct sim_rollouts_seen rollouts;
};

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)ctx;
    ((struct answer *)user)->status = head->status;
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    struct answer *answer = user;
    if (base_buffer_add(&answer->body, bytes, size) != BASE_OK) {
        answer->status = 0; // longer than anything expected: not used
    }
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct sim_watch *watch = ctx;
    struct answer *answer = user;
    answer->open = false;
    if (answer->question == QUESTION_ROLLOUT && answer->status != 0) {
        watch->view.denied = answer->status == 401 || answer->status == 403;
        watch->view.missing = answer->status == 404 && watch->options.rollout != 0;
    }
    if (status != BASE_OK || answer->status != 200 || answer->body.size == 0) {
        return;
    }
    const char *text = (const char *)answer->body.data;
    uint64_t hash = base_hash64_seed(text, answer->body.size, answer->body.size);
    if (hash == answer->taken) {
        return; // nothing is new
    }
    answer->taken = hash;
    if (answer->question == QUESTION_METRICS) {
        sim_watch_parse_metrics(text, answer->body.size, &watch->view.load);
    } else {
        sim_watch_parse_rollouts(text, answer->body.size, &watch->view, &watch->rollouts);
    }
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    (void)client;
    ((struct sim_watch *)ctx)->dead = status != BASE_OK;
}

enum base_status sim_watch_new(const struct sim_watch_options *options,
                               struct sim_watch **out_watch)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    struct sim_watch *watch = alloc->alloc(alloc->ctx, sizeof(*watch));
    if (watch == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(watch, 0, sizeof(*watch));
    watch->options = *options;
    (void)snprintf(watch->task, sizeof(watch->task), "%s", options->task);
    watch->view.load =
        (struct sim_gateway_load){SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN,
                                  SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN};
    for (uint32_t i = 0; i < QUESTION_COUNT; i++) {
        watch->answers[i].watch = watch;
        watch->answers[i].question = (enum question)i;
        base_buffer_init(&watch->answers[i].body, alloc, SIM_WATCH_BODY_MAX);
    }
    *out_watch = watch;
    return BASE_OK;
}

void sim_watch_free(struct sim_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    h2_client_free(watch->client);
    for (uint32_t i = 0; i < QUESTION_COUNT; i++) {
        base_buffer_done(&watch->answers[i].body);
    }
    const struct base_alloc_port *alloc = base_alloc_heap();
    alloc->release(alloc->ctx, watch);
}

static void ask(struct sim_watch *watch, enum question question, const char *path)
{
    struct answer *answer = &watch->answers[question];
    if (answer->open || (watch->client == NULL && watch->options.answer == NULL)) {
        return;
    }
    base_buffer_clear(&answer->body);
    answer->status = 0;
    if (watch->options.answer != NULL) {
        answer->status = watch->options.answer(watch->options.answer_ctx, path, &answer->body);
        on_end(watch, answer, BASE_OK);
        return;
    }
    char bearer[SIM_TOKEN_TEXT_MAX + 8];
    int size = snprintf(bearer, sizeof(bearer), "Bearer %.*s", (int)watch->options.token.size,
                        watch->options.token.data);
    const struct h2_header authorization = {BASE_STR("authorization"),
                                            {bearer, size > 0 ? (size_t)size : 0}};
    struct h2_request request = {.method = BASE_STR("GET"),
                                 .path = base_str_of(path),
                                 .headers = &authorization,
                                 .header_count = watch->options.token.size > 0 ? 1 : 0};
    int32_t stream;
    answer->open = h2_client_request(watch->client, &request, answer, &stream) == BASE_OK;
}

void sim_watch_follow(struct sim_watch *watch, const char *task)
{
    if (watch->options.rollout != 0 || watch->task[0] != '\0') {
        return;
    }
    (void)snprintf(watch->task, sizeof(watch->task), "%s", task);
    if (strcmp(watch->view.task, watch->task) != 0) {
        watch->view.known = false;
        watch->answers[QUESTION_ROLLOUT].taken = 0;
    }
}

// Of the task's name all is escaped that a parameter may not hold.
static void rollouts_path(const struct sim_watch *watch, char out[PATH_MAX_BYTES])
{
    size_t used = (size_t)snprintf(out, PATH_MAX_BYTES, "/api/v1/rollouts");
    if (watch->options.rollout != 0) {
        (void)snprintf(out + used, PATH_MAX_BYTES - used, "/%016" PRIx64, watch->options.rollout);
        return;
    }
    used += (size_t)snprintf(out + used, PATH_MAX_BYTES - used, "?limit=100%s",
                             watch->task[0] != '\0' ? "&task=" : "");
    for (const char *at = watch->task; *at != '\0'; at++) {
        bool plain = isalnum((unsigned char)*at) != 0 || strchr("-._~", *at) != NULL;
        used += (size_t)snprintf(out + used, PATH_MAX_BYTES - used, plain ? "%c" : "%%%02X",
                                 (unsigned char)*at);
    }
}

void sim_watch_ask(struct sim_watch *watch)
{
    if (watch->client != NULL && (watch->dead || !h2_client_usable(watch->client))) {
        h2_client_free(watch->client);
        watch->client = NULL;
    }
    if (watch->client == NULL && watch->options.answer == NULL) {
        struct h2_options options = {.host = watch->options.host,
                                     .port = watch->options.port,
                                     .tls = watch->options.tls,
                                     .window_bytes = 1 << 20};
        struct h2_events events = {
            .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = watch};
        watch->dead = false;
        if (h2_client_new(watch->options.base, &options, &events, &watch->client) != BASE_OK) {
            watch->client = NULL;
            return;
        }
    }
    char path[PATH_MAX_BYTES];
    rollouts_path(watch, path);
    ask(watch, QUESTION_ROLLOUT, path);
    if (watch->options.answer == NULL || watch->answers[QUESTION_METRICS].taken == 0) {
        ask(watch, QUESTION_METRICS, "/metrics");
    }
}

bool sim_watch_waits(const struct sim_watch *watch)
{
    bool waits = false;
    for (uint32_t i = 0; i < QUESTION_COUNT; i++) {
        waits = waits || watch->answers[i].open;
    }
    return waits && !watch->dead;
}

const struct sim_watch_view *sim_watch_view(const struct sim_watch *watch)
{
    return &watch->view;
}

const struct sim_rollouts_seen *sim_watch_rollouts(const struct sim_watch *watch)
{
    return &watch->rollouts;
}
