// What the files of the glue share: pipeline.c (life, step, events), pipeline_tasks.c (what is
// declared, compiling), pipeline_starts.c (starts that wait), pipeline_input.c (the events of a
// run), pipeline_effects.c (what a run gave), pipeline_stores.c
// (what tasks keep). Nobody else includes this.
#ifndef DEV_PIPELINE_PRIVATE_H
#define DEV_PIPELINE_PRIVATE_H

#include "pipeline/pipeline_parts.h"
#include "pipeline/record/sequence.h"
#include "pipeline/trigger/timeouts.h"
#include "wire/event_block.h"
#include "wire/leaves/leaves_ledger.h"

struct dev_pipeline {
    struct dev_pipeline_options options;
    struct dev_pipeline_stats stats;
    struct dev_sequence *sequence;
    struct pipeline_engine engines[2];
    uint32_t current; // of the engines
    uint32_t task_count;
    struct pipeline_task tasks[DEV_PIPELINE_TASKS_MAX];
    uint8_t declarations[DEV_PIPELINE_DECLARATION_BYTES];
    uint32_t declarations_used;
    uint32_t start_count;
    struct pipeline_start starts[DEV_PIPELINE_STARTS_MAX]; // oldest first
    uint64_t free_token;
    struct dev_timeouts timeouts;
    uint64_t newest_seq; // of the events since the boot; 0: none yet
    bool declared;       // once since boot
    bool catch_up;       // stored events may be new to the engine
    uint64_t set_mark;   // of the patterns of the current engine
    bool trigger_dirty;  // its state is not what is stored
    uint64_t evict_due_us;
    uint64_t blocks_seen; // of the sequence, when the state was saved last
    uint64_t matches_seen;
    struct wire_leaves_ledger ledger; // of what has left today
    bool stores;                      // some task may keep something
    uint64_t now_us;                  // of the step under way
    uint64_t wall_ms;
    uint8_t *input; // input_bytes, while a run reads it; NULL otherwise
    struct wire_event events[PIPELINE_BLOCK_EVENTS]; // of one block of an input
};

static inline void *pipeline_take(struct dev_pipeline *pipeline, size_t size)
{
    const struct base_alloc_port *memory = pipeline->options.memory;
    return memory->alloc(memory->ctx, size);
}

static inline void pipeline_give(struct dev_pipeline *pipeline, void *block)
{
    const struct base_alloc_port *memory = pipeline->options.memory;
    memory->release(memory->ctx, block);
}

// ---- pipeline.c
// Gives an event to the trigger engine.
void dev_pipeline_trigger(struct dev_pipeline *pipeline, const struct dev_event *event);

// ---- pipeline_tasks.c
struct pipeline_task *dev_pipeline_task_find(struct dev_pipeline *pipeline, uint64_t task_id);
// Parses what the task declared; it was checked when it was taken.
void dev_pipeline_declared(const struct dev_pipeline *pipeline, const struct pipeline_task *task,
                           struct wire_declaration *out);
static inline struct pipeline_engine *pipeline_engine(struct dev_pipeline *pipeline)
{
    return &pipeline->engines[pipeline->current];
}
void dev_pipeline_state_save(struct dev_pipeline *pipeline);
// Gives the engine the stored events it has not seen: those whose block reached the store when its
// state did not.
void dev_pipeline_catch_up(struct dev_pipeline *pipeline);

// ---- pipeline_starts.c
void dev_pipeline_fired(struct dev_pipeline *pipeline, const struct dev_event *event,
                        const struct dev_trigger_fired *fired);
// Starts what has timed out by now.
void dev_pipeline_timeouts_step(struct dev_pipeline *pipeline);
void dev_pipeline_starts_load(struct dev_pipeline *pipeline);
void dev_pipeline_starts_step(struct dev_pipeline *pipeline);
// Tells of starts that were dropped, in the step that dropped them: their tasks are still there.
void dev_pipeline_dropped_tell(struct dev_pipeline *pipeline);
// Brings the store in line with what is in memory: new starts in, ended ones out, each time with
// the trigger engine's state, so that no match before it fires again.
void dev_pipeline_starts_store(struct dev_pipeline *pipeline);
// In a group: the start is over.
void dev_pipeline_start_forget(struct dev_pipeline *pipeline, const struct pipeline_start *start);
// The start with that token, NULL: none.
struct pipeline_start *dev_pipeline_start_find(struct dev_pipeline *pipeline, uint64_t token);

// ---- pipeline_effects.c
// Reads back how much has left today.
void dev_pipeline_ledger_load(struct dev_pipeline *pipeline);

// ---- pipeline_stores.c
// Makes the task's store what its run left, and forgets the run's start (NULL: it had none) in the
// same commit.
void dev_pipeline_store_save(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                             struct pipeline_start *start, const struct dev_effect *effect);

// ---- pipeline_input.c
// Encodes the events the start's task wants into `input`, which is there. Events that are gone are
// left out.
size_t dev_pipeline_input_make(struct dev_pipeline *pipeline, const struct pipeline_start *start,
                               const struct wire_declaration *declaration);
// For dev_trigger_embed: ctx is the pipeline.
enum base_status dev_pipeline_past(void *ctx, uint64_t before, struct dev_event *out);

#endif
