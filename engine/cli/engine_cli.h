// The pieces of the program `walle-engine`: its options, what its commands share, the commands.
#ifndef ENGINE_CLI_H
#define ENGINE_CLI_H

#include "base/arena.h"
#include "engine/engine.h"
#include "engine/train.h"
#include "model/graph.h"
#include "model/tensor_file.h"

#include <stdio.h>

enum eng_cli_exit { ENG_CLI_OK = 0, ENG_CLI_FAILED = 1, ENG_CLI_USAGE = 2 };

#define ENG_CLI_LIST_MAX    256u // repeated options and positional arguments
#define ENG_CLI_REPEAT_MAX  1000000u
#define ENG_CLI_NAMES_BYTES 400u
#define ENG_CLI_EPOCHS_MAX  1000000u
#define ENG_CLI_BATCH_MAX   65536u // examples of a step

// How far floats may be from what is expected: atol + rtol * |expected|.
struct eng_cli_tolerance {
    float rtol, atol;
};

// What is said of training.
struct eng_cli_train {
    const char *target, *weights; // files: what is right; where to begin
    const char *checkpoint;       // file: goes on from it, and keeps each epoch there
    enum eng_loss loss;
    enum eng_optimizer optimizer;
    float momentum;
    bool batch_statistics;
    const char *frozen[ENG_CLI_LIST_MAX], *trained[ENG_CLI_LIST_MAX]; // names of parameters
    uint32_t frozen_count, trained_count;
    uint32_t epochs, batch;
    float rate;
    bool decays; // the rate falls to 0, evenly
    uint64_t seed;
};

// What the command line says. Text points into argv.
struct eng_cli {
    const char *words[ENG_CLI_LIST_MAX]; // positional arguments after the command
    uint32_t word_count;
    const char *inputs[ENG_CLI_LIST_MAX]; // NAME=FILE or FILE.npz
    uint32_t input_count;
    const char *dims[ENG_CLI_LIST_MAX]; // NAME=N
    uint32_t dim_count;
    const char *skips[ENG_CLI_LIST_MAX]; // names of cases
    uint32_t skip_count;
    const char *output, *trace, *expected, *explain;
    uint64_t seed;
    uint32_t repeat, warmup, top; // repeat 0: not said
    bool is_random;               // inputs without a file are random
    bool onnx_cases, program, counts, help;
    bool is_verbose;
    struct eng_cli_tolerance tolerance;
    struct eng_session_options session;
    struct eng_cli_train train;
    struct base_arena arena; // lives as long as the command
};

struct eng_cli_command {
    const char *name;
    const char *arguments; // "MODEL"
    const char *summary;
    const char *examples; // lines
    const char *options;  // keys it takes, see engine_cli_main.c
    uint32_t words_min, words_max;
    int (*run)(struct eng_cli *cli);
};

// The commands; each returns an exit code and has printed why it failed.
int eng_cli_info(struct eng_cli *cli);
int eng_cli_run(struct eng_cli *cli);
int eng_cli_bench(struct eng_cli *cli);
int eng_cli_check(struct eng_cli *cli);
int eng_cli_cases(struct eng_cli *cli); // check --onnx-cases
int eng_cli_dump(struct eng_cli *cli);
int eng_cli_search(struct eng_cli *cli);
int eng_cli_train(struct eng_cli *cli);

// --- shared --------------------------------------------------------------------------------------
// Prints "walle-engine: what: text" and returns ENG_CLI_FAILED.
int eng_cli_complain(const char *what, const struct base_error *error);
// Wraps a model or session; prints the error itself. NULL: failed.
struct eng_model *eng_cli_model(const char *path, const struct eng_model_options *options);
struct eng_session *eng_cli_session(struct eng_model *model,
                                    const struct eng_session_options *options);
// Names for an error, each once: 'a', 'b' and others.
struct eng_cli_names {
    char text[ENG_CLI_NAMES_BYTES];
    size_t bytes;
    bool is_cut; // not all are in the text
};
void eng_cli_names_add(struct eng_cli_names *names, const char *name);
void eng_cli_names_print(const struct eng_cli_names *names, FILE *file);
// Sets every input of the session: from --input files, else random ones from the seed. Prints its
// errors.
BASE_NODISCARD enum base_status eng_cli_set_inputs(struct eng_cli *cli, struct eng_model *model,
                                                   struct eng_session *session);
// Sets input `index` from the items of a file.
BASE_NODISCARD enum base_status eng_cli_set_list(struct eng_session *session, size_t index,
                                                 const struct eng_tensor_list *list,
                                                 struct base_error *error);
// A session, and the model it is one of.
struct eng_cli_loaded {
    struct eng_model *model;
    struct eng_session *session;
};
// An output of the last run as a list (a sequence has its items, an empty optional none).
BASE_NODISCARD enum base_status eng_cli_output(struct eng_cli *cli,
                                               const struct eng_cli_loaded *loaded, size_t index,
                                               struct eng_tensor_list *out_list,
                                               struct base_error *error);

// --- times (engine_times.c) ----------------------------------------------------------------------
uint64_t eng_cli_now_ns(void); // monotonic
// Decimals of milliseconds that show three digits of a time, at least 3, at most 6.
int eng_cli_ms_digits(uint64_t ns);

// --- sizes of dimensions (engine_dims.c)
// ---------------------------------------------------------- NAME=N, with N up to ENG_ELEMENTS_MAX.
bool eng_cli_dim_is_valid(const char *dim);
bool eng_cli_dim_is_repeated(const struct eng_cli *cli, const char *dim);
// The number given for a symbolic dimension, or 1. NULL: it has no name.
int64_t eng_cli_dim(const struct eng_cli *cli, const char *name);
// Whether an input has each dimension that was given a number; prints the first that none has.
bool eng_cli_dims_are_known(const struct eng_cli *cli, const struct eng_model *model);

// --- comparison (engine_compare.c) ---------------------------------------------------------------
struct eng_cli_difference {
    bool is_equal;    // within tolerance; all else says how not
    int64_t at;       // first element out of tolerance, -1: type or shape differ
    int64_t wrong;    // elements out of tolerance
    double max_error; // largest |got - want| of numbers, over all elements
    double got, want; // at `at`
    char text[BASE_ERROR_TEXT_MAX];
};
// Compares `got` with the reference `want`: floats within the tolerance (NaN equals NaN),
// everything else exactly. values_too false compares type and shape alone.
void eng_cli_compare(const struct eng_array *got, const struct eng_array *want,
                     const struct eng_cli_tolerance *tolerance, bool values_too,
                     struct eng_cli_difference *out);

#endif
