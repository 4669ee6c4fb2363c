// Holds a call against the declaration of the version that makes it. Called by the script's VM, so
// that the script hears of it where it called, by the agent, which does not trust a task's process,
// and by the simulator. Pure; only names and types change their form here.
#include "wire/cloud/tensor_leaves.h"

#include "wire/leaves/leaves_check.h"

#include "base/check.h"

#define BOOL 9 // ONNX's number

// As the Open Inference Protocol calls them, by ONNX's numbers.
static struct base_str dtype_name(uint8_t dtype)
{
    static const char *const names[] = {"",       "FP32",   "UINT8", "INT8", "UINT16", "INT16",
                                        "INT32",  "INT64",  "",      "BOOL", "FP16",   "FP64",
                                        "UINT32", "UINT64", "",      "",     "BF16"};
    return base_str_of(dtype < sizeof(names) / sizeof(names[0]) ? names[dtype] : "");
}

// How many elements its shape speaks of, a dimension of 0 taken for 1: a tensor of none may not say
// in its other dimensions what it has no elements to say it with.
static uint64_t spoken_of(const struct wire_tensor *tensor)
{
    uint64_t elements = 1;
    base_assert(tensor->rank <= WIRE_TENSOR_RANK_MAX);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        uint64_t dim = tensor->dims[d] > 0 ? tensor->dims[d] : 1;
        elements = dim <= UINT64_MAX / elements ? elements * dim : UINT64_MAX;
    }
    return elements;
}

// A boolean is 0 or 1: its other seven bits are not declared.
static enum base_status booleans_check(struct base_str model, const struct wire_tensor *tensor,
                                       struct base_error *error)
{
    base_assert(tensor->bytes == 0 || tensor->data != NULL);
    for (size_t i = 0; i < tensor->bytes; i++) {
        if (tensor->data[i] > 1) {
            return base_error_set(error, BASE_ERR_DENIED,
                                  "model '%.*s': input '%.*s' is BOOL, and byte %zu is %u: 0 or 1 "
                                  "may leave",
                                  (int)model.size, model.data, (int)tensor->name.size,
                                  tensor->name.data, i, tensor->data[i]);
        }
    }
    return BASE_OK;
}

enum base_status wire_tensor_may_leave(struct base_str declaration, struct base_str model,
                                       const struct wire_tensor_call *call,
                                       struct base_error *error)
{
    struct wire_leaves_input inputs[WIRE_TENSORS_MAX];
    base_assert(call->count <= WIRE_TENSORS_MAX);
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wire_tensor *tensor = &call->tensors[i];
        uint32_t element = wire_tensor_element_bytes(tensor->dtype);
        inputs[i] = (struct wire_leaves_input){
            .name = tensor->name,
            .dtype = dtype_name(tensor->dtype),
            .elements = element > 0 ? spoken_of(tensor) : UINT64_MAX,
            .bytes = tensor->bytes,
        };
    }
    const struct wire_leaves_call asked = {model, inputs, call->count};
    BASE_TRY(wire_leaves_call_check(declaration, &asked, error));
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->tensors[i].dtype == BOOL) {
            BASE_TRY(booleans_check(model, &call->tensors[i], error));
        }
    }
    return BASE_OK;
}
