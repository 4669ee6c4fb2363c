// Lines of the files that people write for a run: populations, scenarios, traces of arrivals.
//
// One thing a line. Spaces around it do not count, nor what follows a # at the line's start or
// after a space; empty lines are passed over. What is wrong is said with the file and the line.
#ifndef SIM_PEOPLE_LINES_H
#define SIM_PEOPLE_LINES_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PEOPLE_FILE_MAX (4u * 1024 * 1024)

struct sim_lines {
    const char *name; // of the file, for errors
    struct base_str rest;
    uint32_t number; // of the line that was read last, from 1
};

void sim_lines_begin(struct sim_lines *lines, const char *name, struct base_str text);
// The next line that holds something; it points into the text. False: there is none.
bool sim_lines_next(struct sim_lines *lines, struct base_str *out_line);
// "FILE:LINE: what": INVALID.
enum base_status sim_lines_refuse(const struct sim_lines *lines, struct base_error *error,
                                  const char *what);
// The next word of a line, which is taken off its front; empty at the end.
struct base_str sim_line_word(struct base_str *line);
// What stands before `mark`, and what after; both without spaces around them. False: no mark.
bool sim_line_split(struct base_str line, char mark, struct base_str *out_before,
                    struct base_str *out_after);

#endif
