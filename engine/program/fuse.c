// Runs the fusion passes in their order. Called between lowering and preparing, by sessions
// (session/segment.c) and by the trainer (train/train_plan.c, after gradients were made), on the
// planning thread. Patterns come before epilogues and those before expressions, since each takes
// what the next would break up; epilogues run twice, as an expression may become one. Each pass has
// an index of its own in scratch memory. The sweep of dead commands is never left out.
#include "program/fuse.h"

#include "base/alloc.h"
#include "base/check.h"
#include "program/fuse_index.h"

#define SCRATCH_CHUNK_BYTES ((size_t)64 << 10)

enum pass { PASS_SWEEP, PASS_PATTERNS, PASS_EPILOGUES, PASS_EXPRESSIONS, PASS_CHAINS };

static enum base_status run_pass(struct eng_program *program, enum pass pass,
                                 struct base_arena *scratch)
{
    base_assert((unsigned)pass <= PASS_CHAINS);
    struct eng_fuse fuse;
    base_arena_reset(scratch);
    BASE_TRY(eng_fuse_init(&fuse, program, scratch));
    switch (pass) {
    case PASS_SWEEP:
        eng_fuse_sweep(&fuse);
        break;
    case PASS_PATTERNS:
        BASE_TRY(eng_fuse_norms(&fuse));
        BASE_TRY(eng_fuse_attention(&fuse));
        break;
    case PASS_EPILOGUES:
        BASE_TRY(eng_fuse_epilogues(&fuse));
        break;
    case PASS_EXPRESSIONS:
        BASE_TRY(eng_fuse_expressions(&fuse));
        break;
    case PASS_CHAINS:
        BASE_TRY(eng_fuse_chains(&fuse, ENG_CHAIN_BYTES_MIN));
        break;
    }
    eng_fuse_finish(&fuse);
    return BASE_OK;
}

enum base_status eng_program_optimise(struct eng_program *program,
                                      const struct eng_optimise_options *options,
                                      struct base_error *error)
{
    static const enum pass passes[] = {PASS_SWEEP,       PASS_PATTERNS,  PASS_EPILOGUES,
                                       PASS_EXPRESSIONS, PASS_EPILOGUES, PASS_CHAINS};
    struct base_arena scratch;
    base_arena_init(&scratch, base_alloc_heap(), SCRATCH_CHUNK_BYTES, 0);
    enum base_status status = BASE_OK;
    const struct eng_optimise_options all = {0};
    options = options != NULL ? options : &all;
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]) && status == BASE_OK; i++) {
        const bool is_left_out = passes[i] == PASS_CHAINS && options->no_chains;
        if (passes[i] == PASS_SWEEP || !(options->no_fuse || is_left_out)) {
            status = run_pass(program, passes[i], &scratch);
        }
    }
    base_arena_done(&scratch);
    if (status != BASE_OK) {
        return base_error_set(error, status, "out of memory while fusing operators");
    }
    return BASE_OK;
}
