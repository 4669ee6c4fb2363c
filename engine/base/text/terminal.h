// The guard of a program's standard output and error: what strangers wrote does not steer the
// operator's terminal.
//
// A program calls base_terminal_guard first of all in main. From then on whatever goes to stdout
// and stderr, through printf and all the others, is shown as base/visible.h says; so no place that
// prints can be forgotten. Sequences of the program's own go through base_terminal_control alone.
// `stdout` and `stderr` have no descriptor of their own any more: STDOUT_FILENO does.
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>

// Puts the guard in front of stdout and stderr. Before any thread and any output; once.
void base_terminal_guard(void);
// Writes a text from outside into a line: its line feeds and tabs are written out, too. Serves any
// stream.
void base_terminal_text(FILE *file, struct base_str text);
// Writes a control sequence of the program's own, as it is.
void base_terminal_control(FILE *file, const char *sequence);
// Whether what is written to `file` arrives at a terminal.
bool base_terminal_is(FILE *file);

#endif
