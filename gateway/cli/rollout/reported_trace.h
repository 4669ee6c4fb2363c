// Failures that devices reported, with the text of each line: a device says file and line alone
// ("ZeroDivisionError: divide by zero (more.py:2 < task.py:5)"), the build that it runs has the
// rest (--build). One thread.
#ifndef REPORTED_TRACE_H
#define REPORTED_TRACE_H

#include "base/error.h"

#include <jansson.h>
#include <stdio.h>

// Is the build in this folder the version with this manifest? Text of another one's lines would be
// wrong. `manifest`: 64 hex digits, as the API has it. INVALID: it is not; IO.
BASE_NODISCARD enum base_status reported_trace_check(const char *build, const char *manifest,
                                                     struct base_error *error);
// The same by name and version, which is what a device's history has.
bool reported_trace_fits(const char *build, const char *task, const char *version);
// Prints the calls that stand behind a reported failure; nothing where it names none.
void reported_trace_print(FILE *out, const char *build, const char *detail);
// ... of every way to fail that a rollout has, each behind what it is; puts them into `rollout`,
// too, as "traceback" of its "fingerprints".
void reported_trace_rollout(FILE *out, const char *build, json_t *rollout);

#endif
