// Sessions of fixed shapes on the store's models, as the table a script VM is given
// (model/session_port.h): one of the store's sessions, taken for as long as the caller has it, made
// to plan in one piece or not at all. On the thread of the VM that asks.
#include "model/session_port.h"

#include "model/model_store.h"

#include "base/check.h"

#include <stdlib.h>

struct dev_session {
    struct dev_model *model;
    struct eng_session *engine;
    struct dev_model_plan plan;
    bool good; // planned, and the last run ended well: the next owner may have it
    size_t bytes;
    size_t input_count;
    struct eng_array inputs[]; // types and shapes; no data
};

static void session_close(struct dev_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->engine != NULL) {
        dev_model_session_give(session->model, session->engine, &session->plan, session->good);
    }
    free(session);
}

// Plans it, and looks how much that takes.
static enum base_status plan(struct dev_session *session, const struct eng_run_options *limits,
                             struct base_error *error)
{
    struct eng_session_stats stats;
    BASE_TRY(dev_model_session_plan(session->engine, session->inputs, session->input_count, limits,
                                    error));
    eng_session_stats(session->engine, &stats);
    base_assert(stats.segment_count == 1 && !stats.by_contents); // one piece
    session->bytes =
        stats.arena_bytes + stats.plan_bytes + (session->plan.apart ? stats.packed_bytes : 0);
    if (session->bytes > session->plan.memory_bytes_max) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "a session of %zu bytes, and %zu are left to the run", session->bytes,
                              session->plan.memory_bytes_max);
    }
    session->good = true;
    return BASE_OK;
}

static enum base_status session_open(struct dev_model *model,
                                     const struct dev_session_shapes *shapes,
                                     struct dev_session **out_session, struct base_error *error)
{
    base_assert(shapes->memory_bytes_max > 0);
    struct dev_session *session =
        calloc(1, sizeof(*session) + shapes->input_count * sizeof(session->inputs[0]));
    if (session == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    session->model = model;
    session->input_count = shapes->input_count;
    for (size_t i = 0; i < shapes->input_count; i++) {
        session->inputs[i].desc = shapes->inputs[i];
    }
    session->plan = (struct dev_model_plan){
        .memory_bytes_max = shapes->memory_bytes_max,
        .values = shapes->values,
        .value_count = shapes->value_count,
        .one_piece = true,
        .limits = &shapes->limits,
    };
    session->plan.key = dev_model_shapes_key(session->inputs, session->input_count, &session->plan);
    enum base_status status =
        dev_model_session_take(model, &session->plan, &session->engine, error);
    session->plan.values = NULL; // the caller's
    session->plan.limits = NULL; // "
    if (status == BASE_OK) {
        status = plan(session, &shapes->limits, error);
    }
    if (status != BASE_OK) {
        session_close(session);
        return status;
    }
    *out_session = session;
    return BASE_OK;
}

static enum base_status session_call(struct dev_session *session, struct dev_model_call *call,
                                     struct base_error *error)
{
    char texts[2][96];
    base_assert(call->input_count == session->input_count);
    call->work = 0;
    for (size_t i = 0; i < call->input_count; i++) {
        const struct eng_desc *got = &call->inputs[i].desc;
        const struct eng_desc *want = &session->inputs[i].desc;
        if (!eng_desc_equal(got, want)) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "input '%.40s' of the session is %s, not %s",
                                  eng_model_input(dev_model_engine(session->model), i)->name,
                                  eng_desc_text(want, texts[0], sizeof(texts[0])),
                                  eng_desc_text(got, texts[1], sizeof(texts[1])));
        }
    }
    return dev_model_session_run(session->engine, call, &session->good, error);
}

static const struct eng_desc *session_input(const struct dev_session *session, size_t index)
{
    return index < session->input_count ? &session->inputs[index].desc : NULL;
}

static enum base_status session_output(const struct dev_session *session, size_t index,
                                       struct eng_desc *out_desc, struct base_error *error)
{
    return eng_session_output_desc(session->engine, index, out_desc, error);
}

static size_t session_bytes(const struct dev_session *session)
{
    return session->bytes;
}

const struct dev_session_port dev_model_session_port = {
    .open = session_open,
    .close = session_close,
    .call = session_call,
    .input = session_input,
    .output = session_output,
    .bytes = session_bytes,
};
