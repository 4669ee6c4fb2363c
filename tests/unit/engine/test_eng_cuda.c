// The device "cuda" on the processor: that a kernel with a race, a host's look at device memory, a
// kernel's look at host memory, a write past the end and a wait that is missing are found; and what
// a session on a device promises. What the kernels compute is tested by the suites of the operators
// (those named _cuda) and by e2e/test_engine_cuda.py.
#include "cuda_kit.h"
#include "onnx_kit.h"
#include "test_kit.h"

#include "backend/cuda/cuda_port.h"
#include "engine/engine.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS   256 // of a planted kernel: ENG_CUDA_THREADS
#define SEEDS     8
#define EXIT_DONE 7

enum planted { WAITS, RACES, ONE_MORE, APART };

typedef const char *(*planted_fn)(int which, int *numbers);

// --- in a process of its own ---------------------------------------------------------------------

// cmocka catches what ends a process, and goes on.
static void be_quiet_and_mortal(void)
{
    const int deaths[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < TEST_COUNT(deaths); i++) {
        (void)signal(deaths[i], SIG_DFL);
    }
    (void)freopen("/dev/null", "w", stderr);
}

static void *symbol_of(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, name);
    assert_non_null(symbol);
    return symbol;
}

// Whether it came to its end, and found every number right.
static bool planted_is_right(enum planted which, int seed)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", seed);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int numbers[THREADS] = {0};
        planted_fn run = NULL;
        (void)setenv("WALLE_CUDA_SEED", text, 1);
        be_quiet_and_mortal();
        void *symbol = symbol_of(WALLE_PLANTED_KERNELS, "planted_run");
        memcpy(&run, &symbol, sizeof run);
        bool is_right = run((int)which, numbers) == NULL;
        for (int i = 0; i < THREADS; i++) {
            is_right = is_right && numbers[i] == THREADS - 1 - i;
        }
        _exit(is_right ? EXIT_DONE : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
}

static void a_race_gives_other_results(void **state)
{
    (void)state;
    int right = 0, raced = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        right += planted_is_right(WAITS, seed);
        raced += !planted_is_right(RACES, seed);
    }
    assert_int_equal(right, SEEDS);
    assert_int_equal(raced, SEEDS);
}

static void a_write_past_the_end_ends_the_process(void **state)
{
    (void)state;
    assert_false(planted_is_right(ONE_MORE, 1));
}

static void threads_at_different_barriers_end_the_process(void **state)
{
    (void)state;
    assert_false(planted_is_right(APART, 1));
}

// --- the port ------------------------------------------------------------------------------------

static const struct eng_cuda_port *port_of(void)
{
    eng_cuda_port_fn port = NULL;
    void *symbol = symbol_of(WALLE_CUDA_ON_CPU, ENG_CUDA_PORT_SYMBOL);
    memcpy(&port, &symbol, sizeof port);
    return port();
}

static void the_host_cannot_read_device_memory(void **state)
{
    (void)state;
    const struct eng_cuda_port *port = port_of();
    void *at = NULL;
    assert_null(port->allocate(64, &at));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_quiet_and_mortal();
        const volatile uint8_t *byte = at;
        _exit(*byte == 0 ? EXIT_DONE : EXIT_DONE);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE);
    port->release(at);
}

static void a_kernel_is_not_given_host_memory(void **state)
{
    (void)state;
    const struct eng_cuda_port *port = port_of();
    struct eng_cuda_stream *stream = NULL;
    float here[4] = {1, 2, 3, 4};
    void *there = NULL;
    assert_null(port->open(&stream));
    assert_null(port->allocate(sizeof here, &there));
    const struct eng_cuda_unary negate = {.count = 4, .unary = {.fn = ENG_NEG}, .dtype = ENG_F32};
    struct eng_cuda_buffers buffers = {.in = {here}, .out = {there}};
    assert_non_null(port->launch(stream, ENG_CUDA_UNARY, &buffers, &negate));
    assert_non_null(port->upload(stream, here, here, sizeof here));
    assert_non_null(port->download(stream, there, there, sizeof here));
    // And what is right: nothing has happened until it is waited for.
    buffers.in[0] = there;
    float back[4] = {0};
    assert_null(port->upload(stream, there, here, sizeof here));
    assert_null(port->launch(stream, ENG_CUDA_UNARY, &buffers, &negate));
    assert_null(port->download(stream, back, there, sizeof back));
    assert_true(back[0] == 0 && back[3] == 0);
    assert_null(port->sync(stream));
    assert_true(back[0] == -1 && back[3] == -4);
    port->release(there);
    port->close(stream);
}

// --- sessions ------------------------------------------------------------------------------------

static void run_on(struct eng_session *session, float *x, const int64_t (*dims)[3])
{
    struct base_error error = {0};
    const struct eng_array array = {
        .desc = {.dtype = ENG_F32, .rank = 3, .dims = {(*dims)[0], (*dims)[1], (*dims)[2]}},
        .data = x};
    if (eng_session_set_input(session, 0, &array, &error) != BASE_OK ||
        eng_session_run(session, NULL, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

// Det has no kernel: what is before and behind it goes back and forth, each run anew.
static void a_command_without_a_kernel_runs_on_the_host(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 2, 2, 2);
    onnx_output(kit, "y", ENG_F32, 2);
    onnx_node(kit, "Neg", "x", "n");
    onnx_node(kit, "Transpose", "n", "t");
    const int64_t perm[] = {0, 2, 1};
    onnx_attr_ints(kit, "perm", perm, 3);
    onnx_node(kit, "Det", "t", "d");
    onnx_node(kit, "Exp", "d", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *session = cuda_kit_session(model);
    float x[8] = {1, 2, 3, 4, 0, 1, -1, 2};
    for (int round = 0; round < 3; round++, x[0] += 1) {
        run_on(session, x, &(const int64_t[3]){2, 2, 2});
        struct eng_array y;
        assert_int_equal(eng_session_output(session, 0, &y, NULL), BASE_OK);
        assert_float_equal(((float *)y.data)[0], expf(x[0] * 4 - 6), 1e-5);
        assert_float_equal(((float *)y.data)[1], expf(1), 1e-5);
    }
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    assert_string_equal(stats.device, "cuda");
    assert_int_equal(stats.left_to_host, 1);
    eng_session_free(session);
    eng_model_unref(model);
}

static void weights_are_on_the_device_once(void **state)
{
    (void)state;
    static float weights[64 * 64];
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1, 1, 64);
    onnx_output(kit, "y", ENG_F32, 1, 1, 64);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(64, 64), weights, sizeof weights);
    onnx_node(kit, "MatMul", "x w", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *one = cuda_kit_session(model), *other = cuda_kit_session(model);
    struct eng_session_stats before, after;
    static float x[64];
    run_on(one, x, &(const int64_t[3]){1, 1, 64});
    eng_session_stats(one, &before);
    run_on(other, x, &(const int64_t[3]){1, 1, 64});
    eng_session_stats(one, &after);
    assert_true(before.device_bytes >= sizeof weights);
    assert_int_equal(after.device_bytes, before.device_bytes);
    eng_session_stats(other, &after);
    assert_int_equal(after.device_bytes, before.device_bytes);
    eng_session_free(one);
    eng_session_free(other);
    eng_model_unref(model);
}

static void an_index_out_of_range_names_its_node(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1, 1, 3);
    onnx_output(kit, "y", ENG_F32, 1, 1, 3);
    static const float table[5] = {10, 20, 30, 40, 50};
    onnx_initializer(kit, "table", ENG_F32, ONNX_DIMS(5), table, sizeof table);
    onnx_node(kit, "Cast", "x", "i");
    onnx_attr_int(kit, "to", ENG_I64);
    onnx_node(kit, "Gather", "table i", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *session = cuda_kit_session(model);
    float x[3] = {0, -1, 2};
    struct eng_array y;
    struct base_error error = {0};
    run_on(session, x, &(const int64_t[3]){1, 1, 3});
    assert_int_equal(eng_session_output(session, 0, &y, NULL), BASE_OK);
    assert_true(((float *)y.data)[1] == 50);
    const struct eng_array bad = {.desc = {.dtype = ENG_F32, .rank = 3, .dims = {1, 1, 3}},
                                  .data = (float[]){1, 5, 2}};
    assert_int_equal(eng_session_set_input(session, 0, &bad, &error), BASE_OK);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "Gather"));
    assert_non_null(strstr(error.text, "index 5 is outside -5..4"));
    run_on(session, x, &(const int64_t[3]){1, 1, 3}); // it works on, with no old fault
    eng_session_free(session);
    eng_model_unref(model);
}

static void a_device_that_is_not_there_is_said(void **state)
{
    (void)state;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1, 1, 3);
    onnx_output(kit, "y", ENG_F32, 1, 1, 3);
    onnx_node(kit, "Neg", "x", "y");
    struct eng_model *model = cuda_kit_load(kit);
    struct eng_session *session = NULL;
    struct base_error error = {0};
    assert_int_equal(
        eng_session_new(model, &(struct eng_session_options){.device = "gpu"}, &session, &error),
        BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "'gpu'"));
    const pid_t child = fork(); // a library is looked for once in a process
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("WALLE_ENGINE_CUDA", "/nowhere/cuda.so", 1);
        enum base_status status = eng_session_new(
            model, &(struct eng_session_options){.device = "cuda"}, &session, &error);
        _exit(status == BASE_ERR_NOT_FOUND && strstr(error.text, "/nowhere/cuda.so") != NULL
                  ? EXIT_DONE
                  : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE);
    eng_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_not_there_is_said), // before the library is found
        cmocka_unit_test(a_race_gives_other_results),
        cmocka_unit_test(a_write_past_the_end_ends_the_process),
        cmocka_unit_test(threads_at_different_barriers_end_the_process),
        cmocka_unit_test(the_host_cannot_read_device_memory),
        cmocka_unit_test(a_kernel_is_not_given_host_memory),
        cmocka_unit_test(a_command_without_a_kernel_runs_on_the_host),
        cmocka_unit_test(weights_are_on_the_device_once),
        cmocka_unit_test(an_index_out_of_range_names_its_node),
    };
    (void)setenv("WALLE_ENGINE_CUDA", WALLE_CUDA_ON_CPU, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
