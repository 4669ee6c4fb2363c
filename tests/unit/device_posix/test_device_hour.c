// An hour of a device with 64 tasks, light, middle and heavy, several at once: the runtime that
// ships, on virtual time, and scripts in VMs on threads of their own, in real time. Memory and
// places are never exceeded, of a task one runs, each gets its own content, none starves, and the
// same hour is the same again. One in eight is urgent: it keeps its deadline each time, for which
// others are stopped and done anew. What each run comes to is what it comes to where its task is
// alone.
#include "test_kit.h"

#include "core/base/runtime.h"
#include "core/slots/device_repair.h"
#include "core/run/runs_at_once.h"
#include "base/error.h"
#include "base/hash.h"
#include "mem/mem_port.h"
#include "vm/vm.h"
#include "wire/declaration.h"

#include <pthread.h>

#define TASKS    64u
#define PLACES   4u
#define BUDGET   (200ull * 1024 * 1024)
#define HOUR_US  3600000000ull
#define FILES    2u
#define MANIFEST 512u
#define URGENT   8u   // one in so many
#define SLACK_MS 300u // between what an urgent run takes at most and its deadline
#define RUNS_MAX 800u
#define WEIGHTS  3u

// Each result follows from the task and the number of its run, and would differ if anything stayed
// of another run or was shared with one: a global, a module's name, a heap that was not cleared.
#define BEGIN                                                                                      \
    "import walle, features\n"                                                                     \
    "n, run = walle.config['n'], walle.input\n"                                                    \
    "seen.append(run) if 'seen' in globals() else globals().update(seen=[run])\n"                  \
    "features.count += 1\n"
#define END "walle.result([n, run, len(seen), features.count, total])\n"
static const char *const sources[WEIGHTS] = {
    BEGIN "total = 0\n"
          "for i in range(20 + n):\n"
          "    total = (total * 31 + i * run + n) % 1000003\n" END,
    BEGIN "rows = {}\n"
          "for i in range(120):\n"
          "    rows.setdefault('k%d' % (i * run % 17), []).append(i ^ n)\n"
          "total = [[k, sum(rows[k])] for k in sorted(rows)]\n" END,
    BEGIN "from walle import np\n"
          "a = np.arange(400).reshape(20, 20) % (7 + n) + run % 5\n"
          "b = a.astype('float64') @ a.T\n"
          "total = [float(b.sum()), float(np.sort(b.ravel())[200]), int(b.argmax())]\n" END,
};
static const char features[] = "count = 0\n";

// A task, and the version that it has.
struct work {
    char name[24];
    char config[16];
    struct wire_sha256 manifest;
    struct wire_sha256 model;
    uint8_t bytes[MANIFEST];
    size_t size;
    uint64_t model_bytes; // 0: none
    uint64_t needs;
    uint32_t every_s;
    uint32_t time_ms;
    uint32_t deadline_ms; // 0: whenever
    uint32_t number;
    uint32_t weight;
    uint32_t runs;
    uint64_t ended_us; // of the run before
    uint64_t results[RUNS_MAX];
    bool running;
};

struct place {
    uint32_t run; // 0: free
    struct work *work;
    struct dev_vm *vm;
    pthread_t thread;
    bool plays; // and is to be joined
    uint64_t began_us;
    uint64_t over_us;
    uint64_t result;
    char input[16];
    struct dev_vm_result end;
};

struct code {
    uint8_t *bytes;
    size_t size;
};

static struct {
    struct mem_port port;
    struct dev_ports ports;
    struct dev_runtime *runtime;
    struct work works[TASKS];
    struct place places[PLACES];
    uint32_t tasks; // that the device has
    uint32_t first; // of the works
    struct wire_sha256 scripts[WEIGHTS];
    uint64_t used;
    uint64_t most_used;
    uint32_t running;
    uint32_t most_running;
    uint32_t cuts;
    uint64_t trace; // a hash of what began when
} hour;

static struct code codes[WEIGHTS];
static struct code module;

static struct wire_sha256 digest(const void *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 out;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &out);
    return out;
}

// ---- Content

static bool content(const struct wire_sha256 *name, const uint8_t **out_bytes, size_t *out_size)
{
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        if (wire_sha256_equal(name, &hour.scripts[i])) {
            *out_bytes = codes[i].bytes;
            *out_size = codes[i].size;
            return true;
        }
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        struct work *work = &hour.works[i];
        if (wire_sha256_equal(name, &work->manifest)) {
            *out_bytes = work->bytes;
            *out_size = work->size;
            return true;
        }
        if (work->model_bytes > 0 && wire_sha256_equal(name, &work->model)) {
            *out_bytes = (const uint8_t *)work->name; // nobody reads it
            *out_size = work->model_bytes;
            return true;
        }
    }
    return false;
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    (void)ctx;
    if (!content(name, &bytes, &size)) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_bytes = size;
    *out_sealed = true;
    return BASE_OK;
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    (void)ctx;
    return content(name, out_bytes, out_size) ? BASE_OK : BASE_ERR_NOT_FOUND;
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)name;
    (void)bytes;
    (void)size;
}

// An urgent one goes before all others, and says when it is to be over.
static struct base_str declare(struct work *work, bool urgent, uint8_t bytes[64])
{
    const struct wire_declaration declaration = {
        .result_upload = WIRE_DECLARATION_NO_UPLOAD,
        .runs = {.priority = 1, .deadline_ms = work->time_ms + SLACK_MS},
    };
    size_t size = 0;
    work->deadline_ms = urgent ? declaration.runs.deadline_ms : 0;
    if (urgent) {
        assert_int_equal(wire_declaration_encode(&declaration, bytes, 64, &size), BASE_OK);
    }
    return (struct base_str){(const char *)bytes, size};
}

static void work_make(uint32_t index)
{
    static struct wire_manifest manifest;
    uint8_t declaration[64];
    static const uint64_t models[] = {0, 10ull << 20, 60ull << 20};
    static const uint32_t times_ms[] = {50, 400, 3000};
    static const uint32_t every_s[] = {5, 20, 60};
    struct work *work = &hour.works[index];
    uint32_t weight = index % WEIGHTS;
    (void)snprintf(work->name, sizeof(work->name), "demo/t%u", index);
    (void)snprintf(work->config, sizeof(work->config), "{\"n\":%u}", index);
    work->number = index;
    work->weight = weight;
    work->model_bytes = models[weight];
    work->model = digest(work->name, strlen(work->name));
    work->every_s = every_s[weight] + index % 7;
    work->time_ms = times_ms[weight];
    work->needs = DEV_RUN_BESIDE_BYTES + 1024ull * DEV_RUN_HEAP_KIB_DEFAULT + work->model_bytes;
    manifest = (struct wire_manifest){
        .task_name = base_str_of(work->name),
        .version = BASE_STR("1.0.0"),
        .runtime_abi = WIRE_RUNTIME_ABI,
        .entry = BASE_STR("main"),
        .time_ms = work->time_ms,
        .every_s = work->every_s,
        .config = base_str_of(work->config),
        .declaration = declare(work, index % URGENT == 0, declaration),
        .file_count = weight > 0 ? FILES : 1,
    };
    manifest.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_SCRIPT,
        .name = BASE_STR("main.mpy"),
        .bytes = codes[weight].size,
        .digest = hour.scripts[weight],
    };
    manifest.files[1] = (struct wire_manifest_file){
        .kind = WIRE_FILE_MODEL,
        .name = BASE_STR("model.onnx"),
        .bytes = work->model_bytes,
        .digest = work->model,
    };
    assert_int_equal(wire_manifest_encode(&manifest, work->bytes, sizeof(work->bytes), &work->size),
                     BASE_OK);
    work->manifest = digest(work->bytes, work->size);
}

// ---- Runs

static struct work *work_of(struct base_str name)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        if (base_str_equal(name, base_str_of(hour.works[i].name))) {
            return &hour.works[i];
        }
    }
    fail_msg("a run of no task");
    return NULL;
}

static void *run_script(void *ctx)
{
    struct place *place = ctx;
    const struct work *work = place->work;
    const struct code *code = &codes[work->weight];
    const struct dev_vm_module modules[] = {
        {BASE_STR("main"), code->bytes, code->size},
        {BASE_STR("features"), module.bytes, module.size},
    };
    const struct dev_vm_job job = {.modules = modules,
                                   .module_count = 2,
                                   .entry = BASE_STR("main"),
                                   .config = base_str_of(work->config),
                                   .input = base_str_of(place->input),
                                   .time_ms = 60000};
    assert_int_equal(dev_vm_run(place->vm, &job, &place->end), BASE_OK);
    return NULL;
}

// Waits for the script. How long the run is, is drawn from what it came to.
static void join(struct place *place)
{
    if (!place->plays) {
        return;
    }
    if (hour.tasks > 1) {
        assert_int_equal(pthread_join(place->thread, NULL), 0);
    }
    place->plays = false;
    const struct work *work = place->work;
    const struct dev_vm_result *end = &place->end;
    uint64_t draw = base_hash64(end->result.data, end->result.size) ^ end->instructions;
    place->result = base_mix64(draw);
    place->over_us =
        place->began_us + 1000 + base_mix64(place->result) % (work->time_ms * 1000ull - 1000);
}

static enum base_status start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    struct work *work = work_of(job->manifest->task_name);
    struct place *place = hour.places;
    (void)ctx;
    while (place < hour.places + PLACES && place->run != 0) {
        place++;
    }
    assert_true(place < hour.places + PLACES);
    assert_false(work->running);
    assert_true(base_str_equal(job->manifest->config, base_str_of(work->config)));
    assert_int_equal(job->file_count, work->model_bytes > 0 ? FILES : 1);
    assert_true(job->file_count == 1 || wire_sha256_equal(&job->files[1].digest, &work->model));
    assert_true(wire_sha256_equal(&job->files[0].digest, &hour.scripts[work->weight]));
    uint64_t now_us = hour.port.clock.mono_us;
    place->run = run;
    place->work = work;
    place->began_us = now_us;
    (void)snprintf(place->input, sizeof(place->input), "%u", (unsigned)work->runs);
    if (hour.tasks > 1) {
        assert_int_equal(pthread_create(&place->thread, NULL, run_script, place), 0);
    } else {
        (void)run_script(place);
    }
    place->plays = true;
    work->running = true;
    hour.used += work->needs;
    hour.running++;
    hour.most_used = hour.used > hour.most_used ? hour.used : hour.most_used;
    hour.most_running = hour.running > hour.most_running ? hour.running : hour.most_running;
    hour.trace = base_mix64(hour.trace ^ now_us) ^ (uint64_t)(work - hour.works);
    assert_true(hour.used <= BUDGET);
    return BASE_OK;
}

static void leave(struct place *place)
{
    place->run = 0;
    place->work->running = false;
    hour.used -= place->work->needs;
    hour.running--;
}

static void cancel(void *ctx, uint32_t run)
{
    (void)ctx;
    for (uint32_t i = 0; i < PLACES; i++) {
        struct place *place = &hour.places[i];
        if (place->run == run) {
            assert_int_equal(place->work->deadline_ms, 0); // nobody stops an urgent one
            dev_vm_interrupt(place->vm);
            join(place);
            leave(place);
            hour.cuts++;
        }
    }
}

static void finish(struct place *place)
{
    const struct dev_task_end end = {.outcome = WIRE_OUTCOME_RAN, .result = BASE_STR("1")};
    struct work *work = place->work;
    uint32_t run = place->run;
    uint64_t now_us = hour.port.clock.mono_us;
    uint64_t due_us = work->ended_us + work->every_s * 1000000ull;
    if (place->end.end != DEV_VM_FINISHED) {
        fail_msg("%s: %s: %s", work->name, place->end.type, place->end.message);
    }
    char begin[64];
    int size = snprintf(begin, sizeof(begin), "[%u,%s,1,1,", work->number, place->input);
    assert_true(place->end.result.size > (size_t)size);
    assert_memory_equal(place->end.result.data, begin, (size_t)size);
    leave(place);
    if (work->deadline_ms > 0 && work->runs > 0 && now_us > due_us + work->deadline_ms * 1000ull) {
        fail_msg("%s was over %u ms after it was due; it has %u", work->name,
                 (unsigned)((now_us - due_us) / 1000), (unsigned)work->deadline_ms);
    }
    assert_true(work->runs < RUNS_MAX);
    work->results[work->runs++] = place->result;
    work->ended_us = now_us;
    dev_on_task_end(hour.runtime, run, &end);
}

// Of the runs that there are. Until here their scripts play beside each other.
static struct place *first_over(void)
{
    struct place *first = NULL;
    for (struct place *place = hour.places; place < hour.places + PLACES; place++) {
        join(place);
        if (place->run != 0 && (first == NULL || place->over_us < first->over_us)) {
            first = place;
        }
    }
    return first;
}

// ---- The hour

// The tasks as if they had been released and settled long ago.
static void tasks_give(void)
{
    struct dev_runtime *runtime = hour.runtime;
    uint64_t now_us = hour.port.clock.mono_us;
    for (uint32_t i = 0; i < hour.tasks; i++) {
        struct dev_task *task = &runtime->tasks[i];
        const struct work *work = &hour.works[hour.first + i];
        memset(task, 0, sizeof(*task));
        task->name_size = (uint8_t)strlen(work->name);
        memcpy(task->name, work->name, task->name_size);
        task->id = wire_task_id(base_str_of(work->name));
        task->slots.state = DEV_UPDATE_SETTLED;
        task->slots.every_s = work->every_s;
        task->slots.active.manifest = work->manifest;
        task->slots.active.by = (struct dev_approval){.counter = 1};
        task->offer.accepted = work->manifest;
        task->offer.accepted_by = task->slots.active.by;
        task->offer.newest = task->offer.accepted_by;
        task->offer.newest_manifest = work->manifest;
        task->runs.count = 1;
        task->runs.due_us = now_us + i * 100000ull;
    }
    runtime->task_count = hour.tasks;
    runtime->check->due_us = UINT64_MAX;
    assert_true(dev_validate(runtime));
}

// With `tasks` of the works, from the one at `first` on.
static void *device_open(uint32_t first, uint32_t tasks)
{
    struct dev_config config = {
        .device_id = 1,
        .trusted_key_count = 1,
        .tasks_max = TASKS,
        .checkin_spread_s = 7200, // there is no gateway in this hour
        .runs_max = PLACES,
        .runs_memory_bytes = BUDGET,
    };
    memset(&hour, 0, sizeof(hour));
    hour.first = first;
    hour.tasks = tasks;
    mem_port_init(&hour.port, 3, &hour.ports);
    hour.ports.storage.blob_stat = blob_stat;
    hour.ports.storage.blob_map = blob_map;
    hour.ports.storage.blob_load = NULL;
    hour.ports.storage.blob_unmap = blob_unmap;
    hour.ports.task =
        (struct dev_task_port){.start = start, .cancel = cancel, .proves_models = true};
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        hour.scripts[i] = digest(codes[i].bytes, codes[i].size);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        assert_int_equal(dev_vm_new(0, &hour.places[i].vm), BASE_OK);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        work_make(i);
    }
    size_t size = dev_runtime_bytes(&config);
    void *memory = aligned_alloc(16, (size + 15) / 16 * 16);
    assert_non_null(memory);
    assert_int_equal(dev_init(memory, size, &config, &hour.ports, &hour.runtime), BASE_OK);
    assert_int_equal(dev_boot(hour.runtime), BASE_OK);
    tasks_give();
    return memory;
}

static void play(void)
{
    uint64_t end_us = hour.port.clock.mono_us + HOUR_US;
    while (hour.port.clock.mono_us < end_us) {
        uint64_t next_us = dev_tick(hour.runtime, hour.port.clock.mono_us);
        struct place *place = first_over();
        uint64_t at_us = place != NULL && place->over_us < next_us ? place->over_us : next_us;
        assert_true(at_us != UINT64_MAX); // some run is always to come
        if (at_us > hour.port.clock.mono_us) {
            mem_clock_advance(&hour.port, at_us - hour.port.clock.mono_us);
        }
        if (place != NULL && place->over_us <= hour.port.clock.mono_us) {
            finish(place);
        }
    }
}

static void device_close(void *memory)
{
    dev_stop(hour.runtime);
    for (uint32_t i = 0; i < PLACES; i++) {
        join(&hour.places[i]);
        dev_vm_free(hour.places[i].vm);
    }
    free(memory);
    mem_port_done(&hour.port);
}

static void assert_good_hour(void)
{
    assert_int_equal(hour.most_running, PLACES);
    assert_true(hour.cuts > 0); // else the deadlines were kept by chance
    assert_int_equal(hour.runtime->at_once->sched.stats.late, 0);
    assert_true(hour.most_used > BUDGET / 2);
    assert_int_equal(hour.runtime->stats.failures, 0);
    for (uint32_t i = 0; i < TASKS; i++) { // the next is due so long after the end of the last
        const struct work *work = &hour.works[i];
        uint32_t at_most = 3600 / work->every_s + 1;
        if (work->runs > at_most || work->runs < at_most * 8 / 10) {
            fail_msg("%s ran %u times of %u", work->name, (unsigned)work->runs, (unsigned)at_most);
        }
    }
}

// Is each run of a task what it is in another hour?
static void assert_same(const struct work *one, const struct work *other, const char *where)
{
    for (uint32_t run = 0; run < one->runs; run++) {
        if (one->results[run] != other->results[run]) {
            fail_msg("run %u of %s: 0x%llx, and 0x%llx %s", (unsigned)run, one->name,
                     (unsigned long long)one->results[run], (unsigned long long)other->results[run],
                     where);
        }
    }
}

static void test_an_hour_of_64_tasks(void **state)
{
    (void)state;
    static struct work together[TASKS];
    void *memory = device_open(0, TASKS);
    play();
    assert_good_hour();
    uint64_t trace = hour.trace;
    memcpy(together, hour.works, sizeof(together));
    device_close(memory);
    memory = device_open(0, TASKS);
    play();
    assert_true(hour.trace == trace);
    device_close(memory);
    for (uint32_t i = 0; i < TASKS; i++) {
        memory = device_open(i, 1);
        play();
        assert_int_equal(hour.cuts, 0);
        assert_true(together[i].runs > 0 && together[i].runs <= hour.works[i].runs);
        assert_same(&together[i], &hour.works[i], "alone");
        device_close(memory);
    }
}

static struct code compile(const char *source, const char *name)
{
    struct base_error error = {.text = ""};
    struct code code = {NULL, 0};
    if (dev_vm_compile(base_str_of(source), base_str_of(name), &code.bytes, &code.size, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    return code;
}

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        codes[i] = compile(sources[i], "main.py");
    }
    module = compile(features, "features.py");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        free(codes[i].bytes);
    }
    free(module.bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_hour_of_64_tasks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
