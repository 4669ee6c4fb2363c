// What behaviour came to, for programs (a part of run.json), for people (a section of the report)
// and for the terminal.
#ifndef SIM_BEHAVIOUR_REPORT_H
#define SIM_BEHAVIOUR_REPORT_H

#include "report/run_result.h"

#include <jansson.h>

json_t *sim_behaviour_json(const struct sim_run_result *result); // null: nobody behaved
void sim_behaviour_section(const struct sim_run_result *result, FILE *file);
// Lines of the summary, and a warning for each trigger that never fired.
void sim_behaviour_print(const struct sim_run_result *result, FILE *file);

#endif
