// Lowering of nodes: folding, stopping for contents and starting again, subgraphs in place and
// called, values kept, and every allocation failing in turn. Operators are the test's own.
#include "lower_rig.h"

#include "lower/lower_state.h"

// --- operators

static enum base_status lower_negate(struct eng_lower *l, const struct eng_node *node)
{
    uint32_t x;
    BASE_TRY(eng_lower_input(l, node, 0, &x));
    BASE_TRY(eng_emit_unary(l, &(struct eng_unary){ENG_NEG, 0, 0}, x, &x));
    return eng_lower_output(l, node, 0, x);
}

static enum base_status lower_add(struct eng_lower *l, const struct eng_node *node)
{
    uint32_t a;
    uint32_t b;
    BASE_TRY(eng_lower_input(l, node, 0, &a));
    BASE_TRY(eng_lower_input(l, node, 1, &b));
    BASE_TRY(eng_emit_binary(l, ENG_ADD, a, b, &a));
    return eng_lower_output(l, node, 0, a);
}

// Output dims are what input 1 holds, after a detour over int32 that the handler itself emits.
static enum base_status lower_shape_by_content(struct eng_lower *l, const struct eng_node *node)
{
    uint32_t x;
    uint32_t dims;
    const int64_t *values;
    uint32_t count;
    BASE_TRY(eng_lower_input(l, node, 0, &x));
    BASE_TRY(eng_lower_input(l, node, 1, &dims));
    BASE_TRY(
        eng_emit_unary(l, &(struct eng_unary){ENG_ABS, 0, 0}, x, &x)); // undone when it stops below
    BASE_TRY(eng_emit_cast(l, dims, ENG_I32, &dims));
    BASE_TRY(eng_lower_ints(l, node, dims, &values, &count));
    struct eng_desc desc = {.rank = count};
    memcpy(desc.dims, values, count * sizeof(int64_t));
    BASE_TRY(eng_lower_reshape(l, x, &desc, &x));
    return eng_lower_output(l, node, 0, x);
}

static enum base_status lower_inlined(struct eng_lower *l, const struct eng_node *node)
{
    const struct eng_graph *graph = node->attrs[0].u.graph;
    struct eng_slot inputs[1];
    struct eng_slot outputs[1];
    BASE_TRY(eng_lower_slot(l, node, 0, &inputs[0]));
    BASE_TRY(eng_lower_inline(l, node, graph, inputs, outputs));
    return eng_lower_output_slot(l, node, 0, &outputs[0]);
}

// Ten times x = body(x).
static enum base_status lower_called(struct eng_lower *l, const struct eng_node *node)
{
    const struct eng_graph *graph = node->attrs[0].u.graph;
    struct eng_slot slot;
    BASE_TRY(eng_lower_slot(l, node, 0, &slot));
    for (int i = 0; i < 10; i++) {
        struct eng_slot next;
        BASE_TRY(eng_lower_call(l, node, graph, &slot, &next));
        slot = next;
    }
    return eng_lower_output_slot(l, node, 0, &slot);
}

static enum base_status lower_random(struct eng_lower *l, const struct eng_node *node)
{
    struct eng_command command = {.op = ENG_OP_RANDOM, .output_count = 1};
    command.u.random.high = 1;
    command.u.random.seed = 3;
    const struct eng_desc desc = {.dtype = ENG_F32, .rank = 1, .dims = {4}};
    uint32_t out;
    BASE_TRY(eng_emit(l, &command, &desc, &out));
    return eng_lower_output(l, node, 0, out);
}

static enum base_status lower_nothing(struct eng_lower *l, const struct eng_node *node)
{
    (void)l;
    (void)node;
    return BASE_OK;
}

static const struct eng_op op_negate = {"", "Negate", 7, 17, ENG_KIND_ATOMIC, lower_negate};
static const struct eng_op op_add = {"", "Add", 7, 17, ENG_KIND_ATOMIC, lower_add};
static const struct eng_op op_shape = {
    "", "Shape", 7, 17, ENG_KIND_TRANSFORM, lower_shape_by_content};
static const struct eng_op op_inlined = {"", "Inlined", 7, 17, ENG_KIND_CONTROL, lower_inlined};
static const struct eng_op op_called = {"", "Called", 7, 17, ENG_KIND_CONTROL, lower_called};
static const struct eng_op op_random = {"", "Random", 7, 17, ENG_KIND_ATOMIC, lower_random};
static const struct eng_op op_nothing = {"", "Nothing", 7, 17, ENG_KIND_ATOMIC, lower_nothing};

// --- graphs

static void set_node(struct eng_node *node, const struct eng_op *op, const uint32_t *inputs,
                     uint32_t input_count, const uint32_t *output)
{
    *node = (struct eng_node){.name = "n",
                              .op = op->name,
                              .domain = "",
                              .opset = 13,
                              .input_count = input_count,
                              .output_count = 1,
                              .inputs = inputs,
                              .outputs = output,
                              .impl = op};
}

static const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static void set_initializer(struct eng_value *value, const struct eng_desc *desc, const void *data)
{
    value->is_initializer = true;
    value->desc = *desc;
    value->data = data;
}

static void chains_of_constants_fold(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const float data[3] = {1, 2, 3};
    const struct eng_desc desc = rig_desc(ENG_F32, 1, (const int64_t[]){3});
    set_initializer(&rig.values[0], &desc, data);
    // v1 = -v0; v3 = v1 + v1 ; v5 = v3 + x (x unknown: value 4)
    struct eng_node nodes[3];
    const uint32_t twice[2] = {1, 1};
    const uint32_t both[2] = {3, 4};
    set_node(&nodes[0], &op_negate, &numbers[0], 1, &numbers[1]);
    set_node(&nodes[1], &op_add, twice, 2, &numbers[3]);
    set_node(&nodes[2], &op_add, both, 2, &numbers[5]);
    rig.graph.nodes = nodes;
    rig.graph.node_count = 3;
    (void)rig_input(&rig, 4, ENG_F32, 1, (const int64_t[]){3});
    uint32_t next;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    assert_int_equal(next, 3);
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.runs, 2);
    const struct eng_slot *slot = eng_lower_value(rig.lower, 3);
    const struct eng_tensor *folded = &rig.program.tensors[slot->tensor];
    assert_int_equal(folded->kind, ENG_CONST);
    assert_true(((const float *)folded->data)[1] == -4.0f);
    // The initializer itself keeps the address packs go by.
    slot = eng_lower_value(rig.lower, 0);
    assert_true(slot == NULL || rig.program.tensors[slot->tensor].identity == data);
    rig_ok(&rig, eng_program_validate(&rig.program, &rig.error));
    rig_done(&rig);
}

static void stops_for_contents_and_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    // v1 = -v0; v2 = v1 + v1 reversed is the shape; v4 = shape(v3, v2)
    struct eng_node nodes[2];
    const uint32_t ports[2] = {3, 1};
    set_node(&nodes[0], &op_negate, &numbers[0], 1, &numbers[1]);
    set_node(&nodes[1], &op_shape, ports, 2, &numbers[4]);
    rig.graph.nodes = nodes;
    rig.graph.node_count = 2;
    rig.graph.outputs = (uint32_t[]){4};
    rig.graph.output_count = 1;
    (void)rig_input(&rig, 0, ENG_I64, 1, (const int64_t[]){2});
    (void)rig_input(&rig, 3, ENG_F32, 1, (const int64_t[]){6});
    uint32_t next;
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_BUSY);
    assert_int_equal(next, 1);
    uint32_t wanted_count;
    const uint32_t *wanted = eng_lower_wanted(rig.lower, &wanted_count);
    assert_int_equal(wanted_count, 1);
    assert_int_equal(wanted[0], eng_lower_value(rig.lower, 1)->tensor);
    assert_int_equal(rig.program.command_count, 1); // the handler's own command is undone
    assert_null(eng_lower_value(rig.lower, 4));
    // The next segment knows them.
    const int64_t dims[2] = {2, 3};
    const struct eng_desc desc = rig_desc(ENG_I64, 1, (const int64_t[]){2});
    uint32_t tensor;
    rig_restart(&rig);
    rig_ok(&rig, eng_lower_bind(rig.lower, 1, &desc, dims, &tensor));
    (void)rig_input(&rig, 3, ENG_F32, 1, (const int64_t[]){6});
    rig_ok(&rig, eng_lower_run(rig.lower, next, &next));
    assert_int_equal(next, 2);
    const struct eng_desc *made = eng_lower_desc(rig.lower, eng_lower_value(rig.lower, 4)->tensor);
    assert_int_equal(made->rank, 2);
    assert_int_equal(made->dims[1], 3);
    rig_done(&rig);
}

// A wanted tensor that is virtual is handed over real, under the same value.
static void wanted_virtual_becomes_real(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct eng_node node;
    const uint32_t ports[2] = {3, 1};
    set_node(&node, &op_shape, ports, 2, &numbers[4]);
    rig.graph.nodes = &node;
    rig.graph.node_count = 1;
    uint32_t x = rig_input(&rig, 0, ENG_I64, 1, (const int64_t[]){4});
    (void)rig_input(&rig, 3, ENG_F32, 1, (const int64_t[]){6});
    const struct eng_slice slice = {.start = {3}, .step = {-2}, .size = {2}};
    struct eng_slot slot = {.type = ENG_VALUE_TENSOR};
    rig_ok(&rig, eng_lower_slice(rig.lower, x, &slice, &slot.tensor));
    rig_ok(&rig, eng_lower_bind_slot(rig.lower, 1, &slot));
    uint32_t next;
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_BUSY);
    uint32_t count;
    const uint32_t *wanted = eng_lower_wanted(rig.lower, &count);
    assert_int_equal(count, 1);
    assert_int_equal(rig.program.tensors[wanted[0]].kind, ENG_TEMP);
    assert_int_equal(eng_lower_value(rig.lower, 1)->tensor, wanted[0]);
    assert_int_equal(rig.program.command_count, 1);
    rig_done(&rig);
}

// body(a): c = a + captured; outputs c
struct body {
    struct eng_value values[3];
    struct eng_node node;
    struct eng_graph graph;
    struct eng_capture capture;
    struct eng_attr attr;
    uint32_t ports[2];
    uint32_t input, output;
};

static void set_body(struct body *body, uint32_t captured)
{
    memset(body, 0, sizeof(*body));
    body->ports[0] = 0;
    body->ports[1] = 1;
    body->input = 0;
    body->output = 2;
    body->capture = (struct eng_capture){1, captured};
    set_node(&body->node, &op_add, body->ports, 2, &body->output);
    body->graph = (struct eng_graph){.name = "body",
                                     .values = body->values,
                                     .nodes = &body->node,
                                     .inputs = &body->input,
                                     .outputs = &body->output,
                                     .captures = &body->capture,
                                     .value_count = 3,
                                     .node_count = 1,
                                     .input_count = 1,
                                     .output_count = 1,
                                     .capture_count = 1};
    body->attr = (struct eng_attr){.name = "body", .kind = ENG_ATTR_GRAPH};
    body->attr.u.graph = &body->graph;
}

static void subgraph_in_place(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct body body;
    set_body(&body, 1);
    struct eng_node node;
    set_node(&node, &op_inlined, &numbers[0], 1, &numbers[2]);
    node.attrs = &body.attr;
    node.attr_count = 1;
    rig.graph.nodes = &node;
    rig.graph.node_count = 1;
    (void)rig_input(&rig, 0, ENG_F32, 1, (const int64_t[]){3});
    (void)rig_input(&rig, 1, ENG_F32, 1, (const int64_t[]){3});
    uint32_t next;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.program.commands[0].node, 0);
    // A body that contains itself ends at the named depth.
    body.node.impl = &op_inlined;
    body.node.attrs = &body.attr;
    body.node.attr_count = 1;
    rig_restart(&rig);
    (void)rig_input(&rig, 0, ENG_F32, 1, (const int64_t[]){3});
    (void)rig_input(&rig, 1, ENG_F32, 1, (const int64_t[]){3});
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_TOO_LARGE);
    rig_done(&rig);
}

static void subgraph_called(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct body body;
    set_body(&body, 1);
    struct eng_node node;
    set_node(&node, &op_called, &numbers[0], 1, &numbers[2]);
    node.attrs = &body.attr;
    node.attr_count = 1;
    rig.graph.nodes = &node;
    rig.graph.node_count = 1;
    // Neither is known: the input is wanted first, then what the body captures.
    (void)rig_input(&rig, 0, ENG_F32, 1, (const int64_t[]){3});
    (void)rig_input(&rig, 1, ENG_F32, 1, (const int64_t[]){3});
    uint32_t next;
    uint32_t count;
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_BUSY);
    assert_int_equal(eng_lower_wanted(rig.lower, &count)[0], eng_lower_value(rig.lower, 0)->tensor);
    const float x[3] = {1, 2, 3};
    const float step[3] = {1, 10, 100};
    const struct eng_desc desc = rig_desc(ENG_F32, 1, (const int64_t[]){3});
    uint32_t tensor;
    rig_restart(&rig);
    rig_ok(&rig, eng_lower_bind(rig.lower, 0, &desc, x, &tensor));
    rig_ok(&rig, eng_lower_bind(rig.lower, 1, &desc, step, &tensor));
    rig.runs = 0;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    assert_int_equal(rig.runs, 10);
    assert_int_equal(rig.program.command_count, 0);
    const struct eng_tensor *out = &rig.program.tensors[eng_lower_value(rig.lower, 2)->tensor];
    assert_int_equal(out->kind, ENG_CONST);
    assert_true(((const float *)out->data)[2] == 1003.0f);
    rig_done(&rig);
}

static void random_numbers_are_not_folded(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct eng_node nodes[2];
    set_node(&nodes[0], &op_random, NULL, 0, &numbers[0]);
    set_node(&nodes[1], &op_negate, &numbers[0], 1, &numbers[1]);
    rig.graph.nodes = nodes;
    rig.graph.node_count = 2;
    uint32_t next;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    assert_int_equal(rig.program.command_count, 2);
    assert_int_equal(rig.runs, 0);
    rig_done(&rig);
}

static void kept_values_are_plain_and_survive(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct eng_node nodes[2];
    set_node(&nodes[0], &op_negate, &numbers[0], 1, &numbers[1]);
    set_node(&nodes[1], &op_negate, &numbers[1], 1, &numbers[2]);
    rig.graph.nodes = nodes;
    rig.graph.node_count = 2;
    rig.options.keep_values = true;
    rig_restart(&rig);
    uint32_t x = rig_input(&rig, 0, ENG_F32, 4, (const int64_t[]){1, 2, 3, 4});
    struct eng_slot slot = {.type = ENG_VALUE_TENSOR};
    rig_ok(&rig, eng_lower_channels_last(rig.lower, x, &slot.tensor));
    rig_ok(&rig, eng_lower_bind_slot(rig.lower, 0, &slot));
    uint32_t next;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    uint32_t kept = 0;
    for (uint32_t t = 0; t < rig.program.tensor_count; t++) {
        kept += rig.program.tensors[t].is_output;
        assert_true(!rig.program.tensors[t].is_output ||
                    rig.program.tensors[t].layout == ENG_PLAIN);
    }
    assert_int_equal(kept, 2); // of both nodes
    rig_ok(&rig, eng_program_validate(&rig.program, &rig.error));
    rig_done(&rig);
}

static void parameters_stay(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const float data[3] = {1, 2, 3};
    const struct eng_desc desc = rig_desc(ENG_F32, 1, (const int64_t[]){3});
    set_initializer(&rig.values[0], &desc, data);
    struct eng_node node;
    set_node(&node, &op_negate, &numbers[0], 1, &numbers[1]);
    rig.graph.nodes = &node;
    rig.graph.node_count = 1;
    rig.options.params = true;
    uint32_t next;
    rig_ok(&rig, eng_lower_run(rig.lower, 0, &next));
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.program.tensors[rig.program.commands[0].inputs[0]].kind, ENG_PARAM);
    rig_done(&rig);
}

static void bad_nodes_are_named(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct eng_node node;
    uint32_t next;
    set_node(&node, &op_negate, &numbers[5], 1, &numbers[1]);
    node.name = "lonely";
    rig.graph.nodes = &node;
    rig.graph.node_count = 1;
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_INVALID);
    assert_non_null(strstr(rig.error.text, "lonely"));
    assert_non_null(strstr(rig.error.text, "Negate"));
    set_node(&node, &op_nothing, NULL, 0, &numbers[1]);
    rig_restart(&rig);
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.error.text, "Nothing"));
    node.impl = NULL;
    rig_restart(&rig);
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_UNSUPPORTED);
    rig.graph.node_count = 0;
    rig.graph.outputs = (uint32_t[]){3};
    rig.graph.output_count = 1;
    rig_restart(&rig);
    assert_int_equal(eng_lower_run(rig.lower, 0, &next), BASE_ERR_INVALID);
    rig_done(&rig);
}

static void constants_of_every_type(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    for (int type = ENG_F32; type < ENG_DTYPE_COUNT; type++) {
        uint32_t tensor;
        enum base_status status =
            eng_lower_const_f32(rig.lower, (enum eng_dtype)type, 3.0, &tensor);
        if (type == ENG_STRING) {
            assert_int_equal(status, BASE_ERR_UNSUPPORTED);
            continue;
        }
        assert_int_equal(status, BASE_OK);
        if (type == ENG_C64 || type == ENG_C128) {
            continue;
        }
        double value = 0;
        rig_ok(&rig, eng_lower_scalar(rig.lower, NULL, tensor, &value));
        assert_true(value == (type == ENG_BOOL ? 1.0 : 3.0));
    }
    const int64_t ints[3] = {-1, 0, INT64_MAX};
    const int64_t *back;
    uint32_t tensor;
    uint32_t count;
    rig_ok(&rig, eng_lower_const_ints(rig.lower, ints, 3, &tensor));
    rig_ok(&rig, eng_lower_ints(rig.lower, NULL, tensor, &back, &count));
    assert_int_equal(count, 3);
    assert_memory_equal(back, ints, sizeof(ints));
    rig_done(&rig);
}

// Every allocation fails once; nothing leaks, nothing crashes, the status says so.
static void without_memory(void **state)
{
    (void)state;
    struct body body;
    set_body(&body, 1);
    struct eng_node nodes[3];
    set_node(&nodes[0], &op_called, &numbers[0], 1, &numbers[2]);
    nodes[0].attrs = &body.attr;
    nodes[0].attr_count = 1;
    set_node(&nodes[1], &op_negate, &numbers[2], 1, &numbers[3]);
    set_node(&nodes[2], &op_negate, &numbers[4], 1, &numbers[5]);
    const float data[3] = {1, 2, 3};
    for (size_t allowed = 0; allowed < 200; allowed++) {
        struct rig rig;
        memset(&rig, 0, sizeof(rig));
        struct test_alloc heap;
        test_alloc_init(&heap, allowed);
        base_arena_init(&rig.arena, &heap.port, 256, 0);
        struct eng_value values[8];
        for (uint32_t v = 0; v < 8; v++) {
            values[v] = (struct eng_value){.name = "v", .producer = ENG_NONE};
        }
        const struct eng_desc desc = rig_desc(ENG_F32, 1, (const int64_t[]){3});
        set_initializer(&values[0], &desc, data);
        set_initializer(&values[1], &desc, data);
        rig.graph =
            (struct eng_graph){.values = values, .value_count = 8, .nodes = nodes, .node_count = 3};
        eng_program_init(&rig.program, &rig.arena);
        // No runner: the call cannot compute, which is an answer too.
        rig.lower = eng_lower_new(&rig.arena, &rig.program, &rig.graph, &rig.options, &rig.error);
        enum base_status status = BASE_ERR_NOMEM;
        if (rig.lower != NULL) {
            uint32_t next;
            status = eng_lower_run(rig.lower, 0, &next);
        }
        assert_true(status == BASE_ERR_NOMEM || status == BASE_ERR_UNSUPPORTED);
        base_arena_done(&rig.arena);
        assert_int_equal(heap.live, 0);
        if (status == BASE_ERR_UNSUPPORTED) {
            assert_true(allowed > 3);
            return;
        }
    }
    fail_msg("never enough memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_constants_fold),
        cmocka_unit_test(stops_for_contents_and_goes_on),
        cmocka_unit_test(wanted_virtual_becomes_real),
        cmocka_unit_test(subgraph_in_place),
        cmocka_unit_test(subgraph_called),
        cmocka_unit_test(random_numbers_are_not_folded),
        cmocka_unit_test(kept_values_are_plain_and_survive),
        cmocka_unit_test(parameters_stay),
        cmocka_unit_test(bad_nodes_are_named),
        cmocka_unit_test(constants_of_every_type),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
