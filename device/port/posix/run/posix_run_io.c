// Models into a run, effects out of it. Called by the task worker's thread (posix_task.c) and by
// the simulator (sim_task.c); effects are freed by the loop, when the pipeline has taken them. They
// are copied, since a VM's results are gone when its next run begins: all texts and bytes of a run
// in one block behind the list.
#include "posix/run/posix_run_io.h"

#include <stdlib.h>
#include <string.h>

// ---- Models

enum base_status posix_run_models(const struct dev_task_file *files, uint32_t file_count,
                                  struct dev_vm_model *out, uint32_t *out_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file_count; i++) {
        if (files[i].kind != WIRE_FILE_MODEL) {
            continue;
        }
        if (count == DEV_VM_MODELS_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        out[count++] = (struct dev_vm_model){.name = files[i].name,
                                             .bytes = files[i].bytes,
                                             .size = files[i].size,
                                             .digest = files[i].digest};
    }
    *out_count = count;
    return BASE_OK;
}

// ---- Failures

_Static_assert(sizeof((struct dev_task_place){0}.type) == DEV_VM_TYPE_MAX &&
                   sizeof((struct dev_task_place){0}.file) == DEV_VM_FILE_MAX,
               "a place holds what a VM says");

void posix_run_place(const struct dev_vm_result *result, struct dev_task_place *out)
{
    *out = (struct dev_task_place){.line = result->line};
    memcpy(out->type, result->type, sizeof(out->type));
    memcpy(out->file, result->file, sizeof(out->file));
}

// ---- Effects

static struct base_str text_copy(uint8_t **at, struct base_str text)
{
    struct base_str copy = {(const char *)*at, text.size};
    if (text.size > 0) {
        memcpy(*at, text.data, text.size);
    }
    *at += text.size;
    return copy;
}

enum base_status posix_run_effects_copy(const struct dev_vm_result *result,
                                        struct posix_run_effects *out)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *effect = &result->effects[i];
        bytes += effect->name.size + effect->key.size + effect->size;
    }
    if (result->effect_count == 0) {
        return BASE_OK;
    }
    out->effects = calloc(result->effect_count, sizeof(*out->effects));
    out->bytes = malloc(bytes + 1);
    if (out->effects == NULL || out->bytes == NULL) {
        posix_run_effects_done(out);
        return BASE_ERR_NOMEM;
    }
    uint8_t *at = out->bytes;
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *from = &result->effects[i];
        struct dev_effect *effect = &out->effects[out->count++];
        effect->kind = from->kind == DEV_VM_EFFECT_STORE ? DEV_EFFECT_FEATURE : DEV_EFFECT_UPLOAD;
        effect->name = text_copy(&at, from->name);
        effect->key = text_copy(&at, from->key);
        effect->time_ms = from->time_ms;
        effect->format = from->format;
        effect->size = from->size;
        effect->bytes = (const uint8_t *)text_copy(
                            &at, (struct base_str){(const char *)from->bytes, from->size})
                            .data;
    }
    return BASE_OK;
}

void posix_run_effects_done(struct posix_run_effects *effects)
{
    free(effects->effects);
    free(effects->bytes);
    *effects = (struct posix_run_effects){0};
}
