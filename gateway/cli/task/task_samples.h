// What a task is tried with when it is built: "samples" of task.json, a list of
//
//   {"events": FILE}   recorded events, as of `walle task run --events`; a run for each match
//   {"input": FILE}    as of --input
//   "attrs": FILE, "give": {NAME: PATH}, "user": NAME    beside either, as of these options
//
// Paths are relative to the task's folder. Samples are no part of a version: a device never gets
// them, and a version's hash does not hang on them. Pure; who runs them is task_dry_run.h.
#ifndef TASK_SAMPLES_H
#define TASK_SAMPLES_H

#include "cli/task/task_source.h"

#define TASK_SAMPLES_MAX      64
#define TASK_SAMPLE_GIVEN_MAX 16 // files of one

struct task_sample {
    char label[96];                    // "samples[0] (visits.jsonl)"
    char events[TASK_SOURCE_PATH_MAX]; // these three: empty: none
    char input[TASK_SOURCE_PATH_MAX];
    char attrs[TASK_SOURCE_PATH_MAX];
    char give[TASK_SAMPLE_GIVEN_MAX * TASK_SOURCE_PATH_MAX]; // as of --give, one a line
    const char *user;                                        // borrowed from the list; may be NULL
};

// Is the document's "samples" a list that can be tried? INVALID; `error` names the sample.
// `confined`: paths must stay inside the folder.
BASE_NODISCARD enum base_status task_samples_check(const json_t *document, bool confined,
                                                   struct base_error *error);
// One of a list that passed. INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status task_sample_take(const char *folder, const json_t *samples,
                                                 size_t index, struct task_sample *out,
                                                 struct base_error *error);

#endif
