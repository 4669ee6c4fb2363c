// Reads models for tests without the operator tables: every operator is known but those whose name
// starts with "Unknown".
#ifndef TESTS_MODEL_RIG_H
#define TESTS_MODEL_RIG_H

#include "base/alloc.h"
#include "lower/lower.h"
#include "model/model_file.h"
#include "model/onnx_read.h"
#include "onnx_bytes.h"

#include <stdlib.h>

static inline const struct eng_op *rig_find(const char *domain, const char *name, int32_t opset)
{
    static const struct eng_op any = {.name = "any"};
    (void)domain;
    (void)opset;
    return strncmp(name, "Unknown", 7) == 0 ? NULL : &any;
}

// Reads a copy of the bytes that starts `shift` bytes after an aligned address; the model must be
// released with rig_done whatever the status.
struct rig {
    struct eng_model model;
    struct base_error error;
    uint8_t *bytes;
};

static inline enum base_status rig_read_at(struct rig *rig, const struct base_buffer *bytes,
                                           const char *folder, size_t shift)
{
    *rig = (struct rig){0};
    base_arena_init(&rig->model.arena, base_alloc_heap(), 0, (size_t)1 << 30);
    base_check(eng_mappings_new((size_t)1 << 30, false, &rig->model.mappings) == BASE_OK);
    if (folder != NULL) {
        base_check(eng_mappings_folder(rig->model.mappings, folder, "", NULL) == BASE_OK);
    }
    rig->bytes = malloc(bytes->size + shift);
    base_check(rig->bytes != NULL);
    if (bytes->size > 0) {
        memcpy(rig->bytes + shift, bytes->data, bytes->size);
    }
    const struct eng_read_options options = {
        .bytes = rig->bytes + shift,
        .size = bytes->size,
        .mappings = rig->model.mappings,
        .find_op = rig_find,
        .alloc = base_alloc_heap(),
    };
    return eng_onnx_read(&rig->model, &options, &rig->error);
}

static inline void rig_done(struct rig *rig)
{
    base_arena_done(&rig->model.arena);
    eng_mappings_free(rig->model.mappings);
    free(rig->bytes);
}

static inline enum base_status rig_read(struct rig *rig, struct base_buffer bytes,
                                        const char *folder)
{
    enum base_status status = rig_read_at(rig, &bytes, folder, 0);
    base_buffer_done(&bytes);
    return status;
}

// Number of a value by name, ENG_NONE when there is none.
static inline uint32_t rig_value(const struct eng_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (strcmp(graph->values[v].name, name) == 0) {
            return v;
        }
    }
    return ENG_NONE;
}

#endif
