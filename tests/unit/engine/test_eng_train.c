// Training: optimizer steps against closed forms, losses against their definitions, a small CNN on
// a task it can solve, an attention model against the loss its data imply.
#include "onnx_kit.h"

#include "engine/train.h"

#include <math.h>
#include <unistd.h>

static struct eng_model *load(struct onnx_kit *kit)
{
    struct base_error error = {0};
    struct eng_model *model = NULL;
    const struct onnx_part *part = onnx_finish(kit, 13);
    enum base_status status = eng_model_load_memory(part->bytes, part->size, NULL, &model, &error);
    if (status != BASE_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    return model;
}

static struct eng_trainer *new_trainer(struct eng_model *model,
                                       const struct eng_trainer_options *options)
{
    struct base_error error = {0};
    struct eng_trainer *trainer = NULL;
    enum base_status status = eng_trainer_new(model, options, &trainer, &error);
    if (status != BASE_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    return trainer;
}

static float step(struct eng_trainer *trainer, const struct eng_array *inputs, size_t count,
                  const struct eng_array *target, bool is_update)
{
    struct base_error error = {0};
    float loss = NAN;
    struct eng_batch batch = {.inputs = inputs, .input_count = count, .target = target};
    enum base_status status = is_update ? eng_trainer_step(trainer, &batch, &loss, &error)
                                        : eng_trainer_evaluate(trainer, &batch, &loss, &error);
    if (status != BASE_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    return loss;
}

static struct eng_array array_of(enum eng_dtype dtype, void *data, const int64_t *dims, size_t rank)
{
    struct eng_array array = {.desc = {.dtype = dtype, .rank = (uint32_t)rank}, .data = data};
    memcpy(array.desc.dims, dims, rank * sizeof(int64_t));
    return array;
}

static double normal(struct base_prng *prng)
{
    double u = 1 - base_prng_unit(prng), v = base_prng_unit(prng);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void add_weight(struct onnx_kit *kit, struct base_prng *prng, const char *name, double scale,
                       const int64_t *dims, size_t rank)
{
    static float values[16384];
    size_t count = 1;
    for (size_t d = 0; d < rank; d++) {
        count *= (size_t)dims[d];
    }
    assert_true(count <= TEST_COUNT(values));
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(scale * normal(prng));
    }
    onnx_initializer(kit, name, ENG_F32, dims, rank, values, count * sizeof(float));
}

static void add_ints(struct onnx_kit *kit, const char *name, const int64_t *values, int64_t count)
{
    onnx_initializer(kit, name, ENG_I64, ONNX_DIMS(count), values, (size_t)count * sizeof(int64_t));
}

// --- optimizers -------------------------------------------------------------------------------

// y = x w + b with x [2, 3], w [3, 1].
static struct eng_model *linear_model(void)
{
    struct onnx_kit *kit = onnx_begin();
    const float w[] = {0.5F, -1, 2}, b[] = {0.25F};
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_output(kit, "y", ENG_F32, -1, 1);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3, 1), w, sizeof(w));
    onnx_initializer(kit, "b", ENG_F32, ONNX_DIMS(1), b, sizeof(b));
    onnx_node(kit, "MatMul", "x w", "p");
    onnx_node(kit, "Add", "p b", "y");
    return load(kit);
}

static const float linear_x[6] = {1, 2, -1, 0.5F, -1, 3};
static const float linear_t[2] = {1, -2};

// Loss and gradients of the mean square by hand.
static double linear_loss(const double *p, double *gradient)
{
    double loss = 0;
    memset(gradient, 0, 4 * sizeof(double));
    for (int i = 0; i < 2; i++) {
        double y = p[3];
        for (int j = 0; j < 3; j++) {
            y += p[j] * (double)linear_x[i * 3 + j];
        }
        double rest = y - (double)linear_t[i];
        loss += rest * rest / 2;
        for (int j = 0; j < 3; j++) {
            gradient[j] += rest * (double)linear_x[i * 3 + j];
        }
        gradient[3] += rest;
    }
    return loss;
}

static void by_hand(const struct eng_trainer_options *o, int at, double *p, double *first,
                    double *second, const double *gradient)
{
    for (int i = 0; i < 4; i++) {
        double g = gradient[i] + (double)o->weight_decay * p[i], rate = (double)o->learning_rate;
        if (o->optimizer == ENG_OPTIMIZER_SGD) {
            first[i] = (double)o->momentum * first[i] + g;
            p[i] -= rate * first[i];
        } else {
            first[i] = 0.9 * first[i] + 0.1 * g;
            second[i] = 0.999 * second[i] + 0.001 * g * g;
            p[i] -= rate * (first[i] / (1 - pow(0.9, at))) /
                    (sqrt(second[i] / (1 - pow(0.999, at))) + 1e-8);
        }
    }
}

static void optimizers_take_the_steps_they_should(void **state)
{
    (void)state;
    static const struct eng_trainer_options cases[] = {
        {.loss = ENG_LOSS_MSE, .learning_rate = 0.05F},
        {.loss = ENG_LOSS_MSE, .learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 0.1F},
        {.loss = ENG_LOSS_MSE, .learning_rate = 0.1F, .optimizer = ENG_OPTIMIZER_ADAM},
        {.loss = ENG_LOSS_MSE,
         .learning_rate = 0.1F,
         .optimizer = ENG_OPTIMIZER_ADAM,
         .weight_decay = 0.2F},
    };
    float x[6], t[2];
    memcpy(x, linear_x, sizeof(x));
    memcpy(t, linear_t, sizeof(t));
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(2, 3));
    struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(2, 1));
    for (size_t c = 0; c < TEST_COUNT(cases); c++) {
        struct eng_model *model = linear_model();
        struct eng_trainer *trainer = new_trainer(model, &cases[c]);
        double p[4] = {0.5, -1, 2, 0.25}, first[4] = {0}, second[4] = {0}, gradient[4];
        assert_int_equal(eng_trainer_parameter_count(trainer), 2);
        for (int at = 1; at <= 8; at++) {
            double expected = linear_loss(p, gradient);
            float found = step(trainer, &input, 1, &target, true);
            by_hand(&cases[c], at, p, first, second, gradient);
            assert_true(fabs((double)found - expected) < 1e-5 * (1 + expected));
            struct eng_parameter w, b;
            assert_true(eng_trainer_parameter(
                trainer, (size_t)eng_trainer_parameter_index(trainer, "w"), &w));
            assert_true(eng_trainer_parameter(
                trainer, (size_t)eng_trainer_parameter_index(trainer, "b"), &b));
            for (int i = 0; i < 4; i++) {
                double value = (double)(i < 3 ? (const float *)w.value.data
                                              : (const float *)b.value.data)[i < 3 ? i : 0];
                double slope = (double)(i < 3 ? w.gradient[i] : b.gradient[0]);
                if (fabs(value - p[i]) > 1e-5 || fabs(slope - gradient[i]) > 1e-4) {
                    print_error("case %zu, step %d, parameter %d: %g for %g, slope %g for %g\n", c,
                                at, i, value, p[i], slope, gradient[i]);
                    fail();
                }
            }
        }
        eng_trainer_free(trainer);
        eng_model_unref(model);
    }
}

// --- losses -----------------------------------------------------------------------------------

// y = x * w over [2, 3]; w is 1, so the output is x.
static struct eng_model *identity_model(void)
{
    struct onnx_kit *kit = onnx_begin();
    const float w[] = {1, 1, 1};
    onnx_input(kit, "x", ENG_F32, 2, 3);
    onnx_output(kit, "y", ENG_F32, 2, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(kit, "Mul", "x w", "y");
    return load(kit);
}

static void expect_loss(enum eng_loss loss, bool from_probabilities, const float *x,
                        struct eng_array target, double expected)
{
    struct eng_model *model = identity_model();
    struct eng_trainer *trainer = new_trainer(
        model, &(struct eng_trainer_options){
                   .loss = loss, .from_probabilities = from_probabilities, .learning_rate = 1});
    float copy[6];
    memcpy(copy, x, sizeof(copy));
    struct eng_array input = array_of(ENG_F32, copy, ONNX_DIMS(2, 3));
    double found = (double)step(trainer, &input, 1, &target, false);
    printf("loss %d: %g, expected %g\n", (int)loss, found, expected);
    assert_true(fabs(found - expected) < 1e-5 * (1 + fabs(expected)));
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void losses_are_what_they_say(void **state)
{
    (void)state;
    const float x[6] = {1, -2, 0.5F, 3, 0, -1}, p[6] = {0.2F, 0.5F, 0.3F, 0.7F, 0.2F, 0.1F};
    float t[6] = {1, 0, 0.25F, 0, 1, 1};
    int64_t labels[2] = {2, 0};
    int32_t narrow[2] = {2, 0};
    double square = 0, scores = 0, shares = 0, soft = 0, entropy = 0;
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        for (int j = 0; j < 3; j++) {
            sum += exp((double)x[i * 3 + j]);
        }
        entropy -= ((double)x[i * 3 + labels[i]] - log(sum)) / 2;
        for (int j = 0; j < 3; j++) {
            int k = i * 3 + j;
            double q = 1 / (1 + exp(-(double)x[k])), target = (double)t[k];
            square += pow((double)x[k] - target, 2) / 6;
            scores -= (target * log(q) + (1 - target) * log(1 - q)) / 6;
            shares -= (target * log((double)p[k]) + (1 - target) * log(1 - (double)p[k])) / 6;
            soft -= target * ((double)x[k] - log(sum)) / 2;
        }
    }
    struct eng_array dense = array_of(ENG_F32, t, ONNX_DIMS(2, 3));
    struct eng_array sparse = array_of(ENG_I64, labels, ONNX_DIMS(2));
    expect_loss(ENG_LOSS_MSE, false, x, dense, square);
    expect_loss(ENG_LOSS_BCE, false, x, dense, scores);
    expect_loss(ENG_LOSS_BCE, true, p, dense, shares);
    expect_loss(ENG_LOSS_CROSS_ENTROPY, false, x, dense, soft);
    expect_loss(ENG_LOSS_CROSS_ENTROPY, false, x, sparse, entropy);
    expect_loss(ENG_LOSS_CROSS_ENTROPY, false, x, array_of(ENG_I32, narrow, ONNX_DIMS(2, 1)),
                entropy);
    expect_loss(ENG_LOSS_CROSS_ENTROPY, true, p, sparse, -(log(0.3) + log(0.7)) / 2);
}

// --- a small CNN ------------------------------------------------------------------------------

enum { SIDE = 8, BATCH = 16 };

static struct eng_model *cnn_model(struct base_prng *prng)
{
    struct onnx_kit *kit = onnx_begin();
    const int64_t pads[] = {1, 1, 1, 1}, two[] = {2, 2}, shape[] = {-1, 128};
    onnx_input(kit, "x", ENG_F32, -1, 1, SIDE, SIDE);
    onnx_output(kit, "y", ENG_F32, -1, 3);
    add_weight(kit, prng, "conv.w", 0.3, ONNX_DIMS(8, 1, 3, 3));
    add_weight(kit, prng, "conv.b", 0.1, ONNX_DIMS(8));
    add_weight(kit, prng, "depthwise.w", 0.3, ONNX_DIMS(8, 1, 3, 3));
    add_weight(kit, prng, "head.w", 0.1, ONNX_DIMS(128, 3));
    add_weight(kit, prng, "head.b", 0.1, ONNX_DIMS(3));
    add_ints(kit, "shape", shape, 2);
    onnx_node(kit, "Conv", "x conv.w conv.b", "c");
    onnx_attr_ints(kit, "pads", pads, 4);
    onnx_node(kit, "Relu", "c", "r");
    onnx_node(kit, "MaxPool", "r", "m");
    onnx_attr_ints(kit, "kernel_shape", two, 2);
    onnx_attr_ints(kit, "strides", two, 2);
    onnx_node(kit, "Conv", "m depthwise.w", "d");
    onnx_attr_ints(kit, "pads", pads, 4);
    onnx_attr_int(kit, "group", 8);
    onnx_node(kit, "Add", "d m", "s");
    onnx_node(kit, "Reshape", "s shape", "f");
    onnx_node(kit, "Gemm", "f head.w head.b", "y");
    return load(kit);
}

// Noise with a bright row, a bright column, or neither.
static void draw_images(struct base_prng *prng, float *x, int64_t *labels)
{
    for (int n = 0; n < BATCH; n++) {
        int line = (int)base_prng_below(prng, SIDE);
        labels[n] = (int64_t)base_prng_below(prng, 3);
        for (int i = 0; i < SIDE * SIDE; i++) {
            bool lit = (labels[n] == 0 && i / SIDE == line) || (labels[n] == 1 && i % SIDE == line);
            x[n * SIDE * SIDE + i] = (float)(0.3 * normal(prng) + (lit ? 1 : 0));
        }
    }
}

static void train_cnn(const char *isa, uint32_t threads, float *first, float *last)
{
    static float x[BATCH * SIDE * SIDE];
    int64_t labels[BATCH];
    struct base_prng prng;
    test_seed(&prng);
    struct eng_model *model = cnn_model(&prng);
    struct eng_trainer *trainer =
        new_trainer(model, &(struct eng_trainer_options){.loss = ENG_LOSS_CROSS_ENTROPY,
                                                         .optimizer = ENG_OPTIMIZER_ADAM,
                                                         .learning_rate = 0.01F,
                                                         .threads = threads,
                                                         .isa = isa});
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(BATCH, 1, SIDE, SIDE));
    struct eng_array target = array_of(ENG_I64, labels, ONNX_DIMS(BATCH));
    double sum = 0;
    for (int i = 0; i < 150; i++) {
        draw_images(&prng, x, labels);
        float loss = step(trainer, &input, 1, &target, true);
        *first = i == 0 ? loss : *first;
        sum += i >= 130 ? (double)loss / 20 : 0;
    }
    *last = (float)sum;
    struct eng_trainer_stats stats;
    eng_trainer_stats(trainer, &stats);
    printf("%s: loss %g, then %g; %u commands, %u of them forward\n", isa != NULL ? isa : "best",
           (double)*first, sum, stats.command_count, stats.forward_count);
    assert_int_equal(stats.step_count, 150);
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void a_small_cnn_learns(void **state)
{
    (void)state;
    float first[2] = {0}, last[2] = {0};
    train_cnn("ref", 1, &first[0], &last[0]);
    assert_true(first[0] > 0.9F && last[0] < 0.15F);
    train_cnn(NULL, 2, &first[1], &last[1]);
    assert_true(fabsf(first[1] - first[0]) < 1e-4F && last[1] < 0.15F);
}

// --- an attention model against its teacher ---------------------------------------------------

// Clicks on a candidate item after a history of items, as in deep interest networks: each history
// item is weighed by a small network over (item, candidate, difference, product), the weighted sum
// and the candidate go through another one.
enum { ITEMS = 24, HISTORY = 6, USERS = 128 };

static struct eng_model *interest_model(struct base_prng *prng, double scale, int64_t width,
                                        int64_t hidden)
{
    struct onnx_kit *kit = onnx_begin();
    const int64_t one[] = {1}, expand[] = {1, HISTORY, 1};
    onnx_input(kit, "history", ENG_I64, -1, HISTORY);
    onnx_input(kit, "candidate", ENG_I64, -1);
    onnx_output(kit, "score", ENG_F32, -1, 1);
    add_weight(kit, prng, "items", scale, ONNX_DIMS(ITEMS, width));
    add_weight(kit, prng, "a1.w", 0.5 * scale, ONNX_DIMS(4 * width, hidden));
    add_weight(kit, prng, "a1.b", 0.1, ONNX_DIMS(hidden));
    add_weight(kit, prng, "a2.w", 0.5 * scale, ONNX_DIMS(hidden, 1));
    add_weight(kit, prng, "t1.w", 0.5 * scale, ONNX_DIMS(2 * width, hidden));
    add_weight(kit, prng, "t1.b", 0.1, ONNX_DIMS(hidden));
    add_weight(kit, prng, "t2.w", scale, ONNX_DIMS(hidden, 1));
    add_weight(kit, prng, "t2.b", 0.1, ONNX_DIMS(1));
    add_ints(kit, "one", one, 1);
    add_ints(kit, "times", expand, 3);
    onnx_node(kit, "Gather", "items history", "h");
    onnx_node(kit, "Gather", "items candidate", "q");
    onnx_node(kit, "Unsqueeze", "q one", "q1");
    onnx_node(kit, "Tile", "q1 times", "qs");
    onnx_node(kit, "Sub", "q1 h", "difference");
    onnx_node(kit, "Mul", "q1 h", "product");
    onnx_node(kit, "Concat", "h qs difference product", "pair");
    onnx_attr_int(kit, "axis", 2);
    onnx_node(kit, "MatMul", "pair a1.w", "a1");
    onnx_node(kit, "Add", "a1 a1.b", "a1b");
    onnx_node(kit, "Sigmoid", "a1b", "a1s");
    onnx_node(kit, "MatMul", "a1s a2.w", "weight");
    onnx_node(kit, "Mul", "weight h", "weighed");
    onnx_node(kit, "ReduceSum", "weighed one", "interest");
    onnx_attr_int(kit, "keepdims", 0);
    onnx_node(kit, "Concat", "interest q", "top");
    onnx_attr_int(kit, "axis", 1);
    onnx_node(kit, "Gemm", "top t1.w t1.b", "t1");
    onnx_node(kit, "Relu", "t1", "t1r");
    onnx_node(kit, "Gemm", "t1r t2.w t2.b", "score");
    return load(kit);
}

struct clicks {
    int64_t history[USERS * HISTORY], candidate[USERS];
    float clicked[USERS];
    struct eng_array inputs[2], target;
};

// Clicks drawn with the probabilities the teacher's scores say.
static void draw_clicks(struct base_prng *prng, struct eng_session *teacher, struct clicks *c)
{
    struct eng_array scores = {0};
    c->inputs[0] = array_of(ENG_I64, c->history, ONNX_DIMS(USERS, HISTORY));
    c->inputs[1] = array_of(ENG_I64, c->candidate, ONNX_DIMS(USERS));
    c->target = array_of(ENG_F32, c->clicked, ONNX_DIMS(USERS, 1));
    for (int i = 0; i < USERS * HISTORY; i++) {
        c->history[i] = (int64_t)base_prng_below(prng, ITEMS);
    }
    for (int i = 0; i < USERS; i++) {
        c->candidate[i] = (int64_t)base_prng_below(prng, ITEMS);
    }
    assert_int_equal(eng_session_set_input(teacher, 0, &c->inputs[0], NULL), BASE_OK);
    assert_int_equal(eng_session_set_input(teacher, 1, &c->inputs[1], NULL), BASE_OK);
    assert_int_equal(eng_session_run(teacher, NULL, NULL), BASE_OK);
    assert_int_equal(eng_session_output(teacher, 0, &scores, NULL), BASE_OK);
    for (int i = 0; i < USERS; i++) {
        double score = (double)((const float *)scores.data)[i];
        c->clicked[i] = base_prng_unit(prng) < 1 / (1 + exp(-score)) ? 1.0F : 0.0F;
    }
}

static void an_attention_model_reaches_its_teacher(void **state)
{
    (void)state;
    static struct clicks batch;
    struct base_prng prng;
    struct eng_session *session = NULL;
    struct eng_trainer_options options = {
        .loss = ENG_LOSS_BCE, .optimizer = ENG_OPTIMIZER_ADAM, .learning_rate = 0.01F};
    test_seed(&prng);
    struct eng_model *teacher = interest_model(&prng, 1.1, 4, 8);
    struct eng_trainer *judge = new_trainer(teacher, &options);
    assert_int_equal(eng_session_new(teacher, NULL, &session, NULL), BASE_OK);
    struct eng_model *student = interest_model(&prng, 0.5, 8, 24);
    struct eng_trainer *trainer = new_trainer(student, &options);
    double begin = 0, reached = 0, bayes = 0;
    enum { STEPS = 6000, LAST = 200, FIRST = 20 };
    for (int i = 0; i < STEPS; i++) {
        float rate = i < STEPS / 2 ? 0.02F : i < STEPS * 3 / 4 ? 0.005F : 0.001F;
        assert_int_equal(eng_trainer_set_learning_rate(trainer, rate), BASE_OK);
        draw_clicks(&prng, session, &batch);
        double loss = (double)step(trainer, batch.inputs, 2, &batch.target, true);
        begin += i < FIRST ? loss / FIRST : 0;
        if (i >= STEPS - LAST) { // on the same draws, so that their noise cancels
            reached += loss / LAST;
            bayes += (double)step(judge, batch.inputs, 2, &batch.target, false) / LAST;
        }
    }
    printf("loss %g at first, %g reached, %g the teacher's own\n", begin, reached, bayes);
    assert_true(begin > bayes + 0.1);
    assert_true(reached < bayes + 0.02);
    eng_trainer_free(trainer);
    eng_trainer_free(judge);
    eng_session_free(session);
    eng_model_unref(student);
    eng_model_unref(teacher);
}

// --- the interface ----------------------------------------------------------------------------

static void frozen_parameters_stay(void **state)
{
    (void)state;
    struct eng_model *model = linear_model();
    const char *frozen[] = {"w*"};
    struct eng_trainer *trainer = new_trainer(
        model,
        &(struct eng_trainer_options){
            .loss = ENG_LOSS_MSE, .learning_rate = 0.1F, .frozen = frozen, .frozen_count = 1});
    float x[6], t[2];
    memcpy(x, linear_x, sizeof(x));
    memcpy(t, linear_t, sizeof(t));
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(2, 3));
    struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(2, 1));
    (void)step(trainer, &input, 1, &target, true);
    struct eng_parameter w, b;
    assert_true(
        eng_trainer_parameter(trainer, (size_t)eng_trainer_parameter_index(trainer, "w"), &w));
    assert_true(
        eng_trainer_parameter(trainer, (size_t)eng_trainer_parameter_index(trainer, "b"), &b));
    assert_true(w.is_frozen && w.gradient == NULL);
    assert_memory_equal(w.value.data, ((const float[]){0.5F, -1, 2}), 3 * sizeof(float));
    assert_true(!b.is_frozen && ((const float *)b.value.data)[0] != 0.25F);
    assert_int_equal(eng_trainer_parameter_index(trainer, "nothing"), -1);
    assert_false(eng_trainer_parameter(trainer, 2, &w));
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

// Scale and bias of a normalisation that was not folded learn; its statistics and scalars do not.
static void statistics_stay(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    const float scale[] = {1, 2}, bias[] = {0, 0.5F}, mean[] = {0.5F, 1}, var[] = {1, 4};
    const float factor[] = {3};
    onnx_input(kit, "x", ENG_F32, 3, 2);
    onnx_output(kit, "y", ENG_F32, 3, 2);
    onnx_initializer(kit, "scale", ENG_F32, ONNX_DIMS(2), scale, sizeof(scale));
    onnx_initializer(kit, "bias", ENG_F32, ONNX_DIMS(2), bias, sizeof(bias));
    onnx_initializer(kit, "mean", ENG_F32, ONNX_DIMS(2), mean, sizeof(mean));
    onnx_initializer(kit, "var", ENG_F32, ONNX_DIMS(2), var, sizeof(var));
    onnx_initializer(kit, "factor", ENG_F32, NULL, 0, factor, sizeof(factor));
    onnx_node(kit, "Mul", "x factor", "m");
    onnx_node(kit, "Relu", "m", "r");
    onnx_node(kit, "BatchNormalization", "r scale bias mean var", "y");
    struct eng_model *model = load(kit);
    struct eng_trainer *trainer = new_trainer(
        model, &(struct eng_trainer_options){.loss = ENG_LOSS_MSE, .learning_rate = 0.1F});
    float x[6] = {1, 2, -1, 0.5F, 0.25F, 3}, t[6] = {0};
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(3, 2));
    struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(3, 2));
    double slope[2] = {0}, loss = 0;
    for (int i = 0; i < 6; i++) {
        double r = 3 * (double)x[i] > 0 ? 3 * (double)x[i] : 0;
        double z = (r - (double)mean[i % 2]) / sqrt((double)var[i % 2] + 1e-5);
        double y = z * (double)scale[i % 2] + (double)bias[i % 2];
        loss += y * y / 6;
        slope[i % 2] += y * z / 3;
    }
    assert_true(fabs((double)step(trainer, &input, 1, &target, true) - loss) < 1e-4);
    for (size_t i = 0; i < eng_trainer_parameter_count(trainer); i++) {
        struct eng_parameter p;
        assert_true(eng_trainer_parameter(trainer, i, &p));
        bool learns = strcmp(p.name, "scale") == 0 || strcmp(p.name, "bias") == 0;
        assert_int_equal(p.is_frozen, !learns);
        assert_int_equal(p.gradient != NULL, learns);
        for (int j = 0; j < 2 && strcmp(p.name, "scale") == 0; j++) {
            assert_true(fabs((double)p.gradient[j] - slope[j]) < 1e-4);
        }
    }
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

// Bounds of Clip written as tensors of one element are no parameters; and what lies at a bound or
// beyond passes nothing back.
static void bounds_stay(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    const float scale[] = {1, 2}, low[] = {0}, high[] = {6};
    onnx_input(kit, "x", ENG_F32, 3, 2);
    onnx_output(kit, "y", ENG_F32, 3, 2);
    onnx_initializer(kit, "scale", ENG_F32, ONNX_DIMS(2), scale, sizeof(scale));
    onnx_initializer(kit, "low", ENG_F32, ONNX_DIMS(1), low, sizeof(low));
    onnx_initializer(kit, "high", ENG_F32, ONNX_DIMS(1), high, sizeof(high));
    onnx_node(kit, "Mul", "x scale", "m");
    onnx_node(kit, "Clip", "m low high", "y");
    struct eng_model *model = load(kit);
    struct eng_trainer *trainer = new_trainer(
        model, &(struct eng_trainer_options){.loss = ENG_LOSS_MSE, .learning_rate = 0.1F});
    float x[6] = {1, 2, -1, 3, 7, 0.5F}, t[6] = {0};
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(3, 2));
    struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(3, 2));
    double slope[2] = {0}, loss = 0;
    for (int i = 0; i < 6; i++) {
        const double m = (double)x[i] * (double)scale[i % 2], y = fmin(fmax(m, 0), 6);
        loss += y * y / 6;
        slope[i % 2] += m > 0 && m < 6 ? y * (double)x[i] / 3 : 0;
    }
    assert_true(fabs((double)step(trainer, &input, 1, &target, true) - loss) < 1e-4);
    struct eng_parameter p;
    assert_int_equal(eng_trainer_parameter_count(trainer), 1);
    assert_true(eng_trainer_parameter(trainer, 0, &p));
    for (int j = 0; j < 2; j++) {
        assert_true(fabs((double)p.gradient[j] - slope[j]) < 1e-4);
    }
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void weights_go_to_files_and_back(void **state)
{
    (void)state;
    char path[] = "/tmp/walle_train_XXXXXX.npz";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    close(file);
    struct eng_model *model = linear_model();
    struct eng_trainer_options options = {.loss = ENG_LOSS_MSE, .learning_rate = 0.1F};
    struct eng_trainer *one = new_trainer(model, &options), *other = new_trainer(model, &options);
    float x[6], t[2];
    memcpy(x, linear_x, sizeof(x));
    memcpy(t, linear_t, sizeof(t));
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(2, 3));
    struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(2, 1));
    (void)step(one, &input, 1, &target, true);
    float before = step(other, &input, 1, &target, false);
    assert_int_equal(eng_trainer_save(one, path, NULL), BASE_OK);
    assert_int_equal(eng_trainer_load(other, path, NULL), BASE_OK);
    float mine = step(one, &input, 1, &target, false);
    assert_true(mine == step(other, &input, 1, &target, false) && mine != before);
    assert_int_equal(eng_trainer_load(other, "/nonexistent.npz", NULL), BASE_ERR_IO);
    unlink(path);
    eng_trainer_free(one);
    eng_trainer_free(other);
    eng_model_unref(model);
}

static void shapes_may_change(void **state)
{
    (void)state;
    struct eng_model *model = linear_model();
    struct eng_trainer *trainer = new_trainer(
        model, &(struct eng_trainer_options){.loss = ENG_LOSS_MSE, .learning_rate = 0.01F});
    float x[12] = {0}, t[4] = {0};
    for (int64_t batch = 1; batch <= 4; batch++) {
        struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(batch, 3));
        struct eng_array target = array_of(ENG_F32, t, ONNX_DIMS(batch));
        assert_true(step(trainer, &input, 1, &target, true) >= 0);
    }
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    struct base_error error;
    struct eng_trainer *trainer = NULL;
    struct eng_model *model = identity_model();
    struct eng_trainer_options options = {.loss = ENG_LOSS_CROSS_ENTROPY};
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "learning rate"));
    options.learning_rate = 0.1F;
    options.output = "z";
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_NOT_FOUND);
    options.output = "y";
    options.isa = "z80";
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_INVALID);
    options.isa = NULL;
    options.frozen = (const char *const[]){"*"};
    options.frozen_count = 1;
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_UNSUPPORTED);
    options.frozen_count = 0;
    trainer = new_trainer(model, &options);
    float x[6] = {0};
    int64_t labels[3] = {0, 3, 0};
    struct eng_array input = array_of(ENG_F32, x, ONNX_DIMS(2, 3));
    struct eng_array target = array_of(ENG_I64, labels, ONNX_DIMS(2));
    struct eng_batch batch = {.inputs = &input, .target = &target};
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    batch.input_count = 1;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "the target's class at 1 is 3, not in 0..2"));
    labels[1] = -1;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "the target's class at 1 is -1, not in 0..2"));
    int32_t narrow[2] = {INT32_MIN, 0};
    target = array_of(ENG_I32, narrow, ONNX_DIMS(2));
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "the target's class at 0 is -2147483648, not in 0..2"));
    float chances[6] = {1, 0, 0, 0, 1.5F, 0};
    target = array_of(ENG_F32, chances, ONNX_DIMS(2, 3));
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "the target at 4 is 1.5, not in 0..1"));
    chances[4] = NAN;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "the target at 4 is nan, not in 0..1"));
    target = array_of(ENG_I64, labels, ONNX_DIMS(2));
    target.desc.dims[0] = 3;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    input.desc.dims[0] = 1;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "'x'"));
    eng_trainer_free(trainer);
    eng_trainer_free(NULL);
    eng_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_take_the_steps_they_should),
        cmocka_unit_test(losses_are_what_they_say),
        cmocka_unit_test(a_small_cnn_learns),
        cmocka_unit_test(an_attention_model_reaches_its_teacher),
        cmocka_unit_test(frozen_parameters_stay),
        cmocka_unit_test(statistics_stay),
        cmocka_unit_test(bounds_stay),
        cmocka_unit_test(weights_go_to_files_and_back),
        cmocka_unit_test(shapes_may_change),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
