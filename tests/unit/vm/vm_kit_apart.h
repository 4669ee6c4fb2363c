// The script VM's own tests once more, behind the wall: every run is also done by a task process
// (posix/run/posix_child.h), and both must have come to the same.
#ifndef VM_KIT_APART_H
#define VM_KIT_APART_H

#include "posix/run/posix_child.h"

#define KIT_APART_RUNS_MAX 200 // a sanitized process takes its time to start

static struct posix_children *kit_children;
static uint32_t kit_apart_runs;

static inline void kit_children_start(void)
{
    struct base_error error = {0};
    if (kit_children == NULL &&
        posix_children_new(WALLE_TASK_RUNNER, &kit_children, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

// After the last test: what still waits is gone with it.
static inline void __attribute__((destructor)) kit_children_stop(void)
{
    posix_children_free(kit_children);
}

static inline void kit_effects_same(const struct dev_vm_result *here,
                                    const struct dev_vm_result *there)
{
    assert_int_equal(here->effect_count, there->effect_count);
    for (uint32_t i = 0; i < here->effect_count; i++) {
        const struct dev_vm_effect *a = &here->effects[i];
        const struct dev_vm_effect *b = &there->effects[i];
        assert_int_equal(a->kind, b->kind);
        assert_true(base_str_equal(a->name, b->name));
        assert_true(base_str_equal(a->key, b->key));
        assert_int_equal(a->time_ms, b->time_ms);
        assert_int_equal(a->format, b->format);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->bytes, b->bytes, a->size);
    }
}

static inline void kit_results_same(const struct dev_vm_job *job, const struct dev_vm_result *here,
                                    const struct dev_vm_result *there)
{
    assert_int_equal(here->end, there->end);
    assert_string_equal(here->type, there->type);
    assert_string_equal(here->message, there->message);
    assert_true(base_str_equal(here->result, there->result));
    kit_effects_same(here, there);
    assert_int_equal(here->refused, there->refused);
    assert_int_equal(here->stack_peak_bytes > 0, there->stack_peak_bytes > 0);
    bool by_clock = here->end == DEV_VM_BUDGET && job->instruction_max == 0;
    if (!by_clock) { // a clock stops them where they happen to be
        assert_string_equal(here->file, there->file);
        assert_int_equal(here->line, there->line);
        assert_int_equal(here->instructions, there->instructions);
    }
}

// Jobs a device never makes are left out: events that came in no block, models without a store.
static inline void kit_run_apart(const struct dev_vm_job *job, uint32_t heap_kib,
                                 const struct dev_vm_result *here)
{
    struct posix_child_report report;
    const struct dev_runner_job there = {.vm = job, .heap_kib = heap_kib};
    if (kit_apart_runs++ >= KIT_APART_RUNS_MAX || job->event_count > 0 ||
        (job->model_count > 0 && job->model_port == NULL)) {
        return;
    }
    kit_children_start();
    posix_child_run(kit_children, &there, &report);
    assert_int_equal(posix_child_ready(kit_children), BASE_OK); // as the task worker does
    if (report.how != POSIX_CHILD_ENDED || report.end->status != BASE_OK) {
        fail_msg("behind the wall: how %d, '%s'", report.how, report.text);
    }
    kit_results_same(job, here, &report.end->result);
}

#endif
