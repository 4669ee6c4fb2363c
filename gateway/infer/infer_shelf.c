// See infer_shelf.h: versions that come and go beside those of the disk, and the candidate of a
// release as the service keeps it. Called by release/, on the background thread, on the thread of
// releases and, at the start, on the main one.
#include "infer/infer_shelf.h"

#include "infer/infer_private.h"

#include "base/check.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gw_infer_shelf_set(struct gw_infer_service *service, const struct gw_infer_shelf *shelf)
{
    service->shelf = *shelf;
}

void *gw_infer_shelf_self(struct gw_infer_service *service)
{
    return service->shelf.self;
}

// ---- A version is made

// What it was handed, in the shelf's place.
static enum base_status give(void *self, struct base_str model, uint64_t version,
                             struct base_span *out_file, struct base_error *error)
{
    struct base_span *given = self;
    (void)model;
    (void)version;
    (void)error;
    *out_file = *given;
    given->data = NULL;
    return BASE_OK;
}

// Runs once with zeros, where its shapes are known. Text has no zeros.
static enum base_status warm_run(const struct gw_infer_version *version, struct base_error *error)
{
    const struct gw_infer_session *session = version->idle;
    const struct eng_run_options limits = {.deadline_us =
                                               base_clock_mono_us() + GW_INFER_WARM_US_MAX};
    size_t count = eng_model_input_count(version->engine);
    if (session == NULL) {
        return BASE_OK; // it could not be planned ahead
    }
    for (size_t i = 0; i < count; i++) {
        struct eng_array array;
        BASE_TRY(eng_session_input(session->engine, i, &array, error));
        if (array.desc.dtype == ENG_STRING) {
            return BASE_OK;
        }
        size_t size = eng_desc_bytes(&array.desc);
        if (size > 0) {
            memset(array.data, 0, size);
        }
    }
    return eng_session_run(session->engine, &limits, error);
}

static enum base_status look(const struct gw_infer_service *service, struct base_str model,
                             struct gw_infer_found *out, struct base_error *error)
{
    enum base_status status = gw_infer_repository_look(service->dir, model, out, error);
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status; // the shelf alone has it
}

enum base_status gw_infer_prepare(struct gw_infer_service *service,
                                  const struct gw_infer_call *named, struct base_span file,
                                  struct gw_infer_version **out, struct base_error *error)
{
    struct base_span given = file;
    const struct gw_infer_shelf shelf = {.self = &given, .load = give};
    struct gw_infer_source source = {.shelf = &shelf};
    struct gw_infer_found *found = calloc(1, sizeof(*found));
    struct gw_infer_version *version = NULL;
    struct base_error why = {0};
    enum base_status status = found == NULL ? BASE_ERR_NOMEM : BASE_OK;
    if (status == BASE_OK && !gw_infer_version_number(named->version, &source.number)) {
        status = base_error_set(&why, BASE_ERR_INVALID, GW_INFER_VERSION_WANTED);
    }
    if (status == BASE_OK) {
        source.found = found;
        status = look(service, named->model, found, &why);
    }
    if (status == BASE_OK) {
        status = gw_infer_version_make(service, &source, &version, &why);
    }
    if (status == BASE_OK) {
        struct base_error ran = {0};
        status = warm_run(version, &ran);
        if (status != BASE_OK) {
            (void)base_error_set(&why, status, "%.40s/%s: a run with zeros: %s", version->name,
                                 version->text,
                                 status == BASE_ERR_TIMEOUT ? "it takes too long" : ran.text);
        }
    }
    free(found);
    free((void *)(uintptr_t)given.data);
    if (status != BASE_OK) {
        gw_infer_version_free(version);
        return base_error_set(error, status, "%s",
                              why.text[0] != '\0' ? why.text : base_status_text(status));
    }
    *out = version;
    return BASE_OK;
}

void gw_infer_prepared_free(struct gw_infer_version *version)
{
    gw_infer_version_free(version);
}

// ---- It comes and goes. With the lock

static uint32_t index_of(const struct gw_infer_model *model, struct base_str version)
{
    uint32_t i = 0;
    while (i < model->version_count &&
           !base_str_equal(version, base_str_of(model->versions[i]->text))) {
        i++;
    }
    return i;
}

static enum base_status may_add(struct gw_infer_service *service, struct base_str name,
                                struct base_str version, struct base_error *error)
{
    const struct gw_infer_model *model = gw_infer_model_find(service, name);
    if (base_str_equal(name, base_str_of(GW_INFER_NAME_RESERVED))) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "a model cannot be named '" GW_INFER_NAME_RESERVED
                              "': /v2/models/" GW_INFER_NAME_RESERVED " is of all models");
    }
    if (model == NULL) {
        return gw_infer_model_room(service)
                   ? BASE_OK
                   : base_error_set(error, BASE_ERR_LIMIT, "more than %u models",
                                    GW_INFER_MODELS_MAX);
    }
    if (!base_str_equal(name, base_str_of(model->name))) {
        return base_error_set(error, BASE_ERR_CONFLICT, "the name is an alias of model '%.60s'",
                              model->name);
    }
    if (index_of(model, version) < model->version_count) {
        return base_error_set(error, BASE_ERR_EXISTS, "%.40s: version %.*s is there already",
                              model->name, (int)version.size, version.data);
    }
    return model->version_count < GW_INFER_VERSIONS_MAX
               ? BASE_OK
               : base_error_set(error, BASE_ERR_LIMIT,
                                "%.40s: more than %u versions; remove one first", model->name,
                                GW_INFER_VERSIONS_MAX);
}

enum base_status gw_infer_may_add(struct gw_infer_service *service,
                                  const struct gw_infer_call *named, struct base_error *error)
{
    pthread_mutex_lock(&service->lock);
    enum base_status status = may_add(service, named->model, named->version, error);
    pthread_mutex_unlock(&service->lock);
    return status;
}

static enum base_status add(struct gw_infer_service *service, struct gw_infer_version *version,
                            struct base_error *error)
{
    struct base_str name = base_str_of(version->name);
    BASE_TRY(may_add(service, name, base_str_of(version->text), error));
    bool there = gw_infer_model_find(service, name) != NULL;
    struct gw_infer_model *model = gw_infer_model_place(service, name);
    if (model == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a model");
    }
    if (!there) {
        gw_infer_settings_defaults(&model->settings);
    }
    model->wanted = true;
    model->reason[0] = '\0';
    model->versions[model->version_count++] = version;
    version->next = service->versions;
    service->versions = version;
    return BASE_OK;
}

enum base_status gw_infer_add(struct gw_infer_service *service, struct gw_infer_version *version,
                              struct base_error *error)
{
    struct gw_infer_ends ends = {0};
    pthread_mutex_lock(&service->load_lock);
    pthread_mutex_lock(&service->lock);
    enum base_status status = add(service, version, error);
    if (status == BASE_OK) {
        gw_infer_idle_trim(service, &ends);
    }
    pthread_mutex_unlock(&service->lock);
    pthread_mutex_unlock(&service->load_lock);
    gw_infer_ends_run(&ends);
    if (status != BASE_OK) {
        gw_infer_version_free(version);
    }
    return status;
}

// The model and the place of its version. NOT_FOUND: there is none of them.
static enum base_status locate(struct gw_infer_service *service, const struct gw_infer_call *named,
                               struct gw_infer_model **out, uint32_t *out_index,
                               struct base_error *error)
{
    struct gw_infer_model *model = gw_infer_model_find(service, named->model);
    uint32_t index = model != NULL ? index_of(model, named->version) : 0;
    if (model == NULL || index == model->version_count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "version %.*s is not loaded",
                              named->version.size < 24 ? (int)named->version.size : 24,
                              named->version.data);
    }
    *out = model;
    *out_index = index;
    return BASE_OK;
}

enum base_status gw_infer_remove(struct gw_infer_service *service,
                                 const struct gw_infer_call *named, struct base_error *error)
{
    struct gw_infer_ends ends = {0};
    struct gw_infer_model *model = NULL;
    uint32_t index = 0;
    pthread_mutex_lock(&service->load_lock);
    pthread_mutex_lock(&service->lock);
    enum base_status status = locate(service, named, &model, &index, error);
    if (status == BASE_OK && index == 0) {
        status = base_error_set(error, BASE_ERR_CONFLICT, "%.40s: version %s serves", model->name,
                                model->versions[0]->text);
    }
    if (status == BASE_OK) {
        struct gw_infer_version *version = model->versions[index];
        model->version_count--;
        memmove(&model->versions[index], &model->versions[index + 1],
                (model->version_count - index) * sizeof(version));
        gw_infer_version_drop(service, version, &ends);
    }
    pthread_mutex_unlock(&service->lock);
    pthread_mutex_unlock(&service->load_lock);
    gw_infer_ends_run(&ends);
    return status;
}

void gw_infer_name_gone(struct gw_infer_service *service, struct base_str name)
{
    char text[GW_INFER_MODEL_NAME_MAX + 1];
    base_check(name.size < sizeof(text));
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
    pthread_mutex_lock(&service->load_lock);
    bool on_disk = gw_infer_repository_has(service->dir, text);
    pthread_mutex_lock(&service->lock);
    struct gw_infer_model *model = gw_infer_model_find(service, name);
    if (model != NULL && !on_disk && model->version_count == 0 &&
        model->candidate.text[0] == '\0' && base_str_equal(name, base_str_of(model->name))) {
        model->gone = true;
        model->wanted = false;
    }
    pthread_mutex_unlock(&service->lock);
    pthread_mutex_unlock(&service->load_lock);
}

enum base_status gw_infer_serve(struct gw_infer_service *service, const struct gw_infer_call *named,
                                struct base_error *error)
{
    struct gw_infer_model *model = NULL;
    uint32_t index = 0;
    pthread_mutex_lock(&service->lock);
    enum base_status status = locate(service, named, &model, &index, error);
    if (status == BASE_OK) {
        struct gw_infer_version *version = model->versions[index];
        memmove(&model->versions[1], &model->versions[0], index * sizeof(version));
        model->versions[0] = version;
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

enum base_status gw_infer_serving(struct gw_infer_service *service, struct base_str model,
                                  uint64_t *out_serving, uint64_t *out_highest,
                                  struct base_error *error)
{
    enum base_status status = BASE_OK;
    struct base_error why = {0};
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_version *first = gw_infer_find(service, model, BASE_STR(""), &why);
    if (first == NULL) {
        status = base_error_set(error, why.status, "%s", why.text);
    } else {
        const struct gw_infer_model *found = gw_infer_model_find(service, model);
        if (!base_str_equal(model, base_str_of(found->name))) {
            status = base_error_set(error, BASE_ERR_CONFLICT,
                                    "the name is an alias of model '%.60s'", found->name);
        }
        *out_serving = first->number;
        *out_highest = 0;
        for (uint32_t i = 0; i < found->version_count; i++) {
            const struct gw_infer_version *version = found->versions[i];
            if (!version->shelved && version->number > *out_highest) {
                *out_highest = version->number;
            }
        }
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

// ---- Does one take the other's place?

// An input may be open where the serving version's is fixed, so that it takes all that one takes;
// an output may also be fixed where that one's is open.
static bool same_dims(const struct eng_port_info *port, const struct eng_port_info *other,
                      bool input)
{
    for (uint32_t i = 0; port->has_shape && i < port->desc.rank; i++) {
        int64_t wanted = other->has_shape ? other->desc.dims[i] : -1;
        int64_t given = port->desc.dims[i];
        if (given >= 0 && given != wanted && (input || wanted >= 0)) {
            return false;
        }
    }
    return true;
}

static enum base_status alike_port(const struct eng_port_info *port,
                                   const struct eng_port_info *other, bool input,
                                   struct base_error *error)
{
    const char *why = strcmp(port->name, other->name) != 0    ? "has another name"
                      : port->desc.dtype != other->desc.dtype ? "has another type"
                      : port->has_shape && other->has_shape && port->desc.rank != other->desc.rank
                          ? "has another rank"
                      : !same_dims(port, other, input) ? "has other dimensions"
                                                       : NULL;
    return why == NULL ? BASE_OK
                       : base_error_set(error, BASE_ERR_INVALID,
                                        "%s '%.60s' %s than that of the serving version",
                                        input ? "input" : "output", port->name, why);
}

static enum base_status alike(const struct eng_model *model, const struct eng_model *serving,
                              struct base_error *error)
{
    size_t inputs = eng_model_input_count(model);
    size_t outputs = eng_model_output_count(model);
    if (inputs != eng_model_input_count(serving) || outputs != eng_model_output_count(serving)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "it has %zu inputs and %zu outputs, the serving version %zu and %zu",
                              inputs, outputs, eng_model_input_count(serving),
                              eng_model_output_count(serving));
    }
    for (size_t i = 0; i < inputs; i++) {
        BASE_TRY(alike_port(eng_model_input(model, i), eng_model_input(serving, i), true, error));
    }
    for (size_t i = 0; i < outputs; i++) {
        BASE_TRY(
            alike_port(eng_model_output(model, i), eng_model_output(serving, i), false, error));
    }
    return BASE_OK;
}

enum base_status gw_infer_alike(struct gw_infer_service *service, const struct gw_infer_call *named,
                                struct base_error *error)
{
    struct gw_infer_model *model = NULL;
    uint32_t index = 0;
    pthread_mutex_lock(&service->lock);
    enum base_status status = locate(service, named, &model, &index, error);
    if (status == BASE_OK) {
        status = alike(model->versions[index]->engine, model->versions[0]->engine, error);
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

// ---- A candidate

static enum base_status make_trial(struct gw_infer_candidate *candidate)
{
    if (candidate->trial != NULL) {
        return BASE_OK;
    }
    struct gw_infer_trial *trial = calloc(1, sizeof(*trial));
    struct gw_infer_callers *callers = calloc(1, sizeof(*callers));
    if (trial == NULL || callers == NULL) {
        free(trial);
        free(callers);
        return BASE_ERR_NOMEM;
    }
    candidate->trial = trial;
    candidate->callers = callers;
    return BASE_OK;
}

enum base_status gw_infer_trial_set(struct gw_infer_service *service, struct base_str model,
                                    const struct gw_infer_trial_wish *wish)
{
    enum base_status status = BASE_OK;
    base_assert(wish->candidate.size < GW_INFER_VERSION_TEXT);
    pthread_mutex_lock(&service->lock);
    struct gw_infer_model *found = gw_infer_model_find(service, model);
    struct gw_infer_candidate *candidate = found != NULL ? &found->candidate : NULL;
    if (candidate == NULL) {
        status = BASE_ERR_NOT_FOUND;
    } else if (wish->candidate.size > 0) {
        status = make_trial(candidate);
    }
    if (status == BASE_OK) {
        service->trial_count -= candidate->text[0] != '\0';
        service->trial_count += wish->candidate.size > 0;
        candidate->number++; // what is under way belongs to none
        candidate->calls = 0;
        candidate->split = wish->split;
        candidate->agree = wish->agree;
        (void)snprintf(candidate->text, sizeof(candidate->text), "%.*s", (int)wish->candidate.size,
                       wish->candidate.data);
        if (candidate->trial != NULL) {
            gw_infer_trial_init(candidate->trial);
            gw_infer_callers_init(candidate->callers, &service->hash_key, wish->per_caller);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

bool gw_infer_trial_read(struct gw_infer_service *service, struct base_str model,
                         struct gw_infer_trial *out)
{
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_model *found = gw_infer_model_find(service, model);
    bool there = found != NULL && found->candidate.text[0] != '\0';
    if (there) {
        *out = *found->candidate.trial;
    }
    pthread_mutex_unlock(&service->lock);
    return there;
}
