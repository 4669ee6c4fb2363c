// Labelled scores of a small and a big model, from a file of comma-separated values.
//
// The first line names the columns, in any order; others are left alone:
//   confidence               of the small model, 0 to 1
//   device_right,cloud_right 1 or 0, true or false: whose answer is right
//   or device,cloud,label    what both said and what is right, compared as texts
// A field has no comma, quote or NUL; spaces around it are not part of it. Empty lines are nothing.
#ifndef SCORES_FILE_H
#define SCORES_FILE_H

#include "base/error.h"
#include "policy/fallback/fallback.h"

#include <stdio.h>

#define SCORES_LINE_MAX    4096
#define SCORES_COLUMNS_MAX 64
#define SCORES_MAX         (UINT64_C(1) << 32) // lines

// Reads all of `file` into *out_cuts, summed. `error` names the line. IO; INVALID: no such columns,
// a field that is none, or no line of scores; TOO_LARGE: a limit.
BASE_NODISCARD enum base_status scores_read(FILE *file, struct pol_cuts *out_cuts,
                                            struct base_error *error);
// The same of a file by its name. Besides: NOT_FOUND, NOMEM; INVALID: no regular file.
BASE_NODISCARD enum base_status scores_file_read(const char *path, struct pol_cuts *out_cuts,
                                                 struct base_error *error);

#endif
