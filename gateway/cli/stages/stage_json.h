// A stage's JSON (of a stages file, or of the gateway's answer) as the policy's stage, as far as
// gates, replays and power need it.
#ifndef STAGE_JSON_H
#define STAGE_JSON_H

#include "policy/rollout.h"

#include <jansson.h>

// Kind, share, gate, control band, approval, rate, what verdicts do; the rest stays zero. What is
// missing takes the gateway's defaults.
void stage_json_read(const json_t *json, struct pol_stage *out);
// Index of `text` among `count` names, or `fallback`.
unsigned stage_json_name(const char *text, unsigned count, const char *(*name)(unsigned index),
                         unsigned fallback);

#endif
