// Commands that compute each element from the same element of their operands: unary, binary,
// select. Reference kernels: found by ref_prepare.c on the planning thread, run on the session's
// thread. Floats go through the functions of program/scalar.c as doubles, integers through 64 bits
// that wrap, here; division by 0 and the one quotient that does not fit give 0, so no contents are
// undefined. Broadcasting is a stride of 0 in the views.
#include "backend/ref/ref.h"

#include "backend/ref/ref_box.h"
#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <string.h>

// --- unary ------------------------------------------------------------------------------------

static int64_t negated(int64_t value)
{
    return (int64_t)(0 - (uint64_t)value);
}

static int64_t unary_int(const struct eng_unary *unary, bool is_signed, int64_t value)
{
    switch (unary->fn) {
    case ENG_ABS:
        return is_signed && value < 0 ? negated(value) : value;
    case ENG_NEG:
        return negated(value);
    case ENG_SIGN:
        return is_signed && value < 0 ? -1 : value != 0;
    case ENG_SQUARE:
        return (int64_t)((uint64_t)value * (uint64_t)value);
    case ENG_RELU:
        return is_signed && value < 0 ? 0 : value;
    case ENG_NOT:
        return value == 0;
    case ENG_BIT_NOT:
        return ~value;
    case ENG_CEIL:
    case ENG_FLOOR:
    case ENG_ROUND:
        return value;
    case ENG_IS_NAN:
    case ENG_IS_INF:
        return 0;
    default: { // CLIP and whatever is made for real numbers
        base_assert((unsigned)unary->fn < ENG_UNARY_COUNT);
        double y = eng_scalar_unary(unary->fn, is_signed ? (double)value : (double)(uint64_t)value,
                                    (double)unary->alpha, (double)unary->beta);
        return is_signed || !(y >= 0x1p63) ? eng_ref_to_i64(y)
               : y < 0x1p64                ? (int64_t)(uint64_t)y
                                           : -1; // the largest without sign
    }
    }
}

static enum base_status run_unary(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_unary *unary = &step->command->u.unary;
    enum eng_dtype from = eng_ref_in_type(step, 0), to = eng_ref_out_type(step, 0);
    const void *x = eng_ref_in(step, run, 0);
    void *y = eng_ref_out(step, run, 0);
    int64_t count = eng_desc_count(&eng_ref_out_tensor(step, 0)->desc);
    double alpha = (double)unary->alpha, beta = (double)unary->beta;
    if (eng_ref_is(from, ENG_REF_FLOATS)) {
        for (int64_t i = 0; i < count; i++) {
            eng_ref_store(to, y, i,
                          eng_scalar_unary(unary->fn, eng_ref_load(from, x, i), alpha, beta));
        }
        return BASE_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        eng_ref_store_int(to, y, i,
                          unary_int(unary, from != ENG_U64, eng_ref_load_int(from, x, i)));
    }
    return BASE_OK;
}

// --- binary on integers -----------------------------------------------------------------------

// a / b and a % b toward zero; by zero gives 0, and so does the one quotient that does not fit.
static int64_t quotient(bool is_signed, int64_t left, int64_t right)
{
    if (right == 0) {
        return 0;
    }
    if (!is_signed) {
        return (int64_t)((uint64_t)left / (uint64_t)right);
    }
    return right == -1 ? negated(left) : left / right;
}

static int64_t remainder_of(bool is_signed, int64_t left, int64_t right)
{
    if (right == 0 || (is_signed && right == -1)) {
        return 0;
    }
    return is_signed ? left % right : (int64_t)((uint64_t)left % (uint64_t)right);
}

static int64_t modulo_int(bool is_signed, int64_t left, int64_t right)
{
    int64_t rest = remainder_of(is_signed, left, right);
    return is_signed && rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

static int64_t power(bool is_signed, int64_t base, int64_t exponent)
{
    if (is_signed && exponent < 0) { // 1 / base^n, toward zero
        return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
    uint64_t result = 1, square = (uint64_t)base;
    for (uint64_t left = (uint64_t)exponent; left != 0; left >>= 1) {
        if ((left & 1) != 0) {
            result *= square;
        }
        square *= square;
    }
    return (int64_t)result;
}

static int64_t shifted(enum eng_binary_fn fn, int64_t left, int64_t right)
{
    if (right < 0 || right >= 64) {
        return 0;
    }
    return (int64_t)(fn == ENG_SHIFT_LEFT ? (uint64_t)left << right : (uint64_t)left >> right);
}

static bool less(bool is_signed, int64_t left, int64_t right)
{
    return is_signed ? left < right : (uint64_t)left < (uint64_t)right;
}

static int64_t compare_int(enum eng_binary_fn fn, bool is_signed, int64_t left, int64_t right)
{
    switch (fn) {
    case ENG_EQUAL:
        return left == right;
    case ENG_LESS:
        return less(is_signed, left, right);
    case ENG_LESS_EQUAL:
        return !less(is_signed, right, left);
    case ENG_GREATER:
        return less(is_signed, right, left);
    default:
        return !less(is_signed, left, right);
    }
}

static int64_t binary_int(enum eng_binary_fn fn, bool is_signed, int64_t left, int64_t right)
{
    uint64_t difference = (uint64_t)left - (uint64_t)right;
    switch (fn) {
    case ENG_ADD:
        return (int64_t)((uint64_t)left + (uint64_t)right);
    case ENG_SUB:
        return (int64_t)difference;
    case ENG_MUL:
        return (int64_t)((uint64_t)left * (uint64_t)right);
    case ENG_DIV:
        return quotient(is_signed, left, right);
    case ENG_POW:
        return power(is_signed, left, right);
    case ENG_MOD:
        return modulo_int(is_signed, left, right);
    case ENG_FMOD:
        return remainder_of(is_signed, left, right);
    case ENG_MIN:
        return less(is_signed, right, left) ? right : left;
    case ENG_MAX:
        return less(is_signed, left, right) ? right : left;
    case ENG_AND:
        return left & right;
    case ENG_OR:
        return left | right;
    case ENG_XOR:
        return left ^ right;
    case ENG_SHIFT_LEFT:
    case ENG_SHIFT_RIGHT:
        return shifted(fn, left, right);
    case ENG_PRELU:
        return is_signed && left < 0 ? (int64_t)((uint64_t)left * (uint64_t)right) : left;
    case ENG_SQUARED_DIFF:
        return (int64_t)(difference * difference);
    default:
        base_assert(fn >= ENG_EQUAL);
        base_assert(fn <= ENG_GREATER_EQUAL);
        return compare_int(fn, is_signed, left, right);
    }
}

// --- binary and select ------------------------------------------------------------------------

struct row_ctx {
    const void *in[3];
    void *out;
    enum eng_dtype from, to;
    enum eng_binary_fn fn;
    size_t bytes;
};

static void row_float(void *ctx, int64_t out, const int64_t *at, const int64_t *step, int64_t count)
{
    const struct row_ctx *c = ctx;
    for (int64_t i = 0; i < count; i++) {
        double a = eng_ref_load(c->from, c->in[0], at[0] + i * step[0]);
        double b = eng_ref_load(c->from, c->in[1], at[1] + i * step[1]);
        eng_ref_store(c->to, c->out, out + i, eng_scalar_binary(c->fn, a, b));
    }
}

static void row_int(void *ctx, int64_t out, const int64_t *at, const int64_t *step, int64_t count)
{
    const struct row_ctx *c = ctx;
    for (int64_t i = 0; i < count; i++) {
        int64_t a = eng_ref_load_int(c->from, c->in[0], at[0] + i * step[0]);
        int64_t b = eng_ref_load_int(c->from, c->in[1], at[1] + i * step[1]);
        eng_ref_store_int(c->to, c->out, out + i, binary_int(c->fn, c->from != ENG_U64, a, b));
    }
}

static void row_string(void *ctx, int64_t out, const int64_t *at, const int64_t *step,
                       int64_t count)
{
    const struct row_ctx *c = ctx;
    const struct eng_string *a = c->in[0], *b = c->in[1];
    for (int64_t i = 0; i < count; i++) {
        const struct eng_string *x = &a[at[0] + i * step[0]], *y = &b[at[1] + i * step[1]];
        bool equal = x->size == y->size && (x->size == 0 || memcmp(x->at, y->at, x->size) == 0);
        ((uint8_t *)c->out)[out + i] = equal;
    }
}

static enum base_status run_binary(const struct eng_step *step, const struct eng_run *run)
{
    struct row_ctx ctx = {
        .in = {eng_ref_in(step, run, 0), eng_ref_in(step, run, 1)},
        .out = eng_ref_out(step, run, 0),
        .from = eng_ref_in_type(step, 0),
        .to = eng_ref_out_type(step, 0),
        .fn = step->command->u.binary.fn,
    };
    base_assert(eng_ref_in_type(step, 1) == ctx.from);
    eng_ref_row_fn row = ctx.from == ENG_STRING                 ? row_string
                         : eng_ref_is(ctx.from, ENG_REF_FLOATS) ? row_float
                                                                : row_int;
    eng_ref_rows(&step->command->box, step->command->views, 2, row, &ctx);
    return BASE_OK;
}

static enum base_status setup_binary(const struct eng_prepare *ctx, struct eng_step *step)
{
    enum eng_dtype from = eng_ref_in_type(step, 0);
    if (from == ENG_STRING && step->command->u.binary.fn != ENG_EQUAL) {
        return eng_ref_refuse(ctx, step, "strings are only compared for equality");
    }
    if (eng_ref_in_type(step, 1) != from) {
        return eng_ref_refuse(ctx, step, "operands of different types");
    }
    return BASE_OK;
}

static void row_select(void *ctx, int64_t out, const int64_t *at, const int64_t *step,
                       int64_t count)
{
    const struct row_ctx *c = ctx;
    const uint8_t *cond = c->in[0];
    for (int64_t i = 0; i < count; i++) {
        unsigned chosen = cond[at[0] + i * step[0]] != 0 ? 1 : 2;
        int64_t from = at[chosen] + i * step[chosen];
        memcpy((uint8_t *)c->out + (size_t)(out + i) * c->bytes,
               (const uint8_t *)c->in[chosen] + (size_t)from * c->bytes, c->bytes);
    }
}

static enum base_status run_select(const struct eng_step *step, const struct eng_run *run)
{
    struct row_ctx ctx = {
        .in = {eng_ref_in(step, run, 0), eng_ref_in(step, run, 1), eng_ref_in(step, run, 2)},
        .out = eng_ref_out(step, run, 0),
        .bytes = eng_dtype_bytes(eng_ref_out_type(step, 0)),
    };
    eng_ref_rows(&step->command->box, step->command->views, 3, row_select, &ctx);
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_elementwise[] = {
    {ENG_OP_UNARY, ENG_REF_NUMBERS, run_unary, NULL},
    {ENG_OP_BINARY, ENG_REF_NUMBERS | ENG_REF_BIT(ENG_STRING), run_binary, setup_binary},
    {ENG_OP_SELECT, ENG_REF_BIT(ENG_BOOL), run_select, NULL},
    {.run = NULL},
};
