// Compares a call with what its model takes, before the call waits: a wrong one is refused at once,
// and calls that are put together cannot spoil each other by their shapes. infer_service.c calls,
// on the caller's thread and without the lock; nothing here has state.
#include "infer/infer_private.h"

#include "infer/dtype/oip_dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DESC_TEXT_MAX 64u

uint64_t gw_infer_shape_of(const struct gw_infer_version *version, const struct eng_desc *desc,
                           uint64_t before)
{
    uint64_t words[3 + ENG_RANK_MAX] = {before, desc->dtype, desc->rank};
    size_t count = 3;
    for (uint32_t i = version->by_rows ? 1 : 0; i < desc->rank; i++) {
        words[count++] = (uint64_t)desc->dims[i];
    }
    return base_keyed64(&version->hash_key, words, count * sizeof(words[0]));
}

static bool named(struct base_str name, const char *port)
{
    return base_str_equal(name, base_str_of(port));
}

static int64_t input_index(const struct eng_model *model, struct base_str name)
{
    size_t count = eng_model_input_count(model);
    for (size_t i = 0; i < count; i++) {
        if (named(name, eng_model_input(model, i)->name)) {
            return (int64_t)i;
        }
    }
    return -1;
}

static int64_t output_index(const struct eng_model *model, struct base_str name)
{
    size_t count = eng_model_output_count(model);
    for (size_t i = 0; i < count; i++) {
        if (named(name, eng_model_output(model, i)->name)) {
            return (int64_t)i;
        }
    }
    return -1;
}

// As callers know it: the protocol's name of the type, and the shape unless `bare`.
static const char *desc_text(const struct eng_desc *desc, bool bare, char out[DESC_TEXT_MAX])
{
    char text[DESC_TEXT_MAX];
    struct base_str type = gw_oip_dtype_name(desc->dtype);
    const char *shape = strchr(eng_desc_text(desc, text, sizeof(text)), '[');
    if (type.size == 0) { // the protocol has none
        type = base_str_of(eng_dtype_name(desc->dtype));
    }
    (void)snprintf(out, DESC_TEXT_MAX, "%.*s%s", (int)type.size, type.data,
                   shape != NULL && !bare ? shape : "");
    return out;
}

static enum base_status check_input(const struct eng_port_info *port,
                                    const struct gw_infer_tensor *tensor, struct base_error *error)
{
    char given[DESC_TEXT_MAX];
    char wanted[DESC_TEXT_MAX];
    bool same = port->desc.dtype == tensor->desc.dtype;
    bool fits = same && (!port->has_shape || port->desc.rank == tensor->desc.rank);
    for (uint32_t i = 0; port->has_shape && fits && i < port->desc.rank; i++) {
        fits = port->desc.dims[i] < 0 || port->desc.dims[i] == tensor->desc.dims[i];
    }
    if (!fits) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%.40s': is %s, the model takes %s",
                              port->name, desc_text(&tensor->desc, !same, given),
                              desc_text(&port->desc, !same, wanted));
    }
    return BASE_OK;
}

static enum base_status take_inputs(const struct eng_model *model, struct gw_infer_ticket *ticket)
{
    const struct gw_infer_call *call = ticket->call;
    size_t count = eng_model_input_count(model);
    for (size_t i = 0; i < call->input_count; i++) {
        const struct gw_infer_tensor *tensor = &call->inputs[i];
        int64_t at = input_index(model, tensor->name);
        if (at < 0) {
            return base_error_set(
                &ticket->error, BASE_ERR_INVALID, "input '%.*s': the model has none of this name",
                tensor->name.size < 60 ? (int)tensor->name.size : 60, tensor->name.data);
        }
        if (ticket->inputs[at] != NULL) {
            return base_error_set(&ticket->error, BASE_ERR_INVALID, "input '%.60s': is given twice",
                                  eng_model_input(model, (size_t)at)->name);
        }
        BASE_TRY(check_input(eng_model_input(model, (size_t)at), tensor, &ticket->error));
        ticket->inputs[at] = tensor;
    }
    for (size_t i = 0; i < count; i++) {
        if (ticket->inputs[i] == NULL) {
            return base_error_set(&ticket->error, BASE_ERR_INVALID, "input '%.60s': is missing",
                                  eng_model_input(model, i)->name);
        }
    }
    return BASE_OK;
}

static enum base_status take_outputs(const struct eng_model *model, struct gw_infer_ticket *ticket)
{
    const struct gw_infer_call *call = ticket->call;
    size_t count = eng_model_output_count(model);
    ticket->output_count = call->wish_count > 0 ? call->wish_count : count;
    for (size_t i = 0; i < ticket->output_count; i++) {
        int64_t at = call->wish_count > 0 ? output_index(model, call->wishes[i].name) : (int64_t)i;
        if (at < 0) {
            struct base_str name = call->wishes[i].name;
            return base_error_set(&ticket->error, BASE_ERR_INVALID,
                                  "output '%.*s': the model has none of this name",
                                  name.size < 60 ? (int)name.size : 60, name.data);
        }
        ticket->outputs[i] = (uint8_t)at;
    }
    return BASE_OK;
}

// How many rows it brings: the first dimension of every input.
static enum base_status take_rows(const struct gw_infer_version *version,
                                  struct gw_infer_ticket *ticket)
{
    size_t count = eng_model_input_count(version->engine);
    int64_t rows = ticket->inputs[0]->desc.dims[0];
    for (size_t i = 1; i < count; i++) {
        if (ticket->inputs[i]->desc.dims[0] != rows) {
            return base_error_set(&ticket->error, BASE_ERR_INVALID,
                                  "input '%.60s': has another first dimension than '%.60s'",
                                  eng_model_input(version->engine, i)->name,
                                  eng_model_input(version->engine, 0)->name);
        }
    }
    if (rows > UINT32_MAX) { // of no bytes each
        return base_error_set(&ticket->error, BASE_ERR_TOO_LARGE, "%" PRId64 " rows", rows);
    }
    ticket->wait.rows = (uint32_t)rows;
    return BASE_OK;
}

enum base_status gw_infer_check(const struct gw_infer_version *version,
                                struct gw_infer_ticket *ticket)
{
    const struct gw_infer_call *call = ticket->call;
    size_t count = eng_model_input_count(version->engine);
    uint64_t shape = 0;
    if (call->input_count > GW_INFER_TENSORS_MAX || call->wish_count > GW_INFER_TENSORS_MAX ||
        call->priority >= GW_INFER_PRIORITIES) {
        return base_error_set(&ticket->error, BASE_ERR_INVALID,
                              "more than %u tensors, or a priority over %u", GW_INFER_TENSORS_MAX,
                              GW_INFER_PRIORITIES - 1);
    }
    BASE_TRY(take_inputs(version->engine, ticket));
    BASE_TRY(take_outputs(version->engine, ticket));
    ticket->wait.priority = call->priority;
    ticket->wait.rows = 1;
    if (version->by_rows) {
        BASE_TRY(take_rows(version, ticket));
    }
    for (size_t i = 0; i < count; i++) {
        shape = gw_infer_shape_of(version, &ticket->inputs[i]->desc, shape);
    }
    ticket->wait.shape = shape;
    return BASE_OK;
}
