// Runs of the device "cuda" that are recorded once and replayed: that they compute with the inputs
// of their own run, at whatever address those lie, that an index out of range is still named, and
// which runs are not recorded. On the processor.
#include "cuda_kit.h"
#include "onnx_kit.h"
#include "test_kit.h"

#include "backend/cuda/cuda_port.h"
#include "engine/engine.h"

#include <dlfcn.h>
#include <math.h>

#define COUNT 6
#define RUNS  5

static uint64_t replays_of(const struct eng_session *session)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    return stats.replays;
}

static enum base_status run_with(struct eng_session *session, const float *x, int64_t count,
                                 struct base_error *error)
{
    const struct eng_array array = {.desc = {.dtype = ENG_F32, .rank = 1, .dims = {count}},
                                    .data = (void *)(uintptr_t)x};
    enum base_status status = eng_session_set_input(session, 0, &array, error);
    return status == BASE_OK ? eng_session_run(session, NULL, error) : status;
}

// The inputs of each run lie elsewhere, and are gone behind it.
static void right_run(struct eng_session *session, int64_t count, float first)
{
    struct base_error error = {0};
    struct eng_array y;
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = first + (float)i;
    }
    if (run_with(session, x, count, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    free(x);
    assert_int_equal(eng_session_output(session, 0, &y, NULL), BASE_OK);
    assert_int_equal(eng_desc_count(&y.desc), count);
    for (int64_t i = 0; i < count; i++) {
        assert_float_equal(((float *)y.data)[i], expf(-first - (float)i), 1e-5);
    }
}

static struct eng_model *exp_of_neg(int64_t count)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, count);
    onnx_output(kit, "y", ENG_F32, count);
    onnx_node(kit, "Neg", "x", "n");
    onnx_node(kit, "Exp", "n", "y");
    return cuda_kit_load(kit);
}

static void all_runs_but_the_first_are_replayed(void **state)
{
    (void)state;
    struct eng_model *model = exp_of_neg(COUNT);
    struct eng_session *session = cuda_kit_session(model);
    for (int i = 0; i < RUNS; i++) {
        right_run(session, COUNT, (float)i);
        assert_int_equal(replays_of(session), i);
    }
    eng_session_free(session);
    eng_model_unref(model);
}

static void a_plan_with_steps_of_the_host_is_not_recorded(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1);
    onnx_output(kit, "y", ENG_F32, 1);
    const int64_t one[] = {1, 1};
    onnx_initializer(kit, "square", ENG_I64, ONNX_DIMS(2), one, sizeof one);
    const int64_t flat[] = {1};
    onnx_initializer(kit, "flat", ENG_I64, ONNX_DIMS(1), flat, sizeof flat);
    onnx_node(kit, "Neg", "x", "n");
    onnx_node(kit, "Reshape", "n square", "s");
    onnx_node(kit, "Det", "s", "d");
    onnx_node(kit, "Reshape", "d flat", "r");
    onnx_node(kit, "Exp", "r", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *session = cuda_kit_session(model);
    for (int i = 0; i < RUNS; i++) {
        right_run(session, 1, (float)i);
    }
    assert_int_equal(replays_of(session), 0);
    eng_session_free(session);
    eng_model_unref(model);
}

static void an_index_out_of_range_is_named_in_a_replay(void **state)
{
    (void)state;
    static const float table[5] = {10, 20, 30, 40, 50};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 3);
    onnx_output(kit, "y", ENG_F32, 3);
    onnx_initializer(kit, "table", ENG_F32, ONNX_DIMS(5), table, sizeof table);
    onnx_node(kit, "Cast", "x", "i");
    onnx_attr_int(kit, "to", ENG_I64);
    onnx_node(kit, "Gather", "table i", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *session = cuda_kit_session(model);
    const float good[3] = {0, -1, 2}, bad[3] = {1, 5, 2};
    struct base_error error = {0};
    struct eng_array y;
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(run_with(session, good, 3, &error), BASE_OK);
        assert_int_equal(eng_session_output(session, 0, &y, NULL), BASE_OK);
        assert_true(((float *)y.data)[1] == 50 && ((float *)y.data)[2] == 30);
        assert_int_equal(run_with(session, bad, 3, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, "Gather"));
        assert_non_null(strstr(error.text, "index 5 is outside -5..4"));
    }
    assert_true(replays_of(session) >= 2 * RUNS - 2);
    eng_session_free(session);
    eng_model_unref(model);
}

// --- the port ------------------------------------------------------------------------------------

static const struct eng_cuda_port *port_of(void)
{
    eng_cuda_port_fn port = NULL;
    void *library = dlopen(WALLE_CUDA_ON_CPU, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, ENG_CUDA_PORT_SYMBOL);
    assert_non_null(symbol);
    memcpy(&port, &symbol, sizeof port);
    return port();
}

static void nothing_happens_while_a_stream_is_recorded(void **state)
{
    (void)state;
    const struct eng_cuda_port *port = port_of();
    struct eng_cuda_stream *stream = NULL;
    struct eng_cuda_graph *graph = NULL;
    float here[4] = {1, 2, 3, 4}, back[4] = {0};
    void *there = NULL, *refused = NULL;
    assert_null(port->open(&stream));
    assert_null(port->allocate(sizeof here, &there));
    assert_null(port->record(stream));
    assert_non_null(port->allocate(64, &refused));
    assert_non_null(port->sync(stream));
    assert_null(port->upload(stream, there, here, sizeof here));
    assert_null(port->download(stream, back, there, sizeof back));
    assert_null(port->recorded(stream, &graph));
    assert_null(port->sync(stream));
    assert_true(back[0] == 0 && back[3] == 0);
    for (int i = 1; i <= 3; i++) {
        here[0] = (float)i;
        assert_null(port->replay(stream, graph));
        assert_null(port->sync(stream));
        assert_true(back[0] == (float)i && back[3] == 4);
    }
    port->forget(graph);
    port->forget(NULL);
    assert_null(port->allocate(64, &refused)); // allowed again
    port->release(refused);
    port->release(there);
    port->close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_runs_but_the_first_are_replayed),
        cmocka_unit_test(a_plan_with_steps_of_the_host_is_not_recorded),
        cmocka_unit_test(an_index_out_of_range_is_named_in_a_replay),
        cmocka_unit_test(nothing_happens_while_a_stream_is_recorded),
    };
    (void)setenv("WALLE_ENGINE_CUDA", WALLE_CUDA_ON_CPU, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
