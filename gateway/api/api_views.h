// Views of the core as JSON. Each function returns a new reference, NULL when memory ran out.
#ifndef GW_API_VIEWS_H
#define GW_API_VIEWS_H

#include "svc/device/devices.h"
#include "svc/view/floored.h"
#include "svc/view/present.h"
#include "svc/rollout/kill_list.h"
#include "svc/access/operators.h"
#include "svc/rollout/rollouts.h"
#include "svc/view/why.h"

#include <jansson.h>

json_t *gw_view_time(uint64_t wall_us); // ISO 8601
// Text that came from outside may be cut inside a character: what is not UTF-8 becomes "?".
json_t *gw_view_text(const char *text);
json_t *gw_view_token(struct gw_core *core, const struct gw_token_view *view);
json_t *gw_view_task(const struct gw_task_view *view);
json_t *gw_view_floored(const struct gw_floored *view); // null without devices
json_t *gw_view_present(const struct gw_present *view); // null without rollouts
json_t *gw_view_version(const struct gw_version_view *view);
// `version` is the semantic version's text, NULL when not known.
// As evidence of a simulation names it; null when it is too long for that.
json_t *gw_view_target(const struct pol_target *target);
json_t *gw_view_rollout(const struct gw_rollout_view *view, const char *version);
json_t *gw_view_outcomes(const struct pol_outcomes *outcomes); // offered, failed, succeeded
// Names of segments, as far as they are known.
struct gw_view_names {
    uint32_t count;
    struct gw_quarantined items[GW_SEGMENT_NAMES_MAX];
};
json_t *gw_view_log(const struct gw_rollout_log_view *view, const struct gw_view_names *names);
json_t *gw_view_kill(const struct gw_kill_view *view);
json_t *gw_view_device(const struct gw_device_view *view);
json_t *gw_view_why(const struct gw_why_view *view);
// `task` NULL when not known; `detail` what its last failure said, empty: nothing.
json_t *gw_view_outcome(const struct gw_device_outcome *outcome, const char *task,
                        const char *detail);

#endif
