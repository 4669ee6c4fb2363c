// If, Loop, Scan and SequenceMap: branches by conditions known late, loops longer than what is
// lowered in place, states and stacked results, captured values, sequences as state.
#include "op_rig.h"

static const int64_t one_dim[1] = {1};
static const int64_t two_dims[1] = {2};

static void add_node(struct base_buffer *graph, const char *op, const char *inputs,
                     const char *outputs)
{
    ob_take(graph, OB_GRAPH_NODE, ob_node(op, outputs, inputs, outputs));
}

static void add_int_node(struct base_buffer *graph, const char *op, const char *inputs,
                         const char *outputs, const char *attr, int64_t value)
{
    struct base_buffer node = ob_node(op, outputs, inputs, outputs);
    ob_attr_int(&node, attr, value);
    ob_take(graph, OB_GRAPH_NODE, node);
}

static void add_input(struct base_buffer *graph, const char *name, enum eng_dtype dtype,
                      uint32_t rank, const int64_t *dims)
{
    ob_take(graph, OB_GRAPH_INPUT, ob_value(name, dtype, rank, dims));
}

static void add_const(struct base_buffer *graph, const char *name, const struct eng_desc *desc,
                      const void *data)
{
    ob_take(graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor(name, desc->dtype, desc->rank, desc->dims, data, eng_desc_bytes(desc)));
}

static void add_int_const(struct base_buffer *graph, const char *name, int64_t value)
{
    const struct eng_desc desc = {.dtype = ENG_I64};
    add_const(graph, name, &desc, &value);
}

// Takes the graph and runs it with the rig's inputs.
static void run_graph(struct op_rig *rig, struct base_buffer graph)
{
    ob_text(&graph, OB_GRAPH_NAME, "g");
    base_buffer_done(&rig->bytes);
    rig->bytes = ob_model(8, rig->opset, graph);
    enum base_status status = op_run_model(rig);
    if (status != BASE_OK) {
        fail_msg("%s: %s", rig->op, rig->error.text);
    }
}

static void float_input(struct op_rig *rig, const struct eng_desc *desc, const float *data)
{
    op_input(rig, desc, data, false);
}

// --- If

// x is doubled where its sum is positive, else negated; both branches read x of the outer graph.
static struct base_buffer branch(const char *op, const char *inputs)
{
    struct base_buffer graph = ob_new();
    add_node(&graph, op, inputs, "r");
    ob_output(&graph, "r");
    ob_text(&graph, OB_GRAPH_NAME, "b");
    return graph;
}

static void branches_by_contents(void **state)
{
    (void)state;
    const struct eng_desc x_desc = op_desc(ENG_F32, 1, two_dims);
    const struct eng_desc scalar = {.dtype = ENG_F32};
    const float zero = 0;
    const float cases[2][2] = {{3, -1}, {-3, 1}};
    const float wanted[2][2] = {{6, -2}, {3, -1}};
    for (size_t i = 0; i < 4; i++) {
        struct op_rig rig;
        struct base_buffer graph = ob_new();
        op_begin(&rig, "If", 13);
        add_input(&graph, "x", ENG_F32, 1, two_dims);
        add_const(&graph, "zero", &scalar, &zero);
        add_int_node(&graph, "ReduceSum", "x", "sum", "keepdims", 0);
        add_node(&graph, "Greater", "sum,zero", "c");
        struct base_buffer node = ob_node("If", "if", "c", "y");
        ob_attr_graph(&node, "then_branch", branch("Add", "x,x"));
        ob_attr_graph(&node, "else_branch", branch("Neg", "x"));
        ob_take(&graph, OB_GRAPH_NODE, node);
        ob_output(&graph, "y");
        float_input(&rig, &x_desc, cases[i % 2]);
        run_graph(&rig, graph);
        op_expect_floats(&rig, 0, &x_desc, wanted[i % 2]);
        // The same plan with the other condition.
        struct eng_array array = {.desc = x_desc};
        memcpy(&array.data, &(const float *){cases[(i + 1) % 2]}, sizeof(array.data));
        assert_int_equal(eng_session_set_input(rig.session, 0, &array, &rig.error), BASE_OK);
        assert_int_equal(eng_session_run(rig.session, NULL, &rig.error), BASE_OK);
        op_expect_floats(&rig, 0, &x_desc, wanted[(i + 1) % 2]);
        op_done(&rig);
    }
}

// --- Loop

// state = state * 2 + captured k while state < limit (also captured); scans the states.
static struct base_buffer loop_body(bool conditional)
{
    struct base_buffer graph = ob_new();
    add_input(&graph, "i", ENG_I64, 0, NULL);
    add_input(&graph, "go", ENG_BOOL, 0, NULL);
    add_input(&graph, "s", ENG_F32, 1, one_dim);
    add_node(&graph, "Add", "s,s", "s2");
    add_node(&graph, "Add", "s2,k", "next");
    add_node(&graph, "Identity", "next", "scan");
    if (conditional) {
        const struct eng_desc axis = op_desc(ENG_I64, 1, one_dim);
        add_const(&graph, "axis", &axis, &(int64_t){0});
        add_node(&graph, "Less", "next,limit", "less");
        add_node(&graph, "Squeeze", "less,axis", "more");
    } else {
        add_node(&graph, "Identity", "go", "more");
    }
    ob_output(&graph, "more");
    ob_output(&graph, "next");
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("scan", ENG_F32, 1, one_dim));
    ob_text(&graph, OB_GRAPH_NAME, "b");
    return graph;
}

struct loop_case {
    int64_t trips; // -1: absent
    bool trips_constant, conditional, captures_constant;
    float start, k, limit;
    int64_t expected; // iterations
};

static void run_loop(const struct loop_case *c)
{
    struct op_rig rig;
    struct base_buffer graph = ob_new();
    const struct eng_desc one = op_desc(ENG_F32, 1, one_dim);
    const struct eng_desc count = {.dtype = ENG_I64};
    op_begin(&rig, "Loop", 13);
    if (c->trips >= 0 && c->trips_constant) {
        add_int_const(&graph, "n", c->trips);
    } else if (c->trips >= 0) {
        add_input(&graph, "n", ENG_I64, 0, NULL);
        op_input(&rig, &count, &c->trips, false);
    }
    add_input(&graph, "s0", ENG_F32, 1, one_dim);
    op_input(&rig, &one, &c->start, false);
    if (c->captures_constant) {
        add_const(&graph, "k", &one, &c->k);
        add_const(&graph, "limit", &one, &c->limit);
    } else {
        add_input(&graph, "k", ENG_F32, 1, one_dim);
        add_input(&graph, "limit", ENG_F32, 1, one_dim);
        op_input(&rig, &one, &c->k, false);
        op_input(&rig, &one, &c->limit, false);
    }
    struct base_buffer node = ob_node("Loop", "loop", c->trips >= 0 ? "n,,s0" : ",,s0", "s,all");
    ob_attr_graph(&node, "body", loop_body(c->conditional));
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_output(&graph, "s");
    ob_output(&graph, "all");
    run_graph(&rig, graph);
    float *all = malloc((size_t)(c->expected + 1) * sizeof(*all));
    assert_non_null(all);
    float s = c->start;
    for (int64_t i = 0; i < c->expected; i++) {
        s = s * 2 + c->k;
        all[i] = s;
    }
    const struct eng_desc stacked = op_desc(ENG_F32, 2, (int64_t[]){c->expected, 1});
    if (c->expected > 0) {
        op_expect_floats(&rig, 1, &stacked, all);
    } else {
        struct eng_array out = op_output(&rig, 1);
        op_expect_shape(&rig, &out.desc, &stacked);
    }
    op_expect_floats(&rig, 0, &one, &s);
    free(all);
    op_done(&rig);
}

static void loops(void **state)
{
    (void)state;
    static const struct loop_case cases[] = {
        {3, true, false, true, 1, 1, 0, 3},
        {3, true, false, false, 1, 1, 0, 3},
        {3, false, false, false, 1, 1, 0, 3},
        {0, true, false, true, 1, 1, 0, 0},
        {0, false, false, true, 1, 1, 0, 0},
        {-1, true, true, true, 1, 1, 100, 6},
        {-1, true, true, false, 1, 1, 100, 6},
        {4, true, true, false, 1, 1, 100, 4},
        {100, false, true, false, 1, 0, 1000, 10},
        {3000, true, false, true, 0, 0, 0, 3000}, // more than is lowered in place
        {3000, false, false, false, 0, 0, 0, 3000},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        run_loop(&cases[i]);
    }
}

// An endless loop is an error, not a hang: its condition never turns false.
static void endless_loops_end(void **state)
{
    (void)state;
    struct op_rig rig;
    struct base_buffer graph = ob_new();
    struct base_buffer body = ob_new();
    const struct eng_desc one = op_desc(ENG_F32, 1, one_dim);
    const float start = 0;
    op_begin(&rig, "Loop", 13);
    add_input(&body, "i", ENG_I64, 0, NULL);
    add_input(&body, "go", ENG_BOOL, 0, NULL);
    add_input(&body, "s", ENG_F32, 1, one_dim);
    add_node(&body, "Identity", "go", "more");
    add_node(&body, "Identity", "s", "next");
    ob_output(&body, "more");
    ob_output(&body, "next");
    ob_text(&body, OB_GRAPH_NAME, "b");
    add_input(&graph, "s0", ENG_F32, 1, one_dim);
    op_input(&rig, &one, &start, false);
    struct base_buffer node = ob_node("Loop", "loop", ",,s0", "s");
    ob_attr_graph(&node, "body", body);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_output(&graph, "s");
    ob_text(&graph, OB_GRAPH_NAME, "g");
    base_buffer_done(&rig.bytes);
    rig.bytes = ob_model(8, 13, graph);
    assert_int_equal(op_run_model(&rig), BASE_ERR_LIMIT);
    assert_non_null(strstr(rig.error.text, "Loop"));
    op_done(&rig);
}

// --- Scan

// sum += x (per element); scans the sums.
static struct base_buffer scan_body(void)
{
    struct base_buffer graph = ob_new();
    add_input(&graph, "s", ENG_F32, 1, two_dims);
    add_input(&graph, "x", ENG_F32, 1, two_dims);
    add_node(&graph, "Add", "s,x", "t");
    add_node(&graph, "Identity", "t", "y");
    ob_output(&graph, "t");
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 1, two_dims));
    ob_text(&graph, OB_GRAPH_NAME, "b");
    return graph;
}

static void attr_ints(struct base_buffer *node, const char *name, int64_t value)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    ob_number(&attr, OB_ATTR_INTS, value);
    ob_number(&attr, OB_ATTR_TYPE, 7);
    ob_take(node, OB_NODE_ATTR, attr);
}

// Axes and directions other than the first and forward; short and long.
static void scans(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 4, 3000};
    for (size_t i = 0; i < TEST_COUNT(lengths) * 8; i++) {
        int64_t n = lengths[i / 8];
        bool wide = i % 2 != 0;
        bool back = i / 2 % 2 != 0;
        bool out_wide = i / 4 % 2 != 0;
        struct op_rig rig;
        struct base_buffer graph = ob_new();
        const struct eng_desc s_desc = op_desc(ENG_F32, 1, two_dims);
        const struct eng_desc x_desc =
            op_desc(ENG_F32, 2, wide ? (int64_t[]){2, n} : (int64_t[]){n, 2});
        const struct eng_desc y_desc =
            op_desc(ENG_F32, 2, out_wide ? (int64_t[]){2, n} : (int64_t[]){n, 2});
        const float start[2] = {10, 20};
        float *x = op_numbers(2 * n);
        float *y = op_numbers(2 * n);
        float sum[2] = {10, 20};
        for (int64_t t = 0; t < n; t++) {
            int64_t at = back ? n - 1 - t : t;
            for (int64_t k = 0; k < 2; k++) {
                int64_t from = wide ? k * n + at : at * 2 + k;
                x[from] = (float)(from % 7);
                sum[k] += x[from];
                int64_t to = n - 1 - t; // output is reversed
                y[out_wide ? k * n + to : to * 2 + k] = sum[k];
            }
        }
        op_begin(&rig, "Scan", 11);
        add_input(&graph, "s0", ENG_F32, 1, two_dims);
        add_input(&graph, "x", ENG_F32, 2, x_desc.dims);
        float_input(&rig, &s_desc, start);
        float_input(&rig, &x_desc, x);
        struct base_buffer node = ob_node("Scan", "scan", "s0,x", "s,all");
        ob_attr_int(&node, "num_scan_inputs", 1);
        attr_ints(&node, "scan_input_axes", wide ? -1 : 0);
        attr_ints(&node, "scan_input_directions", back);
        attr_ints(&node, "scan_output_axes", out_wide);
        attr_ints(&node, "scan_output_directions", 1);
        ob_attr_graph(&node, "body", scan_body());
        ob_take(&graph, OB_GRAPH_NODE, node);
        ob_output(&graph, "s");
        ob_output(&graph, "all");
        run_graph(&rig, graph);
        op_expect_floats(&rig, 0, &s_desc, sum);
        op_expect_floats(&rig, 1, &y_desc, y);
        op_done(&rig);
        free(x);
        free(y);
    }
}

// Opset 8: a batch, each entry of its own length; what lies behind is zero.
static void batched_scans(void **state)
{
    (void)state;
    struct op_rig rig;
    struct base_buffer graph = ob_new();
    const int64_t lengths[3] = {2, 0, 4};
    const struct eng_desc s_desc = op_desc(ENG_F32, 2, (int64_t[]){3, 2});
    const struct eng_desc x_desc = op_desc(ENG_F32, 3, (int64_t[]){3, 4, 2});
    float *s = op_numbers(6);
    float *x = op_numbers(24);
    float sums[6];
    float all[24] = {0};
    for (int64_t b = 0; b < 3; b++) {
        for (int64_t k = 0; k < 2; k++) {
            sums[b * 2 + k] = s[b * 2 + k];
            for (int64_t t = 0; t < lengths[b]; t++) {
                sums[b * 2 + k] += x[(b * 4 + t) * 2 + k];
                all[(b * 4 + t) * 2 + k] = sums[b * 2 + k];
            }
        }
    }
    op_begin(&rig, "Scan", 8);
    add_input(&graph, "n", ENG_I64, 1, (int64_t[]){3});
    add_input(&graph, "s0", ENG_F32, 2, s_desc.dims);
    add_input(&graph, "x", ENG_F32, 3, x_desc.dims);
    op_ints(&rig, lengths, 3, false);
    float_input(&rig, &s_desc, s);
    float_input(&rig, &x_desc, x);
    struct base_buffer node = ob_node("Scan", "scan", "n,s0,x", "s,all");
    ob_attr_int(&node, "num_scan_inputs", 1);
    ob_attr_graph(&node, "body", scan_body());
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_output(&graph, "s");
    ob_output(&graph, "all");
    run_graph(&rig, graph);
    op_expect_floats(&rig, 0, &s_desc, sums);
    op_expect_floats(&rig, 1, &x_desc, all);
    op_done(&rig);
    free(s);
    free(x);
}

// --- sequences

// SplitToSequence, SequenceInsert, SequenceErase, SequenceAt, ConcatFromSequence in one chain with
// positions known only at run time.
static void sequences(void **state)
{
    (void)state;
    struct op_rig rig;
    struct base_buffer graph = ob_new();
    const struct eng_desc x_desc = op_desc(ENG_F32, 2, (int64_t[]){3, 2});
    const struct eng_desc scalar = {.dtype = ENG_I64};
    const int64_t place = -1;
    float *x = op_numbers(6);
    op_begin(&rig, "SequenceInsert", 13);
    add_input(&graph, "x", ENG_F32, 2, x_desc.dims);
    add_input(&graph, "p", ENG_I64, 0, NULL);
    add_int_const(&graph, "zero", 0);
    float_input(&rig, &x_desc, x);
    op_input(&rig, &scalar, &place, false);
    add_int_node(&graph, "SplitToSequence", "x", "rows", "keepdims", 0);
    add_node(&graph, "SequenceAt", "rows,p", "last");
    add_node(&graph, "Add", "last,last", "twice");
    add_node(&graph, "SequenceInsert", "rows,twice,p", "four");
    add_node(&graph, "SequenceErase", "four,zero", "three");
    add_node(&graph, "SequenceLength", "three", "length");
    struct base_buffer node = ob_node("ConcatFromSequence", "c", "three", "y");
    ob_attr_int(&node, "axis", -1);
    ob_attr_int(&node, "new_axis", 1);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_output(&graph, "y");
    ob_output(&graph, "length");
    run_graph(&rig, graph);
    const struct eng_desc desc = op_desc(ENG_F32, 2, (int64_t[]){2, 3});
    op_expect_floats(&rig, 0, &desc, (float[]){3, 10, 5, 4, 12, 6});
    op_expect_ints(&rig, 1, &scalar, (int64_t[]){3});
    op_done(&rig);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_by_contents), cmocka_unit_test(loops),
        cmocka_unit_test(endless_loops_end),    cmocka_unit_test(scans),
        cmocka_unit_test(batched_scans),        cmocka_unit_test(sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
