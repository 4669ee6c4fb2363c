// Checkpoints of `walle-engine train`, and the model it writes. Called by engine_train.c on its
// thread. Both files are written beside the name and take it when they are whole: who is killed
// while it writes leaves what was there.
#include "cli/engine_train_keep.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "model/model_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKPOINT_BYTES_MAX ((size_t)64 << 30)

static enum base_status state_read(struct eng_trainer *trainer, struct eng_mappings *mappings,
                                   const char *path, struct base_error *error)
{
    const void *bytes = NULL;
    size_t size = 0;
    struct base_error inner = {0};
    BASE_TRY(eng_mappings_open(mappings, path, &bytes, &size, error));
    enum base_status status = eng_trainer_state_read(trainer, bytes, size, &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "--checkpoint %.80s: %.70s", path, inner.text);
    }
    return BASE_OK;
}

enum base_status eng_cli_checkpoint_read(struct eng_trainer *trainer, const char *path,
                                         uint64_t *out_steps, struct base_error *error)
{
    struct stat about;
    struct eng_mappings *mappings = NULL;
    struct eng_trainer_stats stats;
    *out_steps = 0;
    if (stat(path, &about) != 0) {
        return BASE_OK; // the first time
    }
    BASE_TRY(eng_mappings_new(CHECKPOINT_BYTES_MAX, true, &mappings));
    enum base_status status = state_read(trainer, mappings, path, error);
    eng_mappings_free(mappings);
    eng_trainer_stats(trainer, &stats);
    *out_steps = status == BASE_OK ? stats.step_count : 0;
    return status;
}

enum base_status eng_cli_checkpoint_write(const struct eng_trainer *trainer, const char *path,
                                          struct base_error *error)
{
    size_t size = eng_trainer_state_bytes(trainer);
    void *bytes = malloc(size);
    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = eng_trainer_state_write(trainer, bytes, size, error);
    if (status == BASE_OK) {
        status = base_output_write(path, bytes, size, error);
    }
    free(bytes);
    return status;
}

bool eng_cli_is_model(const char *path)
{
    size_t size = path != NULL ? strlen(path) : 0;
    return size > 5 && strcmp(path + size - 5, ".onnx") == 0;
}

static enum base_status export_mapped(const struct eng_trainer *trainer,
                                      struct eng_mappings *mappings, const char *const paths[2],
                                      struct base_error *error)
{
    const void *file = NULL;
    size_t size = 0;
    size_t bytes = 0;
    BASE_TRY(eng_mappings_open(mappings, paths[0], &file, &size, error));
    BASE_TRY(eng_trainer_export_bytes(trainer, file, size, &bytes, error));
    void *model = malloc(bytes > 0 ? bytes : 1);
    if (model == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = eng_trainer_export(trainer, file, size, model, error);
    if (status == BASE_OK) {
        status = base_output_write(paths[1], model, bytes, error);
    }
    free(model);
    return status;
}

enum base_status eng_cli_export(const struct eng_trainer *trainer, const char *model_path,
                                const char *path, struct base_error *error)
{
    struct eng_mappings *mappings = NULL;
    const char *const paths[2] = {model_path, path};
    BASE_TRY(eng_mappings_new(ENG_MODEL_BYTES_MAX, true, &mappings));
    enum base_status status = export_mapped(trainer, mappings, paths, error);
    eng_mappings_free(mappings);
    return status;
}
