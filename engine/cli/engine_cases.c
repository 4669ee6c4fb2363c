// `walle-engine check --onnx-cases`: the ONNX project's test cases. A case is a folder with
// model.onnx and folders test_data_set_N of input_K.pb and output_K.pb.
//
// Counts passed, amended, unsupported (the engine refuses the model, naming why) and failed; prints
// a line for each case that did not pass. Cases whose results are random by nature are compared by
// type and shape. Amended are cases whose data contradict their model: see `amendments`.
#include "cli/engine_cli.h"

#include "base/alloc.h"
#include "base/check.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES    4096u
#define CASES_MAX     100000u
#define DATA_SETS_MAX 64u
#define ARENA_CHUNK   ((size_t)64 << 10)

enum outcome { PASSED, AMENDED, UNSUPPORTED, FAILED, OUTCOME_COUNT };

// Cases whose data contradict their model. Such a case is run as it is; when its results differ, it
// is run once more, amended, and must pass then. Either the data were made with an attribute that
// the model leaves out and whose default is another value: it is set on every node of the operator.
// Or they wrap around where the operator saturates: results at the ends of their type, of integers
// of 8 bits, are not compared.
struct amendment {
    const char *name;
    const char *op, *attribute; // NULL: the data wrap around
    float value;
};
static const struct amendment amendments[] = {
    // Made with the epsilon of the case `test_adam`; the operator's default is 1e-6.
    {"test_adam_multiple", "Adam", "epsilon", 1e-2F},
    {"test_qlinearmatmul_2D_int8_float16", NULL, NULL, 0},
    {"test_qlinearmatmul_2D_int8_float32", NULL, NULL, 0},
    {"test_qlinearmatmul_3D_int8_float16", NULL, NULL, 0},
    {"test_qlinearmatmul_3D_int8_float32", NULL, NULL, 0},
};

struct one_case {
    struct eng_cli *cli;
    const char *path;
    const struct amendment *amendment; // NULL: as the file has it
    struct eng_cli scratch;            // its arena lives as long as the case
    struct eng_model *model;
    struct eng_session *session;
    bool is_random;
    struct base_error error;
};

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

// --- random results ------------------------------------------------------------------------------

static bool is_random_op(const char *op)
{
    static const char *const names[] = {"RandomUniform",    "RandomNormal", "RandomUniformLike",
                                        "RandomNormalLike", "Bernoulli",    "Multinomial"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(op, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

// The contents of a node's input where they are a graph input of this case or an initializer.
static bool input_number(const struct one_case *one_case, uint32_t value, double *out)
{
    const struct eng_graph *graph = one_case->model->graph;
    base_assert(value < graph->value_count);
    const void *data = graph->values[value].data;
    struct eng_array array = {graph->values[value].desc, (void *)(uintptr_t)data};
    for (uint32_t i = 0; i < graph->input_count && data == NULL; i++) {
        if (graph->inputs[i] == value &&
            eng_session_input(one_case->session, i, &array, NULL) == BASE_OK) {
            data = array.data;
        }
    }
    if (data == NULL || eng_desc_count(&array.desc) != 1) {
        return false;
    }
    if (array.desc.dtype == ENG_BOOL) {
        *out = *(const uint8_t *)data;
        return true;
    }
    *out = array.desc.dtype == ENG_F32 ? (double)*(const float *)data : 1;
    return true;
}

// Dropout drops at random only in training mode and with a ratio other than 0.
static bool is_random_dropout(const struct one_case *one_case, const struct eng_node *node)
{
    double ratio = 0.5;
    double training = 0;
    if (strcmp(node->op, "Dropout") != 0 || node->input_count < 3 || node->inputs[2] == ENG_NONE ||
        !input_number(one_case, node->inputs[2], &training)) {
        return false;
    }
    if (node->inputs[1] != ENG_NONE) {
        (void)input_number(one_case, node->inputs[1], &ratio);
    }
    return training != 0 && ratio != 0;
}

static bool has_random_results(const struct one_case *one_case)
{
    const struct eng_graph *graph = one_case->model->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (is_random_op(graph->nodes[n].op) || is_random_dropout(one_case, &graph->nodes[n])) {
            return true;
        }
    }
    return false;
}

// Test data keeps bfloat16 as the 16-bit integers of the same bits; the model says what they are.
// A few models declare another shape for an input than its data has: there the data decide.
static void read_as_declared(const struct one_case *one_case, uint32_t value,
                             struct eng_tensor_list *list)
{
    base_assert(value < one_case->model->graph->value_count);
    struct eng_value *declared = &one_case->model->graph->values[value];
    for (uint32_t i = 0; i < list->count; i++) {
        struct eng_desc *desc = &list->arrays[i].desc;
        if (desc->dtype == ENG_U16 && declared->desc.dtype == ENG_BF16) {
            desc->dtype = ENG_BF16;
        }
        bool fits = declared->desc.rank == desc->rank;
        for (uint32_t d = 0; fits && d < desc->rank; d++) {
            fits = declared->desc.dims[d] < 0 || declared->desc.dims[d] == desc->dims[d];
        }
        declared->has_shape = declared->has_shape && fits; // this model is the case's alone
    }
}

// --- one case ------------------------------------------------------------------------------------

static enum base_status set_inputs(struct one_case *one_case, const char *folder)
{
    const struct eng_graph *graph = one_case->model->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/input_%u.pb", folder, i);
        struct eng_tensor_list list;
        BASE_TRY(eng_tensor_file_read(path, graph->values[graph->inputs[i]].type,
                                      &one_case->scratch.arena, &list, &one_case->error));
        read_as_declared(one_case, graph->inputs[i], &list);
        BASE_TRY(eng_cli_set_list(one_case->session, i, &list, &one_case->error));
    }
    return BASE_OK;
}

// Takes over from `want` what saturated in `got`, both int8 of one shape.
static enum base_status skip_saturated(struct one_case *one_case, struct eng_array *got,
                                       const struct eng_array *want)
{
    if (one_case->amendment == NULL || one_case->amendment->attribute != NULL ||
        got->desc.dtype != ENG_I8 || !eng_desc_equal(&got->desc, &want->desc)) {
        return BASE_OK;
    }
    size_t count = eng_desc_bytes(&got->desc);
    int8_t *copy = base_arena_copy(&one_case->scratch.arena, got->data, count);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        bool at_end = copy[i] == INT8_MIN || copy[i] == INT8_MAX;
        copy[i] = at_end ? ((const int8_t *)want->data)[i] : copy[i];
    }
    got->data = copy;
    return BASE_OK;
}

static enum base_status compare_output(struct one_case *one_case, const char *folder,
                                       uint32_t index)
{
    const struct eng_graph *graph = one_case->model->graph;
    const char *name = graph->values[graph->outputs[index]].name;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/output_%u.pb", folder, index);
    struct eng_tensor_list want;
    struct eng_tensor_list got;
    BASE_TRY(eng_tensor_file_read(path, graph->values[graph->outputs[index]].type,
                                  &one_case->scratch.arena, &want, &one_case->error));
    read_as_declared(one_case, graph->outputs[index], &want);
    const struct eng_cli_loaded loaded = {one_case->model, one_case->session};
    BASE_TRY(eng_cli_output(&one_case->scratch, &loaded, index, &got, &one_case->error));
    if (got.count != want.count) {
        return base_error_set(&one_case->error, BASE_ERR_INVALID,
                              "output '%s' has %u items, expected %u", name, got.count, want.count);
    }
    base_assert(got.count == 0 || (got.arrays != NULL && want.arrays != NULL));
    for (uint32_t i = 0; i < got.count; i++) {
        struct eng_cli_difference difference;
        BASE_TRY(skip_saturated(one_case, &got.arrays[i], &want.arrays[i]));
        eng_cli_compare(&got.arrays[i], &want.arrays[i], &one_case->cli->tolerance,
                        !one_case->is_random, &difference);
        if (!difference.is_equal) {
            return base_error_set(&one_case->error, BASE_ERR_INVALID, "output '%s' %s", name,
                                  difference.text);
        }
    }
    return BASE_OK;
}

static enum outcome run_data_set(struct one_case *one_case, const char *folder)
{
    if (set_inputs(one_case, folder) != BASE_OK) {
        return FAILED;
    }
    one_case->is_random = has_random_results(one_case);
    enum base_status status = eng_session_run(one_case->session, NULL, &one_case->error);
    if (status != BASE_OK) {
        return status == BASE_ERR_UNSUPPORTED ? UNSUPPORTED : FAILED;
    }
    for (uint32_t i = 0; i < one_case->model->graph->output_count; i++) {
        if (compare_output(one_case, folder, i) != BASE_OK) {
            return FAILED;
        }
    }
    return PASSED;
}

static enum outcome run_loaded(struct one_case *one_case)
{
    enum outcome outcome = PASSED;
    uint32_t sets = 0;
    while (outcome == PASSED && sets < DATA_SETS_MAX) {
        char folder[PATH_BYTES];
        (void)snprintf(folder, sizeof folder, "%s/test_data_set_%u", one_case->path, sets);
        if (!exists(folder)) {
            break;
        }
        outcome = run_data_set(one_case, folder);
        sets++;
    }
    if (sets == 0) {
        (void)base_error_set(&one_case->error, BASE_ERR_NOT_FOUND, "has no test_data_set_0");
        return FAILED;
    }
    return outcome;
}

// Sets the attribute on every node of the operator; INVALID when a node has it already.
static enum base_status amend(struct one_case *one_case)
{
    const struct amendment *a = one_case->amendment;
    base_assert(a != NULL && (a->op == NULL) == (a->attribute == NULL));
    struct eng_graph *graph = one_case->model->graph;
    for (uint32_t n = 0; n < graph->node_count && a->attribute != NULL; n++) {
        struct eng_node *node = &graph->nodes[n]; // this model is the case's alone
        if (strcmp(node->op, a->op) != 0) {
            continue;
        }
        if (eng_node_attr(node, a->attribute) != NULL) {
            return eng_node_error(node, &one_case->error, BASE_ERR_INVALID, "has %s already",
                                  a->attribute);
        }
        struct eng_attr *attrs =
            base_arena_alloc(&one_case->scratch.arena, (node->attr_count + 1u) * sizeof *attrs);
        if (attrs == NULL) {
            return BASE_ERR_NOMEM;
        }
        if (node->attr_count > 0) {
            memcpy(attrs, node->attrs, node->attr_count * sizeof *attrs);
        }
        attrs[node->attr_count] =
            (struct eng_attr){.name = a->attribute, .kind = ENG_ATTR_FLOAT, .u.f = a->value};
        node->attrs = attrs;
        node->attr_count++;
    }
    return BASE_OK;
}

static enum outcome run_once(struct eng_cli *cli, const char *path,
                             const struct amendment *amendment, struct one_case *one_case)
{
    *one_case = (struct one_case){.cli = cli, .path = path, .amendment = amendment};
    base_arena_init(&one_case->scratch.arena, base_alloc_heap(), ARENA_CHUNK, 0);
    char file[PATH_BYTES];
    (void)snprintf(file, sizeof file, "%s/model.onnx", path);
    enum base_status status = eng_model_load(file, NULL, &one_case->model, &one_case->error);
    if (status == BASE_OK && amendment != NULL) {
        status = amend(one_case);
    }
    if (status == BASE_OK) {
        status =
            eng_session_new(one_case->model, &cli->session, &one_case->session, &one_case->error);
    }
    enum outcome outcome = status == BASE_OK                ? run_loaded(one_case)
                           : status == BASE_ERR_UNSUPPORTED ? UNSUPPORTED
                                                            : FAILED;
    if (status != BASE_OK && one_case->error.text[0] == '\0') {
        (void)base_error_set(&one_case->error, status, "%s", base_status_text(status));
    }
    eng_session_free(one_case->session);
    eng_model_unref(one_case->model);
    base_arena_done(&one_case->scratch.arena);
    base_assert(outcome != AMENDED); // run_case's to say
    return outcome;
}

// --- all cases -----------------------------------------------------------------------------------

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Cases below a folder, sorted; the folder itself when it is one. Arena memory; NULL: none.
static const char **list_cases(struct eng_cli *cli, const char *folder, size_t *out_count)
{
    const char **paths = base_arena_alloc(&cli->arena, CASES_MAX * sizeof *paths);
    char path[PATH_BYTES];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (paths != NULL && exists(path)) {
        paths[0] = folder;
        *out_count = 1;
        return paths;
    }
    DIR *dir = paths != NULL ? opendir(folder) : NULL;
    if (dir == NULL) {
        return NULL;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && count < CASES_MAX;
         entry = readdir(dir)) {
        int length = snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entry->d_name);
        if (entry->d_name[0] == '.' || (size_t)length >= sizeof path || !exists(path)) {
            continue;
        }
        paths[count] = base_arena_text(&cli->arena, path, strlen(path) - strlen("/model.onnx"));
        if (paths[count] != NULL) {
            count++;
        }
    }
    (void)closedir(dir);
    if (count > 0) {
        qsort(paths, count, sizeof *paths, by_name);
    }
    base_assert(count < 2 || by_name(&paths[0], &paths[count - 1]) <= 0);
    *out_count = count;
    return paths;
}

static bool is_skipped(const struct eng_cli *cli, const char *name)
{
    for (uint32_t i = 0; i < cli->skip_count; i++) {
        if (strcmp(cli->skips[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static enum outcome run_case(struct eng_cli *cli, const char *path, struct one_case *one_case)
{
    enum outcome outcome = run_once(cli, path, NULL, one_case);
    for (size_t i = 0; i < sizeof amendments / sizeof amendments[0] && outcome == FAILED; i++) {
        if (strcmp(amendments[i].name, name_of(path)) == 0) {
            printf("as given %s: %s\n", amendments[i].name, one_case->error.text);
            outcome = run_once(cli, path, &amendments[i], one_case);
            return outcome == PASSED ? AMENDED : outcome;
        }
    }
    return outcome;
}

static int run_folder(struct eng_cli *cli, const char *folder)
{
    static const char *const outcomes[] = {"passed", "amended", "unsupported", "failed"};
    size_t counts[OUTCOME_COUNT] = {0};
    size_t random_count = 0;
    size_t skipped = 0;
    size_t count = 0;
    const char **paths = list_cases(cli, folder, &count);
    if (paths == NULL || count == 0) {
        fprintf(stderr, "walle-engine: %s: no cases (folders with a model.onnx) there\n", folder);
        return ENG_CLI_FAILED;
    }
    for (size_t i = 0; i < count; i++) {
        struct one_case c;
        const char *name = name_of(paths[i]);
        if (is_skipped(cli, name)) {
            skipped++;
            continue;
        }
        enum outcome outcome = run_case(cli, paths[i], &c);
        base_assert((unsigned)outcome < OUTCOME_COUNT);
        counts[outcome]++;
        random_count += outcome == PASSED && c.is_random;
        if (outcome == AMENDED && c.amendment->attribute == NULL) {
            printf("amended %s: passed but for ends of the type, where the data wrap around\n",
                   name);
        } else if (outcome == AMENDED) {
            printf("amended %s: passed with %s = %g\n", name, c.amendment->attribute,
                   (double)c.amendment->value);
        } else if (outcome != PASSED) {
            printf("%s %s: %s\n", outcomes[outcome], name, c.error.text);
        } else if (cli->is_verbose) {
            printf("passed %s%s\n", name, c.is_random ? " (random: type and shape only)" : "");
        }
        (void)fflush(stdout);
    }
    printf("%s: %zu cases: %zu passed (%zu of them random: type and shape only), %zu amended, "
           "%zu unsupported, %zu failed, %zu skipped\n",
           folder, count, counts[PASSED], random_count, counts[AMENDED], counts[UNSUPPORTED],
           counts[FAILED], skipped);
    return counts[FAILED] > 0 ? ENG_CLI_FAILED : ENG_CLI_OK;
}

int eng_cli_cases(struct eng_cli *cli)
{
    int code = ENG_CLI_OK;
    for (uint32_t i = 0; i < cli->word_count; i++) {
        if (run_folder(cli, cli->words[i]) != ENG_CLI_OK) {
            code = ENG_CLI_FAILED;
        }
    }
    return code;
}
