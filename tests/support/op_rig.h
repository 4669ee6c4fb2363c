// One operator as a model of one node, run by a session: for the unit tests of the operator tables.
//
//     struct op_rig *rig = op_begin("Clip", "x min", "y");
//     op_attr_float(rig, ...);
//     op_input(rig, "x", &array);         supplied at run time
//     op_constant(rig, "min", &array);    an initializer
//     op_run(rig, 13);                    fails the test when the model is refused
//     struct eng_array y = op_output(rig, 0);
//     op_end(rig);
#ifndef OP_RIG_H
#define OP_RIG_H

#include "onnx_kit.h"

#include "base/prng.h"
#include "engine/engine.h"

#include <math.h>
#include <stdlib.h>

#define OP_INPUTS_MAX 16u

struct op_rig {
    struct onnx_kit *kit;
    struct eng_array inputs[OP_INPUTS_MAX];
    const char *input_names[OP_INPUTS_MAX];
    size_t input_count;
    const char *outputs; // names parted by blanks
    const char *domain;  // NULL: ONNX
    struct eng_model *model;
    struct eng_session *session;
    struct base_error error;
    uint8_t bytes[ONNX_KIT_BYTES];
};

static inline struct op_rig *op_begin(const char *op, const char *inputs, const char *outputs)
{
    static struct op_rig rig;
    memset(&rig, 0, sizeof rig);
    rig.kit = onnx_begin();
    rig.outputs = outputs;
    onnx_node(rig.kit, op, inputs, outputs);
    return &rig;
}

// Attributes of the node: all of them before the first input or constant.
static inline void op_attr_int(struct op_rig *rig, const char *name, int64_t value)
{
    onnx_attr_int(rig->kit, name, value);
}

static inline void op_attr_ints(struct op_rig *rig, const char *name, const int64_t *values,
                                size_t count)
{
    onnx_attr_ints(rig->kit, name, values, count);
}

// The node belongs to another domain, imported at version 1.
static inline void op_domain(struct op_rig *rig, const char *domain)
{
    rig->domain = domain;
    onnx_text(&rig->kit->node, 7, domain);
}

static inline void op_fixed32(struct onnx_part *part, uint32_t field, float value)
{
    onnx_varint(part, (uint64_t)field << 3 | 5);
    assert_true(part->size + sizeof value <= ONNX_KIT_BYTES);
    memcpy(part->bytes + part->size, &value, sizeof value);
    part->size += sizeof value;
}

static inline void op_attr_float(struct op_rig *rig, const char *name, float value)
{
    struct onnx_part *part = &rig->kit->scratch;
    part->size = 0;
    onnx_text(part, 1, name);
    op_fixed32(part, 2, value);
    onnx_int(part, 20, 1);
    onnx_sub(&rig->kit->node, 5, part);
}

static inline void op_attr_floats(struct op_rig *rig, const char *name, const float *values,
                                  size_t count)
{
    struct onnx_part *part = &rig->kit->scratch;
    part->size = 0;
    onnx_text(part, 1, name);
    for (size_t i = 0; i < count; i++) {
        op_fixed32(part, 7, values[i]);
    }
    onnx_int(part, 20, 6);
    onnx_sub(&rig->kit->node, 5, part);
}

static inline void op_attr_string(struct op_rig *rig, const char *name, const char *value)
{
    struct onnx_part *part = &rig->kit->scratch;
    part->size = 0;
    onnx_text(part, 1, name);
    onnx_text(part, 4, value);
    onnx_int(part, 20, 3);
    onnx_sub(&rig->kit->node, 5, part);
}

static inline void op_attr_strings(struct op_rig *rig, const char *name, const char *const *values,
                                   size_t count)
{
    struct onnx_part *part = &rig->kit->scratch;
    part->size = 0;
    onnx_text(part, 1, name);
    for (size_t i = 0; i < count; i++) {
        onnx_text(part, 9, values[i]);
    }
    onnx_int(part, 20, 8);
    onnx_sub(&rig->kit->node, 5, part);
}

static inline void op_input(struct op_rig *rig, const char *name, const struct eng_array *array)
{
    assert_true(rig->input_count < OP_INPUTS_MAX);
    rig->inputs[rig->input_count] = *array;
    rig->input_names[rig->input_count++] = name;
    onnx_port(rig->kit, 11, name, array->desc.dtype, array->desc.dims, array->desc.rank);
}

static inline void op_constant(struct op_rig *rig, const char *name, const struct eng_array *array)
{
    onnx_initializer(rig->kit, name, array->desc.dtype, array->desc.dims, array->desc.rank,
                     array->data, eng_desc_bytes(&array->desc));
}

// Loads, plans and runs; the status of the first step that fails, its text in rig->error.
static inline enum base_status op_try(struct op_rig *rig, int64_t opset)
{
    // Outputs declare a name and nothing else.
    onnx_flush(rig->kit);
    for (const char *name = rig->outputs; *name != '\0';) {
        static struct onnx_part port;
        size_t length = strcspn(name, " ");
        port.size = 0;
        onnx_bytes(&port, 1, name, length);
        if (!(length == 1 && name[0] == '-')) {
            onnx_sub(&rig->kit->graph, 12, &port);
        }
        name += length;
        name += *name == ' ';
    }
    const struct onnx_part *part = onnx_finish(rig->kit, opset);
    if (rig->domain != NULL) {
        rig->kit->scratch.size = 0;
        onnx_text(&rig->kit->scratch, 1, rig->domain);
        onnx_int(&rig->kit->scratch, 2, 1);
        onnx_sub(&rig->kit->model, 8, &rig->kit->scratch);
    }
    memcpy(rig->bytes, part->bytes, part->size);
    BASE_TRY(eng_model_load_memory(rig->bytes, part->size, NULL, &rig->model, &rig->error));
    BASE_TRY(eng_session_new(rig->model, NULL, &rig->session, &rig->error));
    for (size_t i = 0; i < rig->input_count; i++) {
        int64_t index = eng_model_input_index(rig->model, rig->input_names[i]);
        assert_true(index >= 0);
        BASE_TRY(eng_session_set_input(rig->session, (size_t)index, &rig->inputs[i], &rig->error));
    }
    return eng_session_run(rig->session, NULL, &rig->error);
}

static inline void op_run(struct op_rig *rig, int64_t opset)
{
    if (op_try(rig, opset) != BASE_OK) {
        fail_msg("%s", rig->error.text);
    }
}

static inline struct eng_array op_output(struct op_rig *rig, size_t index)
{
    struct eng_array array = {0};
    if (eng_session_output(rig->session, index, &array, &rig->error) != BASE_OK) {
        fail_msg("%s", rig->error.text);
    }
    return array;
}

static inline void op_end(struct op_rig *rig)
{
    eng_session_free(rig->session);
    eng_model_unref(rig->model);
    rig->session = NULL;
    rig->model = NULL;
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
    op_end(rig);
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

static inline struct eng_array op_scalar(enum eng_dtype dtype, const void *data)
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
