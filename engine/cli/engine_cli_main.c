// Program `walle-engine`: finds the command in the table, parses its options with argp, runs it,
// and exits with its code: 0 done, 1 failed or results differ, 2 usage. One thread besides the
// session's pool.
#include "cli/engine_cli.h"
#include "cli/engine_train_keep.h"
#include "base/check.h"
#include "base/text/likeness.h"
#include "base/text/near_option.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"

#include "base/alloc.h"
#include "base/str.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_CHUNK    ((size_t)256 << 10)
#define DOC_BYTES      4096
#define TOLERANCE_R    1e-3f
#define TOLERANCE_A    1e-5f
#define WARMUP_DEFAULT 3u
#define TOP_DEFAULT    15u
#define MEMORY_MIB_MAX (UINT64_C(1) << 32)
#define EPOCHS_DEFAULT 10u
#define BATCH_DEFAULT  32u
#define RATE_DEFAULT   1e-3f

enum key {
    KEY_INPUT = 'i',
    KEY_DIM = 'd',
    KEY_RANDOM = 'r',
    KEY_THREADS = 't',
    KEY_MEMORY = 'm',
    KEY_PRECISION = 'p',
    KEY_ISA = 'a',
    KEY_DEVICE = 'D',
    KEY_OUTPUT = 'o',
    KEY_TRACE = 'T',
    KEY_REPEAT = 'n',
    KEY_WARMUP = 'w',
    KEY_TOP = 'k',
    KEY_EXPECTED = 'e',
    KEY_RTOL = 'R',
    KEY_ATOL = 'A',
    KEY_CASES = 'C',
    KEY_SKIP = 's',
    KEY_PROGRAM = 'P',
    KEY_EXPLAIN = 'E',
    KEY_CACHE = 'c',
    KEY_NO_MERGE = 'M',
    KEY_NO_FUSE = 'F',
    KEY_NO_SEARCH = 'S',
    KEY_COUNTS = 'N',
    KEY_VERBOSE = 'v',
    KEY_TARGET = 'y',
    KEY_LOSS = 'l',
    KEY_EPOCHS = 'x',
    KEY_BATCH = 'b',
    KEY_RATE = 'L',
    KEY_DECAY = 'K',
    KEY_WEIGHTS = 'W',
    KEY_OPTIMIZER = 'z',
    KEY_MOMENTUM = 'u',
    KEY_FREEZE = 'f',
    KEY_ONLY = 'j',
    KEY_BATCH_NORM = 'B',
    KEY_CHECKPOINT = 'q',
    KEY_SEED = 'g',
};

static const struct argp_option all_options[] = {
    {"input", KEY_INPUT, "NAME=FILE", 0,
     "an input from a .npy or .pb file, or FILE.npz with several", 0},
    {"dim", KEY_DIM, "NAME=N", 0, "size of a symbolic dimension for random inputs (otherwise 1)",
     0},
    {"random", KEY_RANDOM, "SEED", 0, "inputs without a file are random, from this seed", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of the session (1)", 0},
    {"memory", KEY_MEMORY, "MIB", 0,
     "for random inputs, for activations, and for constants, each (3/4 of the machine's)", 0},
    {"precision", KEY_PRECISION, "high|low", 0, "low: matrix products take bfloat16 inputs", 0},
    {"isa", KEY_ISA, "NAME", 0, "generic, avx2, avx512, amx, or ref: the plain reference", 0},
    {"device", KEY_DEVICE, "NAME", 0, "cpu, or cuda: a GPU", 0},
    {"output", KEY_OUTPUT, "FILE", 0,
     "writes the outputs (.npz, or .npy and .pb for one); train: the weights (.npz) "
     "or the model (.onnx)",
     0},
    {"trace", KEY_TRACE, "FILE", 0, "writes the last run as Chrome trace JSON", 0},
    {"repeat", KEY_REPEAT, "N", 0,
     "runs this many times (run: 1; bench: 20, or up to 1000 within 0.1 s)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "runs before measuring (3)", 0},
    {"top", KEY_TOP, "N", 0, "rows of the table of operators (15)", 0},
    {"expected", KEY_EXPECTED, "FILE.npz", 0, "reference outputs, and any other values, by name",
     0},
    {"rtol", KEY_RTOL, "X", 0, "relative tolerance of floats (1e-3)", 0},
    {"atol", KEY_ATOL, "X", 0, "absolute tolerance of floats (1e-5)", 0},
    {"onnx-cases", KEY_CASES, NULL, 0, "the arguments are folders of ONNX test cases: run them all",
     0},
    {"skip", KEY_SKIP, "NAME", 0, "a case not to run", 0},
    {"program", KEY_PROGRAM, NULL, 0, "the lowered and fused program instead of the graph", 0},
    {"explain", KEY_EXPLAIN, "FILE", OPTION_ARG_OPTIONAL,
     "the table of candidates to FILE (or here)", 0},
    {"cache", KEY_CACHE, "FILE", 0, "file of measured choices", 0},
    {"no-merge", KEY_NO_MERGE, NULL, 0, "raster merging off", 0},
    {"no-fuse", KEY_NO_FUSE, NULL, 0, "operator fusion off", 0},
    {"no-search", KEY_NO_SEARCH, NULL, 0, "fixed choices instead of measured ones", 0},
    {"counts", KEY_COUNTS, NULL, 0, "operators handled, and kernels of each backend", 0},
    {"verbose", KEY_VERBOSE, NULL, 0, "more lines", 0},
    {"target", KEY_TARGET, "FILE", 0, "what is right for each example (.npy or .pb)", 0},
    {"loss", KEY_LOSS, "NAME", 0,
     "cross-entropy of scores and class numbers or probabilities (default), mse, or bce", 0},
    {"epochs", KEY_EPOCHS, "N", 0, "times that all examples are seen (10)", 0},
    {"batch", KEY_BATCH, "N", 0, "examples of a step (32)", 0},
    {"optimizer", KEY_OPTIMIZER, "NAME", 0, "adam (default), or sgd", 0},
    {"momentum", KEY_MOMENTUM, "X", 0, "of sgd, 0 up to 1 (0)", 0},
    {"freeze", KEY_FREEZE, "NAME", 0, "a weight that stays, or NAME* for all that begin so", 0},
    {"only", KEY_ONLY, "NAME", 0, "the same of those that do not: all others stay", 0},
    {"batch-norm", KEY_BATCH_NORM, "frozen|train", 0,
     "train: normalises by the batch, and its running statistics move (frozen)", 0},
    {"checkpoint", KEY_CHECKPOINT, "FILE", 0,
     "keeps each epoch there, and goes on from it when it is there", 0},
    {"rate", KEY_RATE, "X", 0, "learning rate (1e-3)", 0},
    {"decay", KEY_DECAY, NULL, 0, "the rate falls evenly, to 0 behind the last epoch", 0},
    {"weights", KEY_WEIGHTS, "FILE.npz", 0, "begins with these instead of the model's", 0},
    {"seed", KEY_SEED, "N", 0, "of the order of the examples (0)", 0},
};
#define OPTION_COUNT (sizeof all_options / sizeof all_options[0])

#define SESSION_KEYS "idrtmpaDcMFS"
static const struct eng_cli_command commands[] = {
    {"info", "MODEL", "inputs, outputs, operators and size of a model",
     "  walle-engine info resnet18.onnx\n"
     "  walle-engine info --counts\n",
     "vN", 0, 1, eng_cli_info},
    {"run", "MODEL", "runs a model once (or N times)",
     "  walle-engine run net.onnx --input x=x.npy --output y.npz\n"
     "  walle-engine run net.onnx --random 1 --dim batch=4 --threads 2 --trace trace.json\n",
     SESSION_KEYS "oTnv", 1, 1, eng_cli_run},
    {"bench", "MODEL", "measures a model: median, p90, table of operators",
     "  walle-engine bench net.onnx --threads 2 --repeat 50\n"
     "  walle-engine bench net.onnx --isa avx2 --top 30\n",
     SESSION_KEYS "nwkT", 1, 1, eng_cli_bench},
    {"check", "MODEL|FOLDER...", "compares results with a reference and finds the first wrong node",
     "  walle-engine check net.onnx --input in.npz --expected out.npz\n"
     "  walle-engine check net.onnx --random 1      against the plain reference backend\n"
     "  walle-engine check test_conv_with_strides   a folder with model.onnx and test_data_set_0\n"
     "  walle-engine check --onnx-cases onnx/backend/test/data/node\n",
     SESSION_KEYS "eRACsv", 1, ENG_CLI_LIST_MAX, eng_cli_check},
    {"dump", "MODEL", "the graph as text, or the program made from it",
     "  walle-engine dump net.onnx\n"
     "  walle-engine dump net.onnx --program --dim batch=4\n",
     SESSION_KEYS "P", 1, 1, eng_cli_dump},
    {"search", "MODEL", "shows what the search for algorithms measured and chose",
     "  walle-engine search net.onnx --explain\n", SESSION_KEYS "E", 1, 1, eng_cli_search},
    {"train", "MODEL", "fits a model's weights to examples, and writes them",
     "  walle-engine train net.onnx --input x=x.npy --target classes.npy --output weights.npz\n"
     "  walle-engine train net.onnx --input x.npz --target y.npy --loss mse --epochs 50 --decay\n",
     "itaoylxbLKWgzufjBq", 1, 1, eng_cli_train},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

// --- options -------------------------------------------------------------------------------------

static error_t add_to_list(struct argp_state *state, const char **list, uint32_t *count,
                           const char *text)
{
    if (*count >= ENG_CLI_LIST_MAX) {
        argp_error(state, "more than %u of one kind", ENG_CLI_LIST_MAX);
        return EINVAL;
    }
    list[(*count)++] = text;
    return 0;
}

static error_t take_number(struct argp_state *state, const char *text, uint64_t max, uint64_t *out)
{
    if (base_str_u64(base_str_of(text), out) != BASE_OK || *out > max) {
        argp_error(state, "'%s' is not a number from 0 to %llu", text, (unsigned long long)max);
        return EINVAL;
    }
    return 0;
}

static error_t take_u32(struct argp_state *state, const char *text, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    error_t wrong = take_number(state, text, max, &number);
    *out = (uint32_t)number;
    return wrong;
}

static error_t take_tolerance(struct argp_state *state, const char *text, float *out)
{
    char *end = NULL;
    *out = strtof(text, &end);
    if (end == text || *end != '\0' || !(*out >= 0)) {
        argp_error(state, "'%s' is not a tolerance", text);
        return EINVAL;
    }
    return 0;
}

static error_t take_dim(struct argp_state *state, const char *text, struct eng_cli *cli)
{
    if (!eng_cli_dim_is_valid(text)) {
        argp_error(state, "--dim: '%s' is not NAME=N with N from 0 to %lld", text,
                   (long long)ENG_ELEMENTS_MAX);
        return EINVAL;
    }
    if (eng_cli_dim_is_repeated(cli, text)) {
        argp_error(state, "--dim: '%.*s' is there twice", (int)(strrchr(text, '=') - text), text);
        return EINVAL;
    }
    return add_to_list(state, cli->dims, &cli->dim_count, text);
}

static error_t take_precision(struct argp_state *state, const char *text, struct eng_cli *cli)
{
    if (strcmp(text, "high") != 0 && strcmp(text, "low") != 0) {
        argp_error(state, "precision is high or low, not '%s'", text);
        return EINVAL;
    }
    cli->session.precision = text[0] == 'l' ? ENG_PRECISION_LOW : ENG_PRECISION_HIGH;
    return 0;
}

static error_t take_memory(struct argp_state *state, const char *text, struct eng_cli *cli)
{
    uint64_t mib = 0;
    error_t wrong = take_number(state, text, MEMORY_MIB_MAX, &mib);
    if (wrong == 0 && mib == 0) {
        argp_error(state, "a session needs some memory");
        return EINVAL;
    }
    cli->session.memory_bytes_max = (size_t)mib << 20;
    return wrong;
}

// What goes beyond is an error that says so, before the kernel ends the program, or another one.
static size_t memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (size_t)pages / 4 * 3 * (size_t)page_bytes : 0;
}

static error_t take_session_option(int key, char *text, struct argp_state *state,
                                   struct eng_cli *cli)
{
    switch (key) {
    case KEY_THREADS:
        return take_u32(state, text, ENG_THREADS_MAX, &cli->session.threads);
    case KEY_MEMORY:
        return take_memory(state, text, cli);
    case KEY_PRECISION:
        return take_precision(state, text, cli);
    case KEY_ISA:
        cli->session.isa = text;
        return 0;
    case KEY_DEVICE:
        cli->session.device = text;
        return 0;
    case KEY_CACHE:
        cli->session.cache_path = text;
        return 0;
    case KEY_NO_MERGE:
        cli->session.no_merge = true;
        return 0;
    case KEY_NO_FUSE:
        cli->session.no_fuse = true;
        return 0;
    case KEY_NO_SEARCH:
        cli->session.no_search = true;
        return 0;
    default:
        base_assert(strchr(SESSION_KEYS, key) == NULL); // each of them has a case
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t take_loss(struct argp_state *state, const char *text, enum eng_loss *out)
{
    static const char *const names[] = {
        [ENG_LOSS_CROSS_ENTROPY] = "cross-entropy",
        [ENG_LOSS_MSE] = "mse",
        [ENG_LOSS_BCE] = "bce",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum eng_loss)i;
            return 0;
        }
    }
    argp_error(state, "--loss: cross-entropy, mse or bce, not '%s'", text);
    return EINVAL;
}

// How training goes: what is chosen among words, and names of weights.
static error_t take_train_choice(int key, char *text, struct argp_state *state,
                                 struct eng_cli_train *train)
{
    char *end = NULL;
    base_assert(text != NULL || strchr("zufjBq", key) == NULL);
    switch (key) {
    case KEY_OPTIMIZER:
        train->optimizer = strcmp(text, "sgd") == 0 ? ENG_OPTIMIZER_SGD : ENG_OPTIMIZER_ADAM;
        if (strcmp(text, "sgd") != 0 && strcmp(text, "adam") != 0) {
            argp_error(state, "--optimizer: adam or sgd, not '%s'", text);
        }
        return 0;
    case KEY_MOMENTUM:
        train->momentum = strtof(text, &end);
        if (end == text || *end != '\0' || !(train->momentum >= 0 && train->momentum < 1)) {
            argp_error(state, "--momentum: a number from 0 up to 1, not '%s'", text);
        }
        return 0;
    case KEY_FREEZE:
        return add_to_list(state, train->frozen, &train->frozen_count, text);
    case KEY_ONLY:
        return add_to_list(state, train->trained, &train->trained_count, text);
    case KEY_BATCH_NORM:
        train->batch_statistics = strcmp(text, "train") == 0;
        if (!train->batch_statistics && strcmp(text, "frozen") != 0) {
            argp_error(state, "--batch-norm: frozen or train, not '%s'", text);
        }
        return 0;
    case KEY_CHECKPOINT:
        train->checkpoint = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t take_train_option(int key, char *text, struct argp_state *state,
                                 struct eng_cli_train *train)
{
    error_t wrong = 0;
    char *end = NULL;
    base_assert(text != NULL || key == KEY_DECAY || strchr("lxbLWgy", key) == NULL);
    switch (key) {
    case KEY_TARGET:
        train->target = text;
        return 0;
    case KEY_LOSS:
        return take_loss(state, text, &train->loss);
    case KEY_EPOCHS:
        wrong = take_u32(state, text, ENG_CLI_EPOCHS_MAX, &train->epochs);
        break;
    case KEY_BATCH:
        wrong = take_u32(state, text, ENG_CLI_BATCH_MAX, &train->batch);
        break;
    case KEY_RATE:
        train->rate = strtof(text, &end);
        train->rate = end != text && *end == '\0' && isfinite(train->rate) ? train->rate : 0;
        break;
    case KEY_DECAY:
        train->decays = true;
        return 0;
    case KEY_WEIGHTS:
        train->weights = text;
        return 0;
    case KEY_SEED:
        return take_number(state, text, UINT64_MAX, &train->seed);
    default:
        return take_train_choice(key, text, state, train);
    }
    if (wrong == 0 && (train->epochs == 0 || train->batch == 0 || !(train->rate > 0))) {
        argp_error(state, "--epochs, --batch and --rate are numbers above 0, not '%s'", text);
        return EINVAL;
    }
    return wrong;
}

static error_t take_option(int key, char *text, struct argp_state *state, struct eng_cli *cli)
{
    base_assert(key != ARGP_KEY_ARG); // parse_one's
    switch (key) {
    case KEY_INPUT:
        return add_to_list(state, cli->inputs, &cli->input_count, text);
    case KEY_DIM:
        return take_dim(state, text, cli);
    case KEY_RANDOM:
        cli->is_random = true;
        return take_number(state, text, UINT64_MAX, &cli->seed);
    case KEY_OUTPUT:
        if (!eng_tensor_file_known(text) && !eng_cli_is_model(text)) {
            argp_error(state, "--output: %s ends in none of .npz, .npy and .pb", text);
        }
        cli->output = text;
        return 0;
    case KEY_TRACE:
        cli->trace = text;
        return 0;
    case KEY_REPEAT:
        return take_u32(state, text, ENG_CLI_REPEAT_MAX, &cli->repeat);
    case KEY_WARMUP:
        return take_u32(state, text, ENG_CLI_REPEAT_MAX, &cli->warmup);
    case KEY_TOP:
        return take_u32(state, text, ENG_CLI_REPEAT_MAX, &cli->top);
    case KEY_EXPECTED:
        cli->expected = text;
        return 0;
    case KEY_RTOL:
        return take_tolerance(state, text, &cli->tolerance.rtol);
    case KEY_ATOL:
        return take_tolerance(state, text, &cli->tolerance.atol);
    case KEY_SKIP:
        return add_to_list(state, cli->skips, &cli->skip_count, text);
    case KEY_CASES:
        cli->onnx_cases = true;
        return 0;
    case KEY_PROGRAM:
        cli->program = true;
        return 0;
    case KEY_EXPLAIN:
        cli->explain = text != NULL ? text : "-";
        return 0;
    case KEY_COUNTS:
        cli->counts = true;
        return 0;
    case KEY_VERBOSE:
        cli->is_verbose = true;
        return 0;
    default: {
        error_t taken = take_train_option(key, text, state, &cli->train);
        return taken == ARGP_ERR_UNKNOWN ? take_session_option(key, text, state, cli) : taken;
    }
    }
}

struct parse {
    struct eng_cli *cli;
    const struct eng_cli_command *command;
};

static error_t parse_one(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct eng_cli *cli = parse->cli;
    if (key == ARGP_KEY_ARG) {
        if (cli->word_count >= parse->command->words_max) {
            argp_error(state, "'%s' is one argument too many", text);
            return EINVAL;
        }
        return add_to_list(state, cli->words, &cli->word_count, text);
    }
    if (key == ARGP_KEY_END && cli->word_count < parse->command->words_min) {
        argp_error(state, "%s is missing", parse->command->arguments);
        return EINVAL;
    }
    if (key == KEY_OUTPUT && eng_cli_is_model(text) && parse->command->run != eng_cli_train) {
        argp_error(state, "--output: %s ends in none of .npz, .npy and .pb", text);
    }
    return take_option(key, text, state, cli);
}

static void parse_rest(const struct eng_cli_command *command, int argc, char **argv,
                       struct eng_cli *cli)
{
    static char doc[DOC_BYTES];
    static char program[64];
    struct argp_option options[OPTION_COUNT + 1] = {0};
    size_t count = 0;
    base_assert(command->words_min <= command->words_max && command->words_max <= ENG_CLI_LIST_MAX);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strchr(command->options, all_options[i].key) != NULL) {
            options[count++] = all_options[i];
        }
    }
    base_assert(count == strlen(command->options)); // each of its keys is an option
    (void)snprintf(doc, sizeof doc, "%s\vExamples:\n%s", command->summary, command->examples);
    (void)snprintf(program, sizeof program, "walle-engine %s", command->name);
    const struct argp argp = {options, parse_one, command->arguments, doc, NULL, NULL, NULL};
    struct parse parse = {.cli = cli, .command = command};
    argv[0] = program;
    program_invocation_name = program;
    program_invocation_short_name = program;
    argp_err_exit_status = ENG_CLI_USAGE;
    if (!base_options_known(options, argc, argv) ||
        argp_parse(&argp, argc, argv, 0, NULL, &parse) != 0) {
        exit(ENG_CLI_USAGE);
    }
}

// --- commands ------------------------------------------------------------------------------------

static void list_commands(FILE *file)
{
    fputs("usage: walle-engine COMMAND [OPTIONS] ARGUMENTS\n\n", file);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(file, "  %-7s %-16s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
    }
    fputs("\n'walle-engine COMMAND --help' shows the options and examples of one.\n"
          "Exit codes: 0 done; 1 failed, or results differ; 2 usage.\n",
          file);
}

static const struct eng_cli_command *find_command(int argc, char **argv)
{
    if (argc < 2) {
        list_commands(stderr);
        exit(ENG_CLI_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
        strcmp(argv[1], "help") == 0) {
        list_commands(stdout);
        exit(ENG_CLI_OK);
    }
    struct base_nearest meant = base_nearest_to(base_str_of(argv[1]));
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return &commands[i];
        }
        base_nearest_offer(&meant, commands[i].name);
    }
    base_assert(meant.found == NULL || strcmp(meant.found, argv[1]) != 0);
    fprintf(stderr, "walle-engine: no command '%s'%s%s%s\n", argv[1],
            meant.found != NULL ? "; did you mean " : "", meant.found != NULL ? meant.found : "",
            meant.found != NULL ? "?" : "");
    list_commands(stderr);
    exit(ENG_CLI_USAGE);
}

int main(int argc, char **argv)
{
    base_process_start(ENG_CLI_FAILED);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-engine")) {
        return ENG_CLI_OK;
    }
    static struct eng_cli cli = {
        .tolerance = {.rtol = TOLERANCE_R, .atol = TOLERANCE_A},
        .repeat = 0,
        .warmup = WARMUP_DEFAULT,
        .top = TOP_DEFAULT,
        .train = {.optimizer = ENG_OPTIMIZER_ADAM,
                  .epochs = EPOCHS_DEFAULT,
                  .batch = BATCH_DEFAULT,
                  .rate = RATE_DEFAULT},
    };
    const struct eng_cli_command *command = find_command(argc, argv);
    cli.session.memory_bytes_max = memory_default();
    parse_rest(command, argc - 1, argv + 1, &cli);
    base_assert(cli.word_count >= command->words_min && cli.word_count <= command->words_max);
    base_arena_init(&cli.arena, base_alloc_heap(), ARENA_CHUNK, 0);
    int code = command->run(&cli);
    base_arena_done(&cli.arena);
    return code;
}
