// The verifier of bytecode: functions patched by hand, one for each way in which the interpreter
// could be led out of its stacks or into a wrong type, are refused, with the place and the reason;
// and the same functions without the damage pass and run.
//
// A program is a module that makes one function and calls it. The inner function's instructions
// come from the table; heads are those that the compiler would write.
#include "vm_kit.h"

#include "vm/mpy/mpy_check.h"

#include "py/bc0.h"
#include "py/runtime0.h"

#define FILE_MAX  1024
#define CODE_MAX  48
#define NAME_F    1 // index of "f" in the name table
#define ADD       (MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_ADD)
#define INT(n)    (MP_BC_LOAD_CONST_SMALL_INT_MULTI + 16 + (n))
#define LOAD(n)   (MP_BC_LOAD_FAST_MULTI + (n))
#define STORE(n)  (MP_BC_STORE_FAST_MULTI + (n))
#define NONE      MP_BC_LOAD_CONST_NONE
#define RETURN    MP_BC_RETURN_VALUE
#define POP       MP_BC_POP_TOP
#define NUL       MP_BC_LOAD_NULL
#define NAME(op)  MP_BC_##op, NAME_F
#define BACK(n)   (uint8_t)(0x40 - (n))
#define AHEAD(n)  (uint8_t)(0x40 + (n))
#define POP4      POP, POP, POP, POP
#define FOR_TUPLE MP_BC_BUILD_TUPLE, 0, MP_BC_GET_ITER_STACK
#define CLOSURE   MP_BC_MAKE_CLOSURE, 0, 1
#define CODE(...) .code = {__VA_ARGS__}, .size = sizeof((uint8_t[]){__VA_ARGS__})

enum { GENERATOR = 1, VARKEYWORDS = 2, VARARGS = 4, DEFKWARGS = 8 };

struct function {
    const char *what; // NULL: the function is fine
    uint8_t code[CODE_MAX];
    size_t size;
    uint8_t state; // 0: 8
    uint8_t blocks;
    uint8_t flags;
    uint8_t args;
    uint8_t defaults;
    uint8_t cell;  // 1: local 0 is a cell
    uint8_t child; // 1: there is one, with two arguments, that reads a cell; 2: that does not
};

struct file {
    uint8_t bytes[FILE_MAX];
    size_t size;
};

static void put(struct file *file, const void *bytes, size_t size)
{
    assert_true(size <= FILE_MAX - file->size);
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

static void put_byte(struct file *file, unsigned byte)
{
    put(file, &(uint8_t){(uint8_t)byte}, 1);
}

static void put_uint(struct file *file, size_t value)
{
    if (value > 0x7F) {
        put_byte(file, (unsigned)(0x80 | value >> 7));
    }
    put_byte(file, value & 0x7F);
}

// Head and instructions of a function as .mpy has them.
static void put_function(struct file *file, const struct function *function, size_t children)
{
    struct file body = {.size = 0};
    unsigned s = (function->state == 0 ? 8U : function->state) - 1;
    unsigned e = function->blocks;
    unsigned f = function->flags;
    unsigned a = function->args;
    unsigned d = function->defaults;
    unsigned z = (s & 0xF) << 3 | (e & 1) << 2 | (a & 3);
    for (s >>= 4, e >>= 1, a >>= 2; (s | e | f | a | d) != 0;
         s >>= 2, e >>= 1, f >>= 1, a >>= 1, d >>= 1) {
        put_byte(&body, 0x80 | z);
        z = (f & 1) << 6 | (s & 3) << 4 | (a & 1) << 2 | (e & 1) << 1 | (d & 1);
    }
    put_byte(&body, z);
    put_byte(&body, (1U + function->args) << 1 | function->cell);
    for (unsigned i = 0; i < 1U + function->args; i++) {
        put_byte(&body, NAME_F);
    }
    if (function->cell != 0) {
        put_byte(&body, 0);
    }
    put(&body, function->code, function->size);
    put_uint(file, body.size << 3 | (children > 0 ? 4 : 0));
    put(file, body.bytes, body.size);
    if (children > 0) {
        put_uint(file, children);
    }
}

static void file_make(struct file *file, const struct function *function)
{
    static const struct function module = {
        NULL, CODE(MP_BC_MAKE_FUNCTION, 0, MP_BC_CALL_FUNCTION, 0, RETURN)};
    static const struct function module_defaults = {NULL, CODE(NONE, MP_BC_BUILD_TUPLE, 1, NUL,
                                                               MP_BC_MAKE_FUNCTION_DEFARGS, 0,
                                                               MP_BC_CALL_FUNCTION, 0, RETURN)};
    static const struct function with_cell = {NULL, CODE(MP_BC_LOAD_DEREF, 0, RETURN), .args = 2};
    static const struct function without_cell = {NULL, CODE(LOAD(0), RETURN), .args = 2};
    static const uint8_t head[] = {'M', 6, 0,      31,  2, 1, 4 << 1, 'm', '.', 'p',
                                   'y', 0, 1 << 1, 'f', 0, 5, 2,      'a', 'b', 0};
    file->size = 0;
    put(file, head, sizeof(head));
    put_function(file, function->args > 0 && function->defaults <= 1 ? &module_defaults : &module,
                 1);
    put_function(file, function, function->child != 0);
    if (function->child != 0) {
        put_function(file, function->child == 1 ? &with_cell : &without_cell, 0);
    }
}

static const struct function sound[] = {
    {NULL, CODE(NONE, RETURN)},
    {NULL, CODE(INT(1), STORE(0), LOAD(0), LOAD(0), ADD, RETURN), .state = 3},
    {NULL, CODE(FOR_TUPLE, MP_BC_FOR_ITER, 3, POP, MP_BC_JUMP, BACK(5), NONE, RETURN)},
    {NULL, CODE(NUL, MP_BC_BUILD_TUPLE, 0, MP_BC_GET_ITER, NUL, NUL, MP_BC_FOR_ITER, 3, POP,
                MP_BC_JUMP, BACK(5), NONE, RETURN)},
    {NULL,
     CODE(MP_BC_SETUP_EXCEPT, 4, INT(1), POP, MP_BC_POP_EXCEPT_JUMP, 4, POP, MP_BC_POP_EXCEPT_JUMP,
          1, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {NULL, CODE(MP_BC_SETUP_FINALLY, 3, INT(1), POP, NONE, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {NULL, CODE(MP_BC_SETUP_FINALLY, 3, INT(1), RETURN, NONE, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {NULL, CODE(MP_BC_BUILD_LIST, 0, FOR_TUPLE, MP_BC_FOR_ITER, 4, MP_BC_STORE_COMP, 5 << 2,
                MP_BC_JUMP, BACK(6), RETURN)},
    {NULL,
     CODE(INT(1), MP_BC_STORE_DEREF, 0, LOAD(0), CLOSURE, INT(2), MP_BC_CALL_FUNCTION, 1, RETURN),
     .cell = 1, .child = 1},
    {NULL, CODE(NONE, RETURN), .args = 1, .defaults = 1},
    {NULL, CODE(NONE, MP_BC_YIELD_VALUE, RETURN), .flags = GENERATOR},
    {NULL, CODE(MP_BC_BUILD_MAP, 1, INT(1), INT(2), MP_BC_STORE_MAP, RETURN)},
};

#define UNDER    "bytecode: operand stack underflows"
#define OVER     "bytecode: operand stack overflows"
#define OBJECT   "bytecode: operand is not an object"
#define MEET     "bytecode: paths meet with different stacks"
#define BLOCKS   "bytecode: paths meet in different exception blocks"
#define STANDS   "bytecode: takes what an exception block stands on"
#define LEAVES   "bytecode: leaves an exception block without its end"
#define OTHER    "bytecode: leaves an exception block with another stack"
#define RANGE    "bytecode: operand out of range"
#define NO_END   "bytecode: function without an end"
#define NOT_CELL "bytecode: local is not a cell"
#define NO_ITER  "bytecode: no iterator to step"
#define TARGET   "bytecode: no collection to store into"

static const struct function damaged[] = {
    // Depth: below the stack.
    {UNDER, CODE(RETURN)},
    {UNDER, CODE(POP, NONE, RETURN)},
    {UNDER, CODE(INT(1), ADD, RETURN)},
    {UNDER, CODE(MP_BC_ROT_TWO, RETURN)},
    {UNDER, CODE(NONE, NONE, MP_BC_ROT_THREE, RETURN)},
    {OBJECT, CODE(MP_BC_DUP_TOP, RETURN)},
    {OBJECT, CODE(NONE, MP_BC_DUP_TOP_TWO, RETURN)},
    {UNDER, CODE(NONE, MP_BC_BUILD_TUPLE, 3, RETURN)},
    {UNDER, CODE(NONE, MP_BC_BUILD_LIST, 2, RETURN)},
    {UNDER, CODE(NONE, MP_BC_BUILD_SET, 2, RETURN)},
    {UNDER, CODE(NONE, MP_BC_BUILD_SLICE, 2, RETURN)},
    {UNDER, CODE(NONE, MP_BC_CALL_FUNCTION, 2, RETURN)},
    {UNDER, CODE(NONE, MP_BC_CALL_METHOD, 0, RETURN)},
    {UNDER, CODE(NONE, NAME(STORE_ATTR), NONE, RETURN)},
    {UNDER, CODE(NONE, NONE, MP_BC_STORE_SUBSCR, NONE, RETURN)},
    {UNDER, CODE(NAME(LOAD_METHOD), RETURN)},
    {UNDER, CODE(NONE, NAME(LOAD_SUPER_METHOD), RETURN)},
    {UNDER, CODE(MP_BC_UNPACK_SEQUENCE, 1, RETURN)},
    {UNDER, CODE(NONE, NAME(IMPORT_NAME), RETURN)},
    {UNDER, CODE(INT(1), MP_BC_POP_JUMP_IF_TRUE, AHEAD(0), RETURN)},
    {UNDER, CODE(MP_BC_RAISE_OBJ)},
    // Depth: above the stack, also for a moment.
    {OVER, CODE(NONE, NONE, POP, RETURN), .state = 1},
    {OVER, CODE(NONE, STORE(0), NONE, NONE, POP, RETURN), .state = 2},
    {OVER, CODE(NONE, STORE(0), NONE, MP_BC_UNPACK_SEQUENCE, 8, POP4, POP4, NONE, RETURN),
     .state = 8},
    {OVER,
     CODE(NONE, MP_BC_SETUP_WITH, 2, POP, NONE, MP_BC_WITH_CLEANUP, MP_BC_END_FINALLY, NONE,
          RETURN),
     .state = 3, .blocks = 1},
    {OVER,
     CODE(NONE, MP_BC_SETUP_WITH, 2, POP, NONE, MP_BC_WITH_CLEANUP, MP_BC_END_FINALLY, NONE,
          RETURN),
     .state = 4, .blocks = 1},
    {OVER, CODE(MP_BC_SETUP_FINALLY, 1, NONE, MP_BC_END_FINALLY, NONE, RETURN), .state = 1,
     .blocks = 1},
    {OVER,
     CODE(MP_BC_SETUP_EXCEPT, 3, MP_BC_UNWIND_JUMP, AHEAD(2), 1, MP_BC_END_FINALLY, NONE, RETURN),
     .state = 1, .blocks = 1},
    {OVER, CODE(MP_BC_BUILD_TUPLE, 0, MP_BC_GET_ITER_STACK, POP4, NONE, RETURN), .state = 3},
    // Merges.
    {MEET, CODE(NONE, INT(1), MP_BC_POP_JUMP_IF_TRUE, AHEAD(1), INT(1), RETURN)},
    {MEET, CODE(INT(1), INT(1), MP_BC_POP_JUMP_IF_TRUE, BACK(4), RETURN)},
    {MEET, CODE(NONE, MP_BC_JUMP, BACK(3))},
    {MEET, CODE(INT(1), MP_BC_JUMP_IF_TRUE_OR_POP, 0, RETURN)},
    // Kinds of slots.
    {OBJECT, CODE(NUL, RETURN)},
    {OBJECT, CODE(NUL, STORE(0), NONE, RETURN)},
    {OBJECT, CODE(NUL, NAME(STORE_GLOBAL), NONE, RETURN)},
    {OBJECT, CODE(NUL, MP_BC_CALL_FUNCTION, 0, RETURN)},
    {OBJECT, CODE(NONE, NUL, MP_BC_CALL_FUNCTION, 1, RETURN)},
    {OBJECT, CODE(NONE, NAME(LOAD_METHOD), MP_BC_CALL_FUNCTION, 0, RETURN)},
    {OBJECT, CODE(NUL, NONE, MP_BC_CALL_METHOD, 0, RETURN)},
    {OBJECT, CODE(NUL, NAME(LOAD_ATTR), RETURN)},
    {OBJECT, CODE(NUL, MP_BC_GET_ITER, RETURN)},
    {OBJECT, CODE(NONE, NUL, ADD, RETURN)},
    {OBJECT, CODE(NUL, MP_BC_RAISE_OBJ)},
    {"bytecode: keyword of a call is not a name",
     CODE(NONE, INT(1), NONE, MP_BC_CALL_FUNCTION, 0x82, 0, RETURN)},
    {"bytecode: keyword of a call is not a name",
     CODE(NONE, NUL, NONE, MP_BC_CALL_FUNCTION, 0x82, 0, RETURN)},
    {"bytecode: keyword of a call is not a name",
     CODE(NONE, MP_BC_LOAD_CONST_OBJ, 0, NONE, INT(0), MP_BC_CALL_FUNCTION_VAR_KW, 0x82, 0,
          RETURN)},
    {OBJECT, CODE(FOR_TUPLE, RETURN)},
    {OBJECT, CODE(FOR_TUPLE, MP_BC_DUP_TOP, RETURN)},
    {OBJECT, CODE(FOR_TUPLE, MP_BC_ROT_TWO, NONE, RETURN)},
    {NO_ITER, CODE(NONE, NONE, NONE, NONE, MP_BC_FOR_ITER, 0, RETURN)},
    {NO_ITER, CODE(NUL, NUL, NUL, NUL, MP_BC_FOR_ITER, 0, RETURN)},
    {NO_ITER, CODE(NUL, NONE, NUL, MP_BC_FOR_ITER, 0, RETURN)},
    {NO_ITER, CODE(FOR_TUPLE, POP, NONE, MP_BC_FOR_ITER, 0, RETURN)},
    {NO_ITER, CODE(NONE, MP_BC_GET_ITER, MP_BC_FOR_ITER, 0, RETURN)},
    {TARGET, CODE(NONE, NONE, MP_BC_STORE_COMP, 1 << 2, RETURN)},
    {TARGET, CODE(MP_BC_BUILD_MAP, 0, NONE, MP_BC_STORE_COMP, 1 << 2, RETURN)},
    {TARGET, CODE(MP_BC_BUILD_LIST, 0, NONE, NONE, MP_BC_STORE_COMP, 2 << 2 | 1, RETURN)},
    {TARGET, CODE(MP_BC_BUILD_LIST, 0, NONE, MP_BC_STORE_COMP, 1 << 2 | 2, RETURN)},
    {TARGET, CODE(NONE, MP_BC_STORE_COMP, 7 << 2, RETURN)},
    {RANGE, CODE(MP_BC_BUILD_SET, 0, NONE, MP_BC_STORE_COMP, 1 << 2 | 3, RETURN)},
    {OBJECT, CODE(NUL, NONE, NONE, MP_BC_STORE_MAP, RETURN)},
    // Cells, functions, default values.
    {NOT_CELL, CODE(MP_BC_LOAD_DEREF, 0, RETURN)},
    {NOT_CELL, CODE(INT(1), STORE(0), INT(1), MP_BC_STORE_DEREF, 0, NONE, RETURN)},
    {NOT_CELL, CODE(MP_BC_DELETE_DEREF, 0, NONE, RETURN)},
    {"bytecode: local is a cell", CODE(INT(1), STORE(0), MP_BC_LOAD_DEREF, 0, RETURN), .cell = 1},
    {"bytecode: local is a cell", CODE(MP_BC_DELETE_FAST, 0, MP_BC_LOAD_DEREF, 0, RETURN),
     .cell = 1},
    {"bytecode: closes over what is not a cell",
     CODE(INT(1), CLOSURE, NONE, MP_BC_CALL_FUNCTION, 1, RETURN), .child = 1},
    {NOT_CELL, CODE(MP_BC_MAKE_FUNCTION, 0, INT(1), INT(2), MP_BC_CALL_FUNCTION, 2, RETURN),
     .child = 1},
    {RANGE, CODE(MP_BC_MAKE_CLOSURE, 0, 0, RETURN), .cell = 1, .child = 2},
    {"bytecode: made with more cells than it has arguments",
     CODE(LOAD(0), LOAD(0), LOAD(0), MP_BC_MAKE_CLOSURE, 0, 3, RETURN), .cell = 1, .child = 2},
    {"bytecode: one function made in two ways",
     CODE(LOAD(0), CLOSURE, POP, MP_BC_MAKE_FUNCTION, 0, RETURN), .cell = 1, .child = 2},
    {"bytecode: default values are not a tuple",
     CODE(INT(1), NUL, MP_BC_MAKE_FUNCTION_DEFARGS, 0, RETURN), .child = 2},
    {"bytecode: keyword default values are not a dictionary",
     CODE(NUL, INT(1), MP_BC_MAKE_FUNCTION_DEFARGS, 0, RETURN), .child = 2},
    {"bytecode: made with other default values than it declares",
     CODE(NONE, MP_BC_BUILD_TUPLE, 1, NUL, MP_BC_MAKE_FUNCTION_DEFARGS, 0, RETURN), .child = 2},
    {"bytecode: made with other keyword default values than it declares",
     CODE(NUL, MP_BC_BUILD_MAP, 0, MP_BC_MAKE_FUNCTION_DEFARGS, 0, RETURN), .child = 2},
    {"bytecode: made with other default values than it declares", CODE(NONE, RETURN), .args = 1},
    {"bytecode: more default values than arguments", CODE(NONE, RETURN), .args = 1, .defaults = 2},
    {"bytecode: made with other keyword default values than it declares", CODE(NONE, RETURN),
     .flags = DEFKWARGS},
    {"bytecode: damaged function head", CODE(NONE, RETURN), .state = 1, .args = 1, .defaults = 1,
     .flags = VARARGS | VARKEYWORDS},
    // Generators.
    {"bytecode: yield outside a generator", CODE(NONE, MP_BC_YIELD_VALUE, RETURN)},
    {"bytecode: yield outside a generator", CODE(NONE, NONE, MP_BC_YIELD_FROM, RETURN)},
    {UNDER, CODE(NONE, MP_BC_YIELD_FROM, RETURN), .flags = GENERATOR},
    {NO_ITER, CODE(FOR_TUPLE, NONE, MP_BC_YIELD_VALUE, MP_BC_FOR_ITER, 0, NONE, RETURN),
     .flags = GENERATOR},
    // Exception blocks.
    {"bytecode: no exception block to end", CODE(NONE, MP_BC_END_FINALLY, NONE, RETURN)},
    {"bytecode: no except block to leave", CODE(MP_BC_POP_EXCEPT_JUMP, 0, NONE, RETURN)},
    {"bytecode: no except block to leave",
     CODE(MP_BC_SETUP_FINALLY, 3, MP_BC_POP_EXCEPT_JUMP, 2, NONE, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: more exception blocks than it declares",
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, MP_BC_END_FINALLY, NONE, RETURN)},
    {"bytecode: leaves more exception blocks than are open",
     CODE(MP_BC_UNWIND_JUMP, AHEAD(1), 1, NONE, RETURN)},
    {"bytecode: leaves more exception blocks than are open",
     CODE(MP_BC_SETUP_EXCEPT, 3, MP_BC_UNWIND_JUMP, AHEAD(2), 2, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {RANGE, CODE(MP_BC_UNWIND_JUMP, AHEAD(1), 0, NONE, RETURN)},
    {"bytecode: no iterator to drop",
     CODE(MP_BC_SETUP_EXCEPT, 3, MP_BC_UNWIND_JUMP, AHEAD(2), 0x81, MP_BC_END_FINALLY, NONE,
          RETURN),
     .blocks = 1},
    {OTHER,
     CODE(MP_BC_SETUP_FINALLY, 6, INT(1), MP_BC_UNWIND_JUMP, AHEAD(4), 1, POP, NONE,
          MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: finally handler ends without its reason",
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, INT(1), MP_BC_END_FINALLY, NONE, RETURN), .blocks = 1},
    {"bytecode: drops what a finally handler was entered with",
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, POP, NONE, MP_BC_END_FINALLY, NONE, RETURN), .blocks = 1},
    {OBJECT, CODE(MP_BC_SETUP_FINALLY, 1, NONE, RETURN), .blocks = 1},
    {OBJECT,
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, MP_BC_DUP_TOP, POP, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: handler ends without its exception",
     CODE(MP_BC_SETUP_EXCEPT, 2, MP_BC_POP_EXCEPT_JUMP, 3, POP, INT(0), MP_BC_END_FINALLY, NONE,
          RETURN),
     .blocks = 1},
    {"bytecode: handler ends without its exception",
     CODE(MP_BC_SETUP_EXCEPT, 2, MP_BC_POP_EXCEPT_JUMP, 3, POP, NONE, MP_BC_END_FINALLY, NONE,
          RETURN),
     .blocks = 1},
    {STANDS, CODE(INT(1), MP_BC_SETUP_FINALLY, 2, POP, NONE, NONE, MP_BC_END_FINALLY, RETURN),
     .blocks = 1},
    {STANDS,
     CODE(NONE, MP_BC_SETUP_WITH, 3, POP, POP, NONE, MP_BC_WITH_CLEANUP, MP_BC_END_FINALLY, NONE,
          RETURN),
     .blocks = 1},
    {LEAVES, CODE(MP_BC_SETUP_EXCEPT, 1, NONE, RETURN), .blocks = 1},
    {LEAVES, CODE(MP_BC_SETUP_FINALLY, 2, MP_BC_JUMP, AHEAD(1), MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: jumps back out of a handler",
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, MP_BC_JUMP, BACK(3)), .blocks = 1},
    {BLOCKS,
     CODE(INT(1), MP_BC_POP_JUMP_IF_TRUE, AHEAD(2), MP_BC_SETUP_EXCEPT, 4, INT(1), POP,
          MP_BC_POP_EXCEPT_JUMP, 1, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: not at the end of a with block",
     CODE(NONE, NONE, NONE, MP_BC_WITH_CLEANUP, MP_BC_END_FINALLY, NONE, RETURN)},
    {"bytecode: not at the end of a with block",
     CODE(MP_BC_SETUP_FINALLY, 1, NONE, MP_BC_WITH_CLEANUP, MP_BC_END_FINALLY, NONE, RETURN),
     .blocks = 1},
    {"bytecode: not at the end of a with block",
     CODE(NONE, MP_BC_SETUP_WITH, 2, POP, NONE, MP_BC_WITH_CLEANUP, NONE, RETURN), .blocks = 1},
    // Form.
    {NO_END, CODE(NONE, POP)},
    {NO_END, CODE(NONE, MP_BC_POP_JUMP_IF_TRUE, BACK(3))},
    {"bytecode: jump into an instruction",
     CODE(NONE, MP_BC_JUMP, AHEAD(1), NAME(LOAD_GLOBAL), RETURN)},
    {"bytecode: jump out of the function", CODE(MP_BC_JUMP, AHEAD(5), NONE, RETURN)},
    {"bytecode: unknown instruction", CODE(NONE, 0x41, RETURN)},
    {"bytecode: unknown instruction", CODE(NONE, 0x00, RETURN)},
    {"bytecode: local out of range", CODE(LOAD(9), RETURN)},
    {RANGE, CODE(MP_BC_LOAD_CONST_OBJ, 1, RETURN)},
    {RANGE, CODE(MP_BC_MAKE_FUNCTION, 0, RETURN)},
    {RANGE, CODE(NONE, NONE, MP_BC_BUILD_SLICE, 4, RETURN)},
    {RANGE, CODE(NONE, NONE, MP_BC_BUILD_SLICE, 0x80, 2, RETURN)},
    {"bytecode: name out of range", CODE(MP_BC_LOAD_GLOBAL, 2, RETURN)},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void run_file(struct vm_kit *kit, const struct file *file)
{
    kit->modules[0] = (struct dev_vm_module){BASE_STR("main"), file->bytes, file->size};
    kit->job.module_count = 1;
    kit_run(kit);
    kit->job.module_count = 0;
}

static void test_sound_functions_pass_and_run(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 64);
    for (size_t i = 0; i < COUNT(sound); i++) {
        struct file file;
        struct dev_mpy_fault fault = {0};
        file_make(&file, &sound[i]);
        if (dev_mpy_check(file.bytes, file.size, &fault) != BASE_OK) {
            char text[160];
            dev_mpy_fault_text(&fault, text, sizeof(text));
            fail_msg("sound function %zu: %s", i, text);
        }
        run_file(&kit, &file);
        kit_ended(&kit, DEV_VM_FINISHED);
    }
    kit_done(&kit);
}

static void test_damaged_functions_are_refused(void **state)
{
    (void)state;
    unsigned passed = 0;
    for (size_t i = 0; i < COUNT(damaged); i++) {
        struct file file;
        struct dev_mpy_fault fault = {0};
        file_make(&file, &damaged[i]);
        if (dev_mpy_check(file.bytes, file.size, &fault) == BASE_OK) {
            (void)fprintf(stderr, "damage %zu passed; it is: %s\n", i, damaged[i].what);
            passed++;
        } else if (strcmp(fault.what, damaged[i].what) != 0) {
            (void)fprintf(stderr, "damage %zu: '%s', not '%s'\n", i, fault.what, damaged[i].what);
            passed++;
        }
    }
    assert_int_equal(passed, 0);
    assert_true(COUNT(damaged) >= 60);
}

static void test_a_refusal_says_where(void **state)
{
    static const struct function function = {NULL, CODE(NONE, STORE(0), INT(1), ADD, RETURN)};
    (void)state;
    struct vm_kit kit;
    struct file file;
    struct dev_mpy_fault fault;
    kit_init(&kit, 64);
    file_make(&file, &function);
    assert_int_equal(dev_mpy_check(file.bytes, file.size, &fault), BASE_ERR_INVALID);
    assert_string_equal(fault.function, "f");
    assert_int_equal(fault.at, 3);
    assert_int_equal(file.bytes[fault.offset], ADD);
    run_file(&kit, &file);
    kit_ended(&kit, DEV_VM_LOAD);
    assert_string_equal(kit.result.type, "LoadError");
    assert_string_equal(kit.result.message,
                        "bytecode: operand stack underflows, in f at byte 3, BINARY_OP");
    assert_string_equal(kit.result.file, "main");
    assert_int_equal(dev_vm_end_outcome(kit.result.end), WIRE_OUTCOME_FAIL_LOAD);
    kit_done(&kit);
}

// What the verifier leaves to the interpreter, because it depends on what names stand for.
static void test_names_that_mean_something_else(void **state)
{
    static const char *const scripts[] = {
        "def OrderedDict():\n    return 5\nOrderedDict({1: 2})\n",
        "__class__ = 5\ndef f(self):\n    super().g()\nf(1)\n",
        "__class__ = (int, str)\ndef f(self):\n    super().g()\nf(1)\n",
        "super((int, str), 5).x\n",
        "class A:\n    pass\n__class__ = A\ndef f(self):\n    super().g()\nf(1)\n",
        "import builtins\nbuiltins.__import__ = lambda *a: 5\nfrom x import *\n",
        "class A(list):\n    pass\nA.append(A(), 1)\n",
        "class A(list):\n    @classmethod\n    def m(cls):\n        super().append(1)\nA.m()\n",
        "class A(list):\n    @classmethod\n    def m(cls):\n        super().append(A(), "
        "1)\nA.m()\n",
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 64);
    for (size_t i = 0; i < COUNT(scripts); i++) {
        kit_run_source(&kit, scripts[i]);
        kit_ended(&kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit.result.type, "TypeError");
    }
    kit_run_source(&kit, "b = b'12345678'\n__build_class__(lambda: b, 'X')\nprint(b)\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output, "b'12345678'\n");
    kit_done(&kit);
}

// Compiled code that asked for too few slots, or laid arguments where keywords belong.
static void test_what_the_compiler_did_wrong(void **state)
{
    static const char *const refused[] = {
        "f(k=1, *[2])\n",
        "async def f(x):\n    async with x:\n        pass\n",
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 64);
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct base_error error = {.status = BASE_OK};
        uint8_t *mpy = NULL;
        size_t size = 0;
        assert_int_equal(
            dev_vm_compile(base_str_of(refused[i]), BASE_STR("a.py"), &mpy, &size, &error),
            BASE_ERR_INVALID);
        assert_memory_equal(error.text, "SyntaxError: ", 13);
    }
    kit_run_source(&kit, "def f():\n    while 1:\n        try:\n            return 1\n"
                         "        finally:\n            break\n    return 2\nprint(f())\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output, "2\n");
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_functions_pass_and_run),
        cmocka_unit_test(test_damaged_functions_are_refused),
        cmocka_unit_test(test_a_refusal_says_where),
        cmocka_unit_test(test_names_that_mean_something_else),
        cmocka_unit_test(test_what_the_compiler_did_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
