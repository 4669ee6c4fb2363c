// The ONNX reader on models written here: what the graph must say, form by form.
#include "model_rig.h"

#include "model/model_file.h"
#include "model/model_key.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t shape23[] = {2, 3};

static struct base_buffer relu_graph(void)
{
    struct base_buffer graph = ob_new();
    ob_text(&graph, OB_GRAPH_NAME, "main");
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "first", "x", "y"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, (const int64_t[]){-1, 3}));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, (const int64_t[]){-1, 3}));
    return graph;
}

static void a_small_model_is_read(void **state)
{
    (void)state;
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, relu_graph()), NULL), BASE_OK);
    const struct eng_graph *graph = rig.model.graph;
    assert_int_equal(rig.model.opset, 13);
    assert_int_equal(rig.model.ir_version, 8);
    assert_string_equal(rig.model.producer_name, "test");
    assert_int_equal(graph->node_count, 1);
    assert_int_equal(graph->input_count, 1);
    const struct eng_value *x = &graph->values[graph->inputs[0]];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->type, ENG_VALUE_TENSOR);
    assert_true(x->has_shape);
    assert_int_equal(x->desc.dtype, ENG_F32);
    assert_int_equal(x->desc.rank, 2);
    assert_int_equal(x->desc.dims[0], -1);
    assert_int_equal(x->desc.dims[1], 3);
    assert_string_equal(x->dim_names[0], "n");
    assert_null(x->dim_names[1]);
    const struct eng_node *node = &graph->nodes[0];
    assert_string_equal(node->op, "Relu");
    assert_string_equal(node->domain, "");
    assert_int_equal(node->opset, 13);
    assert_int_equal(node->inputs[0], graph->inputs[0]);
    assert_int_equal(node->outputs[0], graph->outputs[0]);
    assert_int_equal(graph->values[graph->outputs[0]].producer, 0);
    assert_non_null(node->impl);
    rig_done(&rig);
}

// y = x + w with w given in one of the forms a file may choose.
static struct base_buffer with_initializer(struct base_buffer tensor)
{
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Add", "", "x,w", "y"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_INITIALIZER, tensor);
    return ob_model(8, 13, graph);
}

static void check_initializer(struct base_buffer tensor, const struct eng_desc *desc,
                              const void *expected)
{
    struct rig rig;
    enum base_status status = rig_read(&rig, with_initializer(tensor), NULL);
    if (status != BASE_OK) {
        fail_msg("%s", rig.error.text);
    }
    const struct eng_graph *graph = rig.model.graph;
    const struct eng_value *w = &graph->values[rig_value(graph, "w")];
    assert_true(w->is_initializer);
    assert_int_equal(graph->input_count, 1);
    assert_true(eng_desc_equal(&w->desc, desc));
    assert_int_equal((uintptr_t)w->data % eng_dtype_bytes(desc->dtype), 0);
    assert_memory_equal(w->data, expected, eng_desc_bytes(desc));
    rig_done(&rig);
}

// How many of four shifts of the whole file leave a tensor of `count` floats where it lies in it.
static uint32_t shifts_in_place(int64_t count)
{
    float *data = malloc((size_t)count * sizeof(*data));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = i == 4 ? INFINITY : (float)i;
    }
    const size_t bytes = (size_t)count * sizeof(*data);
    const struct eng_desc desc = {.dtype = ENG_F32, .rank = 1, .dims = {count}};
    struct base_buffer model =
        with_initializer(ob_raw_tensor("w", ENG_F32, 1, &count, data, bytes));
    uint32_t in_place = 0;
    for (size_t shift = 0; shift < 4; shift++) {
        struct rig rig;
        assert_int_equal(rig_read_at(&rig, &model, NULL, shift), BASE_OK);
        const struct eng_value *w = &rig.model.graph->values[rig_value(rig.model.graph, "w")];
        assert_true(eng_desc_equal(&w->desc, &desc));
        assert_memory_equal(w->data, data, bytes);
        uintptr_t at = (uintptr_t)w->data, begin = (uintptr_t)rig.bytes;
        bool inside = at >= begin && at < begin + model.size + shift;
        assert_true(inside || at % sizeof(*data) == 0);
        in_place += inside;
        rig_done(&rig);
    }
    base_buffer_done(&model);
    free(data);
    return in_place;
}

static void raw_data_is_taken_where_it_lies(void **state)
{
    (void)state;
    assert_int_equal(shifts_in_place(6), 0);                                    // small: copied
    assert_int_equal(shifts_in_place(ENG_MAPPED_BYTES_MIN / sizeof(float)), 1); // one is aligned
    assert_int_equal(shifts_in_place(ENG_LOOSE_BYTES_MIN / sizeof(float)), 4);
}

static void typed_elements_are_decoded(void **state)
{
    (void)state;
    const float floats[6] = {0.5F, -1, 2, 3, 4, 1e30F};
    struct base_buffer packed = ob_tensor("w", ENG_F32, 2, shape23);
    ob_bytes(&packed, OB_TENSOR_FLOATS, floats, sizeof(floats));
    const struct eng_desc f32 = {.dtype = ENG_F32, .rank = 2, .dims = {2, 3}};
    check_initializer(packed, &f32, floats);

    struct base_buffer single = ob_tensor("w", ENG_F32, 2, shape23);
    for (uint32_t i = 0; i < 6; i++) {
        ob_float(&single, OB_TENSOR_FLOATS, floats[i]);
    }
    check_initializer(single, &f32, floats);

    const int8_t bytes[3] = {-1, 127, -128};
    struct base_buffer ints = ob_tensor("w", ENG_I8, 1, (const int64_t[]){3});
    struct base_buffer list = ob_new();
    for (uint32_t i = 0; i < 3; i++) {
        ob_varint(&list, (uint64_t)(int64_t)bytes[i]);
    }
    ob_take(&ints, OB_TENSOR_INT32S, list);
    const struct eng_desc i8 = {.dtype = ENG_I8, .rank = 1, .dims = {3}};
    check_initializer(ints, &i8, bytes);

    const uint16_t halves[2] = {0x3c00, 0xc000}; // 1, -2
    struct base_buffer half = ob_tensor("w", ENG_F16, 1, (const int64_t[]){2});
    ob_number(&half, OB_TENSOR_INT32S, halves[0]);
    ob_number(&half, OB_TENSOR_INT32S, halves[1]);
    const struct eng_desc f16 = {.dtype = ENG_F16, .rank = 1, .dims = {2}};
    check_initializer(half, &f16, halves);

    const int64_t longs[2] = {-((int64_t)1 << 40), 7};
    struct base_buffer wide = ob_tensor("w", ENG_I64, 1, (const int64_t[]){2});
    ob_number(&wide, OB_TENSOR_INT64S, longs[0]);
    ob_number(&wide, OB_TENSOR_INT64S, longs[1]);
    const struct eng_desc i64 = {.dtype = ENG_I64, .rank = 1, .dims = {2}};
    check_initializer(wide, &i64, longs);

    const uint8_t truths[2] = {0, 1};
    struct base_buffer bools = ob_raw_tensor("w", ENG_BOOL, 1, (const int64_t[]){2}, "\0\5", 2);
    const struct eng_desc b1 = {.dtype = ENG_BOOL, .rank = 1, .dims = {2}};
    check_initializer(bools, &b1, truths);
}

static void strings_are_read(void **state)
{
    (void)state;
    struct base_buffer tensor = ob_tensor("w", ENG_STRING, 1, (const int64_t[]){2});
    ob_text(&tensor, OB_TENSOR_STRINGS, "one");
    ob_text(&tensor, OB_TENSOR_STRINGS, "");
    struct rig rig;
    assert_int_equal(rig_read(&rig, with_initializer(tensor), NULL), BASE_OK);
    const struct eng_value *w = &rig.model.graph->values[rig_value(rig.model.graph, "w")];
    const struct eng_string *strings = w->data;
    assert_true(eng_string_is(strings[0], "one"));
    assert_true(eng_string_is(strings[1], ""));
    rig_done(&rig);
}

static void old_files_list_initializers_as_inputs(void **state)
{
    (void)state;
    const float data[3] = {1, 2, 3};
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("w", ENG_F32, 1, (const int64_t[]){3}, data, sizeof(data)));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Add", "", "x,w", "y"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("w", ENG_F32, 1, (const int64_t[]){3}));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(3, 7, graph), NULL), BASE_OK);
    assert_int_equal(rig.model.graph->input_count, 1);
    assert_string_equal(rig.model.graph->values[rig.model.graph->inputs[0]].name, "x");
    assert_int_equal(rig.model.parameter_count, 3);
    rig_done(&rig);
}

static void constants_become_initializers(void **state)
{
    (void)state;
    const int64_t axes[2] = {1, 2};
    struct base_buffer graph = ob_new();
    struct base_buffer a = ob_node("Constant", "a", "", "axes");
    ob_attr_tensor(&a, "value", ob_raw_tensor("", ENG_I64, 1, (const int64_t[]){2}, axes, 16));
    ob_take(&graph, OB_GRAPH_NODE, a);
    struct base_buffer b = ob_node("Constant", "b", "", "half");
    ob_attr_float(&b, "value_float", 0.5F);
    ob_take(&graph, OB_GRAPH_NODE, b);
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Op", "", "half,,axes", "y"));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 0, NULL));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
    const struct eng_graph *g = rig.model.graph;
    assert_int_equal(g->node_count, 1);
    const struct eng_node *node = &g->nodes[0];
    assert_int_equal(node->inputs[1], ENG_NONE);
    const struct eng_value *half = &g->values[node->inputs[0]];
    assert_true(half->is_initializer);
    assert_int_equal(half->desc.rank, 0);
    assert_true(*(const float *)half->data == 0.5F);
    const struct eng_value *list = &g->values[node->inputs[2]];
    assert_int_equal(list->desc.dims[0], 2);
    assert_memory_equal(list->data, axes, sizeof(axes));
    rig_done(&rig);
}

static void unsorted_nodes_are_sorted(void **state)
{
    (void)state;
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, ob_node("C", "c", "b,a", "y"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("B", "b", "a", "b"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("A", "a", "x", "a"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
    const struct eng_graph *g = rig.model.graph;
    assert_int_equal(g->node_count, 3);
    assert_string_equal(g->nodes[0].op, "A");
    assert_string_equal(g->nodes[1].op, "B");
    assert_string_equal(g->nodes[2].op, "C");
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(g->nodes[n].index, n);
        assert_int_equal(g->values[g->nodes[n].outputs[0]].producer, n);
    }
    rig_done(&rig);
}

// Long random chains with shortcuts, listed in random order: every producer must come first.
static void sorting_holds_for_random_graphs(void **state)
{
    (void)state;
    enum { NODES = 200 };
    uint64_t seed = 20240611;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t order[NODES];
        for (uint32_t i = 0; i < NODES; i++) {
            order[i] = i;
        }
        for (uint32_t i = NODES; i > 1; i--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t j = (uint32_t)(seed >> 33) % i;
            uint32_t swap = order[i - 1];
            order[i - 1] = order[j];
            order[j] = swap;
        }
        struct base_buffer graph = ob_new();
        for (uint32_t i = 0; i < NODES; i++) {
            uint32_t n = order[i];
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t other = n == 0 ? 0 : (uint32_t)(seed >> 33) % n;
            char inputs[64], output[32];
            (void)snprintf(inputs, sizeof(inputs), n == 0 ? "x" : "v%u,v%u", n - 1, other);
            (void)snprintf(output, sizeof(output), "v%u", n);
            ob_take(&graph, OB_GRAPH_NODE, ob_node("Op", output, inputs, output));
        }
        ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
        ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("v199", ENG_F32, 2, shape23));
        struct rig rig;
        assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
        const struct eng_graph *g = rig.model.graph;
        assert_int_equal(g->node_count, NODES);
        for (uint32_t n = 0; n < NODES; n++) {
            for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
                uint32_t producer = g->values[g->nodes[n].inputs[i]].producer;
                assert_true(producer == ENG_NONE || producer < n);
            }
        }
        rig_done(&rig);
    }
}

static void nodes_nobody_needs_are_dropped(void **state)
{
    (void)state;
    struct base_buffer graph = relu_graph();
    ob_take(&graph, OB_GRAPH_NODE, ob_node("UnknownThing", "dead", "x", "dead1"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "dead too", "dead1", "dead2"));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
    assert_int_equal(rig.model.graph->node_count, 1);
    rig_done(&rig);
}

static void unknown_operators_are_named(void **state)
{
    (void)state;
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, ob_node("UnknownThing", "n7", "x", "y"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 11, graph), NULL), BASE_ERR_UNSUPPORTED);
    assert_string_equal(rig.error.text,
                        "node 'n7' (UnknownThing, opset 11): this operator is not supported");
    rig_done(&rig);
}

// Opset 6: what did not change until 7 is read, the rest is refused.
static void old_opsets_are_read_where_they_mean_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attr;
        int64_t value;
        enum base_status status;
    } cases[] = {
        {"Relu", NULL, 0, BASE_OK},
        {"Add", "broadcast", 1, BASE_OK},
        {"Add", "axis", 1, BASE_OK}, // its handler knows of it
        {"BatchNormalization", "is_test", 1, BASE_OK},
        {"BatchNormalization", "is_test", 0, BASE_ERR_UNSUPPORTED},
        {"LSTM", NULL, 0, BASE_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_buffer node = ob_node(cases[i].op, "n", "x", "y");
        if (cases[i].attr != NULL) {
            ob_attr_int(&node, cases[i].attr, cases[i].value);
        }
        struct base_buffer graph = ob_new();
        ob_take(&graph, OB_GRAPH_NODE, node);
        ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
        ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
        struct rig rig;
        assert_int_equal(rig_read(&rig, ob_model(3, 6, graph), NULL), cases[i].status);
        if (cases[i].status == BASE_OK) {
            assert_int_equal(rig.model.graph->nodes[0].opset, 6);
        } else {
            assert_non_null(strstr(rig.error.text, "opset 6"));
        }
        rig_done(&rig);
    }
}

// An If whose branches read values two scopes out.
static void subgraphs_capture_outer_values(void **state)
{
    (void)state;
    struct base_buffer inner = ob_new();
    ob_take(&inner, OB_GRAPH_NODE, ob_node("Add", "inner add", "late,x", "r"));
    ob_take(&inner, OB_GRAPH_OUTPUT, ob_value("r", ENG_F32, 2, shape23));
    struct base_buffer nested = ob_node("If", "inner if", "flag", "s");
    ob_attr_graph(&nested, "then_branch", inner);
    struct base_buffer middle = ob_new();
    ob_take(&middle, OB_GRAPH_NODE, nested);
    ob_take(&middle, OB_GRAPH_OUTPUT, ob_value("s", ENG_F32, 2, shape23));
    struct base_buffer outer = ob_node("If", "outer if", "flag", "y");
    ob_attr_graph(&outer, "then_branch", middle);
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, outer); // in front of what it captures
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "maker", "x", "late"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("flag", ENG_BOOL, 0, NULL));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
    const struct eng_graph *g = rig.model.graph;
    assert_int_equal(g->node_count, 2);
    assert_string_equal(g->nodes[0].name, "maker");
    const struct eng_graph *m = eng_node_graph(&g->nodes[1], "then_branch");
    assert_non_null(m);
    assert_ptr_equal(m->parent, g);
    assert_int_equal(m->capture_count, 3); // late, x, flag
    for (uint32_t c = 0; c < m->capture_count; c++) {
        assert_string_equal(m->values[m->captures[c].inner].name,
                            g->values[m->captures[c].outer].name);
        assert_int_equal(m->values[m->captures[c].inner].producer, ENG_NONE);
    }
    const struct eng_graph *i = eng_node_graph(&m->nodes[0], "then_branch");
    assert_int_equal(i->capture_count, 2);
    assert_ptr_equal(i->parent, m);
    assert_true(i->values[i->captures[0].inner].desc.dtype == ENG_UNDEFINED); // late: not declared
    assert_true(i->values[i->captures[1].inner].desc.dtype == ENG_F32);       // x: declared
    rig_done(&rig);
}

static void attributes_of_every_kind(void **state)
{
    (void)state;
    struct base_buffer node = ob_node("Op", "", "x", "y");
    ob_attr_int(&node, "i", -3);
    ob_attr_float(&node, "f", 1.5F);
    struct base_buffer text = ob_new();
    ob_add(&text, "a\0b", 3);
    ob_attr_take(&node, "s", OB_ATTR_S, 3, text);
    struct base_buffer ints = ob_new();
    ob_varint(&ints, 1);
    ob_varint(&ints, (uint64_t)(int64_t)-1);
    ob_attr_take(&node, "ints", OB_ATTR_INTS, 7, ints);
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_OK);
    const struct eng_node *n = &rig.model.graph->nodes[0];
    assert_int_equal(eng_node_int(n, "i", 0), -3);
    assert_int_equal(eng_node_int(n, "f", 9), 9); // another kind
    assert_int_equal(eng_node_int(n, "missing", 4), 4);
    assert_true(eng_node_float(n, "f", 0) == 1.5F);
    struct eng_string s = eng_node_string(n, "s", "");
    assert_int_equal(s.size, 3);
    assert_memory_equal(s.at, "a\0b", 3);
    assert_true(eng_string_is(eng_node_string(n, "none", "NOTSET"), "NOTSET"));
    uint32_t count = 0;
    const int64_t *list = eng_node_ints(n, "ints", &count);
    assert_int_equal(count, 2);
    assert_int_equal(list[0], 1);
    assert_int_equal(list[1], -1);
    assert_null(eng_node_floats(n, "ints", &count));
    assert_int_equal(count, 0);
    rig_done(&rig);
}

static struct base_buffer external_tensor(const char *location, const char *offset,
                                          const char *length)
{
    struct base_buffer tensor = ob_tensor("w", ENG_F32, 1, (const int64_t[]){3});
    const char *const entries[3][2] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (uint32_t i = 0; i < 3; i++) {
        if (entries[i][1] != NULL) {
            struct base_buffer entry = ob_new();
            ob_text(&entry, 1, entries[i][0]);
            ob_text(&entry, 2, entries[i][1]);
            ob_take(&tensor, OB_TENSOR_EXTERNAL, entry);
        }
    }
    ob_number(&tensor, OB_TENSOR_LOCATION, 1);
    return tensor;
}

static void external_data_is_mapped(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_eng_model_XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/weights.bin", folder);
    const float data[4] = {9, 1, 2, 3};
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, sizeof(data), file), sizeof(data));
    assert_int_equal(fclose(file), 0);

    struct rig rig;
    struct base_buffer tensor = external_tensor("weights.bin", "4", "12");
    assert_int_equal(rig_read(&rig, with_initializer(tensor), folder), BASE_OK);
    const struct eng_value *w = &rig.model.graph->values[rig_value(rig.model.graph, "w")];
    assert_memory_equal(w->data, data + 1, 12);
    eng_model_release_pages(&rig.model, w->data, 12); // smaller than a page: nothing happens
    assert_memory_equal(w->data, data + 1, 12);
    rig_done(&rig);

    // Not aligned to the element: copied.
    tensor = external_tensor("./weights.bin", "3", NULL);
    assert_int_equal(rig_read(&rig, with_initializer(tensor), folder), BASE_OK);
    w = &rig.model.graph->values[rig_value(rig.model.graph, "w")];
    assert_int_equal((uintptr_t)w->data % 4, 0);
    assert_memory_equal(w->data, (const uint8_t *)data + 3, 12);
    rig_done(&rig);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void copied_files_are_not_needed_again(void **state)
{
    (void)state;
    char path[] = "/tmp/test_eng_model_XXXXXX";
    static uint8_t data[5 * 4096];
    struct eng_mappings *mappings = NULL;
    struct base_error error = {0};
    const void *bytes = NULL;
    size_t size = 0;
    memset(data, 7, sizeof(data));
    int file = mkstemp(path);
    assert_int_equal(write(file, data, sizeof(data)), sizeof(data));
    assert_int_equal(eng_mappings_new(1 << 20, true, &mappings), BASE_OK);
    assert_int_equal(eng_mappings_open(mappings, path, &bytes, &size, &error), BASE_OK);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(size, sizeof(data));
    assert_memory_equal(bytes, data, size);
    eng_mappings_release(mappings, bytes, size);
    assert_memory_equal(bytes, data, size);
    eng_mappings_free(mappings);
    assert_int_equal(close(file), 0);
    assert_int_equal(unlink(path), 0);
}

static void the_key_follows_structure(void **state)
{
    (void)state;
    struct rig a, b, c;
    struct base_buffer other = relu_graph();
    ob_text(&other, OB_GRAPH_NAME, "renamed");
    assert_int_equal(rig_read(&a, ob_model(8, 13, relu_graph()), NULL), BASE_OK);
    assert_int_equal(rig_read(&b, ob_model(7, 13, other), NULL), BASE_OK);
    assert_int_equal(rig_read(&c, ob_model(8, 12, relu_graph()), NULL), BASE_OK);
    assert_true(eng_graph_key(a.model.graph) == eng_graph_key(b.model.graph));
    assert_true(eng_graph_key(a.model.graph) != eng_graph_key(c.model.graph));
    rig_done(&a);
    rig_done(&b);
    rig_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_model_is_read),
        cmocka_unit_test(raw_data_is_taken_where_it_lies),
        cmocka_unit_test(typed_elements_are_decoded),
        cmocka_unit_test(strings_are_read),
        cmocka_unit_test(old_files_list_initializers_as_inputs),
        cmocka_unit_test(constants_become_initializers),
        cmocka_unit_test(unsorted_nodes_are_sorted),
        cmocka_unit_test(sorting_holds_for_random_graphs),
        cmocka_unit_test(nodes_nobody_needs_are_dropped),
        cmocka_unit_test(unknown_operators_are_named),
        cmocka_unit_test(old_opsets_are_read_where_they_mean_the_same),
        cmocka_unit_test(subgraphs_capture_outer_values),
        cmocka_unit_test(attributes_of_every_kind),
        cmocka_unit_test(external_data_is_mapped),
        cmocka_unit_test(copied_files_are_not_needed_again),
        cmocka_unit_test(the_key_follows_structure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
