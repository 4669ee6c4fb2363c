// A model of one operator, run through the public interface: inputs given at run time or as
// constants of the file, outputs as arrays.
#ifndef OP_CASE_H
#define OP_CASE_H

#include "test_kit.h"

#include "engine/engine.h"
#include "onnx_bytes.h"

#define OP_PORTS 16u

struct op_input {
    bool absent, constant;
    struct eng_desc desc;
    void *data; // the rig's copy
};

struct op_rig {
    const char *op;
    int64_t opset;
    struct base_buffer attrs; // what ob_attr_* wrote
    struct op_input inputs[OP_PORTS];
    uint32_t input_count;
    struct eng_session_options options;
    struct base_buffer bytes;
    struct eng_model *model;
    struct eng_session *session;
    struct base_error error;
};

static inline void op_begin(struct op_rig *rig, const char *op, int64_t opset)
{
    *rig = (struct op_rig){.op = op, .opset = opset, .attrs = ob_new(), .bytes = ob_new()};
}

static inline void op_done(struct op_rig *rig)
{
    eng_session_free(rig->session);
    eng_model_unref(rig->model);
    base_buffer_done(&rig->attrs);
    base_buffer_done(&rig->bytes);
    for (uint32_t i = 0; i < rig->input_count; i++) {
        free(rig->inputs[i].data);
    }
}

static inline struct eng_desc op_desc(enum eng_dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct eng_desc desc = {.dtype = dtype, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        desc.dims[d] = dims[d];
    }
    return desc;
}

// `data` is copied. `constant`: an initializer of the model.
static inline void op_input(struct op_rig *rig, const struct eng_desc *desc, const void *data,
                            bool constant)
{
    assert_true(rig->input_count < OP_PORTS);
    rig->inputs[rig->input_count++] = (struct op_input){
        .constant = constant, .desc = *desc, .data = test_exact(data, eng_desc_bytes(desc))};
}

static inline void op_ints(struct op_rig *rig, const int64_t *values, int64_t count, bool constant)
{
    const struct eng_desc desc = op_desc(ENG_I64, 1, &count);
    op_input(rig, &desc, values, constant);
}

static inline void op_scalar(struct op_rig *rig, enum eng_dtype dtype, const void *value,
                             bool constant)
{
    const struct eng_desc desc = {.dtype = dtype};
    op_input(rig, &desc, value, constant);
}

static inline void op_absent(struct op_rig *rig)
{
    assert_true(rig->input_count < OP_PORTS);
    rig->inputs[rig->input_count++] = (struct op_input){.absent = true};
}

static inline void op_attr_ints(struct op_rig *rig, const char *name, const int64_t *values,
                                uint32_t count)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    for (uint32_t i = 0; i < count; i++) {
        ob_number(&attr, OB_ATTR_INTS, values[i]);
    }
    ob_number(&attr, OB_ATTR_TYPE, 7);
    ob_take(&rig->attrs, OB_NODE_ATTR, attr);
}

static inline void op_attr_floats(struct op_rig *rig, const char *name, const float *values,
                                  uint32_t count)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    for (uint32_t i = 0; i < count; i++) {
        ob_float(&attr, 7, values[i]);
    }
    ob_number(&attr, OB_ATTR_TYPE, 6);
    ob_take(&rig->attrs, OB_NODE_ATTR, attr);
}

static inline void op_attr_text(struct op_rig *rig, const char *name, const char *text)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    ob_text(&attr, OB_ATTR_S, text);
    ob_number(&attr, OB_ATTR_TYPE, 3);
    ob_take(&rig->attrs, OB_NODE_ATTR, attr);
}

// A graph output without a declared type.
static inline void ob_output(struct base_buffer *graph, const char *name)
{
    struct base_buffer value = ob_new();
    ob_text(&value, 1, name);
    ob_take(graph, OB_GRAPH_OUTPUT, value);
}

// Loads rig->bytes as a model and runs it with the inputs that are not constants, in order.
static inline enum base_status op_run_model(struct op_rig *rig)
{
    enum base_status status =
        eng_model_load_memory(rig->bytes.data, rig->bytes.size, NULL, &rig->model, &rig->error);
    if (status == BASE_OK) {
        status = eng_session_new(rig->model, &rig->options, &rig->session, &rig->error);
    }
    size_t index = 0;
    for (uint32_t i = 0; i < rig->input_count && status == BASE_OK; i++) {
        if (rig->inputs[i].absent || rig->inputs[i].constant) {
            continue;
        }
        const struct eng_array array = {.desc = rig->inputs[i].desc, .data = rig->inputs[i].data};
        status = eng_session_set_input(rig->session, index++, &array, &rig->error);
    }
    return status == BASE_OK ? eng_session_run(rig->session, NULL, &rig->error) : status;
}

static inline enum base_status op_run(struct op_rig *rig, uint32_t output_count)
{
    struct base_buffer graph = ob_new();
    char inputs[128] = "";
    char outputs[64] = "";
    for (uint32_t i = 0; i < rig->input_count; i++) {
        const struct op_input *in = &rig->inputs[i];
        char name[16] = "";
        if (!in->absent) {
            (void)snprintf(name, sizeof(name), "i%u", i);
        }
        size_t used = strlen(inputs);
        (void)snprintf(inputs + used, sizeof(inputs) - used, "%s%s", name,
                       i + 1 < rig->input_count ? "," : "");
        if (in->absent) {
            continue;
        }
        if (in->constant) {
            ob_take(&graph, OB_GRAPH_INITIALIZER,
                    ob_raw_tensor(name, in->desc.dtype, in->desc.rank, in->desc.dims, in->data,
                                  eng_desc_bytes(&in->desc)));
        } else {
            ob_take(&graph, OB_GRAPH_INPUT,
                    ob_value(name, in->desc.dtype, in->desc.rank, in->desc.dims));
        }
    }
    for (uint32_t i = 0; i < output_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "o%u", i);
        size_t used = strlen(outputs);
        (void)snprintf(outputs + used, sizeof(outputs) - used, "%s%s", i > 0 ? "," : "", name);
        ob_output(&graph, name);
    }
    struct base_buffer node = ob_node(rig->op, "n", inputs, outputs);
    ob_add(&node, rig->attrs.data, rig->attrs.size);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_text(&graph, OB_GRAPH_NAME, "g");
    base_buffer_done(&rig->bytes);
    rig->bytes = ob_model(8, rig->opset, graph);
    return op_run_model(rig);
}

// Runs and expects success; prints the error otherwise.
static inline void op_run_ok(struct op_rig *rig, uint32_t output_count)
{
    enum base_status status = op_run(rig, output_count);
    if (status != BASE_OK) {
        fail_msg("%s (opset %lld): %s", rig->op, (long long)rig->opset, rig->error.text);
    }
}

static inline struct eng_array op_output(struct op_rig *rig, size_t index)
{
    struct eng_array array;
    if (eng_session_output(rig->session, index, &array, &rig->error) != BASE_OK) {
        fail_msg("%s: output: %s", rig->op, rig->error.text);
    }
    return array;
}

static inline void op_expect_shape(const struct op_rig *rig, const struct eng_desc *got,
                                   const struct eng_desc *wanted)
{
    if (!eng_desc_equal(got, wanted)) {
        char a[96];
        char b[96];
        fail_msg("%s (opset %lld): %s, expected %s", rig->op, (long long)rig->opset,
                 eng_desc_text(got, a, sizeof(a)), eng_desc_text(wanted, b, sizeof(b)));
    }
}

static inline void op_expect_floats(struct op_rig *rig, size_t index, const struct eng_desc *desc,
                                    const float *wanted)
{
    struct eng_array out = op_output(rig, index);
    op_expect_shape(rig, &out.desc, desc);
    for (int64_t i = 0; i < eng_desc_count(desc); i++) {
        float got = ((const float *)out.data)[i];
        float gap = got > wanted[i] ? got - wanted[i] : wanted[i] - got;
        float most = 1e-5F * (wanted[i] < 0 ? 1 - wanted[i] : 1 + wanted[i]);
        if (!(gap <= most)) {
            fail_msg("%s (opset %lld): element %lld is %g, expected %g", rig->op,
                     (long long)rig->opset, (long long)i, (double)got, (double)wanted[i]);
        }
    }
}

static inline void op_expect_ints(struct op_rig *rig, size_t index, const struct eng_desc *desc,
                                  const int64_t *wanted)
{
    struct eng_array out = op_output(rig, index);
    op_expect_shape(rig, &out.desc, desc);
    for (int64_t i = 0; i < eng_desc_count(desc); i++) {
        int64_t got = ((const int64_t *)out.data)[i];
        if (got != wanted[i]) {
            fail_msg("%s (opset %lld): element %lld is %lld, expected %lld", rig->op,
                     (long long)rig->opset, (long long)i, (long long)got, (long long)wanted[i]);
        }
    }
}

// Commands that are not rasters, and rasters, of the plan.
static inline uint32_t op_kernels(const struct op_rig *rig)
{
    struct eng_session_stats stats;
    eng_session_stats(rig->session, &stats);
    return stats.command_count - stats.raster_count;
}

static inline uint32_t op_rasters(const struct op_rig *rig)
{
    struct eng_session_stats stats;
    eng_session_stats(rig->session, &stats);
    return stats.raster_count;
}

// --- naive oracles

// Steps a row-major index; false after the last one.
static inline bool op_next(const struct eng_desc *desc, int64_t *at)
{
    for (uint32_t d = desc->rank; d-- > 0;) {
        if (++at[d] < desc->dims[d]) {
            return true;
        }
        at[d] = 0;
    }
    return false;
}

static inline int64_t op_flat(const struct eng_desc *desc, const int64_t *at)
{
    int64_t flat = 0;
    for (uint32_t d = 0; d < desc->rank; d++) {
        flat = flat * desc->dims[d] + at[d];
    }
    return flat;
}

// Random dims 1..most and floats 1, 2, 3...: every element its own number.
static inline void op_random_shape(struct base_prng *prng, uint32_t rank_min, uint32_t rank_max,
                                   int64_t most, struct eng_desc *desc)
{
    *desc = (struct eng_desc){.dtype = ENG_F32};
    desc->rank = rank_min + (uint32_t)base_prng_below(prng, rank_max - rank_min + 1);
    for (uint32_t d = 0; d < desc->rank; d++) {
        desc->dims[d] = 1 + (int64_t)base_prng_below(prng, (uint64_t)most);
    }
}

static inline float *op_numbers(int64_t count)
{
    float *data = malloc((size_t)(count + 1) * sizeof(*data));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i + 1);
    }
    return data;
}
#endif
