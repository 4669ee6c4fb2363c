// What goes into a session and comes out: input buffers, sequences, outputs, any value by name.
//
// Called by users of engine.h on the session's thread. Inputs are copies of what the caller passes,
// strings with their bytes.
#include "base/carve.h"
#include "base/check.h"
#include "base/ckd.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

static const struct eng_value *input_value(const struct eng_session *session, size_t index)
{
    const struct eng_graph *graph = session->model->graph;
    base_assert(index < graph->input_count);
    return &graph->values[graph->inputs[index]];
}

static enum base_status check_index(const struct eng_session *session, size_t index,
                                    struct base_error *error)
{
    if (index >= session->model->graph->input_count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "the model has %u inputs, not %zu",
                              session->model->graph->input_count, index + 1);
    }
    return BASE_OK;
}

// Type, rank and fixed dimensions against what the model declares.
static enum base_status check_desc(const struct eng_value *value, const struct eng_desc *desc,
                                   struct base_error *error)
{
    base_assert(value->desc.rank <= ENG_RANK_MAX);
    int64_t count = 0;
    char have[96];
    char want[96];
    enum base_status status = eng_desc_check(desc, &count);
    if (status != BASE_OK || eng_dtype_bytes(desc->dtype) == 0) {
        return base_error_set(error, status != BASE_OK ? status : BASE_ERR_INVALID,
                              "input '%s': not a tensor's type and shape", value->name);
    }
    bool fits = value->desc.dtype == ENG_UNDEFINED || value->desc.dtype == desc->dtype;
    if (value->has_shape) {
        fits = fits && value->desc.rank == desc->rank;
        for (uint32_t i = 0; fits && i < desc->rank; i++) {
            fits = value->desc.dims[i] < 0 || value->desc.dims[i] == desc->dims[i];
        }
    }
    if (!fits) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%s' is %s, not %s", value->name,
                              eng_desc_text(&value->desc, want, sizeof want),
                              eng_desc_text(desc, have, sizeof have));
    }
    return BASE_OK;
}

static enum base_status check_tensor(const struct eng_session *session, size_t index,
                                     const struct eng_desc *desc, struct base_error *error)
{
    BASE_TRY(check_index(session, index, error));
    const struct eng_value *value = input_value(session, index);
    if (value->type == ENG_VALUE_SEQUENCE) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%s' is a sequence", value->name);
    }
    return check_desc(value, desc, error);
}

static void *aligned(size_t bytes)
{
    size_t rounded = 0;
    if (!base_ckd_add(bytes, ALIGNMENT, &rounded)) {
        return NULL;
    }
    return aligned_alloc(ALIGNMENT, rounded / ALIGNMENT * ALIGNMENT);
}

// Gives input `index` a shape and memory for it. Keeps the plan when the shape is what it was.
static enum base_status shape_input(struct eng_session *session, size_t index,
                                    const struct eng_desc *desc, struct base_error *error)
{
    BASE_TRY(check_tensor(session, index, desc, error));
    struct eng_input *input = &session->inputs[index];
    if (input->live.type == ENG_VALUE_TENSOR && eng_desc_equal(&input->one.desc, desc)) {
        return BASE_OK;
    }
    size_t bytes = eng_desc_bytes(desc);
    if (input->one.data == NULL || bytes > input->capacity_bytes ||
        bytes < input->capacity_bytes / 4) {
        void *fresh = aligned(bytes);
        if (fresh == NULL) {
            return BASE_ERR_NOMEM;
        }
        free(input->one.data);
        input->one.data = fresh;
        input->capacity_bytes = bytes;
    }
    base_assert(bytes <= input->capacity_bytes);
    memset(input->one.data, 0, bytes);
    free(input->sequence);
    free(input->text);
    input->sequence = NULL;
    input->text = NULL;
    input->one.desc = *desc;
    input->live = (struct eng_live){.type = ENG_VALUE_TENSOR, .count = 1, .items = &input->one};
    input->has_data = false;
    session->live[session->model->graph->inputs[index]] = input->live;
    eng_session_drop_plan(session);
    return BASE_OK;
}

// Total bytes of the texts of a string array; false when that is absurd.
static bool text_bytes(const struct eng_array *array, size_t *out_bytes)
{
    const struct eng_string *strings = array->data;
    size_t total = *out_bytes;
    int64_t count = eng_desc_count(&array->desc);
    for (int64_t i = 0; i < count; i++) {
        if (!base_ckd_add(total, strings[i].size, &total)) {
            return false;
        }
    }
    *out_bytes = total;
    return true;
}

// Copies elements to `out`; texts of strings go to *text, which moves on.
static void copy_elements(const struct eng_array *array, void *out, char **text)
{
    if (array->desc.dtype != ENG_STRING) {
        size_t bytes = eng_desc_bytes(&array->desc);
        if (bytes > 0) {
            memcpy(out, array->data, bytes);
        }
        return;
    }
    const struct eng_string *from = array->data;
    struct eng_string *to = out;
    int64_t count = eng_desc_count(&array->desc);
    for (int64_t i = 0; i < count; i++) {
        if (from[i].size > 0) {
            memcpy(*text, from[i].at, from[i].size);
        }
        to[i] = (struct eng_string){*text, from[i].size};
        *text += from[i].size;
    }
}

enum base_status eng_session_set_input(struct eng_session *session, size_t index,
                                       const struct eng_array *array, struct base_error *error)
{
    BASE_TRY(shape_input(session, index, &array->desc, error));
    struct eng_input *input = &session->inputs[index];
    char *text = NULL;
    if (array->desc.dtype == ENG_STRING) {
        size_t bytes = 1;
        text = text_bytes(array, &bytes) ? malloc(bytes) : NULL;
        if (text == NULL) {
            return BASE_ERR_NOMEM;
        }
        free(input->text);
        input->text = text;
    }
    copy_elements(array, input->one.data, &text);
    input->has_data = true;
    return BASE_OK;
}

enum base_status eng_session_resize(struct eng_session *session, size_t index,
                                    const struct eng_desc *desc, struct base_error *error)
{
    return shape_input(session, index, desc, error);
}

// Gives an input without a value the shape the model declares, if that is a whole one.
static enum base_status default_shape(struct eng_session *session, size_t index,
                                      struct base_error *error)
{
    const struct eng_value *value = input_value(session, index);
    if (session->inputs[index].live.type != ENG_VALUE_UNKNOWN) {
        return BASE_OK;
    }
    bool is_whole = value->has_shape && value->type == ENG_VALUE_TENSOR;
    for (uint32_t i = 0; is_whole && i < value->desc.rank; i++) {
        is_whole = value->desc.dims[i] >= 0;
    }
    if (!is_whole) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%s' was not set", value->name);
    }
    return shape_input(session, index, &value->desc, error);
}

enum base_status eng_session_input(struct eng_session *session, size_t index,
                                   struct eng_array *out_array, struct base_error *error)
{
    BASE_TRY(check_index(session, index, error));
    BASE_TRY(default_shape(session, index, error));
    struct eng_input *input = &session->inputs[index];
    if (input->live.type != ENG_VALUE_TENSOR) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "input '%s' is not a tensor",
                              input_value(session, index)->name);
    }
    input->has_data = true; // the caller writes it now
    *out_array = (struct eng_array){input->one.desc, input->one.data};
    return BASE_OK;
}

// One block: the items, then each one's elements (aligned), then the texts.
static enum base_status copy_items(const struct eng_array *items, size_t count, void **out_block)
{
    size_t total = 0;
    size_t text_total = 0;
    if (!base_ckd_mul(count + 1, sizeof(struct eng_item), &total)) {
        return BASE_ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!base_ckd_add(total, eng_desc_bytes(&items[i].desc) + 2 * ALIGNMENT, &total) ||
            (items[i].desc.dtype == ENG_STRING && !text_bytes(&items[i], &text_total))) {
            return BASE_ERR_TOO_LARGE;
        }
    }
    if (!base_ckd_add(total, text_total, &total)) {
        return BASE_ERR_TOO_LARGE;
    }
    uint8_t *block = aligned(total);
    if (block == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct eng_item *out = (struct eng_item *)(void *)block;
    size_t at = (count + 1) * sizeof *out;
    char *text = (char *)block + total - text_total;
    for (size_t i = 0; i < count; i++) {
        at = base_aligned(at, ALIGNMENT);
        out[i] = (struct eng_item){.desc = items[i].desc, .data = block + at};
        copy_elements(&items[i], out[i].data, &text);
        at += eng_desc_bytes(&items[i].desc);
    }
    base_assert(at <= total - text_total);      // elements end before the texts begin
    base_assert(text == (char *)block + total); // and those end with the block
    *out_block = block;
    return BASE_OK;
}

enum base_status eng_session_set_sequence(struct eng_session *session, size_t index,
                                          const struct eng_array *items, size_t count,
                                          struct base_error *error)
{
    BASE_TRY(check_index(session, index, error));
    const struct eng_value *value = input_value(session, index);
    bool is_optional = value->type == ENG_VALUE_OPTIONAL;
    if (value->type == ENG_VALUE_TENSOR || count > ENG_ITEMS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%s' %s", value->name,
                              count > ENG_ITEMS_MAX ? "has too many items" : "is a tensor");
    }
    for (size_t i = 0; i < count; i++) {
        int64_t elements = 0;
        BASE_TRY(eng_desc_check(&items[i].desc, &elements));
        if (value->desc.dtype != ENG_UNDEFINED && items[i].desc.dtype != value->desc.dtype) {
            return base_error_set(error, BASE_ERR_INVALID, "input '%s': item %zu is %s, not %s",
                                  value->name, i, eng_dtype_name(items[i].desc.dtype),
                                  eng_dtype_name(value->desc.dtype));
        }
    }
    void *block = NULL;
    BASE_TRY(copy_items(items, count, &block));
    struct eng_input *input = &session->inputs[index];
    free(input->sequence);
    input->sequence = block;
    input->live = (struct eng_live){
        .type = is_optional && count == 0 ? ENG_VALUE_OPTIONAL : ENG_VALUE_SEQUENCE,
        .dtype = count > 0 ? items[0].desc.dtype : value->desc.dtype,
        .count = (uint32_t)count,
        .items = block,
    };
    input->has_data = true;
    base_assert(session->model->graph->inputs[index] < session->model->graph->value_count);
    session->live[session->model->graph->inputs[index]] = input->live;
    session->has_run = false; // plans of other shapes are dropped when they do not fit
    return BASE_OK;
}

enum base_status eng_session_check_inputs(struct eng_session *session, bool is_run,
                                          struct base_error *error)
{
    for (uint32_t i = 0; i < session->model->graph->input_count; i++) {
        if (is_run && !session->inputs[i].has_data) {
            return base_error_set(error, BASE_ERR_INVALID, "input '%s' was not set",
                                  input_value(session, i)->name);
        }
        BASE_TRY(default_shape(session, i, error));
    }
    return BASE_OK;
}

// --- outputs -------------------------------------------------------------------------------------

static const struct eng_live *output_live(const struct eng_session *session, size_t index)
{
    const uint32_t value = eng_session_output_value(session, index);
    return session->has_run && value != ENG_NONE ? &session->live[value] : NULL;
}

size_t eng_session_output_items(const struct eng_session *session, size_t index)
{
    const struct eng_live *live = output_live(session, index);
    return live == NULL ? 0 : live->count;
}

enum base_status eng_session_output_item(struct eng_session *session, size_t index, size_t item,
                                         struct eng_array *out_array, struct base_error *error)
{
    const struct eng_graph *graph = session->model->graph;
    const uint32_t value = eng_session_output_value(session, index);
    if (value == ENG_NONE) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "the model has %u outputs, not %zu",
                              graph->output_count, index + 1);
    }
    const char *name = graph->values[value].name;
    const struct eng_live *live = output_live(session, index);
    if (live == NULL) {
        return base_error_set(error, BASE_ERR_CONFLICT, "output '%s' is not there before a run",
                              name);
    }
    if (item >= live->count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "output '%s' has %u items, not %zu", name,
                              live->count, item + 1);
    }
    *out_array = (struct eng_array){live->items[item].desc, live->items[item].data};
    return BASE_OK;
}

enum base_status eng_session_output(struct eng_session *session, size_t index,
                                    struct eng_array *out_array, struct base_error *error)
{
    const struct eng_live *live = output_live(session, index);
    if (live != NULL && live->type != ENG_VALUE_TENSOR) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "output %zu is %s, not a tensor", index,
                              live->type == ENG_VALUE_SEQUENCE ? "a sequence" : "empty");
    }
    return eng_session_output_item(session, index, 0, out_array, error);
}

enum base_status eng_session_value(struct eng_session *session, const char *name,
                                   struct eng_array *out_array, struct base_error *error)
{
    const struct eng_graph *graph = session->model->graph;
    for (uint32_t v = 0; session->has_run && v < graph->value_count; v++) {
        const struct eng_live *live = &session->live[v];
        base_assert(live->type != ENG_VALUE_TENSOR || live->count == 1);
        if (live->type == ENG_VALUE_TENSOR && strcmp(graph->values[v].name, name) == 0) {
            *out_array = (struct eng_array){live->items[0].desc, live->items[0].data};
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_NOT_FOUND, "no tensor '%s' was computed", name);
}
