// See model_release.h and release_book.h. One lock holds the book; it is never held while a version
// is loaded, added or removed, for the service asks the shelf with its own load lock held. A change
// of state is written first and then told to the service; where it cannot be written it holds all
// the same and is written later, since going back must not wait for a disk.
#include "infer/release/release_book.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "svc/content/model_rows.h"
#include "svc/control.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_US UINT64_C(1000000)

struct gw_releases {
    struct gw_core *core;
    struct gw_infer_service *service;
    const struct base_log *log;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    bool stopping;
    struct gw_release_model *models[GW_INFER_MODELS_MAX];
    uint32_t model_count;
};

static struct base_str version_text(uint64_t number, char out[GW_INFER_VERSION_TEXT])
{
    (void)snprintf(out, GW_INFER_VERSION_TEXT, "%llu", (unsigned long long)number);
    return base_str_of(out);
}

// ---- With the lock

static struct gw_release_model *find(struct gw_releases *releases, struct base_str name)
{
    for (uint32_t i = 0; i < releases->model_count; i++) {
        if (base_str_equal(name, base_str_of(releases->models[i]->name))) {
            return releases->models[i];
        }
    }
    return NULL;
}

static struct gw_release_model *place(struct gw_releases *releases, struct base_str name)
{
    struct gw_release_model *model = find(releases, name);
    if (model != NULL || releases->model_count == GW_INFER_MODELS_MAX) {
        return model;
    }
    model = calloc(1, sizeof(*model));
    if (model != NULL) {
        (void)snprintf(model->name, sizeof(model->name), "%.*s", (int)name.size, name.data);
        releases->models[releases->model_count++] = model;
    }
    return model;
}

// Nothing of it is in the store, and nothing was released: its name is to go.
static bool is_void(const struct gw_release_model *model)
{
    return model->version_count == 0 && model->serving == 0 && model->candidate == 0;
}

static void discard(struct gw_releases *releases, struct gw_release_model *model)
{
    uint32_t i = 0;
    while (releases->models[i] != model) {
        i++;
        base_check(i < releases->model_count);
    }
    releases->models[i] = releases->models[--releases->model_count];
    free(model);
}

static enum base_status write_row(struct gw_releases *releases,
                                  const struct gw_release_model *model)
{
    struct base_str name = base_str_of(model->name);
    if (is_void(model)) {
        return gw_model_row_delete(releases->core, name);
    }
    char *row = gw_release_row(model);
    enum base_status status =
        row != NULL ? gw_model_row_put(releases->core, name, base_str_of(row)) : BASE_ERR_NOMEM;
    free(row);
    return status;
}

static enum base_status save(struct gw_releases *releases, struct gw_release_model *model)
{
    enum base_status status = write_row(releases, model);
    if (status != BASE_OK && !model->dirty) {
        base_log_error(releases->log, "infer", "the row of model %s cannot be written: %s",
                       model->name, base_status_text(status));
    }
    model->dirty = status != BASE_OK;
    return status;
}

static uint32_t version_index(const struct gw_release_model *model, uint64_t number)
{
    uint32_t i = 0;
    while (i < model->version_count && model->versions[i].number != number) {
        i++;
    }
    return i;
}

static bool is_open(const struct gw_release_model *model)
{
    enum pol_rollout_state state = model->rollout.state;
    return model->candidate != 0 && state != POL_ROLLOUT_COMPLETED &&
           state != POL_ROLLOUT_ROLLED_BACK && state != POL_ROLLOUT_DRAFT;
}

static void note(struct gw_releases *releases, struct gw_release_model *model,
                 const struct gw_release_event *event)
{
    if (model->event_count == GW_RELEASE_EVENTS_MAX) {
        model->event_count--;
        memmove(&model->events[0], &model->events[1], model->event_count * sizeof(*event));
    }
    struct gw_release_event *last = &model->events[model->event_count++];
    *last = *event;
    last->time_s = gw_core_time_us(releases->core) / SECOND_US;
    last->stage = model->rollout.stage_index + 1u;
    base_log_info(releases->log, "infer", "release model=%s version=%llu stage=%u %s: %s",
                  model->name, (unsigned long long)model->candidate, last->stage, last->what,
                  last->why);
}

// Tells the service what the release's state means for calls.
static enum base_status apply(struct gw_releases *releases, const struct gw_release_model *model)
{
    char text[GW_INFER_VERSION_TEXT];
    struct gw_infer_trial_wish wish = {.agree = model->plan.agree};
    if (model->rollout.state == POL_ROLLOUT_RUNNING && !model->rollout.before_first) {
        const struct gw_release_stage *stage = &model->plan.stages[model->rollout.stage_index];
        wish.candidate = version_text(model->candidate, text);
        wish.per_caller = stage->per_caller;
        wish.split = (struct gw_infer_split){.salt = model->salt,
                                             .share = gw_release_buckets(stage->share),
                                             .shadow = gw_release_buckets(stage->shadow)};
    }
    return gw_infer_trial_set(releases->service, base_str_of(model->name), &wish);
}

// The candidate serves from now on.
static void complete(struct gw_releases *releases, struct gw_release_model *model)
{
    char text[GW_INFER_VERSION_TEXT];
    uint64_t serving = 0;
    struct base_error why = {0};
    const struct gw_infer_call named = {.model = base_str_of(model->name),
                                        .version = version_text(model->candidate, text)};
    model->serving = model->candidate;
    if (gw_infer_serving(releases->service, named.model, &serving, &model->highest, &why) !=
            BASE_OK ||
        gw_infer_serve(releases->service, &named, &why) != BASE_OK) {
        base_log_error(releases->log, "infer", "release model=%s: %s", model->name, why.text);
    }
}

static const char *what_of(enum pol_action action)
{
    return action == POL_ACTION_FINISH_ROLL_BACK ? "rolled_back" : pol_action_name(action);
}

// A decision that moves something: in the book, in the service, and in the store.
static void obey(struct gw_releases *releases, struct gw_release_model *model,
                 const struct pol_decision *decision, struct gw_release_event *event)
{
    bool moved = decision->next.state != model->rollout.state ||
                 decision->next.stage_index != model->rollout.stage_index ||
                 decision->next.before_first != model->rollout.before_first;
    model->rollout = decision->next;
    (void)snprintf(event->what, sizeof(event->what), "%s", what_of(decision->action));
    if (decision->action == POL_ACTION_COMPLETE) {
        complete(releases, model);
    }
    note(releases, model, event);
    (void)save(releases, model);
    enum base_status status = moved ? apply(releases, model) : BASE_OK;
    if (status != BASE_OK) {
        base_log_error(releases->log, "infer", "release model=%s: %s", model->name,
                       base_status_text(status));
    }
}

// ---- Looking at open releases

static void tick(struct gw_releases *releases, struct gw_release_model *model)
{
    struct gw_release_event event = {0};
    uint64_t now_us = base_clock_mono_us();
    if (model->rollout.state == POL_ROLLOUT_RUNNING &&
        !gw_infer_trial_read(releases->service, base_str_of(model->name), &model->trial)) {
        (void)apply(releases, model); // the model came only now
        return;
    }
    const struct gw_release_course course = {&model->plan, model->stages, &model->rollout};
    gw_release_judge(&course, &model->trial, now_us, &model->look);
    const struct pol_decision *decision = &model->look.decision;
    bool same = memcmp(&decision->next, &model->rollout, sizeof(model->rollout)) == 0;
    if (decision->action == POL_ACTION_HOLD || same) {
        return;
    }
    bool judged = decision->verdict == POL_VERDICT_FAIL || decision->verdict == POL_VERDICT_PASS;
    (void)snprintf(event.why, sizeof(event.why), "%s%s%s",
                   judged ? gw_release_question_name(model->look.decided) : "", judged ? ": " : "",
                   gw_release_reason_text(decision->reason));
    obey(releases, model, decision, &event);
}

static void look_at_all(struct gw_releases *releases)
{
    for (uint32_t i = releases->model_count; i-- > 0;) {
        struct gw_release_model *model = releases->models[i];
        if (is_open(model)) {
            tick(releases, model);
        }
        if (model->dirty && save(releases, model) == BASE_OK && is_void(model)) {
            discard(releases, model);
        }
    }
}

static void *releases_main(void *arg)
{
    struct gw_releases *releases = arg;
    pthread_mutex_lock(&releases->lock);
    while (!releases->stopping) {
        uint64_t until_us = base_clock_mono_us() + GW_RELEASE_TICK_US;
        struct timespec until = {.tv_sec = (time_t)(until_us / SECOND_US),
                                 .tv_nsec = (long)(until_us % SECOND_US * 1000)};
        look_at_all(releases);
        (void)pthread_cond_timedwait(&releases->wake, &releases->lock, &until);
    }
    pthread_mutex_unlock(&releases->lock);
    return NULL;
}

// ---- The shelf: called by the service

static uint32_t shelf_list(void *self, struct base_str name, uint64_t out[GW_INFER_VERSIONS_MAX])
{
    struct gw_releases *releases = self;
    pthread_mutex_lock(&releases->lock);
    const struct gw_release_model *model = find(releases, name);
    uint32_t count = model != NULL ? model->version_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = model->versions[i].number;
    }
    pthread_mutex_unlock(&releases->lock);
    return count;
}

static enum base_status shelf_load(void *self, struct base_str name, uint64_t version,
                                   struct base_span *out_file, struct base_error *error)
{
    struct gw_releases *releases = self;
    struct wire_sha256 digest = {{0}};
    pthread_mutex_lock(&releases->lock);
    const struct gw_release_model *model = find(releases, name);
    uint32_t index = model != NULL ? version_index(model, version) : 0;
    bool there = model != NULL && index < model->version_count;
    if (there) {
        digest = model->versions[index].digest;
    }
    pthread_mutex_unlock(&releases->lock);
    enum base_status status =
        there ? gw_model_file_load(releases->core, &digest, out_file) : BASE_ERR_NOT_FOUND;
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "its file in the store: %s",
                                              base_status_text(status));
}

static uint64_t shelf_serving(void *self, struct base_str name, uint64_t highest)
{
    struct gw_releases *releases = self;
    pthread_mutex_lock(&releases->lock);
    const struct gw_release_model *model = find(releases, name);
    uint64_t serving = model != NULL && highest <= model->highest ? model->serving : 0;
    pthread_mutex_unlock(&releases->lock);
    return serving;
}

// ---- Pushing and removing

static enum base_status may_push(struct gw_releases *releases, const struct gw_infer_call *named,
                                 size_t size, struct base_error *error)
{
    uint64_t bytes = size;
    uint64_t number = 0;
    if (!gw_infer_name_ok(named->model)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "a model's name is 1 to %u of A-Z a-z 0-9 . _ - with no dot in front",
                              GW_INFER_MODEL_NAME_MAX);
    }
    if (!gw_infer_version_number(named->version, &number)) {
        return base_error_set(error, BASE_ERR_INVALID, GW_INFER_VERSION_WANTED);
    }
    pthread_mutex_lock(&releases->lock);
    const struct gw_release_model *model = find(releases, named->model);
    bool full = model != NULL && model->version_count == GW_INFER_VERSIONS_MAX;
    bool exists = model != NULL && version_index(model, number) < model->version_count;
    for (uint32_t i = 0; i < releases->model_count; i++) {
        for (uint32_t k = 0; k < releases->models[i]->version_count; k++) {
            bytes += releases->models[i]->versions[k].bytes;
        }
    }
    pthread_mutex_unlock(&releases->lock);
    if (exists) {
        return base_error_set(error, BASE_ERR_EXISTS, "version %llu is in the store already",
                              (unsigned long long)number);
    }
    if (full) {
        return base_error_set(error, BASE_ERR_LIMIT, "%u versions are in the store: remove one",
                              GW_INFER_VERSIONS_MAX);
    }
    if (bytes > GW_RELEASE_BYTES_MAX || size > GW_INFER_SHELF_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_FULL,
                              "versions in the store may have %llu bytes, one of them %zu",
                              (unsigned long long)GW_RELEASE_BYTES_MAX, GW_INFER_SHELF_BYTES_MAX);
    }
    return gw_infer_may_add(releases->service, named, error);
}

static bool is_kept(const struct gw_releases *releases, const struct wire_sha256 *digest)
{
    for (uint32_t i = 0; i < releases->model_count; i++) {
        const struct gw_release_model *model = releases->models[i];
        for (uint32_t k = 0; k < model->version_count; k++) {
            if (memcmp(&model->versions[k].digest, digest, sizeof(*digest)) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void drop_file(struct gw_releases *releases, const struct wire_sha256 *digest)
{
    enum base_status status = gw_model_file_drop(releases->core, digest);
    if (status != BASE_OK) {
        base_log_error(releases->log, "infer", "a model's file stays until the next start: %s",
                       base_status_text(status));
    }
}

// The row first, then the file, when no other version is of these bytes: of what a kill leaves
// between the two the next start lets go (sweep). With its last version a name goes, and what was
// released of it.
static void forget(struct gw_releases *releases, struct gw_release_model *model, uint64_t number)
{
    uint32_t index = version_index(model, number);
    base_check(index < model->version_count);
    const struct wire_sha256 digest = model->versions[index].digest;
    model->version_count--;
    memmove(&model->versions[index], &model->versions[index + 1],
            (model->version_count - index) * sizeof(model->versions[0]));
    model->serving = model->serving == number ? 0 : model->serving;
    if (model->version_count == 0 && model->serving == 0 && !is_open(model)) {
        model->candidate = 0;
    }
    if (save(releases, model) != BASE_OK) {
        return; // its row still names the file
    }
    if (is_void(model)) {
        discard(releases, model);
    }
    if (!is_kept(releases, &digest)) {
        drop_file(releases, &digest);
    }
}

// In the book and in the store.
static enum base_status enter(struct gw_releases *releases, struct base_str name,
                              const struct gw_release_version *version, bool serves,
                              struct base_error *error)
{
    pthread_mutex_lock(&releases->lock);
    struct gw_release_model *model = place(releases, name);
    enum base_status status =
        model == NULL ? base_error_set(error, BASE_ERR_LIMIT, "too many models, or no memory")
                      : BASE_OK;
    if (status != BASE_OK && !is_kept(releases, &version->digest)) {
        drop_file(releases, &version->digest);
    }
    if (status == BASE_OK) {
        uint32_t at = 0;
        while (at < model->version_count && model->versions[at].number > version->number) {
            at++;
        }
        memmove(&model->versions[at + 1], &model->versions[at],
                (model->version_count - at) * sizeof(*version));
        model->versions[at] = *version;
        model->version_count++;
        model->serving = serves ? version->number : model->serving;
        model->highest = serves ? 0 : model->highest;
        status = save(releases, model);
        if (status != BASE_OK) {
            forget(releases, model, version->number);
            (void)base_error_set(error, status, "the store cannot be written: %s",
                                 base_status_text(status));
        }
    }
    pthread_mutex_unlock(&releases->lock);
    return status;
}

// Keeps the file, enters it, and lets the service have it.
static enum base_status keep(struct gw_releases *releases, const struct gw_release_push *push,
                             uint64_t number, struct gw_infer_version *prepared,
                             struct base_error *error)
{
    struct gw_release_version version = {.number = number, .bytes = push->file.size};
    uint64_t serving = 0;
    uint64_t highest = 0;
    bool serves =
        gw_infer_serving(releases->service, push->model, &serving, &highest, NULL) != BASE_OK;
    version.added_s = gw_core_time_us(releases->core) / SECOND_US;
    (void)snprintf(version.by, sizeof(version.by), "%s", push->by);
    enum base_status status = gw_model_file_put(releases->core, push->file, &version.digest);
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "the store cannot be written: %s",
                             base_status_text(status));
    } else {
        status = enter(releases, push->model, &version, serves, error);
    }
    if (status != BASE_OK) {
        gw_infer_prepared_free(prepared);
        return status;
    }
    status = gw_infer_add(releases->service, prepared, error);
    if (status != BASE_OK) {
        pthread_mutex_lock(&releases->lock);
        forget(releases, find(releases, push->model), number);
        pthread_mutex_unlock(&releases->lock);
    }
    return status;
}

enum base_status gw_release_push(struct gw_releases *releases, const struct gw_release_push *push,
                                 struct base_error *error)
{
    const struct gw_infer_call named = {.model = push->model, .version = push->version};
    struct gw_infer_version *prepared = NULL;
    uint64_t number = 0;
    BASE_TRY(may_push(releases, &named, push->file.size, error));
    if (push->file.size == 0 || !gw_infer_version_number(push->version, &number)) {
        return base_error_set(error, BASE_ERR_INVALID, "the body is the model's file");
    }
    uint8_t *copy = malloc(push->file.size);
    if (copy == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the model");
    }
    memcpy(copy, push->file.data, push->file.size);
    const struct base_span file = {copy, push->file.size};
    BASE_TRY(gw_infer_prepare(releases->service, &named, file, &prepared, error));
    return keep(releases, push, number, prepared, error);
}

enum base_status gw_release_remove(struct gw_releases *releases, struct base_str name,
                                   struct base_str version, struct base_error *error)
{
    const struct gw_infer_call named = {.model = name, .version = version};
    enum base_status status = BASE_OK;
    uint64_t number = 0;
    pthread_mutex_lock(&releases->lock);
    struct gw_release_model *model = find(releases, name);
    if (model == NULL || !gw_infer_version_number(version, &number) ||
        version_index(model, number) == model->version_count) {
        status = base_error_set(error, BASE_ERR_NOT_FOUND, "no such version is in the store");
    } else if (is_open(model) && (model->candidate == number || model->from == number)) {
        status = base_error_set(error, BASE_ERR_CONFLICT, "version %llu is being released",
                                (unsigned long long)number);
    }
    pthread_mutex_unlock(&releases->lock);
    if (status != BASE_OK) {
        return status;
    }
    status = gw_infer_remove(releases->service, &named, error);
    if (status == BASE_OK || status == BASE_ERR_NOT_FOUND) { // one that is not loaded goes too
        status = BASE_OK;
        pthread_mutex_lock(&releases->lock);
        forget(releases, model, number);
        bool gone = find(releases, name) == NULL;
        pthread_mutex_unlock(&releases->lock);
        if (gone) {
            gw_infer_name_gone(releases->service, name);
        }
    }
    return status;
}

// ---- Operators' words

static enum base_status may_start(struct gw_releases *releases, const struct gw_release_wish *wish,
                                  uint64_t *out_serving, struct base_error *error)
{
    char text[GW_INFER_VERSION_TEXT];
    uint64_t highest = 0;
    const struct gw_infer_call named = {.model = wish->model,
                                        .version = version_text(wish->version, text)};
    BASE_TRY(gw_infer_serving(releases->service, wish->model, out_serving, &highest, error));
    if (*out_serving == wish->version) {
        return base_error_set(error, BASE_ERR_CONFLICT, "version %s serves already", text);
    }
    return gw_infer_alike(releases->service, &named, error);
}

static enum base_status start(struct gw_releases *releases, struct gw_release_model *model,
                              const struct gw_release_wish *wish, uint64_t serving,
                              struct base_error *error)
{
    struct gw_release_event event = {.what = "start"};
    struct gw_release_model *before = malloc(sizeof(*before));
    if (before == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a release");
    }
    *before = *model;
    model->candidate = wish->version;
    model->from = serving;
    model->salt = base_entropy_u64();
    model->plan = wish->plan;
    model->event_count = 0;
    gw_release_plan_stages(&model->plan, model->stages);
    memset(&model->look, 0, sizeof(model->look));
    gw_infer_trial_init(&model->trial);
    model->rollout = (struct pol_rollout){.state = POL_ROLLOUT_DRAFT};
    struct pol_decision decision = pol_rollout_command(
        &model->rollout, model->stages, model->plan.count, POL_COMMAND_START, base_clock_mono_us());
    base_check(decision.action == POL_ACTION_ADVANCE); // no stage waits for approval
    model->rollout = decision.next;
    (void)snprintf(event.why, sizeof(event.why), "%.*s", (int)wish->reason.size, wish->reason.data);
    (void)snprintf(event.by, sizeof(event.by), "%s", wish->by);
    note(releases, model, &event);
    enum base_status status = save(releases, model);
    status = status == BASE_OK ? apply(releases, model) : status;
    if (status != BASE_OK) {
        *model = *before;
        model->dirty = true;
        (void)base_error_set(error, status, "nothing was started: %s", base_status_text(status));
    }
    free(before);
    return status;
}

enum base_status gw_release_start(struct gw_releases *releases, const struct gw_release_wish *wish,
                                  struct base_error *error)
{
    uint64_t serving = 0;
    BASE_TRY(may_start(releases, wish, &serving, error));
    pthread_mutex_lock(&releases->lock);
    struct gw_release_model *model = place(releases, wish->model);
    enum base_status status;
    if (model == NULL) {
        status = base_error_set(error, BASE_ERR_LIMIT, "too many models, or no memory");
    } else if (is_open(model)) {
        status = base_error_set(error, BASE_ERR_CONFLICT,
                                "version %llu is being released: abort that first",
                                (unsigned long long)model->candidate);
    } else {
        status = start(releases, model, wish, serving, error);
    }
    pthread_mutex_unlock(&releases->lock);
    return status;
}

static enum base_status command_of(struct gw_releases *releases, struct gw_release_model *model,
                                   const struct gw_release_wish *wish, enum pol_command command,
                                   struct base_error *error)
{
    struct gw_release_event event = {0};
    struct pol_decision decision = pol_rollout_command(
        &model->rollout, model->stages, model->plan.count, command, base_clock_mono_us());
    if (decision.action == POL_ACTION_REFUSE) {
        return base_error_set(error, BASE_ERR_CONFLICT, "the release is %s: %s",
                              pol_rollout_state_name(model->rollout.state),
                              gw_release_reason_text(decision.reason));
    }
    if (command == POL_COMMAND_RESUME) { // what was seen before the pause is not counted
        decision.next.stage_since_us = base_clock_mono_us();
    }
    (void)snprintf(event.why, sizeof(event.why), "%s%s%.*s",
                   gw_release_reason_text(decision.reason), wish->reason.size > 0 ? ": " : "",
                   (int)wish->reason.size, wish->reason.data);
    (void)snprintf(event.by, sizeof(event.by), "%s", wish->by);
    obey(releases, model, &decision, &event);
    return BASE_OK;
}

enum base_status gw_release_command(struct gw_releases *releases,
                                    const struct gw_release_wish *wish, enum pol_command command,
                                    struct base_error *error)
{
    pthread_mutex_lock(&releases->lock);
    struct gw_release_model *model = find(releases, wish->model);
    enum base_status status =
        model == NULL || model->candidate == 0
            ? base_error_set(error, BASE_ERR_NOT_FOUND, "the model has no release")
            : command_of(releases, model, wish, command, error);
    pthread_mutex_unlock(&releases->lock);
    return status;
}

// ---- Views

json_t *gw_release_model_view(struct gw_releases *releases, struct base_str name)
{
    json_t *view = NULL;
    uint64_t serving = 0;
    uint64_t highest = 0;
    bool served = gw_infer_serving(releases->service, name, &serving, &highest, NULL) == BASE_OK;
    pthread_mutex_lock(&releases->lock);
    const struct gw_release_model *model = find(releases, name);
    if (model != NULL || served) {
        view = json_pack("{s:o, s:I, s:o, s:o}", "model", json_stringn(name.data, name.size),
                         "serving", (json_int_t)serving, "stored",
                         model != NULL ? gw_release_versions_view(model) : json_array(), "release",
                         model != NULL ? gw_release_view(model) : json_null());
    }
    pthread_mutex_unlock(&releases->lock);
    return view;
}

void gw_release_each(struct gw_releases *releases,
                     void (*visit)(void *ctx, const struct gw_release_model *model), void *ctx)
{
    pthread_mutex_lock(&releases->lock);
    for (uint32_t i = 0; i < releases->model_count; i++) {
        visit(ctx, releases->models[i]);
    }
    pthread_mutex_unlock(&releases->lock);
}

// ---- Life

struct reading {
    struct gw_releases *releases;
    enum base_status status;
};

static bool read_row(void *ctx, struct base_str row)
{
    struct reading *reading = ctx;
    struct gw_releases *releases = reading->releases;
    struct gw_release_model *model = calloc(1, sizeof(*model));
    reading->status = model == NULL ? BASE_ERR_NOMEM
                      : releases->model_count == GW_INFER_MODELS_MAX
                          ? BASE_ERR_LIMIT
                          : gw_release_row_read(row, base_clock_mono_us(), model);
    if (reading->status != BASE_OK) {
        free(model);
        return false;
    }
    gw_infer_trial_init(&model->trial);
    model->dirty = is_void(model); // of before names went: the thread deletes its row
    releases->models[releases->model_count++] = model;
    return true;
}

static bool is_wanted(void *ctx, const struct wire_sha256 *digest)
{
    return is_kept(ctx, digest);
}

// Files of no version, which a kill left behind.
static void sweep(struct gw_releases *releases)
{
    uint32_t dropped = 0;
    enum base_status status = gw_model_files_sweep(releases->core, is_wanted, releases, &dropped);
    if (status != BASE_OK) {
        base_log_error(releases->log, "infer", "files of no version stay in the store: %s",
                       base_status_text(status));
    }
    if (dropped > 0) {
        base_log_info(releases->log, "infer", "let go of %u file(s) of no version", dropped);
    }
}

static enum base_status start_thread(struct gw_releases *releases)
{
    pthread_condattr_t by_clock;
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&releases->wake, &by_clock);
    pthread_condattr_destroy(&by_clock);
    releases->started = pthread_create(&releases->thread, NULL, releases_main, releases) == 0;
    return releases->started ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status gw_release_open(struct gw_core *core, struct gw_infer_service *service,
                                 struct gw_releases **out, struct base_error *error)
{
    struct gw_releases *releases = calloc(1, sizeof(*releases));
    if (releases == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for releases of models");
    }
    releases->core = core;
    releases->service = service;
    releases->log = gw_core_log(core);
    pthread_mutex_init(&releases->lock, NULL);
    struct reading reading = {releases, BASE_OK};
    enum base_status status = gw_model_rows_each(core, read_row, &reading);
    status = status == BASE_OK ? reading.status : status;
    const struct gw_infer_shelf shelf = {
        .self = releases, .list = shelf_list, .load = shelf_load, .serving = shelf_serving};
    if (status == BASE_OK) {
        sweep(releases);
        gw_infer_shelf_set(service, &shelf);
        for (uint32_t i = 0; i < releases->model_count; i++) {
            if (!is_void(releases->models[i])) {
                gw_infer_load_shelved(service, base_str_of(releases->models[i]->name));
            }
        }
        status = start_thread(releases);
    }
    if (status != BASE_OK) {
        gw_release_close(releases);
        return base_error_set(error, status, "models in the store: %s", base_status_text(status));
    }
    *out = releases;
    return BASE_OK;
}

void gw_release_close(struct gw_releases *releases)
{
    if (releases == NULL) {
        return;
    }
    if (releases->started) {
        pthread_mutex_lock(&releases->lock);
        releases->stopping = true;
        pthread_cond_signal(&releases->wake);
        pthread_mutex_unlock(&releases->lock);
        pthread_join(releases->thread, NULL);
        pthread_cond_destroy(&releases->wake);
    }
    for (uint32_t i = 0; i < releases->model_count; i++) {
        free(releases->models[i]);
    }
    pthread_mutex_destroy(&releases->lock);
    free(releases);
}
