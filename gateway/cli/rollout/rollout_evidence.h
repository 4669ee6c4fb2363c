// Evidence for the simulate stage of a rollout: as a file says that was written by `walle-fleet-sim
// simulate --evidence`, or of a simulation that is run here and now.
#ifndef ROLLOUT_EVIDENCE_H
#define ROLLOUT_EVIDENCE_H

#include "cli/base/cli.h"

#include <jansson.h>

#define ROLLOUT_EVIDENCE_DEVICES     1000u // simulated at least
#define ROLLOUT_EVIDENCE_DEVICES_MAX 100000u

// The body of POST rollouts/{id}/simulation of the file at `path`; *out_body is the caller's.
enum cli_exit rollout_evidence_load(const char *path, json_t **out_body);
// The same for a rollout of `stages` to `target`: of --evidence; else of a simulation of --build,
// signed with the first --key, with progress on standard error. *out_body NULL: there is no
// simulate stage first, or nothing to simulate with: no walle-fleet-sim beside this program or in
// PATH, no --build, no key that the gateway would believe, nobody it knows is targeted.
enum cli_exit rollout_evidence_get(const struct cli *cli, const json_t *stages,
                                   const json_t *target, json_t **out_body);

#endif
