// What a run with behaviour came to, counted as it happens: by trigger, by task, and in all. One
// per shard, owned by its thread; the coordinator merges them when the threads have ended.
#ifndef SIM_BEHAVIOUR_TALLY_H
#define SIM_BEHAVIOUR_TALLY_H

#include "base/hist.h"
#include "behaviour/upload_schemas.h"
#include "device/port.h"
#include "pipeline/pipeline.h"
#include "tunnel/tunnel.h"

#define SIM_TALLY_TRIGGERS_MAX 64 // told apart; of all tasks and versions
#define SIM_TALLY_TASKS_MAX    16

struct sim_trigger_tally {
    uint64_t task_id;
    uint32_t trigger;  // of the task
    uint64_t matches;  // that were to start something
    uint64_t sessions; // that were played while it was declared
    char text[WIRE_DECLARATION_PATTERN_MAX + 1];
    uint32_t step_count;
    uint64_t step_events[DEV_PATTERN_STEPS_MAX]; // events that match the step's literal
    struct dev_pattern pattern;                  // borrows `text`
};

struct sim_task_tally {
    uint64_t task_id;
    char name[WIRE_TASK_NAME_MAX + 1];
    uint64_t starts; // handed to the runtime by behaviour
    uint64_t ran;    // of them, well
    uint64_t failed;
    uint64_t records; // for the tunnel
    uint64_t record_bytes;
    uint32_t heap_peak_bytes;
    uint64_t left_out;             // by joins and windows of its runs
    struct base_hist run_us;       // in the VM, of runs that behaviour started
    uint64_t phased;               // of them, those whose phases are known: not in virtual time
    struct dev_task_phases phases; // of these, sums
    // Of its triggers alone, as `walle task build` computes it; zero: it has none.
    struct dev_trigger_certificate certificate;
};

// Sums. Every field is a 64-bit sum: they are merged as an array.
struct sim_behaviour_sums {
    uint64_t sessions;
    uint64_t sessions_put_off; // no place for an active device
    uint64_t sessions_killed;
    uint64_t devices; // that had a session
    uint64_t events;  // recorded
    uint64_t kept;    // that a task needed
    uint64_t refused; // by dev_record
    uint64_t matches;
    uint64_t triggered; // runs of the VM that behaviour started
    uint64_t starts;
    uint64_t starts_dropped;
    uint64_t starts_again;
    uint64_t starts_lost;
    uint64_t records; // handed to the tunnel
    uint64_t record_bytes;
    uint64_t uploads_refused;
    uint64_t records_against; // their schema: the gateway refuses them
    uint64_t features;
    uint64_t features_refused;
    uint64_t suppressed; // matches, by cooldown, day's cap, visit
    uint64_t sent_bytes; // frames
    uint64_t raw_bytes;  // of their payloads
    uint64_t batches;
    uint64_t batches_resent;
    uint64_t connects; // tunnel streams opened
    uint64_t durable;
    uint64_t lost;
    uint64_t commits;
    uint64_t tasks_refused;
    uint64_t played_ms; // of the users' time
    uint64_t left;      // sessions still to come, where their number is given; as of now
    uint64_t active;    // devices in a session; as of now
};

// The most seen on any device.
struct sim_behaviour_peaks {
    uint64_t work;          // steps of the trigger engine for one event
    uint64_t trigger_bytes; // patterns and their state
    uint64_t stored_bytes;
    uint64_t live; // states of the engine
};

struct sim_tally {
    struct sim_trigger_tally triggers[SIM_TALLY_TRIGGERS_MAX];
    uint32_t trigger_count;
    struct sim_task_tally tasks[SIM_TALLY_TASKS_MAX];
    uint32_t task_count;
    struct sim_behaviour_peaks peaks;
    char against[SIM_REFUSED_WHY_MAX]; // the first of those records; empty: there was none
    struct base_hist event_us; // recorder, pages, triggers, storage: the host's time for one event;
                               // none in virtual time
};

void sim_tally_init(struct sim_tally *tally);
void sim_tally_merge(struct sim_tally *into, const struct sim_tally *from);
// The task's row, made when it is new (with its certificate); NULL: there are too many.
struct sim_task_tally *sim_tally_task(struct sim_tally *tally,
                                      const struct dev_pipeline_task *task);
struct sim_task_tally *sim_tally_task_find(struct sim_tally *tally, uint64_t task_id);
// The trigger's row by its text, made when it is new; NULL: there are too many.
struct sim_trigger_tally *sim_tally_trigger(struct sim_tally *tally, uint64_t task_id,
                                            uint32_t trigger, struct base_str text);
// The step of a trigger that never fired at which its walks end: the first no event matches, or
// step_count when each step was matched by some event.
uint32_t sim_trigger_gap(const struct sim_trigger_tally *trigger);
// Says why a trigger never fired, for people. False: it did.
bool sim_trigger_miss(const struct sim_trigger_tally *trigger, char *out, size_t capacity);
// The text of a step as it stands in the pattern, roughly: kind and page.
void sim_trigger_step_text(const struct sim_trigger_tally *trigger, uint32_t step, char *out,
                           size_t capacity);

#endif
