// Runs of models on the store's sessions, and the store as the table a script VM is given
// (dev_model_store_port): by the posix port's task worker, task processes, the simulator and `walle
// task run`. A run is on the thread of the VM that asks, which has the session for itself until it
// gives it back.
//
// A session that waits is found by the shapes and types of its inputs, hashed, so that it need not
// plan. dev_model_warm plans one ahead for the shapes a file declares (open dimensions as 1);
// templates do that before they fork (runner/task_runner.c).
#include "model/model_store.h"
#include "model/session_port.h"
#include "model/train_port.h"

#include "base/check.h"

#include <string.h>

#define WARM_INPUTS_MAX 64 // as many as a script may give (DEV_VM_MODEL_PORTS_MAX)

static enum base_status inputs_set(const struct dev_model_call *call, struct eng_session *session,
                                   struct base_error *error)
{
    for (size_t i = 0; i < call->input_count; i++) {
        BASE_TRY(eng_session_set_input(session, i, &call->inputs[i], error));
    }
    return BASE_OK;
}

enum base_status dev_model_result_copy(const struct dev_model_place *place, size_t index,
                                       const struct eng_array *result, struct base_error *error)
{
    void *at = NULL;
    BASE_TRY(place->at(place->ctx, index, &result->desc, &at, error));
    size_t bytes = eng_desc_bytes(&result->desc);
    base_assert(bytes == 0 || at != NULL); // place said where
    if (bytes > 0) {
        memcpy(at, result->data, bytes);
    }
    return BASE_OK;
}

static enum base_status outputs_copy(const struct dev_model_call *call, struct eng_session *session,
                                     struct base_error *error)
{
    for (size_t i = 0; i < call->wanted_count; i++) {
        struct eng_array array;
        BASE_TRY(eng_session_output(session, call->wanted[i], &array, error));
        BASE_TRY(dev_model_result_copy(&call->place, i, &array, error));
    }
    return BASE_OK;
}

enum base_status dev_model_session_run(struct eng_session *session, struct dev_model_call *call,
                                       bool *out_ran, struct base_error *error)
{
    enum base_status status = inputs_set(call, session, error);
    call->work = 0;
    *out_ran = false;
    if (status == BASE_OK) {
        struct eng_session_stats stats;
        status = eng_session_run(session, &call->limits, error);
        *out_ran = status == BASE_OK;
        eng_session_stats(session, &stats);
        call->work = stats.run_work;
    }
    if (status == BASE_OK) {
        status = outputs_copy(call, session, error);
    }
    base_assert(*out_ran || status != BASE_OK); // no output is of another run
    return status;
}

enum base_status dev_model_run(struct dev_model *model, struct dev_model_call *call,
                               struct base_error *error)
{
    struct eng_session *session = NULL;
    struct dev_model_plan plan = {.memory_bytes_max = call->memory_bytes_max,
                                  .values = call->values,
                                  .value_count = call->value_count,
                                  .limits = &call->limits};
    plan.key = dev_model_shapes_key(call->inputs, call->input_count, &plan);
    call->work = 0;
    // A session that waits still has the inputs of the run before: all of them are set anew.
    if (call->input_count != eng_model_input_count(dev_model_engine(model))) {
        return base_error_set(error, BASE_ERR_INVALID, "not all inputs are given");
    }
    BASE_TRY(dev_model_session_take(model, &plan, &session, error));
    bool ran = false;
    enum base_status status = dev_model_session_run(session, call, &ran, error);
    dev_model_session_give(model, session, &plan, ran);
    return status;
}

// --- ahead of a call

// False: an input whose shape or type the file does not say.
static bool shapes_declared(const struct eng_model *engine, struct eng_array *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct eng_port_info *port = eng_model_input(engine, i);
        if (!port->has_shape || eng_dtype_bytes(port->desc.dtype) == 0) {
            return false;
        }
        inputs[i] = (struct eng_array){.desc = port->desc};
        for (uint32_t d = 0; d < port->desc.rank; d++) {
            inputs[i].desc.dims[d] = port->desc.dims[d] < 0 ? 1 : port->desc.dims[d];
        }
    }
    return true;
}

enum base_status dev_model_session_plan(struct eng_session *session, const struct eng_array *inputs,
                                        size_t count, const struct eng_run_options *limits,
                                        struct base_error *error)
{
    for (size_t i = 0; i < count; i++) {
        BASE_TRY(eng_session_resize(session, i, &inputs[i].desc, error));
    }
    return eng_session_prepare_within(session, limits, error);
}

void dev_model_warm(struct dev_model *model, size_t memory_bytes_max)
{
    struct eng_array inputs[WARM_INPUTS_MAX];
    struct base_error error = {0};
    struct eng_session *session = NULL;
    const size_t count = eng_model_input_count(dev_model_engine(model));
    if (count > WARM_INPUTS_MAX || !shapes_declared(dev_model_engine(model), inputs, count)) {
        return;
    }
    struct dev_model_plan plan = {.memory_bytes_max = memory_bytes_max};
    plan.key = dev_model_shapes_key(inputs, count, &plan);
    if (dev_model_session_take(model, &plan, &session, &error) != BASE_OK) {
        return;
    }
    bool planned = dev_model_session_plan(session, inputs, count, NULL, &error) == BASE_OK;
    dev_model_session_give(model, session, &plan, planned);
}

// --- the table

static enum base_status port_get(void *ctx, const struct dev_model_file *file,
                                 struct dev_model **out_model, struct base_error *error)
{
    return dev_model_store_get(ctx, file, out_model, error);
}

static size_t port_count(const struct dev_model *model, bool is_input)
{
    const struct eng_model *engine = dev_model_engine(model);
    return is_input ? eng_model_input_count(engine) : eng_model_output_count(engine);
}

static const struct eng_port_info *port_info(const struct dev_model *model, bool is_input,
                                             size_t index)
{
    const struct eng_model *engine = dev_model_engine(model);
    return is_input ? eng_model_input(engine, index) : eng_model_output(engine, index);
}

struct dev_model_port dev_model_store_port(struct dev_model_store *store)
{
    return (struct dev_model_port){
        .ctx = store,
        .train = &dev_model_train_port,
        .sessions = &dev_model_session_port,
        .get = port_get,
        .unref = dev_model_unref,
        .port_count = port_count,
        .port = port_info,
        .call = dev_model_run,
    };
}
