// The data pipeline of one device: from events to task starts, and from their results to features
// and uploads. It holds the pieces of this folder together and is all an embedding program needs:
//
//   dev_record (any thread) -> recorder -> sequences, trigger engine -> a start, stored, waits for
//   its turn
//   -> ports.start runs the task with its events -> dev_pipeline_on_end -> features and uploads,
//   and the start is forgotten, in one commit
//
// What live tasks declare (wire/declaration.h) decides everything: which events are kept, with
// which attributes, what starts a task, what it gets, and what may leave. A task that was not
// declared, or an upload it did not declare, does nothing. Where a task declares what its uploads
// hold (wire/leaves), each record is held against that here, at the tunnel's door, whatever its
// process said of it.
//
// Starts are at least once: a start is in the store before its task runs and leaves it with what
// the task gave; after a kill it is run again, under the same token. The trigger engine's state is
// stored with the events it has seen, so the same match does not fire twice.
// A device runs one task at a time: DEV_PIPELINE_STARTS_MAX starts wait. The match that finds no
// place starts nothing; it is counted, and told (ports.dropped), so that it is declared lost up the
// tunnel as what its run would have sent.
//
// Life: init (memory is the caller's, and done when the block goes), boot, declare whenever the set
// of active versions changes, step. One thread, but for dev_record. No clock of its own: times are
// arguments. Errors are statuses; what can only be counted is counted (dev_pipeline_stats) and
// logged at debug.
#ifndef DEV_PIPELINE_H
#define DEV_PIPELINE_H

#include "base/log.h"
#include "base/ports.h"
#include "pipeline/storage/collect.h"
#include "pipeline/storage/feature_store.h"
#include "pipeline/record/recorder.h"
#include "pipeline/trigger/trigger.h"
#include "wire/batch.h"
#include "wire/declaration.h"

#define DEV_PIPELINE_TASKS_MAX         16
#define DEV_PIPELINE_STARTS_MAX        16 // that wait; one more is dropped, and declared lost
#define DEV_PIPELINE_DECLARATION_BYTES (8 * 1024) // of all live tasks
// Taken from the memory port while needed:
#define DEV_PIPELINE_TRIGGER_BYTES                                                                 \
    (64 * 1024)                       // compiled patterns and their state, two of them for a moment
#define DEV_PIPELINE_SOURCE_BYTES  24 // of it for each pattern, whose it is
#define DEV_PIPELINE_SCRATCH_BYTES (512 * 1024) // while patterns are compiled
#define DEV_PIPELINE_INPUT_BYTES   (64 * 1024)  // events of one run, encoded, until it ended
#define DEV_PIPELINE_RETRY_US      (200 * 1000) // when the runtime was busy
#define DEV_PIPELINE_KEEP_MS                                                                       \
    (30ull * 24 * 3600 * 1000)                     // stored events; features have ages of their own
#define DEV_PIPELINE_EVICT_US  (3600 * 1000000ull) // old ones are looked for this often
#define DEV_PIPELINE_DRAIN_MAX 256                 // events of one step

// An active version. Borrowed during the call.
struct dev_pipeline_task {
    uint64_t task_id;
    struct base_str name;
    struct base_str declaration; // bytes; empty: it declares nothing
};

struct dev_pipeline_start {
    uint64_t task_id;
    uint64_t token;
    const uint8_t
        *events; // blocks of events, each `varint size, block` (wire/event_block.h), and perhaps
                 // `varint 0, varint count`: so many more there was no room for, the oldest, or,
                 // with a count of 0, that the start is of a time-out; valid
    size_t events_bytes; // until dev_pipeline_on_free
};

// Matches of a task whose starts found no place to wait. Borrowed during the call.
struct dev_pipeline_dropped {
    struct base_str task;
    uint8_t class_id; // of what a run would have sent: its result, else its first upload, else 2
    uint64_t count;   // since the last call
};

struct dev_pipeline_ports {
    void *ctx;
    // Runs the task. OK: dev_pipeline_on_end and then dev_pipeline_on_free will be called, later.
    // BUSY: again at the next step. NOT_FOUND: the task is gone.
    enum base_status (*start)(void *ctx, const struct dev_pipeline_start *start);
    struct wire_upload_port uploads; // of the tunnel (dev_tunnel_uploads); NULL: nothing leaves
    // Every event that is kept, and every end of a visit, in order; for stream functions and tests.
    // May be NULL.
    void (*on_event)(void *ctx, const struct dev_event *event);
    // During dev_pipeline_declare: the task was left out, and why. Somebody should hear of it. May
    // be NULL.
    void (*left_out)(void *ctx, uint64_t task_id, const char *why);
    // A match of the task's trigger (its place in the declaration) that is to start something; for
    // counting. May be NULL.
    void (*on_match)(void *ctx, uint64_t task_id, uint32_t trigger);
    // At the end of a step in which starts were dropped, once for each task. May be NULL.
    void (*dropped)(void *ctx, uint64_t now_us, const struct dev_pipeline_dropped *dropped);
    const struct base_log *log; // NULL: silence
};

struct dev_pipeline_options {
    struct dev_collect *collect;          // booted by dev_pipeline_boot
    struct dev_feature_store *features;   // likewise
    struct dev_recorder *recorder;        // likewise
    const struct base_alloc_port *memory; // for what is needed for a while, see above
    struct dev_pipeline_ports ports;      // copied
    uint32_t trigger_bytes;               // at most; 0 takes DEV_PIPELINE_TRIGGER_BYTES
    uint32_t input_bytes;                 // at most; 0 takes DEV_PIPELINE_INPUT_BYTES
    uint32_t sequence_bytes; // of the time-level sequence in memory; 0 takes sequence.h's
    // Of a task that does not declare what leaves (wire/leaves/leaves.h) nothing leaves.
    bool leaves_required;
};

struct dev_pipeline_stats {
    uint64_t events;
    uint64_t matches;        // that are to start something, time-outs among them
    uint64_t timed_out;      // starts of patterns that no match followed in time
    uint64_t starts;         // handed to ports.start
    uint64_t starts_dropped; // no place to wait
    uint64_t starts_lost;    // their task, or their events, were gone
    uint64_t starts_again;   // found in the store at boot
    uint64_t uploads;
    uint64_t uploads_refused;  // not declared, too large, or by the tunnel
    uint64_t privacy_refusals; // of them: what they held may not leave, or no more of them today
    uint64_t features;
    uint64_t features_refused;
    uint64_t stores;         // of tasks, saved
    uint64_t stores_refused; // no store, over its quota, damaged, or by the storage
    uint64_t tasks_refused;  // declarations or triggers that this device cannot take
    uint32_t tasks;
    uint32_t patterns;
    size_t trigger_bytes; // held for them
    uint32_t waiting;     // starts
    uint32_t pending;     // starts of patterns whose time-out is asked for
    struct dev_trigger_stats trigger;
};

struct dev_pipeline;

// INVALID options give 0.
size_t dev_pipeline_bytes(const struct dev_pipeline_options *options);
BASE_NODISCARD enum base_status dev_pipeline_init(void *memory, size_t memory_bytes,
                                                  const struct dev_pipeline_options *options,
                                                  struct dev_pipeline **out);
// Boots collect, recorder and features, and reads back what was under way. Damaged state is dropped
// and counted. The storage port's errors.
BASE_NODISCARD enum base_status dev_pipeline_boot(struct dev_pipeline *pipeline, uint64_t now_us,
                                                  uint64_t wall_ms);

// The active versions, all of them; those that declare something come first. Patterns that stay
// keep what they had matched. A task this device cannot take (its declaration is damaged, its
// triggers cost too much, there are too many tasks) is left out, counted and told (ports.left_out);
// the others are taken. dev_declaration_afford says beforehand whether one would be. NOMEM: the
// patterns of before stay in force; try again.
BASE_NODISCARD enum base_status dev_pipeline_declare(struct dev_pipeline *pipeline, uint64_t now_us,
                                                     const struct dev_pipeline_task *tasks,
                                                     uint32_t count);

// The tasks there are on the device, with or without an active version: what others kept
// (storage/task_store.h) is dropped. Where nobody keeps anything it does nothing.
void dev_pipeline_tasks_keep(struct dev_pipeline *pipeline, uint64_t now_us,
                             const uint64_t *task_ids, uint32_t count);

// Does what is due; returns when to call again (UINT64_MAX: after the next event or callback).
// Calls dev_collect_step.
uint64_t dev_pipeline_step(struct dev_pipeline *pipeline, uint64_t now_us, uint64_t wall_ms);
// The app goes to the background, or ends: everything is stored.
BASE_NODISCARD enum base_status dev_pipeline_flush(struct dev_pipeline *pipeline, uint64_t now_us);

// ---- Ends of runs

enum dev_effect_kind {
    DEV_EFFECT_FEATURE, // name: the feature
    DEV_EFFECT_UPLOAD,  // name: the upload
    DEV_EFFECT_SAVE,    // the task's store is to be this image (wire/store/store_image.h)
};

// What a script asked for; it happens when its run ended well.
struct dev_effect {
    enum dev_effect_kind kind;
    struct base_str name;
    struct base_str key; // FEATURE
    uint64_t time_ms;    // FEATURE; 0: the time of the last event given to the run
    enum wire_record_format format;
    const uint8_t *bytes;
    size_t size;
};

struct dev_pipeline_end {
    bool ok;                // the run ended well
    struct base_str result; // JSON text, empty: none
    const struct dev_effect *effects;
    uint32_t effect_count;
};

// Which run it was.
struct dev_pipeline_run {
    uint64_t token;   // of its start; 0: the clock had started it
    uint64_t task_id; // whose it was; with a token it is not looked at
};

// The run ended; `end` NULL: it could not run. Effects and result are taken also of runs the clock
// had started.
void dev_pipeline_on_end(struct dev_pipeline *pipeline, uint64_t now_us, uint64_t wall_ms,
                         struct dev_pipeline_run run, const struct dev_pipeline_end *end);
// The start's bytes are not needed any more.
void dev_pipeline_on_free(struct dev_pipeline *pipeline, uint64_t token);

// Gives back what it holds of the memory port; the block may then go.
void dev_pipeline_done(struct dev_pipeline *pipeline); // accepts NULL
bool dev_pipeline_is_idle(
    const struct dev_pipeline *pipeline); // nothing waits, nothing runs, nothing to store
void dev_pipeline_stats(const struct dev_pipeline *pipeline, struct dev_pipeline_stats *out);
// When the first pending start times out, on the clock of the steps; UINT64_MAX: none waits. The
// step says it, too, among all that is due.
uint64_t dev_pipeline_timeout_due(const struct dev_pipeline *pipeline);
bool dev_pipeline_validate(const struct dev_pipeline *pipeline);

#endif
