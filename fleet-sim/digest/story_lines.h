// The story of one device of a run, as lines of a file: what run/device_story.h tells of where
// the device lives, and faults/ where a fault is met. A look from outside: nothing that a device
// does depends on it.
//
// device.jsonl, in the folder of the run's reports, has a JSON object a line:
//   {"what": "device", ...}    first: who it is
//   {"t_s": 12.345678, "what": ..., "text": ..., "manifest": ...}  what happened, in order
//   {"what": "gateway", ...}   last: what the gateway believes of it, and what is true
// `manifest` is there where a version is meant.
//
// Threads. A story is of one device, so it belongs to whoever runs that device's shard; beginning
// and end are the coordinator's, while no shard runs.
#ifndef SIM_STORY_LINES_H
#define SIM_STORY_LINES_H

#include "base/error.h"
#include "wire/digest.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define SIM_STORY_FILE       "device.jsonl"
#define SIM_STORY_EVENTS_MAX 1000000u // what is beyond is counted, and not written

struct sim_story {
    FILE *file;
    uint64_t index; // of the device in the population
    uint64_t start_us;
    uint64_t events;
    bool broken; // a line could not be written
};

// FOLDER/device.jsonl, anew. IO.
BASE_NODISCARD enum base_status sim_story_open(struct sim_story *story, const char *folder,
                                               struct base_error *error);
// One more line, without a time; takes `event`.
void sim_story_write(struct sim_story *story, json_t *event);
// IO: not all of it could be written.
enum base_status sim_story_close(struct sim_story *story, struct base_error *error);

struct sim_story_event {
    uint64_t now_us;
    const char *what;
    const struct wire_sha256 *manifest; // of the version that is meant; NULL: none is
};
void sim_story_tell(struct sim_story *story, const struct sim_story_event *event,
                    const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
