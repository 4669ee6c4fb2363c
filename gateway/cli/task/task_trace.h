// The calls that led to a failure, with the text of each line, as CPython shows them. A device
// keeps file, line and function alone (dev_vm_result.stack); the text comes from the copies of its
// scripts that a build holds beside the version, in BUILD/sources. One thread; text of scripts
// cannot move the terminal's cursor.
#ifndef TASK_TRACE_H
#define TASK_TRACE_H

#include "base/error.h"
#include "cli/task/task_source.h"

#include <jansson.h>
#include <stdio.h>

#define TASK_TRACE_FIRST    8u  // calls shown of a long stack, the innermost
#define TASK_TRACE_LAST     4u  // ... and the outermost
#define TASK_TRACE_TEXT_MAX 160 // bytes shown of a line
#define TASK_TRACE_FILE_MAX 96
#define TASK_TRACE_CALL_MAX 64

// A call of a stack.
struct task_trace_call {
    char file[TASK_TRACE_FILE_MAX];
    uint32_t line;
    char function[TASK_TRACE_CALL_MAX]; // empty: not known
};

// Writes the copies into the build: the source's scripts under their names. Those of an earlier
// build there that it does not have stay. IO, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status task_trace_keep(const char *build, const struct task_source *source,
                                                struct base_error *error);

// Takes a call "file.py:3 in name" or "file.py:3". False: it is none.
bool task_trace_call_parse(struct base_str text, struct task_trace_call *out);
// The text of a call's line, without the space around it. False: the build has none.
bool task_trace_text(const char *build, const struct task_trace_call *call,
                     char out[TASK_TRACE_TEXT_MAX + 1]);
// Prints a stack, a call a line and the innermost first, as "Traceback (most recent call last):"
// with the outermost first; of a long one its middle is left out. `build` NULL: no text is at hand.
void task_trace_print(FILE *out, const char *build, const char *stack);
// The same as JSON, all of it: a list of {"file", "line", "in", "text"}; `text` null: not at hand.
json_t *task_trace_json(const char *build, const char *stack);

#endif
