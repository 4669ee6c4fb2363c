// Every allocation failing in turn, alone and with all after it: loading, planning and running a
// convolution net, an attention block whose shapes change and depend on contents, and training.
// Each failure gives NOMEM and leaks nothing; a session or trainer that was made works on once
// there is memory again.
#include "engine/train.h"
#include "failing_heap.h"
#include "onnx_kit.h"

#include <math.h>
#include <unistd.h>

#define ALLOCATIONS_MAX 20000u
#define OUTPUT_MAX      4096u

static uint8_t file[ONNX_KIT_BYTES];
static size_t file_size;
static struct base_prng prng;

static void finish(struct onnx_kit *kit)
{
    const struct onnx_part *part = onnx_finish(kit, 13);
    memcpy(file, part->bytes, part->size);
    file_size = part->size;
}

static void add_weight(struct onnx_kit *kit, const char *name, const int64_t *dims, size_t rank)
{
    static float values[4096];
    size_t count = 1;
    for (size_t d = 0; d < rank; d++) {
        count *= (size_t)dims[d];
    }
    assert_true(count <= TEST_COUNT(values));
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(base_prng_unit(&prng) - 0.5);
    }
    onnx_initializer(kit, name, ENG_F32, dims, rank, values, count * sizeof(float));
}

static void add_ints(struct onnx_kit *kit, const char *name, const int64_t *values, int64_t count)
{
    onnx_initializer(kit, name, ENG_I64, ONNX_DIMS(count), values, (size_t)count * sizeof(int64_t));
}

static void conv_net(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3, 9, 9);
    onnx_output(kit, "y", ENG_F32, -1, 5);
    add_weight(kit, "w1", ONNX_DIMS(16, 3, 3, 3));
    add_weight(kit, "b1", ONNX_DIMS(16));
    add_weight(kit, "w2", ONNX_DIMS(16, 1, 3, 3));
    add_weight(kit, "w3", ONNX_DIMS(16, 16, 1, 1));
    add_weight(kit, "w4", ONNX_DIMS(16, 5));
    add_weight(kit, "b4", ONNX_DIMS(5));
    const int64_t pads[] = {1, 1, 1, 1};
    const int64_t two[] = {2, 2};
    onnx_node(kit, "Conv", "x w1 b1", "c1");
    onnx_attr_ints(kit, "pads", pads, 4);
    onnx_node(kit, "Relu", "c1", "r1");
    onnx_node(kit, "Conv", "r1 w2", "c2");
    onnx_attr_ints(kit, "pads", pads, 4);
    onnx_attr_int(kit, "group", 16);
    onnx_node(kit, "Conv", "c2 w3", "c3");
    onnx_node(kit, "Add", "c3 r1", "s");
    onnx_node(kit, "MaxPool", "s", "m");
    onnx_attr_ints(kit, "kernel_shape", two, 2);
    onnx_attr_ints(kit, "strides", two, 2);
    onnx_node(kit, "GlobalAveragePool", "m", "g");
    onnx_node(kit, "Flatten", "g", "f");
    onnx_node(kit, "Gemm", "f w4 b4", "y");
    finish(kit);
}

// Shapes come from the input's; which scores are positive is known only when they are computed.
static void attention_block(void)
{
    struct onnx_kit *kit = onnx_begin();
    const int64_t zero[] = {0}, heads[] = {2, 16}, wide[] = {32};
    const int64_t rows[] = {0, 2, 1, 3}, columns[] = {0, 2, 3, 1}, flat[] = {-1};
    const float factor = 0.25F;
    onnx_input(kit, "x", ENG_F32, -1, -2, 32);
    onnx_port(kit, 12, "y", ENG_F32, ONNX_DIMS(-1, -2, 32));
    onnx_port(kit, 12, "z", ENG_F32, ONNX_DIMS(-3));
    add_weight(kit, "wq", ONNX_DIMS(32, 32));
    add_weight(kit, "wk", ONNX_DIMS(32, 32));
    add_weight(kit, "wv", ONNX_DIMS(32, 32));
    add_ints(kit, "zero", zero, 1);
    add_ints(kit, "two", &heads[0], 1);
    add_ints(kit, "heads", heads, 2);
    add_ints(kit, "wide", wide, 1);
    add_ints(kit, "flat", flat, 1);
    onnx_initializer(kit, "factor", ENG_F32, NULL, 0, &factor, sizeof factor);
    onnx_node(kit, "Shape", "x", "shape");
    onnx_node(kit, "Slice", "shape zero two", "front");
    onnx_node(kit, "Concat", "front heads", "split");
    onnx_attr_int(kit, "axis", 0);
    onnx_node(kit, "Concat", "front wide", "joined");
    onnx_attr_int(kit, "axis", 0);
    onnx_node(kit, "MatMul", "x wq", "q0");
    onnx_node(kit, "MatMul", "x wk", "k0");
    onnx_node(kit, "MatMul", "x wv", "v0");
    onnx_node(kit, "Reshape", "q0 split", "q1");
    onnx_node(kit, "Reshape", "k0 split", "k1");
    onnx_node(kit, "Reshape", "v0 split", "v1");
    onnx_node(kit, "Transpose", "q1", "q");
    onnx_attr_ints(kit, "perm", rows, 4);
    onnx_node(kit, "Transpose", "k1", "k");
    onnx_attr_ints(kit, "perm", columns, 4);
    onnx_node(kit, "Transpose", "v1", "v");
    onnx_attr_ints(kit, "perm", rows, 4);
    onnx_node(kit, "MatMul", "q k", "s0");
    onnx_node(kit, "Mul", "s0 factor", "s1");
    onnx_node(kit, "Softmax", "s1", "p");
    onnx_attr_int(kit, "axis", 3);
    onnx_node(kit, "MatMul", "p v", "a0");
    onnx_node(kit, "Transpose", "a0", "a1");
    onnx_attr_ints(kit, "perm", rows, 4);
    onnx_node(kit, "Reshape", "a1 joined", "a");
    onnx_node(kit, "Add", "a x", "y");
    onnx_node(kit, "Relu", "y", "positive");
    onnx_node(kit, "Reshape", "positive flat", "row");
    onnx_node(kit, "NonZero", "row", "found");
    onnx_node(kit, "Reshape", "found flat", "places");
    onnx_node(kit, "Gather", "row places", "z");
    finish(kit);
}

static void two_layers(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 6);
    onnx_output(kit, "y", ENG_F32, -1, 3);
    add_weight(kit, "w1", ONNX_DIMS(6, 10));
    add_weight(kit, "b1", ONNX_DIMS(10));
    add_weight(kit, "w2", ONNX_DIMS(10, 3));
    add_weight(kit, "b2", ONNX_DIMS(3));
    onnx_node(kit, "Gemm", "x w1 b1", "h");
    onnx_node(kit, "Relu", "h", "r");
    onnx_node(kit, "Gemm", "r w2 b2", "y");
    finish(kit);
}

// --- sessions ------------------------------------------------------------------------------------

struct scenario {
    struct eng_session_options options;
    struct eng_array inputs[2]; // one after the other
    size_t output_count;
    // Of the last input, when nothing failed: all outputs behind each other.
    float expected[OUTPUT_MAX];
    size_t expected_count;
};

struct attempt {
    struct eng_model *model;
    struct eng_session *session;
    struct base_error error;
};

static enum base_status make(const struct scenario *s, struct attempt *a)
{
    BASE_TRY(eng_model_load_memory(file, file_size, NULL, &a->model, &a->error));
    return eng_session_new(a->model, &s->options, &a->session, &a->error);
}

static enum base_status run_all(const struct scenario *s, struct attempt *a)
{
    for (size_t i = 0; i < TEST_COUNT(s->inputs); i++) {
        BASE_TRY(eng_session_set_input(a->session, 0, &s->inputs[i], &a->error));
        BASE_TRY(eng_session_run(a->session, NULL, &a->error));
    }
    return BASE_OK;
}

static size_t collect(const struct scenario *s, struct attempt *a, float *out)
{
    size_t count = 0;
    for (size_t i = 0; i < s->output_count; i++) {
        struct eng_array array;
        assert_int_equal(eng_session_output(a->session, i, &array, &a->error), BASE_OK);
        const size_t bytes = eng_desc_bytes(&array.desc);
        assert_true(count + bytes / sizeof(float) <= OUTPUT_MAX);
        memcpy(out + count, array.data, bytes);
        count += bytes / sizeof(float);
    }
    return count;
}

static void check_outputs(const struct scenario *s, struct attempt *a)
{
    static float found[OUTPUT_MAX];
    assert_int_equal(collect(s, a, found), s->expected_count);
    for (size_t i = 0; i < s->expected_count; i++) {
        if (!(fabsf(found[i] - s->expected[i]) <= 1e-4F * (1 + fabsf(s->expected[i])))) {
            fail_msg("element %zu is %.9g, expected %.9g", i, (double)found[i],
                     (double)s->expected[i]);
        }
    }
}

// One attempt with failures; true: nothing failed, so it was the last.
static bool attempt_session(struct scenario *s, size_t allowed, bool once)
{
    const long live = failing_heap_live();
    struct attempt a = {0};
    failing_heap_arm(allowed, once);
    enum base_status status = make(s, &a);
    if (status == BASE_OK) {
        status = run_all(s, &a);
    }
    (void)failing_heap_disarm();
    const bool is_last = !failing_heap_has_failed();
    if (status != BASE_OK && (status != BASE_ERR_NOMEM || is_last)) {
        fail_msg("allocation %zu: %s: %s", allowed, base_status_name(status), a.error.text);
    }
    if (a.session != NULL && status != BASE_OK) { // there is memory again
        status = run_all(s, &a);
        if (status != BASE_OK) {
            fail_msg("after allocation %zu: %s: %s", allowed, base_status_name(status),
                     a.error.text);
        }
    }
    if (a.session != NULL) {
        check_outputs(s, &a);
    }
    eng_session_free(a.session);
    eng_model_unref(a.model);
    if (failing_heap_live() != live) {
        fail_msg("allocation %zu: %ld not released", allowed, failing_heap_live() - live);
    }
    return is_last;
}

static void fail_each(struct scenario *s, const char *what)
{
    struct attempt a = {0};
    assert_int_equal(make(s, &a), BASE_OK);
    if (run_all(s, &a) != BASE_OK) {
        fail_msg("%s", a.error.text);
    }
    s->expected_count = collect(s, &a, s->expected);
    assert_true(s->expected_count > 0);
    eng_session_free(a.session);
    eng_model_unref(a.model);
    for (int once = 0; once < 2; once++) {
        size_t allowed = 0;
        while (!attempt_session(s, allowed, once != 0)) {
            allowed++;
            assert_true(allowed < ALLOCATIONS_MAX);
        }
        printf("%s: each of %zu allocations failed%s\n", what, allowed,
               once ? " alone" : " with all after it");
        assert_true(allowed > 10);
    }
}

static float *some_floats(size_t count)
{
    float *data = malloc(count * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(base_prng_unit(&prng) * 2 - 1);
    }
    return data;
}

// Inputs of two shapes: the second one makes a new plan.
static void each_option(struct scenario *s, const char *what)
{
    static const struct eng_session_options options[] = {
        {.no_search = true},
        {.no_search = true, .isa = "ref", .keep_values = true},
        {.no_search = true, .precision = ENG_PRECISION_LOW, .trace = true},
    };
    for (size_t i = 0; i < TEST_COUNT(options); i++) {
        s->options = options[i];
        fail_each(s, what);
    }
}

static void a_convolution_net(void **state)
{
    (void)state;
    static struct scenario s = {.output_count = 1};
    float *x = some_floats(2 * 3 * 9 * 9);
    s.inputs[0] =
        (struct eng_array){{.dtype = ENG_F32, .rank = 4, .dims = {1, 3, 9, 9}}, .data = x};
    s.inputs[1] =
        (struct eng_array){{.dtype = ENG_F32, .rank = 4, .dims = {2, 3, 9, 9}}, .data = x};
    conv_net();
    each_option(&s, "convolutions");
    s.options = (struct eng_session_options){.device = "cuda"};
    fail_each(&s, "convolutions on a device");
    free(x);
}

static void an_attention_block(void **state)
{
    (void)state;
    static struct scenario s = {.output_count = 2};
    float *x = some_floats(2 * 20 * 32);
    s.inputs[0] = (struct eng_array){{.dtype = ENG_F32, .rank = 3, .dims = {1, 7, 32}}, .data = x};
    s.inputs[1] = (struct eng_array){{.dtype = ENG_F32, .rank = 3, .dims = {2, 20, 32}}, .data = x};
    attention_block();
    each_option(&s, "attention");
    free(x);
}

// With the search for algorithms: its choices are read from a file, so that nothing is measured
// unless the file could not be.
static void a_searched_net(void **state)
{
    (void)state;
    static struct scenario s = {.output_count = 1};
    char path[] = "/tmp/test_eng_no_memory_XXXXXX";
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    (void)close(handle);
    float *x = some_floats(2 * 3 * 9 * 9);
    s.inputs[0] =
        (struct eng_array){{.dtype = ENG_F32, .rank = 4, .dims = {1, 3, 9, 9}}, .data = x};
    s.inputs[1] =
        (struct eng_array){{.dtype = ENG_F32, .rank = 4, .dims = {2, 3, 9, 9}}, .data = x};
    s.options = (struct eng_session_options){.cache_path = path};
    conv_net();
    fail_each(&s, "searched convolutions");
    (void)unlink(path);
    free(x);
}

// --- training ------------------------------------------------------------------------------------

struct lesson {
    struct eng_trainer_options options;
    struct eng_array x, target;
    const char *path;
    float losses[2]; // of the first step and after it, when nothing failed
};

struct pupil {
    struct eng_model *model;
    struct eng_trainer *trainer;
    float losses[2];
    struct base_error error;
};

static enum base_status begin_training(const struct lesson *l, struct pupil *p)
{
    BASE_TRY(eng_model_load_memory(file, file_size, NULL, &p->model, &p->error));
    return eng_trainer_new(p->model, &l->options, &p->trainer, &p->error);
}

static enum base_status train(const struct lesson *l, struct pupil *p)
{
    const struct eng_batch batch = {.inputs = &l->x, .input_count = 1, .target = &l->target};
    BASE_TRY(eng_trainer_step(p->trainer, &batch, &p->losses[0], &p->error));
    BASE_TRY(eng_trainer_save(p->trainer, l->path, &p->error));
    BASE_TRY(eng_trainer_load(p->trainer, l->path, &p->error));
    return eng_trainer_evaluate(p->trainer, &batch, &p->losses[1], &p->error);
}

static bool attempt_training(const struct lesson *l, size_t allowed, bool once)
{
    const long live = failing_heap_live();
    struct pupil p = {.losses = {NAN, NAN}};
    failing_heap_arm(allowed, once);
    enum base_status status = begin_training(l, &p);
    if (status == BASE_OK) {
        status = train(l, &p);
    }
    (void)failing_heap_disarm();
    const bool is_last = !failing_heap_has_failed();
    if (status != BASE_OK && (status != BASE_ERR_NOMEM || is_last)) {
        fail_msg("allocation %zu: %s: %s", allowed, base_status_name(status), p.error.text);
    }
    if (p.trainer != NULL && status != BASE_OK) { // there is memory again
        const bool was_taken = !isnan(p.losses[0]);
        struct pupil again = p;
        assert_int_equal(train(l, &again), BASE_OK);
        // A step that failed changed nothing; one that did not, counts.
        const float want = was_taken ? l->losses[1] : l->losses[0];
        assert_float_equal(again.losses[0], want, 1e-5);
    } else if (status == BASE_OK) {
        assert_float_equal(p.losses[0], l->losses[0], 1e-5);
        assert_float_equal(p.losses[1], l->losses[1], 1e-5);
    }
    eng_trainer_free(p.trainer);
    eng_model_unref(p.model);
    if (failing_heap_live() != live) {
        fail_msg("allocation %zu: %ld not released", allowed, failing_heap_live() - live);
    }
    return is_last;
}

static void a_trainer(void **state)
{
    (void)state;
    char path[] = "/tmp/test_eng_no_memory_XXXXXX";
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    (void)close(handle);
    int64_t labels[] = {0, 2, 1, 1};
    float *x = some_floats(4 * 6);
    struct lesson l = {
        .options = {.loss = ENG_LOSS_CROSS_ENTROPY,
                    .optimizer = ENG_OPTIMIZER_ADAM,
                    .learning_rate = 0.05F},
        .x = {{.dtype = ENG_F32, .rank = 2, .dims = {4, 6}}, .data = x},
        .target = {{.dtype = ENG_I64, .rank = 1, .dims = {4}}, .data = labels},
        .path = path,
    };
    two_layers();
    struct pupil p = {0};
    assert_int_equal(begin_training(&l, &p), BASE_OK);
    if (train(&l, &p) != BASE_OK) {
        fail_msg("%s", p.error.text);
    }
    memcpy(l.losses, p.losses, sizeof l.losses);
    assert_true(l.losses[1] < l.losses[0]);
    eng_trainer_free(p.trainer);
    eng_model_unref(p.model);
    for (int once = 0; once < 2; once++) {
        size_t allowed = 0;
        while (!attempt_training(&l, allowed, once != 0)) {
            allowed++;
            assert_true(allowed < ALLOCATIONS_MAX);
        }
        printf("training: each of %zu allocations failed%s\n", allowed,
               once ? " alone" : " with all after it");
        assert_true(allowed > 10);
    }
    (void)unlink(path);
    free(x);
}

int main(void)
{
    (void)setenv("WALLE_ENGINE_CUDA", WALLE_CUDA_ON_CPU, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_net),
        cmocka_unit_test(an_attention_block),
        cmocka_unit_test(a_searched_net),
        cmocka_unit_test(a_trainer),
    };
    test_seed(&prng);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
