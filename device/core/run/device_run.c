// Runs: starts the active version of a task that is due, one run at a time or several
// (runs_at_once.c), and judges its end.
//
// Before the first run of a version on trial a mark is stored; only the end of the run takes it
// away. A boot that finds the mark knows that the version took the process down. Called by the tick
// and by the task port (dev_on_task_end).
#include "core/run/device_run.h"

#include "core/run/run_blobs.h"
#include "core/run/run_told.h"
#include "core/run/runs_at_once.h"
#include "core/slots/device_content.h"
#include "core/slots/device_repair.h"
#include "core/slots/device_slots.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/leaves/leaves_check.h"

#include <stdio.h>
#include <string.h>

#define LEFT_OUT_FINGERPRINT                                                                       \
    UINT64_C(0x6c6566746f757400) // "leftout": one cause, whatever the numbers

// ---- Places

struct dev_run *dev_run_current(const struct dev_runtime *runtime)
{
    return &runtime->run[runtime->at_once != NULL ? runtime->at_once->current : 0];
}

static void current_set(struct dev_runtime *runtime, const struct dev_run *run)
{
    if (runtime->at_once != NULL) {
        runtime->at_once->current = (uint32_t)(run - runtime->run);
    }
}

// The place with the run of this number, 0: a free one; NULL: there is none.
static struct dev_run *run_numbered(const struct dev_runtime *runtime, uint32_t number)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        if (runtime->run[i].run == number) {
            return &runtime->run[i];
        }
    }
    return NULL;
}

// For what ends without having begun: where there are several places, one of its own, as all others
// may be taken.
static struct dev_run *place_of_none(const struct dev_runtime *runtime)
{
    struct dev_run *run = &runtime->run[runtime->at_once != NULL ? runtime->settings.runs_max : 0];
    base_check(run->run == 0);
    if (runtime->at_once != NULL) {
        *run = (struct dev_run){.run = 0};
    }
    return run;
}

struct dev_run *dev_run_of(const struct dev_runtime *runtime, const struct dev_task *task)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        struct dev_run *run = &runtime->run[i];
        if (run->run != 0 && &runtime->tasks[run->task] == task) {
            return run;
        }
    }
    return NULL;
}

// When is the next run due? Runs repeat by the wall clock, so that a restart does not run them
// again at once.
static void schedule(struct dev_runtime *runtime, struct dev_task *task)
{
    task->runs.due_us = UINT64_MAX;
    task->runs.reference = false;
    if (task->shadow || !dev_update_has_active((enum dev_update_state)task->slots.state)) {
        return;
    }
    if (dev_update_on_trial((enum dev_update_state)task->slots.state) || task->runs.last_s == 0) {
        task->runs.due_us = 0;
        return;
    }
    if (task->slots.every_s == 0) {
        return;
    }
    uint64_t wall_s = dev_wall_s(runtime);
    uint64_t since_s = wall_s > task->runs.last_s ? wall_s - task->runs.last_s : 0;
    uint64_t wait_s = since_s < task->slots.every_s ? task->slots.every_s - since_s : 0;
    task->runs.due_us = dev_now_us(runtime) + wait_s * 1000000;
}

static void unmap(struct dev_runtime *runtime, const struct wire_sha256 *name)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    storage->blob_unmap(storage->ctx, name, NULL, 0);
}

// The first `count` of a list of files.
static void files_unmap(struct dev_runtime *runtime, const struct wire_manifest_file *files,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unmap(runtime, &files[i].digest);
    }
}

// Are the bytes hashed, here and now? A script is; a model where the port does not do that itself;
// a data file that a script can have.
static bool is_proven(const struct dev_runtime *runtime, const struct wire_manifest_file *file,
                      uint32_t heap_kib)
{
    uint64_t heap = (uint64_t)(heap_kib != 0 ? heap_kib : DEV_RUN_HEAP_KIB_DEFAULT) * 1024;
    switch (file->kind) {
    case WIRE_FILE_MODEL:
        return !runtime->ports->task.proves_models;
    case WIRE_FILE_DATA:
        return file->bytes <= heap;
    case WIRE_FILE_SCRIPT:
    default:
        return true;
    }
}

static enum base_status file_map(struct dev_runtime *runtime, const struct wire_manifest_file *file,
                                 uint32_t heap_kib, struct dev_task_file *out)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t bytes = 0;
    bool sealed = false;
    enum base_status status = storage->blob_stat(storage->ctx, &file->digest, &bytes, &sealed);
    if (status != BASE_OK || !sealed || bytes != file->bytes) {
        return base_status_is_resource(status) ? status : BASE_ERR_CORRUPT;
    }
    out->kind = file->kind;
    out->name = file->name;
    out->digest = file->digest;
    out->proven = is_proven(runtime, file, heap_kib);
    status = out->proven ? dev_content_open(runtime, &file->digest, bytes, &out->bytes, &out->size)
                         : storage->blob_map(storage->ctx, &file->digest, &out->bytes, &out->size);
    return status == BASE_OK || base_status_is_resource(status) ? status : BASE_ERR_CORRUPT;
}

static void active_damaged(struct dev_runtime *runtime, struct base_str file)
{
    dev_damage_found(runtime, &runtime->tasks[dev_run_current(runtime)->task], DEV_COPY_ACTIVE,
                     file);
}

// Maps a list of files, all or none.
static enum base_status files_map(struct dev_runtime *runtime,
                                  const struct wire_manifest_file *files, uint32_t count,
                                  uint32_t heap_kib, struct dev_task_file *out)
{
    for (uint32_t i = 0; i < count; i++) {
        enum base_status status = file_map(runtime, &files[i], heap_kib, &out[i]);
        if (status != BASE_OK) {
            if (status == BASE_ERR_CORRUPT) {
                active_damaged(runtime, files[i].name);
            }
            files_unmap(runtime, files, i);
            return status;
        }
    }
    return BASE_OK;
}

static enum base_status job_start(struct dev_runtime *runtime, struct dev_task *task,
                                  const struct wire_manifest *manifest,
                                  const struct dev_task_file *files, uint32_t file_count)
{
    const struct dev_task_port *port = &runtime->ports->task;
    struct dev_run *run = dev_run_current(runtime);
    struct wire_attrs attrs;
    BASE_TRY(wire_attrs_parse(runtime->attrs, runtime->attrs_bytes, &attrs));
    struct dev_task_job job = {
        .device_id = runtime->settings.device_id,
        .attrs = &attrs,
        .manifest = manifest,
        .version = task->slots.active.manifest,
        .files = files,
        .file_count = file_count,
        .run_index = task->shadow ? task->runs.beside.run_index : task->runs.count,
        .shadow = task->shadow || task->runs.reference,
        .reference = task->runs.reference,
        .input = run->triggered ? dev_triggered_input(runtime) : NULL,
        .blobs = dev_run_blobs_take(runtime, run, task),
    };
    enum base_status status = port->start(port->ctx, run->run, &job);
    if (status != BASE_OK) {
        dev_run_blobs_drop(runtime, run);
    }
    return status;
}

// The shared files, and behind them the exclusive ones.
static enum base_status port_start(struct dev_runtime *runtime, struct dev_task *task,
                                   const struct wire_manifest *manifest,
                                   const struct wire_exclusive_files *exclusive)
{
    struct dev_task_file files[DEV_RUN_FILES_MAX];
    uint32_t shared = manifest->file_count;
    BASE_TRY(files_map(runtime, manifest->files, shared, manifest->heap_kib, files));
    enum base_status status = files_map(runtime, exclusive->files, exclusive->file_count,
                                        manifest->heap_kib, files + shared);
    if (status == BASE_OK) {
        status = job_start(runtime, task, manifest, files, shared + exclusive->file_count);
        if (status != BASE_OK) {
            files_unmap(runtime, exclusive->files, exclusive->file_count);
        }
    }
    if (status != BASE_OK) {
        files_unmap(runtime, manifest->files, shared);
    }
    return status;
}

// Does the version say that more than one of its runs may be under way?
static bool beside_own(const struct wire_manifest *manifest)
{
    struct wire_declaration declaration;
    return dev_manifest_declares(manifest, &declaration) && declaration.runs.at_once > 1;
}

// Maps everything and hands it to the task port. The manifest stays mapped while the run lasts.
enum base_status dev_run_start(struct dev_runtime *runtime, struct dev_task *task)
{
    struct dev_run *run = run_numbered(runtime, 0);
    struct dev_manifest manifest;
    struct dev_exclusive exclusive;
    base_check(run != NULL); // no more at once than there are places
    current_set(runtime, run);
    base_assert(dev_update_has_active((enum dev_update_state)task->slots.state));
    run->task = (uint32_t)(task - runtime->tasks);
    enum base_status status = dev_manifest_open(runtime, &task->slots.active.manifest, &manifest);
    if (status != BASE_OK && !base_status_is_resource(status)) {
        active_damaged(runtime, BASE_STR("manifest"));
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(status);
    status = dev_exclusive_open(runtime, &task->slots.active.exclusive, &exclusive);
    if (status != BASE_OK) {
        dev_manifest_close(runtime, &manifest);
        if (!base_status_is_resource(status)) {
            active_damaged(runtime, BASE_STR("exclusive files"));
            return BASE_ERR_CORRUPT;
        }
        return status;
    }
    runtime->run->next_run = runtime->run->next_run + 1 != 0 ? runtime->run->next_run + 1 : 1;
    run->run = runtime->run->next_run;
    run->version = task->slots.active.manifest;
    run->rollout = dev_told_rollout(task);
    run->manifest = manifest.bytes;
    run->manifest_bytes = (uint32_t)manifest.size;
    run->exclusive = task->slots.active.exclusive;
    run->exclusive_manifest = exclusive.bytes;
    run->exclusive_bytes = (uint32_t)exclusive.size;
    run->reference = task->runs.reference;
    run->triggered = false;
    run->triggered = dev_triggered_for(runtime, task);
    run->quiet = wire_leaves_errors_of(manifest.parsed.declaration) == WIRE_LEAVES_PLACE;
    run->beside = beside_own(&manifest.parsed);
    run->refused = 0;
    status = port_start(runtime, task, &manifest.parsed, &exclusive.parsed);
    if (status != BASE_OK) {
        run->run = 0;
        run->triggered = false;
        dev_exclusive_close(runtime, &exclusive);
        dev_manifest_close(runtime, &manifest);
    }
    return status;
}

static void run_unmap(struct dev_runtime *runtime, struct dev_run *run)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct wire_manifest manifest;
    struct wire_exclusive_files exclusive;
    base_assert(run->run != 0);
    dev_run_blobs_drop(runtime, run);
    if (wire_manifest_again(run->manifest, run->manifest_bytes, &manifest) == BASE_OK) {
        files_unmap(runtime, manifest.files, manifest.file_count);
    }
    if (run->exclusive_manifest != NULL) {
        if (wire_exclusive_parse(run->exclusive_manifest, run->exclusive_bytes, &exclusive) ==
            BASE_OK) {
            files_unmap(runtime, exclusive.files, exclusive.file_count);
        }
        storage->blob_unmap(storage->ctx, &run->exclusive, run->exclusive_manifest,
                            run->exclusive_bytes);
    }
    storage->blob_unmap(storage->ctx, &run->version, run->manifest, run->manifest_bytes);
    run->run = 0;
}

static bool failure_is_news(struct dev_task *task, const struct dev_task_end *end)
{
    uint64_t mark =
        base_hash64_seed(&end->fingerprint, sizeof(end->fingerprint), (uint64_t)end->outcome);
    bool news = task->runs.failure_mark != mark;
    task->runs.failure_mark = mark;
    return news;
}

// A version that failed on trial stays all the same. It does not run at once again: it may have
// ended the process.
static void run_later(struct dev_runtime *runtime, struct dev_task *task)
{
    task->runs.last_s = dev_wall_s(runtime);
    schedule(runtime, task);
}

// The active version ended a run. On trial this decides about it.
static void judge(struct dev_runtime *runtime, struct dev_task *task,
                  const struct dev_task_end *end, const struct wire_outcome *outcome)
{
    bool trial = dev_update_on_trial((enum dev_update_state)task->slots.state);
    task->runs.running = false;
    task->runs.last_s = dev_wall_s(runtime);
    if (!wire_outcome_is_failure(end->outcome)) {
        task->runs.crashes = 0;
        dev_repair_ran(task);
        task->runs.failure_mark = 0;
        enum base_status passed = dev_slot_event(task, DEV_UPDATE_ON_PASS);
        base_assert(passed == BASE_OK); // allowed wherever a version is active
        dev_slot_ran(task);
        if (task->runs.count == 0 || dev_run_cloud_is_news(task)) { // later successes are none
            dev_outcome(runtime, outcome);
            task->runs.clouds.told = task->runs.clouds.counts.asked;
        }
    } else if (failure_is_news(task, end)) {
        dev_outcome(runtime, outcome);
    }
    task->runs.count += task->runs.count < UINT32_MAX ? 1 : 0;
    runtime->dirty = true;
    schedule(runtime, task);
    if (trial && wire_outcome_is_failure(end->outcome) && dev_slot_failed(runtime, task)) {
        run_later(runtime, task);
    }
}

void dev_left_out(struct dev_runtime *runtime, uint64_t task_id, const char *why)
{
    struct dev_task *task = dev_task_find(runtime, task_id);
    const struct dev_task_end end = {.outcome = WIRE_OUTCOME_FAIL_LOAD,
                                     .fingerprint = LEFT_OUT_FINGERPRINT};
    if (task == NULL || task->shadow ||
        !dev_update_has_active((enum dev_update_state)task->slots.state) ||
        !failure_is_news(task, &end)) {
        return;
    }
    char text[WIRE_REPORT_DETAIL_MAX + 1];
    (void)snprintf(text, sizeof(text), "left out on this device: %s", why);
    const struct wire_outcome outcome = {
        .kind = end.outcome,
        .task_id = task->id,
        .version_id = wire_version_id(&task->slots.active.manifest),
        .rollout_id = dev_told_rollout(task),
        .fingerprint = end.fingerprint,
        .detail = base_str_of(text),
    };
    runtime->stats.failures++;
    runtime->dirty = true;
    dev_outcome(runtime, &outcome);
}

// The content of the active version is damaged: its run never was. It is due again when the content
// is whole; of a shadow the next one is.
static void run_undone(struct dev_runtime *runtime, struct dev_task *task, bool due)
{
    task->runs.running = false;
    task->runs.reference = false;
    task->runs.due_us = due && !task->shadow ? 0 : task->runs.due_us;
    runtime->dirty = true;
}

static void run_end(struct dev_runtime *runtime, const struct dev_task_end *end)
{
    const struct dev_run *run = dev_run_current(runtime);
    base_check(run->task < runtime->task_count);
    struct dev_task *task = &runtime->tasks[run->task];
    if (end->outcome == WIRE_OUTCOME_FAIL_INTEGRITY &&
        wire_sha256_equal(&task->slots.active.manifest, &run->version)) { // so the port says
        active_damaged(runtime, end->detail);
        run_undone(runtime, task, !run->triggered);
        return;
    }
    bool active = wire_sha256_equal(&task->slots.active.manifest, &run->version);
    if (active && !task->shadow) {
        dev_run_count_cloud(task, end);
    }
    struct wire_outcome outcome = {
        .kind = end->outcome,
        .task_id = task->id,
        .version_id = wire_version_id(&run->version),
        .rollout_id = run->rollout,
        .duration_us = end->duration_us,
        .fingerprint = end->fingerprint,
        .figures = dev_run_figures(runtime, task, end),
        .detail = end->detail,
    };
    if (task->shadow) {
        runtime->stats.shadow_runs++;
        dev_shadow_judge(runtime, task, end);
        return;
    }
    runtime->stats.runs++;
    runtime->stats.failures += wire_outcome_is_failure(end->outcome) ? 1 : 0;
    if (active) {
        // A new statement for the same version may have come meanwhile.
        outcome.rollout_id = dev_told_rollout(task);
        judge(runtime, task, end, &outcome);
    } else {
        dev_outcome(runtime, &outcome); // replaced while it ran
    }
}

void dev_on_task_end(struct dev_runtime *runtime, uint32_t number, const struct dev_task_end *end)
{
    struct dev_run *run = number != 0 ? run_numbered(runtime, number) : NULL;
    if (run == NULL) {
        return;
    }
    struct dev_task *task = &runtime->tasks[run->task];
    bool quiet = task->shadow || run->reference;
    current_set(runtime, run);
    if (runtime->at_once != NULL) {
        dev_at_once_ended(runtime, task, run->triggered);
    }
    if (!quiet && runtime->ports->on_result != NULL) {
        runtime->ports->on_result(runtime->ports->app, dev_task_name(task), end);
    }
    if (task->shadow) {
        dev_run_blobs_forget(runtime, task);
    } else {
        dev_shadow_beside(runtime, task, end);
    }
    if (run->triggered) {
        dev_triggered_end(runtime, task, end);
    }
    if (run->reference && end->outcome != WIRE_OUTCOME_FAIL_INTEGRITY) {
        runtime->stats.shadow_runs++;
    } else {
        struct dev_told told;
        run_end(runtime, dev_run_told(runtime, end, &told));
    }
    run_unmap(runtime, run);
    (void)dev_flush(runtime, dev_now_us(runtime));
}

void dev_run_cannot(struct dev_runtime *runtime, struct dev_task *task,
                    const struct dev_task_end *end)
{
    struct dev_run *run = place_of_none(runtime);
    current_set(runtime, run);
    run->task = (uint32_t)(task - runtime->tasks);
    run->version = task->slots.active.manifest;
    run->rollout = dev_told_rollout(task);
    run_end(runtime, end);
}

bool dev_run_start_failed(struct dev_runtime *runtime, struct dev_task *task,
                          enum base_status status, uint64_t now_us, struct dev_task_end *out_end)
{
    if (base_status_is_resource(status)) {
        task->runs.due_us = now_us + DEV_RUN_RETRY_US;
        if (task->runs.running) { // a kill while it waits is no crash
            task->runs.running = false;
            runtime->dirty = true;
        }
        return false;
    }
    if (status == BASE_ERR_CORRUPT) {
        run_undone(runtime, task, false);
        *out_end = (struct dev_task_end){
            .outcome = WIRE_OUTCOME_FAIL_INTEGRITY,
            .fingerprint = (uint64_t)(-(int64_t)status),
            .detail = BASE_STR("stored content is damaged"),
        };
        return true;
    }
    if (task->runs.reference) { // its own next run will tell
        task->runs.reference = false;
        return false;
    }
    *out_end = (struct dev_task_end){
        .outcome = WIRE_OUTCOME_FAIL_LOAD,
        .fingerprint = (uint64_t)(-(int64_t)status),
        .detail = base_str_of(base_status_text(status)),
    };
    dev_run_cannot(runtime, task, out_end);
    return true;
}

bool dev_run_marked(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us)
{
    if (!dev_update_on_trial((enum dev_update_state)task->slots.state) || task->runs.running) {
        return true;
    }
    task->runs.running = true;
    runtime->dirty = true;
    return dev_flush(runtime, now_us);
}

bool dev_run_begin(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us)
{
    struct dev_task_end end;
    task->runs.due_us = UINT64_MAX;
    enum base_status status = dev_run_start(runtime, task);
    if (status == BASE_ERR_CORRUPT) {
        bool reference = task->runs.reference;
        (void)dev_run_start_failed(runtime, task, status, now_us, &end);
        run_undone(runtime, task, !reference);
    } else if (status != BASE_OK) {
        (void)dev_run_start_failed(runtime, task, status, now_us, &end);
    } else {
        task->runs.reference = false;
    }
    return status == BASE_OK;
}

static void step_over(struct dev_runtime *runtime, bool shadows, uint64_t now_us)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (dev_run_is_busy(runtime) || runtime->dirty) {
            return;
        }
        if (now_us < task->runs.due_us || task->shadow != shadows ||
            (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0) {
            continue;
        }
        if (!dev_run_marked(runtime, task, now_us)) {
            return;
        }
        (void)dev_run_begin(runtime, task, now_us);
    }
}

// Shadows come first: each right after the run it is compared with.
static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    if (runtime->at_once != NULL) {
        dev_at_once_step(runtime, now_us);
        return;
    }
    step_over(runtime, true, now_us);
    step_over(runtime, false, now_us);
}

void dev_run_stop(struct dev_runtime *runtime, struct dev_run *run)
{
    const struct dev_task_port *port = &runtime->ports->task;
    struct dev_task *task = &runtime->tasks[run->task];
    port->cancel(port->ctx, run->run);
    run_unmap(runtime, run);
    if (task->runs.running) { // stopped by us: no crash
        task->runs.running = false;
        runtime->dirty = true;
    }
    if (!run->triggered || task->shadow) {
        task->runs.due_us = 0;
    }
    task->runs.reference = run->reference;
    if (run->triggered) {
        run->triggered = false;
        dev_triggered_stopped(runtime);
    }
}

// Its version may not run any more.
static void halt(struct dev_runtime *runtime, const struct dev_task *task)
{
    for (struct dev_run *run = dev_run_of(runtime, task); run != NULL;
         run = dev_run_of(runtime, task)) {
        dev_run_stop(runtime, run);
    }
    if (runtime->at_once != NULL) {
        dev_at_once_forget(runtime, task);
    }
}

static void stop(struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        halt(runtime, &runtime->tasks[i]);
    }
    dev_run_blobs_forget(runtime, NULL);
}

// Those behind the task move up.
static void dropped(struct dev_runtime *runtime, const struct dev_task *task)
{
    uint32_t index = (uint32_t)(task - runtime->tasks);
    halt(runtime, task);
    dev_run_blobs_forget(runtime, task);
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        runtime->run[i].task -= runtime->run[i].task > index ? 1 : 0;
    }
}

bool dev_run_is_busy(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        if (runtime->run[i].run != 0) {
            return true;
        }
    }
    return false;
}

bool dev_run_is_triggered(const struct dev_runtime *runtime)
{
    const struct dev_run *run = dev_run_current(runtime);
    return run->run != 0 && run->triggered;
}

bool dev_run_valid(const struct dev_runtime *runtime)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        const struct dev_run *run = &runtime->run[i];
        busy += run->run != 0 ? 1 : 0;
        if (run->run != 0 && run->task >= runtime->task_count) {
            return false;
        }
    }
    return runtime->at_once == NULL || (dev_sched_validate(&runtime->at_once->sched) &&
                                        runtime->at_once->sched.running == busy);
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    uint64_t due_us = UINT64_MAX;
    if (runtime->at_once != NULL) {
        return dev_at_once_due_us(runtime);
    }
    if (dev_run_is_busy(runtime) || runtime->dirty) {
        return due_us;
    }
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        bool waits = (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0;
        due_us = !waits && task->runs.due_us < due_us ? task->runs.due_us : due_us;
    }
    return due_us;
}

// ---- Another version, or another rollout

static void clouds_anew(struct dev_task *task)
{
    if (!task->shadow) {
        task->runs.clouds = (struct dev_clouds){.told = 0};
    }
}

// The active version begins: it has not run, and nothing is held against it.
static void begun(struct dev_task *task)
{
    struct dev_runs *runs = &task->runs;
    bool never = wire_sha256_is_zero(&task->slots.active.manifest) || task->shadow; // by itself
    runs->count = 0;
    runs->crashes = 0;
    runs->running = false;
    runs->failure_mark = 0;
    runs->last_s = 0;
    runs->due_us = never ? UINT64_MAX : 0;
    runs->reference = false;
    runs->references = 0;
    runs->shadow_us = 0;
    runs->beside_us = 0;
    clouds_anew(task);
}

static void stood(struct dev_task *task)
{
    task->runs.running = false;
    task->runs.crashes = 0;
}

void dev_run_entered(struct dev_task *task)
{
    task->runs.reference = false;
    task->runs.count = 0;
    task->runs.due_us = 0;
    clouds_anew(task);
}

// ---- Boot

// The mark of a started run is still there: the run took the process down.
static void crash_count(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_FAIL_CRASH,
        .task_id = task->id,
        .version_id = wire_version_id(&task->slots.active.manifest),
        .rollout_id = dev_told_rollout(task),
        .detail = BASE_STR("the process ended during a run"),
    };
    task->runs.running = false;
    task->runs.crashes =
        (uint8_t)(task->runs.crashes < UINT8_MAX ? task->runs.crashes + 1 : UINT8_MAX);
    runtime->stats.failures++;
    dev_outcome(runtime, &outcome);
    if (task->shadow) { // what nobody asked for may not take the app down twice
        dev_slot_fail_shadow(runtime, task);
    } else if (task->runs.crashes >= runtime->settings.crash_limit &&
               dev_slot_failed(runtime, task)) {
        run_later(runtime, task);
    }
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    (void)first_us;
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        runtime->run[i].run = 0;
        runtime->run[i].triggered = false;
    }
    if (runtime->at_once != NULL) {
        dev_at_once_boot(runtime->at_once);
    }
}

// Content is to be collected, or a task is over: that needs a moment without runs.
static void quiet_wanted(struct dev_runtime *runtime)
{
    if (runtime->at_once != NULL) {
        runtime->at_once->quiet = true;
    }
}

static void restored(struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->runs.running) {
            crash_count(runtime, task);
        }
        schedule(runtime, task);
    }
    quiet_wanted(runtime);
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    switch (event->kind) {
    case DEV_PART_EVENT_RESTORED:
        restored(runtime);
        break;
    case DEV_PART_EVENT_STOPPED:
        stop(runtime);
        break;
    case DEV_PART_EVENT_HALT:
        halt(runtime, event->task);
        break;
    case DEV_PART_EVENT_SCHEDULE:
        schedule(runtime, event->task);
        break;
    case DEV_PART_EVENT_DROPPED:
        dropped(runtime, event->task);
        break;
    case DEV_PART_EVENT_BEGUN:
        begun(event->task);
        if (runtime->at_once != NULL) { // another version needs other room
            dev_at_once_forget(runtime, event->task);
        }
        break;
    case DEV_PART_EVENT_ENDED:
    case DEV_PART_EVENT_GARBAGE:
        quiet_wanted(runtime);
        break;
    case DEV_PART_EVENT_PROVEN:
        event->task->runs.count = 1; // its first success here is no news
        break;
    case DEV_PART_EVENT_STOOD:
        stood(event->task);
        break;
    default:
        break;
    }
    return false;
}

const struct dev_part dev_run_part = {.name = "run",
                                      .init = init,
                                      .step = step,
                                      .due_us = due_us_of,
                                      .on_event = on_event,
                                      .hears = DEV_PART_HEARS(RESTORED) | DEV_PART_HEARS(STOPPED) |
                                               DEV_PART_HEARS(HALT) | DEV_PART_HEARS(SCHEDULE) |
                                               DEV_PART_HEARS(DROPPED) | DEV_PART_HEARS(BEGUN) |
                                               DEV_PART_HEARS(PROVEN) | DEV_PART_HEARS(STOOD) |
                                               DEV_PART_HEARS(ENDED) | DEV_PART_HEARS(GARBAGE)};
