// Chooses the format of tensor files by their names and moves their bytes. Called by walle-engine's
// commands (engine/cli), by the trainer for its files of weights (train/trainer.c) and by tests;
// any thread, no state. Files are mapped for reading and what is read is copied into the caller's
// arena; writing goes through base/os/output_file.h, whole or not at all. The formats themselves
// are in npy_file.c, npz_file.c and tensor_pb.c.
#include "model/tensor_file.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/output_file.h"
#include "model/model_file.h"
#include "model/npy_file.h"
#include "model/tensor_pb.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *path, const char *ending)
{
    size_t size = strlen(path), tail = strlen(ending);
    return size >= tail && memcmp(path + size - tail, ending, tail) == 0;
}

static enum eng_tensor_format format_of(const char *path)
{
    if (ends_with(path, ".npy")) {
        return ENG_FORMAT_NPY;
    }
    return ends_with(path, ".npz") ? ENG_FORMAT_NPZ : ENG_FORMAT_PB;
}

bool eng_tensor_file_known(const char *path)
{
    return format_of(path) != ENG_FORMAT_PB || ends_with(path, ".pb");
}

enum base_status eng_tensor_bytes_read(const struct eng_tensor_bytes *bytes,
                                       struct base_arena *arena, struct eng_tensor_list *out_list,
                                       struct base_error *error)
{
    base_assert(bytes->data != NULL || bytes->size == 0);
    if (bytes->size > ENG_TENSOR_FILE_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%zu bytes are over the limit",
                              bytes->size);
    }
    if (bytes->format == ENG_FORMAT_PB) {
        const struct base_span message = {bytes->data, bytes->size};
        return eng_pb_read(message, bytes->expected, arena, out_list, error);
    }
    if (bytes->format == ENG_FORMAT_NPZ) {
        return eng_npz_read(bytes->data, bytes->size, arena, out_list, error);
    }
    struct eng_tensor_list list = {.kind = ENG_VALUE_TENSOR, .count = 1};
    list.arrays = base_arena_zalloc(arena, sizeof(*list.arrays));
    list.names = base_arena_zalloc(arena, sizeof(*list.names));
    if (list.arrays == NULL || list.names == NULL) {
        return BASE_ERR_NOMEM;
    }
    list.names[0] = "";
    BASE_TRY(eng_npy_read(bytes->data, bytes->size, arena, &list.arrays[0], error));
    *out_list = list;
    return BASE_OK;
}

enum base_status eng_tensor_file_read(const char *path, enum eng_value_type expected,
                                      struct base_arena *arena, struct eng_tensor_list *out_list,
                                      struct base_error *error)
{
    struct eng_mappings *mappings;
    if (eng_mappings_new(ENG_TENSOR_FILE_BYTES_MAX, false, &mappings) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "%s: out of memory", path);
    }
    struct eng_tensor_bytes bytes = {.format = format_of(path), .expected = expected};
    struct base_error inner = {0};
    enum base_status status = eng_mappings_open(mappings, path, &bytes.data, &bytes.size, error);
    if (status == BASE_OK) {
        status = eng_tensor_bytes_read(&bytes, arena, out_list, &inner);
        if (status != BASE_OK) {
            const char *text = inner.text[0] != '\0' ? inner.text : base_status_text(status);
            (void)base_error_set(error, status, "%s: %s", path, text);
        }
    }
    eng_mappings_free(mappings);
    return status;
}

enum base_status eng_tensor_file_write(const char *path, const struct eng_tensor_list *list,
                                       struct base_error *error)
{
    enum eng_tensor_format format = format_of(path);
    if (format == ENG_FORMAT_NPY && list->count != 1) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: holds one array, not %u", path,
                              list->count);
    }
    struct base_buffer bytes;
    base_buffer_init(&bytes, base_alloc_heap(), ENG_TENSOR_FILE_BYTES_MAX);
    enum base_status status = format == ENG_FORMAT_NPY ? eng_npy_write(&bytes, list->arrays, error)
                              : format == ENG_FORMAT_NPZ ? eng_npz_write(&bytes, list, error)
                                                         : eng_pb_write(&bytes, list, error);
    if (status == BASE_OK) {
        status = base_output_write(path, bytes.data, bytes.size, error);
    } else if (status == BASE_ERR_NOMEM || status == BASE_ERR_LIMIT) {
        (void)base_error_set(error, status, "%s: %s", path, base_status_text(status));
    }
    base_buffer_done(&bytes);
    return status;
}
