// Where the tensors a program computes lie in one buffer: tensors that are not needed at the same
// time share bytes.
//
// A tensor lives from the command that writes it to the last one that reads it (through any alias);
// outputs of the program live to its end. An elementwise command may write over an operand it reads
// element by element and nobody needs afterwards. Offsets are multiples of ENG_PLAN_ALIGNMENT.
#ifndef ENG_PROGRAM_PLAN_MEMORY_H
#define ENG_PROGRAM_PLAN_MEMORY_H

#include "program/program.h"

#define ENG_PLAN_ALIGNMENT   64u
#define ENG_PLAN_TENSORS_MAX 4096u // more than that are placed by a faster, less thrifty rule
#define ENG_PLAN_NOWHERE     SIZE_MAX

struct eng_memory_plan {
    size_t *offsets; // by tensor; NOWHERE: no TEMP, an alias, or written by no command
    size_t total_bytes;
    size_t unshared_bytes; // what the tensors take when each has a place of its own
};

// The plan lies in `arena`. NOMEM. TOO_LARGE: over `limit_bytes`.
BASE_NODISCARD enum base_status eng_program_plan_memory(const struct eng_program *program,
                                                        struct base_arena *arena,
                                                        size_t limit_bytes,
                                                        struct eng_memory_plan *out_plan);

#endif
