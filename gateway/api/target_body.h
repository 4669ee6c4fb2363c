// Targets in bodies of the operator API: who a rollout or a stage is for.
//
// Either a list of conditions ([{"attr": "os", "op": "==", "value": "ios"}]) or a text of the
// targeting language ("os == \"ios\""); an empty list or nothing is everybody.
#ifndef GW_TARGET_BODY_H
#define GW_TARGET_BODY_H

#include "api/api_json.h"
#include "policy/bucket.h"
#include "policy/target.h"

#define GW_API_OPERAND_TEXT_MAX 128u

// The target at `key`, in `arena` and borrowed from the document. INVALID with the field's path,
// and line and column inside an expression, in `error`; TOO_LARGE; NOMEM.
BASE_NODISCARD enum base_status gw_target_parse(const struct gw_json_at *at, const char *key,
                                                struct base_arena *arena, struct pol_target *out,
                                                struct base_error *error);
// "arm": {"salt", "from", "to"}, which devices of the target are meant when the rollout is an arm
// of an experiment; nothing is all of them. INVALID.
BASE_NODISCARD enum base_status gw_arm_parse(const struct gw_json_at *root, struct pol_arm *out,
                                             struct base_error *error);

#endif
