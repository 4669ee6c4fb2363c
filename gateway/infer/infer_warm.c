// What is done to a version before it takes calls, as infer_warm.h says: it is planned, and runs
// the call of its folder (warmup.json), on the thread that loads it (infer_models.c). The sessions
// wait idle for the first calls, as any that were used.
#include "infer/infer_warm.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "infer/infer_private.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES ((size_t)16 << 10)

// ---- Plans for zeros

// What an input is when the first dimension is `rows`. False: another one is open.
static bool warm_desc(const struct eng_port_info *port, uint32_t rows, struct eng_desc *out)
{
    *out = port->desc;
    for (uint32_t i = 0; port->has_shape && i < out->rank; i++) {
        if (out->dims[i] < 0 && i > 0) {
            return false;
        }
        out->dims[i] = out->dims[i] < 0 ? rows : out->dims[i];
    }
    return port->has_shape;
}

// Plans the session for so many rows, where the file says what else there is; it waits for the
// first call. It is used up.
static enum base_status warm(struct gw_infer_version *version, struct gw_infer_session *session,
                             uint32_t rows, struct base_error *error)
{
    size_t count = eng_model_input_count(version->engine);
    enum base_status status = BASE_OK;
    bool known = true;
    for (size_t i = 0; status == BASE_OK && known && i < count; i++) {
        struct eng_desc desc;
        known = warm_desc(eng_model_input(version->engine, i), rows, &desc);
        if (known) {
            session->shape = gw_infer_shape_of(version, &desc, session->shape);
            status = eng_session_resize(session->engine, i, &desc, error);
        }
    }
    if (status == BASE_OK && known) {
        status = eng_session_prepare(session->engine, error);
    }
    if (status != BASE_OK || !known) {
        eng_session_free(session->engine);
        free(session);
        return status;
    }
    session->rows = version->by_rows && rows <= version->rules.rows_max ? rows : 0;
    gw_infer_idle_put(version, session);
    version->session_count++;
    return BASE_OK;
}

// A model may refuse the zeros it is planned with: that is no reason not to serve it. One without
// sessions cannot be served.
static enum base_status plan_all(const struct gw_infer_service *service,
                                 struct gw_infer_version *version,
                                 const struct gw_infer_settings *settings, struct base_error *error)
{
    uint32_t count = settings->warm_count > 0 ? settings->warm_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        struct base_error why = {0};
        uint32_t rows = settings->warm_count > 0 ? settings->warm_rows[i] : 1;
        bool fits = version->by_rows && rows <= version->rules.rows_max;
        uint32_t planned = fits ? gw_infer_plan_rows(rows, version->rules.rows_max) : rows;
        struct gw_infer_session *session = NULL;
        BASE_TRY(gw_infer_session_new(service, version, &session, error));
        if (warm(version, session, planned, &why) != BASE_OK) {
            base_log_warn(service->log, "infer", "%s/%s: not planned ahead: %s", version->name,
                          version->text, why.text);
        }
    }
    return BASE_OK;
}

// ---- The call of its folder

// The call's input, with its last row again up to the planned number.
static enum base_status set_input(struct gw_infer_session *session, size_t index,
                                  const struct gw_infer_tensor *tensor, struct base_error *error)
{
    struct eng_desc desc = tensor->desc;
    struct eng_array array;
    if (session->rows > 0) {
        desc.dims[0] = session->rows;
    }
    BASE_TRY(eng_session_resize(session->engine, index, &desc, error));
    BASE_TRY(eng_session_input(session->engine, index, &array, error));
    size_t size = eng_desc_bytes(&array.desc);
    size_t row = session->rows > 0 ? size / session->rows : size;
    base_check(tensor->bytes <= size);
    if (tensor->bytes > 0) {
        memcpy(array.data, tensor->data, tensor->bytes);
    }
    for (size_t at = tensor->bytes; at < size; at += row) {
        memcpy((uint8_t *)array.data + at, (uint8_t *)array.data + at - row, row);
    }
    return BASE_OK;
}

static enum base_status run_call(const struct gw_infer_version *version,
                                 const struct gw_infer_ticket *ticket,
                                 struct gw_infer_session *session, struct base_error *error)
{
    const struct eng_run_options limits = {.deadline_us =
                                               base_clock_mono_us() + GW_INFER_WARM_US_MAX};
    uint32_t rows = ticket->wait.rows;
    bool together = version->by_rows && rows > 0 && rows <= version->rules.rows_max;
    session->shape = ticket->wait.shape;
    session->rows = together ? gw_infer_plan_rows(rows, version->rules.rows_max) : 0;
    for (size_t i = 0; i < eng_model_input_count(version->engine); i++) {
        BASE_TRY(set_input(session, i, ticket->inputs[i], error));
    }
    enum base_status status = eng_session_run(session->engine, &limits, error);
    return status == BASE_ERR_TIMEOUT ? base_error_set(error, status, "it takes too long") : status;
}

static enum base_status run_text(const struct gw_infer_service *service,
                                 struct gw_infer_version *version, struct base_arena *arena,
                                 struct base_str text, struct base_error *error)
{
    struct gw_infer_call call = {0};
    struct gw_infer_session *session = NULL;
    struct gw_infer_ticket ticket = {.call = &call, .arena = arena};
    BASE_TRY(service->read_call(arena, text, 0, &call, error));
    if (gw_infer_check(version, &ticket) != BASE_OK) {
        return base_error_set(error, ticket.error.status, "%s", ticket.error.text);
    }
    BASE_TRY(gw_infer_session_new(service, version, &session, error));
    enum base_status status = run_call(version, &ticket, session, error);
    if (status != BASE_OK) {
        eng_session_free(session->engine);
        free(session);
        return status;
    }
    gw_infer_idle_put(version, session);
    version->session_count++;
    return BASE_OK;
}

static enum base_status run_file(const struct gw_infer_service *service,
                                 const struct gw_infer_source *source,
                                 struct gw_infer_version *version, struct base_error *error)
{
    struct base_arena arena;
    struct base_str text;
    struct base_error why = {0};
    const char *place = ""; // what cannot be read says itself which file it is
    base_arena_init(&arena, base_alloc_heap(), ARENA_CHUNK_BYTES, GW_INFER_ARENA_MAX);
    enum base_status status = gw_infer_repository_warmup(service->dir, source, &arena, &text, &why);
    if (status == BASE_OK) {
        place = GW_INFER_WARMUP_FILE ": ";
        status = run_text(service, version, &arena, text, &why);
    } else if (status == BASE_ERR_NOT_FOUND) {
        status = BASE_OK; // none is there
    }
    base_arena_done(&arena);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s%s", place,
                                why.text[0] != '\0' ? why.text : base_status_text(status));
}

enum base_status gw_infer_warm(const struct gw_infer_service *service,
                               const struct gw_infer_source *source,
                               struct gw_infer_version *version, struct base_error *error)
{
    BASE_TRY(plan_all(service, version, &source->found->settings, error));
    bool may_have = source->shelf == NULL && service->read_call != NULL;
    return may_have ? run_file(service, source, version, error) : BASE_OK;
}
