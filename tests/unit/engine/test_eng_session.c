// Sessions: running, resizing, contents that decide shapes, sequences, kept values, traces, errors.
// Expected numbers come from loops in the test.
#include "onnx_kit.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "session/session.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

static struct eng_model *load(struct onnx_kit *kit)
{
    const struct onnx_part *part = onnx_finish(kit, 13);
    struct base_error error = {0};
    struct eng_model *model = NULL;
    // The engine borrows the bytes; the kit's are used again.
    static uint8_t bytes[ONNX_KIT_BYTES];
    memcpy(bytes, part->bytes, part->size);
    if (eng_model_load_memory(bytes, part->size, NULL, &model, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return model;
}

static struct eng_session *open_session(struct eng_model *model,
                                        const struct eng_session_options *options)
{
    struct base_error error = {0};
    struct eng_session *session = NULL;
    if (eng_session_new(model, options, &session, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return session;
}

static void set_floats(struct eng_session *session, size_t index, const float *data, uint32_t rank,
                       const int64_t *dims)
{
    struct eng_array array = {.desc = {.dtype = ENG_F32, .rank = rank},
                              .data = (void *)(uintptr_t)data};
    memcpy(array.desc.dims, dims, rank * sizeof *dims);
    struct base_error error = {0};
    if (eng_session_set_input(session, index, &array, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static void run(struct eng_session *session)
{
    struct base_error error = {0};
    if (eng_session_run(session, NULL, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static struct eng_array output(struct eng_session *session, size_t index)
{
    struct base_error error = {0};
    struct eng_array array = {0};
    if (eng_session_output(session, index, &array, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return array;
}

// y = relu(x + w), x [d1, 3]
static struct eng_model *add_relu_model(void)
{
    static const float w[3] = {1, -2, 3};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof w);
    onnx_node(kit, "Add", "x w", "s");
    onnx_node(kit, "Relu", "s", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3);
    return load(kit);
}

static void check_add_relu(struct eng_session *session, int64_t rows, float offset)
{
    float x[64] = {0};
    for (int64_t i = 0; i < rows * 3; i++) {
        x[i] = (float)(i % 7) - 3 + offset;
    }
    set_floats(session, 0, x, 2, (int64_t[]){rows, 3});
    run(session);
    struct eng_array y = output(session, 0);
    assert_int_equal(y.desc.rank, 2);
    assert_int_equal(y.desc.dims[0], rows);
    for (int64_t i = 0; i < rows * 3; i++) {
        float want = x[i] + (const float[]){1, -2, 3}[i % 3];
        want = want > 0 ? want : 0;
        assert_float_equal(((const float *)y.data)[i], want, 1e-6);
    }
}

static void a_static_model_is_planned_once(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *session = open_session(model, NULL);
    check_add_relu(session, 2, 0);
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    assert_int_equal(stats.segment_count, 1);
    assert_false(stats.by_contents);
    assert_int_equal(stats.node_count, 2);
    assert_in_range(stats.command_count, 1, 2);
    uint64_t plans = session->next_stamp;
    for (int i = 0; i < 5; i++) {
        check_add_relu(session, 2, (float)i);
    }
    assert_int_equal(session->next_stamp, plans);
    check_add_relu(session, 5, 0.5f); // another shape, another plan
    assert_int_equal(session->next_stamp, plans + 1);
    check_add_relu(session, 2, 0.25f);
    eng_session_free(session);
    eng_model_unref(model);
    eng_session_free(NULL);
}

static void sessions_outlive_the_callers_reference(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *a = open_session(model, &(struct eng_session_options){.isa = "ref"});
    struct eng_session *b = open_session(model, &(struct eng_session_options){.threads = 2});
    eng_model_unref(model);
    check_add_relu(a, 1, 0);
    eng_session_free(a);
    check_add_relu(b, 3, 0);
    eng_session_free(b);
}

static void inputs_can_be_written_in_place(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *session = open_session(model, NULL);
    struct eng_desc desc = {.dtype = ENG_F32, .rank = 2, .dims = {4, 3}};
    assert_int_equal(eng_session_resize(session, 0, &desc, NULL), BASE_OK);
    assert_int_equal(eng_session_prepare(session, NULL), BASE_OK);
    uint64_t plans = session->next_stamp;
    assert_int_equal(eng_session_run(session, NULL, NULL), BASE_ERR_INVALID); // nothing set yet
    struct eng_array in;
    assert_int_equal(eng_session_input(session, 0, &in, NULL), BASE_OK);
    for (int i = 0; i < 12; i++) {
        ((float *)in.data)[i] = 10;
    }
    run(session);
    assert_int_equal(session->next_stamp, plans); // what prepare made
    struct eng_array y = output(session, 0);
    assert_float_equal(((const float *)y.data)[11], 13, 0);
    eng_session_free(session);
    eng_model_unref(model);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct base_error error = {0};
    struct eng_session *session = NULL;
    struct eng_session_options options = {.isa = "z80"};
    assert_int_equal(eng_session_new(model, &options, &session, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "z80"));
    options = (struct eng_session_options){.threads = ENG_THREADS_MAX + 1};
    assert_int_equal(eng_session_new(model, &options, &session, &error), BASE_ERR_INVALID);
    session = open_session(model, NULL);
    struct eng_array array;
    assert_int_equal(eng_session_output(session, 0, &array, &error), BASE_ERR_CONFLICT);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "'x'"));
    float data[8] = {0};
    array = (struct eng_array){{.dtype = ENG_I32, .rank = 2, .dims = {1, 3}}, data};
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "int32"));
    array.desc = (struct eng_desc){.dtype = ENG_F32, .rank = 2, .dims = {1, 4}};
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_ERR_INVALID);
    array.desc = (struct eng_desc){.dtype = ENG_F32, .rank = 1, .dims = {3}};
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_ERR_INVALID);
    array.desc = (struct eng_desc){.dtype = ENG_F32, .rank = 2, .dims = {INT64_MAX, 3}};
    assert_true(eng_session_set_input(session, 0, &array, &error) != BASE_OK);
    assert_int_equal(eng_session_set_input(session, 1, &array, &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(eng_session_set_sequence(session, 0, &array, 1, &error), BASE_ERR_INVALID);
    check_add_relu(session, 2, 0); // still usable
    assert_int_equal(eng_session_output(session, 1, &array, &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(eng_session_value(session, "nothing", &array, &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(eng_session_trace(session, "/nowhere/trace.json", &error), BASE_ERR_CONFLICT);
    eng_session_free(session);
    eng_model_unref(model);
}

static void a_deadline_stops_a_run(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *session = open_session(model, NULL);
    check_add_relu(session, 2, 0);
    struct base_error error = {0};
    struct eng_run_options options = {.deadline_us = 1}; // long ago
    assert_int_equal(eng_session_run(session, &options, &error), BASE_ERR_TIMEOUT);
    struct eng_array array;
    assert_int_equal(eng_session_output(session, 0, &array, NULL), BASE_ERR_CONFLICT);
    options.deadline_us = base_clock_mono_us() + 3600u * 1000000u;
    assert_int_equal(eng_session_run(session, &options, &error), BASE_OK);
    check_add_relu(session, 2, 0);
    eng_session_free(session);
    eng_model_unref(model);
}

static void the_caller_stops_a_run(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *session = open_session(model, NULL);
    struct base_error error = {0};
    _Atomic(bool) stop = true;
    struct eng_run_options options = {.stop = &stop};
    set_floats(session, 0, (const float[]){1, 2, 3}, 2, (int64_t[]){1, 3});
    assert_int_equal(eng_session_run(session, &options, &error), BASE_ERR_TIMEOUT); // planning
    assert_non_null(strstr(error.text, "stopped"));
    stop = false;
    assert_int_equal(eng_session_run(session, &options, &error), BASE_OK);
    stop = true;
    assert_int_equal(eng_session_run(session, &options, &error), BASE_ERR_TIMEOUT); // running
    stop = false;
    assert_int_equal(eng_session_run(session, &options, &error), BASE_OK);
    check_add_relu(session, 2, 0);
    eng_session_free(session);
    eng_model_unref(model);
}

static uint64_t work_of_run(struct eng_session *session)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    return stats.run_work;
}

// Work is counted the same whoever runs it, and a limit of exactly that lets a run through.
static void work_is_counted_and_bounded(void **state)
{
    (void)state;
    uint64_t first = 0;
    for (size_t i = 0; i < 3; i++) {
        struct eng_model *model = add_relu_model();
        struct eng_session *session = open_session(
            model,
            &(struct eng_session_options){.isa = (const char *[]){NULL, "generic", "ref"}[i]});
        struct base_error error = {0};
        check_add_relu(session, 2, 0);
        uint64_t work = work_of_run(session);
        first = i == 0 ? work : first;
        assert_int_equal(work, first);
        assert_in_range(work, 12, 60); // 6 elements in, 6 out, 2 operations
        struct eng_run_options options = {.work_max = work};
        assert_int_equal(eng_session_run(session, &options, &error), BASE_OK);
        assert_int_equal(work_of_run(session), work);
        options.work_max = work - 1;
        assert_int_equal(eng_session_run(session, &options, &error), BASE_ERR_TIMEOUT);
        assert_non_null(strstr(error.text, "work"));
        check_add_relu(session, 2, 0);
        eng_session_free(session);
        eng_model_unref(model);
    }
}

// z = nonzero(x) as [1, n] indices of a vector, y = cast(z) * 2: the shape hangs on contents.
static struct eng_model *nonzero_model(void)
{
    static const float two[1] = {2};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1);
    onnx_initializer(kit, "two", ENG_F32, ONNX_DIMS(1), two, sizeof two);
    onnx_node(kit, "Relu", "x", "r");
    onnx_node(kit, "NonZero", "r", "z");
    onnx_node(kit, "Cast", "z", "f");
    onnx_attr_int(kit, "to", ENG_F32);
    onnx_node(kit, "Mul", "f two", "y");
    onnx_node(kit, "Add", "r r", "s"); // lives across the stop
    onnx_output(kit, "y", ENG_F32, -2, -3);
    onnx_output(kit, "s", ENG_F32, -1);
    return load(kit);
}

static void check_nonzero(struct eng_session *session, const float *x, int64_t count)
{
    set_floats(session, 0, x, 1, &count);
    run(session);
    struct eng_array y = output(session, 0);
    struct eng_array s = output(session, 1);
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        float r = x[i] > 0 ? x[i] : 0;
        assert_float_equal(((const float *)s.data)[i], 2 * r, 0);
        if (r > 0) {
            assert_true(n < y.desc.dims[1]);
            assert_float_equal(((const float *)y.data)[n], (float)(2 * i), 0);
            n++;
        }
    }
    assert_int_equal(y.desc.rank, 2);
    assert_int_equal(y.desc.dims[0], 1);
    assert_int_equal(y.desc.dims[1], n);
}

// Fresh sessions count the same for the same contents, whatever other sessions did before.
static void work_of_segments_repeats_itself(void **state)
{
    (void)state;
    static const float five[5] = {1, -1, 2, 0, 3};
    static const float none[5] = {-1, -1, -1, -1, -1};
    struct eng_model *model = nonzero_model();
    uint64_t work[2] = {0};
    for (size_t i = 0; i < 6; i++) {
        struct eng_session *session = open_session(model, NULL);
        check_nonzero(session, i % 2 == 0 ? five : none, 5);
        uint64_t now = work_of_run(session);
        assert_true(i < 2 || now == work[i % 2]);
        work[i % 2] = now;
        eng_session_free(session);
    }
    assert_true(work[0] > work[1]);
    eng_model_unref(model);
}

static void contents_that_decide_shapes_split_the_graph(void **state)
{
    (void)state;
    struct eng_model *model = nonzero_model();
    struct eng_session *session = open_session(model, NULL);
    check_nonzero(session, (const float[]){1, -1, 2, 0, 3}, 5);
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    assert_int_equal(stats.segment_count, 2);
    assert_true(stats.by_contents);
    uint64_t plans = session->next_stamp;
    check_nonzero(session, (const float[]){1, -5, 2, 0, 3}, 5); // relu makes it the same contents
    assert_int_equal(session->next_stamp, plans);               // both plans used again
    check_nonzero(session, (const float[]){0, -5, 2, 0, 3}, 5);
    assert_int_equal(session->next_stamp, plans + 1);       // the second was made again
    check_nonzero(session, (const float[]){-1, -5, -2}, 3); // nothing: an empty tensor
    check_nonzero(session, (const float[]){4}, 1);
    eng_session_free(session);
    eng_model_unref(model);
}

static void contents_of_inputs_are_used_at_once(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, -2);
    onnx_input(kit, "shape", ENG_I64, -3);
    onnx_node(kit, "Reshape", "x shape", "v");
    onnx_node(kit, "Neg", "v", "y");
    onnx_output(kit, "y", ENG_F32, -4, -5, -6);
    struct eng_model *model = load(kit);
    struct eng_session *session = open_session(model, NULL);
    set_floats(session, 0, (const float[]){1, 2, 3, 4, 5, 6}, 2, (int64_t[]){2, 3});
    int64_t shapes[2][3] = {{3, 1, -1}, {6, 1, 1}};
    for (int i = 0; i < 4; i++) {
        struct eng_array shape = {{.dtype = ENG_I64, .rank = 1, .dims = {3}}, shapes[i / 2]};
        assert_int_equal(eng_session_set_input(session, 1, &shape, NULL), BASE_OK);
        run(session);
        struct eng_array y = output(session, 0);
        assert_int_equal(y.desc.rank, 3);
        assert_int_equal(y.desc.dims[0], i / 2 == 0 ? 3 : 6);
        assert_float_equal(((const float *)y.data)[5], -6, 0);
        struct eng_session_stats stats;
        eng_session_stats(session, &stats);
        assert_int_equal(stats.segment_count, 1);
    }
    assert_in_range(session->next_stamp, 2, 3);
    eng_session_free(session);
    eng_model_unref(model);
}

static void every_value_can_be_kept(void **state)
{
    (void)state;
    struct eng_model *model = nonzero_model();
    struct eng_session *session =
        open_session(model, &(struct eng_session_options){.keep_values = true});
    check_nonzero(session, (const float[]){1, -1, 2}, 3);
    struct eng_array array;
    assert_int_equal(eng_session_value(session, "r", &array, NULL), BASE_OK);
    assert_float_equal(((const float *)array.data)[2], 2, 0);
    assert_float_equal(((const float *)array.data)[1], 0, 0);
    assert_int_equal(eng_session_value(session, "z", &array, NULL), BASE_OK);
    assert_int_equal(array.desc.dtype, ENG_I64);
    assert_int_equal(((const int64_t *)array.data)[1], 2);
    assert_int_equal(eng_session_value(session, "two", &array, NULL), BASE_OK);
    assert_int_equal(eng_session_value(session, "x", &array, NULL), BASE_OK);
    eng_session_free(session);
    eng_model_unref(model);
}

static void sequences_come_out_item_by_item(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 2);
    onnx_node(kit, "SplitToSequence", "x", "q");
    onnx_node(kit, "SequenceLength", "q", "n");
    onnx_node(kit, "Identity", "x", "same");
    onnx_output(kit, "q", ENG_F32, 1, 2);
    onnx_output(kit, "n", ENG_I64, 1);
    onnx_output(kit, "same", ENG_F32, -1, 2);
    struct eng_model *model = load(kit);
    struct eng_session *session = open_session(model, NULL);
    set_floats(session, 0, (const float[]){1, 2, 3, 4, 5, 6}, 2, (int64_t[]){3, 2});
    run(session);
    assert_int_equal(eng_session_output_items(session, 0), 3);
    assert_int_equal(eng_session_output_items(session, 1), 1);
    struct eng_array array;
    assert_int_equal(eng_session_output(session, 0, &array, NULL), BASE_ERR_UNSUPPORTED);
    assert_int_equal(eng_session_output_item(session, 0, 2, &array, NULL), BASE_OK);
    assert_float_equal(((const float *)array.data)[1], 6, 0);
    assert_int_equal(eng_session_output_item(session, 0, 3, &array, NULL), BASE_ERR_NOT_FOUND);
    assert_int_equal(*(const int64_t *)output(session, 1).data, 3);
    assert_float_equal(((const float *)output(session, 2).data)[5], 6, 0);
    eng_session_free(session);
    eng_model_unref(model);
}

static void a_trace_is_written(void **state)
{
    (void)state;
    struct eng_model *model = add_relu_model();
    struct eng_session *session = open_session(model, &(struct eng_session_options){.trace = true});
    check_add_relu(session, 2, 0);
    char path[] = "/tmp/test_eng_session_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct base_error error = {0};
    (void)close(fd);
    assert_int_equal(eng_session_trace(session, path, &error), BASE_OK);
    char text[4096];
    fd = open(path, O_RDONLY); // another file took the name
    assert_true(fd >= 0);
    ssize_t size = read(fd, text, sizeof text - 1);
    assert_true(size > 0);
    text[size] = '\0';
    assert_non_null(strstr(text, "\"traceEvents\""));
    assert_non_null(strstr(text, "float[2,3]"));
    assert_true(eng_session_event_count(session) >= 1);
    assert_int_equal(eng_session_trace(session, "/nowhere/trace.json", &error), BASE_ERR_NOT_FOUND);
    (void)close(fd);
    (void)unlink(path);
    eng_session_free(session);
    eng_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_static_model_is_planned_once),
        cmocka_unit_test(sessions_outlive_the_callers_reference),
        cmocka_unit_test(inputs_can_be_written_in_place),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_deadline_stops_a_run),
        cmocka_unit_test(the_caller_stops_a_run),
        cmocka_unit_test(work_is_counted_and_bounded),
        cmocka_unit_test(work_of_segments_repeats_itself),
        cmocka_unit_test(contents_that_decide_shapes_split_the_graph),
        cmocka_unit_test(contents_of_inputs_are_used_at_once),
        cmocka_unit_test(every_value_can_be_kept),
        cmocka_unit_test(sequences_come_out_item_by_item),
        cmocka_unit_test(a_trace_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
