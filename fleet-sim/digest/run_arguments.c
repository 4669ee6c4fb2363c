// The words of a run, kept beside its reports. fleet_options.c keeps them, before argp puts them in
// another order; fleet_virtual.c writes them at the end; diff_main.c reads those of two runs. Main
// thread.
#include "digest/run_arguments.h"

#include "base/os/output_file.h"
#include "people/sim_local_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *sim_arguments_keep(int argc, char *const *argv, size_t *out_bytes)
{
    char *text = malloc(SIM_ARGUMENTS_BYTES_MAX);
    if (text == NULL || argc >= SIM_ARGUMENTS_MAX ||
        getcwd(text, SIM_ARGUMENTS_BYTES_MAX) == NULL) {
        free(text);
        return NULL;
    }
    size_t used = strlen(text) + 1;
    for (int i = 1; i < argc; i++) {
        size_t size = strlen(argv[i]) + 1;
        if (size > SIM_ARGUMENTS_BYTES_MAX - used) {
            free(text);
            return NULL;
        }
        memcpy(text + used, argv[i], size);
        used += size;
    }
    *out_bytes = used;
    return text;
}

static enum base_status split(struct sim_arguments *arguments)
{
    const char *text = (const char *)arguments->bytes.data;
    size_t size = arguments->bytes.size;
    if (size == 0 || text[size - 1] != '\0') {
        return BASE_ERR_CORRUPT;
    }
    arguments->folder = text;
    for (size_t at = strlen(text) + 1; at < size; at += strlen(text + at) + 1) {
        if (arguments->count == SIM_ARGUMENTS_MAX) {
            return BASE_ERR_CORRUPT;
        }
        arguments->words[arguments->count++] = text + at;
    }
    return arguments->count > 0 ? BASE_OK : BASE_ERR_CORRUPT;
}

enum base_status sim_arguments_read(const char *folder, struct sim_arguments *out,
                                    struct base_error *error)
{
    char path[BASE_OUTPUT_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%.4000s/" SIM_ARGUMENTS_FILE, folder);
    out->count = 0;
    BASE_TRY(sim_local_read(path, SIM_ARGUMENTS_BYTES_MAX, &out->bytes, error));
    enum base_status status = split(out);
    if (status != BASE_OK) {
        sim_arguments_done(out);
        return base_error_set(error, status, "%s: not the words of a run", path);
    }
    return BASE_OK;
}

void sim_arguments_done(struct sim_arguments *arguments)
{
    base_buffer_done(&arguments->bytes);
}
