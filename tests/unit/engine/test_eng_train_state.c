// Training that is stopped and goes on: states as bytes, damaged ones, predictions and exported
// files beside each other, statistics of BatchNormalization that move, limits of time and memory,
// and every allocation failing in turn.
#include "failing_heap.h"
#include "onnx_kit.h"

#include "engine/train.h"

#include "base/clock.h"

#include <math.h>

#define CHANNELS  2
#define PIXELS    4
#define EXAMPLES  3
#define STATE_MAX 4096

static uint8_t file[ONNX_KIT_BYTES];
static size_t file_size;

// y = BatchNormalization(Conv1x1(x)) w + b, with x [n, 2, 2, 2]: everything a trainer has to keep.
static void write_file(void)
{
    struct onnx_kit *kit = onnx_begin();
    const float filter[] = {1, 0.5F, -0.25F, 2}, scale[] = {1, 1.5F}, bias[] = {0, 0.5F};
    const float mean[] = {0.5F, 1}, var[] = {1, 4};
    const float w[16] = {0.1F, -0.2F, 0.3F, 0.4F, -0.5F, 0.6F, 0.7F, -0.8F,
                         0.2F, 0.1F,  0,    0.3F, -0.1F, 0.2F, 0.5F, 0.25F};
    const int64_t flat[] = {-1, CHANNELS * PIXELS};
    onnx_input(kit, "x", ENG_F32, -1, CHANNELS, 2, 2);
    onnx_output(kit, "y", ENG_F32, -1, 2);
    onnx_initializer(kit, "filter", ENG_F32, ONNX_DIMS(2, 2, 1, 1), filter, sizeof(filter));
    onnx_initializer(kit, "scale", ENG_F32, ONNX_DIMS(2), scale, sizeof(scale));
    onnx_initializer(kit, "bias", ENG_F32, ONNX_DIMS(2), bias, sizeof(bias));
    onnx_initializer(kit, "mean", ENG_F32, ONNX_DIMS(2), mean, sizeof(mean));
    onnx_initializer(kit, "var", ENG_F32, ONNX_DIMS(2), var, sizeof(var));
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(8, 2), w, sizeof(w));
    onnx_initializer(kit, "flat", ENG_I64, ONNX_DIMS(2), flat, sizeof(flat));
    onnx_node(kit, "Conv", "x filter", "c");
    onnx_node(kit, "BatchNormalization", "c scale bias mean var", "n");
    onnx_node(kit, "Reshape", "n flat", "r");
    onnx_node(kit, "MatMul", "r w", "y");
    const struct onnx_part *part = onnx_finish(kit, 13);
    memcpy(file, part->bytes, part->size);
    file_size = part->size;
}

static struct eng_model *load_kept(const void *bytes, size_t size)
{
    struct base_error error = {0};
    struct eng_model *model = NULL;
    const struct eng_model_options options = {.keep_batch_norm = true};
    enum base_status status = eng_model_load_memory(bytes, size, &options, &model, &error);
    if (status != BASE_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    return model;
}

static const struct eng_trainer_options plain = {.loss = ENG_LOSS_CROSS_ENTROPY,
                                                 .optimizer = ENG_OPTIMIZER_ADAM,
                                                 .learning_rate = 0.05F,
                                                 .batch_statistics = true};

static struct eng_trainer *make(struct eng_model *model, const struct eng_trainer_options *options)
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

static float pixels[EXAMPLES * CHANNELS * PIXELS];
static int64_t labels[EXAMPLES] = {0, 1, 1};
static struct eng_array x_array = {
    .desc = {.dtype = ENG_F32, .rank = 4, .dims = {EXAMPLES, CHANNELS, 2, 2}}, .data = pixels};
static struct eng_array labels_array = {.desc = {.dtype = ENG_I64, .rank = 1, .dims = {EXAMPLES}},
                                        .data = labels};

static struct eng_batch batch_of(uint32_t step)
{
    for (uint32_t i = 0; i < TEST_COUNT(pixels); i++) {
        pixels[i] = (float)((i * 7 + step * 3) % 11) / 4 - 1;
    }
    return (struct eng_batch){.inputs = &x_array, .input_count = 1, .target = &labels_array};
}

static float step(struct eng_trainer *trainer, uint32_t number)
{
    struct base_error error = {0};
    struct eng_batch batch = batch_of(number);
    float loss = NAN;
    enum base_status status = eng_trainer_step(trainer, &batch, &loss, &error);
    if (status != BASE_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    return loss;
}

static const float *values(struct eng_trainer *trainer, const char *name)
{
    struct eng_parameter parameter;
    int64_t index = eng_trainer_parameter_index(trainer, name);
    assert_true(index >= 0 && eng_trainer_parameter(trainer, (size_t)index, &parameter));
    return parameter.value.data;
}

// --- states

static void what_is_stopped_goes_on_to_the_bit(void **state)
{
    (void)state;
    struct eng_trainer_options options[] = {plain, plain, plain};
    options[1].optimizer = ENG_OPTIMIZER_SGD;
    options[2].optimizer = ENG_OPTIMIZER_SGD;
    options[2].momentum = 0.9F;
    for (size_t o = 0; o < TEST_COUNT(options); o++) {
        struct eng_model *model = load_kept(file, file_size);
        struct eng_trainer *whole = make(model, &options[o]);
        struct eng_trainer *half = make(model, &options[o]);
        uint8_t bytes[STATE_MAX];
        size_t size = eng_trainer_state_bytes(half);
        float want[20];
        assert_true(size <= sizeof(bytes));
        for (uint32_t i = 0; i < TEST_COUNT(want); i++) {
            want[i] = step(whole, i);
            if (i < 9) {
                assert_true(step(half, i) == want[i]);
            }
        }
        assert_int_equal(eng_trainer_set_learning_rate(half, options[o].learning_rate), BASE_OK);
        assert_int_equal(eng_trainer_state_write(half, bytes, size, NULL), BASE_OK);
        assert_int_equal(eng_trainer_state_write(half, bytes, size - 1, NULL), BASE_ERR_TOO_LARGE);
        eng_trainer_free(half);
        struct eng_trainer *other = make(model, &options[o]);
        assert_int_equal(eng_trainer_state_read(other, bytes, size, NULL), BASE_OK);
        for (uint32_t i = 9; i < TEST_COUNT(want); i++) {
            float found = step(other, i);
            if (found != want[i]) {
                fail_msg("case %zu, step %u: %a, not %a", o, i, (double)found, (double)want[i]);
            }
        }
        eng_trainer_free(other);
        eng_trainer_free(whole);
        eng_model_unref(model);
    }
}

static void damaged_states_change_nothing(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer *trainer = make(model, &plain);
    uint8_t bytes[STATE_MAX], before[STATE_MAX];
    struct base_error error = {0};
    size_t size = eng_trainer_state_bytes(trainer);
    (void)step(trainer, 1);
    assert_int_equal(eng_trainer_state_write(trainer, bytes, size, NULL), BASE_OK);
    (void)step(trainer, 2);
    assert_int_equal(eng_trainer_state_write(trainer, before, size, NULL), BASE_OK);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(eng_trainer_state_read(trainer, bytes, cut, &error), BASE_OK);
    }
    for (size_t at = 0; at < 40; at++) { // the head and the first weight's
        uint8_t damaged[STATE_MAX], after[STATE_MAX];
        memcpy(damaged, bytes, size);
        damaged[at] ^= 0xff;
        bool is_taken = eng_trainer_state_read(trainer, damaged, size, &error) == BASE_OK;
        bool is_number = at >= 13 && at < 25; // steps, rate: any will do
        assert_true(is_number || !is_taken || at >= 28);
        if (is_taken) {
            assert_int_equal(eng_trainer_state_read(trainer, before, size, NULL), BASE_OK);
        }
        assert_int_equal(eng_trainer_state_write(trainer, after, size, NULL), BASE_OK);
        assert_memory_equal(after, before, size);
    }
    // Another optimizer, other parameters.
    struct eng_trainer_options options = plain;
    options.trained = (const char *const[]){"w"};
    options.trained_count = 1;
    struct eng_trainer *other = make(model, &options);
    assert_int_equal(eng_trainer_state_read(other, bytes, size, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "other parameters"));
    eng_trainer_free(other);
    options = plain;
    options.optimizer = ENG_OPTIMIZER_SGD;
    other = make(model, &options);
    assert_int_equal(eng_trainer_state_read(other, bytes, size, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "another optimizer"));
    eng_trainer_free(other);
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void what_is_no_number_changes_nothing(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer *trainer = make(model, &plain);
    uint8_t bytes[STATE_MAX], before[STATE_MAX], after[STATE_MAX];
    struct base_error error = {0};
    size_t size = eng_trainer_state_bytes(trainer);
    float loss = 0;
    (void)step(trainer, 1);
    assert_int_equal(eng_trainer_state_write(trainer, before, size, NULL), BASE_OK);
    struct eng_batch batch = batch_of(2);
    pixels[5] = NAN;
    assert_int_equal(eng_trainer_step(trainer, &batch, &loss, &error), BASE_ERR_INVALID);
    assert_true(isnan(loss));
    assert_non_null(strstr(error.text, "no parameter was changed"));
    assert_int_equal(eng_trainer_set_learning_rate(trainer, INFINITY), BASE_ERR_INVALID);
    const float spoilt[] = {NAN, INFINITY, -INFINITY};
    uint32_t refused = 0;
    for (size_t at = 0; at + sizeof(float) <= size; at++) {
        memcpy(bytes, before, size);
        memcpy(bytes + at, &spoilt[at % 3], sizeof(float));
        if (eng_trainer_state_read(trainer, bytes, size, &error) == BASE_OK) {
            assert_int_equal(eng_trainer_state_read(trainer, before, size, NULL), BASE_OK);
        } else {
            refused += strstr(error.text, "is no finite number") != NULL;
        }
        assert_int_equal(eng_trainer_state_write(trainer, after, size, NULL), BASE_OK);
        assert_memory_equal(after, before, size);
    }
    // At least each value of the three copies of 24 that are trained, and four statistics.
    assert_true(refused >= 3 * 24 + 4);
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

// --- predictions, exported files

static void exported_files_give_what_is_predicted(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer *trainer = make(model, &plain);
    struct base_error error = {0};
    size_t size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        (void)step(trainer, i);
    }
    struct eng_batch batch = batch_of(77);
    struct eng_array predicted, computed;
    assert_int_equal(eng_trainer_output(trainer, 0, &predicted, &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(eng_trainer_predict(trainer, &batch, &error), BASE_OK);
    assert_int_equal(eng_trainer_output(trainer, 1, &predicted, &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(eng_trainer_output(trainer, 0, &predicted, &error), BASE_OK);
    assert_int_equal(eng_trainer_export_bytes(trainer, file, file_size, &size, &error), BASE_OK);
    uint8_t *exported = malloc(size);
    assert_int_equal(eng_trainer_export(trainer, file, file_size, exported, &error), BASE_OK);
    struct eng_model *again = load_kept(exported, size);
    struct eng_session *session = NULL;
    assert_int_equal(eng_session_new(again, NULL, &session, &error), BASE_OK);
    assert_int_equal(eng_session_set_input(session, 0, &x_array, &error), BASE_OK);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_OK);
    assert_int_equal(eng_session_output(session, 0, &computed, &error), BASE_OK);
    assert_true(eng_desc_equal(&predicted.desc, &computed.desc));
    for (int i = 0; i < EXAMPLES * 2; i++) {
        double want = (double)((const float *)computed.data)[i];
        assert_true(fabs((double)((const float *)predicted.data)[i] - want) < 1e-4);
    }
    // Exported once more it is the same file; of another file nothing is made.
    size_t same = 0;
    assert_int_equal(eng_trainer_export_bytes(trainer, exported, size, &same, &error), BASE_OK);
    assert_int_equal(same, size);
    for (size_t cut = 0; cut < file_size; cut++) {
        enum base_status status = eng_trainer_export_bytes(trainer, file, cut, &same, &error);
        assert_int_not_equal(status, BASE_OK);
    }
    eng_session_free(session);
    eng_model_unref(again);
    free(exported);
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

static void folded_weights_are_in_no_file(void **state)
{
    (void)state;
    struct eng_model *model = NULL;
    struct base_error error = {0};
    size_t size = 0;
    assert_int_equal(eng_model_load_memory(file, file_size, NULL, &model, &error), BASE_OK);
    struct eng_trainer *trainer = make(model, &plain);
    assert_int_equal(eng_trainer_export_bytes(trainer, file, file_size, &size, &error),
                     BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "are in the file"));
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

// --- statistics

static void statistics_move_towards_the_batch(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer_options options = plain;
    options.learning_rate = 1e-30F; // nothing else moves
    struct eng_trainer *trainer = make(model, &options);
    const double filter[2][2] = {{1, 0.5}, {-0.25, 2}};
    double mean[2] = {0.5, 1}, var[2] = {1, 4};
    for (uint32_t s = 0; s < 4; s++) {
        (void)step(trainer, s);
        for (int c = 0; c < CHANNELS; c++) {
            double sum = 0, squares = 0;
            for (int i = 0; i < EXAMPLES * PIXELS; i++) {
                const float *at = pixels + i / PIXELS * CHANNELS * PIXELS + i % PIXELS;
                double v = filter[c][0] * (double)at[0] + filter[c][1] * (double)at[PIXELS];
                sum += v;
                squares += v * v;
            }
            double n = EXAMPLES * PIXELS, m = sum / n;
            mean[c] = 0.9 * mean[c] + 0.1 * m;
            var[c] = 0.9 * var[c] + 0.1 * (squares / n - m * m);
            assert_true(fabs((double)values(trainer, "mean")[c] - mean[c]) < 1e-5);
            assert_true(fabs((double)values(trainer, "var")[c] - var[c]) < 1e-5);
        }
    }
    float kept = values(trainer, "mean")[0];
    struct eng_batch batch = batch_of(5);
    assert_int_equal(eng_trainer_evaluate(trainer, &batch, NULL, NULL), BASE_OK);
    assert_true(values(trainer, "mean")[0] == kept); // an evaluation moves nothing
    eng_trainer_free(trainer);
    options.batch_statistics = false;
    trainer = make(model, &options);
    (void)step(trainer, 0);
    assert_true(values(trainer, "mean")[0] == 0.5F);
    eng_trainer_free(trainer);
    eng_model_unref(model);
}

// --- limits

static void steps_keep_their_limits(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer *trainer = make(model, &plain);
    struct base_error error = {0};
    struct eng_trainer_stats stats;
    uint8_t before[STATE_MAX], after[STATE_MAX];
    (void)step(trainer, 0);
    eng_trainer_stats(trainer, &stats);
    size_t size = eng_trainer_state_bytes(trainer);
    assert_int_equal(eng_trainer_state_write(trainer, before, size, NULL), BASE_OK);
    struct eng_batch batch = batch_of(1);
    _Atomic(bool) stop = true;
    const struct eng_run_options limits[] = {
        {.deadline_us = 1}, {.stop = &stop}, {.work_max = 1}, {.work_max = stats.work - 1}};
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        batch.limits = &limits[i];
        assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_ERR_TIMEOUT);
        assert_int_equal(eng_trainer_state_write(trainer, after, size, NULL), BASE_OK);
        assert_memory_equal(after, before, size);
    }
    const struct eng_run_options enough = {.work_max = stats.work};
    batch.limits = &enough;
    assert_int_equal(eng_trainer_step(trainer, &batch, NULL, &error), BASE_OK);
    eng_trainer_free(trainer);
    // Memory: what is held is counted, and less is refused at once or at the first step.
    struct eng_trainer_options options = plain;
    bool is_refused = true;
    for (size_t most = 2048; is_refused; most += 8192) {
        if (most > 8 << 20) {
            fail_msg("%zu bytes: %s", most, error.text);
        }
        options.memory_bytes_max = most;
        trainer = NULL;
        enum base_status status = eng_trainer_new(model, &options, &trainer, &error);
        batch = batch_of(1);
        if (status == BASE_OK) {
            status = eng_trainer_step(trainer, &batch, NULL, &error);
            eng_trainer_stats(trainer, &stats);
            assert_true(stats.memory_bytes <= most);
        }
        is_refused = status != BASE_OK;
        assert_true(!is_refused || status == BASE_ERR_TOO_LARGE);
        eng_trainer_free(trainer);
    }
    eng_model_unref(model);
}

static void rules_name_what_there_is(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    struct eng_trainer *trainer = NULL;
    struct eng_parameter parameter;
    struct base_error error = {0};
    struct eng_trainer_options options = plain;
    options.trained = (const char *const[]){"w", "s*"};
    options.trained_count = 2;
    trainer = make(model, &options);
    for (size_t i = 0; eng_trainer_parameter(trainer, i, &parameter); i++) {
        bool is_named = strcmp(parameter.name, "w") == 0 || strcmp(parameter.name, "scale") == 0;
        assert_int_equal(parameter.is_frozen, !is_named);
    }
    eng_trainer_free(trainer);
    trainer = NULL;
    options.trained = (const char *const[]){"head.*"};
    options.trained_count = 1;
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "head.*"));
    options.trained_count = 0;
    options.frozen = (const char *const[]){"v"};
    options.frozen_count = 1;
    assert_int_equal(eng_trainer_new(model, &options, &trainer, &error), BASE_ERR_NOT_FOUND);
    assert_null(trainer);
    eng_model_unref(model);
}

// A trainer made, a step, a prediction. True: every allocation was granted.
static bool try_once(struct eng_model *model, size_t allowed, bool once)
{
    struct eng_trainer *trainer = NULL;
    struct base_error error = {0};
    struct eng_batch batch = batch_of(3);
    failing_heap_arm(allowed, once);
    enum base_status status = eng_trainer_new(model, &plain, &trainer, &error);
    if (status == BASE_OK) {
        status = eng_trainer_step(trainer, &batch, NULL, &error);
    }
    if (status == BASE_OK) {
        status = eng_trainer_predict(trainer, &batch, &error);
    }
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    assert_int_equal(status, failed && status != BASE_OK ? BASE_ERR_NOMEM : BASE_OK);
    eng_trainer_free(trainer);
    return !failed;
}

static void every_allocation_fails_in_turn(void **state)
{
    (void)state;
    struct eng_model *model = load_kept(file, file_size);
    for (int once = 0; once < 2; once++) {
        bool good = false;
        for (size_t allowed = 0; !good; allowed++) {
            assert_true(allowed < 4000);
            long before = failing_heap_live();
            good = try_once(model, allowed, once == 1);
            assert_int_equal(failing_heap_live(), before);
        }
    }
    eng_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stopped_goes_on_to_the_bit),
        cmocka_unit_test(damaged_states_change_nothing),
        cmocka_unit_test(what_is_no_number_changes_nothing),
        cmocka_unit_test(exported_files_give_what_is_predicted),
        cmocka_unit_test(folded_weights_are_in_no_file),
        cmocka_unit_test(statistics_move_towards_the_batch),
        cmocka_unit_test(steps_keep_their_limits),
        cmocka_unit_test(rules_name_what_there_is),
        cmocka_unit_test(every_allocation_fails_in_turn),
    };
    write_file();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
