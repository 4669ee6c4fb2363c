// What a command asks of a kernel: its parameters, family by family. Pure functions.
//
// Each returns false for what no kernel takes; the parameters are zeroed before.
#ifndef ENG_CUDA_DESCRIBE_H
#define ENG_CUDA_DESCRIBE_H

#include "backend/cuda/cuda_port.h"
#include "model/graph.h"

union eng_cuda_params {
#define ENG_CUDA_PARAMS(NAME, name) struct eng_cuda_##name name;
    ENG_CUDA_KERNELS(ENG_CUDA_PARAMS)
#undef ENG_CUDA_PARAMS
};
struct eng_cuda_wish {
    enum eng_cuda_kernel kernel;
    union eng_cuda_params params;
};
typedef bool (*eng_cuda_describe_fn)(const struct eng_program *program,
                                     const struct eng_command *command, struct eng_cuda_wish *wish);

bool eng_cuda_describe_elementwise(const struct eng_program *program,
                                   const struct eng_command *command, struct eng_cuda_wish *wish);
bool eng_cuda_describe_rows(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish);
bool eng_cuda_describe_product(const struct eng_program *program, const struct eng_command *command,
                               struct eng_cuda_wish *wish);
// Of a product that was described: to round its operands, where that pays.
void eng_cuda_lower_precision(struct eng_cuda_wish *wish);
// Of the device, for a kernel that was described.
size_t eng_cuda_scratch_bytes(struct eng_cuda_wish *wish);
bool eng_cuda_describe_window(const struct eng_program *program, const struct eng_command *command,
                              struct eng_cuda_wish *wish);
bool eng_cuda_describe_index(const struct eng_program *program, const struct eng_command *command,
                             struct eng_cuda_wish *wish);

// --- shared --------------------------------------------------------------------------------------
static inline const struct eng_tensor *eng_cuda_tensor(const struct eng_program *program,
                                                       uint32_t tensor)
{
    return tensor != ENG_NONE ? &program->tensors[tensor] : NULL;
}
static inline enum eng_dtype eng_cuda_type(const struct eng_program *program, uint32_t tensor)
{
    return tensor != ENG_NONE ? program->tensors[tensor].desc.dtype : ENG_UNDEFINED;
}
// Whether every operand that is there is float32.
bool eng_cuda_is_f32(const struct eng_program *program, const struct eng_command *command);
// Integers and BOOL, of which all but U64 are right as a signed number of 64 bits.
bool eng_cuda_is_int(enum eng_dtype dtype);

#endif
