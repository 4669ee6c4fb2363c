// Due runs into the scheduler, its deeds into runs. Called by the runs part (device_run.c) and the
// one of behaviour (device_trigger.c) on the runtime's thread.
//
// A run that waits is known to the scheduler by a key made of its task; whether it still is to be
// done is asked anew at each step, so nobody has to take it back. When a moment without runs is
// wanted, as for the collection of content, nothing starts until it was there.
#include "core/run/runs_at_once.h"

#include "core/slots/device_content.h"
#include "core/slots/device_slots.h"

#include <inttypes.h>
#include <stdio.h>

#define PRIORITY_SHADOW    1
#define PRIORITY_TRIGGERED 1
#define PRIORITY_CLOCK     2
#define TOO_LARGE_FINGERPRINT                                                                      \
    UINT64_C(0x746f6f6c61726765) // "toolarge": one cause, whatever the numbers

static struct dev_sched_limits limits_of(const struct dev_config *config, uint32_t tasks_max)
{
    return (struct dev_sched_limits){
        .budget_bytes = config->runs_memory_bytes,
        .places = config->runs_max,
        .waiting_max = tasks_max + 1, // and the one that behaviour started
    };
}

size_t dev_at_once_bytes(const struct dev_config *config, uint32_t tasks_max)
{
    const struct dev_sched_limits limits = limits_of(config, tasks_max);
    return dev_sched_bytes(&limits);
}

void dev_at_once_init(struct dev_at_once *at_once, const struct dev_config *config,
                      uint32_t tasks_max, void *memory)
{
    const struct dev_sched_limits limits = limits_of(config, tasks_max);
    *at_once = (struct dev_at_once){.changed = false};
    dev_sched_init(&at_once->sched, &limits, memory);
    at_once->budget_bytes = at_once->sched.limits.budget_bytes;
}

void dev_at_once_boot(struct dev_at_once *at_once)
{
    struct dev_sched_limits limits = at_once->sched.limits;
    uint64_t budget_bytes = limits.budget_bytes; // the app may have asked for memory
    limits.budget_bytes = at_once->budget_bytes;
    dev_sched_init(&at_once->sched, &limits, at_once->sched.line);
    dev_sched_budget(&at_once->sched, budget_bytes);
    at_once->current = 0;
    at_once->changed = false;
    at_once->quiet = false;
}

static uint64_t key_of(uint64_t task_id, bool triggered)
{
    return triggered ? ~task_id : task_id;
}

void dev_at_once_ended(struct dev_runtime *runtime, const struct dev_task *task, bool triggered)
{
    struct dev_at_once *at_once = runtime->at_once;
    uint64_t key = key_of(task->id, triggered && !task->shadow);
    (void)dev_sched_end(&at_once->sched, key, dev_now_us(runtime)); // or it was forgotten meanwhile
    at_once->changed = true;
}

// Of the task, with the input of behaviour or not.
static bool under_way(const struct dev_runtime *runtime, const struct dev_task *task,
                      bool triggered)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        const struct dev_run *run = &runtime->run[i];
        if (run->run != 0 && &runtime->tasks[run->task] == task &&
            (run->triggered && !task->shadow) == triggered) {
            return true;
        }
    }
    return false;
}

void dev_at_once_forget(struct dev_runtime *runtime, const struct dev_task *task)
{
    struct dev_sched *sched = &runtime->at_once->sched;
    for (uint32_t i = 0; i < 2; i++) {
        bool triggered = i != 0;
        if (!under_way(runtime, task, triggered)) { // else it runs on
            bool waited = dev_sched_cancel(sched, key_of(task->id, triggered));
            runtime->at_once->changed = runtime->at_once->changed || waited;
        }
    }
}

// ---- What is due

static bool damaged(const struct dev_task *task)
{
    return (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0;
}

// Its shadow is to run first.
static bool behind_shadow(const struct dev_runtime *runtime, const struct dev_task *task)
{
    const struct dev_task *shadow =
        task->shadow ? NULL : dev_shadow_other((struct dev_runtime *)(uintptr_t)runtime, task);
    return shadow != NULL && shadow->runs.due_us != UINT64_MAX && !damaged(shadow) &&
           dev_update_has_active((enum dev_update_state)shadow->slots.state);
}

static bool clock_due(const struct dev_runtime *runtime, const struct dev_task *task,
                      uint64_t now_us)
{
    return task->runs.due_us <= now_us && !damaged(task) && !behind_shadow(runtime, task);
}

// Does what the clock has due of the task wait for a run of its own, and is judged anew behind it?
static bool behind_own(const struct dev_runtime *runtime, const struct dev_task *task)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        const struct dev_run *run = &runtime->run[i];
        if (run->run != 0 && &runtime->tasks[run->task] == task &&
            !(run->triggered && run->beside)) {
            return true;
        }
    }
    return false;
}

static uint64_t models_bytes(const struct wire_manifest_file *files, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += files[i].kind == WIRE_FILE_MODEL ? files[i].bytes : 0;
    }
    return bytes;
}

// How the version says it runs beside others. The deadline counts from now: it is due now.
static void declared(const struct wire_manifest *manifest, uint64_t now_us,
                     struct dev_sched_want *want)
{
    struct wire_declaration declaration;
    if (!dev_manifest_declares(manifest, &declaration)) {
        return;
    }
    const struct wire_declared_runs *runs = &declaration.runs;
    want->priority = runs->priority > 0 ? (uint8_t)(runs->priority - 1) : want->priority;
    want->at_once = runs->at_once;
    if (runs->deadline_ms > 0) {
        uint64_t span_us = 1000ull * runs->deadline_ms; // less than a run takes none could keep
        want->deadline_us = now_us + (span_us > want->time_us ? span_us : want->time_us);
    }
}

// A task waits for its shadow, which therefore goes no later than the task would.
static void as_beside(struct dev_runtime *runtime, const struct dev_task *shadow, uint64_t now_us,
                      struct dev_sched_want *want)
{
    const struct dev_task *task = dev_shadow_other(runtime, shadow);
    struct dev_sched_want other = {.priority = PRIORITY_SHADOW};
    struct dev_manifest manifest;
    if (task != NULL &&
        dev_manifest_open(runtime, &task->slots.active.manifest, &manifest) == BASE_OK) {
        declared(&manifest.parsed, now_us, &other);
        dev_manifest_close(runtime, &manifest);
    }
    want->priority = other.priority < PRIORITY_SHADOW ? other.priority : PRIORITY_SHADOW;
    want->deadline_us = DEV_SCHED_NEVER;
    want->at_once = 1;
}

// What the version says it needs. What cannot be read is found out when it starts.
static void needs(struct dev_runtime *runtime, const struct dev_task *task, uint64_t now_us,
                  struct dev_sched_want *want)
{
    struct dev_manifest manifest;
    uint64_t heap_kib = 0;
    uint64_t time_ms = 0;
    want->time_us = 1000ull * DEV_RUN_TIME_MS_DEFAULT;
    want->memory_bytes = DEV_RUN_BESIDE_BYTES;
    if (dev_manifest_open(runtime, &task->slots.active.manifest, &manifest) == BASE_OK) {
        heap_kib = manifest.parsed.heap_kib;
        time_ms = manifest.parsed.time_ms;
        want->memory_bytes += models_bytes(manifest.parsed.files, manifest.parsed.file_count);
        want->time_us = time_ms > 0 ? 1000 * time_ms : want->time_us;
        declared(&manifest.parsed, now_us, want);
        dev_manifest_close(runtime, &manifest);
    }
    struct dev_exclusive exclusive;
    if (dev_exclusive_open(runtime, &task->slots.active.exclusive, &exclusive) == BASE_OK) {
        want->memory_bytes += models_bytes(exclusive.parsed.files, exclusive.parsed.file_count);
        dev_exclusive_close(runtime, &exclusive);
    }
    want->memory_bytes += 1024 * (heap_kib > 0 ? heap_kib : DEV_RUN_HEAP_KIB_DEFAULT);
}

static bool leaves_mark(const struct dev_task *task)
{
    return dev_update_on_trial((enum dev_update_state)task->slots.state);
}

static void too_large(struct dev_runtime *runtime, struct dev_task *task, bool triggered,
                      uint64_t bytes)
{
    char text[WIRE_REPORT_DETAIL_MAX + 1];
    (void)snprintf(text, sizeof(text), "needs %" PRIu64 " KiB, all runs together have %" PRIu64,
                   bytes / 1024, runtime->at_once->budget_bytes / 1024);
    const struct dev_task_end end = {
        .outcome = WIRE_OUTCOME_FAIL_MEMORY,
        .fingerprint = TOO_LARGE_FINGERPRINT,
        .detail = base_str_of(text),
        .place = {.of_port = true},
    };
    task->runs.reference = false;
    dev_run_cannot(runtime, task, &end);
    if (triggered) {
        dev_triggered_failed(runtime, &end);
    }
}

static void offer(struct dev_runtime *runtime, struct dev_task *task, bool triggered,
                  uint64_t now_us)
{
    struct dev_at_once *at_once = runtime->at_once;
    struct dev_sched_want want = {
        .key = key_of(task->id, triggered),
        .deadline_us = DEV_SCHED_NEVER,
    };
    if (dev_sched_find(&at_once->sched, want.key) != NULL) {
        return;
    }
    want.task_id = task->shadow ? wire_shadow_task_id(task->id) : task->id;
    want.priority = triggered ? PRIORITY_TRIGGERED : PRIORITY_CLOCK;
    needs(runtime, task, now_us, &want);
    if (task->shadow) {
        as_beside(runtime, task, now_us, &want);
    } else if (dev_shadow_other(runtime, task) != NULL) {
        want.at_once = 1; // it is compared with one run
    }
    if (want.memory_bytes > at_once->budget_bytes) {
        too_large(runtime, task, triggered, want.memory_bytes);
        return;
    }
    want.alone = leaves_mark(task);
    enum dev_sched_answer answer = dev_sched_offer(&at_once->sched, &want, now_us);
    at_once->changed = at_once->changed || answer == DEV_SCHED_ACCEPTED;
}

static void offers(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_task *triggered = dev_triggered_ready(runtime, now_us);
    if (triggered != NULL && !behind_shadow(runtime, triggered)) {
        offer(runtime, triggered, true, now_us);
    }
    for (uint32_t i = 0; i < runtime->task_count && !runtime->dirty; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (clock_due(runtime, task, now_us) && !behind_own(runtime, task)) {
            offer(runtime, task, false, now_us);
        }
    }
}

// The task whose run has the key, as long as it is to be done; NULL: it is not.
static struct dev_task *task_of(struct dev_runtime *runtime, uint64_t key, uint64_t now_us,
                                bool *out_triggered)
{
    struct dev_task *triggered = dev_triggered_ready(runtime, now_us);
    *out_triggered = triggered != NULL && key_of(triggered->id, true) == key;
    if (*out_triggered) {
        return triggered;
    }
    struct dev_task *task = dev_task_find(runtime, key);
    return task != NULL && clock_due(runtime, task, now_us) ? task : NULL;
}

static void withdraw(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_sched *sched = &runtime->at_once->sched;
    bool triggered = false;
    for (uint32_t i = 0; i < sched->count;) {
        const struct dev_sched_run *run = &sched->line[i];
        if (!run->running && task_of(runtime, run->want.key, now_us, &triggered) == NULL) {
            (void)dev_sched_cancel(sched, run->want.key);
        } else {
            i++;
        }
    }
}

// ---- Deeds

static void begin(struct dev_runtime *runtime, uint64_t key, uint64_t now_us)
{
    struct dev_sched *sched = &runtime->at_once->sched;
    bool triggered = false;
    struct dev_task *task = task_of(runtime, key, now_us, &triggered);
    if (task == NULL) {
        (void)dev_sched_cancel(sched, key);
        return;
    }
    if (!damaged(task) && !dev_run_marked(runtime, task, now_us)) {
        (void)dev_sched_back(sched, key); // when the mark is stored
        return;
    }
    bool begun = triggered ? dev_triggered_start(runtime, task, now_us)
                           : dev_run_begin(runtime, task, now_us);
    if (!begun) {
        (void)dev_sched_cancel(sched, key);
    }
}

// Of a key that runs.
static void end_early(struct dev_runtime *runtime, uint64_t key)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        struct dev_run *run = &runtime->run[i];
        const struct dev_task *task = run->run != 0 ? &runtime->tasks[run->task] : NULL;
        if (task != NULL && key_of(task->id, run->triggered && !task->shadow) == key) {
            dev_run_stop(runtime, run);
        }
    }
}

void dev_at_once_step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_at_once *at_once = runtime->at_once;
    if (runtime->dirty) {
        return;
    }
    withdraw(runtime, now_us);
    if (at_once->quiet) { // others have their turn behind this one
        at_once->quiet = dev_run_is_busy(runtime);
        at_once->changed = true;
        return;
    }
    offers(runtime, now_us);
    at_once->changed = false;
    struct dev_sched_run run;
    enum dev_sched_deed deed = DEV_SCHED_START;
    while (!runtime->dirty && deed != DEV_SCHED_NOTHING) {
        deed = dev_sched_next(&at_once->sched, now_us, &run);
        if (deed == DEV_SCHED_START) {
            begin(runtime, run.want.key, now_us);
        } else if (deed == DEV_SCHED_STOP) {
            end_early(runtime, run.want.key);
        }
    }
    at_once->changed = at_once->changed || deed != DEV_SCHED_NOTHING;
}

bool dev_at_once_holds(const struct dev_runtime *runtime, const struct dev_task *task)
{
    const struct dev_at_once *at_once = runtime->at_once;
    return at_once->quiet || behind_shadow(runtime, task) ||
           dev_sched_find(&at_once->sched, key_of(task->id, true)) != NULL;
}

uint64_t dev_at_once_due_us(const struct dev_runtime *runtime)
{
    const struct dev_at_once *at_once = runtime->at_once;
    uint64_t now_us = dev_now_us(runtime);
    if (runtime->dirty || (at_once->quiet && dev_run_is_busy(runtime))) {
        return UINT64_MAX;
    }
    uint64_t due_us =
        at_once->changed || at_once->quiet ? 0 : dev_sched_due_us(&at_once->sched, now_us);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        bool known = dev_sched_find(&at_once->sched, key_of(task->id, false)) != NULL;
        if (!known && task->runs.due_us < due_us && clock_due(runtime, task, UINT64_MAX - 1) &&
            !behind_own(runtime, task)) {
            due_us = task->runs.due_us;
        }
    }
    return due_us;
}

// ---- The app

void dev_runs_suspend(struct dev_runtime *runtime, bool suspended)
{
    if (runtime->at_once != NULL) {
        dev_sched_background(&runtime->at_once->sched, suspended);
        runtime->at_once->changed = true;
    }
}

void dev_runs_memory(struct dev_runtime *runtime, uint64_t bytes)
{
    struct dev_at_once *at_once = runtime->at_once;
    if (at_once != NULL) {
        // What waits keeps its place and its deadline: what it needs is as it was.
        dev_sched_budget(&at_once->sched, bytes > 0 ? bytes : at_once->budget_bytes);
        at_once->changed = true;
    }
}
