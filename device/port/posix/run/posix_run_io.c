// Models and other files into a run, effects out of it. Called by the task worker's thread
// (posix_task.c) and by the simulator (sim_task.c); effects are freed by the loop, when the
// pipeline has taken them. They are copied, since a VM's results are gone when its next run begins:
// all texts and bytes of a run in one block behind the list.
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

// ---- Bytes by name

enum base_status posix_run_files(const struct dev_task_file *files, uint32_t file_count,
                                 struct dev_vm_bytes *out, uint32_t *out_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file_count; i++) {
        if (files[i].kind != WIRE_FILE_DATA) {
            continue;
        }
        if (count == DEV_VM_FILES_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        out[count++] = (struct dev_vm_bytes){.name = files[i].name,
                                             .bytes = files[i].proven ? files[i].bytes : NULL,
                                             .size = files[i].size};
    }
    *out_count = count;
    return BASE_OK;
}

uint32_t posix_run_blobs(const struct dev_blob_set *set, struct dev_vm_bytes *out)
{
    uint32_t count = 0;
    size_t left = DEV_BLOBS_BYTES_MAX;
    for (uint32_t i = 0; set != NULL && i < set->count && count < DEV_BLOBS_MAX; i++) {
        const struct dev_blob *blob = &set->blobs[i];
        if (blob->name.size == 0 || blob->name.size > DEV_BLOB_NAME_MAX || blob->size > left) {
            continue;
        }
        left -= blob->size;
        out[count++] =
            (struct dev_vm_bytes){.name = blob->name, .bytes = blob->bytes, .size = blob->size};
    }
    return count;
}

struct base_str posix_run_input(const struct dev_vm_bytes *blobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (base_str_equal(blobs[i].name, BASE_STR(DEV_BLOB_INPUT)) &&
            blobs[i].size <= DEV_BLOB_INPUT_MAX) {
            return (struct base_str){(const char *)blobs[i].bytes, blobs[i].size};
        }
    }
    return (struct base_str){NULL, 0};
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

struct dev_task_phases posix_run_phases(const struct dev_vm_result *result)
{
    return (struct dev_task_phases){
        .prepare_us = result->prepare_us,
        .model_us = result->model_us,
        .finish_us = result->duration_us - result->prepare_us - result->model_us,
    };
}

// ---- Effects

static const enum dev_effect_kind effect_kinds[] = {
    [DEV_VM_EFFECT_STORE] = DEV_EFFECT_FEATURE,
    [DEV_VM_EFFECT_UPLOAD] = DEV_EFFECT_UPLOAD,
    [DEV_VM_EFFECT_SAVE] = DEV_EFFECT_SAVE,
};

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
        effect->kind = effect_kinds[from->kind];
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

void posix_run_effects_tag(const struct posix_run_effects *effects,
                           const struct dev_task_store_of *of)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct dev_effect *effect = &effects->effects[i];
        if (effect->kind == DEV_EFFECT_SAVE) { // its bytes are among those of `effects`
            wire_store_tag((uint8_t *)(uintptr_t)effect->bytes, effect->size,
                           of->per_version ? of->version : 0);
        }
    }
}

void posix_run_effects_done(struct posix_run_effects *effects)
{
    free(effects->effects);
    free(effects->bytes);
    *effects = (struct posix_run_effects){0};
}
