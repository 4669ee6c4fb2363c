// How a stage is conducted, as JSON: gate, rate, windows, timeouts, retries, approval. Both ways:
// parsed from the body of a rollout, and shown in its view.
#ifndef GW_STAGE_BODY_H
#define GW_STAGE_BODY_H

#include "api/api_json.h"
#include "policy/rollout.h"

// Who is in the stage: kind, max_bucket and audience of *stage. INVALID with the field's path,
// TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status gw_stage_reach_parse(const struct gw_json_at *at,
                                                     struct base_arena *arena,
                                                     struct pol_stage *stage,
                                                     struct base_error *error);
// Fills all of *stage but kind, max_bucket and audience, which must be set; guard_s is
// GW_STAGE_DEFAULT_S when nothing is said of it. INVALID with the field's path.
BASE_NODISCARD enum base_status
gw_stage_body_parse(const struct gw_json_at *at, struct pol_stage *stage, struct base_error *error);
// The same members as a new object; NULL when memory ran out.
json_t *gw_stage_body_view(const struct pol_stage *stage);

#endif
