// What it costs that a device hashes what it runs: a task of a script of about 100 KB and a model
// is started in a task process again and again, in turns with the proof and without it, and one
// line of JSON is printed. Started by bench/vm_bench.py.
//
//   proven_start ROUNDS MODEL RUNNER
//
// A run is timed from the tick that starts it to its result. Without the proof content is mapped
// and a hash is what it is hoped to be, which is how content was run before it was proven. The
// first runs copy and hash the model, and make its template; they are not counted but for the
// first.
#include "posix/run/posix_tasks.h"
#include "posix/store/posix_storage.h"

#include "core/base/runtime.h"
#include "core/slots/device_repair.h"
#include "vm/vm.h"

#include "base/clock.h"
#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX   100000
#define WARM_RUNS    6
#define SCRIPT_BYTES (100 * 1024)
#define FILE_MAX     (64 << 20)
#define PAUSE_NS     10000000 // between runs: the next process is there
#define TASK         "bench/start"

static const char program_text[] = "import walle\n"
                                   "from walle import nn\n"
                                   "m = nn.load('model.onnx')\n"
                                   "walle.result(m(nn.tensor([3], (1,), 'int64')).tolist())\n";

struct bench {
    struct event_base *base;
    struct posix_storage *storage;
    struct posix_tasks *tasks;
    struct dev_ports ports;
    struct dev_crypto_port hopeful;
    struct dev_storage_port stored;
    struct dev_runtime *runtime;
    struct base_prng prng;
    struct wire_sha256 manifest;
    double ended_us;
    double tick_us; // of the tick that started the last run: content is read and hashed in it
    bool ended;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "proven_start: %s\n", what);
    exit(1);
}

static void need(enum base_status status, const char *what)
{
    if (status != BASE_OK) {
        (void)fprintf(stderr, "proven_start: %s: ", what);
        die(base_status_text(status));
    }
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// ---- Ports

static void hope_begin(void *ctx, struct dev_hash_state *state, const struct wire_sha256 *expected)
{
    (void)ctx;
    memcpy(state->opaque, expected->bytes, WIRE_SHA256_BYTES);
}

static void hope_update(void *ctx, struct dev_hash_state *state, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)state;
    (void)bytes;
    (void)size;
}

static void hope_end(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out)
{
    (void)ctx;
    memcpy(out->bytes, state->opaque, WIRE_SHA256_BYTES);
}

static void proof_set(struct bench *bench, bool proven)
{
    bench->ports.crypto = proven ? *dev_crypto_openssl() : bench->hopeful;
    bench->ports.storage = bench->stored;
    if (!proven) {
        bench->ports.storage.blob_load = NULL;
    }
}

static enum base_status http_start(void *ctx, uint32_t exchange, const struct dev_request *request)
{
    (void)ctx;
    (void)exchange;
    (void)request;
    return BASE_ERR_CLOSED; // there is no gateway
}

static void http_cancel(void *ctx, uint32_t exchange)
{
    (void)ctx;
    (void)exchange;
}

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    struct bench *bench = app;
    (void)task;
    if (end->outcome != WIRE_OUTCOME_RAN) {
        (void)fprintf(stderr, "%.*s\n", (int)end->detail.size, end->detail.data);
        die("a run failed");
    }
    bench->ended_us = now_us();
    bench->ended = true;
}

static void woke(void *ctx)
{
    (void)ctx;
}

// ---- Content

static struct wire_sha256 blob_put(struct bench *bench, const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    const struct dev_storage_port *port = &bench->stored;
    struct dev_hash_state state;
    struct wire_sha256 name;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &name);
    need(port->blob_append(port->ctx, &name, 0, bytes, size), "content");
    need(port->blob_seal(port->ctx, &name), "content");
    return name;
}

// A module of about SCRIPT_BYTES: functions that are never called, and what runs.
static uint8_t *script_make(size_t *out_size)
{
    char *source = malloc(SCRIPT_BYTES * 4);
    size_t size = 0;
    struct base_error error = {0};
    uint8_t *mpy = NULL;
    need(source != NULL ? BASE_OK : BASE_ERR_NOMEM, "script");
    for (uint32_t i = 0; size < SCRIPT_BYTES * 5 / 4; i++) {
        size += (size_t)snprintf(source + size, SCRIPT_BYTES * 4 - size,
                                 "def f%u(a, b):\n    x = [a * %u + b, 'word %u', b'%08u%08u']\n"
                                 "    return {'one': x, 'two': len(x) + %u}\n",
                                 i, i * 7919u, i, i * 31u, i * 77u, i);
    }
    memcpy(source + size, program_text, sizeof(program_text));
    need(dev_vm_compile(base_str_of(source), BASE_STR("main.py"), &mpy, out_size, &error),
         error.text);
    free(source);
    return mpy;
}

static uint8_t *file_read(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rbe");
    uint8_t *bytes = malloc(FILE_MAX);
    if (file == NULL || bytes == NULL) {
        die(path);
    }
    *out_size = fread(bytes, 1, FILE_MAX, file);
    (void)fclose(file);
    return bytes;
}

static void content_make(struct bench *bench, const char *model_path, size_t *out_script,
                         size_t *out_model)
{
    static struct wire_manifest manifest;
    static uint8_t bytes[4096];
    size_t size = 0;
    uint8_t *script = script_make(out_script);
    uint8_t *model = file_read(model_path, out_model);
    manifest = (struct wire_manifest){.task_name = BASE_STR(TASK),
                                      .version = BASE_STR("1.0.0"),
                                      .runtime_abi = WIRE_RUNTIME_ABI,
                                      .entry = BASE_STR("main"),
                                      .heap_kib = 1024,
                                      .time_ms = 10000,
                                      .file_count = 2};
    manifest.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_SCRIPT,
                                                    .name = BASE_STR("main.mpy"),
                                                    .bytes = *out_script,
                                                    .digest = blob_put(bench, script, *out_script)};
    manifest.files[1] = (struct wire_manifest_file){.kind = WIRE_FILE_MODEL,
                                                    .name = BASE_STR("model.onnx"),
                                                    .bytes = *out_model,
                                                    .digest = blob_put(bench, model, *out_model)};
    need(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &size), "manifest");
    bench->manifest = blob_put(bench, bytes, size);
    free(script);
    free(model);
}

// ---- The device

static void device_open(struct bench *bench, const char *dir, const char *runner_path)
{
    struct base_error error = {0};
    static struct dev_config config;
    bench->base = event_base_new();
    bench->hopeful = *dev_crypto_openssl();
    bench->hopeful.hash_begin = hope_begin;
    bench->hopeful.hash_update = hope_update;
    bench->hopeful.hash_end = hope_end;
    base_prng_seed(&bench->prng, 1);
    need(posix_storage_new(dir, NULL, &bench->storage, &error), error.text);
    bench->stored = posix_storage_table(bench->storage);
    const struct posix_task_options options = {
        .base = bench->base, .runner_path = runner_path, .ctx = bench, .woke = woke};
    need(posix_tasks_new(&options, 1, &bench->tasks, &error), error.text);
    bench->ports = (struct dev_ports){
        .clock = *base_clock_real(),
        .random = base_prng_port(&bench->prng),
        .http = {.ctx = bench, .start = http_start, .cancel = http_cancel},
        .task = posix_tasks_table(bench->tasks),
        .app = bench,
        .on_result = on_result,
    };
    proof_set(bench, true);
    config = (struct dev_config){.device_id = 1, .trusted_key_count = 1, .backoff_base_ms = 300000};
    size_t size = dev_runtime_bytes(&config);
    void *memory = aligned_alloc(16, size);
    need(memory != NULL ? dev_init(memory, size, &config, &bench->ports, &bench->runtime)
                        : BASE_ERR_NOMEM,
         "runtime");
    posix_tasks_attach(bench->tasks, bench->runtime);
    need(dev_boot(bench->runtime), "boot");
}

// The version as if it had been released and settled long ago; what a check would do is done.
static void device_give(struct bench *bench)
{
    struct dev_task *task = &bench->runtime->tasks[0];
    memset(task, 0, sizeof(*task));
    task->name_size = sizeof(TASK) - 1;
    memcpy(task->name, TASK, task->name_size);
    task->id = wire_task_id(BASE_STR(TASK));
    task->slots.state = DEV_UPDATE_SETTLED;
    task->slots.active.manifest = bench->manifest;
    task->offer.accepted = bench->manifest;
    task->offer.accepted_by = (struct dev_approval){.counter = 1};
    task->slots.active.by = task->offer.accepted_by;
    task->offer.newest = task->offer.accepted_by;
    task->offer.newest_manifest = bench->manifest;
    task->runs.count = 1;
    task->runs.due_us = UINT64_MAX;
    bench->runtime->task_count = 1;
    bench->runtime->check->due_us = UINT64_MAX;
}

static double run_once(struct bench *bench)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    (void)nanosleep(&pause, NULL);
    bench->runtime->dirty = false; // nothing is stored between runs
    bench->runtime->tasks[0].runs.due_us = 0;
    bench->ended = false;
    double begun_us = now_us();
    (void)dev_tick(bench->runtime, base_clock_mono_us());
    bench->tick_us = now_us() - begun_us;
    while (!bench->ended) {
        (void)event_base_loop(bench->base, EVLOOP_ONCE);
    }
    return bench->ended_us - begun_us;
}

static int double_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { BEFORE, AFTER, BEFORE_TICK, AFTER_TICK, TIMES };

static void measure(struct bench *bench, size_t rounds, size_t script, size_t model)
{
    double *times[TIMES];
    double first = 0;
    for (int i = 0; i < TIMES; i++) {
        times[i] = malloc(rounds * sizeof(double));
        need(times[i] != NULL ? BASE_OK : BASE_ERR_NOMEM, "times");
    }
    for (int i = 0; i < WARM_RUNS; i++) {
        double took = run_once(bench);
        first = i == 0 ? took : first;
    }
    for (size_t i = 0; i < 2 * rounds; i++) {
        size_t side = (i + i / 2) % 2; // in turns, each first as often
        proof_set(bench, side == AFTER);
        times[side][i / 2] = run_once(bench);
        times[BEFORE_TICK + side][i / 2] = bench->tick_us;
    }
    for (int i = 0; i < TIMES; i++) {
        qsort(times[i], rounds, sizeof(double), double_order);
    }
    (void)printf(
        "{\"script_bytes\": %zu, \"model_bytes\": %zu, \"rounds\": %zu, \"first_us\": %.1f, "
        "\"before_us\": %.1f, \"after_us\": %.1f, \"before_p10_us\": %.1f, "
        "\"after_p10_us\": %.1f, \"before_tick_us\": %.1f, \"after_tick_us\": %.1f}\n",
        script, model, rounds, first, times[BEFORE][rounds / 2], times[AFTER][rounds / 2],
        times[BEFORE][rounds / 10], times[AFTER][rounds / 10], times[BEFORE_TICK][rounds / 2],
        times[AFTER_TICK][rounds / 2]);
    for (int i = 0; i < TIMES; i++) {
        free(times[i]);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    char dir[] = "/tmp/walle-proven-start-XXXXXX";
    char command[sizeof(dir) + 16];
    uint64_t rounds = 0;
    size_t script = 0;
    size_t model = 0;
    if (argc != 4 || base_str_u64(base_str_of(argv[1]), &rounds) != BASE_OK || rounds == 0 ||
        rounds > ROUNDS_MAX) {
        die("usage: proven_start ROUNDS MODEL RUNNER");
    }
    if (mkdtemp(dir) == NULL) {
        die(dir);
    }
    device_open(&bench, dir, argv[3]);
    content_make(&bench, argv[2], &script, &model);
    device_give(&bench);
    measure(&bench, (size_t)rounds, script, model);
    dev_stop(bench.runtime);
    posix_tasks_free(bench.tasks);
    posix_storage_free(bench.storage);
    event_base_free(bench.base);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command) == 0 ? 0 : 1;
}
