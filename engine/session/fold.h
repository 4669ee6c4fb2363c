// Runs small programs at once while a graph is lowered: constant folding and the bodies of loops.
//
// Lifetime: the session's (or the trainer's). One thread.
#ifndef ENG_SESSION_FOLD_H
#define ENG_SESSION_FOLD_H

#include "backend/backend.h"
#include "base/arena.h"
#include "backend/run_watch.h"
#include "lower/lower.h"

struct eng_fold {
    const struct eng_kernels *kernels; // NULL: reference only
    struct eng_pool *pool;
    enum eng_precision precision;
    const struct eng_watch *watch; // what a caller sets for the time of a run; NULL: none
    uint64_t work;                 // done since the caller set it to 0 (eng_command_work)
    struct base_arena arena;
    void *scratch;
    size_t scratch_bytes;
};

void eng_fold_init(struct eng_fold *fold, const struct eng_kernels *kernels, struct eng_pool *pool);
void eng_fold_done(struct eng_fold *fold); // accepts a zeroed one

// As eng_lower_options.run_program: `ctx` is the struct eng_fold. Every input of `program` must be
// CONST. TIMEOUT; INVALID: a step refused its contents.
BASE_NODISCARD enum base_status eng_fold_run(void *ctx, struct eng_program *program,
                                             const struct eng_contents *wanted,
                                             struct base_error *error);

#endif
