// What is loaded: models by name and alias, their versions, and what they tell of themselves. A
// load reads and plans without the service's lock, under one of its own, and puts the new versions
// in place of the old ones at once; those go with their last call. gw_infer_find runs for every
// call.
#include "infer/infer_private.h"

#include "base/check.h"
#include "infer/infer_warm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Look-up, with the lock

static bool is_alias(const struct gw_infer_model *model, struct base_str name)
{
    for (uint32_t i = 0; i < model->settings.alias_count; i++) {
        if (base_str_equal(name, base_str_of(model->settings.aliases[i]))) {
            return true;
        }
    }
    return false;
}

struct gw_infer_model *gw_infer_model_find(struct gw_infer_service *service, struct base_str name)
{
    for (uint32_t i = 0; i < service->model_count; i++) {
        struct gw_infer_model *model = service->models[i];
        if (!model->gone &&
            (base_str_equal(name, base_str_of(model->name)) || is_alias(model, name))) {
            return model;
        }
    }
    return NULL;
}

static int shown(struct base_str text)
{
    return text.size < 60 ? (int)text.size : 60;
}

struct gw_infer_version *gw_infer_find(struct gw_infer_service *service, struct base_str model,
                                       struct base_str version, struct base_error *error)
{
    const struct gw_infer_model *found = gw_infer_model_find(service, model);
    if (found == NULL) {
        (void)base_error_set(error, BASE_ERR_NOT_FOUND, "model '%.*s': there is none of this name",
                             shown(model), model.data);
        return NULL;
    }
    if (found->version_count == 0) {
        (void)base_error_set(error, BASE_ERR_CONFLICT, "model '%s' is not loaded%s%s", found->name,
                             found->reason[0] != '\0' ? ": " : "", found->reason);
        return NULL;
    }
    for (uint32_t i = 0; i < found->version_count; i++) {
        if (version.size == 0 || base_str_equal(version, base_str_of(found->versions[i]->text))) {
            return found->versions[i];
        }
    }
    for (uint32_t i = 0; i < found->failed_count; i++) {
        const struct gw_infer_failed *failed = &found->failed[i];
        if (base_str_equal(version, base_str_of(failed->text))) {
            (void)base_error_set(error, BASE_ERR_CONFLICT, "version %s is not loaded: %s",
                                 failed->text, failed->reason);
            return NULL;
        }
    }
    (void)base_error_set(error, BASE_ERR_NOT_FOUND, "model '%s': version '%.*s' is not served",
                         found->name, shown(version), version.data);
    return NULL;
}

// ---- Loading

static enum base_status check_rows(const struct eng_port_info *port, const char *kind,
                                   struct base_error *error)
{
    const char *why = !port->has_shape                 ? "no shape is declared"
                      : port->desc.rank == 0           ? "it is a scalar"
                      : port->desc.dims[0] >= 0        ? "its first dimension is fixed"
                      : port->desc.dtype == ENG_STRING ? "it is text"
                                                       : NULL;
    return why == NULL ? BASE_OK
                       : base_error_set(error, BASE_ERR_INVALID,
                                        "max_batch over 1 does not fit %s '%.40s': %s", kind,
                                        port->name, why);
}

static enum base_status check_ports(const struct gw_infer_version *version,
                                    struct base_error *error)
{
    size_t inputs = eng_model_input_count(version->engine);
    size_t outputs = eng_model_output_count(version->engine);
    if (inputs > GW_INFER_TENSORS_MAX || outputs > GW_INFER_TENSORS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "more than %u inputs or outputs",
                              GW_INFER_TENSORS_MAX);
    }
    if (version->by_rows && inputs == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "max_batch over 1: there is no input");
    }
    for (size_t i = 0; version->by_rows && i < inputs; i++) {
        BASE_TRY(check_rows(eng_model_input(version->engine, i), "input", error));
    }
    for (size_t i = 0; version->by_rows && i < outputs; i++) {
        BASE_TRY(check_rows(eng_model_output(version->engine, i), "output", error));
    }
    return BASE_OK;
}

// From the disk, or from the shelf, whose bytes the engine reads as long as the version lives.
static enum base_status load_engine(const struct gw_infer_service *service,
                                    const struct gw_infer_source *source,
                                    struct gw_infer_version *version, struct base_error *error)
{
    static const struct eng_model_options options = {.file_bytes_max = GW_INFER_SHELF_BYTES_MAX};
    const struct gw_infer_shelf *shelf = source->shelf;
    struct base_error why = {0};
    struct base_span file = {0};
    if (shelf == NULL) {
        return gw_infer_repository_load(service->dir, source->found, source->number,
                                        &version->engine, error);
    }
    version->shelved = true;
    enum base_status status =
        shelf->load(shelf->self, base_str_of(version->name), source->number, &file, &why);
    version->file = (void *)(uintptr_t)file.data;
    if (status == BASE_OK) {
        status = eng_model_load_memory(file.data, file.size, &options, &version->engine, &why);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%.40s/%s: %s", version->name,
                                              version->text, why.text);
}

enum base_status gw_infer_version_make(const struct gw_infer_service *service,
                                       const struct gw_infer_source *source,
                                       struct gw_infer_version **out, struct base_error *error)
{
    const struct gw_infer_found *found = source->found;
    const struct gw_infer_settings *settings = &found->settings;
    struct base_error why = {0};
    struct gw_infer_version *version = calloc(1, sizeof(*version));
    if (version == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a model");
    }
    version->refs = 1;
    memcpy(version->name, found->name, sizeof(version->name));
    (void)snprintf(version->text, sizeof(version->text), "%llu",
                   (unsigned long long)source->number);
    version->number = source->number;
    version->hash_key = service->hash_key;
    version->by_rows = settings->max_batch > 1;
    version->rules = (struct gw_infer_batch_rules){settings->max_batch,
                                                   version->by_rows ? settings->batch_delay_us : 0,
                                                   version->by_rows ? &version->costs : NULL};
    version->instances = settings->instances != 0 ? settings->instances : service->thread_count;
    version->queue_max = settings->queue;
    if (settings->cache_bytes > 0) {
        version->cache = gw_infer_cache_new(settings->cache_bytes, &version->hash_key);
    }
    if (settings->cache_bytes > 0 && version->cache == NULL) {
        gw_infer_version_free(version);
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a model");
    }
    enum base_status status = load_engine(service, source, version, error);
    if (status != BASE_OK) {
        gw_infer_version_free(version);
        return status;
    }
    status = check_ports(version, &why);
    if (status == BASE_OK) {
        status = gw_infer_warm(service, source, version, &why);
    }
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "%.40s/%s: %s", found->name, version->text, why.text);
        gw_infer_version_free(version);
        return status;
    }
    *out = version;
    return BASE_OK;
}

// Versions on their way into a model.
struct load {
    struct gw_infer_found found;
    struct gw_infer_version *versions[GW_INFER_VERSIONS_MAX];
    uint32_t version_count;
    struct gw_infer_failed failed[GW_INFER_VERSIONS_MAX];
    uint32_t failed_count;
    uint64_t shelved[GW_INFER_VERSIONS_MAX]; // of the shelf, the highest first
    uint32_t shelved_count;
    bool first; // at the start: what can be served is
};

static void drop_all(struct load *load)
{
    while (load->version_count > 0) {
        gw_infer_version_free(load->versions[--load->version_count]);
    }
}

static void note_failed(struct load *load, uint64_t number, const struct base_error *why,
                        struct base_error *first)
{
    struct gw_infer_failed *failed = &load->failed[load->failed_count];
    (void)snprintf(failed->text, sizeof(failed->text), "%llu", (unsigned long long)number);
    (void)snprintf(failed->reason, sizeof(failed->reason), "%s", why->text);
    if (load->failed_count++ == 0) {
        *first = *why;
    }
}

static bool has_number(const struct load *load, uint64_t number)
{
    for (uint32_t i = 0; i < load->version_count; i++) {
        if (load->versions[i]->number == number) {
            return true;
        }
    }
    return false;
}

// Those of the shelf that the disk has not, as far as they can be loaded and there is room.
static void make_shelved(const struct gw_infer_service *service, struct load *load,
                         struct base_error *error)
{
    for (uint32_t i = 0; i < load->shelved_count; i++) {
        struct base_error why = {0};
        const struct gw_infer_source source = {&load->found, load->shelved[i], &service->shelf};
        if (has_number(load, source.number) || load->version_count == GW_INFER_VERSIONS_MAX ||
            load->failed_count == GW_INFER_VERSIONS_MAX) {
            continue;
        }
        if (gw_infer_version_make(service, &source, &load->versions[load->version_count], &why) ==
            BASE_OK) {
            load->version_count++;
        } else {
            note_failed(load, source.number, &why, error);
        }
    }
}

// Puts first the version that answers who names none: the one that the shelf says, if it is there.
static void choose_serving(const struct gw_infer_service *service, struct load *load)
{
    const struct gw_infer_shelf *shelf = &service->shelf;
    const struct gw_infer_version *first = load->versions[0];
    uint64_t highest = first->shelved ? 0 : first->number;
    uint64_t number = shelf->serving != NULL
                          ? shelf->serving(shelf->self, base_str_of(load->found.name), highest)
                          : 0;
    for (uint32_t i = 1; number != 0 && i < load->version_count; i++) {
        struct gw_infer_version *version = load->versions[i];
        if (version->number == number) {
            memmove(&load->versions[1], &load->versions[0], i * sizeof(version));
            load->versions[0] = version;
        }
    }
}

// All that are to be served, or none; of the first load those that can be, or the ones below. The
// error is that of the highest.
static enum base_status make_all(const struct gw_infer_service *service, struct load *load,
                                 struct base_error *error)
{
    const struct gw_infer_found *found = &load->found;
    uint32_t count = load->first ? found->known_count : found->version_count;
    for (uint32_t i = 0; i < count && load->version_count < found->version_count; i++) {
        struct base_error why = {0};
        const struct gw_infer_source source = {found, found->versions[i], NULL};
        if (gw_infer_version_make(service, &source, &load->versions[load->version_count], &why) ==
            BASE_OK) {
            load->version_count++;
            continue;
        }
        note_failed(load, source.number, &why, error);
        if (!load->first) {
            drop_all(load);
            return error->status;
        }
    }
    make_shelved(service, load, error);
    if (load->version_count == 0) {
        return error->status;
    }
    choose_serving(service, load);
    return BASE_OK;
}

// An alias that is the name of another folder would keep that one from ever being loaded, and
// answer for it meanwhile.
static enum base_status check_aliases(const struct gw_infer_service *service,
                                      const struct load *load, struct base_error *error)
{
    const struct gw_infer_settings *settings = &load->found.settings;
    for (uint32_t i = 0; i < settings->alias_count; i++) {
        const char *alias = settings->aliases[i];
        if (strcmp(alias, load->found.name) != 0 && gw_infer_repository_has(service->dir, alias)) {
            return base_error_set(error, BASE_ERR_CONFLICT,
                                  "%.40s: alias '%.40s' is the name of another model's folder",
                                  load->found.name, alias);
        }
    }
    return BASE_OK;
}

// With the lock: is none of its names another model's?
static enum base_status check_names(struct gw_infer_service *service, const struct load *load,
                                    struct base_error *error)
{
    const struct gw_infer_settings *settings = &load->found.settings;
    for (uint32_t i = 0; i <= settings->alias_count; i++) {
        const char *name = i == 0 ? load->found.name : settings->aliases[i - 1];
        const struct gw_infer_model *other = gw_infer_model_find(service, base_str_of(name));
        if (other != NULL && strcmp(other->name, load->found.name) != 0) {
            return base_error_set(error, BASE_ERR_CONFLICT, "%.40s: '%.40s' names model '%.40s'",
                                  load->found.name, name, other->name);
        }
    }
    return BASE_OK;
}

static struct gw_infer_model *first_gone(const struct gw_infer_service *service)
{
    for (uint32_t i = 0; i < service->model_count; i++) {
        if (service->models[i]->gone) {
            return service->models[i];
        }
    }
    return NULL;
}

bool gw_infer_model_room(const struct gw_infer_service *service)
{
    return service->model_count < GW_INFER_MODELS_MAX || first_gone(service) != NULL;
}

// One that is gone is never freed: a call or a shadow of it may not have ended yet. Such a one is
// of a trial that is over, and counts nowhere.
static void take_over(struct gw_infer_model *model)
{
    struct gw_infer_candidate candidate = model->candidate;
    base_check(model->version_count == 0 && candidate.text[0] == '\0');
    candidate.number++;
    memset(model, 0, sizeof(*model));
    model->candidate = candidate;
}

struct gw_infer_model *gw_infer_model_place(struct gw_infer_service *service, struct base_str name)
{
    for (uint32_t i = 0; i < service->model_count; i++) {
        struct gw_infer_model *model = service->models[i];
        if (!model->gone && base_str_equal(name, base_str_of(model->name))) {
            return model;
        }
    }
    struct gw_infer_model *model = first_gone(service);
    if (model != NULL) {
        take_over(model);
    } else if (service->model_count < GW_INFER_MODELS_MAX) {
        model = calloc(1, sizeof(*model));
        if (model != NULL) {
            service->models[service->model_count++] = model;
        }
    }
    if (model != NULL) {
        (void)snprintf(model->name, sizeof(model->name), "%.*s", (int)name.size, name.data);
    }
    return model;
}

static void retire(struct gw_infer_service *service, struct gw_infer_model *model,
                   struct gw_infer_ends *ends)
{
    for (uint32_t i = 0; i < model->version_count; i++) {
        gw_infer_version_drop(service, model->versions[i], ends);
    }
    model->version_count = 0;
    model->failed_count = 0;
}

// With the lock: the new versions take the place of the old ones.
static void install(struct gw_infer_service *service, struct gw_infer_model *model,
                    const struct load *load, struct gw_infer_ends *ends)
{
    retire(service, model, ends);
    model->settings = load->found.settings;
    model->version_count = load->version_count;
    model->failed_count = load->failed_count;
    memcpy(model->failed, load->failed, sizeof(model->failed));
    model->reason[0] = '\0';
    for (uint32_t i = 0; i < load->version_count; i++) {
        model->versions[i] = load->versions[i];
        model->versions[i]->next = service->versions;
        service->versions = model->versions[i];
    }
    gw_infer_idle_trim(service, ends);
}

// Why it is not loaded, for those who ask later. Not of names that nothing in the folder has. What
// can be no model, or has no version, is in nobody's way.
static void note_failure(struct gw_infer_service *service, const struct load *load,
                         struct base_str name, const struct base_error *error)
{
    const struct gw_infer_found *found = &load->found;
    pthread_mutex_lock(&service->lock);
    struct gw_infer_model *model =
        load->first || found->version_count > 0 ? gw_infer_model_place(service, name) : NULL;
    if (model != NULL && model->version_count == 0) {
        model->wanted =
            gw_infer_name_ok(name) && (error->status != BASE_ERR_NOT_FOUND ||
                                       found->version_count + found->settings.version_count > 0);
        (void)snprintf(model->reason, sizeof(model->reason), "%s", error->text);
    }
    pthread_mutex_unlock(&service->lock);
}

static enum base_status load_model(struct gw_infer_service *service, struct load *load,
                                   struct base_error *error)
{
    struct gw_infer_ends ends = {0};
    BASE_TRY(check_aliases(service, load, error));
    BASE_TRY(make_all(service, load, error));
    for (uint32_t i = 0; i < load->failed_count; i++) {
        base_log_error(service->log, "infer", "not loaded: %s", load->failed[i].reason);
    }
    pthread_mutex_lock(&service->lock);
    enum base_status status = check_names(service, load, error);
    struct gw_infer_model *model =
        status == BASE_OK ? gw_infer_model_place(service, base_str_of(load->found.name)) : NULL;
    if (model != NULL) {
        model->wanted = true;
        install(service, model, load, &ends);
    } else if (status == BASE_OK) {
        status = base_error_set(error, BASE_ERR_LIMIT, "more than %u models, or no memory",
                                GW_INFER_MODELS_MAX);
    }
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    if (status != BASE_OK) {
        drop_all(load);
    }
    return status;
}

// `why` says how it ended.
static void load_by_name(struct gw_infer_service *service, struct base_str model, bool first,
                         struct base_error *why)
{
    struct load *load = calloc(1, sizeof(*load));
    if (load == NULL) {
        (void)base_error_set(why, BASE_ERR_NOMEM, "no memory to load a model");
        base_log_error(service->log, "infer", "not loaded: %s", why->text);
        return;
    }
    load->first = first;
    pthread_mutex_lock(&service->load_lock);
    enum base_status status = gw_infer_repository_look(service->dir, model, &load->found, why);
    if (service->shelf.list != NULL && (status == BASE_OK || status == BASE_ERR_NOT_FOUND)) {
        load->shelved_count = service->shelf.list(service->shelf.self, model, load->shelved);
    }
    if (status == BASE_ERR_NOT_FOUND && load->shelved_count > 0) {
        load->found.version_count = load->found.known_count = 0; // the disk has none
        status = BASE_OK;
    }
    if (status == BASE_OK) {
        status = load_model(service, load, why);
    }
    why->status = status;
    if (status == BASE_OK) {
        base_log_info(service->log, "infer", "loaded %s, %u version(s), the default %s",
                      load->found.name, load->version_count, load->versions[0]->text);
    } else {
        base_log_error(service->log, "infer", "not loaded: %s", why->text);
        note_failure(service, load, model, why);
    }
    pthread_mutex_unlock(&service->load_lock);
    free(load);
}

enum base_status gw_infer_load(struct gw_infer_service *service, struct base_str model,
                               struct base_error *error)
{
    struct base_error why = {0};
    load_by_name(service, model, false, &why);
    return why.status == BASE_OK ? BASE_OK : base_error_set(error, why.status, "%s", why.text);
}

void gw_infer_load_first(struct gw_infer_service *service, struct base_str name)
{
    struct base_error why = {0};
    load_by_name(service, name, true, &why);
}

void gw_infer_load_shelved(struct gw_infer_service *service, struct base_str model)
{
    if (!service->explicit_models) {
        gw_infer_load_first(service, model);
    }
}

enum base_status gw_infer_unload(struct gw_infer_service *service, struct base_str model,
                                 struct base_error *error)
{
    struct gw_infer_ends ends = {0};
    pthread_mutex_lock(&service->load_lock);
    pthread_mutex_lock(&service->lock);
    struct gw_infer_model *found = gw_infer_model_find(service, model);
    bool loaded = found != NULL && found->version_count > 0;
    if (loaded) {
        retire(service, found, &ends);
        found->wanted = false;
        (void)snprintf(found->reason, sizeof(found->reason), "unloaded by an operator");
    }
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    pthread_mutex_unlock(&service->load_lock);
    return loaded ? BASE_OK
                  : base_error_set(error, BASE_ERR_NOT_FOUND, "model '%.*s' is not loaded",
                                   shown(model), model.data);
}

// ---- What there is

bool gw_infer_ready(struct gw_infer_service *service)
{
    pthread_mutex_lock(&service->lock);
    bool ready = !service->draining;
    for (uint32_t i = 0; i < service->model_count; i++) {
        ready = ready && (!service->models[i]->wanted || service->models[i]->version_count > 0);
    }
    pthread_mutex_unlock(&service->lock);
    return ready;
}

bool gw_infer_model_ready(struct gw_infer_service *service, struct base_str model,
                          struct base_str version)
{
    pthread_mutex_lock(&service->lock);
    bool ready = !service->draining && gw_infer_find(service, model, version, NULL) != NULL;
    pthread_mutex_unlock(&service->lock);
    return ready;
}

static bool copy_text(struct base_arena *arena, const char *text, struct base_str *out)
{
    size_t size = strlen(text);
    const char *copy = base_arena_text(arena, text, size);
    *out = (struct base_str){copy, copy != NULL ? size : 0};
    return copy != NULL;
}

static bool copy_ports(const struct eng_model *model, bool inputs, struct base_arena *arena,
                       struct gw_infer_metadata *out)
{
    size_t count = inputs ? eng_model_input_count(model) : eng_model_output_count(model);
    struct eng_port_info *ports = base_arena_zalloc(arena, (count + 1) * sizeof(*ports));
    for (size_t i = 0; ports != NULL && i < count; i++) {
        ports[i] = *(inputs ? eng_model_input(model, i) : eng_model_output(model, i));
        ports[i].name = base_arena_text(arena, ports[i].name, strlen(ports[i].name));
        memset(ports[i].dim_names, 0, sizeof(ports[i].dim_names)); // the model's, which may go
        if (ports[i].name == NULL) {
            return false;
        }
    }
    *(inputs ? &out->inputs : &out->outputs) = ports;
    *(inputs ? &out->input_count : &out->output_count) = count;
    return ports != NULL;
}

static bool copy_metadata(const struct gw_infer_model *model,
                          const struct gw_infer_version *version, struct base_arena *arena,
                          struct gw_infer_metadata *out)
{
    out->version_count = model->version_count;
    out->versions = base_arena_zalloc(arena, model->version_count * sizeof(*out->versions));
    bool fits = out->versions != NULL && copy_text(arena, model->name, &out->name);
    for (uint32_t i = 0; fits && i < model->version_count; i++) {
        fits = copy_text(arena, model->versions[i]->text, &out->versions[i]);
    }
    return fits && copy_ports(version->engine, true, arena, out) &&
           copy_ports(version->engine, false, arena, out);
}

enum base_status gw_infer_metadata(struct gw_infer_service *service,
                                   const struct gw_infer_call *named, struct base_arena *arena,
                                   struct gw_infer_metadata *out, struct base_error *error)
{
    struct base_error why = {0};
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_version *version =
        gw_infer_find(service, named->model, named->version, &why);
    if (version == NULL) {
        status = why.status;
    } else if (!copy_metadata(gw_infer_model_find(service, named->model), version, arena, out)) {
        status = base_error_set(&why, BASE_ERR_NOMEM, "no memory for the answer");
    }
    pthread_mutex_unlock(&service->lock);
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s", why.text);
}

static bool copy_rows(const struct gw_infer_model *model, struct base_arena *arena,
                      struct gw_infer_row *rows, size_t *count)
{
    bool fits = true;
    for (uint32_t i = 0; fits && i < model->version_count; i++) {
        const struct gw_infer_version *version = model->versions[i];
        struct gw_infer_row *row = &rows[(*count)++];
        row->ready = true;
        row->figures = version->figures;
        row->figures.waiting = version->queue.count;
        row->figures.running = version->running;
        row->figures.cache_bytes =
            version->cache != NULL ? gw_infer_cache_bytes(version->cache) : 0;
        fits = copy_text(arena, model->name, &row->name) &&
               copy_text(arena, version->text, &row->version);
    }
    for (uint32_t i = 0; fits && i < model->failed_count; i++) {
        struct gw_infer_row *row = &rows[(*count)++];
        fits = copy_text(arena, model->name, &row->name) &&
               copy_text(arena, model->failed[i].text, &row->version) &&
               copy_text(arena, model->failed[i].reason, &row->reason);
    }
    if (model->version_count == 0) {
        struct gw_infer_row *row = &rows[(*count)++];
        fits = copy_text(arena, model->name, &row->name) &&
               copy_text(arena, model->reason, &row->reason);
    }
    return fits;
}

enum base_status gw_infer_rows(struct gw_infer_service *service, const struct gw_infer_call *named,
                               struct base_arena *arena, struct gw_infer_row **out,
                               size_t *out_count)
{
    size_t max = 0;
    size_t count = 0;
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_model *only =
        named->model.size > 0 ? gw_infer_model_find(service, named->model) : NULL;
    for (uint32_t i = 0; i < service->model_count; i++) {
        max += service->models[i]->version_count + service->models[i]->failed_count + 1;
    }
    struct gw_infer_row *rows = base_arena_zalloc(arena, (max + 1) * sizeof(*rows));
    bool fits = rows != NULL;
    for (uint32_t i = 0; fits && i < service->model_count; i++) {
        if (named->model.size == 0 ? !service->models[i]->gone : service->models[i] == only) {
            fits = copy_rows(service->models[i], arena, rows, &count);
        }
    }
    pthread_mutex_unlock(&service->lock);
    if (named->model.size > 0 && only == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    *out = rows;
    *out_count = count;
    return fits ? BASE_OK : BASE_ERR_NOMEM;
}
