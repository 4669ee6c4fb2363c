// What the gate of a simulate stage will make of evidence, asked before anything is made: the stage
// goes by the devices that the evidence counts, and by its own limits.
#ifndef EVIDENCE_GATE_H
#define EVIDENCE_GATE_H

#include "cli/base/cli.h"

#include <jansson.h>

// `stages` of a rollout; `evidence`: a body of POST rollouts/{id}/simulation, or NULL; `would`: of
// a dry run. Says on standard error why the stage would not pass. REFUSED: fewer devices completed
// than it asks for, so that it would wait; FAILED: more failed than may. OK too where the gateway
// has more to say: there is no simulate stage first, or that is no evidence.
enum cli_exit evidence_gate_check(const json_t *stages, const json_t *evidence, bool would);
// Says on standard error where the stage passes though the simulator calls its run failed: it looks
// at what devices send, too.
void evidence_gate_differs(const json_t *stages, const json_t *evidence);
// The share that may fail, in parts per million.
uint32_t evidence_gate_limit(const json_t *stage);

#endif
