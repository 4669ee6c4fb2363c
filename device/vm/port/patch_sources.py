"""Writes changed copies of the few MicroPython files that Walle needs different.

    patch_sources.py MICROPYTHON_DIR OUT_DIR

Run by device/vm/CMakeLists.txt at configure time. Prints the changed files, one a line. Every text
to be replaced must be there exactly once, or the script fails: a change of MicroPython is noticed.
"""
import os
import sys

from patch_bounds import BOUNDS
from patch_speed import SPEED

CHECK = "    mp_cstack_check();\n"

# One entry a file: pairs of text found and text put in its place.
PATCHES = {
    # One interpreter per thread: the whole state is thread-local.
    "py/mpstate.h": [
        ("extern mp_state_ctx_t mp_state_ctx;", "extern _Thread_local mp_state_ctx_t mp_state_ctx;"),
    ],
    "py/mpstate.c": [
        ("\nmp_state_ctx_t mp_state_ctx;", "\n_Thread_local mp_state_ctx_t mp_state_ctx;"),
    ],
    "py/runtime.c": [
        # Any operator reaches a small integer that is the native object of a class.
        (
            "            default:\n                assert(op == MP_UNARY_OP_INVERT);\n                return MP_OBJ_NEW_SMALL_INT(~val);\n",
            "            case MP_UNARY_OP_INVERT:\n                return MP_OBJ_NEW_SMALL_INT(~val);\n"
            "            case MP_UNARY_OP_FLOAT_MAYBE:\n                return mp_obj_new_float((mp_float_t)val);\n"
            "            default:\n                mp_raise_TypeError(MP_ERROR_TEXT(\"unsupported type for operator\"));\n",
        ),
        # A constant cannot hold the address of something thread-local: `import __main__` goes.
        (
            "const mp_obj_module_t mp_module___main__ = {\n"
            "    .base = { &mp_type_module },\n"
            "    .globals = (mp_obj_dict_t *)&MP_STATE_VM(dict_main),\n"
            "};\n"
            "\n"
            "MP_REGISTER_MODULE(MP_QSTR___main__, mp_module___main__);\n",
            "",
        ),
        # `5 < a`: where the left operand knows nothing of it, the right one is asked the other way round.
        (
            "    // If this was an inplace method, fallback to the corresponding normal method.\n",
            "    if (op == MP_BINARY_OP_LESS || op == MP_BINARY_OP_MORE || op == MP_BINARY_OP_LESS_EQUAL ||\n"
            "        op == MP_BINARY_OP_MORE_EQUAL) {\n"
            "        mp_binary_op_t mirrored = op == MP_BINARY_OP_LESS ? MP_BINARY_OP_MORE\n"
            "            : op == MP_BINARY_OP_MORE ? MP_BINARY_OP_LESS\n"
            "            : op == MP_BINARY_OP_LESS_EQUAL ? MP_BINARY_OP_MORE_EQUAL : MP_BINARY_OP_LESS_EQUAL;\n"
            "        type = mp_obj_get_type(rhs);\n"
            "        if (MP_OBJ_TYPE_HAS_SLOT(type, binary_op)) {\n"
            "            mp_obj_t result = MP_OBJ_TYPE_GET_SLOT(type, binary_op)(mirrored, rhs, lhs);\n"
            "            if (result != MP_OBJ_NULL) {\n"
            "                return result;\n"
            "            }\n"
            "        }\n"
            "    }\n\n"
            "    // If this was an inplace method, fallback to the corresponding normal method.\n",
        ),
        # Hashing nested tuples recurses in C.
        (
            "mp_obj_t mp_unary_op(mp_unary_op_t op, mp_obj_t arg) {\n",
            "mp_obj_t mp_unary_op(mp_unary_op_t op, mp_obj_t arg) {\n" + CHECK,
        ),
        # What `from x import *` gets is a module unless the script has its own __import__.
        (
            "    mp_map_t *map = &mp_obj_module_get_globals(module)->map;\n",
            "    if (!mp_obj_is_type(module, &mp_type_module)) {\n"
            "        mp_raise_TypeError(MP_ERROR_TEXT(\"not a module\"));\n"
            "    }\n"
            "    mp_map_t *map = &mp_obj_module_get_globals(module)->map;\n",
        ),
    ],
    # What a class body gives back is a cell or None; __build_class__ can be called with any function.
    "py/objcell.c": [
        ("static MP_DEFINE_CONST_OBJ_TYPE(\n    // cell representation", "MP_DEFINE_CONST_OBJ_TYPE(\n    // cell representation"),
    ],
    # There are no files: `open` does not exist.
    "py/modbuiltins.c": [
        ("    { MP_ROM_QSTR(MP_QSTR_open), MP_ROM_PTR(&mp_builtin_open_obj) },\n", ""),
        (
            "    if (cell != mp_const_none) {\n",
            "    extern const mp_obj_type_t mp_type_cell;\n    if (mp_obj_is_type(cell, &mp_type_cell)) {\n",
        ),
    ],
    "py/modio.c": [
        ("    { MP_ROM_QSTR(MP_QSTR_open), MP_ROM_PTR(&mp_builtin_open_obj) },\n", ""),
    ],
    # An exception that comes to a function costs a unit, so that no handler sees one of a run over its budget.
    "py/vm.c": [
        (
            "            #if MICROPY_PY_SYS_SETTRACE\n            // Exceptions are traced here\n",
            "            MICROPY_VM_HOOK_RAISE\n            #if MICROPY_PY_SYS_SETTRACE\n            // Exceptions are traced here\n",
        ),
        # A return from a loop in a finally block meets the loop's iterator here; what lies there is only written over.
        ("        assert(sp[-1] == mp_const_none || mp_obj_is_exception_instance(sp[-1])); \\\n", ""),
        # No verified bytecode has an unknown instruction, but a warm image of the VM puts one where it is to be made.
        (
            "                ENTRY_DEFAULT:\n                    MARK_EXC_IP_SELECTIVE();\n",
            "                ENTRY_DEFAULT:\n                    MICROPY_VM_HOOK_UNKNOWN\n",
        ),
        # Fuzzing builds look at both stacks before each instruction.
        ("#else\n#define TRACE(ip)\n#endif\n", "#else\n#define TRACE(ip) DEV_VM_BOUNDS_CHECK()\n#endif\n"),
        # A display of pairs goes into what OrderedDict() gave, which a script may name anew.
        (
            "                    sp -= 2;\n                    mp_obj_dict_store(sp[0], sp[2], sp[1]);\n",
            "                    sp -= 2;\n"
            "                    if (!mp_obj_is_dict_or_ordereddict(sp[0])) {\n"
            "                        mp_raise_TypeError(MP_ERROR_TEXT(\"not a dict\"));\n"
            "                    }\n"
            "                    mp_obj_dict_store(sp[0], sp[2], sp[1]);\n",
        ),
    ],
    # The nearest double, as CPython has it, however many digits there are.
    "py/parsenum.c": [
        ('#include "py/parsenum.h"\n', '#include "py/parsenum.h"\n#include "vm_decimal.h"\n'),
        (
            "        if (exp_val < SMALL_NORMAL_EXP) {\n            exp_val -= SMALL_NORMAL_EXP;\n"
            "            dec_val *= SMALL_NORMAL_VAL;\n        }\n",
            "",
        ),
        (
            "        if (exp_val < 0 && exp_val >= -EXACT_POWER_OF_10) {\n"
            "            dec_val /= MICROPY_FLOAT_C_FUN(pow)(10, -exp_val);\n        } else {\n"
            "            dec_val *= MICROPY_FLOAT_C_FUN(pow)(10, exp_val);\n        }\n",
            "        if (mantissa <= DEV_VM_DECIMAL_EXACT && exp_val >= -EXACT_POWER_OF_10 && exp_val <= EXACT_POWER_OF_10) {\n"
            "            dec_val = dev_vm_decimal_short(mantissa, exp_val);\n        } else {\n"
            "            dec_val = dev_vm_decimal(str_val_start, str);\n        }\n",
        ),
    ],
    # A constant that its own text is not read as again is written with all its digits.
    "py/persistentcode.c": [
        ('#include "py/persistentcode.h"\n', '#include "py/persistentcode.h"\n#include "py/parsenum.h"\n#include "vm_decimal.h"\n'),
        (
            "        mp_obj_print_helper(&pr, o, PRINT_REPR);\n        mp_print_bytes(print, &obj_type, 1);\n",
            "        mp_obj_print_helper(&pr, o, PRINT_REPR);\n"
            "        if (obj_type == MP_PERSISTENT_OBJ_FLOAT && isfinite(mp_obj_get_float(o)) &&\n"
            "            mp_obj_get_float(mp_parse_num_float(vstr.buf, vstr.len, false, NULL)) != mp_obj_get_float(o)) {\n"
            "            char exact[DEV_VM_DECIMAL_TEXT];\n"
            "            size_t length = dev_vm_decimal_write(exact, mp_obj_get_float(o));\n"
            "            vstr_reset(&vstr);\n"
            "            vstr_add_strn(&vstr, exact, length);\n"
            "        }\n"
            "        mp_print_bytes(print, &obj_type, 1);\n",
        ),
    ],
    # Comparing nested values recurses in C.
    "py/obj.c": [
        ("    int pass_number = 0;\n", "    int pass_number = 0;\n" + CHECK),
    ],
    # Looking through a deep tree of classes recurses in C.
    "py/objtype.c": [
        # A native method that a class inherits wants a native self, not an instance of the class.
        (
            "                    mp_convert_member_lookup(MP_OBJ_NULL, org_type, elem->value, lookup->dest);\n",
            "                    mp_convert_member_lookup(MP_OBJ_NULL, mp_obj_is_native_type(type) ? type : org_type,\n"
            "                        elem->value, lookup->dest);\n",
        ),
        # Where super() got a class for an object, there is no native object to look into.
        (
            "        .obj = MP_OBJ_TO_PTR(self->obj),\n        .attr = attr,\n        .slot_offset = 0,\n        .dest = dest,\n        .is_type = false,\n",
            "        .obj = MP_OBJ_TO_PTR(self->obj),\n        .attr = attr,\n        .slot_offset = 0,\n        .dest = dest,\n"
            "        .is_type = mp_obj_is_type(self->obj, &mp_type_type),\n",
        ),
        # super() trusts what __class__ names and what comes as self.
        (
            "static mp_obj_t super_make_new(",
            "static void super_check(mp_obj_t class_in, mp_obj_t obj) {\n"
            "    const mp_obj_type_t *type = mp_obj_get_type(obj);\n"
            "    mp_obj_t of = type == &mp_type_type ? obj : MP_OBJ_FROM_PTR(type);\n"
            "    if (!mp_obj_is_type(class_in, &mp_type_type) || !mp_obj_is_subclass_fast(of, class_in)) {\n"
            "        mp_raise_TypeError(MP_ERROR_TEXT(\"super() of another class\"));\n"
            "    }\n"
            "}\n\n"
            "static mp_obj_t super_make_new(",
        ),
        (
            "    mp_arg_check_num(n_args, n_kw, 2, 2, false);\n\n    // Per CPython",
            "    mp_arg_check_num(n_args, n_kw, 2, 2, false);\n    super_check(args[0], args[1]);\n\n    // Per CPython",
        ),
        (
            "    mp_obj_super_t super = {{&mp_type_super}, dest[1], dest[2]};\n",
            "    super_check(dest[1], dest[2]);\n    mp_obj_super_t super = {{&mp_type_super}, dest[1], dest[2]};\n",
        ),
        (
            "static void mp_obj_class_lookup(struct class_lookup_data *lookup, const mp_obj_type_t *type) {\n",
            "static void mp_obj_class_lookup(struct class_lookup_data *lookup, const mp_obj_type_t *type) {\n" + CHECK,
        ),
        # C code that asks a type's protocol (streams) takes the object for a native one, which an instance is not.
        (
            "        base_protocol = MP_OBJ_TYPE_GET_SLOT_OR_NULL(((mp_obj_type_t *)MP_OBJ_TO_PTR(bases_items[0])), protocol);\n",
            "        base_protocol = NULL;\n",
        ),
        # What stands for the native object until it is made is none: no slot of its type is called, nor is it.
        (
            "static mp_obj_t mp_obj_instance_get_call(",
            "static mp_obj_t native_object(const mp_obj_instance_t *self) {\n"
            "    if (self->subobj[0] == MP_OBJ_FROM_PTR(&native_base_init_wrapper_obj)) {\n"
            "        mp_raise_msg(&mp_type_AttributeError, MP_ERROR_TEXT(\"call super().__init__() first\"));\n"
            "    }\n"
            "    return self->subobj[0];\n"
            "}\n\n"
            "static mp_obj_t mp_obj_instance_get_call(",
        ),
        (
            "        return mp_call_function_n_kw(self->subobj[0], n_args, n_kw, args);\n",
            "        return mp_call_function_n_kw(native_object(self), n_args, n_kw, args);\n",
        ),
        (
            "        const mp_obj_type_t *type = mp_obj_get_type(self->subobj[0]);\n        if (type->flags",
            "        const mp_obj_type_t *type = mp_obj_get_type(native_object(self));\n        if (type->flags",
        ),
        (
            "            if (iter_buf == NULL) {\n                iter_buf = m_new_obj(",
            "            if (!MP_OBJ_TYPE_HAS_SLOT(type, iter)) {\n                return MP_OBJ_NULL;\n            }\n"
            "            if (iter_buf == NULL) {\n                iter_buf = m_new_obj(",
        ),
        (
            "        const mp_obj_type_t *type = mp_obj_get_type(self->subobj[0]);\n        return MP_OBJ_TYPE_GET_SLOT(type, buffer)(",
            "        const mp_obj_type_t *type = mp_obj_get_type(native_object(self));\n"
            "        if (!MP_OBJ_TYPE_HAS_SLOT(type, buffer)) {\n            return 1;\n        }\n"
            "        return MP_OBJ_TYPE_GET_SLOT(type, buffer)(",
        ),
        (
            "        mp_obj_instance_t *self = (mp_obj_instance_t *)MP_OBJ_TO_PTR(self_in);\n        return self->subobj[0];\n",
            "        mp_obj_instance_t *self = (mp_obj_instance_t *)MP_OBJ_TO_PTR(self_in);\n        return native_object(self);\n",
        ),
    ],
    "py/objexcept.c": [
        # One that is raised before its native part was made gets an empty one.
        (
            "        return MP_OBJ_TO_PTR(((mp_obj_instance_t *)MP_OBJ_TO_PTR(self_in))->subobj[0]);\n",
            "        mp_obj_instance_t *self = MP_OBJ_TO_PTR(self_in);\n"
            "        if (!mp_obj_is_native_exception_instance(self->subobj[0])) {\n"
            "            self->subobj[0] = mp_obj_new_exception(&mp_type_BaseException);\n"
            "        }\n"
            "        return MP_OBJ_TO_PTR(self->subobj[0]);\n",
        ),
    ],
    # Work on a long integer is one bytecode and may take seconds: each row counts as a budget unit.
    "py/mpz.c": [
        (
            "    for (; klen > 0; --klen, ++idig, ++kdig) {\n",
            "    for (; klen > 0; --klen, ++idig, ++kdig) {\n    " + CHECK,
        ),
        ("    while (*num_len > den_len) {\n", "    while (*num_len > den_len) {\n    " + CHECK),
        ("    for (; cur < top; ++cur) {", "    for (; cur < top; ++cur) {\n    " + CHECK),
        (
            "        mpz_dig_t *d = dig + ilen;\n        mpz_dbl_dig_t a = 0;\n",
            "        mpz_dig_t *d = dig + ilen;\n        mpz_dbl_dig_t a = 0;\n    " + CHECK,
        ),
    ],
    # Groups in groups of a regular expression recurse in C.
    "lib/re1.5/compilecode.c": [
        ('#include "re1.5.h"\n', '#include "lib/re1.5/re1.5.h"\n'),
        (
            "static const char *_compilecode(const char *re, ByteProg *prog, int sizecode)\n{\n",
            "static const char *_compilecode(const char *re, ByteProg *prog, int sizecode)\n{\n" + CHECK,
        ),
    ],
    # Includes the file above; a copy, so that compiler caches do not take the original's object.
    "extmod/modre.c": [
        ('#include "lib/re1.5/compilecode.c"\n', '#include "lib/re1.5/compilecode.c" // the changed copy\n'),
    ],
    # The one object that could be changed and is shared; nothing changes it, so it can be constant.
    "py/modsys.c": [
        ("\nMP_DEFINE_STR_OBJ(mp_sys_executable_obj", "\nstatic const MP_DEFINE_STR_OBJ(mp_sys_executable_obj"),
    ],
    # A jump out of a finally block needs two slots more than are there: the function asks for them.
    "py/emitbc.c": [
        (
            "        emit_write_bytecode_byte_label(emit, 0, MP_BC_UNWIND_JUMP, label & ~MP_EMIT_BREAK_FROM_FOR);\n",
            "        mp_emit_bc_adjust_stack_size(emit, 2);\n"
            "        mp_emit_bc_adjust_stack_size(emit, -2);\n"
            "        emit_write_bytecode_byte_label(emit, 0, MP_BC_UNWIND_JUMP, label & ~MP_EMIT_BREAK_FROM_FOR);\n",
        ),
    ],
    # Deeply nested source recurses in C.
    "py/compile.c": [
        ('#include "py/compile.h"\n', '#include "py/compile.h"\n#include "vm_scopes.h"\n'),
        # What the head of a function cannot say is refused with the line, before it is written.
        (
            "        scope_compute_things(s);\n",
            "        scope_compute_things(s);\n"
            "        const char *excess = dev_vm_scope_excess(s);\n"
            "        if (excess != NULL) {\n"
            "            compile_syntax_error(comp, s->pn, excess);\n"
            "        }\n",
        ),
        # Positional arguments behind keywords would be taken for keywords.
        (
            "                if (star_flags & MP_EMIT_STAR_FLAG_DOUBLE) {\n"
            "                    compile_syntax_error(comp, (mp_parse_node_t)pns_arg, MP_ERROR_TEXT(\"* arg after **\"));\n",
            "                if (n_keyword > 0) {\n"
            "                    compile_syntax_error(comp, (mp_parse_node_t)pns_arg, MP_ERROR_TEXT(\"* arg after keyword arg\"));\n",
        ),
        # Its bytecode trusts a name that scripts may give to something else, so it cannot be verified.
        (
            "    // compile in a nested fashion\n    compile_async_with_stmt_helper(comp, n, nodes, pns->nodes[1]);\n",
            "    (void)n;\n    compile_syntax_error(comp, (mp_parse_node_t)pns, MP_ERROR_TEXT(\"async with isn't supported\"));\n",
        ),
        (
            "static void compile_node(compiler_t *comp, mp_parse_node_t pn) {\n",
            "static void compile_node(compiler_t *comp, mp_parse_node_t pn) {\n" + CHECK,
        ),
        (
            "            compile_scope(comp, s, MP_PASS_STACK_SIZE);\n",
            "            compile_scope(comp, s, MP_PASS_STACK_SIZE);\n"
            "            const char *excess = dev_vm_scope_too_deep(s);\n"
            "            if (excess != NULL) {\n"
            "                compile_syntax_error(comp, s->pn, excess);\n"
            "            }\n",
        ),
        # The innermost node that asks for too much has the line.
        (
            "        f(comp, pns);\n    }\n}\n\n#if MICROPY_EMIT_NATIVE\n",
            "        f(comp, pns);\n"
            "        const char *excess = dev_vm_scope_too_deep(comp->scope_cur);\n"
            "        if (excess != NULL) {\n"
            "            compile_syntax_error(comp, pn, excess);\n"
            "        }\n    }\n}\n\n#if MICROPY_EMIT_NATIVE\n",
        ),
    ],
}


def main():
    source, out = sys.argv[1:3]
    for name in dict.fromkeys([*PATCHES, *BOUNDS, *SPEED]):
        with open(os.path.join(source, name), encoding="utf-8") as file:
            text = file.read()
        for old, new in PATCHES.get(name, []) + BOUNDS.get(name, []) + SPEED.get(name, []):
            if text.count(old) != 1:
                sys.exit(f"{source}/{name} is not the MicroPython the script VM expects: {old!r} occurs "
                         f"{text.count(old)} times")
            text = text.replace(old, new)
        path = os.path.join(out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        print(name)


if __name__ == "__main__":
    main()
