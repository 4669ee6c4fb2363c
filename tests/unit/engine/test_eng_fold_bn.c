// BatchNormalization folded into Conv, ConvTranspose and Gemm: the new weights must give what the
// two nodes gave, computed here element by element.
#include "model_rig.h"

#include "model/fold_bn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { CHANNELS = 4, IN = 3 };

static const float scale[CHANNELS] = {0.5F, 2, -1, 3};
static const float shift[CHANNELS] = {1, -1, 0, 0.25F};
static const float mean[CHANNELS] = {0.1F, -0.2F, 3, 0};
static const float var[CHANNELS] = {1, 0.25F, 4, 0.01F};
static const float bias[CHANNELS] = {0.5F, -0.5F, 7, 1};
static const int64_t channel_dims[] = {CHANNELS};

struct shape {
    const char *op;
    uint32_t rank;
    int64_t dims[4];
    const char *attr;
    int64_t attr_value;
    bool has_bias;
};

static void add_channels(struct base_buffer *graph, const char *name, const float *values)
{
    ob_take(graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor(name, ENG_F32, 1, channel_dims, values, CHANNELS * sizeof(float)));
}

static struct base_buffer bn_node(const char *x, const char *y)
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s,scale,shift,mean,var", x);
    struct base_buffer node = ob_node("BatchNormalization", "bn", inputs, y);
    ob_attr_float(&node, "epsilon", 0.001F);
    return node;
}

static float weights[256];

// op -> bn, output "y"; `more` adds what a case needs.
static struct base_buffer pair(const struct shape *s, void (*more)(struct base_buffer *graph))
{
    int64_t count = 1;
    for (uint32_t d = 0; d < s->rank; d++) {
        count *= s->dims[d];
    }
    for (int64_t i = 0; i < count; i++) {
        weights[i] = (float)((i * 37) % 11) - 5;
    }
    struct base_buffer graph = ob_new();
    struct base_buffer node = ob_node(s->op, "op", s->has_bias ? "x,w,b" : "x,w", "mid");
    if (s->attr != NULL) {
        ob_attr_int(&node, s->attr, s->attr_value);
    }
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_NODE, bn_node("mid", "y"));
    ob_take(&graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("w", ENG_F32, s->rank, s->dims, weights, (size_t)count * sizeof(float)));
    if (s->has_bias) {
        add_channels(&graph, "b", bias);
    }
    add_channels(&graph, "scale", scale);
    add_channels(&graph, "shift", shift);
    add_channels(&graph, "mean", mean);
    add_channels(&graph, "var", var);
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 0, NULL));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 0, NULL));
    if (more != NULL) {
        more(&graph);
    }
    return ob_model(8, 13, graph);
}

static double factor_of(int64_t channel)
{
    return (double)scale[channel] / sqrt((double)var[channel] + (double)0.001F);
}

// Output channel of the weight at a flat position.
static int64_t channel_of(const struct shape *s, int64_t at)
{
    if (strcmp(s->op, "Conv") == 0) {
        return at / (s->dims[1] * s->dims[2] * s->dims[3]);
    }
    if (strcmp(s->op, "Gemm") == 0) {
        return s->attr_value != 0 ? at / s->dims[1] : at % s->dims[1];
    }
    int64_t area = s->dims[2] * s->dims[3];
    int64_t input = at / (s->dims[1] * area);
    int64_t group = input / (s->dims[0] / s->attr_value);
    return group * s->dims[1] + at / area % s->dims[1];
}

static void folding_gives_the_same_numbers(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {"Conv", 4, {CHANNELS, IN, 3, 3}, "group", 1, true},
        {"Conv", 4, {CHANNELS, 1, 3, 3}, "group", CHANNELS, false},
        {"ConvTranspose", 4, {IN, CHANNELS, 2, 2}, "group", 1, true},
        {"ConvTranspose", 4, {6, CHANNELS / 2, 2, 2}, "group", 2, false},
        {"Gemm", 2, {IN, CHANNELS}, "transB", 0, true},
        {"Gemm", 2, {CHANNELS, IN}, "transB", 1, true},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct shape *s = &shapes[i];
        struct rig rig;
        assert_int_equal(rig_read(&rig, pair(s, NULL), NULL), BASE_OK);
        uint32_t folded = 0;
        assert_int_equal(eng_model_fold_bn(&rig.model, NULL, &folded, NULL), BASE_OK);
        assert_int_equal(folded, 1);
        const struct eng_graph *g = rig.model.graph;
        assert_int_equal(g->node_count, 1);
        const struct eng_node *node = &g->nodes[0];
        assert_string_equal(node->op, s->op);
        assert_int_equal(node->outputs[0], g->outputs[0]);
        assert_int_equal(g->values[g->outputs[0]].producer, 0);
        assert_int_equal(node->input_count, 3);
        const struct eng_value *w = &g->values[node->inputs[1]];
        const float *got = w->data;
        for (int64_t at = 0; at < eng_desc_count(&w->desc); at++) {
            float expected = (float)((double)weights[at] * factor_of(channel_of(s, at)));
            assert_float_equal(got[at], expected, 1e-5F);
        }
        const float *b = g->values[node->inputs[2]].data;
        for (int64_t c = 0; c < CHANNELS; c++) {
            double start = s->has_bias ? (double)bias[c] : 0;
            assert_float_equal(
                b[c], (float)((start - (double)mean[c]) * factor_of(c) + (double)shift[c]), 1e-5F);
        }
        // The file's own weights are as they were: others may use them.
        const struct eng_value *old = &g->values[rig_value(g, "w")];
        assert_memory_equal(old->data, weights, eng_desc_bytes(&old->desc));
        rig_done(&rig);
    }
}

static const struct shape plain = {"Conv", 4, {CHANNELS, IN, 3, 3}, "group", 1, true};

static void add_reader(struct base_buffer *graph)
{
    ob_take(graph, OB_GRAPH_NODE, ob_node("Relu", "other", "mid", "z"));
    ob_take(graph, OB_GRAPH_OUTPUT, ob_value("z", ENG_F32, 0, NULL));
}

static void add_output(struct base_buffer *graph)
{
    ob_take(graph, OB_GRAPH_OUTPUT, ob_value("mid", ENG_F32, 0, NULL));
}

static void add_capture(struct base_buffer *graph)
{
    struct base_buffer inner = ob_new();
    ob_take(&inner, OB_GRAPH_NODE, ob_node("Relu", "", "mid", "r"));
    ob_take(&inner, OB_GRAPH_OUTPUT, ob_value("r", ENG_F32, 0, NULL));
    struct base_buffer node = ob_node("If", "", "flag", "z");
    ob_attr_graph(&node, "then_branch", inner);
    ob_take(graph, OB_GRAPH_NODE, node);
    ob_take(graph, OB_GRAPH_INPUT, ob_value("flag", ENG_BOOL, 0, NULL));
    ob_take(graph, OB_GRAPH_OUTPUT, ob_value("z", ENG_F32, 0, NULL));
}

static void others_that_read_the_product_prevent_it(void **state)
{
    (void)state;
    void (*const cases[])(struct base_buffer *) = {add_reader, add_output, add_capture};
    for (size_t i = 0; i < 3; i++) {
        struct rig rig;
        assert_int_equal(rig_read(&rig, pair(&plain, cases[i]), NULL), BASE_OK);
        uint32_t nodes = rig.model.graph->node_count, folded = 9;
        assert_int_equal(eng_model_fold_bn(&rig.model, NULL, &folded, NULL), BASE_OK);
        assert_int_equal(folded, 0);
        assert_int_equal(rig.model.graph->node_count, nodes);
        rig_done(&rig);
    }
}

// Weights two convolutions share: each gets its own.
static void add_twin(struct base_buffer *graph)
{
    ob_take(graph, OB_GRAPH_NODE, ob_node("Conv", "twin", "x,w,b", "mid2"));
    ob_take(graph, OB_GRAPH_NODE, bn_node("mid2", "z"));
    ob_take(graph, OB_GRAPH_NODE, ob_node("Conv", "bare", "x,w", "bare"));
    ob_take(graph, OB_GRAPH_OUTPUT, ob_value("z", ENG_F32, 0, NULL));
    ob_take(graph, OB_GRAPH_OUTPUT, ob_value("bare", ENG_F32, 0, NULL));
}

static void shared_weights_stay_for_the_others(void **state)
{
    (void)state;
    struct rig rig;
    assert_int_equal(rig_read(&rig, pair(&plain, add_twin), NULL), BASE_OK);
    uint32_t folded = 0;
    assert_int_equal(eng_model_fold_bn(&rig.model, NULL, &folded, NULL), BASE_OK);
    assert_int_equal(folded, 2);
    const struct eng_graph *g = rig.model.graph;
    assert_int_equal(g->node_count, 3);
    uint32_t w = rig_value(g, "w");
    for (uint32_t n = 0; n < 3; n++) {
        bool bare = strcmp(g->nodes[n].name, "bare") == 0;
        assert_int_equal(g->nodes[n].inputs[1] == w, bare);
    }
    rig_done(&rig);
}

// training_mode, statistics asked for, parameters that are computed: left alone.
static void other_forms_are_left_alone(void **state)
{
    (void)state;
    for (uint32_t form = 0; form < 3; form++) {
        struct base_buffer graph = ob_new();
        ob_take(&graph, OB_GRAPH_NODE, ob_node("Conv", "op", "x,w", "mid"));
        struct base_buffer node =
            ob_node("BatchNormalization", "bn",
                    form == 2 ? "mid,scale,shift,mean,live" : "mid,scale,shift,mean,var",
                    form == 1 ? "y,m" : "y");
        ob_attr_int(&node, "training_mode", form == 0 ? 1 : 0);
        ob_take(&graph, OB_GRAPH_NODE, node);
        ob_take(&graph, OB_GRAPH_INITIALIZER,
                ob_raw_tensor("w", ENG_F32, 4, (const int64_t[]){CHANNELS, 1, 1, 1}, scale, 16));
        add_channels(&graph, "scale", scale);
        add_channels(&graph, "shift", shift);
        add_channels(&graph, "mean", mean);
        add_channels(&graph, "var", var);
        ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 0, NULL));
        ob_take(&graph, OB_GRAPH_INPUT, ob_value("live", ENG_F32, 1, channel_dims));
        ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 0, NULL));
        struct rig rig;
        assert_int_equal(rig_read(&rig, ob_model(8, 14, graph), NULL), BASE_OK);
        uint32_t folded = 9;
        assert_int_equal(eng_model_fold_bn(&rig.model, NULL, &folded, NULL), BASE_OK);
        assert_int_equal(folded, 0);
        assert_int_equal(rig.model.graph->node_count, 2);
        rig_done(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folding_gives_the_same_numbers),
        cmocka_unit_test(others_that_read_the_product_prevent_it),
        cmocka_unit_test(shared_weights_stay_for_the_others),
        cmocka_unit_test(other_forms_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
