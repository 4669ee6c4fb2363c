// A model of one operator, run through the public interface: for the unit tests of the operator
// tables. Inputs are given at run time or are constants of the file; outputs are arrays. There are
// two ways to say which is which:
//
//     struct op_rig rig;                       by order
//     op_begin(&rig, "Clip", 13);
//     op_input(&rig, &desc, data, false);      true: a constant
//     op_run_ok(&rig, 1);                      one output
//     struct eng_array y = op_output(&rig, 0);
//     op_done(&rig);
//
//     struct op_rig *rig = op_named("Clip", "x min", "y");
//     op_attr_float(rig, ...);                 before the first input
//     op_feed(rig, "x", &array);
//     op_constant(rig, "min", &array);
//     op_run_at(rig, 13);                          fails the test when the model is refused
//     op_done(rig);
#ifndef OP_RIG_H
#define OP_RIG_H

#include "test_kit.h"

#include "base/prng.h"
#include "engine/engine.h"
#include "onnx_bytes.h"

#include <math.h>

#define OP_PORTS       16u
#define OP_NAMES_BYTES 256u

struct op_input {
    bool absent, constant;
    const char *name; // NULL: named by its place
    struct eng_desc desc;
    void *data; // the rig's copy
};

struct op_rig {
    const char *op;
    int64_t opset;
    char inputs_named[OP_NAMES_BYTES], outputs_named[OP_NAMES_BYTES]; // parted by blanks
    const char *domain;                                               // NULL: ONNX
    struct base_buffer attrs;                                         // what ob_attr_* wrote
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
                                size_t count)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    for (size_t i = 0; i < count; i++) {
        ob_number(&attr, OB_ATTR_INTS, values[i]);
    }
    ob_number(&attr, OB_ATTR_TYPE, 7);
    ob_take(&rig->attrs, OB_NODE_ATTR, attr);
}

static inline void op_attr_floats(struct op_rig *rig, const char *name, const float *values,
                                  size_t count)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    for (size_t i = 0; i < count; i++) {
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

// Inputs and constants into the graph.
static inline void op_ports(const struct op_rig *rig, struct base_buffer *graph)
{
    for (uint32_t i = 0; i < rig->input_count; i++) {
        const struct op_input *in = &rig->inputs[i];
        char place[16];
        (void)snprintf(place, sizeof(place), "i%u", i);
        const char *name = in->name != NULL ? in->name : place;
        if (in->absent) {
            continue;
        }
        if (in->constant) {
            ob_take(graph, OB_GRAPH_INITIALIZER,
                    ob_raw_tensor(name, in->desc.dtype, in->desc.rank, in->desc.dims, in->data,
                                  eng_desc_bytes(&in->desc)));
        } else {
            ob_take(graph, OB_GRAPH_INPUT,
                    ob_value(name, in->desc.dtype, in->desc.rank, in->desc.dims));
        }
    }
}

// Adds the node and runs the model.
static inline enum base_status op_run_node(struct op_rig *rig, struct base_buffer graph,
                                           const char *inputs, const char *outputs)
{
    struct base_buffer node = ob_node(rig->op, "n", inputs, outputs);
    ob_add(&node, rig->attrs.data, rig->attrs.size);
    if (rig->domain != NULL) {
        ob_text(&node, OB_NODE_DOMAIN, rig->domain);
    }
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_text(&graph, OB_GRAPH_NAME, "g");
    base_buffer_done(&rig->bytes);
    rig->bytes = ob_model(8, rig->opset, graph);
    if (rig->domain != NULL) {
        struct base_buffer import = ob_new();
        ob_text(&import, 1, rig->domain);
        ob_number(&import, 2, 1);
        ob_take(&rig->bytes, OB_MODEL_OPSET, import);
    }
    return op_run_model(rig);
}

static inline enum base_status op_run(struct op_rig *rig, uint32_t output_count)
{
    struct base_buffer graph = ob_new();
    char inputs[128] = "";
    char outputs[64] = "";
    for (uint32_t i = 0; i < rig->input_count; i++) {
        char name[16] = "";
        if (!rig->inputs[i].absent) {
            (void)snprintf(name, sizeof(name), "i%u", i);
        }
        size_t used = strlen(inputs);
        (void)snprintf(inputs + used, sizeof(inputs) - used, "%s%s", name,
                       i + 1 < rig->input_count ? "," : "");
    }
    op_ports(rig, &graph);
    for (uint32_t i = 0; i < output_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "o%u", i);
        size_t used = strlen(outputs);
        (void)snprintf(outputs + used, sizeof(outputs) - used, "%s%s", i > 0 ? "," : "", name);
        ob_output(&graph, name);
    }
    return op_run_node(rig, graph, inputs, outputs);
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

// --- by name ---

static inline struct op_rig *op_named(const char *op, const char *inputs, const char *outputs)
{
    static struct op_rig rig; // of the test that runs
    op_begin(&rig, op, 0);
    (void)snprintf(rig.inputs_named, OP_NAMES_BYTES, "%s", inputs);
    (void)snprintf(rig.outputs_named, OP_NAMES_BYTES, "%s", outputs);
    return &rig;
}

static inline void op_attr_int(struct op_rig *rig, const char *name, int64_t value)
{
    ob_attr_int(&rig->attrs, name, value);
}

static inline void op_attr_float(struct op_rig *rig, const char *name, float value)
{
    ob_attr_float(&rig->attrs, name, value);
}

static inline void op_attr_strings(struct op_rig *rig, const char *name, const char *const *values,
                                   size_t count)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    for (size_t i = 0; i < count; i++) {
        ob_text(&attr, 9, values[i]);
    }
    ob_number(&attr, OB_ATTR_TYPE, 8);
    ob_take(&rig->attrs, OB_NODE_ATTR, attr);
}

// The node belongs to another domain, imported at version 1.
static inline void op_domain(struct op_rig *rig, const char *domain)
{
    rig->domain = domain;
}

static inline void op_feed(struct op_rig *rig, const char *name, const struct eng_array *array)
{
    op_input(rig, &array->desc, array->data, false);
    rig->inputs[rig->input_count - 1].name = name;
}

static inline void op_constant(struct op_rig *rig, const char *name, const struct eng_array *array)
{
    op_input(rig, &array->desc, array->data, true);
    rig->inputs[rig->input_count - 1].name = name;
}

// "x - y" as "x,,y".
static inline void op_list(const char *names, char *out, size_t size)
{
    size_t used = 0;
    for (; *names != '\0'; names++) {
        const bool omitted = *names == '-' && (names[1] == ' ' || names[1] == '\0') &&
                             (used == 0 || out[used - 1] == ',');
        assert_true(used + 1 < size);
        if (!omitted) {
            out[used++] = *names == ' ' ? ',' : *names;
        }
    }
    out[used] = '\0';
}

// Loads, plans and runs; the status of the first step that fails, its text in rig->error.
static inline enum base_status op_try(struct op_rig *rig, int64_t opset)
{
    struct base_buffer graph = ob_new();
    char inputs[OP_NAMES_BYTES], outputs[OP_NAMES_BYTES];
    op_list(rig->inputs_named, inputs, sizeof inputs);
    op_list(rig->outputs_named, outputs, sizeof outputs);
    op_ports(rig, &graph);
    for (const char *name = outputs; *name != '\0';) {
        char one[64];
        const size_t length = strcspn(name, ",");
        (void)snprintf(one, sizeof one, "%.*s", (int)length, name);
        if (length > 0) {
            ob_output(&graph, one);
        }
        name += length;
        name += *name == ',';
    }
    rig->opset = opset;
    return op_run_node(rig, graph, inputs, outputs);
}

static inline void op_run_at(struct op_rig *rig, int64_t opset)
{
    if (op_try(rig, opset) != BASE_OK) {
        fail_msg("%s", rig->error.text);
    }
}

// The operator must be refused with `status` and a text that has `words` in it.
static inline void op_refused(struct op_rig *rig, int64_t opset, enum base_status status,
                              const char *words)
{
    enum base_status got = op_try(rig, opset);
    if (got != status || strstr(rig->error.text, words) == NULL) {
        fail_msg("status %s, text '%s'; expected %s, '%s'", base_status_name(got), rig->error.text,
                 base_status_name(status), words);
    }
    op_done(rig);
}

// --- arrays --------------------------------------------------------------------------------------

#define OP_DIMS(...)                                                                               \
    (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static inline struct eng_array op_array(enum eng_dtype dtype, const void *data, const int64_t *dims,
                                        size_t rank)
{
    struct eng_array array = {.desc = {.dtype = dtype, .rank = (uint32_t)rank},
                              .data = (void *)(uintptr_t)data};
    memcpy(array.desc.dims, dims, rank * sizeof *dims);
    return array;
}
// op_floats(data, 2, 3): float32 [2, 3] over `data`.
#define op_floats(data, ...)    op_array(ENG_F32, data, OP_DIMS(__VA_ARGS__))
#define op_of(dtype, data, ...) op_array(dtype, data, OP_DIMS(__VA_ARGS__))

static inline struct eng_array op_scalar_of(enum eng_dtype dtype, const void *data)
{
    return (struct eng_array){.desc = {.dtype = dtype}, .data = (void *)(uintptr_t)data};
}

// `count` floats in [-1, 1), to be freed.
static inline float *op_random(struct base_prng *prng, int64_t count)
{
    float *data = malloc((size_t)(count > 0 ? count : 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(2.0 * base_prng_unit(prng) - 1.0);
    }
    return data;
}

static inline void op_same_shape(const struct eng_array *got, enum eng_dtype dtype,
                                 const int64_t *dims, size_t rank)
{
    struct eng_desc want = {.dtype = dtype, .rank = (uint32_t)rank};
    char a[96];
    char b[96];
    memcpy(want.dims, dims, rank * sizeof *dims);
    if (!eng_desc_equal(&got->desc, &want)) {
        fail_msg("got %s, expected %s", eng_desc_text(&got->desc, a, sizeof a),
                 eng_desc_text(&want, b, sizeof b));
    }
}

// Compares with doubles: absolute or relative error of `tolerance`.
static inline void op_near(const struct eng_array *got, const double *want, int64_t count,
                           double tolerance)
{
    assert_int_equal(got->desc.dtype, ENG_F32);
    assert_int_equal(eng_desc_count(&got->desc), count);
    for (int64_t i = 0; i < count; i++) {
        double value = (double)((const float *)got->data)[i];
        double limit = tolerance * fmax(1.0, fabs(want[i]));
        if (!(fabs(value - want[i]) <= limit) && !(isnan(value) && isnan(want[i])) &&
            !(isinf(value) && value == want[i])) {
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, value, want[i]);
        }
    }
}

#endif
