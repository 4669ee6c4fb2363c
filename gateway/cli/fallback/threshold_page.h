// The page of a threshold: accuracy over the share that is sent, with intervals, and the choice.
#ifndef THRESHOLD_PAGE_H
#define THRESHOLD_PAGE_H

#include "base/error.h"
#include "policy/fallback/fallback.h"

#define THRESHOLD_TEXT_MAX 200

struct threshold_choice {
    const struct pol_cuts *cuts;
    size_t index;                    // the cut that was chosen; POL_CUTS: none
    double alpha;                    // of the choice, and of all intervals together
    double target;                   // the accuracy that is wanted; NAN: none is
    const char *from;                // the file of scores
    char aim[THRESHOLD_TEXT_MAX];    // what was asked for
    char answer[THRESHOLD_TEXT_MAX]; // what came of it
};

// Writes the page whole or not at all (base/os/output_file.h, whose errors these are).
BASE_NODISCARD enum base_status threshold_page_write(const struct threshold_choice *choice,
                                                     const char *path, struct base_error *error);

#endif
