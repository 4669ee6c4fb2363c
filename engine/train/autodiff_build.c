// Making tensors, commands and elementwise expressions of gradients. Called by the walk
// (autodiff.c), by all rules (autodiff_*.c) and by the losses (train_loss.c), on the trainer's
// thread while it plans. These append to the program what lowering's emits would, but on plain
// dense tensors, for there are no virtual ones any more. An expression is built instruction by
// instruction and becomes one EXPR command, so a rule of ten operations is read and written once.
#include "train/autodiff_rules.h"

#include "base/check.h"

#include <string.h>

enum base_status ad_flat(struct eng_ad *ad, enum eng_dtype dtype, int64_t count, uint32_t *out)
{
    struct eng_desc desc = {.dtype = dtype, .rank = 1, .dims = {count}};
    return eng_program_tensor(ad->program, ENG_TEMP, ENG_PLAIN, &desc, out);
}

enum base_status ad_like(struct eng_ad *ad, uint32_t tensor, uint32_t *out)
{
    struct eng_tensor like = *ad_tensor(ad, tensor);
    return eng_program_tensor(ad->program, ENG_TEMP, like.layout, &like.desc, out);
}

enum base_status ad_as(struct eng_ad *ad, uint32_t tensor, uint32_t like, uint32_t *out)
{
    const struct eng_tensor *have = ad_tensor(ad, tensor), *want = ad_tensor(ad, like);
    base_assert(eng_desc_count(&have->desc) == eng_desc_count(&want->desc));
    if (eng_desc_equal(&have->desc, &want->desc) && have->layout == want->layout) {
        *out = tensor;
        return BASE_OK;
    }
    uint32_t root = ad_root(ad, tensor);
    if (have->kind == ENG_CONST) { // constants have no aliases, only other descriptions
        const void *data = have->data;
        struct eng_desc desc = want->desc;
        BASE_TRY(eng_program_tensor(ad->program, ENG_CONST, want->layout, &desc, out));
        ad->program->tensors[*out].data = data;
        return BASE_OK;
    }
    BASE_TRY(ad_like(ad, like, out));
    ad->program->tensors[*out].alias = root;
    return BASE_OK;
}

enum base_status ad_scalar(struct eng_ad *ad, enum eng_dtype dtype, double value, uint32_t *out)
{
    struct eng_desc desc = {.dtype = dtype, .rank = 1, .dims = {1}};
    double *data = base_arena_alloc(ad->program->arena, sizeof(*data));
    if (data == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (dtype == ENG_F64) {
        *data = value;
    } else if (dtype == ENG_F32) {
        *(float *)(void *)data = (float)value;
    } else {
        *(uint16_t *)(void *)data =
            dtype == ENG_F16 ? eng_f16_from_f32((float)value) : eng_bf16_from_f32((float)value);
    }
    BASE_TRY(eng_program_tensor(ad->program, ENG_CONST, ENG_PLAIN, &desc, out));
    ad->program->tensors[*out].data = data;
    return BASE_OK;
}

enum base_status ad_ints(struct eng_ad *ad, const int64_t *values, int64_t count, uint32_t *out)
{
    struct eng_desc desc = {.dtype = ENG_I64, .rank = 1, .dims = {count}};
    BASE_TRY(eng_program_tensor(ad->program, ENG_CONST, ENG_PLAIN, &desc, out));
    ad->program->tensors[*out].data = values;
    return BASE_OK;
}

enum base_status ad_command(struct eng_ad *ad, enum eng_atomic op, const struct ad_ports *ports,
                            struct eng_command **out)
{
    base_assert(ad_tensor(ad, ports->output)->kind == ENG_TEMP);
    base_assert(ad_tensor(ad, ports->output)->alias == ENG_NONE);
    BASE_TRY(eng_program_command(ad->program, op, ports->input_count, 1, out));
    if (ports->input_count > 0) {
        memcpy((*out)->inputs, ports->inputs, ports->input_count * sizeof(uint32_t));
    }
    (*out)->outputs[0] = ports->output;
    return BASE_OK;
}

enum base_status ad_zeros(struct eng_ad *ad, uint32_t tensor, uint32_t *out)
{
    struct eng_command *raster = NULL;
    BASE_TRY(ad_like(ad, tensor, out));
    BASE_TRY(ad_command(ad, ENG_OP_RASTER, &(struct ad_ports){.output = *out}, &raster));
    raster->u.raster.zero_fill = true;
    return BASE_OK;
}

enum base_status ad_reduce(struct eng_ad *ad, uint32_t tensor, const struct eng_reduce *reduce,
                           uint32_t *out)
{
    struct eng_command *command = NULL;
    base_assert(ad_count(ad, tensor) == reduce->outer * reduce->n * reduce->inner);
    BASE_TRY(ad_flat(ad, ad_tensor(ad, tensor)->desc.dtype, reduce->outer * reduce->inner, out));
    BASE_TRY(ad_command(ad, ENG_OP_REDUCE, &(struct ad_ports){&tensor, 1, *out}, &command));
    command->u.reduce = *reduce;
    return BASE_OK;
}

// --- boxes ------------------------------------------------------------------------------------

int64_t ad_volume(const struct eng_box *box)
{
    int64_t volume = 1;
    for (uint32_t d = 0; d < box->rank; d++) {
        volume *= box->size[d];
    }
    return volume;
}

struct eng_box ad_row(const struct eng_ad *ad, uint32_t tensor)
{
    return (struct eng_box){.rank = 1, .size = {ad_count(ad, tensor)}};
}

struct eng_view ad_dense_view(const struct eng_box *box)
{
    struct eng_view view = {0};
    int64_t step = 1;
    for (uint32_t d = box->rank; d-- > 0;) {
        view.stride[d] = step;
        step *= box->size[d];
    }
    return view;
}

// --- expressions ------------------------------------------------------------------------------

void ad_expr_init(struct ad_expr *expr, const struct eng_box *box)
{
    memset(expr, 0, sizeof(*expr));
    expr->box = *box;
}

uint8_t ad_load(struct ad_expr *expr, uint32_t tensor, const struct eng_view *view)
{
    base_check(expr->expr.load_count < ENG_EXPR_LOADS_MAX && expr->expr.op_count == 0);
    expr->loads[expr->expr.load_count] = tensor;
    expr->views[expr->expr.load_count] = *view;
    return (uint8_t)expr->expr.load_count++;
}

uint8_t ad_load_dense(struct ad_expr *expr, uint32_t tensor)
{
    struct eng_view view = ad_dense_view(&expr->box);
    return ad_load(expr, tensor, &view);
}

static uint8_t instruction(struct ad_expr *expr, struct eng_expr_op op)
{
    base_check(expr->expr.op_count < ENG_EXPR_OPS_MAX);
    expr->expr.ops[expr->expr.op_count] = op;
    return (uint8_t)(expr->expr.load_count + expr->expr.op_count++);
}

uint8_t ad_unary_with(struct ad_expr *expr, enum eng_unary_fn fn, float alpha, float beta,
                      uint8_t operand)
{
    return instruction(
        expr,
        (struct eng_expr_op){
            .kind = ENG_EXPR_UNARY, .fn = (uint8_t)fn, .a = operand, .alpha = alpha, .beta = beta});
}

uint8_t ad_unary(struct ad_expr *expr, enum eng_unary_fn fn, uint8_t operand)
{
    return ad_unary_with(expr, fn, 0, 0, operand);
}

uint8_t ad_binary(struct ad_expr *expr, enum eng_binary_fn fn, uint8_t left, uint8_t right)
{
    return instruction(
        expr,
        (struct eng_expr_op){.kind = ENG_EXPR_BINARY, .fn = (uint8_t)fn, .a = left, .b = right});
}

uint8_t ad_const(struct ad_expr *expr, double value)
{
    return instruction(expr, (struct eng_expr_op){.kind = ENG_EXPR_CONST, .alpha = (float)value});
}

uint8_t ad_times(struct ad_expr *expr, uint8_t operand, double value)
{
    return ad_binary(expr, ENG_MUL, operand, ad_const(expr, value));
}

uint8_t ad_plus(struct ad_expr *expr, uint8_t operand, double value)
{
    return ad_binary(expr, ENG_ADD, operand, ad_const(expr, value));
}

uint8_t ad_above(struct ad_expr *expr, uint8_t operand, double limit)
{
    uint8_t rest = limit == 0 ? operand : ad_plus(expr, operand, -limit);
    return ad_unary(expr, ENG_SIGN, ad_unary(expr, ENG_RELU, rest));
}

enum base_status ad_expr_emit(struct eng_ad *ad, const struct ad_expr *expr, enum eng_dtype dtype,
                              uint32_t *out)
{
    struct eng_command *command = NULL;
    struct eng_expr *kept = base_arena_copy(ad->program->arena, &expr->expr, sizeof(expr->expr));
    if (kept == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(expr->expr.op_count > 0);
    BASE_TRY(ad_flat(ad, dtype, ad_volume(&expr->box), out));
    const struct ad_ports ports = {expr->loads, expr->expr.load_count, *out};
    BASE_TRY(ad_command(ad, ENG_OP_EXPR, &ports, &command));
    command->u.expr = kept;
    command->box = expr->box;
    memcpy(command->views, expr->views, sizeof(expr->views));
    return BASE_OK;
}
