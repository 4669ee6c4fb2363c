// An hour of a device with 64 tasks, light, middle and heavy, several at once: the runtime that
// ships, on virtual time. Memory and places are never exceeded, of a task one runs, each gets its
// own content, none starves, and the same hour is the same again. One in eight is urgent: it keeps
// its deadline each time, for which others are stopped and done anew. What each run comes to is
// what it comes to where its task is alone.
#include "test_kit.h"

#include "core/base/runtime.h"
#include "core/slots/device_repair.h"
#include "core/run/runs_at_once.h"
#include "base/hash.h"
#include "mem/mem_port.h"
#include "wire/declaration.h"

#define TASKS    64u
#define PLACES   4u
#define BUDGET   (200ull * 1024 * 1024)
#define HOUR_US  3600000000ull
#define FILES    2u
#define MANIFEST 512u
#define URGENT   8u   // one in so many
#define SLACK_MS 300u // between what an urgent run takes at most and its deadline
#define RUNS_MAX 800u

static const uint8_t script[] = "not looked at";

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
    uint32_t runs;
    uint64_t ended_us; // of the run before
    uint64_t results[RUNS_MAX];
    bool running;
};

struct place {
    uint32_t run; // 0: free
    struct work *work;
    uint64_t over_us;
    uint64_t result;
};

static struct {
    struct mem_port port;
    struct dev_ports ports;
    struct dev_runtime *runtime;
    struct work works[TASKS];
    struct place places[PLACES];
    uint32_t tasks; // that the device has
    uint32_t first; // of the works
    struct wire_sha256 script;
    uint64_t used;
    uint64_t most_used;
    uint32_t running;
    uint32_t most_running;
    uint32_t cuts;
    uint64_t trace; // a hash of what began when
} hour;

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
    if (wire_sha256_equal(name, &hour.script)) {
        *out_bytes = script;
        *out_size = sizeof(script);
        return true;
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
    uint32_t weight = index % 3;
    (void)snprintf(work->name, sizeof(work->name), "demo/t%u", index);
    (void)snprintf(work->config, sizeof(work->config), "{\"n\":%u}", index);
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
        .bytes = sizeof(script),
        .digest = hour.script,
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

// All that a run gets goes into what it comes to.
static uint64_t result_of(const struct dev_task_job *job)
{
    uint64_t result = base_mix64(job->run_index);
    result ^= base_hash64(job->manifest->config.data, job->manifest->config.size);
    for (uint32_t i = 0; i < job->file_count; i++) {
        const struct dev_task_file *file = &job->files[i];
        result = base_mix64(result) ^ base_hash64(file->digest.bytes, sizeof(file->digest.bytes));
    }
    return result;
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
    uint64_t now_us = hour.port.clock.mono_us;
    uint64_t draw = base_mix64(base_mix64(job->run_index) ^ (uint64_t)(work - hour.works));
    *place = (struct place){.run = run,
                            .work = work,
                            .over_us = now_us + 1000 + draw % (work->time_ms * 1000ull - 1000),
                            .result = result_of(job)};
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
        if (hour.places[i].run == run) {
            assert_int_equal(hour.places[i].work->deadline_ms, 0); // nobody stops an urgent one
            leave(&hour.places[i]);
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

static struct place *first_over(void)
{
    struct place *first = NULL;
    for (struct place *place = hour.places; place < hour.places + PLACES; place++) {
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
    hour.script = digest(script, sizeof(script));
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
    free(memory);
    mem_port_done(&hour.port);
}

static void test_an_hour_of_64_tasks(void **state)
{
    (void)state;
    void *memory = device_open(0, TASKS);
    play();
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
    uint64_t trace = hour.trace;
    device_close(memory);
    memory = device_open(0, TASKS);
    play();
    assert_true(hour.trace == trace);
    device_close(memory);
}

static void test_each_result_is_the_one_alone(void **state)
{
    (void)state;
    static struct work together[TASKS];
    void *memory = device_open(0, TASKS);
    play();
    memcpy(together, hour.works, sizeof(together));
    device_close(memory);
    for (uint32_t i = 0; i < TASKS; i++) {
        memory = device_open(i, 1);
        play();
        const struct work *alone = &hour.works[i];
        assert_true(together[i].runs > 0 && together[i].runs <= alone->runs);
        assert_int_equal(hour.cuts, 0);
        for (uint32_t run = 0; run < together[i].runs; run++) {
            if (together[i].results[run] != alone->results[run]) {
                fail_msg("run %u of %s: 0x%llx together, 0x%llx alone", (unsigned)run, alone->name,
                         (unsigned long long)together[i].results[run],
                         (unsigned long long)alone->results[run]);
            }
        }
        device_close(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_hour_of_64_tasks),
        cmocka_unit_test(test_each_result_is_the_one_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
