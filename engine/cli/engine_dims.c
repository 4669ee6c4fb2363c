// --dim NAME=N of `walle-engine`: sizes for the symbolic dimensions of random inputs.
//
// What is no NAME=N is found while the command line is read (engine_cli_main.c), a name that no
// input has when the model is known (engine_cli_io.c): a size that nothing takes would be measured
// as if it had been taken. Dimensions without a name are called UNNAMED. One thread, no state.
#include "cli/engine_cli.h"

#include "base/check.h"
#include "base/str.h"

#include <string.h>

#define UNNAMED "?"

static size_t name_bytes(const char *dim)
{
    const char *equals = strrchr(dim, '='); // a name may hold one, a number does not
    return equals != NULL ? (size_t)(equals - dim) : 0;
}

static bool is_called(const char *dim, const char *name)
{
    return strlen(name) == name_bytes(dim) && strncmp(dim, name, name_bytes(dim)) == 0;
}

static bool read_number(const char *dim, uint64_t *out_number)
{
    base_assert(dim[name_bytes(dim)] == '='); // has a name
    return base_str_u64(base_str_of(dim + name_bytes(dim) + 1), out_number) == BASE_OK &&
           *out_number <= ENG_ELEMENTS_MAX;
}

bool eng_cli_dim_is_valid(const char *dim)
{
    uint64_t number = 0;
    return name_bytes(dim) > 0 && read_number(dim, &number);
}

bool eng_cli_dim_is_repeated(const struct eng_cli *cli, const char *dim)
{
    for (uint32_t i = 0; i < cli->dim_count; i++) {
        if (name_bytes(cli->dims[i]) == name_bytes(dim) &&
            strncmp(cli->dims[i], dim, name_bytes(dim)) == 0) {
            return true;
        }
    }
    return false;
}

int64_t eng_cli_dim(const struct eng_cli *cli, const char *name)
{
    base_assert(cli->dim_count <= ENG_CLI_LIST_MAX);
    for (uint32_t i = 0; i < cli->dim_count; i++) {
        uint64_t number = 0;
        if (is_called(cli->dims[i], name != NULL ? name : UNNAMED) &&
            read_number(cli->dims[i], &number)) {
            return (int64_t)number;
        }
    }
    return 1;
}

// The names of the model's symbolic dimensions, and whether `dim` is one of them.
static bool find_dim(const struct eng_model *model, const char *dim, struct eng_cli_names *names)
{
    bool is_found = false;
    for (size_t i = 0; i < eng_model_input_count(model); i++) {
        const struct eng_port_info *port = eng_model_input(model, i);
        for (uint32_t d = 0; d < port->desc.rank; d++) {
            const char *name = port->dim_names[d] != NULL ? port->dim_names[d] : UNNAMED;
            if (port->desc.dims[d] < 0) {
                is_found = is_found || is_called(dim, name);
                eng_cli_names_add(names, name);
            }
        }
    }
    return is_found;
}

bool eng_cli_dims_are_known(const struct eng_cli *cli, const struct eng_model *model)
{
    for (uint32_t i = 0; i < cli->dim_count; i++) {
        struct eng_cli_names names = {0};
        const char *dim = cli->dims[i];
        if (!find_dim(model, dim, &names)) {
            bool has_any = names.bytes > 0 || names.is_cut;
            fprintf(stderr, "walle-engine: inputs: --dim %s: the model has no dimension '%.*s'%s",
                    dim, (int)name_bytes(dim), dim, has_any ? ", it has " : "");
            eng_cli_names_print(&names, stderr);
            fputs(has_any ? "\n" : ": every dimension of its inputs is fixed\n", stderr);
            return false;
        }
    }
    return true;
}
