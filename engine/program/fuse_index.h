// Who makes and who reads each tensor of a program: what the fusion passes work on.
//
// Tensors are looked up by the one that owns the bytes (aliases resolved). Removing a command keeps
// the index right; commands are taken out of the program at the end (eng_fuse_finish). Lives in
// scratch memory for the time of one pass.
#ifndef ENG_PROGRAM_FUSE_INDEX_H
#define ENG_PROGRAM_FUSE_INDEX_H

#include "model/graph.h"
#include "program/program.h"

struct eng_fuse {
    struct eng_program *program;
    struct base_arena *scratch;
    uint32_t *producer; // by tensor: command, ENG_NONE for tensors no command makes
    uint32_t *uses;     // by tensor: how often commands read it, one more when it must last
    uint32_t *first;    // by tensor: its reading commands are readers[first[t]..first[t + 1])
    uint32_t *readers;
    bool *gone;     // by command: removed
    uint32_t *list; // room for removals in progress
};

// NOMEM.
BASE_NODISCARD enum base_status eng_fuse_init(struct eng_fuse *fuse, struct eng_program *program,
                                              struct base_arena *scratch);
// The tensor whose bytes these are.
uint32_t eng_fuse_root(const struct eng_fuse *fuse, uint32_t tensor);
// The command that makes the tensor, NULL when none does.
struct eng_command *eng_fuse_producer(const struct eng_fuse *fuse, uint32_t tensor);
// The number of the only command that reads the tensor, once; ENG_NONE when there are others, or
// none, or when the tensor must last.
uint32_t eng_fuse_only_reader(const struct eng_fuse *fuse, uint32_t tensor);
// Removes a command and whatever nobody needs any more because of that.
void eng_fuse_remove(struct eng_fuse *fuse, uint32_t command);
// Removes every command none of whose outputs is needed.
void eng_fuse_sweep(struct eng_fuse *fuse);
// The output of command `at` is computed in another way from now on: `with` takes its place (and
// its outputs), and what only the old one needed is removed.
void eng_fuse_replace(struct eng_fuse *fuse, uint32_t at, const struct eng_command *with);
// Closes the gaps that removed commands left.
void eng_fuse_finish(struct eng_fuse *fuse);

// The value of a float32 operand that is one constant everywhere (BINARY and SELECT commands).
bool eng_fuse_constant(const struct eng_fuse *fuse, const struct eng_command *command,
                       uint32_t input, float *out);
// Whether the command is BINARY `fn` on float32.
bool eng_fuse_is_binary(const struct eng_fuse *fuse, const struct eng_command *command,
                        enum eng_binary_fn fn);
bool eng_fuse_is_unary(const struct eng_fuse *fuse, const struct eng_command *command,
                       enum eng_unary_fn fn);
bool eng_fuse_is_f32(const struct eng_fuse *fuse, uint32_t tensor);
int64_t eng_fuse_count(const struct eng_fuse *fuse, uint32_t tensor); // elements

#endif
