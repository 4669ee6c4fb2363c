// How far a shadow's result may be off, as JSON: {"absolute", "relative", "fields": {NAME:
// {"absolute", "relative"}}}. Both ways: parsed from the body of a rollout, and shown in its view.
#ifndef GW_TOLERANCE_BODY_H
#define GW_TOLERANCE_BODY_H

#include "api/api_json.h"
#include "policy/rollout.h"

// The member "tolerance" of a stage. INVALID with the field's path.
BASE_NODISCARD enum base_status
gw_tolerance_parse(const struct gw_json_at *at, struct pol_stage *stage, struct base_error *error);
// Null without one. NULL when memory ran out.
json_t *gw_tolerance_view(const struct pol_stage *stage);

#endif
