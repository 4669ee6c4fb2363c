// What every file of the reference backend has: the operands of a step, what becomes of a result,
// and the rows of step functions, one per atomic command. Elements are read and written by
// ref_element.h, boxes are walked over by ref_box.h.
//
// Arithmetic is done in double for the float types (F16 and BF16 round through float), in 64-bit
// integers that wrap for the others. Nothing here has undefined behaviour on any contents: casts
// saturate, division by zero gives 0 for integers.
#ifndef ENG_REF_H
#define ENG_REF_H

#include "backend/backend.h"
#include "model/graph.h"
#include "program/scalar.h"

// Sets of element types: bit i is dtype i.
#define ENG_REF_BIT(dtype) (1u << (dtype))
#define ENG_REF_FLOATS                                                                             \
    (ENG_REF_BIT(ENG_F32) | ENG_REF_BIT(ENG_F64) | ENG_REF_BIT(ENG_F16) | ENG_REF_BIT(ENG_BF16))
#define ENG_REF_INTS                                                                               \
    (ENG_REF_BIT(ENG_U8) | ENG_REF_BIT(ENG_I8) | ENG_REF_BIT(ENG_U16) | ENG_REF_BIT(ENG_I16) |     \
     ENG_REF_BIT(ENG_I32) | ENG_REF_BIT(ENG_I64) | ENG_REF_BIT(ENG_U32) | ENG_REF_BIT(ENG_U64) |   \
     ENG_REF_BIT(ENG_BOOL))
#define ENG_REF_COMPLEX (ENG_REF_BIT(ENG_C64) | ENG_REF_BIT(ENG_C128))
#define ENG_REF_NUMBERS (ENG_REF_FLOATS | ENG_REF_INTS)
#define ENG_REF_ALL     (ENG_REF_NUMBERS | ENG_REF_COMPLEX | ENG_REF_BIT(ENG_STRING))

static inline bool eng_ref_is(enum eng_dtype dtype, uint32_t set)
{
    return (set >> (unsigned)dtype & 1u) != 0;
}

// --- operands ---------------------------------------------------------------------------------

static inline const struct eng_tensor *eng_ref_tensor(const struct eng_step *step, uint32_t tensor)
{
    return &step->program->tensors[tensor];
}
static inline bool eng_ref_has(const struct eng_step *step, uint32_t input)
{
    return input < step->command->input_count && step->command->inputs[input] != ENG_NONE;
}
static inline bool eng_ref_has_out(const struct eng_step *step, uint32_t output)
{
    return output < step->command->output_count && step->command->outputs[output] != ENG_NONE;
}
static inline const struct eng_tensor *eng_ref_in_tensor(const struct eng_step *step,
                                                         uint32_t index)
{
    return eng_ref_tensor(step, step->command->inputs[index]);
}
static inline const struct eng_tensor *eng_ref_out_tensor(const struct eng_step *step,
                                                          uint32_t index)
{
    return eng_ref_tensor(step, step->command->outputs[index]);
}
static inline enum eng_dtype eng_ref_in_type(const struct eng_step *step, uint32_t index)
{
    return eng_ref_in_tensor(step, index)->desc.dtype;
}
static inline enum eng_dtype eng_ref_out_type(const struct eng_step *step, uint32_t index)
{
    return eng_ref_out_tensor(step, index)->desc.dtype;
}
// NULL when the input is absent.
static inline const void *eng_ref_in(const struct eng_step *step, const struct eng_run *run,
                                     uint32_t index)
{
    return eng_ref_has(step, index) ? run->data[step->command->inputs[index]] : NULL;
}
static inline void *eng_ref_out(const struct eng_step *step, const struct eng_run *run,
                                uint32_t index)
{
    return eng_ref_has_out(step, index) ? run->data[step->command->outputs[index]] : NULL;
}

// --- results ----------------------------------------------------------------------------------

// Which element of the output a result is.
struct eng_ref_place {
    int64_t channel; // what its bias is numbered by
    int64_t index;   // among the output's elements as they lie
};
// value + bias[channel] + residual[index], then the activation.
double eng_ref_epilogue(const struct eng_step *step, const struct eng_run *run,
                        const struct eng_epilogue *epilogue, double value,
                        struct eng_ref_place place);

// --- kernels ----------------------------------------------------------------------------------

// `types`: which element types input 0 (without inputs: output 0) may have. setup may set
// scratch_bytes and state, and refuse.
struct eng_ref_kernel {
    enum eng_atomic op;
    uint32_t types;
    eng_step_fn run;
    enum base_status (*setup)(const struct eng_prepare *ctx, struct eng_step *step);
};
// Scratch of `count` elements of `bytes`; LIMIT when that cannot be counted.
BASE_NODISCARD enum base_status eng_ref_scratch(struct eng_step *step, int64_t count, size_t bytes);
// UNSUPPORTED with a text that names the command.
enum base_status eng_ref_refuse(const struct eng_prepare *ctx, const struct eng_step *step,
                                const char *why);

// X(family): the files that have kernels. Rows of one family each, eng_ref_FAMILY; ended by a NULL
// run. The first row of a command is its.
#define ENG_REF_FAMILIES(X)                                                                        \
    X(elementwise)                                                                                 \
    X(cast)                                                                                        \
    X(expr)                                                                                        \
    X(reduce)                                                                                      \
    X(matmul)                                                                                      \
    X(conv)                                                                                        \
    X(chain)                                                                                       \
    X(pool)                                                                                        \
    X(norm)                                                                                        \
    X(attention)                                                                                   \
    X(raster)                                                                                      \
    X(move_family)                                                                                 \
    X(sort)                                                                                        \
    X(random)                                                                                      \
    X(resize)                                                                                      \
    X(vision)                                                                                      \
    X(det)
#define ENG_REF_DECLARE(family) extern const struct eng_ref_kernel eng_ref_##family[];
ENG_REF_FAMILIES(ENG_REF_DECLARE)
#undef ENG_REF_DECLARE

#endif
