// Shadows: a version that runs right after the active one, on the same input, in an interpreter of
// its own, and whose result goes nowhere. It is compared: same result, not much slower, not much
// heavier, no failure. So a new version is tried on real inputs before it is in charge anywhere.
//
// A shadow is kept as a task of its own (struct dev_task with `shadow` set), so pulling, the mark
// of a started run, crashes and collection are those of every task. Nothing of the active version
// is touched. Called by the tick and by the offer and run code.
#include "core/run/device_shadow.h"

#include "core/run/result_digest.h"
#include "core/run/run_blobs.h"
#include "core/run/run_parts.h"
#include "core/run/run_told.h"
#include "core/slots/device_slots.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

_Static_assert(DEV_DIFFERENCE_TEXT <= WIRE_REPORT_DETAIL_MAX, "a difference is told whole");

static bool has_active(const struct dev_task *task)
{
    return dev_update_has_active((enum dev_update_state)task->slots.state);
}

// Does it still have comparisons to make? It is on trial until the last of them.
static bool compares(const struct dev_task *shadow)
{
    return dev_update_on_trial((enum dev_update_state)shadow->slots.state);
}

struct dev_task *dev_shadow_other(struct dev_runtime *runtime, const struct dev_task *task)
{
    struct dev_task *other = dev_task_find(runtime, wire_shadow_task_id(task->id));
    return other != NULL && other->shadow != task->shadow ? other : NULL;
}

// ---- Offers

enum base_status dev_shadow_admit(const struct dev_runtime *runtime,
                                  const struct wire_release *release)
{
    const struct dev_task *task =
        dev_task_find((struct dev_runtime *)(uintptr_t)runtime, wire_task_id(release->task_name));
    if (task == NULL || !has_active(task)) {
        return BASE_ERR_NOT_FOUND;
    }
    bool further = task->offer.newest.counter >= release->release_counter ||
                   wire_sha256_equal(&task->slots.active.manifest, &release->manifest);
    return further ? BASE_ERR_EXISTS : BASE_OK;
}

void dev_shadow_follow(struct dev_runtime *runtime, struct dev_task *shadow,
                       const struct wire_release *release, bool is_new, bool retry)
{
    bool failed_here = shadow->slots.blocked == wire_version_id(&release->manifest);
    base_assert(shadow->shadow);
    if (is_new) {
        shadow->runs.slow_percent = release->shadow_slow_percent;
        shadow->runs.memory_percent = release->shadow_memory_percent;
        shadow->runs.tolerances = release->tolerances;
        dev_slot_forgive(shadow);
        dev_tell_of(runtime, DEV_PART_EVENT_HALT, shadow);
        dev_slot_empty(runtime, shadow); // the one before, when there is one
    } else if (has_active(shadow) ||
               dev_update_is_pulling((enum dev_update_state)shadow->slots.state) ||
               (failed_here && !retry)) {
        return;
    }
    dev_slot_forgive(shadow);
    if (dev_slot_event(shadow, DEV_UPDATE_ON_ACCEPT) == BASE_OK) {
        runtime->dirty = true;
    }
}

// ---- Runs

// Is the result of a run kept for a shadow that has not run yet?
static bool result_waits(struct dev_runtime *runtime)
{
    uint64_t id = runtime->kept_result->shadow_id;
    const struct dev_task *shadow = id != 0 ? dev_task_find(runtime, id) : NULL;
    return shadow != NULL && shadow->shadow && shadow->runs.due_us != UINT64_MAX;
}

// Keeps what fits. False: there is another there, and without its own this shadow cannot be judged.
static bool result_keep(struct dev_runtime *runtime, const struct dev_task *shadow,
                        struct base_str result)
{
    struct dev_kept_result *kept = runtime->kept_result;
    if (kept->shadow_id != shadow->id && result_waits(runtime)) {
        return shadow->runs.tolerances.count == 0;
    }
    bool fits = result.size > 0 && result.size <= kept->capacity;
    kept->shadow_id = fits ? shadow->id : 0;
    if (fits) {
        memcpy(kept->bytes, result.data, result.size);
        kept->size = (uint32_t)result.size;
    }
    return true;
}

// A run that began with this one before there was a shadow: the last of them is compared.
static bool another_runs(const struct dev_runtime *runtime, const struct dev_task *task)
{
    const struct dev_run *current = dev_run_current(runtime);
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        const struct dev_run *run = &runtime->run[i];
        if (run->run != 0 && run != current && &runtime->tasks[run->task] == task) {
            return true;
        }
    }
    return false;
}

void dev_shadow_beside(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end)
{
    struct dev_task *shadow = dev_shadow_other(runtime, task);
    if (shadow == NULL || another_runs(runtime, task) || !compares(shadow) ||
        end->outcome != WIRE_OUTCOME_RAN ||
        !wire_sha256_equal(&task->slots.active.manifest, &dev_run_current(runtime)->version) ||
        !dev_run_blobs_keep(runtime, dev_run_current(runtime), shadow) ||
        !result_keep(runtime, shadow, end->result)) {
        return;
    }
    shadow->runs.beside = (struct dev_beside){
        .digest = dev_result_digest(end->result),
        .duration_us = end->duration_us,
        .run_index = task->runs.count,
        .heap_peak_bytes = end->heap_peak_bytes,
    };
    shadow->runs.beside_quiet = dev_run_current(runtime)->quiet;
    shadow->runs.due_us = 0;
}

// More than `percent` of `base`, and by more than `floor`?
static bool exceeds(uint64_t value, uint64_t base, uint64_t percent, uint64_t floor)
{
    return percent > 0 && value > base && value - base > floor &&
           (double)value * 100 > (double)base * (double)percent;
}

// Do the results agree, by the digest or value by value? *out: where they do not; empty when only
// the digests tell.
static bool results_agree(struct dev_runtime *runtime, const struct dev_task *shadow,
                          struct base_str result, struct dev_difference *out)
{
    const struct dev_kept_result *kept = runtime->kept_result;
    if (dev_result_digest(result) == shadow->runs.beside.digest) {
        return true;
    }
    if (kept->shadow_id != shadow->id) {
        return false;
    }
    return dev_result_compare((struct base_str){kept->bytes, kept->size}, result,
                              &shadow->runs.tolerances, out) == DEV_AGREEMENT_AGREE;
}

// RAN: as it should be. Time is judged over several runs: one alone may have waited for the
// processor.
static enum wire_outcome_kind compare(struct dev_runtime *runtime, struct dev_task *shadow,
                                      const struct dev_task_end *end, struct dev_difference *out)
{
    const struct dev_beside *beside = &shadow->runs.beside;
    bool heap_known = beside->heap_peak_bytes > 0;
    shadow->runs.count += shadow->runs.count < UINT32_MAX ? 1 : 0;
    if (wire_outcome_is_failure(end->outcome)) {
        return end->outcome;
    }
    if (!results_agree(runtime, shadow, end->result, out)) {
        return WIRE_OUTCOME_FAIL_DIFFERENT;
    }
    if (heap_known && exceeds(end->heap_peak_bytes, beside->heap_peak_bytes,
                              shadow->runs.memory_percent, DEV_SHADOW_HEAVY_BYTES)) {
        return WIRE_OUTCOME_FAIL_HEAVY;
    }
    shadow->runs.shadow_us += end->duration_us;
    shadow->runs.beside_us += beside->duration_us;
    if (shadow->runs.count >= DEV_SHADOW_TIMED_RUNS &&
        exceeds(shadow->runs.shadow_us, shadow->runs.beside_us, shadow->runs.slow_percent,
                (uint64_t)DEV_SHADOW_SLOW_US * shadow->runs.count)) {
        return WIRE_OUTCOME_FAIL_SLOW;
    }
    return WIRE_OUTCOME_RAN;
}

static struct base_str reason(enum wire_outcome_kind kind, const struct dev_task_end *end,
                              const struct dev_difference *difference)
{
    switch (kind) {
    case WIRE_OUTCOME_FAIL_DIFFERENT:
        return difference->text[0] != '\0' ? base_str_of(difference->text)
                                           : BASE_STR("the result is not the active version's");
    case WIRE_OUTCOME_FAIL_SLOW:
        return BASE_STR("slower than the active version");
    case WIRE_OUTCOME_FAIL_HEAVY:
        return BASE_STR("more memory than the active version");
    default:
        return end->detail;
    }
}

static void say(struct dev_runtime *runtime, const struct dev_task *shadow,
                enum wire_outcome_kind kind, const struct dev_task_end *end,
                const struct dev_difference *difference)
{
    struct wire_outcome outcome = {
        .kind = kind,
        .task_id = shadow->id,
        .version_id = wire_version_id(&shadow->slots.active.manifest),
        .rollout_id = shadow->slots.active.rollout,
        .duration_us = end->duration_us,
        .fingerprint = end->fingerprint,
        .figures = dev_run_figures(runtime, shadow, end),
        .detail = reason(kind, end, difference),
    };
    if (kind == WIRE_OUTCOME_FAIL_DIFFERENT) { // the place, not the values: it names the cluster
        outcome.fingerprint = difference->place;
    }
    if (wire_outcome_is_failure(kind) && outcome.fingerprint == 0) {
        outcome.fingerprint =
            base_hash64_seed(outcome.detail.data, outcome.detail.size, (uint64_t)kind);
    }
    dev_outcome(runtime, &outcome);
}

void dev_shadow_judge(struct dev_runtime *runtime, struct dev_task *shadow,
                      const struct dev_task_end *end)
{
    const struct dev_task *task = dev_shadow_other(runtime, shadow);
    base_assert(shadow->shadow);
    bool once = task == NULL || (task->slots.every_s == 0 && !task->slots.triggered);
    if (!compares(shadow) ||
        !wire_sha256_equal(&shadow->slots.active.manifest, &dev_run_current(runtime)->version)) {
        return; // replaced while it ran
    }
    shadow->runs.running = false;
    runtime->dirty = true;
    struct dev_difference difference = {.place = 0};
    enum wire_outcome_kind kind = compare(runtime, shadow, end, &difference);
    if (runtime->kept_result->shadow_id == shadow->id) {
        runtime->kept_result->shadow_id = 0;
    }
    if (dev_run_current(runtime)->quiet ||
        shadow->runs.beside_quiet) { // results differ in what they say
        difference = (struct dev_difference){.place = 0};
    }
    if (wire_outcome_is_failure(kind)) {
        say(runtime, shadow, kind, end, &difference);
        dev_slot_fail_shadow(runtime, shadow);
        return;
    }
    dev_slot_ran(shadow);
    if (shadow->runs.count == (shadow->runs.slow_percent > 0 ? DEV_SHADOW_TIMED_RUNS : 1)) {
        say(runtime, shadow, WIRE_OUTCOME_SHADOW_AGREED, end, &difference);
    }
    if (shadow->runs.count >= (once ? DEV_SHADOW_TIMED_RUNS : DEV_SHADOW_RUNS)) {
        enum base_status passed = dev_slot_event(shadow, DEV_UPDATE_ON_PASS);
        base_assert(passed == BASE_OK); // it stays, and runs no more
    }
}

// ---- The tick

// Of a task that neither runs again by itself nor by behaviour the active version runs once more
// beside it, and that result goes nowhere either.
static void refer(struct dev_task *task, struct dev_task *shadow)
{
    bool trial = dev_update_on_trial((enum dev_update_state)task->slots.state);
    if (trial || task->slots.every_s > 0 || task->slots.triggered ||
        task->runs.due_us != UINT64_MAX || !compares(shadow) || shadow->runs.due_us != UINT64_MAX ||
        shadow->runs.references >= DEV_SHADOW_REFERENCES) {
        return;
    }
    shadow->runs.references++;
    task->runs.reference = true;
    task->runs.due_us = 0;
}

static bool is_under_way(const struct dev_runtime *runtime, const struct dev_task *task,
                         const struct dev_task *shadow)
{
    return runtime->at_once == NULL
               ? dev_run_is_busy(runtime)
               : dev_run_of(runtime, task) != NULL || dev_run_of(runtime, shadow) != NULL;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    (void)now_us;
    for (uint32_t i = runtime->task_count; i > 0; i--) {
        struct dev_task *shadow = &runtime->tasks[i - 1];
        if (!shadow->shadow) {
            continue;
        }
        struct dev_task *task = dev_shadow_other(runtime, shadow);
        bool over = shadow->offer.over || task == NULL || !has_active(task) ||
                    task->offer.newest.counter >= shadow->offer.accepted_by.counter;
        if (over) {
            dev_task_drop(runtime, shadow);
            dev_garbage_made(runtime);
        } else if (!is_under_way(runtime, task, shadow)) {
            refer(task, shadow);
        }
    }
}

const struct dev_part dev_shadow_part = {.name = "shadow", .step = step};
