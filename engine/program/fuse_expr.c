// Elementwise float32 commands that feed each other become one EXPR: a cone of commands with one
// result, each of the others read by commands of the cone alone. Called by fuse.c on the planning
// thread.
#include "program/box_view.h"
#include "base/check.h"
#include "program/fuse.h"
#include "program/fuse_index.h"

#include <string.h>

// How many commands before the last one are looked at for members.
#define REACH_MAX 128u

struct cone {
    struct eng_fuse *fuse;
    uint32_t members[ENG_EXPR_OPS_MAX]; // descending; the first one gives the result
    uint32_t count;
    int64_t elements;
};

// What a cone comes to.
struct built {
    struct eng_expr expr;
    struct eng_box box;
    uint32_t inputs[ENG_EXPR_LOADS_MAX];
    struct eng_view views[ENG_EXPR_LOADS_MAX];
};

static bool is_arithmetic(enum eng_binary_fn fn)
{
    switch (fn) {
    case ENG_ADD:
    case ENG_SUB:
    case ENG_MUL:
    case ENG_DIV:
    case ENG_POW:
    case ENG_MIN:
    case ENG_MAX:
    case ENG_PRELU:
    case ENG_SQUARED_DIFF:
        return true;
    default:
        return false;
    }
}

static bool is_elementwise(const struct eng_fuse *fuse, const struct eng_command *command)
{
    if ((command->op != ENG_OP_UNARY && command->op != ENG_OP_BINARY) ||
        command->output_count != 1 || !eng_fuse_is_f32(fuse, command->outputs[0]) ||
        !eng_fuse_is_f32(fuse, command->inputs[0])) {
        return false;
    }
    return command->op == ENG_OP_UNARY ||
           (eng_fuse_is_f32(fuse, command->inputs[1]) && is_arithmetic(command->u.binary.fn));
}

// The box and views of a command; those of UNARY are implied.
static void shape_of(const struct eng_fuse *fuse, const struct eng_command *command,
                     struct eng_box *box, struct eng_view views[2])
{
    if (command->op == ENG_OP_BINARY) {
        *box = command->box;
        views[0] = command->views[0];
        views[1] = command->views[1];
        return;
    }
    *box = (struct eng_box){.rank = 1, .size = {eng_fuse_count(fuse, command->outputs[0])}};
    views[0] = (struct eng_view){.stride = {1}};
}

static uint32_t operand_count(const struct eng_command *command)
{
    return command->op == ENG_OP_BINARY ? 2 : 1;
}

// Place of the member that makes a tensor, cone->count when none does.
static uint32_t member_of(const struct cone *cone, uint32_t tensor)
{
    base_assert(cone->count <= ENG_EXPR_OPS_MAX);
    uint32_t maker = cone->fuse->producer[eng_fuse_root(cone->fuse, tensor)];
    for (uint32_t i = 0; maker != ENG_NONE && i < cone->count; i++) {
        if (cone->members[i] == maker) {
            return i;
        }
    }
    return cone->count;
}

// Whether every use of the tensor is a member that reads it element by element.
static bool is_inside(const struct cone *cone, uint32_t tensor)
{
    const struct eng_fuse *fuse = cone->fuse;
    uint32_t uses = 0;
    for (uint32_t i = 0; i < cone->count; i++) {
        const struct eng_command *c = &fuse->program->commands[cone->members[i]];
        struct eng_box box;
        struct eng_view views[2];
        shape_of(fuse, c, &box, views);
        for (uint32_t o = 0; o < operand_count(c); o++) {
            if (eng_fuse_root(fuse, c->inputs[o]) != tensor) {
                continue;
            }
            if (!eng_view_is_dense(&box, &views[o])) {
                return false;
            }
            uses++;
        }
    }
    return uses > 0 && uses == fuse->uses[tensor];
}

static bool unite_boxes(const struct cone *cone, struct eng_box *out)
{
    struct eng_view views[2];
    shape_of(cone->fuse, &cone->fuse->program->commands[cone->members[0]], out, views);
    for (uint32_t i = 1; i < cone->count; i++) {
        struct eng_box box, finer;
        shape_of(cone->fuse, &cone->fuse->program->commands[cone->members[i]], &box, views);
        if (!eng_box_refine(out, &box, &finer)) {
            return false;
        }
        *out = finer;
    }
    return true;
}

// Finds or adds a load; ENG_EXPR_LOADS_MAX when there is no room.
static uint32_t load_of(const struct cone *cone, struct built *built, uint32_t tensor,
                        const struct eng_view *view)
{
    base_assert(built->expr.load_count <= ENG_EXPR_LOADS_MAX);
    for (uint32_t i = 0; i < built->expr.load_count; i++) {
        if (eng_fuse_root(cone->fuse, built->inputs[i]) == eng_fuse_root(cone->fuse, tensor) &&
            memcmp(&built->views[i], view, sizeof(*view)) == 0) {
            return i;
        }
    }
    if (built->expr.load_count == ENG_EXPR_LOADS_MAX) {
        return ENG_EXPR_LOADS_MAX;
    }
    built->inputs[built->expr.load_count] = tensor;
    built->views[built->expr.load_count] = *view;
    return built->expr.load_count++;
}

static bool constant_of(const struct cone *cone, const struct eng_command *command, uint32_t input,
                        float *out)
{
    return command->op == ENG_OP_BINARY && eng_fuse_constant(cone->fuse, command, input, out);
}

// First walk: all loads, so that registers of instructions can be numbered behind them.
static bool gather_loads(const struct cone *cone, struct built *built)
{
    for (uint32_t i = cone->count; i > 0; i--) {
        const struct eng_command *c = &cone->fuse->program->commands[cone->members[i - 1]];
        struct eng_box box;
        struct eng_view views[2];
        float value;
        shape_of(cone->fuse, c, &box, views);
        for (uint32_t o = 0; o < operand_count(c); o++) {
            if (member_of(cone, c->inputs[o]) != cone->count || constant_of(cone, c, o, &value)) {
                continue;
            }
            struct eng_view view = {.offset = views[o].offset};
            if (!eng_view_split(&box, &views[o], built->box.rank, built->box.size, view.stride) ||
                load_of(cone, built, c->inputs[o], &view) == ENG_EXPR_LOADS_MAX) {
                return false;
            }
        }
    }
    return true;
}

static bool push(struct built *built, const struct eng_expr_op *op, uint8_t *out_register)
{
    base_assert(built->expr.op_count <= ENG_EXPR_OPS_MAX);
    for (uint32_t i = 0; op->kind == ENG_EXPR_CONST && i < built->expr.op_count; i++) {
        if (built->expr.ops[i].kind == ENG_EXPR_CONST &&
            memcmp(&built->expr.ops[i].alpha, &op->alpha, sizeof(op->alpha)) == 0) {
            *out_register = (uint8_t)(built->expr.load_count + i);
            return true;
        }
    }
    if (built->expr.op_count == ENG_EXPR_OPS_MAX) {
        return false;
    }
    *out_register = (uint8_t)(built->expr.load_count + built->expr.op_count);
    built->expr.ops[built->expr.op_count++] = *op;
    return true;
}

// Second walk: instructions, in the order of the commands.
static bool emit(const struct cone *cone, struct built *built)
{
    uint8_t made[ENG_EXPR_OPS_MAX]; // by member: register of its result
    for (uint32_t i = cone->count; i > 0; i--) {
        const struct eng_command *c = &cone->fuse->program->commands[cone->members[i - 1]];
        struct eng_box box;
        struct eng_view views[2];
        uint8_t registers[2] = {0};
        shape_of(cone->fuse, c, &box, views);
        for (uint32_t o = 0; o < operand_count(c); o++) {
            uint32_t member = member_of(cone, c->inputs[o]);
            struct eng_expr_op constant = {.kind = ENG_EXPR_CONST};
            struct eng_view view = {.offset = views[o].offset};
            if (member != cone->count) {
                base_assert(member >= i); // made before this one, which is number i - 1
                registers[o] = made[member];
            } else if (constant_of(cone, c, o, &constant.alpha)) {
                if (!push(built, &constant, &registers[o])) {
                    return false;
                }
            } else {
                (void)eng_view_split(&box, &views[o], built->box.rank, built->box.size,
                                     view.stride);
                registers[o] = (uint8_t)load_of(cone, built, c->inputs[o], &view);
            }
        }
        struct eng_expr_op op = {.kind = ENG_EXPR_BINARY, .a = registers[0], .b = registers[1]};
        if (c->op == ENG_OP_UNARY) {
            op.kind = ENG_EXPR_UNARY;
            op.fn = (uint8_t)c->u.unary.fn;
            op.alpha = c->u.unary.alpha;
            op.beta = c->u.unary.beta;
        } else {
            op.fn = (uint8_t)c->u.binary.fn;
        }
        if (!push(built, &op, &made[i - 1])) {
            return false;
        }
    }
    return true;
}

static bool build(const struct cone *cone, struct built *out)
{
    *out = (struct built){0};
    return unite_boxes(cone, &out->box) && gather_loads(cone, out) && emit(cone, out);
}

// Whether the cone is a function of one argument that has a name.
static bool is_named(const struct built *built, enum eng_unary_fn *out_fn)
{
    return built->expr.load_count == 1 && eng_view_is_dense(&built->box, &built->views[0]) &&
           eng_expr_is_unary(&built->expr, out_fn);
}

// Takes in whatever before the last command can be: a member's maker, read by members alone. Stops
// early where the cone has become a function with a name.
static void grow(struct cone *cone, struct built *built)
{
    base_assert(cone->count == 1);
    const struct eng_program *program = cone->fuse->program;
    uint32_t last = cone->members[0];
    uint32_t until = last > REACH_MAX ? last - REACH_MAX : 0;
    enum eng_unary_fn unused;
    for (uint32_t c = last; c > until && cone->count < ENG_EXPR_OPS_MAX; c--) {
        const struct eng_command *command = &program->commands[c - 1];
        if (cone->fuse->gone[c - 1] || !is_elementwise(cone->fuse, command) ||
            eng_fuse_count(cone->fuse, command->outputs[0]) != cone->elements ||
            !is_inside(cone, command->outputs[0])) {
            continue;
        }
        struct built grown;
        cone->members[cone->count++] = c - 1;
        if (!build(cone, &grown)) {
            cone->count--;
            continue;
        }
        *built = grown;
        if (is_named(built, &unused)) {
            return;
        }
    }
}

static enum base_status replace(struct cone *cone, const struct built *built)
{
    base_assert(cone->count > 1);
    base_assert(built->expr.op_count > 0);
    struct eng_program *program = cone->fuse->program;
    uint32_t at = cone->members[0];
    struct eng_command command = {.node = program->commands[at].node};
    enum eng_unary_fn fn;
    command.input_count = built->expr.load_count;
    command.inputs =
        base_arena_copy(program->arena, built->inputs, built->expr.load_count * sizeof(uint32_t));
    if (command.inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (is_named(built, &fn)) {
        command.op = ENG_OP_UNARY;
        command.u.unary.fn = fn;
        eng_fuse_replace(cone->fuse, at, &command);
        return BASE_OK;
    }
    command.op = ENG_OP_EXPR;
    command.box = built->box;
    memcpy(command.views, built->views, sizeof(built->views));
    eng_box_collapse(&command.box, command.views, built->expr.load_count);
    command.u.expr = base_arena_copy(program->arena, &built->expr, sizeof(built->expr));
    if (command.u.expr == NULL) {
        return BASE_ERR_NOMEM;
    }
    eng_fuse_replace(cone->fuse, at, &command);
    return BASE_OK;
}

enum base_status eng_fuse_expressions(struct eng_fuse *fuse)
{
    for (uint32_t c = fuse->program->command_count; c > 0; c--) {
        const struct eng_command *command = &fuse->program->commands[c - 1];
        if (fuse->gone[c - 1] || !is_elementwise(fuse, command)) {
            continue;
        }
        struct cone cone = {.fuse = fuse, .members = {c - 1}, .count = 1};
        cone.elements = eng_fuse_count(fuse, command->outputs[0]);
        struct built built = {0};
        grow(&cone, &built);
        if (cone.count > 1 && built.expr.load_count > 0) {
            BASE_TRY(replace(&cone, &built));
        }
    }
    return BASE_OK;
}
