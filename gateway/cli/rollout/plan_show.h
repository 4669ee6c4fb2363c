// A plan on the terminal: the stages with their gates, and whom they would reach.
#ifndef PLAN_SHOW_H
#define PLAN_SHOW_H

#include <jansson.h>

// Stages of ladder_stages: what each asks for and does, and the guard behind the last one.
void plan_show_stages(const json_t *stages);
// What the gateway answered to POST rollouts/preview about these stages.
void plan_show_preview(const json_t *preview, const json_t *stages);

#endif
