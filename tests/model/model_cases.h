// Fixed sequences: every case of the table in docs/RELEASES.md, and what was wrong once.
#ifndef MODEL_CASES_H
#define MODEL_CASES_H

#include <stdbool.h>

// Plays all, or those whose name contains `only` (NULL: all). Says what failed. False: something
// did, or none has that name.
bool model_cases_play(const char *home, const char *only, bool verbose);

#endif
