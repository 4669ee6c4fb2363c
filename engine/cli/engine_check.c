// `walle-engine check`: results of a model against a reference, and when they differ, the first
// node whose results are wrong.
//
// The reference is a file of values by name (outputs, and any intermediate ones), or a run of the
// plain reference backend. A file without a single value that the model computes is refused. To
// find the node, two sessions that keep every value run the same inputs, one as asked and one on
// the reference backend; nodes are compared in order.
#include "cli/engine_cli.h"

#include "base/check.h"

#include <string.h>
#include <sys/stat.h>

struct check {
    struct eng_cli *cli;
    struct eng_model *model;
    struct eng_tensor_list expected; // count 0: none given
    struct eng_cli_names unknown;    // of those, what the model does not compute
    uint32_t by_node;                // of those, how many were compared by bisect()
    bool is_by_node;                 // none of them is an output
    struct eng_session *tested;
    struct eng_session *reference; // plain backend, every value kept
    struct base_error error;
};

static const struct eng_array *expected_value(const struct check *check, const char *name)
{
    for (uint32_t i = 0; i < check->expected.count; i++) {
        if (strcmp(check->expected.names[i], name) == 0) {
            return &check->expected.arrays[i];
        }
    }
    return NULL;
}

// Whether item `i` of the file has a name; without one it is the output at that place.
static bool is_nameless(const struct check *check, uint32_t index)
{
    base_assert(index < check->expected.count);
    const char *name = check->expected.names[index];
    return name[0] == '\0' || strncmp(name, "arr_", 4) == 0;
}

static const struct eng_array *expected_output(const struct check *check, size_t index)
{
    base_assert(index < eng_model_output_count(check->model));
    const struct eng_array *found =
        expected_value(check, eng_model_output(check->model, index)->name);
    if (found == NULL && index < check->expected.count && is_nameless(check, (uint32_t)index)) {
        found = &check->expected.arrays[index];
    }
    return found;
}

// --- the file ------------------------------------------------------------------------------------

// Whether the model computes a value of that name. Adds all names to `names` unless it is NULL.
static bool find_computed(const struct eng_model *model, const char *name,
                          struct eng_cli_names *names)
{
    bool is_found = false;
    for (size_t i = 0; i < eng_model_output_count(model); i++) {
        const char *output = eng_model_output(model, i)->name;
        is_found = is_found || strcmp(output, name) == 0;
        if (names != NULL) {
            eng_cli_names_add(names, output);
        }
    }
    const struct eng_graph *graph = model->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] == ENG_NONE) {
                continue;
            }
            base_assert(node->outputs[i] < graph->value_count);
            const char *value = graph->values[node->outputs[i]].name;
            is_found = is_found || strcmp(value, name) == 0;
            if (names != NULL) {
                eng_cli_names_add(names, value);
            }
        }
    }
    return is_found;
}

static void print_nothing_to_compare(const struct check *check)
{
    struct eng_cli_names computed = {0};
    (void)find_computed(check->model, "", &computed);
    fprintf(stderr, "walle-engine: %s: nothing to compare: it has ", check->cli->expected);
    eng_cli_names_print(&check->unknown, stderr);
    fprintf(stderr, "%s, and the model computes ", check->expected.count == 0 ? "no values" : "");
    eng_cli_names_print(&computed, stderr);
    fputs("\n", stderr);
}

// Reads the file; prints why when it cannot be read, or holds nothing to compare.
static bool read_expected(struct check *check)
{
    const char *path = check->cli->expected;
    struct eng_tensor_list *list = &check->expected;
    check->error.status =
        eng_tensor_file_read(path, ENG_VALUE_UNKNOWN, &check->cli->arena, list, &check->error);
    if (check->error.status != BASE_OK) {
        (void)eng_cli_complain(path, &check->error);
        return false;
    }
    base_assert(list->count == 0 || list->names != NULL);
    uint32_t known = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        bool is_output = i < eng_model_output_count(check->model) && is_nameless(check, i);
        if (is_output || find_computed(check->model, list->names[i], NULL)) {
            known++;
        } else {
            eng_cli_names_add(&check->unknown, list->names[i]);
        }
    }
    if (known == 0) {
        print_nothing_to_compare(check);
    }
    return known > 0;
}

// --- node by node --------------------------------------------------------------------------------

static struct eng_session *new_run(struct check *check, bool is_reference)
{
    base_assert(check->model != NULL);
    struct eng_session_options options = check->cli->session;
    options.keep_values = true;
    if (is_reference) {
        options.isa = "ref";
        options.device = "cpu";
        options.precision = ENG_PRECISION_HIGH;
        options.no_fuse = true;
    }
    struct eng_session *session = eng_cli_session(check->model, &options);
    if (session == NULL || eng_cli_set_inputs(check->cli, check->model, session) != BASE_OK) {
        eng_session_free(session);
        return NULL;
    }
    check->error.status = eng_session_run(session, NULL, &check->error);
    if (check->error.status != BASE_OK) {
        (void)eng_cli_complain(is_reference ? "reference run" : "run", &check->error);
        eng_session_free(session);
        return NULL;
    }
    return session;
}

static void print_node(const struct check *check, const struct eng_node *node)
{
    const struct eng_graph *graph = check->model->graph;
    printf("first wrong node: '%s' (%s, opset %d), node %u of %u\n", node->name, node->op,
           node->opset, node->index, graph->node_count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct eng_array array;
        char text[96] = "not a tensor";
        if (node->inputs[i] == ENG_NONE) {
            continue;
        }
        const char *name = graph->values[node->inputs[i]].name;
        if (eng_session_value(check->tested, name, &array, NULL) == BASE_OK) {
            (void)eng_desc_text(&array.desc, text, sizeof text);
        }
        printf("  input %u %s: %s\n", i, name, text);
    }
}

// Compares one value of the tested run with what it should be; prints and returns true when wrong.
static bool is_wrong(struct check *check, const struct eng_node *node, uint32_t value)
{
    base_assert(value < check->model->graph->value_count);
    const char *name = check->model->graph->values[value].name;
    struct eng_array got;
    struct eng_array want;
    if (eng_session_value(check->tested, name, &got, NULL) != BASE_OK) {
        return false;
    }
    int64_t output = eng_model_output_index(check->model, name);
    const struct eng_array *given =
        output >= 0 ? expected_output(check, (size_t)output) : expected_value(check, name);
    if (given != NULL) {
        want = *given;
        check->by_node++;
    } else if (eng_session_value(check->reference, name, &want, NULL) != BASE_OK) {
        return false;
    }
    struct eng_cli_difference difference;
    eng_cli_compare(&got, &want, &check->cli->tolerance, true, &difference);
    if (difference.is_equal) {
        return false;
    }
    print_node(check, node);
    printf("  output %s: %s\n", name, difference.text);
    return true;
}

static int bisect(struct check *check)
{
    check->tested = new_run(check, false);
    check->reference = check->tested != NULL ? new_run(check, true) : NULL;
    if (check->reference == NULL) {
        return ENG_CLI_FAILED;
    }
    base_assert(check->tested != NULL);
    const struct eng_graph *graph = check->model->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] != ENG_NONE && is_wrong(check, node, node->outputs[i])) {
                return ENG_CLI_FAILED;
            }
        }
    }
    if (check->is_by_node && check->by_node > 0) {
        printf("%u value%s\n", check->by_node, check->by_node == 1 ? " agrees" : "s agree");
        return ENG_CLI_OK;
    }
    if (check->is_by_node) {
        fprintf(stderr, "walle-engine: %s: none of its values was computed in this run\n",
                check->cli->expected);
        return ENG_CLI_FAILED;
    }
    printf("every node agrees with the reference backend when all values are kept: the difference "
           "comes from fusion or memory reuse\n");
    return ENG_CLI_FAILED;
}

// --- outputs -------------------------------------------------------------------------------------

// Compares the outputs of a session; true when all agree.
static bool outputs_agree(struct check *check, struct eng_session *session)
{
    base_assert((check->reference == NULL) == (check->cli->expected != NULL));
    bool agree = true;
    size_t compared = 0;
    for (size_t i = 0; i < eng_model_output_count(check->model); i++) {
        const char *name = eng_model_output(check->model, i)->name;
        struct eng_array got;
        struct eng_array want;
        const struct eng_array *given = expected_output(check, i);
        if (check->reference == NULL && given == NULL) {
            continue;
        }
        if (given != NULL) {
            want = *given;
        } else if (eng_session_output(check->reference, i, &want, NULL) != BASE_OK) {
            continue; // sequences are compared by --onnx-cases
        }
        if (eng_session_output(session, i, &got, &check->error) != BASE_OK) {
            (void)eng_cli_complain(name, &check->error);
            agree = false;
            continue;
        }
        struct eng_cli_difference difference;
        eng_cli_compare(&got, &want, &check->cli->tolerance, true, &difference);
        compared++;
        agree = agree && difference.is_equal;
        printf("%s: %s (largest error %.3g)\n", name,
               difference.is_equal ? "agrees" : difference.text, difference.max_error);
    }
    if (compared == 0 && check->expected.count > 0 && agree) {
        printf("the reference names no output: its values are compared node by node\n");
        check->is_by_node = true;
        return false;
    }
    return agree;
}

static int check_outputs(struct check *check)
{
    base_assert(check->reference == NULL && check->tested == NULL); // they would leak
    if (check->cli->expected != NULL && !read_expected(check)) {
        return ENG_CLI_FAILED;
    }
    if (check->cli->expected == NULL) {
        check->reference = new_run(check, true);
        if (check->reference == NULL) {
            return ENG_CLI_FAILED;
        }
    }
    struct eng_session *session = eng_cli_session(check->model, &check->cli->session);
    if (session == NULL || eng_cli_set_inputs(check->cli, check->model, session) != BASE_OK) {
        eng_session_free(session);
        return ENG_CLI_FAILED;
    }
    check->error.status = eng_session_run(session, NULL, &check->error);
    bool agree = false;
    int code = ENG_CLI_OK;
    if (check->error.status != BASE_OK) {
        code = eng_cli_complain(check->cli->words[0], &check->error);
    } else {
        agree = outputs_agree(check, session);
    }
    eng_session_free(session);
    if (code == ENG_CLI_OK && !agree) {
        eng_session_free(check->reference);
        check->reference = NULL;
        code = bisect(check);
    }
    if (check->unknown.bytes > 0 || check->unknown.is_cut) {
        printf("not compared, no value that the model computes: ");
        eng_cli_names_print(&check->unknown, stdout);
        printf("\n");
    }
    return code;
}

int eng_cli_check(struct eng_cli *cli)
{
    base_assert(cli->word_count >= 1);
    struct stat info;
    if (cli->onnx_cases) {
        return eng_cli_cases(cli);
    }
    if (stat(cli->words[0], &info) == 0 && S_ISDIR(info.st_mode)) {
        return eng_cli_cases(cli);
    }
    if (cli->word_count > 1) {
        fprintf(stderr, "walle-engine: check takes one model\n");
        return ENG_CLI_USAGE;
    }
    struct check check = {.cli = cli, .model = eng_cli_model(cli->words[0], NULL)};
    if (check.model == NULL) {
        return ENG_CLI_FAILED;
    }
    int code = check_outputs(&check);
    eng_session_free(check.tested);
    eng_session_free(check.reference);
    eng_model_unref(check.model);
    return code;
}
