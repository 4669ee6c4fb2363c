// Any bytes as a tensor file: an error, or tensors that are written and read again unchanged. The
// first byte chooses the format.
#include "fuzz_target.h"

#include "base/alloc.h"
#include "base/check.h"
#include "model/npy_file.h"
#include "model/tensor_file.h"
#include "model/tensor_pb.h"

#include <string.h>

#define ARENA_BYTES_MAX ((size_t)64 << 20)

static void check_same(const struct eng_tensor_list *a, const struct eng_tensor_list *b)
{
    base_check(a->kind == b->kind);
    base_check(a->inner == b->inner);
    base_check(a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        base_check(eng_desc_equal(&a->arrays[i].desc, &b->arrays[i].desc));
        size_t size = eng_desc_bytes(&a->arrays[i].desc);
        if (a->arrays[i].desc.dtype != ENG_STRING && size > 0) {
            base_check(memcmp(a->arrays[i].data, b->arrays[i].data, size) == 0);
        }
    }
}

static enum base_status write_list(struct base_buffer *out, enum eng_tensor_format format,
                                   const struct eng_tensor_list *list)
{
    switch (format) {
    case ENG_FORMAT_NPY:
        return eng_npy_write(out, &list->arrays[0], NULL);
    case ENG_FORMAT_NPZ:
        return eng_npz_write(out, list, NULL);
    default:
        return eng_pb_write(out, list, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        enum eng_tensor_format format;
        enum eng_value_type kind;
    } forms[] = {
        {ENG_FORMAT_NPY, ENG_VALUE_TENSOR},  {ENG_FORMAT_NPZ, ENG_VALUE_SEQUENCE},
        {ENG_FORMAT_PB, ENG_VALUE_TENSOR},   {ENG_FORMAT_PB, ENG_VALUE_SEQUENCE},
        {ENG_FORMAT_PB, ENG_VALUE_OPTIONAL},
    };
    if (size == 0) {
        return 0;
    }
    enum eng_tensor_format format = forms[data[0] % 5].format;
    enum eng_value_type kind = forms[data[0] % 5].kind;
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, ARENA_BYTES_MAX);
    struct eng_tensor_list list, again;
    struct eng_tensor_bytes bytes = {data + 1, size - 1, format, kind};
    if (eng_tensor_bytes_read(&bytes, &arena, &list, NULL) == BASE_OK) {
        struct base_buffer out;
        base_buffer_init(&out, base_alloc_heap(), 0);
        if (write_list(&out, format, &list) == BASE_OK) {
            bytes.data = out.data;
            bytes.size = out.size;
            base_check(eng_tensor_bytes_read(&bytes, &arena, &again, NULL) == BASE_OK);
            check_same(&list, &again);
        }
        base_buffer_done(&out);
    }
    base_arena_done(&arena);
    return 0;
}
