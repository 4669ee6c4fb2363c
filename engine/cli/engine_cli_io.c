// What the commands share: models and sessions with their errors printed, inputs from files or from
// a seed, outputs as lists.
//
// One thread; memory from the command's arena.
#include "cli/engine_cli.h"

#include "base/check.h"
#include "base/prng.h"

#include <string.h>

int eng_cli_complain(const char *what, const struct base_error *error)
{
    fprintf(stderr, "walle-engine: %s: %s\n", what,
            error->text[0] != '\0' ? error->text : base_status_text(error->status));
    return ENG_CLI_FAILED;
}

void eng_cli_names_add(struct eng_cli_names *names, const char *name)
{
    char quoted[ENG_CLI_NAMES_BYTES];
    int length = snprintf(quoted, sizeof quoted, "'%s'", name);
    if (strstr(names->text, quoted) != NULL) {
        return;
    }
    if (length < 0 || names->is_cut || names->bytes + (size_t)length + 3 > sizeof names->text) {
        names->is_cut = true;
        return;
    }
    int added = snprintf(names->text + names->bytes, sizeof names->text - names->bytes, "%s%s",
                         names->bytes > 0 ? ", " : "", quoted);
    names->bytes += (size_t)added;
    base_assert(names->bytes < sizeof names->text);
}

void eng_cli_names_print(const struct eng_cli_names *names, FILE *file)
{
    fprintf(file, "%s%s", names->text,
            !names->is_cut     ? ""
            : names->bytes > 0 ? " and others"
                               : "others with longer names");
}

struct eng_model *eng_cli_model(const char *path, const struct eng_model_options *options)
{
    struct base_error error = {0};
    struct eng_model *model = NULL;
    enum base_status status = eng_model_load(path, options, &model, &error);
    if (status != BASE_OK) {
        bool is_named = strncmp(error.text, path, strlen(path)) == 0;
        error.status = status;
        (void)eng_cli_complain(is_named ? "model" : path, &error);
        return NULL;
    }
    return model;
}

struct eng_session *eng_cli_session(struct eng_model *model,
                                    const struct eng_session_options *options)
{
    struct base_error error = {0};
    struct eng_session *session = NULL;
    enum base_status status = eng_session_new(model, options, &session, &error);
    if (status != BASE_OK) {
        error.status = status;
        (void)eng_cli_complain("session", &error);
        return NULL;
    }
    return session;
}

enum base_status eng_cli_set_list(struct eng_session *session, size_t index,
                                  const struct eng_tensor_list *list, struct base_error *error)
{
    bool is_tensor = list->kind == ENG_VALUE_TENSOR || list->kind == ENG_VALUE_UNKNOWN ||
                     (list->kind == ENG_VALUE_OPTIONAL && list->inner == ENG_VALUE_TENSOR);
    if (is_tensor && list->count == 1) {
        return eng_session_set_input(session, index, &list->arrays[0], error);
    }
    return eng_session_set_sequence(session, index, list->arrays, list->count, error);
}

// --- inputs --------------------------------------------------------------------------------------

// Fills `array` by its type: numbers in [-1, 1), integers and booleans 0 or 1 (safe as indices).
static void fill_random(const struct eng_array *array, struct base_prng *prng)
{
    int64_t count = eng_desc_count(&array->desc);
    size_t bytes = eng_dtype_bytes(array->desc.dtype);
    base_assert(bytes > 0);
    for (int64_t i = 0; i < count; i++) {
        float number = (float)(2 * base_prng_unit(prng) - 1);
        char *at = (char *)array->data + (size_t)i * bytes;
        switch (array->desc.dtype) {
        case ENG_F32:
            memcpy(at, &number, sizeof number);
            break;
        case ENG_F64:
            memcpy(at, &(double){(double)number}, sizeof(double));
            break;
        case ENG_F16:
            memcpy(at, &(uint16_t){eng_f16_from_f32(number)}, sizeof(uint16_t));
            break;
        case ENG_BF16:
            memcpy(at, &(uint16_t){eng_bf16_from_f32(number)}, sizeof(uint16_t));
            break;
        case ENG_C64:
            memcpy(at, &number, sizeof number);
            break;
        case ENG_C128:
            memcpy(at, &(double){(double)number}, sizeof(double));
            break;
        case ENG_STRING:
            memcpy(at, &(struct eng_string){"a", 1}, sizeof(struct eng_string));
            break;
        default: // little-endian integers of any width
            at[0] = (char)(number > 0);
            break;
        }
    }
}

// A random input is as large as the command line says.
static enum base_status check_input(const struct eng_cli *cli, const char *name,
                                    const struct eng_desc *desc, struct base_error *error)
{
    const size_t limit = cli->session.memory_bytes_max;
    int64_t count = 0;
    if (limit == 0 || eng_desc_check(desc, &count) != BASE_OK || eng_desc_bytes(desc) <= limit) {
        return BASE_OK; // what is no shape is the session's to refuse
    }
    return base_error_set(error, BASE_ERR_TOO_LARGE,
                          "input '%.80s' with %zu MiB is over --memory %zu MiB", name,
                          eng_desc_bytes(desc) >> 20, limit >> 20);
}

static enum base_status set_random(struct eng_cli *cli, struct eng_model *model,
                                   struct eng_session *session, size_t index,
                                   struct base_error *error)
{
    base_assert(index < eng_model_input_count(model));
    const struct eng_port_info *port = eng_model_input(model, index);
    struct eng_desc desc = port->desc;
    for (uint32_t i = 0; i < desc.rank; i++) {
        if (desc.dims[i] < 0) {
            desc.dims[i] = eng_cli_dim(cli, port->dim_names[i]);
        }
    }
    BASE_TRY(check_input(cli, port->name, &desc, error));
    BASE_TRY(eng_session_resize(session, index, &desc, error));
    struct eng_array array;
    BASE_TRY(eng_session_input(session, index, &array, error));
    struct base_prng prng;
    base_prng_seed(&prng, cli->seed + index);
    fill_random(&array, &prng);
    return BASE_OK;
}

// Reads one --input: NAME=FILE, or a FILE.npz that holds inputs by name (or in order, arr_0...).
// Notes in `is_set` which inputs have a value by it.
static enum base_status set_from_file(struct eng_cli *cli, const struct eng_cli_loaded *loaded,
                                      const char *text, bool *is_set, struct base_error *error)
{
    struct eng_model *model = loaded->model;
    const char *equals = strchr(text, '=');
    struct eng_tensor_list list;
    if (equals != NULL) {
        const char *name = base_arena_text(&cli->arena, text, (size_t)(equals - text));
        if (name == NULL) {
            return BASE_ERR_NOMEM;
        }
        int64_t index = eng_model_input_index(model, name);
        if (index < 0) {
            return base_error_set(error, BASE_ERR_NOT_FOUND, "the model has no input '%s'", name);
        }
        enum eng_value_type type = model->graph->values[model->graph->inputs[index]].type;
        BASE_TRY(eng_tensor_file_read(equals + 1, type, &cli->arena, &list, error));
        base_assert((size_t)index < eng_model_input_count(model));
        BASE_TRY(eng_cli_set_list(loaded->session, (size_t)index, &list, error));
        is_set[index] = true;
        return BASE_OK;
    }
    BASE_TRY(eng_tensor_file_read(text, ENG_VALUE_UNKNOWN, &cli->arena, &list, error));
    for (uint32_t i = 0; i < list.count; i++) {
        int64_t index = eng_model_input_index(model, list.names[i]);
        if (index < 0 && strncmp(list.names[i], "arr_", 4) == 0 &&
            i < eng_model_input_count(model)) {
            index = i;
        }
        if (index < 0) {
            continue; // a file may hold more than inputs
        }
        BASE_TRY(eng_session_set_input(loaded->session, (size_t)index, &list.arrays[i], error));
        is_set[index] = true;
    }
    return BASE_OK;
}

static enum base_status set_inputs(struct eng_cli *cli, struct eng_model *model,
                                   struct eng_session *session, struct base_error *error)
{
    size_t count = eng_model_input_count(model);
    bool *is_set = base_arena_zalloc(&cli->arena, count + 1);
    if (is_set == NULL) {
        return BASE_ERR_NOMEM;
    }
    const struct eng_cli_loaded loaded = {model, session};
    base_assert(cli->input_count <= ENG_CLI_LIST_MAX);
    for (uint32_t i = 0; i < cli->input_count; i++) {
        BASE_TRY(set_from_file(cli, &loaded, cli->inputs[i], is_set, error));
    }
    for (size_t i = 0; i < count; i++) {
        if (is_set[i]) {
            continue;
        }
        if (!cli->is_random) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "input '%s' has no value: give --input %s=FILE or --random SEED",
                                  eng_model_input(model, i)->name, eng_model_input(model, i)->name);
        }
        BASE_TRY(set_random(cli, model, session, i, error));
    }
    return BASE_OK;
}

enum base_status eng_cli_set_inputs(struct eng_cli *cli, struct eng_model *model,
                                    struct eng_session *session)
{
    if (!eng_cli_dims_are_known(cli, model)) {
        return BASE_ERR_INVALID;
    }
    struct base_error error = {0};
    enum base_status status = set_inputs(cli, model, session, &error);
    if (status != BASE_OK) {
        error.status = status;
        (void)eng_cli_complain("inputs", &error);
    }
    return status;
}

// --- outputs -------------------------------------------------------------------------------------

enum base_status eng_cli_output(struct eng_cli *cli, const struct eng_cli_loaded *loaded,
                                size_t index, struct eng_tensor_list *out_list,
                                struct base_error *error)
{
    struct eng_model *model = loaded->model;
    base_assert(index < eng_model_output_count(model));
    size_t count = eng_session_output_items(loaded->session, index);
    const char *name = eng_model_output(model, index)->name;
    struct eng_array *arrays = base_arena_zalloc(&cli->arena, (count + 1) * sizeof *arrays);
    const char **names = base_arena_zalloc(&cli->arena, (count + 1) * sizeof *names);
    if (arrays == NULL || names == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        BASE_TRY(eng_session_output_item(loaded->session, index, i, &arrays[i], error));
        char text[ENG_NAME_BYTES_MAX + 24];
        int length = count == 1 ? snprintf(text, sizeof text, "%s", name)
                                : snprintf(text, sizeof text, "%s_%zu", name, i);
        names[i] = base_arena_text(&cli->arena, text, (size_t)length);
        if (names[i] == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    *out_list = (struct eng_tensor_list){
        .kind = model->graph->values[model->graph->outputs[index]].type,
        .count = (uint32_t)count,
        .arrays = arrays,
        .names = names,
    };
    return BASE_OK;
}
