// A plan on the terminal: the stages with their gates, and whom they would reach.
#ifndef PLAN_SHOW_H
#define PLAN_SHOW_H

#include "policy/fallback/fallback_gate.h"

#include <jansson.h>
#include <stdio.h>

// Stages of ladder_stages: what each asks for and does, and the guard behind the last one.
void plan_show_stages(const json_t *stages);
// A line of what a stage asks of decisions between device and cloud, `before` at its start; nothing
// where it asks nothing.
void plan_show_cloud(FILE *file, const struct pol_fallback_limits *limits, const char *before);
// What the gateway answered to POST rollouts/preview about these stages.
void plan_show_preview(const json_t *preview, const json_t *stages);

#endif
