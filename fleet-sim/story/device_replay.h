// `walle-fleet-sim replay OUT --device N`: everything that one device of a run in virtual time did
// and was told. The run is played once more with the device's story written down
// (run/device_story.h), which is shown as a timeline or as JSON.
#ifndef SIM_DEVICE_REPLAY_H
#define SIM_DEVICE_REPLAY_H

#include "base/error.h"

#include <jansson.h>
#include <stdio.h>

// The story of a file as {"device", "events", "gateway"}, its versions named by `versions` of a
// run.json; NULL: they stay hashes. INVALID with the line, IO, NOMEM.
BASE_NODISCARD enum base_status sim_replay_read(const char *path, const json_t *versions,
                                                json_t **out_story, struct base_error *error);
// For people.
void sim_replay_print(const json_t *story, FILE *out);

// The exit status.
int sim_replay_main(int argc, char **argv, FILE *out);

#endif
