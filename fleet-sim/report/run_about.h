// What a report is about: when it was made, of which release, where, and by which program.
#ifndef SIM_RUN_ABOUT_H
#define SIM_RUN_ABOUT_H

#include "model/versions.h"

#define SIM_ABOUT_DATE_MAX    24  // "2026-11-23T22:46:20Z"
#define SIM_ABOUT_MACHINE_MAX 320 // name, system, processors, memory

struct sim_options;

struct sim_about {
    char began[SIM_ABOUT_DATE_MAX]; // UTC, RFC 3339
    char ended[SIM_ABOUT_DATE_MAX];
    char task[WIRE_TASK_NAME_MAX + 1];  // empty: of none
    char version[SIM_LABEL_MAX];        // likewise
    char manifest[WIRE_SHA256_HEX + 1]; // hash, hex; empty: no version was met
    char machine[SIM_ABOUT_MACHINE_MAX];
};

// `version` is the one that the report explains, NULL when none was met; `task` names the task
// then, or is empty. The run ended just now, and took `duration_s` of this machine's time.
void sim_about_fill(const struct sim_version *version, const char *task, double duration_s,
                    struct sim_about *out);

#endif
