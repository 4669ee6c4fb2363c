// Benchmark worker that runs a model in ONNX Runtime, called through the C interface of the library
// its npm package bundles (ort_worker LIBRARY MODEL INPUTS THREADS [--isa avx2]). Single-threaded
// driver. With --isa avx2 the library is one that isa_limit.py marked, and sees no AVX-512.
//
// The library's function table is an array of pointers that only ever grows at its end; the numbers
// below are places in that table.
#include "isa_limit.h"
#include "worker_io.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ort_function {
    ORT_ERROR_MESSAGE = 2,
    ORT_CREATE_ENV = 3,
    ORT_CREATE_SESSION = 7,
    ORT_RUN = 9,
    ORT_CREATE_SESSION_OPTIONS = 10,
    ORT_SET_OPTIMIZATION = 23,
    ORT_SET_INTRA_THREADS = 24,
    ORT_SET_INTER_THREADS = 25,
    ORT_OUTPUT_COUNT = 31,
    ORT_OUTPUT_NAME = 37,
    ORT_CREATE_TENSOR_WITH_DATA = 49,
    ORT_TENSOR_DATA = 51,
    ORT_SHAPE_COUNT = 64,
    ORT_TENSOR_SHAPE = 65,
    ORT_CREATE_CPU_MEMORY = 69,
    ORT_DEFAULT_ALLOCATOR = 78,
    ORT_RELEASE_VALUE = 96,
};
#define ORT_API_VERSION   13u
#define ORT_ENABLE_ALL    99
#define ORT_LOG_ERRORS    3
#define ORT_ELEMENT_BYTES 4 // all models of the benchmark answer with float32

struct ort_base {
    void *const *(*api)(uint32_t version);
    const char *(*version)(void);
};

struct ort {
    void *const *api;
    void *env, *options, *session, *memory, *allocator;
    size_t output_count;
    char *names[WORKER_OUTPUTS_MAX];
    void *outputs[WORKER_OUTPUTS_MAX];
    void *values[WORKER_INPUTS_MAX];
    const char *input_names[WORKER_INPUTS_MAX];
    size_t input_count;
};

static void *entry(const struct ort *ort, enum ort_function function)
{
    return ort->api[function];
}

static void check(const struct ort *ort, void *status, const char *what)
{
    if (status) {
        const char *(*message)(void *) = (const char *(*)(void *))entry(ort, ORT_ERROR_MESSAGE);
        worker_fail("ONNX Runtime, %s: %s", what, message(status));
    }
}

static const struct ort_base *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        worker_fail("%s", dlerror());
    }
    const struct ort_base *(*get)(void) =
        (const struct ort_base *(*)(void))dlsym(library, "OrtGetApiBase");
    if (!get) {
        worker_fail("%s is not ONNX Runtime", path);
    }
    return get();
}

static void create_session(struct ort *ort, const char *model, int threads)
{
    typedef void *(*create_env)(int, const char *, void **);
    typedef void *(*create_one)(void **);
    typedef void *(*set_int)(void *, int);
    typedef void *(*create_session_fn)(void *, const char *, void *, void **);
    check(ort, ((create_env)entry(ort, ORT_CREATE_ENV))(ORT_LOG_ERRORS, "bench", &ort->env),
          "environment");
    check(ort, ((create_one)entry(ort, ORT_CREATE_SESSION_OPTIONS))(&ort->options), "options");
    check(ort, ((set_int)entry(ort, ORT_SET_OPTIMIZATION))(ort->options, ORT_ENABLE_ALL), "level");
    check(ort, ((set_int)entry(ort, ORT_SET_INTRA_THREADS))(ort->options, threads), "threads");
    check(ort, ((set_int)entry(ort, ORT_SET_INTER_THREADS))(ort->options, 1), "threads");
    check(ort,
          ((create_session_fn)entry(ort, ORT_CREATE_SESSION))(ort->env, model, ort->options,
                                                              &ort->session),
          "session");
}

static void bind_inputs(struct ort *ort, const struct worker *worker)
{
    typedef void *(*cpu_memory)(int, int, void **);
    typedef void *(*with_data)(void *, void *, size_t, const int64_t *, size_t, int, void **);
    check(ort, ((cpu_memory)entry(ort, ORT_CREATE_CPU_MEMORY))(0, 0, &ort->memory), "memory");
    ort->input_count = worker->input_count;
    for (size_t i = 0; i < worker->input_count; i++) {
        const struct worker_input *input = &worker->inputs[i];
        ort->input_names[i] = input->name;
        check(ort,
              ((with_data)entry(ort, ORT_CREATE_TENSOR_WITH_DATA))(
                  ort->memory, input->data, input->bytes, input->dims, input->rank, input->dtype,
                  &ort->values[i]),
              input->name);
    }
}

static void name_outputs(struct ort *ort)
{
    typedef void *(*count_fn)(void *, size_t *);
    typedef void *(*name_fn)(void *, size_t, void *, char **);
    typedef void *(*allocator_fn)(void **);
    check(ort, ((allocator_fn)entry(ort, ORT_DEFAULT_ALLOCATOR))(&ort->allocator), "allocator");
    check(ort, ((count_fn)entry(ort, ORT_OUTPUT_COUNT))(ort->session, &ort->output_count),
          "outputs");
    if (ort->output_count > WORKER_OUTPUTS_MAX) {
        worker_fail("too many outputs");
    }
    for (size_t i = 0; i < ort->output_count; i++) {
        check(
            ort,
            ((name_fn)entry(ort, ORT_OUTPUT_NAME))(ort->session, i, ort->allocator, &ort->names[i]),
            "output name");
    }
}

static int run(void *ctx)
{
    struct ort *ort = ctx;
    typedef void *(*run_fn)(void *, void *, const char *const *, void *const *, size_t,
                            const char *const *, size_t, void **);
    typedef void (*release_fn)(void *);
    for (size_t i = 0; i < ort->output_count; i++) {
        if (ort->outputs[i]) {
            ((release_fn)entry(ort, ORT_RELEASE_VALUE))(ort->outputs[i]);
            ort->outputs[i] = NULL;
        }
    }
    check(ort,
          ((run_fn)entry(ort, ORT_RUN))(ort->session, NULL, ort->input_names, ort->values,
                                        ort->input_count, (const char *const *)ort->names,
                                        ort->output_count, ort->outputs),
          "run");
    return 0;
}

static const void *output(void *ctx, size_t index, size_t *out_bytes)
{
    struct ort *ort = ctx;
    typedef void *(*data_fn)(void *, void **);
    typedef void *(*shape_fn)(void *, void **);
    typedef void *(*count_fn)(void *, size_t *);
    if (index >= ort->output_count || !ort->outputs[index]) {
        return NULL;
    }
    void *data;
    void *shape;
    size_t count;
    check(ort, ((data_fn)entry(ort, ORT_TENSOR_DATA))(ort->outputs[index], &data), "output");
    check(ort, ((shape_fn)entry(ort, ORT_TENSOR_SHAPE))(ort->outputs[index], &shape), "output");
    check(ort, ((count_fn)entry(ort, ORT_SHAPE_COUNT))(shape, &count), "output");
    *out_bytes = count * ORT_ELEMENT_BYTES;
    return data;
}

int main(int argc, char **argv)
{
    const bool limited = argc == 7 && strcmp(argv[5], "--isa") == 0 && strcmp(argv[6], "avx2") == 0;
    if (argc != 5 && !limited) {
        fprintf(stderr, "usage: ort_worker LIBRARY MODEL INPUTS THREADS [--isa avx2]\n");
        return 64;
    }
    if (limited && !isa_limit_install()) {
        worker_fail("this machine's instruction sets cannot be limited");
    }
    static struct ort ort;
    static struct worker worker;
    worker_read_inputs(&worker, argv[3]);
    const struct ort_base *base = open_library(argv[1]);
    ort.api = base->api(ORT_API_VERSION);
    if (!ort.api) {
        worker_fail("ONNX Runtime %s has no interface version %u", base->version(),
                    ORT_API_VERSION);
    }
    uint64_t begin = worker_now_us();
    create_session(&ort, argv[2], (int)worker_number(argv[4], strlen(argv[4])));
    uint64_t load_us = worker_now_us() - begin;
    if (limited && isa_limit_count() == 0) {
        worker_fail("%s was not marked by isa_limit.py", argv[1]);
    }
    bind_inputs(&ort, &worker);
    name_outputs(&ort);
    worker.ctx = &ort;
    worker.run = run;
    worker.output = output;
    worker.extra = base->version();
    worker_serve(&worker, load_us);
    return 0;
}
