// A worker of the posix port: one thread, one run at a time, each in a fresh interpreter: on that
// thread, or in a process of its own that the thread listens to (posix_child.h). posix_tasks.c has
// as many as runs are under way at once.
//
// The loop's thread and the worker share struct posix_task under its mutex, but for the atomic that
// says there is something for the loop; the job's files are immutable mapped bytes. The end of a
// run comes back by the workers' bell (posix_bell.h), so that the runtime is called on its own
// thread. Nobody is woken who would have to wait for a lock.
#include "posix/run/posix_task.h"

#include "posix/run/posix_child.h"
#include "posix/run/posix_cloud.h"
#include "posix/run/posix_leave.h"
#include "posix/run/posix_query.h"
#include "posix/run/posix_run_io.h"

#include "base/clock.h"
#include "base/hash.h"
#include "device/device.h"
#include "model/model_store.h"
#include "runner/runner_events.h"
#include "vm/vm.h"
#include "vm/mpy/vm_text.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCRIPT_SUFFIX_SIZE 4    // ".mpy"
#define CANCEL_REPEAT_US   5000 // an interrupt before the run began is repeated
#define WORKER_STACK_BYTES (1024 * 1024)
#define MODEL_IDLE_BYTES   ((size_t)64 << 20) // of models kept from run to run
#define KEPT_HEAP_KIB_MAX  1024u              // of a VM that is kept from run to run
#define MESSAGE_BESIDE     80u                // bytes of an exception's text beside its place
#define MESSAGE_ALONE      100u
#define HASH_BYTES         ((size_t)1 << 20) // of a model between two looks at its limits
#define CALLER             " < "

_Static_assert(DEV_RUN_HEAP_KIB_DEFAULT == DEV_VM_HEAP_KIB_DEFAULT, "what a run is counted with");
_Static_assert(DEV_RUNNER_BLOBS_MAX >= DEV_BLOBS_MAX, "a process gets what the thread would");
_Static_assert(DEV_RUN_TIME_MS_DEFAULT == DEV_VM_TIME_MS_DEFAULT, "likewise");
_Static_assert(DEV_RUN_BESIDE_BYTES > WORKER_STACK_BYTES, "likewise");

enum work {
    WORK_IDLE,
    WORK_WAITING, // a job is set, the worker has not taken it
    WORK_RUNNING,
    WORK_DONE, // the end is set, the loop has not taken it
};

struct job {
    struct dev_vm_module modules[DEV_VM_MODULES_MAX];
    struct dev_vm_model models[DEV_VM_MODELS_MAX];
    struct dev_vm_bytes files[DEV_VM_FILES_MAX];
    struct dev_vm_bytes blobs[DEV_BLOBS_MAX];
    struct wire_attrs attrs;
    struct dev_vm_job vm;
    uint32_t heap_kib;
    const uint8_t *input; // blocks of events; NULL: none
    size_t input_bytes;
    struct dev_vm_data_port data;
    struct dev_vm_cloud_port cloud;
    struct dev_model_port model_port;
};

struct end {
    enum wire_outcome_kind outcome;
    uint64_t duration_us;
    struct dev_task_phases phases;
    uint64_t fingerprint;
    uint32_t heap_peak_bytes;
    uint64_t left_out;
    uint32_t refused;
    struct wire_cloud_counts cloud;
    struct dev_task_place place;
    size_t result_bytes;
    struct posix_run_effects effects;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
    char result[DEV_VM_RESULT_MAX]; // not cleared from run to run
};

struct posix_task {
    struct dev_runtime *runtime;
    struct posix_query *query;
    struct posix_cloud *cloud;
    struct posix_leave leave;           // of the run under way
    struct dev_feature_store *features; // NULL: none to ask
    struct posix_task_shared *shared;   // of all workers; used by the loop
    struct dev_model_store *models;     // the shared one, from this worker's first job with a model
    struct posix_children *children;    // NULL: scripts run on the thread
    struct dev_vm *kept;                // the worker's, of its last run; NULL: none
    uint32_t kept_kib;                  // as that run's version asked for
    atomic_bool rang;                   // something is there for the loop
    bool thread_started;
    pthread_t thread;
    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t changed;
    enum work work;
    uint32_t run;
    bool stopping;
    struct dev_vm *vm; // set while running, for interrupts
    struct job job;
    struct end end;
};

// Behind the innermost place those that called it, outwards, as far as there is room, and ")".
static void callers_add(struct end *end, const char *stack)
{
    size_t at = strlen(end->detail);
    const char *line = strchr(stack, '\n');
    while (line != NULL && line[1] != '\0') {
        size_t size = strcspn(line + 1, " \n"); // "file.py:3 in name"
        if (at + sizeof(CALLER) + size >= sizeof(end->detail) - 1) {
            break;
        }
        at += (size_t)snprintf(end->detail + at, sizeof(end->detail) - at, CALLER "%.*s", (int)size,
                               line + 1);
        line = strchr(line + 1, '\n');
    }
    if (at < sizeof(end->detail) - 1) {
        memcpy(end->detail + at, ")", 2);
    }
}

// Worker: what a run came to, in the words of the runtime.
static void end_fill(struct end *end, const struct dev_vm_result *result)
{
    end->outcome = dev_vm_end_outcome(result->end);
    end->duration_us = result->duration_us;
    end->phases = posix_run_phases(result);
    end->heap_peak_bytes = result->heap_peak_bytes;
    end->left_out = dev_vm_left_out_sum(&result->left_out);
    end->refused = result->refused;
    end->cloud = result->cloud;
    posix_run_place(result, &end->place);
    end->result_bytes = result->result.size < sizeof(end->result) ? result->result.size : 0;
    if (end->result_bytes > 0) {
        memcpy(end->result, result->result.data, end->result_bytes);
    }
    if (result->end == DEV_VM_FINISHED) {
        return;
    }
    int size = snprintf(end->detail, sizeof(end->detail), "%s:%s:%u", result->type, result->file,
                        (unsigned)result->line);
    end->fingerprint = base_hash64(end->detail, size > 0 ? strlen(end->detail) : 0);
    const char *type = result->type[0] != '\0' ? result->type : dev_vm_end_name(result->end);
    char message[MESSAGE_ALONE + 1];
    dev_text_show(message, result->file[0] != '\0' ? MESSAGE_BESIDE + 1 : sizeof(message),
                  base_str_of(result->message));
    if (result->file[0] != '\0') {
        (void)snprintf(end->detail, sizeof(end->detail), "%s: %s (%s:%u", type, message,
                       result->file, (unsigned)result->line);
        callers_add(end, result->stack);
    } else {
        (void)snprintf(end->detail, sizeof(end->detail), "%s: %s", type, message);
    }
}

static void end_of_status(struct end *end, enum base_status status)
{
    end->outcome = status == BASE_ERR_NOMEM ? WIRE_OUTCOME_FAIL_MEMORY : WIRE_OUTCOME_FAIL_LOAD;
    end->fingerprint = (uint64_t)(-(int64_t)status);
    end->place.of_port = true;
    (void)snprintf(end->detail, sizeof(end->detail), "%s", base_status_text(status));
}

static void end_of_run(struct end *end, enum base_status status, const struct dev_vm_result *result)
{
    if (status == BASE_OK) {
        status = posix_run_effects_copy(result, &end->effects);
    }
    if (status == BASE_OK) {
        end_fill(end, result);
    } else {
        end_of_status(end, status);
    }
}

// A file was not what it should be: it is named, and the runtime does the rest.
static void end_of_damage(struct end *end, struct base_str file)
{
    end->outcome = WIRE_OUTCOME_FAIL_INTEGRITY;
    end->fingerprint = base_hash64(file.data, file.size);
    end->place.of_port = true;
    (void)snprintf(end->detail, sizeof(end->detail), "%.*s", (int)file.size, file.data);
}

// ---- A run on the thread

// How many files of models were found damaged so far, and the last of them.
static uint64_t models_damaged(struct posix_task *task, struct wire_sha256 *out_last)
{
    struct dev_model_store_stats stats = {0};
    if (task->models != NULL) {
        dev_model_store_stats(task->models, &stats);
    }
    if (out_last != NULL) {
        *out_last = stats.last_damaged;
    }
    return stats.damaged;
}

// A script that met a damaged model did not run as it should, whatever it made of that.
static void models_review(struct posix_task *task, uint64_t damaged_before)
{
    struct wire_sha256 last;
    if (models_damaged(task, &last) == damaged_before) {
        return;
    }
    for (uint32_t i = 0; i < task->job.vm.model_count; i++) {
        if (wire_sha256_equal(&task->job.models[i].digest, &last)) {
            posix_run_effects_done(&task->end.effects);
            task->end.result_bytes = 0;
            end_of_damage(&task->end, task->job.models[i].name);
        }
    }
}

// A VM for the job: the one that is kept, which has the images of what ran in it, or a new one.
static enum base_status vm_take(struct posix_task *task, struct dev_vm **out_vm)
{
    struct dev_vm *vm = task->kept;
    task->kept = NULL;
    if (vm != NULL && task->kept_kib == task->job.heap_kib) {
        *out_vm = vm;
        return BASE_OK;
    }
    dev_vm_free(vm);
    return dev_vm_new(task->job.heap_kib, out_vm);
}

// After a run. What is large, or past its own bounds, is not kept.
static void vm_leave(struct posix_task *task, struct dev_vm *vm, bool sound)
{
    if (sound && task->job.heap_kib <= KEPT_HEAP_KIB_MAX) {
        task->kept = vm;
        task->kept_kib = task->job.heap_kib;
    } else {
        dev_vm_free(vm);
    }
}

// Worker, with the mutex held; it is released while the script runs.
static void run_here(struct posix_task *task)
{
    struct dev_vm *vm = NULL;
    struct dev_vm_result result;
    struct dev_runner_events events = {0};
    uint64_t damaged = models_damaged(task, NULL);
    pthread_mutex_unlock(&task->mutex);
    enum base_status status = vm_take(task, &vm);
    if (status == BASE_OK && task->job.input != NULL) {
        status = dev_runner_events_make(task->job.input, task->job.input_bytes, &events);
        task->job.vm.events = events.events;
        task->job.vm.event_count = events.count;
        task->job.vm.events_missing = events.missing;
        task->job.vm.events_timed_out = events.timed_out;
    }
    pthread_mutex_lock(&task->mutex);
    if (status == BASE_OK) {
        task->vm = vm;
        task->job.vm.once = task->job.heap_kib > KEPT_HEAP_KIB_MAX;
        pthread_mutex_unlock(&task->mutex);
        status = dev_vm_run(vm, &task->job.vm, &result);
        pthread_mutex_lock(&task->mutex);
        task->vm = NULL;
    }
    end_of_run(&task->end, status, &result);
    models_review(task, damaged);
    vm_leave(task, vm, status == BASE_OK && result.end != DEV_VM_FAULT);
    dev_runner_events_done(&events);
    if (task->models != NULL) {
        dev_model_store_trim(task->models, MODEL_IDLE_BYTES);
    }
}

// ---- A run in a process

static void end_of_child(struct end *end, enum wire_outcome_kind outcome, const char *kind,
                         const char *text)
{
    (void)snprintf(end->detail, sizeof(end->detail), "%s: %.120s", kind, text);
    end->outcome = outcome;
    end->place.of_port = true;
    end->fingerprint = base_hash64(end->detail, strlen(end->detail));
}

static void end_of_report(struct end *end, const struct posix_child_report *report)
{
    switch (report->how) {
    case POSIX_CHILD_DAMAGED:
        end_of_damage(end, base_str_of(report->text));
        break;
    case POSIX_CHILD_ENDED:
        end_of_run(end, report->end->status, &report->end->result);
        break;
    case POSIX_CHILD_SILENT:
        end_of_child(end, WIRE_OUTCOME_FAIL_TIMEOUT, dev_vm_end_name(DEV_VM_BUDGET),
                     "the task's process did not end in its time");
        break;
    case POSIX_CHILD_DIED:
    case POSIX_CHILD_LIED:
    case POSIX_CHILD_NONE:
        end_of_child(end, WIRE_OUTCOME_FAIL_CRASH, "crash", report->text);
        break;
    }
}

// Worker, with the mutex held; it is released meanwhile.
static void run_apart(struct posix_task *task)
{
    struct posix_child_report report;
    const struct dev_runner_job job = {
        .vm = &task->job.vm,
        .heap_kib = task->job.heap_kib,
        .input = task->job.input,
        .input_bytes = task->job.input_bytes,
    };
    pthread_mutex_unlock(&task->mutex);
    uint64_t start_us = base_clock_mono_us();
    posix_child_run(task->children, &job, &report);
    uint64_t took_us = base_clock_mono_us() - start_us;
    pthread_mutex_lock(&task->mutex);
    end_of_report(&task->end, &report);
    if (report.how != POSIX_CHILD_ENDED) {
        task->end.duration_us = took_us;
    }
}

// Worker, without the mutex: the end was told, the next run may come.
static void next_prepare(struct posix_task *task)
{
    enum base_status status = posix_child_ready(task->children);
    (void)status; // start tries again, and says so
}

// Worker: something is there for the loop. Without the mutex, which the loop wants at once.
static void ring(void *ctx)
{
    struct posix_task *task = ctx;
    atomic_store(&task->rang, true);
    posix_bell_ring(&task->shared->bell);
}

// Worker, with the mutex held; it is released meanwhile. The end is told when it can be taken.
static void run_whole(struct posix_task *task)
{
    task->work = WORK_RUNNING;
    memset(&task->end, 0, offsetof(struct end, result));
    if (task->children != NULL) {
        run_apart(task);
    } else {
        run_here(task);
    }
    task->work = WORK_DONE;
    pthread_cond_broadcast(&task->changed);
    pthread_mutex_unlock(&task->mutex);
    ring(task);
    if (task->children != NULL) {
        next_prepare(task);
    }
    pthread_mutex_lock(&task->mutex);
}

static void *worker(void *arg)
{
    struct posix_task *task = arg;
    pthread_mutex_lock(&task->mutex);
    while (!task->stopping) {
        if (task->work == WORK_WAITING) {
            run_whole(task);
        } else {
            pthread_cond_wait(&task->changed, &task->mutex);
        }
    }
    pthread_mutex_unlock(&task->mutex);
    return NULL;
}

static bool has_shadow(const struct posix_task *task, struct base_str name)
{
    uint32_t count = task->runtime != NULL ? dev_task_count(task->runtime) : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct dev_task_view view;
        if (dev_task_view(task->runtime, i, &view) == BASE_OK && view.shadow &&
            base_str_equal(view.name, name)) {
            return true;
        }
    }
    return false;
}

// The run ended; its manifest is still there. Whose the store is that it leaves is said here, not
// by the task's process.
static void store_ended(struct posix_task *task)
{
    bool ran = task->end.outcome == WIRE_OUTCOME_RAN;
    posix_run_effects_tag(&task->end.effects, posix_query_of(task->query));
    posix_query_ended(task->query, ran, ran && has_shadow(task, task->leave.task));
}

bool posix_task_serve(struct posix_task *task)
{
    if (!atomic_exchange(&task->rang, false)) {
        return false;
    }
    pthread_mutex_lock(&task->mutex);
    bool done = task->work == WORK_DONE;
    uint32_t run = task->run;
    task->work = done ? WORK_IDLE : task->work;
    pthread_mutex_unlock(&task->mutex);
    posix_query_serve(task->query, task->features, base_clock_mono_us());
    bool handed = posix_cloud_serve(task->cloud, task->runtime);
    if (!done) { // a question, or cancelled meanwhile
        return handed;
    }
    store_ended(task);
    struct dev_task_end end = {
        .outcome = task->end.outcome,
        .duration_us = task->end.duration_us,
        .phases = task->end.phases,
        .fingerprint = task->end.fingerprint,
        .detail = base_str_of(task->end.detail),
        .result = {task->end.result, task->end.result_bytes},
        .heap_peak_bytes = task->end.heap_peak_bytes,
        .left_out = task->end.left_out,
        .refused = task->end.refused,
        .cloud = task->end.cloud,
        .place = task->end.place,
        .effects = task->end.effects.effects,
        .effect_count = task->end.effects.count,
    };
    dev_on_task_end(task->runtime, run, &end);
    posix_run_effects_done(&task->end.effects);
    return true;
}

static bool scripts_fill(struct job *job, const struct dev_task_job *from)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < from->file_count; i++) {
        const struct dev_task_file *file = &from->files[i];
        if (file->kind != WIRE_FILE_SCRIPT) {
            continue;
        }
        if (count == DEV_VM_MODULES_MAX || file->name.size <= SCRIPT_SUFFIX_SIZE) {
            return false;
        }
        job->modules[count++] = (struct dev_vm_module){
            .name = {file->name.data, file->name.size - SCRIPT_SUFFIX_SIZE},
            .mpy = file->bytes,
            .size = file->size,
        };
    }
    job->vm.modules = job->modules;
    job->vm.module_count = count;
    return true;
}

// As dev_model_hasher.sha256.
static bool sha256(void *ctx, struct base_span bytes, const struct eng_run_options *go_on,
                   struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    bool whole = true;
    (void)ctx;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    for (size_t at = 0; whole && at < bytes.size; at += HASH_BYTES) {
        const size_t left = bytes.size - at;
        crypto->hash_update(crypto->ctx, &state, bytes.data + at,
                            left < HASH_BYTES ? left : HASH_BYTES);
        whole = dev_model_may_go_on(go_on);
    }
    crypto->hash_end(crypto->ctx, &state, out);
    return whole;
}

static enum base_status models_make(struct posix_task_shared *shared)
{
    const struct dev_model_hasher hasher = {.sha256 = sha256};
    if (shared->models == NULL) {
        BASE_TRY(dev_model_store_new(0, &shared->models));
        dev_model_store_prove(shared->models, &hasher);
    }
    return BASE_OK;
}

void posix_task_shared_done(struct posix_task_shared *shared)
{
    dev_model_store_free(shared->models);
    posix_leave_ledger_done(&shared->ledger);
    posix_given_done(&shared->given);
}

// INVALID: not a version this port runs; NOMEM.
static enum base_status job_fill(struct posix_task *task, const struct dev_task_job *from)
{
    struct job *job = &task->job;
    memset(&job->vm, 0, sizeof(job->vm));
    if (!scripts_fill(job, from) ||
        posix_run_models(from->files, from->file_count, job->models, &job->vm.model_count) !=
            BASE_OK ||
        posix_run_files(from->files, from->file_count, job->files, &job->vm.file_count) !=
            BASE_OK) {
        return BASE_ERR_INVALID;
    }
    job->vm.files = job->files;
    job->vm.blobs = job->blobs;
    job->vm.blob_count = posix_run_blobs(from->blobs, job->blobs);
    job->vm.input = posix_run_input(job->blobs, job->vm.blob_count);
    if (job->vm.model_count > 0 && task->models == NULL && task->children == NULL) {
        BASE_TRY(models_make(task->shared));
        task->models = task->shared->models;
    }
    job->vm.models = job->models;
    if (task->models != NULL) {
        job->model_port = dev_model_store_port(task->models);
        job->vm.model_port = &job->model_port;
    }
    job->attrs = *from->attrs;
    job->heap_kib = from->manifest->heap_kib;
    job->vm.entry = from->manifest->entry;
    job->vm.config = from->manifest->config;
    job->vm.declaration = from->manifest->declaration;
    job->vm.device_id = from->device_id;
    job->vm.attrs = &job->attrs;
    job->vm.time_ms = from->manifest->time_ms;
    job->vm.data = &job->data;
    job->vm.cloud = &job->cloud;
    job->input = from->input != NULL ? from->input->events : NULL;
    job->input_bytes = from->input != NULL ? from->input->events_bytes : 0;
    return BASE_OK;
}

enum base_status posix_task_start(struct posix_task *task, uint32_t run,
                                  const struct dev_task_job *job)
{
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&task->mutex);
    if (task->work != WORK_IDLE) {
        status = BASE_ERR_BUSY;
    } else {
        status = job_fill(task, job);
    }
    if (status == BASE_OK && task->children != NULL) {
        status = posix_child_ready(task->children);
    }
    if (status == BASE_OK) {
        const struct posix_query_run asks = {
            .of = dev_task_store_of(job->manifest->task_name, job->manifest->declaration,
                                    &job->version),
            .run_index = job->run_index,
            .shadow = job->shadow && !job->reference,
            .given = &task->shared->given,
        };
        posix_query_open(task->query, &asks);
        task->job.data = posix_query_port(task->query);
        task->leave.task = job->manifest->task_name;
        task->leave.declaration = job->manifest->declaration;
        posix_cloud_open(task->cloud, &(struct posix_cloud_leave){&task->leave, posix_leave_may});
        task->job.cloud = posix_cloud_port(task->cloud);
        task->run = run;
        task->work = WORK_WAITING;
    }
    pthread_mutex_unlock(&task->mutex);
    if (status == BASE_OK) { // who sleeps is woken, and finds the mutex free
        pthread_cond_broadcast(&task->changed);
    }
    return status;
}

// With the mutex held: interrupts until the worker let go of the job.
static void wait_end(struct posix_task *task)
{
    if (task->work == WORK_WAITING) { // not taken yet: take it back
        task->work = WORK_IDLE;
    }
    posix_query_close(task->query); // the script may be waiting for this very thread
    posix_cloud_close(task->cloud);
    while (task->work == WORK_RUNNING) {
        uint64_t until_us = base_clock_mono_us() + CANCEL_REPEAT_US;
        struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                 .tv_nsec = (long)(until_us % 1000000) * 1000};
        if (task->vm != NULL) {
            dev_vm_interrupt(task->vm);
        }
        if (task->children != NULL) {
            posix_child_stop(task->children);
        }
        (void)pthread_cond_timedwait(&task->changed, &task->mutex, &until);
    }
    task->work = WORK_IDLE;
    posix_run_effects_done(&task->end.effects);
}

void posix_task_cancel(struct posix_task *task, uint32_t run)
{
    pthread_mutex_lock(&task->mutex);
    if (task->run == run) {
        wait_end(task);
    }
    pthread_mutex_unlock(&task->mutex);
}

static void sync_init(struct posix_task *task)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&task->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&task->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static enum base_status thread_start(struct posix_task *task)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    task->thread_started = pthread_create(&task->thread, &attributes, worker, task) == 0;
    pthread_attr_destroy(&attributes);
    return task->thread_started ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status posix_task_new(const struct posix_task_options *options,
                                struct posix_task_shared *shared, struct posix_task **out_task,
                                struct base_error *error)
{
    struct posix_task *task = calloc(1, sizeof(*task));
    if (task == NULL) {
        return BASE_ERR_NOMEM;
    }
    task->shared = shared;
    task->leave.ledger = &shared->ledger;
    sync_init(task);
    enum base_status status = BASE_ERR_NOMEM;
    if (posix_query_new(task, ring, &task->query) == BASE_OK &&
        posix_cloud_new(task, ring, &task->cloud) == BASE_OK) {
        status = thread_start(task);
    }
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "task worker: %s", base_status_text(status));
    } else if (options->runner_path != NULL) {
        status = posix_children_new(options->runner_path, &task->children, error);
    }
    if (status != BASE_OK) {
        posix_task_free(task);
        return status;
    }
    *out_task = task;
    return BASE_OK;
}

void posix_task_free(struct posix_task *task)
{
    if (task == NULL) {
        return;
    }
    if (task->thread_started) {
        pthread_mutex_lock(&task->mutex);
        task->stopping = true;
        wait_end(task);
        pthread_cond_broadcast(&task->changed);
        pthread_mutex_unlock(&task->mutex);
        pthread_join(task->thread, NULL);
    }
    posix_children_free(task->children);
    dev_vm_free(task->kept);
    pthread_cond_destroy(&task->changed);
    pthread_mutex_destroy(&task->mutex);
    posix_run_effects_done(&task->end.effects);
    posix_query_free(task->query);
    posix_cloud_free(task->cloud);
    free(task);
}

void posix_task_attach(struct posix_task *task, struct dev_runtime *runtime)
{
    task->runtime = runtime;
}

void posix_task_features(struct posix_task *task, struct dev_feature_store *features)
{
    task->features = features;
}
