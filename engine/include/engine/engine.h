// The tensor engine: runs ONNX models (opsets 7 to 22) on this machine.
//
// Lifetimes, longest first:
//   model    the file, parsed, with its weights (memory-mapped or copied) and everything sessions
//   may share:
//            folded and packed weights. Counted; immutable after load, safe from any thread.
//   session  one plan of a model for given input shapes: buffers, thread pool, chosen algorithms.
//            One thread at a time; many sessions of one model may run at once on many threads.
//   run      one execution. Outputs stay valid until the next run, resize or free of the session.
//
// Usage:
//     struct eng_model *model;
//     eng_model_load("model.onnx", NULL, &model, &error);
//     eng_session_new(model, &(struct eng_session_options){.threads = 2}, &session, &error);
//     eng_session_set_input(session, 0, &array, &error);   // shape of the array decides the plan
//     eng_session_run(session, NULL, &error);
//     eng_session_output(session, 0, &result, &error);
//
// Errors: functions return a status and fill `error` (NULL allowed) with a text that names the
// node, the operator, its opset and the reason. Nothing prints, exits or aborts.
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/error.h"
#include "base/ports.h"
#include "engine/tensor.h"

struct eng_model;
struct eng_session;

// What a load, a plan or a run may do; looked at between its steps.
struct eng_run_options {
    uint64_t deadline_us;      // monotonic microseconds (base_clock_mono_us); 0: none
    const _Atomic(bool) *stop; // set by any thread: the run ends; NULL: none
    uint64_t work_max;         // multiplications of products, elements read and written by all else
                               // (eng_session_stats.run_work); 0: no limit. Of a run alone
};

struct eng_model_options {
    const char *external_folder; // where external data files lie; NULL: the model file's folder
    size_t file_bytes_max;       // 0: ENG_MODEL_BYTES_MAX
    bool keep_batch_norm;        // do not fold BatchNormalization into what comes before it
    bool allow_unknown;          // unknown operators are refused when a session plans, not here
    bool copy_files; // read, not mapped: what happens to the files later changes nothing
    const struct eng_run_options *limits; // of the load; NULL: none. Borrowed during the call
};

#define ENG_MODEL_BYTES_MAX ((size_t)16 << 30)
#define ENG_NAME_BYTES_MAX  1024 // longer names of nodes and values are refused

// Reads a model file (memory-mapped unless copy_files; external data too; a mapped file must not be
// cut short while the model lives). The caller owns one reference.
// IO: file cannot be read. INVALID/TRUNCATED: not an ONNX model, or a broken one. TOO_LARGE: over a
// limit. UNSUPPORTED: an IR version outside 3..8 or opset outside 1..17 (of opsets below 7 only
// operators that mean the same in opset 7 are read). TIMEOUT: the limits ended it. NOMEM.
// An operator the engine does not know is reported here as well (unless allow_unknown):
// UNSUPPORTED, naming it.
BASE_NODISCARD enum base_status eng_model_load(const char *path,
                                               const struct eng_model_options *options,
                                               struct eng_model **out_model,
                                               struct base_error *error);
// The same from bytes that must stay valid and unchanged until the last reference is gone.
BASE_NODISCARD enum base_status eng_model_load_memory(const void *bytes, size_t size,
                                                      const struct eng_model_options *options,
                                                      struct eng_model **out_model,
                                                      struct base_error *error);
struct eng_model *eng_model_ref(struct eng_model *model);
void eng_model_unref(struct eng_model *model); // accepts NULL

// One graph input or output as the file declares it. Borrowed, valid as long as the model.
struct eng_port_info {
    const char *name;
    struct eng_desc desc;                // -1: symbolic or not declared
    const char *dim_names[ENG_RANK_MAX]; // name of a symbolic dimension ("batch"), else NULL
    bool has_shape;                      // false: only the type is declared
};
size_t eng_model_input_count(const struct eng_model *model); // without initializers
size_t eng_model_output_count(const struct eng_model *model);
const struct eng_port_info *eng_model_input(const struct eng_model *model, size_t index);
const struct eng_port_info *eng_model_output(const struct eng_model *model, size_t index);
// Index by name, or -1.
int64_t eng_model_input_index(const struct eng_model *model, const char *name);
int64_t eng_model_output_index(const struct eng_model *model, const char *name);

enum eng_precision {
    ENG_PRECISION_HIGH, // float32 throughout
    ENG_PRECISION_LOW,  // matrix-bound operators take bfloat16 inputs and accumulate in float32
};

struct eng_session_options {
    uint32_t threads; // 0: 1. At most ENG_THREADS_MAX
    enum eng_precision precision;
    const char *isa;    // "generic", "avx2", "avx512", "amx", "ref" (the oracle, no fast kernels);
                        // NULL: WALLE_ENGINE_ISA of the environment, else the best there is
    const char *device; // "cpu", or "cuda": the program runs on a GPU and what has no kernel there
                        // on the host; NULL: WALLE_ENGINE_DEVICE of the environment, else "cpu"
    const char *cache_path; // file of measured choices; NULL: WALLE_ENGINE_CACHE, else no file
    bool no_merge;          // raster merging off: for measurement
    bool no_fuse;           // operator fusion off: for measurement and bisection
    bool no_search;         // fixed choices instead of the measured best
    bool keep_values;       // every value of the graph can be read after a run (eng_session_value)
    bool trace;             // record per-operator times (eng_session_trace)
    bool one_piece;         // refuse to plan a graph that contents or control flow cut
    const char *const *values; // names of values of the main graph that are outputs too, behind the
                               // model's: of this session alone. Borrowed during eng_session_new
    uint32_t value_count;      // at most ENG_ASKED_MAX
    size_t memory_bytes_max; // of all activations, and of one plan's program with constants, each;
                             // 0: the engine's own limits
    const char *explain; // when set: a file that receives the search's table as text ("-": stdout)
};
#define ENG_THREADS_MAX 64
#define ENG_ASKED_MAX   1024 // values that a session is asked for beside the outputs

// A session without a plan: the first run (or eng_session_prepare) plans for the input shapes set.
// INVALID: an option. NOT_FOUND: the device is not here, with the reason; or the graph has no value
// of a name in `values`: the text has a near one. CONFLICT: one of them is there in a model that is
// loaded with keep_batch_norm alone. UNSUPPORTED: nothing that the model gives needs it. NOMEM.
BASE_NODISCARD enum base_status eng_session_new(struct eng_model *model,
                                                const struct eng_session_options *options,
                                                struct eng_session **out_session,
                                                struct base_error *error);
void eng_session_free(struct eng_session *session); // accepts NULL

// Copies `array` into input `index`. A shape other than the last one drops the plan (resize).
// INVALID: wrong type, rank or a dimension the model fixes. NOT_FOUND: no such input.
BASE_NODISCARD enum base_status eng_session_set_input(struct eng_session *session, size_t index,
                                                      const struct eng_array *array,
                                                      struct base_error *error);
// Declares a shape without data, so that eng_session_prepare can plan before the first input comes.
BASE_NODISCARD enum base_status eng_session_resize(struct eng_session *session, size_t index,
                                                   const struct eng_desc *desc,
                                                   struct base_error *error);
// Where input `index` lies, to be written in place instead of copied; valid until the next resize.
BASE_NODISCARD enum base_status eng_session_input(struct eng_session *session, size_t index,
                                                  struct eng_array *out_array,
                                                  struct base_error *error);
// Plans now: shapes, decomposition, merging, fusion, search, memory, packed weights. Run does it
// when needed.
BASE_NODISCARD enum base_status eng_session_prepare(struct eng_session *session,
                                                    struct base_error *error);
// The same within limits (NULL: none). TIMEOUT: they ended it, and there is no plan.
BASE_NODISCARD enum base_status eng_session_prepare_within(struct eng_session *session,
                                                           const struct eng_run_options *limits,
                                                           struct base_error *error);

// TIMEOUT: the deadline passed, the run was stopped, or its next command would be over work_max;
// outputs are undefined, the session stays usable.
BASE_NODISCARD enum base_status eng_session_run(struct eng_session *session,
                                                const struct eng_run_options *options,
                                                struct base_error *error);
// Result of the last run: of one of the model's outputs or, numbered on behind them, of
// options.values. One that is a sequence or an empty optional: UNSUPPORTED here, use
// eng_session_output_item. Borrowed until the next run, resize or free.
BASE_NODISCARD enum base_status eng_session_output(struct eng_session *session, size_t index,
                                                   struct eng_array *out_array,
                                                   struct base_error *error);
// Type and shape of an output as the plan has it; before a run, too. CONFLICT: nothing planned
// makes it. NOT_FOUND, UNSUPPORTED: as eng_session_output.
BASE_NODISCARD enum base_status eng_session_output_desc(const struct eng_session *session,
                                                        size_t index, struct eng_desc *out_desc,
                                                        struct base_error *error);
// Items of a sequence output. A tensor output counts 1, an empty optional 0.
size_t eng_session_output_items(const struct eng_session *session, size_t index);
BASE_NODISCARD enum base_status eng_session_output_item(struct eng_session *session, size_t index,
                                                        size_t item, struct eng_array *out_array,
                                                        struct base_error *error);
// Sequence input: its items, copied. An optional input without value: count 0.
BASE_NODISCARD enum base_status eng_session_set_sequence(struct eng_session *session, size_t index,
                                                         const struct eng_array *items,
                                                         size_t count, struct base_error *error);
// Any value of the main graph by its name after a run with keep_values. NOT_FOUND: no such value,
// or it was never computed.
BASE_NODISCARD enum base_status eng_session_value(struct eng_session *session, const char *name,
                                                  struct eng_array *out_array,
                                                  struct base_error *error);

struct eng_session_stats {
    size_t arena_bytes;      // planned buffer of activations
    size_t activation_bytes; // the same without reuse: what the plan saved is the difference
    size_t plan_bytes;       // programs with constants and steps, and the copies of inputs
    size_t packed_bytes;    // packed weights this session uses (shared ones counted once per model)
    uint32_t node_count;    // nodes of the graph
    uint32_t command_count; // atomic commands and rasters in the plan
    uint32_t raster_count;  // of those, rasters
    uint32_t segment_count; // 1: a session in one piece; more: split by contents or control flow
    uint64_t plan_us;       // time of the last planning, search included
    uint64_t search_us;     // of that, measuring candidates
    uint64_t run_work;   // of the last run, in the units of eng_run_options.work_max. Hangs on the
                         // model, the shapes and (where contents decide what is run) the contents
                         // alone: the same on every machine
    bool by_contents;    // the plan hangs on contents, not on shapes alone: others are planned anew
    char isa[16];        // what runs on the host
    const char *device;  // static: "cpu", "cuda"
    size_t device_bytes; // of a device: buffers, constants, and the model's weights
    uint32_t left_to_host; // commands the device has no kernel for; each costs copies
    uint64_t replays; // runs of a plan on the device that were begun at once, as it was recorded
};
void eng_session_stats(const struct eng_session *session, struct eng_session_stats *out_stats);

// Writes the trace of the last run as Chrome trace JSON. CONFLICT: the session does not trace. IO.
BASE_NODISCARD enum base_status eng_session_trace(const struct eng_session *session,
                                                  const char *path, struct base_error *error);

// What the engine can do, for documentation and tests.
struct eng_operator_info {
    const char *domain;
    const char *name;
    const char *kind; // "atomic", "transform", "composite", "control"
    int32_t opset_min;
    int32_t opset_max;
};
size_t eng_operator_count(void);
const struct eng_operator_info *eng_operator(size_t index); // NULL past the end
size_t eng_atomic_count(void);             // kinds of atomic commands, raster not counted
const char *eng_atomic_name(size_t index); // NULL past the end

#endif
