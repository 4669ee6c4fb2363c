// Elementwise steps of one dense operand: UNARY and CAST. Called by cpu_prepare.c on the planning
// thread, run on the pool's threads by ranges of UNIT elements. Apart from vec_expr.c because one
// dense operand needs no box and no tile. Casts cover the pairs of types in find_cast; others are
// UNSUPPORTED and go to the reference backend. A float that does not fit an integer becomes the
// smallest one, as the processor's own instruction has it.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <string.h>

#define UNIT 64 // elements a share of the work is a multiple of

struct unary_state {
    eng_vec_unary_fn fn;
    float alpha, beta;
    eng_vec_cast_fn cast;
    int64_t from_bytes, to_bytes;
    int64_t count, grain; // elements; grain in units
};

struct unary_run {
    const struct unary_state *state;
    const uint8_t *x;
    uint8_t *y;
};

int64_t eng_cpu_unary_cost(enum eng_unary_fn fn)
{
    base_assert((unsigned)fn < ENG_UNARY_COUNT);
    switch (fn) {
    case ENG_ABS:
    case ENG_NEG:
    case ENG_SIGN:
    case ENG_CEIL:
    case ENG_FLOOR:
    case ENG_ROUND:
    case ENG_SQUARE:
    case ENG_RELU:
    case ENG_LEAKY_RELU:
    case ENG_HARD_SIGMOID:
    case ENG_HARD_SWISH:
    case ENG_CLIP:
    case ENG_THRESHOLDED_RELU:
    case ENG_SHRINK:
        return 1;
    case ENG_SIN:
    case ENG_COS:
    case ENG_TAN:
    case ENG_ASIN:
    case ENG_ACOS:
    case ENG_ATAN:
    case ENG_SINH:
    case ENG_COSH:
    case ENG_ASINH:
    case ENG_ACOSH:
    case ENG_ATANH:
        return 16;
    default:
        return 4;
    }
}

static void run_range(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct unary_run *r = ctx;
    const struct unary_state *s = r->state;
    int64_t first = begin * UNIT;
    base_assert(begin < end && first < s->count);
    int64_t n = (end * UNIT < s->count ? end * UNIT : s->count) - first;
    const uint8_t *x = r->x + first * s->from_bytes;
    uint8_t *y = r->y + first * s->to_bytes;
    if (s->fn != NULL) {
        s->fn((const float *)(const void *)x, (float *)(void *)y, n, s->alpha, s->beta);
    } else {
        s->cast(x, y, n);
    }
}

static enum base_status run_unary(const struct eng_step *step, const struct eng_run *run)
{
    const struct unary_state *s = step->state;
    struct unary_run r = {s, run->data[step->command->inputs[0]],
                          run->data[step->command->outputs[0]]};
    eng_pool_for(run->pool, (s->count + UNIT - 1) / UNIT, s->grain, run_range, &r);
    return BASE_OK;
}

// `state`: what is done to an element, and the grain for it.
static enum base_status finish(const struct eng_prepare *ctx, const struct eng_program *program,
                               const struct eng_command *command, const struct unary_state *state,
                               struct eng_step *out_step)
{
    base_assert((state->fn != NULL) != (state->cast != NULL));
    const struct eng_desc *from = &program->tensors[command->inputs[0]].desc;
    const struct eng_desc *to = &program->tensors[command->outputs[0]].desc;
    struct unary_state *s = base_arena_copy(ctx->arena, state, sizeof *state);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->count = eng_desc_count(from);
    s->from_bytes = (int64_t)eng_dtype_bytes(from->dtype);
    s->to_bytes = (int64_t)eng_dtype_bytes(to->dtype);
    out_step->run = run_unary;
    out_step->state = s;
    out_step->kernel = ctx->kernels->vec->names[command->op];
    return BASE_OK;
}

enum base_status eng_cpu_prepare_unary(const struct eng_prepare *ctx,
                                       const struct eng_program *program,
                                       const struct eng_command *command, struct eng_step *out_step)
{
    const struct eng_unary *u = &command->u.unary;
    if (program->tensors[command->inputs[0]].desc.dtype != ENG_F32 ||
        program->tensors[command->outputs[0]].desc.dtype != ENG_F32 ||
        (unsigned)u->fn >= ENG_UNARY_COUNT) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct unary_state s = {.fn = ctx->kernels->vec->unary[u->fn],
                            .alpha = u->alpha,
                            .beta = u->beta,
                            .grain = ENG_CPU_GRAIN / (UNIT * eng_cpu_unary_cost(u->fn))};
    if (s.fn == NULL) {
        s.fn = eng_vec_libm_unary[u->fn];
    }
    if (s.fn == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    return finish(ctx, program, command, &s, out_step);
}

// What does not fit, and NaN, becomes the smallest number, as the processor's instruction does it.
static inline int32_t float_to_i32(float value)
{
    return value >= -2147483648.0f && value < 2147483648.0f ? (int32_t)value : INT32_MIN;
}
static inline int64_t float_to_i64(float value)
{
    return value >= -9223372036854775808.0f && value < 9223372036854775808.0f ? (int64_t)value
                                                                              : INT64_MIN;
}

// Sixteen at a time, so that the compiler turns the inner loop into vectors.
#define CAST(name, from_type, to_type, convert)                                                    \
    static void name(const void *from, void *to, int64_t n)                                        \
    {                                                                                              \
        const from_type *x = from;                                                                 \
        to_type *y = to;                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + 16 <= n; i += 16) {                                                             \
            for (int64_t j = i; j < i + 16; j++) {                                                 \
                y[j] = convert(x[j]);                                                              \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            y[i] = convert(x[i]);                                                                  \
        }                                                                                          \
    }
#define TO_FLOAT(v) (float)(v)
#define TO_BOOL(v)  (uint8_t)((v) != 0)
#define TO_I32(v)   (int32_t)(v)
#define TO_I64(v)   (int64_t)(v)
CAST(i32_to_f32, int32_t, float, TO_FLOAT)
CAST(i64_to_f32, int64_t, float, TO_FLOAT)
CAST(u8_to_f32, uint8_t, float, TO_FLOAT)
CAST(f32_to_bool, float, uint8_t, TO_BOOL)
CAST(i32_to_bool, int32_t, uint8_t, TO_BOOL)
CAST(i64_to_bool, int64_t, uint8_t, TO_BOOL)
CAST(i64_to_i32, int64_t, int32_t, TO_I32)
CAST(i32_to_i64, int32_t, int64_t, TO_I64)
CAST(u8_to_i32, uint8_t, int32_t, TO_I32)
CAST(u8_to_i64, uint8_t, int64_t, TO_I64)
CAST(f32_to_i32, float, int32_t, float_to_i32)
CAST(f32_to_i64, float, int64_t, float_to_i64)

struct cast_row {
    enum eng_dtype from, to;
    eng_vec_cast_fn fn;
};
static const struct cast_row plain_casts[] = {
    {ENG_I32, ENG_F32, i32_to_f32},   {ENG_I64, ENG_F32, i64_to_f32},
    {ENG_U8, ENG_F32, u8_to_f32},     {ENG_BOOL, ENG_F32, u8_to_f32},
    {ENG_F32, ENG_BOOL, f32_to_bool}, {ENG_I32, ENG_BOOL, i32_to_bool},
    {ENG_I64, ENG_BOOL, i64_to_bool}, {ENG_I64, ENG_I32, i64_to_i32},
    {ENG_I32, ENG_I64, i32_to_i64},   {ENG_BOOL, ENG_I32, u8_to_i32},
    {ENG_BOOL, ENG_I64, u8_to_i64},   {ENG_F32, ENG_I32, f32_to_i32},
    {ENG_F32, ENG_I64, f32_to_i64},
};

static eng_vec_cast_fn find_row(const struct cast_row *rows, size_t count, enum eng_dtype from,
                                enum eng_dtype to)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].from == from && rows[i].to == to) {
            return rows[i].fn;
        }
    }
    return NULL;
}

// NULL: left to the reference backend.
static eng_vec_cast_fn find_cast(const struct eng_vec_kernels *kernels, enum eng_dtype from,
                                 enum eng_dtype to)
{
    const struct cast_row halves[] = {{ENG_F16, ENG_F32, kernels->f16_to_f32},
                                      {ENG_F32, ENG_F16, kernels->f32_to_f16},
                                      {ENG_BF16, ENG_F32, kernels->bf16_to_f32},
                                      {ENG_F32, ENG_BF16, kernels->f32_to_bf16}};
    const eng_vec_cast_fn fn = find_row(halves, sizeof halves / sizeof halves[0], from, to);
    return fn != NULL ? fn
                      : find_row(plain_casts, sizeof plain_casts / sizeof plain_casts[0], from, to);
}

enum base_status eng_cpu_prepare_cast(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    struct unary_state s = {.grain = ENG_CPU_GRAIN / UNIT};
    s.cast = find_cast(ctx->kernels->vec, program->tensors[command->inputs[0]].desc.dtype,
                       program->tensors[command->outputs[0]].desc.dtype);
    if (s.cast == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    return finish(ctx, program, command, &s, out_step);
}
