// Recorded behaviour, played to a version here: lines of events (lines/event_lines.h) go through
// the device's own recorder, trigger engine and starts, over a store in memory. What a run stores,
// later runs find. Called by `walle task run --events`; one thread, which is the VM's.
//
// A version with triggers runs for each match, one after the other, with the events it asks for, as
// on a device that is never busy: no start is dropped. One without triggers runs once, with all
// events and all their attributes.
//
// Times are those of the lines; a line without one comes half a second after the one before it.
#ifndef TASK_PLAY_H
#define TASK_PLAY_H

#include "base/error.h"
#include "pipeline/pipeline.h"
#include "vm/vm.h"
#include "wire/manifest.h"

#define TASK_PLAY_BYTES_MAX (64 * 1024 * 1024) // of a file of events
#define TASK_PLAY_GAP_MS    500                // between lines that do not say their time

// A record that would go up the tunnel; borrowed during the call.
typedef void (*task_play_upload_fn)(void *ctx, const struct wire_upload_record *upload);

struct task_play_options {
    const char *path;
    const struct wire_manifest *manifest; // borrowed until _free
    task_play_upload_fn upload;
    void *ctx;
};

struct task_play_stats {
    uint64_t events;
    uint64_t matches;
    uint64_t runs;
    uint64_t dropped; // matches that started nothing: more starts wait than a device keeps
};

struct task_play;

// INVALID: no event in the file; a version whose triggers no device takes; IO, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status task_play_new(const struct task_play_options *options,
                                              struct task_play **out, struct base_error *error);
void task_play_free(struct task_play *play); // accepts NULL
// Plays on to the next run and puts its events and features into `job`; they stay until
// task_play_ran. NOT_FOUND: everything was played. INVALID: a line is no event, `error` says which;
// TOO_LARGE: more events than one run takes, of a version without triggers.
BASE_NODISCARD enum base_status task_play_next(struct task_play *play, struct dev_vm_job *job,
                                               struct base_error *error);
// The input of the run that task_play_next prepared, as a task's process takes it
// (runner/runner_job.h); valid until task_play_ran. NOMEM, TOO_LARGE.
BASE_NODISCARD enum base_status task_play_input(struct task_play *play, const uint8_t **out_bytes,
                                                size_t *out_size);
// That run ended: what it stored and sent is done, if it ended well.
void task_play_ran(struct task_play *play, const struct dev_vm_result *result);
void task_play_stats(const struct task_play *play, struct task_play_stats *out);

#endif
