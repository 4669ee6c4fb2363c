"""Writes changed copies of the few MicroPython files that Walle needs different.

    patch_sources.py MICROPYTHON_DIR OUT_DIR

Run by device/vm/CMakeLists.txt at configure time. Prints the changed files, one a line. Every text
to be replaced must be there exactly once, or the script fails: a change of MicroPython is noticed.
"""
import os
import sys

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
        # Hashing nested tuples recurses in C.
        (
            "mp_obj_t mp_unary_op(mp_unary_op_t op, mp_obj_t arg) {\n",
            "mp_obj_t mp_unary_op(mp_unary_op_t op, mp_obj_t arg) {\n" + CHECK,
        ),
    ],
    # There are no files: `open` does not exist.
    "py/modbuiltins.c": [
        ("    { MP_ROM_QSTR(MP_QSTR_open), MP_ROM_PTR(&mp_builtin_open_obj) },\n", ""),
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
    ],
    # Comparing nested values recurses in C.
    "py/obj.c": [
        ("    int pass_number = 0;\n", "    int pass_number = 0;\n" + CHECK),
    ],
    # Looking through a deep tree of classes recurses in C.
    "py/objtype.c": [
        (
            "static void mp_obj_class_lookup(struct class_lookup_data *lookup, const mp_obj_type_t *type) {\n",
            "static void mp_obj_class_lookup(struct class_lookup_data *lookup, const mp_obj_type_t *type) {\n" + CHECK,
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
    # Deeply nested source recurses in C.
    "py/compile.c": [
        (
            "static void compile_node(compiler_t *comp, mp_parse_node_t pn) {\n",
            "static void compile_node(compiler_t *comp, mp_parse_node_t pn) {\n" + CHECK,
        ),
    ],
}


def main():
    source, out = sys.argv[1:3]
    for name, pairs in PATCHES.items():
        with open(os.path.join(source, name), encoding="utf-8") as file:
            text = file.read()
        for old, new in pairs:
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
