// Elementwise steps of several operands: BINARY, SELECT and EXPR. All three are a list of
// instructions over registers that hold one tile each; a step walks the output once, tile by tile.
// Prepared on the planning thread, run on the pool.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/vec_box.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <string.h>

#define REGISTERS_MAX (ENG_EXPR_LOADS_MAX + ENG_EXPR_OPS_MAX)
#define NO_SLOT       UINT32_MAX
#define COST_CHEAP    1 // per element, in units of one addition
#define COST_MATH     4

struct expr_op {
    eng_vec_unary_fn unary; // one of these four, or a constant
    eng_vec_binary_fn binary;
    eng_vec_compare_fn compare;
    bool select;
    bool one; // all operands are one value: so is the result
    uint32_t a, b, c;
    uint32_t slot; // NO_SLOT: the output, or a constant
    float alpha, beta;
};

struct expr_state {
    const struct eng_vec_kernels *kernels;
    struct eng_vec_box box;
    uint32_t load_count, op_count, slot_count;
    int64_t grain; // tiles
    uint32_t out_bytes;
    struct eng_vec_operand loads[ENG_EXPR_LOADS_MAX];
    struct expr_op ops[ENG_EXPR_OPS_MAX];
};

struct expr_run {
    const struct expr_state *state;
    const struct eng_step *step;
    const struct eng_run *run;
};

static float *slot_at(const struct expr_state *expr_state, const struct eng_run *run,
                      uint32_t worker, uint32_t slot)
{
    base_assert(slot < expr_state->slot_count);
    return (float *)run->scratch + ((size_t)worker * expr_state->slot_count + slot) * ENG_VEC_TILE;
}

static void run_op(const struct expr_state *expr_state, const struct expr_op *op,
                   const void *const *registers, void *output, int64_t count)
{
    if (op->unary != NULL) {
        op->unary(registers[op->a], output, count, op->alpha, op->beta);
    } else if (op->binary != NULL) {
        op->binary(registers[op->a], registers[op->b], output, count);
    } else if (op->compare != NULL) {
        op->compare(registers[op->a], registers[op->b], output, count);
    } else {
        bool a_one = expr_state->loads[op->b].access == ENG_VEC_VALUE;
        bool b_one = expr_state->loads[op->c].access == ENG_VEC_VALUE;
        expr_state->kernels->select(registers[op->a], registers[op->b], registers[op->c], output,
                                    count, !a_one, !b_one);
    }
}

static void run_tiles(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct expr_run *r = ctx;
    const struct expr_state *s = r->state;
    base_assert(s->load_count + s->op_count <= REGISTERS_MAX);
    base_assert(end <= s->box.tiles);
    const void *registers[REGISTERS_MAX];
    const void *bases[ENG_EXPR_LOADS_MAX];
    float values[REGISTERS_MAX];
    uint8_t *out = r->run->data[r->step->command->outputs[0]];
    for (uint32_t i = 0; i < s->load_count; i++) {
        bases[i] = r->run->data[s->loads[i].input];
        if (s->loads[i].access == ENG_VEC_ROW) {
            eng_vec_operand_rows(&s->loads[i], &s->box, bases[i],
                                 slot_at(s, r->run, worker, s->loads[i].slot));
        }
    }
    for (int64_t t = begin; t < end; t++) {
        struct eng_vec_tile tile;
        eng_vec_box_tile(&s->box, t, &tile);
        for (uint32_t i = 0; i < s->load_count; i++) {
            void *slot = eng_vec_operand_is_copied(&s->loads[i])
                             ? slot_at(s, r->run, worker, s->loads[i].slot)
                             : NULL;
            registers[i] = eng_vec_operand_at(&s->loads[i], &s->box, &tile, bases[i], slot);
        }
        for (uint32_t i = 0; i < s->op_count; i++) {
            const struct expr_op *op = &s->ops[i];
            uint32_t reg = s->load_count + i;
            void *y = NULL;
            if (i + 1 == s->op_count) {
                y = out + tile.out * (int64_t)s->out_bytes;
            } else if (op->slot != NO_SLOT) {
                y = slot_at(s, r->run, worker, op->slot);
            } else {
                y = &values[reg];
            }
            if (op->unary == NULL && op->binary == NULL && op->compare == NULL && !op->select) {
                registers[reg] = &op->alpha;
                continue;
            }
            run_op(s, op, registers, y, op->one ? 1 : tile.count);
            registers[reg] = y;
        }
        if (s->ops[s->op_count - 1].one) {
            float *y = (float *)(void *)(out + tile.out * (int64_t)s->out_bytes);
            s->kernels->fill(y, *(const float *)registers[s->load_count + s->op_count - 1],
                             tile.count);
        }
    }
}

static enum base_status run_expr(const struct eng_step *step, const struct eng_run *run)
{
    const struct expr_state *s = step->state;
    struct expr_run r = {s, step, run};
    eng_pool_for(run->pool, s->box.tiles, s->grain, run_tiles, &r);
    return BASE_OK;
}

static bool is_one(const struct expr_state *expr_state, uint32_t reg)
{
    base_assert(reg < expr_state->load_count + expr_state->op_count + 1); // made before
    return reg < expr_state->load_count ? eng_vec_operand_is_value(&expr_state->loads[reg])
                                        : expr_state->ops[reg - expr_state->load_count].one;
}

static enum eng_vec_form form_of(const struct expr_state *expr_state, const struct expr_op *op)
{
    if (is_one(expr_state, op->a) == is_one(expr_state, op->b)) {
        return ENG_VEC_BOTH;
    }
    return is_one(expr_state, op->b) ? ENG_VEC_B_ONE : ENG_VEC_A_ONE;
}

static enum base_status choose_unary(struct expr_state *expr_state, struct expr_op *op, uint8_t fn)
{
    if (fn >= ENG_UNARY_COUNT) {
        return BASE_ERR_UNSUPPORTED;
    }
    op->unary = expr_state->kernels->unary[fn] != NULL ? expr_state->kernels->unary[fn]
                                                       : eng_vec_libm_unary[fn];
    op->one = is_one(expr_state, op->a);
    return op->unary != NULL ? BASE_OK : BASE_ERR_UNSUPPORTED;
}

static enum base_status choose_binary(struct expr_state *expr_state, struct expr_op *op, uint8_t fn)
{
    if (fn >= ENG_BINARY_COUNT) {
        return BASE_ERR_UNSUPPORTED;
    }
    enum eng_vec_form form = form_of(expr_state, op);
    op->binary = expr_state->kernels->binary[fn][form] != NULL
                     ? expr_state->kernels->binary[fn][form]
                     : eng_vec_libm_binary[fn][form];
    op->one = is_one(expr_state, op->a) && is_one(expr_state, op->b);
    return op->binary != NULL ? BASE_OK : BASE_ERR_UNSUPPORTED;
}

// Buffers of the registers: each result takes one that nobody reads any more.
static void assign_slots(struct expr_state *expr_state)
{
    base_assert(expr_state->load_count + expr_state->op_count <= REGISTERS_MAX);
    uint32_t last_use[REGISTERS_MAX] = {0};
    uint32_t owner[REGISTERS_MAX];
    for (uint32_t i = 0; i < expr_state->op_count; i++) {
        last_use[expr_state->ops[i].a] = i;
        last_use[expr_state->ops[i].b] = i;
        last_use[expr_state->ops[i].c] = i;
    }
    for (uint32_t i = 0; i < expr_state->load_count; i++) {
        if (eng_vec_operand_is_copied(&expr_state->loads[i])) {
            expr_state->loads[i].slot = expr_state->slot_count;
            owner[expr_state->slot_count++] =
                NO_SLOT; // kept from tile to tile, or simply not worth sharing
        }
    }
    for (uint32_t i = 0; i + 1 < expr_state->op_count; i++) {
        struct expr_op *op = &expr_state->ops[i];
        op->slot = NO_SLOT;
        if (op->one) {
            continue;
        }
        uint32_t slot = 0;
        while (slot < expr_state->slot_count &&
               (owner[slot] == NO_SLOT || last_use[owner[slot]] > i)) { // dying now: in place
            slot++;
        }
        expr_state->slot_count += slot == expr_state->slot_count;
        owner[slot] = expr_state->load_count + i;
        op->slot = slot;
    }
}

static enum base_status finish(const struct eng_prepare *ctx, const struct eng_command *command,
                               struct expr_state *expr_state, int64_t cost,
                               struct eng_step *out_step)
{
    assign_slots(expr_state);
    base_assert(cost > 0 && expr_state->op_count > 0);
    base_assert(expr_state->slot_count <= REGISTERS_MAX);
    int64_t tile = expr_state->box.rows_per_tile != 0
                       ? expr_state->box.rows_per_tile * expr_state->box.inner
                       : expr_state->box.tile;
    expr_state->grain = ENG_CPU_GRAIN / (tile * cost);
    out_step->run = run_expr;
    out_step->state = expr_state;
    out_step->scratch_bytes =
        (size_t)expr_state->slot_count * ENG_VEC_TILE * sizeof(float) * eng_pool_threads(ctx->pool);
    out_step->kernel = expr_state->kernels->names[command->op];
    return BASE_OK;
}

static enum base_status begin(const struct eng_prepare *ctx, const struct eng_program *program,
                              const struct eng_command *command, uint32_t loads,
                              struct expr_state **out)
{
    struct expr_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(loads <= ENG_EXPR_LOADS_MAX && loads <= command->input_count);
    s->kernels = ctx->kernels->vec;
    s->load_count = loads;
    s->out_bytes = (uint32_t)eng_dtype_bytes(program->tensors[command->outputs[0]].desc.dtype);
    *out = s;
    return eng_vec_box_init(&s->box, program, command, s->loads, loads);
}

static bool is_type(const struct eng_program *program, uint32_t tensor, enum eng_dtype dtype)
{
    return program->tensors[tensor].desc.dtype == dtype;
}

static int64_t cost_of(enum eng_expr_kind kind, uint8_t fn)
{
    if (kind == ENG_EXPR_BINARY) {
        return fn == ENG_POW ? COST_MATH * COST_MATH : COST_CHEAP;
    }
    return kind == ENG_EXPR_UNARY ? eng_cpu_unary_cost((enum eng_unary_fn)fn) : 0;
}

enum base_status eng_cpu_prepare_binary(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    enum eng_binary_fn fn = command->u.binary.fn;
    const struct eng_vec_kernels *kernels = ctx->kernels->vec;
    if (!is_type(program, command->inputs[0], ENG_F32) ||
        !is_type(program, command->inputs[1], ENG_F32) || (unsigned)fn >= ENG_BINARY_COUNT) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct expr_state *s = NULL;
    BASE_TRY(begin(ctx, program, command, 2, &s));
    base_assert(s->load_count == 2); // registers 0 and 1
    s->op_count = 1;
    s->ops[0] = (struct expr_op){.a = 0, .b = 1, .slot = NO_SLOT};
    if (kernels->compare[fn][0] != NULL) {
        // One value against one value is the form for two operands, an element at a time.
        s->ops[0].compare = kernels->compare[fn][form_of(s, &s->ops[0])];
        if (is_one(s, 0) && is_one(s, 1) && s->box.count > 1) {
            return BASE_ERR_UNSUPPORTED;
        }
    } else {
        BASE_TRY(choose_binary(s, &s->ops[0], (uint8_t)fn));
    }
    return finish(ctx, command, s, cost_of(ENG_EXPR_BINARY, (uint8_t)fn), out_step);
}

enum base_status eng_cpu_prepare_select(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    enum eng_dtype dtype = program->tensors[command->inputs[1]].desc.dtype;
    if (!is_type(program, command->inputs[0], ENG_BOOL) ||
        (dtype != ENG_F32 && dtype != ENG_I32 && dtype != ENG_U32)) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct expr_state *s = NULL;
    BASE_TRY(begin(ctx, program, command, 3, &s));
    if (eng_vec_operand_is_value(&s->loads[0]) && s->box.count > 1) {
        return BASE_ERR_UNSUPPORTED; // one condition for many: rare
    }
    s->op_count = 1;
    s->ops[0] = (struct expr_op){.select = true, .a = 0, .b = 1, .c = 2, .slot = NO_SLOT};
    return finish(ctx, command, s, COST_CHEAP, out_step);
}

enum base_status eng_cpu_prepare_expr(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    const struct eng_expr *expr = command->u.expr;
    if (expr->load_count > ENG_EXPR_LOADS_MAX || expr->op_count > ENG_EXPR_OPS_MAX ||
        expr->op_count == 0 || !is_type(program, command->outputs[0], ENG_F32)) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < expr->load_count; i++) {
        if (!is_type(program, command->inputs[i], ENG_F32)) {
            return BASE_ERR_UNSUPPORTED;
        }
    }
    struct expr_state *s = NULL;
    BASE_TRY(begin(ctx, program, command, expr->load_count, &s));
    base_assert(s->load_count == expr->load_count); // registers are numbered behind them
    int64_t cost = 0;
    for (uint32_t i = 0; i < expr->op_count; i++) {
        const struct eng_expr_op *from = &expr->ops[i];
        struct expr_op *op = &s->ops[i];
        *op = (struct expr_op){.slot = NO_SLOT, .alpha = from->alpha, .beta = from->beta};
        if (from->kind == ENG_EXPR_CONST) {
            op->one = true;
        } else if (from->kind == ENG_EXPR_UNARY) {
            op->a = op->b = op->c = from->a;
            BASE_TRY(choose_unary(s, op, from->fn));
        } else {
            op->a = from->a;
            op->b = op->c = from->b;
            BASE_TRY(choose_binary(s, op, from->fn));
        }
        cost += cost_of(from->kind, from->fn);
        s->op_count = i + 1;
    }
    return finish(ctx, command, s, cost < 1 ? 1 : cost, out_step);
}
