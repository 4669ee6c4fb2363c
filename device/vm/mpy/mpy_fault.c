// What the verifier found as text for people: the names of instructions and of functions. Called
// only when a file was refused: by mpy_check.c for the names, by vm_import.c, the compiler and
// `walle task build` for the text; pure. Apart from the checks, since its table is as long as one
// of them and of no use to a run. Instructions are named by py/bc0.h, and names that a file gives
// by number alone by MicroPython's own static table.
#include "vm/mpy/mpy_code.h"

#include "py/bc0.h"
#include "py/qstr.h"
#include "py/runtime0.h"

#include <stdio.h>

extern const qstr_pool_t mp_qstr_const_pool_static; // names that are the same in every build

static const char *const names[256] = {
    [MP_BC_LOAD_CONST_FALSE] = "LOAD_CONST_FALSE",
    [MP_BC_LOAD_CONST_NONE] = "LOAD_CONST_NONE",
    [MP_BC_LOAD_CONST_TRUE] = "LOAD_CONST_TRUE",
    [MP_BC_LOAD_CONST_SMALL_INT] = "LOAD_CONST_SMALL_INT",
    [MP_BC_LOAD_CONST_STRING] = "LOAD_CONST_STRING",
    [MP_BC_LOAD_CONST_OBJ] = "LOAD_CONST_OBJ",
    [MP_BC_LOAD_NULL] = "LOAD_NULL",
    [MP_BC_LOAD_FAST_N] = "LOAD_FAST",
    [MP_BC_LOAD_DEREF] = "LOAD_DEREF",
    [MP_BC_LOAD_NAME] = "LOAD_NAME",
    [MP_BC_LOAD_GLOBAL] = "LOAD_GLOBAL",
    [MP_BC_LOAD_ATTR] = "LOAD_ATTR",
    [MP_BC_LOAD_METHOD] = "LOAD_METHOD",
    [MP_BC_LOAD_SUPER_METHOD] = "LOAD_SUPER_METHOD",
    [MP_BC_LOAD_BUILD_CLASS] = "LOAD_BUILD_CLASS",
    [MP_BC_LOAD_SUBSCR] = "LOAD_SUBSCR",
    [MP_BC_STORE_FAST_N] = "STORE_FAST",
    [MP_BC_STORE_DEREF] = "STORE_DEREF",
    [MP_BC_STORE_NAME] = "STORE_NAME",
    [MP_BC_STORE_GLOBAL] = "STORE_GLOBAL",
    [MP_BC_STORE_ATTR] = "STORE_ATTR",
    [MP_BC_STORE_SUBSCR] = "STORE_SUBSCR",
    [MP_BC_DELETE_FAST] = "DELETE_FAST",
    [MP_BC_DELETE_DEREF] = "DELETE_DEREF",
    [MP_BC_DELETE_NAME] = "DELETE_NAME",
    [MP_BC_DELETE_GLOBAL] = "DELETE_GLOBAL",
    [MP_BC_DUP_TOP] = "DUP_TOP",
    [MP_BC_DUP_TOP_TWO] = "DUP_TOP_TWO",
    [MP_BC_POP_TOP] = "POP_TOP",
    [MP_BC_ROT_TWO] = "ROT_TWO",
    [MP_BC_ROT_THREE] = "ROT_THREE",
    [MP_BC_UNWIND_JUMP] = "UNWIND_JUMP",
    [MP_BC_JUMP] = "JUMP",
    [MP_BC_POP_JUMP_IF_TRUE] = "POP_JUMP_IF_TRUE",
    [MP_BC_POP_JUMP_IF_FALSE] = "POP_JUMP_IF_FALSE",
    [MP_BC_JUMP_IF_TRUE_OR_POP] = "JUMP_IF_TRUE_OR_POP",
    [MP_BC_JUMP_IF_FALSE_OR_POP] = "JUMP_IF_FALSE_OR_POP",
    [MP_BC_SETUP_WITH] = "SETUP_WITH",
    [MP_BC_SETUP_EXCEPT] = "SETUP_EXCEPT",
    [MP_BC_SETUP_FINALLY] = "SETUP_FINALLY",
    [MP_BC_POP_EXCEPT_JUMP] = "POP_EXCEPT_JUMP",
    [MP_BC_FOR_ITER] = "FOR_ITER",
    [MP_BC_WITH_CLEANUP] = "WITH_CLEANUP",
    [MP_BC_END_FINALLY] = "END_FINALLY",
    [MP_BC_GET_ITER] = "GET_ITER",
    [MP_BC_GET_ITER_STACK] = "GET_ITER_STACK",
    [MP_BC_BUILD_TUPLE] = "BUILD_TUPLE",
    [MP_BC_BUILD_LIST] = "BUILD_LIST",
    [MP_BC_BUILD_MAP] = "BUILD_MAP",
    [MP_BC_STORE_MAP] = "STORE_MAP",
    [MP_BC_BUILD_SET] = "BUILD_SET",
    [MP_BC_BUILD_SLICE] = "BUILD_SLICE",
    [MP_BC_STORE_COMP] = "STORE_COMP",
    [MP_BC_UNPACK_SEQUENCE] = "UNPACK_SEQUENCE",
    [MP_BC_UNPACK_EX] = "UNPACK_EX",
    [MP_BC_RETURN_VALUE] = "RETURN_VALUE",
    [MP_BC_RAISE_LAST] = "RAISE_LAST",
    [MP_BC_RAISE_OBJ] = "RAISE_OBJ",
    [MP_BC_RAISE_FROM] = "RAISE_FROM",
    [MP_BC_YIELD_VALUE] = "YIELD_VALUE",
    [MP_BC_YIELD_FROM] = "YIELD_FROM",
    [MP_BC_MAKE_FUNCTION] = "MAKE_FUNCTION",
    [MP_BC_MAKE_FUNCTION_DEFARGS] = "MAKE_FUNCTION_DEFARGS",
    [MP_BC_MAKE_CLOSURE] = "MAKE_CLOSURE",
    [MP_BC_MAKE_CLOSURE_DEFARGS] = "MAKE_CLOSURE_DEFARGS",
    [MP_BC_CALL_FUNCTION] = "CALL_FUNCTION",
    [MP_BC_CALL_FUNCTION_VAR_KW] = "CALL_FUNCTION_VAR_KW",
    [MP_BC_CALL_METHOD] = "CALL_METHOD",
    [MP_BC_CALL_METHOD_VAR_KW] = "CALL_METHOD_VAR_KW",
    [MP_BC_IMPORT_NAME] = "IMPORT_NAME",
    [MP_BC_IMPORT_FROM] = "IMPORT_FROM",
    [MP_BC_IMPORT_STAR] = "IMPORT_STAR",
};

const char *dev_mpy_instruction_name(uint8_t op)
{
    if (names[op] != NULL) {
        return names[op];
    }
    if (op >= MP_BC_BINARY_OP_MULTI) {
        return op < MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM ? "BINARY_OP" : "?";
    }
    if (op >= MP_BC_UNARY_OP_MULTI) {
        return "UNARY_OP";
    }
    if (op >= MP_BC_STORE_FAST_MULTI) {
        return "STORE_FAST";
    }
    if (op >= MP_BC_LOAD_FAST_MULTI) {
        return "LOAD_FAST";
    }
    return op >= MP_BC_LOAD_CONST_SMALL_INT_MULTI ? "LOAD_CONST_SMALL_INT" : "?";
}

struct base_str dev_mpy_static_name(size_t qstr)
{
    if (qstr >= mp_qstr_const_pool_static.len) {
        return (struct base_str){NULL, 0};
    }
    return base_str_of(mp_qstr_const_pool_static.qstrs[qstr]);
}

void dev_mpy_fault_text(const struct dev_mpy_fault *fault, char *out_text, size_t capacity)
{
    if (fault->function[0] == '\0') {
        (void)snprintf(out_text, capacity, "%s", fault->what);
    } else if (fault->instruction == NULL) {
        (void)snprintf(out_text, capacity, "%s, in %s", fault->what, fault->function);
    } else {
        (void)snprintf(out_text, capacity, "%s, in %s at byte %zu, %s", fault->what,
                       fault->function, fault->at, fault->instruction);
    }
}
