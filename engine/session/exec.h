// A program made ready to run: every command a step of a backend, every tensor a place in memory.
//
// Lifetime: a plan (one segment of a session, or a trainer's step). The program and its arena must
// outlive it. Preparing happens on the planning thread; running allocates nothing.
#ifndef ENG_SESSION_EXEC_H
#define ENG_SESSION_EXEC_H

#include "backend/backend.h"
#include "model/graph.h"
#include "backend/run_watch.h"

#define ENG_BUFFER_BYTES_MAX ((size_t)64 << 30) // activations of one program

// How long one step of the last run took.
struct eng_event {
    uint64_t begin_us;
    uint64_t duration_us;
};

struct eng_exec {
    const struct eng_program *program;
    struct eng_step *steps; // one per command, same order
    uint32_t step_count;
    void **data;       // by tensor; the caller fills in INPUT and PARAM before each run
    uint32_t *aliases; // tensors that share the bytes of an INPUT or PARAM
    uint32_t alias_count;
    uint8_t *buffer;
    size_t buffer_bytes;     // TEMP tensors, without scratch
    size_t activation_bytes; // the same without reuse
    void *scratch;
    size_t scratch_bytes;
    struct eng_exec_device *device; // session/exec_device.h; NULL: the host's memory alone
};

// What one run needs besides the program.
struct eng_exec_run {
    struct eng_pool *pool;
    const struct eng_graph *graph; // names nodes in errors; NULL: they stay unnamed
    struct eng_watch *watch;       // NULL: nothing ends the run
    struct eng_event *events;      // step_count of them, NULL: not timed
    struct base_error *error;
};

// Prepares every command: the device first when ctx->device is set, the fast backend when
// ctx->kernels is, then the reference; and lays the tensors out. `exec` is zeroed first. NOMEM;
// TOO_LARGE: over ENG_BUFFER_BYTES_MAX; UNSUPPORTED: a command no backend takes.
BASE_NODISCARD enum base_status eng_exec_init(struct eng_exec *exec,
                                              const struct eng_program *program,
                                              const struct eng_prepare *ctx);
// TIMEOUT, or what a step returned.
BASE_NODISCARD enum base_status eng_exec_run(const struct eng_exec *exec,
                                             const struct eng_exec_run *run);
void eng_exec_done(struct eng_exec *exec); // accepts a zeroed one

// Bytes that a program may take for activations, and for scratch.
size_t eng_exec_buffer_limit(const struct eng_prepare *ctx);
// A step's failure, with the node it belongs to in front of the text.
BASE_NODISCARD enum base_status eng_exec_name_failure(const struct eng_step *step,
                                                      const struct eng_exec_run *run,
                                                      enum base_status status);

// One command's step from whichever backend takes it. UNSUPPORTED names the command. Float
// constants may lie at any address (model/graph.h, ENG_LOOSE_BYTES_MIN): backends see aligned ones
// meanwhile.
BASE_NODISCARD enum base_status eng_exec_step(const struct eng_prepare *ctx,
                                              const struct eng_program *program,
                                              const struct eng_command *command,
                                              struct eng_step *out_step);

#endif
