// A model called by a script through walle.nn beside the same calls of a session from C, in turns,
// and prints one line of JSON. Started by bench/vm_bench.py.
//
//   vm_nn_bench ROUNDS CALLS MODEL RUNNER
//
// Inputs are zeros of the shapes the model declares (1 where it names none). Both sides copy inputs
// in and outputs out; both sessions have one thread and fixed choices. A second pair measures a
// whole run of one call: fresh interpreter, load, tensors, call; and the same in a task process of
// the program RUNNER, which loads and plans the model anew.
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "device/port.h"
#include "engine/engine.h"
#include "model/model_store.h"
#include "posix/run/posix_child.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 100000
#define CALLS_MAX  1000
#define PORTS_MAX  16
#define FILE_MAX   (64 << 20)
#define HEAP_KIB   4096
#define PAUSE_NS   10000000 // between runs in processes

static const char source[] = "import walle\n"
                             "from walle import nn\n"
                             "model = nn.load('model.onnx')\n"
                             "width = {'float32': 4, 'int64': 8}\n"
                             "inputs = []\n"
                             "for name, dtype, shape in model.inputs:\n"
                             "    shape = tuple(n or 1 for n in shape)\n"
                             "    size = width[dtype]\n"
                             "    for n in shape:\n"
                             "        size *= n\n"
                             "    inputs.append(nn.tensor(bytes(size), shape, dtype))\n"
                             "for _ in range(walle.input):\n"
                             "    model(*inputs)\n";

struct side {
    struct eng_session *session;
    struct eng_array inputs[PORTS_MAX];
    size_t input_count;
    size_t output_count;
    uint8_t *copy; // of outputs
    size_t copy_bytes;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "vm_nn_bench: %s\n", what);
    exit(1);
}

static void need(enum base_status status, const struct base_error *error)
{
    if (status != BASE_OK) {
        die(error->text);
    }
}

static uint8_t *file_read(const char *path, size_t *out_size)
{
    uint8_t *bytes = malloc(FILE_MAX);
    FILE *file = fopen(path, "rb");
    if (bytes == NULL || file == NULL) {
        die("cannot read the model");
    }
    *out_size = fread(bytes, 1, FILE_MAX, file);
    (void)fclose(file);
    return bytes;
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// --- from C

static void side_open(struct side *side, struct eng_model *model)
{
    struct base_error error = {0};
    const struct eng_session_options options = {.threads = 1, .no_search = true};
    need(eng_session_new(model, &options, &side->session, &error), &error);
    side->input_count = eng_model_input_count(model);
    side->output_count = eng_model_output_count(model);
    if (side->input_count > PORTS_MAX) {
        die("too many inputs");
    }
    for (size_t i = 0; i < side->input_count; i++) {
        struct eng_array *array = &side->inputs[i];
        array->desc = eng_model_input(model, i)->desc;
        for (uint32_t d = 0; d < array->desc.rank; d++) {
            array->desc.dims[d] = array->desc.dims[d] < 0 ? 1 : array->desc.dims[d];
        }
        array->data = calloc(1, eng_desc_bytes(&array->desc) + 1);
        if (array->data == NULL) {
            die("no memory");
        }
    }
    side->copy_bytes = 1 << 20;
    side->copy = malloc(side->copy_bytes);
}

static void side_call(struct side *side)
{
    struct base_error error = {0};
    for (size_t i = 0; i < side->input_count; i++) {
        need(eng_session_set_input(side->session, i, &side->inputs[i], &error), &error);
    }
    need(eng_session_run(side->session, NULL, &error), &error);
    for (size_t i = 0; i < side->output_count; i++) {
        struct eng_array output;
        need(eng_session_output(side->session, i, &output, &error), &error);
        size_t bytes = eng_desc_bytes(&output.desc);
        if (bytes > side->copy_bytes) {
            die("a large output");
        }
        memcpy(side->copy, output.data, bytes);
    }
}

// --- from a script

struct script {
    struct dev_vm *vm;
    struct dev_vm_module module;
    struct dev_vm_model model;
    struct dev_model_port models;
};

static void script_open(struct script *script, const uint8_t *bytes, size_t size)
{
    uint8_t *mpy = NULL;
    size_t mpy_size = 0;
    struct base_error error = {0};
    need(dev_vm_compile(base_str_of(source), BASE_STR("bench.py"), &mpy, &mpy_size, &error),
         &error);
    script->module = (struct dev_vm_module){BASE_STR("main"), mpy, mpy_size};
    script->model =
        (struct dev_vm_model){.name = BASE_STR("model.onnx"), .bytes = bytes, .size = size};
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &script->model.digest);
    struct dev_model_store *store = NULL;
    if (dev_vm_new(HEAP_KIB, &script->vm) != BASE_OK || dev_model_store_new(0, &store) != BASE_OK) {
        die("no memory");
    }
    script->models = dev_model_store_port(store);
}

static void script_run(struct script *script, size_t calls)
{
    char input[16];
    struct dev_vm_result result;
    (void)snprintf(input, sizeof(input), "%zu", calls);
    const struct dev_vm_job job = {.modules = &script->module,
                                   .module_count = 1,
                                   .entry = BASE_STR("main"),
                                   .input = base_str_of(input),
                                   .models = &script->model,
                                   .model_count = 1,
                                   .model_port = &script->models,
                                   .time_ms = 60000};
    if (dev_vm_run(script->vm, &job, &result) != BASE_OK || result.end != DEV_VM_FINISHED) {
        (void)fprintf(stderr, "vm_nn_bench: %s %s\n", result.type, result.message);
        die("the script did not finish");
    }
}

// --- turns

static int double_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(*times), double_order);
    return times[count / 2];
}

static double apart_us(const struct script *script, const char *runner_path, size_t rounds)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct base_error error = {0};
    struct posix_children *children = NULL;
    struct posix_child_report report;
    double *times = malloc(rounds * sizeof(*times));
    const struct dev_vm_job vm = {.modules = &script->module,
                                  .module_count = 1,
                                  .entry = BASE_STR("main"),
                                  .input = BASE_STR("1"),
                                  .models = &script->model,
                                  .model_count = 1,
                                  .time_ms = 60000};
    const struct dev_runner_job job = {.vm = &vm, .heap_kib = HEAP_KIB};
    need(times != NULL ? BASE_OK : BASE_ERR_NOMEM, &error);
    need(posix_children_new(runner_path, &children, &error), &error);
    for (size_t i = 0; i < rounds; i++) {
        (void)nanosleep(&pause, NULL);
        double start = now_us();
        posix_child_run(children, &job, &report);
        times[i] = now_us() - start;
        need(posix_child_ready(children), &error); // as the agent, between runs
        if (report.how != POSIX_CHILD_ENDED || report.end->result.end != DEV_VM_FINISHED) {
            die(report.text[0] != '\0' ? report.text : "a script failed in its process");
        }
    }
    posix_children_free(children);
    double middle = median(times, rounds);
    free(times);
    return middle;
}

static void measure(struct script *script, struct side *side, size_t rounds, size_t calls,
                    const char *runner_path)
{
    enum { CALLS, NO_CALL, ONE_CALL, FROM_C, TIMES };
    double *times[TIMES];
    for (size_t i = 0; i < TIMES; i++) {
        times[i] = malloc(rounds * sizeof(double));
        if (times[i] == NULL) {
            die("no memory");
        }
    }
    for (size_t i = 0; i < rounds; i++) {
        double start = now_us();
        script_run(script, calls);
        double ran = now_us();
        for (size_t k = 0; k < calls; k++) {
            side_call(side);
        }
        double called = now_us();
        script_run(script, 0);
        double none = now_us();
        script_run(script, 1);
        times[ONE_CALL][i] = now_us() - none;
        times[NO_CALL][i] = none - called;
        times[CALLS][i] = ran - start;
        times[FROM_C][i] = (called - ran) / (double)calls;
    }
    double many = median(times[CALLS], rounds) - median(times[NO_CALL], rounds);
    double one = median(times[ONE_CALL], rounds);
    double least = times[CALLS][0] - times[NO_CALL][0];
    (void)printf("{\"call_us\":%.3f,\"c_us\":%.3f,", many / (double)calls,
                 median(times[FROM_C], rounds));
    (void)printf("\"call_us_min\":%.3f,\"c_us_min\":%.3f,", least / (double)calls,
                 times[FROM_C][0]);
    (void)printf("\"apart_us\":%.3f,", apart_us(script, runner_path, rounds));
    (void)printf("\"run_us\":%.3f,\"run_us_min\":%.3f,\"rounds\":%zu,\"calls\":%zu}\n", one,
                 times[ONE_CALL][0], rounds, calls);
}

static size_t number(const char *text, size_t max)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value == 0 || value > max) {
        die("a number is wrong");
    }
    return (size_t)value;
}

int main(int argc, char **argv)
{
    static struct side side;
    static struct script script;
    struct base_error error = {0};
    struct eng_model *model = NULL;
    size_t size = 0;
    if (argc != 5) {
        die("usage: vm_nn_bench ROUNDS CALLS MODEL RUNNER");
    }
    uint8_t *bytes = file_read(argv[3], &size);
    need(eng_model_load_memory(bytes, size, NULL, &model, &error), &error);
    side_open(&side, model);
    script_open(&script, bytes, size);
    side_call(&side);
    script_run(&script, 1);
    measure(&script, &side, number(argv[1], ROUNDS_MAX), number(argv[2], CALLS_MAX), argv[4]);
    return 0;
}
