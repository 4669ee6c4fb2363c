// Counting what behaviour came to. Rows are found by walking: there are few. Called on a shard's
// thread while it runs, on the coordinator's afterwards. fleet_pipeline.c counts a trigger or a
// task where it happens, fleet_run.c merges the shards' tallies when their threads have ended, and
// report/behaviour_report.c asks why a trigger never fired. The sums are all 64 bits wide, so they
// are merged as one array.
#include "behaviour/behaviour_tally.h"

#include "base/alloc.h"
#include "pipeline/declaration_check.h"

#include <stdio.h>
#include <string.h>

void sim_tally_init(struct sim_tally *tally)
{
    memset(tally, 0, sizeof(*tally));
    base_hist_init(&tally->event_us);
}

// ---- Tasks

struct sim_task_tally *sim_tally_task_find(struct sim_tally *tally, uint64_t task_id)
{
    for (uint32_t i = 0; i < tally->task_count; i++) {
        if (tally->tasks[i].task_id == task_id) {
            return &tally->tasks[i];
        }
    }
    return NULL;
}

static struct sim_task_tally *task_new(struct sim_tally *tally, uint64_t task_id)
{
    if (tally->task_count == SIM_TALLY_TASKS_MAX) {
        return NULL;
    }
    struct sim_task_tally *row = &tally->tasks[tally->task_count++];
    memset(row, 0, sizeof(*row));
    row->task_id = task_id;
    base_hist_init(&row->run_us);
    return row;
}

struct sim_task_tally *sim_tally_task(struct sim_tally *tally, const struct dev_pipeline_task *task)
{
    struct sim_task_tally *row = sim_tally_task_find(tally, task->task_id);
    struct wire_declaration declaration;
    struct dev_trigger_certificate certificate;
    if (row != NULL) {
        return row;
    }
    row = task_new(tally, task->task_id);
    if (row == NULL) {
        return NULL;
    }
    (void)snprintf(row->name, sizeof(row->name), "%.*s", (int)task->name.size, task->name.data);
    if (task->declaration.size > 0 &&
        wire_declaration_parse((const uint8_t *)task->declaration.data, task->declaration.size,
                               &declaration) == BASE_OK &&
        dev_declaration_certify(&declaration, base_alloc_heap(), &certificate) == BASE_OK) {
        row->certificate = certificate;
    }
    return row;
}

// ---- Triggers

struct sim_trigger_tally *sim_tally_trigger(struct sim_tally *tally, uint64_t task_id,
                                            uint32_t trigger, struct base_str text)
{
    for (uint32_t i = 0; i < tally->trigger_count; i++) {
        struct sim_trigger_tally *row = &tally->triggers[i];
        if (row->task_id == task_id && row->trigger == trigger &&
            base_str_equal(base_str_of(row->text), text)) {
            return row;
        }
    }
    if (tally->trigger_count == SIM_TALLY_TRIGGERS_MAX ||
        text.size >= sizeof(tally->triggers[0].text)) {
        return NULL;
    }
    struct sim_trigger_tally *row = &tally->triggers[tally->trigger_count];
    memset(row, 0, sizeof(*row));
    memcpy(row->text, text.data, text.size);
    row->task_id = task_id;
    row->trigger = trigger;
    if (dev_pattern_parse(base_str_of(row->text), &row->pattern, NULL) != BASE_OK) {
        return NULL;
    }
    row->step_count = row->pattern.step_count;
    tally->trigger_count++;
    return row;
}

uint32_t sim_trigger_gap(const struct sim_trigger_tally *trigger)
{
    uint32_t step = 0;
    while (step < trigger->step_count && trigger->step_events[step] > 0) {
        step++;
    }
    return step;
}

void sim_trigger_step_text(const struct sim_trigger_tally *trigger, uint32_t step, char *out,
                           size_t capacity)
{
    const struct dev_pattern_literal *literal = &trigger->pattern.literals[step];
    const char *kind =
        literal->kind != 0 ? dev_event_kind_name((enum dev_event_kind)literal->kind) : "any";
    (void)snprintf(out, capacity, "%s%s%.*s%s%.*s%s%s", kind, literal->name.size > 0 ? ":" : "",
                   (int)literal->name.size, literal->name.size > 0 ? literal->name.data : "",
                   literal->page.size > 0 ? "(" : "", (int)literal->page.size,
                   literal->page.size > 0 ? literal->page.data : "",
                   literal->page.size > 0 ? ")" : "",
                   literal->test_count > 0 ? " with its tests" : "");
}

bool sim_trigger_miss(const struct sim_trigger_tally *trigger, char *out, size_t capacity)
{
    if (trigger->matches > 0) {
        return false;
    }
    char step_text[160];
    uint32_t gap = sim_trigger_gap(trigger);
    if (gap == trigger->step_count) {
        (void)snprintf(out, capacity,
                       "every step was matched by some event, never one after the other as the "
                       "pattern asks");
        return true;
    }
    sim_trigger_step_text(trigger, gap, step_text, sizeof(step_text));
    if (gap == 0) {
        (void)snprintf(out, capacity, "no event matched step 1 of %u, %s", trigger->step_count,
                       step_text);
    } else {
        (void)snprintf(out, capacity, "%llu events matched step %u, none matched step %u of %u, %s",
                       (unsigned long long)trigger->step_events[gap - 1], gap, gap + 1,
                       trigger->step_count, step_text);
    }
    return true;
}

// ---- Merging

static void max_u64(uint64_t *into, uint64_t from)
{
    *into = from > *into ? from : *into;
}

static void task_merge(struct sim_tally *into, const struct sim_task_tally *from)
{
    struct sim_task_tally *row = sim_tally_task_find(into, from->task_id);
    row = row != NULL ? row : task_new(into, from->task_id);
    if (row == NULL) {
        return;
    }
    memcpy(row->name, from->name, sizeof(row->name));
    row->certificate = from->certificate;
    row->starts += from->starts;
    row->ran += from->ran;
    row->failed += from->failed;
    row->records += from->records;
    row->record_bytes += from->record_bytes;
    row->heap_peak_bytes =
        from->heap_peak_bytes > row->heap_peak_bytes ? from->heap_peak_bytes : row->heap_peak_bytes;
    row->left_out += from->left_out;
    base_hist_merge(&row->run_us, &from->run_us);
    row->phased += from->phased;
    row->phases.prepare_us += from->phases.prepare_us;
    row->phases.model_us += from->phases.model_us;
    row->phases.finish_us += from->phases.finish_us;
}

void sim_tally_merge(struct sim_tally *into, const struct sim_tally *from)
{
    for (uint32_t i = 0; i < from->trigger_count; i++) {
        const struct sim_trigger_tally *trigger = &from->triggers[i];
        struct sim_trigger_tally *row =
            sim_tally_trigger(into, trigger->task_id, trigger->trigger, base_str_of(trigger->text));
        if (row != NULL) {
            row->matches += trigger->matches;
            row->sessions += trigger->sessions;
            for (uint32_t k = 0; k < trigger->step_count; k++) {
                row->step_events[k] += trigger->step_events[k];
            }
        }
    }
    for (uint32_t i = 0; i < from->task_count; i++) {
        task_merge(into, &from->tasks[i]);
    }
    if (into->against[0] == '\0') {
        memcpy(into->against, from->against, sizeof(into->against));
    }
    max_u64(&into->peaks.work, from->peaks.work);
    max_u64(&into->peaks.trigger_bytes, from->peaks.trigger_bytes);
    max_u64(&into->peaks.stored_bytes, from->peaks.stored_bytes);
    max_u64(&into->peaks.live, from->peaks.live);
    base_hist_merge(&into->event_us, &from->event_us);
}
