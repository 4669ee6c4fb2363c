// walle.store in a file, for `walle task run --store`. Called by cli_task_run.c on its thread, the
// port by the VM inside a run. The image goes whole, as on a device: a run that fails changes
// nothing, and a command that is cut off leaves the file as it was.
#include "cli/task/task_store_file.h"

#include "base/os/output_file.h"
#include "cli/base/cli_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum base_status task_store_file_open(const char *path, struct task_store_file *out,
                                      struct base_error *error)
{
    struct wire_store store;
    uint8_t *bytes = NULL;
    size_t size = 0;

    out->path = path;
    out->size = 0;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return BASE_OK;
    }
    BASE_TRY(cli_file_read(path, WIRE_STORE_IMAGE_MAX, &bytes, &size, error));
    if (size > 0 && wire_store_parse(bytes, size, &store) != BASE_OK) {
        free(bytes);
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.90s: is no store that walle task run --store wrote", path);
    }
    memcpy(out->image, bytes, size);
    out->size = size;
    free(bytes);
    return BASE_OK;
}

static enum base_status query(void *ctx, const struct dev_vm_query *asked, dev_vm_row_fn visit,
                              void *visit_ctx)
{
    const struct task_store_file *file = ctx;

    if (asked->feature.size > 0 || file->size == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    (void)visit(visit_ctx, (struct base_str){"", 0}, 0, file->image, file->size);
    return BASE_OK;
}

struct dev_vm_data_port task_store_file_port(struct task_store_file *file)
{
    return (struct dev_vm_data_port){.ctx = file, .query = query};
}

enum base_status task_store_file_ran(struct task_store_file *file,
                                     const struct dev_vm_result *result, struct base_error *error)
{
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *effect = &result->effects[i];
        if (effect->kind == DEV_VM_EFFECT_SAVE && effect->size <= sizeof(file->image)) {
            memcpy(file->image, effect->bytes, effect->size);
            file->size = effect->size;
            return base_output_write(file->path, file->image, file->size, error);
        }
    }
    return BASE_OK;
}
