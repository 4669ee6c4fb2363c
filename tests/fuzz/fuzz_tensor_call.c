// Any bytes as a call of a model in the cloud (first byte even) or as its answer: no crash, what is
// accepted lies within the bytes and encodes back to itself.
#include "fuzz_target.h"

#include "wire/cloud/tensor_call.h"

#include <stdlib.h>
#include <string.h>

static void need(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static void tensors(const struct wire_tensor *list, uint32_t count, const uint8_t *data,
                    size_t size)
{
    need(count <= WIRE_TENSORS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        need(list[i].data >= data && list[i].data + list[i].bytes <= data + size);
    }
}

// A varint has one form, and so has all else.
static void same(const struct base_writer *writer, const uint8_t *data, size_t size)
{
    need(writer->status == BASE_OK && base_writer_size(writer) == size);
    need(memcmp(writer->start, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_tensor_call call;
    struct wire_tensor_answer answer;
    struct base_writer writer;
    if (size == 0) {
        return 0;
    }
    bool is_call = data[0] % 2 == 0;
    data++;
    size--;
    uint8_t *again = malloc(size + 1);
    need(again != NULL);
    base_writer_init(&writer, again, size);
    if (is_call && wire_tensor_call_parse(data, size, &call) == BASE_OK) {
        tensors(call.tensors, call.count, data, size);
        wire_tensor_call_write(&writer, &call);
        same(&writer, data, size);
    } else if (!is_call && wire_tensor_answer_parse(data, size, &answer) == BASE_OK) {
        tensors(answer.tensors, answer.count, data, size);
        wire_tensor_answer_write(&writer, &answer);
        same(&writer, data, size);
    }
    free(again);
    return 0;
}
