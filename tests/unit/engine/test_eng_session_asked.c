// Values inside of a graph that a session is asked for, plans in one piece, and loads and plans
// that a caller ends. What a value should be comes from the oracle ("ref", nothing fused, all
// kept).
#include "onnx_bytes.h"
#include "onnx_kit.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "session/session.h"

#include <math.h>

static uint8_t file[ONNX_KIT_BYTES];
static size_t file_size;

static struct eng_model *load(struct onnx_kit *kit, bool keep_batch_norm)
{
    const struct onnx_part *part = kit != NULL ? onnx_finish(kit, 13) : NULL;
    struct base_error error = {0};
    struct eng_model *model = NULL;
    const struct eng_model_options options = {.keep_batch_norm = keep_batch_norm};
    if (part != NULL) { // the engine borrows the bytes; the kit's are used again
        memcpy(file, part->bytes, part->size);
        file_size = part->size;
    }
    if (eng_model_load_memory(file, file_size, &options, &model, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return model;
}

static struct eng_session *opened(struct eng_model *model,
                                  const struct eng_session_options *options)
{
    struct base_error error = {0};
    struct eng_session *session = NULL;
    if (eng_session_new(model, options, &session, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return session;
}

static void run(struct eng_session *session, const struct eng_desc *desc)
{
    static float elements[4096];
    struct base_error error = {0};
    struct eng_array array = {*desc, elements};
    assert_in_range(eng_desc_count(desc), 1, TEST_COUNT(elements));
    for (int64_t i = 0; i < eng_desc_count(desc); i++) {
        elements[i] = (float)((i * 7 + 3) % 19) / 8 - 1;
    }
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_OK);
    if (eng_session_run(session, NULL, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static void same(const char *name, const struct eng_array *got, const struct eng_array *want)
{
    char texts[2][96];
    if (!eng_desc_equal(&got->desc, &want->desc)) {
        fail_msg("%s is %s, not %s", name, eng_desc_text(&got->desc, texts[0], sizeof texts[0]),
                 eng_desc_text(&want->desc, texts[1], sizeof texts[1]));
    }
    for (int64_t i = 0; i < eng_desc_count(&got->desc); i++) {
        if (got->desc.dtype == ENG_I64) {
            assert_int_equal(((const int64_t *)got->data)[i], ((const int64_t *)want->data)[i]);
            continue;
        }
        assert_int_equal(got->desc.dtype, ENG_F32);
        float left = ((const float *)got->data)[i];
        float right = ((const float *)want->data)[i];
        if (!(fabsf(left - right) <= 1e-5F * (1 + fabsf(right)))) {
            fail_msg("%s[%lld] is %g, not %g", name, (long long)i, (double)left, (double)right);
        }
    }
}

// Asks for `names` at once and compares these, and what the model gives, with the oracle's.
static void asked_are_right(struct eng_model *model, const struct eng_desc *desc,
                            const char *const *names, uint32_t count)
{
    struct eng_session *oracle = opened(
        model, &(struct eng_session_options){.isa = "ref", .no_fuse = true, .keep_values = true});
    struct eng_session *session = opened(
        model,
        &(struct eng_session_options){.no_search = true, .values = names, .value_count = count});
    const size_t outputs = eng_model_output_count(model);
    struct eng_array got;
    struct eng_array want;
    run(oracle, desc);
    for (int again = 0; again < 2; again++) { // the second time by the plan that is there
        run(session, desc);
        for (size_t i = 0; i < outputs + count; i++) {
            const char *name = i < outputs ? eng_model_output(model, i)->name : names[i - outputs];
            assert_int_equal(eng_session_output(session, i, &got, NULL), BASE_OK);
            assert_int_equal(eng_session_value(oracle, name, &want, NULL), BASE_OK);
            same(name, &got, &want);
        }
        assert_int_equal(eng_session_output(session, outputs + count, &got, NULL),
                         BASE_ERR_NOT_FOUND);
    }
    eng_session_free(session);
    eng_session_free(oracle);
}

// Each alone, and all at once.
static void each_is_right(struct eng_model *model, const struct eng_desc *desc,
                          const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        asked_are_right(model, desc, &names[i], 1);
    }
    asked_are_right(model, desc, names, count);
}

static const int64_t image_dims[] = {1, 4, 6, 6};
static const struct eng_desc image = {ENG_F32, 4, {1, 4, 6, 6}};

// Convolution, normalization, activation and a rest: all of that is fused where nobody looks.
static struct onnx_kit *convolutions(void)
{
    static float weights[8 * 4 * 3 * 3];
    static float row[8];
    struct onnx_kit *kit = onnx_begin();
    for (size_t i = 0; i < TEST_COUNT(weights); i++) {
        weights[i] = (float)(i % 11) / 16 - 0.25F;
    }
    for (size_t i = 0; i < TEST_COUNT(row); i++) {
        row[i] = 0.5F + (float)i / 8;
    }
    onnx_input(kit, "x", ENG_F32, image_dims[0], image_dims[1], image_dims[2], image_dims[3]);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(8, 4, 3, 3), weights, sizeof weights);
    static const char *const rows[] = {"scale", "shift", "mean", "var"};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        onnx_initializer(kit, rows[i], ENG_F32, ONNX_DIMS(8), row, sizeof row);
    }
    onnx_node(kit, "Conv", "x w", "convolved");
    onnx_node(kit, "BatchNormalization", "convolved scale shift mean var", "normal");
    onnx_node(kit, "Relu", "normal", "relu");
    onnx_node(kit, "Sigmoid", "relu", "sigmoid");
    onnx_node(kit, "Mul", "sigmoid relu", "gated");
    onnx_node(kit, "Transpose", "gated", "turned");
    onnx_node(kit, "Neg", "turned", "negative");
    onnx_node(kit, "GlobalAveragePool", "gated", "pooled");
    onnx_node(kit, "Flatten", "pooled", "flat");
    onnx_node(kit, "Softmax", "flat", "y");
    onnx_node(kit, "Tanh", "flat", "unused");
    onnx_output(kit, "y", ENG_F32, 1, 8);
    onnx_output(kit, "negative", ENG_F32, 4, 4, 8, 1);
    return kit;
}

static void what_is_fused_can_be_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"normal", "relu",   "sigmoid", "gated",
                                        "turned", "pooled", "flat"};
    struct eng_model *model = load(convolutions(), false);
    each_is_right(model, &image, names, TEST_COUNT(names));
    eng_model_unref(model);
}

static void inputs_weights_and_outputs_can_be_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "w", "y", "relu", "relu", "x"};
    struct eng_model *model = load(convolutions(), false);
    asked_are_right(model, &image, names, TEST_COUNT(names));
    eng_model_unref(model);
}

// Products with what follows them, and the pieces of an attention and of a normalization.
static void what_products_swallow_can_be_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"s", "scaled", "p", "o", "r", "m", "d", "q", "v", "e", "n"};
    static const float eighth = 0.125F;
    static const float two = 2;
    static const float small = 1e-5F;
    static const int64_t last = -1;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1, 2, 6, 8);
    onnx_initializer(kit, "c", ENG_F32, ONNX_DIMS(1), &eighth, sizeof eighth);
    onnx_initializer(kit, "two", ENG_F32, ONNX_DIMS(1), &two, sizeof two);
    onnx_initializer(kit, "eps", ENG_F32, ONNX_DIMS(1), &small, sizeof small);
    onnx_node(kit, "Transpose", "x", "k");
    onnx_attr_ints(kit, "perm", (const int64_t[]){0, 1, 3, 2}, 4);
    onnx_node(kit, "MatMul", "x k", "s");
    onnx_node(kit, "Mul", "s c", "scaled");
    onnx_node(kit, "Softmax", "scaled", "p");
    onnx_node(kit, "MatMul", "p x", "o");
    onnx_node(kit, "Add", "o x", "r");
    onnx_node(kit, "ReduceMean", "r", "m");
    onnx_attr_ints(kit, "axes", &last, 1);
    onnx_node(kit, "Sub", "r m", "d");
    onnx_node(kit, "Pow", "d two", "q");
    onnx_node(kit, "ReduceMean", "q", "v");
    onnx_attr_ints(kit, "axes", &last, 1);
    onnx_node(kit, "Add", "v eps", "e");
    onnx_node(kit, "Sqrt", "e", "n");
    onnx_node(kit, "Div", "d n", "y");
    onnx_output(kit, "y", ENG_F32, 1, 2, 6, 8);
    struct eng_model *model = load(kit, false);
    const struct eng_desc desc = {ENG_F32, 4, {1, 2, 6, 8}};
    each_is_right(model, &desc, names, TEST_COUNT(names));
    eng_model_unref(model);
}

static struct eng_model *nonzero_model(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1);
    onnx_node(kit, "Relu", "x", "r");
    onnx_node(kit, "Neg", "r", "g");
    onnx_node(kit, "NonZero", "g", "z");
    onnx_node(kit, "Add", "z z", "w");
    onnx_node(kit, "Add", "w w", "y");
    onnx_output(kit, "y", ENG_I64, 1, -2);
    return load(kit, false);
}

static void pieces_give_what_is_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"r", "g", "z", "w"};
    struct eng_model *model = nonzero_model();
    const struct eng_desc desc = {ENG_F32, 1, {12}};
    each_is_right(model, &desc, names, TEST_COUNT(names));
    eng_model_unref(model);
}

static void refused(struct eng_model *model, const char *name, enum base_status status,
                    const char *text)
{
    struct base_error error = {0};
    struct eng_session *session = NULL;
    const struct eng_session_options options = {.values = &name, .value_count = 1};
    assert_int_equal(eng_session_new(model, &options, &session, &error), status);
    assert_null(session);
    assert_string_equal(error.text, text);
}

static void names_that_are_not_there_are_told(void **state)
{
    (void)state;
    struct eng_model *model = load(convolutions(), false);
    refused(model, "sigmoit", BASE_ERR_NOT_FOUND,
            "the graph has no value 'sigmoit'; near is 'sigmoid'");
    refused(model, "poolled", BASE_ERR_NOT_FOUND,
            "the graph has no value 'poolled'; near is 'pooled'");
    refused(model, "something else", BASE_ERR_NOT_FOUND, "the graph has no value 'something else'");
    refused(model, "unused", BASE_ERR_UNSUPPORTED,
            "value 'unused' is computed for none of the model's outputs");
    refused(model, "convolved", BASE_ERR_CONFLICT,
            "value 'convolved' was folded away with a BatchNormalization");
    struct eng_session *session = NULL;
    const struct eng_session_options many = {.value_count = ENG_ASKED_MAX + 1};
    assert_int_equal(eng_session_new(model, &many, &session, NULL), BASE_ERR_INVALID);
    eng_model_unref(model);
    model = load(NULL, true);
    asked_are_right(model, &image, (const char *const[]){"convolved"}, 1);
    eng_model_unref(model);
}

// What a branch computes is there in runs that take it alone: it is refused by name.
static void values_of_subgraphs_are_refused(void **state)
{
    (void)state;
    struct base_buffer graph = ob_new();
    struct base_buffer node = ob_node("If", "choice", "flag", "y");
    static const char *const branches[] = {"then_branch", "else_branch"};
    for (size_t i = 0; i < TEST_COUNT(branches); i++) {
        struct base_buffer inner = ob_new();
        ob_take(&inner, OB_GRAPH_NODE, ob_node(i == 0 ? "Relu" : "Neg", "", "x", "inside"));
        ob_take(&inner, OB_GRAPH_NODE, ob_node("Neg", "", "inside", "r"));
        ob_take(&inner, OB_GRAPH_OUTPUT, ob_value("r", ENG_F32, 0, NULL));
        ob_attr_graph(&node, branches[i], inner);
    }
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("flag", ENG_BOOL, 0, NULL));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 0, NULL));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 0, NULL));
    struct base_buffer bytes = ob_model(8, 13, graph);
    struct eng_model *model = NULL;
    assert_int_equal(eng_model_load_memory(bytes.data, bytes.size, NULL, &model, NULL), BASE_OK);
    refused(model, "inside", BASE_ERR_UNSUPPORTED,
            "node 'choice' (If, opset 13): value 'inside' is inside of its subgraph, of which none "
            "is given");
    eng_model_unref(model);
    base_buffer_done(&bytes);
}

static void a_plan_in_one_piece_or_none(void **state)
{
    (void)state;
    static const struct eng_session_options whole = {.one_piece = true, .no_search = true};
    struct base_error error = {0};
    struct eng_model *model = nonzero_model();
    struct eng_session *session = opened(model, &whole);
    const struct eng_desc desc = {ENG_F32, 1, {12}};
    assert_int_equal(eng_session_resize(session, 0, &desc, NULL), BASE_OK);
    assert_int_equal(eng_session_prepare(session, &error), BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.text,
                        "node 'n2' (NonZero, opset 13): what it does hangs on contents, "
                        "so there is no plan in one piece");
    eng_session_free(session);
    eng_model_unref(model);
    model = load(convolutions(), false);
    session = opened(model, &whole);
    assert_int_equal(eng_session_prepare(session, &error), BASE_OK);
    const uint64_t plans = session->next_stamp;
    run(session, &image);
    assert_int_equal(session->next_stamp, plans);
    eng_session_free(session);
    eng_model_unref(model);
}

static void loads_and_plans_can_be_ended(void **state)
{
    (void)state;
    _Atomic(bool) stop = true;
    const struct eng_run_options stopped = {.stop = &stop};
    const struct eng_run_options late = {.deadline_us = 1};
    const struct eng_run_options *const limits[] = {&stopped, &late};
    struct eng_model *model = load(convolutions(), false);
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        const struct eng_model_options options = {.limits = limits[i]};
        struct eng_model *other = NULL;
        struct base_error error = {0};
        assert_int_equal(eng_model_load_memory(file, file_size, &options, &other, &error),
                         BASE_ERR_TIMEOUT);
        assert_null(other);
        assert_string_equal(error.text, i == 0 ? "the run was stopped" : "the deadline passed");
        struct eng_session *session = opened(model, NULL);
        assert_int_equal(eng_session_prepare_within(session, limits[i], &error), BASE_ERR_TIMEOUT);
        assert_int_equal(session->segment_count, 0);
        assert_int_equal(eng_session_prepare_within(session, NULL, &error), BASE_OK);
        run(session, &image);
        eng_session_free(session);
    }
    eng_model_unref(model);
    stop = false;
    const struct eng_run_options open = {.stop = &stop,
                                         .deadline_us = base_clock_mono_us() + 600000000};
    const struct eng_model_options options = {.limits = &open};
    assert_int_equal(eng_model_load_memory(file, file_size, &options, &model, NULL), BASE_OK);
    eng_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_fused_can_be_asked_for),
        cmocka_unit_test(inputs_weights_and_outputs_can_be_asked_for),
        cmocka_unit_test(what_products_swallow_can_be_asked_for),
        cmocka_unit_test(pieces_give_what_is_asked_for),
        cmocka_unit_test(names_that_are_not_there_are_told),
        cmocka_unit_test(values_of_subgraphs_are_refused),
        cmocka_unit_test(a_plan_in_one_piece_or_none),
        cmocka_unit_test(loads_and_plans_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
