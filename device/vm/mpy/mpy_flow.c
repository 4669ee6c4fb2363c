// Follows every path through a function's instructions and says what is wrong with the first one
// that would take the interpreter out of its bounds. Called by mpy_check.c after mpy_code.c has
// passed the function; pure but for the memory of mpy_stack.c.
//
// What each instruction takes and leaves is that of py/vm.c, with the most that it uses in between.
// Handlers need no edge from each instruction: what lies below an open block is never touched, so
// the state at its handler is known when the block is set up.
#include "vm/mpy/mpy_stack.h"

#include "py/bc0.h"
#include "py/runtime0.h"

#define TAG_OBJECT MPY_TAG(MPY_OBJECT, 0)

const char dev_mpy_no_memory[] = "bytecode: out of memory";

struct flow {
    struct mpy_stack stack;
    struct dev_mpy_code *code;
    const uint8_t *at; // behind the opcode, then behind the instruction
    size_t start;      // of the instruction
};

// What most instructions do: take objects and leave one or none. 0: another instruction.
#define PLAIN(takes, leaves) (uint8_t)(0x40 | (leaves) << 4 | (takes))
#define ENDS                 0x80

static const uint8_t plain[256] = {
    [MP_BC_LOAD_CONST_FALSE] = PLAIN(0, 1),
    [MP_BC_LOAD_CONST_TRUE] = PLAIN(0, 1),
    [MP_BC_LOAD_CONST_SMALL_INT] = PLAIN(0, 1),
    [MP_BC_LOAD_CONST_SMALL_INT_MULTI... MP_BC_LOAD_FAST_MULTI - 1] = PLAIN(0, 1),
    [MP_BC_LOAD_CONST_OBJ] = PLAIN(0, 1),
    [MP_BC_LOAD_NAME] = PLAIN(0, 1),
    [MP_BC_LOAD_GLOBAL] = PLAIN(0, 1),
    [MP_BC_LOAD_BUILD_CLASS] = PLAIN(0, 1),
    [MP_BC_LOAD_DEREF] = PLAIN(0, 1),
    [MP_BC_LOAD_ATTR] = PLAIN(1, 1),
    [MP_BC_LOAD_SUBSCR] = PLAIN(2, 1),
    [MP_BC_STORE_FAST_N] = PLAIN(1, 0),
    [MP_BC_STORE_FAST_MULTI... MP_BC_UNARY_OP_MULTI - 1] = PLAIN(1, 0),
    [MP_BC_STORE_DEREF] = PLAIN(1, 0),
    [MP_BC_STORE_NAME] = PLAIN(1, 0),
    [MP_BC_STORE_GLOBAL] = PLAIN(1, 0),
    [MP_BC_DELETE_FAST] = PLAIN(0, 0),
    [MP_BC_DELETE_DEREF] = PLAIN(0, 0),
    [MP_BC_DELETE_NAME] = PLAIN(0, 0),
    [MP_BC_DELETE_GLOBAL] = PLAIN(0, 0),
    [MP_BC_GET_ITER] = PLAIN(1, 1),
    [MP_BC_UNARY_OP_MULTI... MP_BC_BINARY_OP_MULTI - 1] = PLAIN(1, 1),
    [MP_BC_BINARY_OP_MULTI... MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM - 1] = PLAIN(2, 1),
    [MP_BC_IMPORT_NAME] = PLAIN(2, 1),
    [MP_BC_IMPORT_STAR] = PLAIN(1, 0),
    [MP_BC_YIELD_VALUE] = PLAIN(1, 1),
    [MP_BC_YIELD_FROM] = PLAIN(2, 1),
    [MP_BC_RETURN_VALUE] = ENDS | PLAIN(1, 0),
    [MP_BC_RAISE_LAST] = ENDS | PLAIN(0, 0),
    [MP_BC_RAISE_OBJ] = ENDS | PLAIN(1, 0),
    [MP_BC_RAISE_FROM] = ENDS | PLAIN(2, 0),
};

static void wrong(struct flow *flow, const char *what)
{
    mpy_stack_fault(&flow->stack, what);
}

// Height that the instruction uses above the slots that stay.
static void room_needed(struct flow *flow, size_t height)
{
    if (height > flow->stack.room) {
        wrong(flow, "bytecode: operand stack overflows");
    }
}

static size_t jump_target(struct flow *flow, bool is_signed)
{
    ptrdiff_t distance = *flow->at++;
    ptrdiff_t bias = 0x40;
    if ((distance & 0x80) != 0) {
        distance = (distance & 0x7F) | (*flow->at++ << 7);
        bias = 0x4000;
    }
    return (size_t)((flow->at - flow->code->start) + distance - (is_signed ? bias : 0));
}

// Leaves the path and takes up the next that waits. False: all were followed.
static bool path_next(struct flow *flow)
{
    size_t at;
    if (flow->stack.wrong != NULL || !mpy_next(&flow->stack, &at)) {
        return false;
    }
    flow->at = flow->code->start + at;
    return true;
}

static void value_pop(struct flow *flow)
{
    if (!mpy_is_value(mpy_pop(&flow->stack))) {
        wrong(flow, "bytecode: operand is not an object");
    }
}

// --- the stack itself

static void duplicate(struct flow *flow, size_t count)
{
    struct mpy_stack *stack = &flow->stack;
    uint16_t tags[2] = {mpy_top(stack)->tag, stack->slots[mpy_top(stack)->below].tag};
    for (size_t i = 0; i < count; i++) {
        if (mpy_top(stack)->depth < count || !mpy_is_object(tags[i])) {
            wrong(flow, "bytecode: operand is not an object");
            return;
        }
    }
    for (size_t i = count; i > 0; i--) {
        mpy_push(stack, tags[i - 1]);
    }
}

static void rotate(struct flow *flow, size_t count)
{
    struct mpy_stack *stack = &flow->stack;
    uint16_t tags[3];
    for (size_t i = 0; i < count; i++) {
        tags[i] = mpy_pop(stack);
        if (!mpy_is_value(tags[i])) {
            wrong(flow, "bytecode: operand is not an object");
            return;
        }
    }
    mpy_push(stack, tags[0]);
    for (size_t i = count; i > 1; i--) {
        mpy_push(stack, tags[i - 1]);
    }
}

static void drop(struct flow *flow)
{
    if ((mpy_pop(&flow->stack) & 0xF) == MPY_FINALLY) {
        wrong(flow, "bytecode: drops what a finally handler was entered with");
    }
}

// --- calls and functions

static void call(struct flow *flow, bool method, bool stars)
{
    struct mpy_stack *stack = &flow->stack;
    size_t operand = dev_mpy_operand(&flow->at);
    mpy_pop_objects(stack, stars ? 1 : 0); // which arguments have a star
    for (size_t i = operand >> 8; i > 0 && stack->wrong == NULL; i--) {
        mpy_pop_objects(stack, 1);
        uint16_t key = mpy_pop(stack);
        if ((key & 0xF) != MPY_NAME && !(stars && (key & 0xF) == MPY_NULL)) {
            wrong(flow, "bytecode: keyword of a call is not a name");
        }
    }
    mpy_pop_objects(stack, operand & 0xFF);
    if (method) {
        value_pop(flow);
    }
    mpy_pop_objects(stack, 1);
    mpy_push(stack, TAG_OBJECT);
}

static void method_load(struct flow *flow, size_t takes)
{
    (void)dev_mpy_operand(&flow->at);
    mpy_pop_objects(&flow->stack, takes);
    mpy_push(&flow->stack, TAG_OBJECT);
    mpy_push(&flow->stack, MPY_TAG(MPY_SELF, 0));
}

// Default values as they lie under a function's cells: a dictionary or nothing, a tuple or nothing.
static void defaults_pop(struct flow *flow, struct dev_mpy_made *made)
{
    uint16_t keywords = mpy_pop(&flow->stack);
    uint16_t positional = mpy_pop(&flow->stack);
    made->keywords = (keywords & 0xF) == MPY_DICT;
    made->defaults = (positional & 0xF) == MPY_TUPLE ? positional >> 4 : 0;
    if (!made->keywords && (keywords & 0xF) != MPY_NULL) {
        wrong(flow, "bytecode: keyword default values are not a dictionary");
    }
    if ((positional & 0xF) != MPY_TUPLE && (positional & 0xF) != MPY_NULL) {
        wrong(flow, "bytecode: default values are not a tuple");
    }
}

static void function_make(struct flow *flow, bool defaults, bool closure)
{
    struct dev_mpy_made made = {.reached = true};
    struct dev_mpy_made *known = &flow->code->children_made[dev_mpy_operand(&flow->at)];
    if (closure) {
        made.closed = *flow->at++;
        for (size_t i = 0; i < made.closed && flow->stack.wrong == NULL; i++) {
            if ((mpy_pop(&flow->stack) & 0xF) != MPY_CELL) {
                wrong(flow, "bytecode: closes over what is not a cell");
            }
        }
        if (made.closed == 0) {
            wrong(flow, "bytecode: operand out of range");
        }
    }
    if (defaults) {
        defaults_pop(flow, &made);
    }
    if (known->reached && (known->defaults != made.defaults || known->closed != made.closed ||
                           known->keywords != made.keywords)) {
        wrong(flow, "bytecode: one function made in two ways");
    }
    *known = made;
    mpy_push(&flow->stack, TAG_OBJECT);
}

// --- iterators and collections

// Whether the four slots from `top` down are an iterator: one that lies in them, or one beside them
// in the second, as a generator expression puts it.
static bool iterator_in(const struct mpy_stack *stack, uint16_t top)
{
    bool here = true;
    bool beside = true;
    for (unsigned i = MPY_ITER_SLOTS; i > 0; i--) {
        uint16_t tag = stack->slots[top].tag;
        if (top == 0) {
            return false;
        }
        here = here && tag == MPY_TAG(MPY_ITER, i - 1);
        beside = beside && (i == 2 ? mpy_is_object(tag) : tag == MPY_TAG(MPY_NULL, 0));
        top = stack->slots[top].below;
    }
    return here || beside;
}

static uint16_t below(const struct mpy_stack *stack, uint16_t top, size_t count)
{
    for (; count > 0; count--) {
        top = stack->slots[top].below;
    }
    return top;
}

static void iterator_open(struct flow *flow)
{
    mpy_pop_objects(&flow->stack, 1);
    for (unsigned i = 0; i < MPY_ITER_SLOTS; i++) {
        mpy_push(&flow->stack, MPY_TAG(MPY_ITER, i));
    }
}

static void iterator_step(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    size_t target = jump_target(flow, false);
    uint16_t top = stack->top;
    if (!iterator_in(stack, top)) {
        wrong(flow, "bytecode: no iterator to step");
        return;
    }
    stack->top = below(stack, top, MPY_ITER_SLOTS);
    mpy_fork(stack, target);
    stack->top = top;
    mpy_push(stack, TAG_OBJECT);
}

static void build(struct flow *flow, uint8_t op)
{
    struct mpy_stack *stack = &flow->stack;
    size_t count = dev_mpy_operand(&flow->at);
    if (op == MP_BC_BUILD_MAP) {
        mpy_push(stack, MPY_TAG(MPY_DICT, 0)); // the number is only a hint
        return;
    }
    mpy_pop_objects(stack, count);
    switch (op) {
    case MP_BC_BUILD_TUPLE:
        mpy_push(stack, MPY_TAG(MPY_TUPLE, count));
        break;
    case MP_BC_BUILD_LIST:
        mpy_push(stack, MPY_TAG(MPY_LIST, 0));
        break;
    case MP_BC_BUILD_SET:
        mpy_push(stack, MPY_TAG(MPY_SET, 0));
        break;
    default:
        mpy_push(stack, TAG_OBJECT);
    }
}

static void unpack(struct flow *flow, uint8_t op)
{
    size_t operand = dev_mpy_operand(&flow->at);
    size_t count = op == MP_BC_UNPACK_EX ? (operand & 0xFF) + (operand >> 8) + 1 : operand;
    mpy_pop_objects(&flow->stack, 1);
    for (; count > 0 && flow->stack.wrong == NULL; count--) {
        mpy_push(&flow->stack, TAG_OBJECT);
    }
}

// A comprehension's collection lies a number of slots down.
static void comprehension_store(struct flow *flow)
{
    static const uint8_t kinds[] = {MPY_LIST, MPY_DICT, MPY_SET};
    struct mpy_stack *stack = &flow->stack;
    size_t operand = dev_mpy_operand(&flow->at);
    uint16_t top = stack->top;
    for (size_t i = operand >> 2; i > 0 && top != 0; i--) {
        if ((stack->slots[top].tag & 0xF) == MPY_FINALLY) {
            break; // one slot or two: where things lie below is not known
        }
        top = stack->slots[top].below;
    }
    if ((stack->slots[top].tag & 0xF) != kinds[operand & 3]) {
        wrong(flow, "bytecode: no collection to store into");
    }
    mpy_pop_objects(stack, (operand & 3) == 1 ? 2 : 1);
}

static void pair_store(struct flow *flow)
{
    mpy_pop_objects(&flow->stack, 2);
    if (!mpy_is_object(mpy_top(&flow->stack)->tag)) { // the interpreter asks whether it is a dict
        wrong(flow, "bytecode: operand is not an object");
    }
}

static void attribute_store(struct flow *flow)
{
    (void)dev_mpy_operand(&flow->at);
    mpy_pop_objects(&flow->stack, 1);
    value_pop(flow); // none: delete
}

// --- exception blocks

static void block_open(struct flow *flow, uint8_t op)
{
    struct mpy_stack *stack = &flow->stack;
    size_t handler = jump_target(flow, false);
    if (stack->blocks[stack->block].level >= flow->code->head.blocks) {
        wrong(flow, "bytecode: more exception blocks than it declares");
        return;
    }
    if (op != MP_BC_SETUP_WITH) {
        mpy_block_open(stack, op == MP_BC_SETUP_EXCEPT ? MPY_EXCEPT : MPY_FINALLY_BLOCK,
                       flow->start, handler);
        return;
    }
    room_needed(flow, mpy_top(stack)->height + 3U); // both methods, looked up
    mpy_pop_objects(stack, 1);
    mpy_push(stack, TAG_OBJECT);
    mpy_push(stack, MPY_TAG(MPY_SELF, 0));
    if (stack->wrong == NULL) {
        mpy_block_open(stack, MPY_WITH, flow->start, handler);
    }
    mpy_push(stack, TAG_OBJECT);
}

// Whether the top slot is why the innermost block's handler was entered.
static bool reason_on_top(const struct mpy_stack *stack)
{
    const struct mpy_block *block = &stack->blocks[stack->block];
    const struct mpy_slot *top = mpy_top(stack);
    return stack->block != 0 && block->phase == MPY_HANDLER &&
           top->tag == MPY_TAG(MPY_FINALLY, 0) && top->depth == block->depth + 1U;
}

static void with_cleanup(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    const struct mpy_block *block = &stack->blocks[stack->block];
    if (!reason_on_top(stack) || block->kind != MPY_WITH || *flow->at != MP_BC_END_FINALLY) {
        wrong(flow, "bytecode: not at the end of a with block");
        return;
    }
    room_needed(flow, stack->slots[mpy_top(stack)->below].height + 3U); // __exit__'s arguments
    stack->top = below(stack, stack->top, 3);
    mpy_block_phase(stack, MPY_CLEANED);
    mpy_push(stack, MPY_TAG(MPY_FINALLY, 0));
}

// True: the path goes on behind it.
static bool finally_end(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    const struct mpy_block *block = &stack->blocks[stack->block];
    const struct mpy_slot *top = mpy_top(stack);
    if (stack->block == 0) {
        wrong(flow, "bytecode: no exception block to end");
        return false;
    }
    if (block->kind == MPY_EXCEPT) {
        if (block->phase != MPY_HANDLER || (top->tag & 0xF) != MPY_EXCEPTION) {
            wrong(flow, "bytecode: handler ends without its exception");
        }
        return false; // raised again
    }
    bool cleaned = block->phase == MPY_CLEANED && top->tag == MPY_TAG(MPY_FINALLY, 0) &&
                   top->depth + 1U == block->depth;
    if (!cleaned && !reason_on_top(stack)) {
        wrong(flow, "bytecode: finally handler ends without its reason");
        return false;
    }
    stack->top = top->below;
    stack->block = block->below;
    return true;
}

static void except_leave(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    size_t target = jump_target(flow, false);
    if (stack->block == 0 || stack->blocks[stack->block].kind != MPY_EXCEPT) {
        wrong(flow, "bytecode: no except block to leave");
        return;
    }
    stack->block = stack->blocks[stack->block].below;
    mpy_fork(stack, target);
}

// One block of those that an unwinding jump leaves: its finally handler runs in between, or was
// entered and is given up.
static void block_unwind(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    const struct mpy_block *block = &stack->blocks[stack->block];
    if (stack->block == 0) {
        wrong(flow, "bytecode: leaves more exception blocks than are open");
        return;
    }
    if (block->kind != MPY_EXCEPT && block->phase == MPY_BODY) {
        if (mpy_top(stack)->depth != block->depth) {
            wrong(flow, "bytecode: leaves an exception block with another stack");
        }
        stack->top = below(stack, stack->top, block->kind == MPY_WITH ? 2 : 0);
    } else if (block->kind != MPY_EXCEPT) {
        if (!reason_on_top(stack)) {
            wrong(flow, "bytecode: leaves an exception block with another stack");
        }
        stack->top = below(stack, stack->top, 1);
    }
    stack->block = block->below;
}

static void unwind_jump(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    size_t target = jump_target(flow, true);
    uint8_t how = *flow->at++;
    room_needed(flow, mpy_top(stack)->height + 2U); // where to, and how many blocks are left
    if ((how & 0x7F) == 0) {
        wrong(flow, "bytecode: operand out of range");
    }
    for (unsigned i = how & 0x7F; i > 0 && stack->wrong == NULL; i--) {
        block_unwind(flow);
    }
    if ((how & 0x80) != 0 && stack->wrong == NULL) {
        if (!iterator_in(stack, stack->top)) {
            wrong(flow, "bytecode: no iterator to drop");
        }
        stack->top = below(stack, stack->top, MPY_ITER_SLOTS);
    }
    if (stack->wrong == NULL) {
        mpy_fork(stack, target);
    }
}

// --- following

// A jump that goes on behind itself too.
static void branch(struct flow *flow, uint8_t op)
{
    bool pops_first = op == MP_BC_POP_JUMP_IF_TRUE || op == MP_BC_POP_JUMP_IF_FALSE;
    size_t target = jump_target(flow, pops_first);
    uint16_t kept = mpy_top(&flow->stack)->tag;
    mpy_pop_objects(&flow->stack, 1);
    if (!pops_first) {
        mpy_push(&flow->stack, kept);
    }
    if (flow->stack.wrong == NULL) {
        mpy_fork(&flow->stack, target);
    }
    if (!pops_first) {
        mpy_pop_objects(&flow->stack, 1);
    }
}

static void local_load(struct flow *flow, size_t local)
{
    bool cell = dev_mpy_bit(flow->code->cell_bits, local);
    mpy_push(&flow->stack, MPY_TAG(cell ? MPY_CELL : MPY_OBJECT, 0));
}

// Instructions that do more than take and leave objects. True: the path goes on behind it.
static bool special(struct flow *flow, uint8_t op)
{
    struct mpy_stack *stack = &flow->stack;
    switch (op) {
    case MP_BC_LOAD_CONST_NONE:
        mpy_push(stack, MPY_TAG(MPY_NONE, 0));
        return true;
    case MP_BC_LOAD_CONST_STRING:
        (void)dev_mpy_operand(&flow->at);
        mpy_push(stack, MPY_TAG(MPY_NAME, 0));
        return true;
    case MP_BC_LOAD_NULL:
        mpy_push(stack, MPY_TAG(MPY_NULL, 0));
        return true;
    case MP_BC_LOAD_FAST_N:
        local_load(flow, dev_mpy_operand(&flow->at));
        return true;
    case MP_BC_LOAD_METHOD:
    case MP_BC_LOAD_SUPER_METHOD: // the interpreter asks what it was given
        method_load(flow, op == MP_BC_LOAD_METHOD ? 1 : 3);
        return true;
    case MP_BC_STORE_ATTR:
        attribute_store(flow);
        return true;
    case MP_BC_STORE_SUBSCR:
        mpy_pop_objects(stack, 2);
        value_pop(flow);
        return true;
    case MP_BC_DUP_TOP:
    case MP_BC_DUP_TOP_TWO:
        duplicate(flow, op == MP_BC_DUP_TOP ? 1 : 2);
        return true;
    case MP_BC_POP_TOP:
        drop(flow);
        return true;
    case MP_BC_ROT_TWO:
    case MP_BC_ROT_THREE:
        rotate(flow, op == MP_BC_ROT_TWO ? 2 : 3);
        return true;
    case MP_BC_GET_ITER_STACK:
        iterator_open(flow);
        return true;
    case MP_BC_FOR_ITER:
        iterator_step(flow);
        return true;
    case MP_BC_BUILD_TUPLE:
    case MP_BC_BUILD_LIST:
    case MP_BC_BUILD_MAP:
    case MP_BC_BUILD_SET:
    case MP_BC_BUILD_SLICE:
        build(flow, op);
        return true;
    case MP_BC_UNPACK_SEQUENCE:
    case MP_BC_UNPACK_EX:
        unpack(flow, op);
        return true;
    case MP_BC_STORE_MAP:
        pair_store(flow);
        return true;
    case MP_BC_STORE_COMP:
        comprehension_store(flow);
        return true;
    case MP_BC_IMPORT_FROM:
        (void)dev_mpy_operand(&flow->at);
        duplicate(flow, 1);
        return true;
    default:
        return false;
    }
}

static bool control(struct flow *flow, uint8_t op)
{
    struct mpy_stack *stack = &flow->stack;
    switch (op) {
    case MP_BC_CALL_FUNCTION:
    case MP_BC_CALL_FUNCTION_VAR_KW:
    case MP_BC_CALL_METHOD:
    case MP_BC_CALL_METHOD_VAR_KW:
        call(flow, op >= MP_BC_CALL_METHOD,
             op == MP_BC_CALL_FUNCTION_VAR_KW || op == MP_BC_CALL_METHOD_VAR_KW);
        return true;
    case MP_BC_MAKE_FUNCTION:
    case MP_BC_MAKE_FUNCTION_DEFARGS:
    case MP_BC_MAKE_CLOSURE:
    case MP_BC_MAKE_CLOSURE_DEFARGS:
        function_make(flow, op == MP_BC_MAKE_FUNCTION_DEFARGS || op == MP_BC_MAKE_CLOSURE_DEFARGS,
                      op == MP_BC_MAKE_CLOSURE || op == MP_BC_MAKE_CLOSURE_DEFARGS);
        return true;
    case MP_BC_POP_JUMP_IF_TRUE:
    case MP_BC_POP_JUMP_IF_FALSE:
    case MP_BC_JUMP_IF_TRUE_OR_POP:
    case MP_BC_JUMP_IF_FALSE_OR_POP:
        branch(flow, op);
        return true;
    case MP_BC_SETUP_WITH:
    case MP_BC_SETUP_EXCEPT:
    case MP_BC_SETUP_FINALLY:
        block_open(flow, op);
        return true;
    case MP_BC_WITH_CLEANUP:
        with_cleanup(flow);
        return true;
    case MP_BC_END_FINALLY:
        return finally_end(flow);
    case MP_BC_JUMP:
        mpy_fork(stack, jump_target(flow, true));
        return false;
    case MP_BC_UNWIND_JUMP:
        unwind_jump(flow);
        return false;
    case MP_BC_POP_EXCEPT_JUMP:
        except_leave(flow);
        return false;
    default:
        wrong(flow, "bytecode: unknown instruction");
        return false;
    }
}

// The operand of an instruction that takes and leaves objects says nothing more.
static void operand_skip(struct flow *flow, uint8_t op)
{
    if (MP_BC_FORMAT(op) != MP_BC_FORMAT_BYTE) {
        while ((*flow->at++ & 0x80) != 0) {
        }
    }
}

// True: the path goes on behind it.
static bool instruction_follow(struct flow *flow, uint8_t op)
{
    struct mpy_stack *stack = &flow->stack;
    uint8_t what = plain[op];
    if (what != 0) {
        operand_skip(flow, op);
        mpy_pop_objects(stack, what & 0xF);
        if ((what & 0x10) != 0) {
            mpy_push(stack, TAG_OBJECT);
        }
        return (what & ENDS) == 0;
    }
    if (op >= MP_BC_LOAD_FAST_MULTI && op < MP_BC_STORE_FAST_MULTI) {
        local_load(flow, op & 0xF);
        return true;
    }
    return special(flow, op) || control(flow, op);
}

static void paths_follow(struct flow *flow)
{
    struct mpy_stack *stack = &flow->stack;
    const uint8_t *start = flow->code->start;
    bool arrived = false; // the state is the place's already
    while (stack->wrong == NULL) {
        flow->start = (size_t)(flow->at - start);
        if (!arrived && dev_mpy_bit(stack->targets, flow->start) &&
            !mpy_arrive(stack, flow->start)) {
            if (!path_next(flow)) {
                return;
            }
            arrived = true;
            continue;
        }
        arrived = false;
        if (stack->work-- == 0) {
            stack->work = 0;
            wrong(flow, "bytecode: too complex to verify");
        } else if (!instruction_follow(flow, *flow->at++)) {
            if (!path_next(flow)) {
                return;
            }
            arrived = true;
        }
    }
}

const char *dev_mpy_flow_check(struct dev_mpy_code *code, void *scratch, size_t scratch_size)
{
    struct flow flow = {.code = code, .at = code->start};
    code->fault_in_instruction = false;
    if (!mpy_stack_init(&flow.stack, code, scratch, scratch_size)) {
        return dev_mpy_no_memory;
    }
    paths_follow(&flow);
    mpy_stack_done(&flow.stack);
    code->fault_in_instruction = flow.stack.wrong != NULL;
    code->fault_at = flow.start;
    return flow.stack.wrong;
}
