// A build that is made beside what its folder holds: it takes the earlier one's place when it is
// whole and was tried, and until then the earlier one stays as it was. One thread.
#ifndef BUILD_STAGE_H
#define BUILD_STAGE_H

#include "base/error.h"
#include "cli/base/cli_json.h"

#include <stdbool.h>

#define BUILD_STAGE_PREFIX ".build-" // of the folder in BUILD that the new one is made in

// Zero-initialise.
struct build_stage {
    const char *folder;      // BUILD
    char made[CLI_PATH_MAX]; // where to make it; empty: not open
    bool own;                // BUILD was made here
};

// Makes BUILD, if need be, and a folder in it. IO, TOO_LARGE; `error` says where.
BASE_NODISCARD enum base_status build_stage_open(struct build_stage *stage, const char *folder,
                                                 struct base_error *error);
// Moves all of it to its place, the manifest last. INVALID: what is no plain file, or no folder,
// stands there; IO, TOO_LARGE.
BASE_NODISCARD enum base_status build_stage_put(struct build_stage *stage,
                                                struct base_error *error);
// Removes what was not put, and BUILD too where that leaves a folder that was made for it empty.
void build_stage_done(struct build_stage *stage);

#endif
