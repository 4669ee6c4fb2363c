// The seam between programs and the code that executes them. A backend turns commands into steps
// once (chooses a kernel, packs weights) and steps run many times.
//
// Backends: ref/ (portable C, every command, every type: the oracle and the fallback), cpu/ (the
// fast paths; refuses with UNSUPPORTED what it has no kernel for, and ref takes it), and cuda/,
// whose steps work on the memory of a device (run_device.h).
#ifndef ENG_BACKEND_BACKEND_H
#define ENG_BACKEND_BACKEND_H

#include "backend/pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/graph.h"
#include "program/program.h"

struct eng_pack_cache;
struct eng_model;
struct eng_kernels;        // cpu/kernels.h: the table of one instruction set
struct eng_search;         // search/search.h: choices measured before
struct eng_watch;          // backend/run_watch.h
struct eng_device;         // backend/run_device.h
struct eng_device_weights; // backend/device_weights.h

// How the loops of a product (or of a convolution done as one) are cut: what the search varies.
// Each changes one thing of what the sizes of the caches suggest.
enum eng_tuning {
    ENG_TUNING_USUAL,
    ENG_TUNING_ROWS,      // threads share the rows
    ENG_TUNING_COLUMNS,   // threads share the columns
    ENG_TUNING_ALONE,     // the session's thread does it all: no other is woken
    ENG_TUNING_K_HALF,    // blocks of K half as long
    ENG_TUNING_K_DOUBLE,  // twice as long
    ENG_TUNING_K_WHOLE,   // K in one piece
    ENG_TUNING_BAND_HALF, // half as many rows of A at a time
    ENG_TUNING_BAND_DOUBLE,
    ENG_TUNING_COPY,  // rows of A are copied first
    ENG_TUNING_PLACE, // rows of A are read where they lie
    ENG_TUNING_COUNT
};

// What preparing may use. Outlives the steps.
struct eng_prepare {
    struct base_arena *arena;          // the plan's lifetime
    struct eng_pack_cache *packs;      // the model's; NULL: pack into `arena`
    struct eng_model *model;           // gets pages of packed weights back; NULL: they stay
    const struct eng_kernels *kernels; // NULL: ref only
    struct eng_pool *pool;
    enum eng_precision precision;
    struct eng_search *search; // NULL: fixed choices
    enum eng_tuning tuning;
    size_t buffer_bytes_max;       // of activations, and of scratch; 0: ENG_BUFFER_BYTES_MAX
    const struct eng_watch *watch; // looked at from command to command; NULL: nobody stops planning
    struct eng_device *device;     // asked first; NULL: all is done in the host's memory
    struct eng_device_weights *weights; // the model's on that device; NULL where that is
    struct base_error *error;
};

// One run: where every tensor of the program lies now: on the device for its steps, else in the
// host's memory.
struct eng_run {
    void *const *data; // by tensor number; NULL for tensors nobody reads
    struct eng_pool *pool;
    void *scratch;                 // max over steps of scratch_bytes, 64-byte aligned
    const struct eng_watch *watch; // for steps whose inputs say how long they take; NULL: nobody's
    struct eng_device *device;     // of its steps; NULL for all others
    struct base_error *error;
};

// Of a tensor that a step may not have (ENG_NONE): NULL then.
static inline void *eng_run_data(const struct eng_run *run, uint32_t tensor)
{
    return tensor != ENG_NONE ? run->data[tensor] : NULL;
}

#define ENG_LOOSE_WEIGHTS 2u // input 1

struct eng_step;
// INVALID for contents out of range (gather indices), TIMEOUT where `watch` is looked at; nothing
// else fails at run time.
typedef enum base_status (*eng_step_fn)(const struct eng_step *step, const struct eng_run *run);

struct eng_step {
    eng_step_fn run;
    const struct eng_program *program;
    const struct eng_command *command;
    void *state;          // the backend's, in the plan's arena or the pack cache
    size_t scratch_bytes; // of the whole step (a backend multiplies by the pool's threads itself)
    uint32_t loose; // bit i: input i may lie at any address: packed and not read, or read byte-wise
    const char *kernel; // static name for traces: "conv.winograd4.avx512"
    bool alone;         // prepared without a pool, run without one
    bool on_device;     // begun on the device; what it wrote is there after eng_memory.sync
    uint64_t work;      // eng_command_work of the command
};
// Runs a step; where it is to run alone, without the pool.
BASE_NODISCARD static inline enum base_status eng_step_run(const struct eng_step *step,
                                                           const struct eng_run *run)
{
    if (!step->alone) {
        return step->run(step, run);
    }
    struct eng_run alone = *run;
    alone.pool = NULL;
    return step->run(step, &alone);
}

// UNSUPPORTED: not this backend. NOMEM.
typedef enum base_status (*eng_prepare_fn)(const struct eng_prepare *ctx,
                                           const struct eng_program *program,
                                           const struct eng_command *command,
                                           struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_ref_prepare(const struct eng_prepare *ctx,
                                                const struct eng_program *program,
                                                const struct eng_command *command,
                                                struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare(const struct eng_prepare *ctx,
                                                const struct eng_program *program,
                                                const struct eng_command *command,
                                                struct eng_step *out_step);

// Whether a backend has a kernel for that kind of command (it may still refuse some types).
bool eng_ref_takes(enum eng_atomic op);
bool eng_cpu_takes(enum eng_atomic op);

#endif
