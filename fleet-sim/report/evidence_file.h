// The signed evidence of a run of `simulate`, as a file for people and for `walle rollout`.
//
// JSON: "evidence" is the envelope (wire/trust/run_evidence.h), base64url: that is what counts.
// "says" is the same in words, for people.
#ifndef SIM_EVIDENCE_FILE_H
#define SIM_EVIDENCE_FILE_H

#include "report/run_result.h"

// Signs what the run came to with the key in options->evidence_key, and writes options->evidence.
// INVALID: the key, or a run that did not go to its end; IO, NOMEM, TOO_LARGE; what and where in
// `error`.
BASE_NODISCARD enum base_status sim_evidence_write(const struct sim_run_result *result,
                                                   const struct wire_manifest *manifest,
                                                   struct base_error *error);

#endif
