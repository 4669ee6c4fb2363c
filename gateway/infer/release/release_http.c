// Paths of versions in the store and of releases, and their lines of /metrics. infer_http.c asks
// for every request below /v2, on its worker's thread. Questions are answered there and need an
// operator's token; changes go the way of loading (infer_change.c): a releaser's token of all
// tenants, the background thread, and an entry of the audit log.
#include "infer/release/model_release.h"

#include "infer/infer_change.h"
#include "infer/release/release_book.h"
#include "svc/access/operators.h"
#include "svc/control.h"
#include "svc/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX         "/v2/repository/models"
#define SEGMENTS_MAX   4u
#define LINE_MAX_BYTES 512

enum what { NOTHING, LIST, RELEASE, COMMAND, PUSH, REMOVE };

struct path {
    enum what what;
    struct base_str model;
    struct base_str version;
    enum pol_command command;
};

static bool is(struct base_str text, const char *word)
{
    return base_str_equal(text, base_str_of(word));
}

// The segments behind the prefix; SEGMENTS_MAX + 1: too many.
static uint32_t split(struct base_str path, struct base_str out[SEGMENTS_MAX])
{
    uint32_t count = 0;
    size_t at = sizeof(PREFIX) - 1;
    while (at < path.size && path.data[at] == '/') {
        size_t end = ++at;
        while (end < path.size && path.data[end] != '/') {
            end++;
        }
        if (count == SEGMENTS_MAX) {
            return SEGMENTS_MAX + 1;
        }
        out[count++] = (struct base_str){path.data + at, end - at};
        at = end;
    }
    return at == path.size ? count : SEGMENTS_MAX + 1;
}

static bool command_named(struct base_str word, enum pol_command *out)
{
    static const enum pol_command commands[] = {POL_COMMAND_PAUSE, POL_COMMAND_RESUME,
                                                POL_COMMAND_PROMOTE, POL_COMMAND_ABORT};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (is(word, pol_command_name(commands[i]))) {
            *out = commands[i];
            return true;
        }
    }
    return false;
}

static struct path path_of(struct base_str text)
{
    struct base_str parts[SEGMENTS_MAX];
    struct path path = {.what = NOTHING};
    if (!base_str_starts(text, BASE_STR(PREFIX))) {
        return path;
    }
    uint32_t count = split(text, parts);
    if (count == 0) {
        path.what = LIST;
    } else if (count >= 2 && count <= SEGMENTS_MAX && is(parts[1], "release")) {
        path.what = count == 2                                             ? RELEASE
                    : count == 3 && command_named(parts[2], &path.command) ? COMMAND
                                                                           : NOTHING;
    } else if (count >= 3 && count <= SEGMENTS_MAX && is(parts[1], "versions")) {
        path.version = parts[2];
        path.what = count == 3 ? PUSH : is(parts[3], "remove") ? REMOVE : NOTHING;
    }
    path.model = count > 0 ? parts[0] : BASE_STR("");
    return path;
}

// ---- Replies

static int http_status(enum base_status status)
{
    switch (status) {
    case BASE_OK:
        return 200;
    case BASE_ERR_DENIED:
        return 403;
    case BASE_ERR_NOT_FOUND:
        return 404;
    case BASE_ERR_EXISTS:
    case BASE_ERR_CONFLICT:
    case BASE_ERR_LIMIT:
        return 409;
    case BASE_ERR_TOO_LARGE:
        return 413;
    case BASE_ERR_TIMEOUT: // the run with zeros
        return 400;
    case BASE_ERR_FULL:
        return 507;
    case BASE_ERR_BUSY:
    case BASE_ERR_NOMEM:
    case BASE_ERR_CLOSED:
        return 503;
    default:
        return base_status_is_input(status) ? 400 : 500;
    }
}

// Takes `root`.
static void reply_json(struct gw_exchange *exchange, int status, json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t size = text != NULL ? strlen(text) : 0;
    const char *copy = text != NULL ? base_arena_copy(exchange->arena, text, size) : NULL;
    free(text);
    json_decref(root);
    if (copy == NULL) {
        gw_reply_status(exchange, 503);
        return;
    }
    gw_reply_body(exchange, status, BASE_STR("application/json"), copy, size);
}

static void reply_change(struct gw_exchange *exchange, enum base_status status, const char *text)
{
    if (status == BASE_OK) {
        gw_reply_body(exchange, 200, BASE_STR("application/json"), "{}", 2);
    } else {
        reply_json(exchange, http_status(status), json_pack("{s:s}", "error", text));
    }
}

static void refuse(struct gw_exchange *exchange, enum base_status status, const char *text)
{
    reply_change(exchange, status, text);
    gw_exchange_finish(exchange);
}

// ---- Changes

// In the exchange's arena.
struct change {
    struct gw_infer_change_wish wish; // first
    struct gw_releases *releases;
    struct path path;
    struct gw_release_wish release;
    struct base_span file;
};
_Static_assert(offsetof(struct change, wish) == 0, "work casts");

static enum base_status work(const struct gw_infer_change_wish *wish, const char *by,
                             struct base_error *error)
{
    struct change *change = wish->more;
    change->release.by = by;
    if (change->path.what == PUSH) {
        const struct gw_release_push push = {.model = change->path.model,
                                             .version = change->path.version,
                                             .file = change->file,
                                             .by = by};
        return gw_release_push(change->releases, &push, error);
    }
    if (change->path.what == REMOVE) {
        return gw_release_remove(change->releases, change->path.model, change->path.version, error);
    }
    return change->path.what == RELEASE
               ? gw_release_start(change->releases, &change->release, error)
               : gw_release_command(change->releases, &change->release, change->path.command,
                                    error);
}

static enum base_status read_start(struct change *change, const json_t *body,
                                   struct base_error *error)
{
    static const char *const names[] = {"version", "stages", "tolerance", "reason"};
    const json_t *version = json_object_get(body, "version");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        size_t i = 0;
        while (i < sizeof(names) / sizeof(names[0]) && strcmp(names[i], name) != 0) {
            i++;
        }
        if (i == sizeof(names) / sizeof(names[0])) {
            return base_error_set(error, BASE_ERR_INVALID, "there is no member \"%.40s\"", name);
        }
    }
    if (!json_is_integer(version) || json_integer_value(version) < 1) {
        return base_error_set(error, BASE_ERR_INVALID, "version: is a number from 1");
    }
    change->release.version = (uint64_t)json_integer_value(version);
    return gw_release_plan_read(body, &change->release.plan, error);
}

static enum base_status read_body(struct change *change, struct gw_exchange *exchange,
                                  struct base_error *error)
{
    const struct gw_request *request = &exchange->request;
    if (change->path.what == PUSH) {
        change->file = (struct base_span){request->body, request->body_bytes};
        return BASE_OK;
    }
    if (request->body_bytes > GW_RELEASE_BODY_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "the body is over %zu bytes",
                              GW_RELEASE_BODY_MAX);
    }
    json_error_t where;
    json_t *body = request->body_bytes > 0
                       ? json_loadb((const char *)request->body, request->body_bytes,
                                    JSON_REJECT_DUPLICATES, &where)
                       : json_object();
    enum base_status status = BASE_OK;
    if (!json_is_object(body)) {
        status = base_error_set(error, BASE_ERR_INVALID, "the body is no JSON object");
    }
    const char *reason = json_string_value(json_object_get(body, "reason"));
    if (status == BASE_OK && reason != NULL) {
        const char *copy = base_arena_text(exchange->arena, reason, strlen(reason));
        change->release.reason = base_str_of(copy);
        change->wish.reason = change->release.reason;
    }
    if (status == BASE_OK && change->path.what == RELEASE) {
        status = read_start(change, body, error);
    }
    if (status == BASE_OK && change->path.command == POL_COMMAND_RESUME &&
        json_is_true(json_object_get(body, "accept_risk"))) {
        change->path.command = POL_COMMAND_RESUME_ACCEPT_RISK;
        status = change->release.reason.size > 0
                     ? BASE_OK
                     : base_error_set(error, BASE_ERR_INVALID, "accept_risk: needs a \"reason\"");
    }
    json_decref(body);
    return status;
}

static void change(struct gw_infer_service *service, struct gw_worker *worker,
                   struct gw_exchange *exchange, const struct path *path)
{
    static const struct gw_infer_change_protocol protocol = {http_status, reply_change};
    struct base_error error = {0};
    struct change *self = base_arena_zalloc(exchange->arena, sizeof(*self));
    if (self == NULL) {
        refuse(exchange, BASE_ERR_NOMEM, "out of memory");
        return;
    }
    self->releases = gw_infer_shelf_self(service);
    self->path = *path;
    self->release.model = path->model;
    self->wish = (struct gw_infer_change_wish){.service = service,
                                               .model = path->model,
                                               .work = work,
                                               .verb = path->what == PUSH      ? "push"
                                                       : path->what == REMOVE  ? "remove"
                                                       : path->what == RELEASE ? "release"
                                                                               : "release-command",
                                               .more = self};
    enum base_status status = read_body(self, exchange, &error);
    if (status != BASE_OK) {
        refuse(exchange, status, error.text);
        return;
    }
    gw_infer_change(worker, exchange, &self->wish, &protocol);
}

// ---- Questions

// All models, each with its versions: those that are loaded, and those in the store.
static json_t *list_json(struct gw_infer_service *service, struct base_arena *arena)
{
    const struct gw_infer_call all = {.priority = 0};
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    json_t *list = json_array();
    if (gw_infer_rows(service, &all, arena, &rows, &count) != BASE_OK) {
        json_decref(list);
        return NULL;
    }
    for (size_t i = 0; i < count;) {
        json_t *loaded = json_array();
        struct base_str name = rows[i].name;
        json_t *view = gw_release_model_view(gw_infer_shelf_self(service), name);
        for (; i < count && base_str_equal(rows[i].name, name); i++) {
            if (rows[i].ready) {
                (void)json_array_append_new(
                    loaded, json_stringn(rows[i].version.data, rows[i].version.size));
            }
        }
        if (view == NULL) { // not loaded, and nothing of it in the store
            view = json_pack("{s:o, s:i, s:[], s:n}", "model", json_stringn(name.data, name.size),
                             "serving", 0, "stored", "release");
        }
        (void)json_object_set_new(view, "loaded", loaded);
        (void)json_array_append_new(list, view);
    }
    return list;
}

static void ask(struct gw_infer_service *service, struct gw_worker *worker,
                struct gw_exchange *exchange, const struct path *path)
{
    struct gw_actor actor = {0};
    if (!gw_access_check(gw_worker_core(worker), exchange, &actor)) {
        gw_exchange_finish(exchange);
        return;
    }
    if (path->what == LIST) {
        reply_json(exchange, 200, list_json(service, exchange->arena));
        gw_exchange_finish(exchange);
        return;
    }
    json_t *view = gw_release_model_view(gw_infer_shelf_self(service), path->model);
    if (view == NULL) {
        refuse(exchange, BASE_ERR_NOT_FOUND, "there is no model of this name");
        return;
    }
    reply_json(exchange, 200, view);
    gw_exchange_finish(exchange);
}

bool gw_release_handle(struct gw_infer_service *service, struct gw_worker *worker,
                       struct gw_exchange *exchange)
{
    const struct path path = path_of(exchange->request.path);
    enum gw_method method = exchange->request.method;
    bool get = method == GW_METHOD_GET || method == GW_METHOD_HEAD;
    bool asks = path.what == LIST || (path.what == RELEASE && get);
    if (path.what == NOTHING || gw_infer_shelf_self(service) == NULL) {
        return false;
    }
    if (asks && get) {
        ask(service, worker, exchange, &path);
    } else if (!asks && method == GW_METHOD_POST) {
        change(service, worker, exchange, &path);
    } else {
        gw_reply_method(exchange, path.what == LIST      ? "GET, HEAD"
                                  : path.what == RELEASE ? "GET, HEAD, POST"
                                                         : "POST");
        gw_exchange_finish(exchange);
    }
    return true;
}

// ---- Figures

struct lines {
    void (*add)(void *ctx, const char *text);
    void *ctx;
    uint32_t family;
};

static void add_count(const struct lines *lines, const struct gw_release_model *model,
                      const char *family, const char *labels, uint64_t value)
{
    char line[LINE_MAX_BYTES];
    (void)snprintf(line, sizeof(line), "walle_infer_%s{model=\"%s\",version=\"%llu\"%s} %llu\n",
                   family, model->name, (unsigned long long)model->candidate, labels,
                   (unsigned long long)value);
    lines->add(lines->ctx, line);
}

static void add_model(void *ctx, const struct gw_release_model *model)
{
    const struct lines *lines = ctx;
    const struct gw_infer_trial *trial = &model->trial;
    if (model->candidate == 0) {
        return;
    }
    if (lines->family == 0) {
        add_count(lines, model, "release_state", "", (uint64_t)model->rollout.state);
    } else if (lines->family == 1) {
        add_count(lines, model, "release_stage", "", model->rollout.stage_index + 1u);
    } else if (lines->family == 2) {
        add_count(lines, model, "trial_calls", ",arm=\"serving\",result=\"all\"",
                  trial->serving.calls);
        add_count(lines, model, "trial_calls", ",arm=\"serving\",result=\"failed\"",
                  trial->serving.failed);
        add_count(lines, model, "trial_calls", ",arm=\"candidate\",result=\"all\"",
                  trial->candidate.calls);
        add_count(lines, model, "trial_calls", ",arm=\"candidate\",result=\"failed\"",
                  trial->candidate.failed);
    } else {
        add_count(lines, model, "trial_shadows", ",result=\"agreed\"", trial->agreed);
        add_count(lines, model, "trial_shadows", ",result=\"differed\"", trial->differed);
        add_count(lines, model, "trial_shadows", ",result=\"failed\"", trial->shadows_failed);
        add_count(lines, model, "trial_shadows", ",result=\"dropped\"", trial->dropped);
    }
}

void gw_release_metrics(struct gw_infer_service *service, void (*add)(void *ctx, const char *text),
                        void *ctx)
{
    static const char *const heads[] = {
        "# HELP walle_infer_release_state Of a model's last release: 1 runs, 2 is paused, 4 was "
        "rolled back, 5 is completed.\n# TYPE walle_infer_release_state gauge\n",
        "# HELP walle_infer_release_stage Which stage is open, from 1.\n"
        "# TYPE walle_infer_release_stage gauge\n",
        "# HELP walle_infer_trial_calls Calls in the open stage of a release.\n"
        "# TYPE walle_infer_trial_calls gauge\n",
        "# HELP walle_infer_trial_shadows Shadows in the open stage of a release.\n"
        "# TYPE walle_infer_trial_shadows gauge\n",
    };
    struct gw_releases *releases = gw_infer_shelf_self(service);
    struct lines lines = {.add = add, .ctx = ctx};
    for (; releases != NULL && lines.family < sizeof(heads) / sizeof(heads[0]); lines.family++) {
        add(ctx, heads[lines.family]);
        gw_release_each(releases, add_model, &lines);
    }
}
