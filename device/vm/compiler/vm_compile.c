// Source to .mpy bytecode: MicroPython's compiler behind one function. Built into the separate
// compiler library, which no device has; used by `walle task build` (cli/task/task_file.c,
// cli/task/task_imports.c), benchmarks and tests, on any thread, whose thread-local MicroPython
// state it takes meanwhile. A compilation has a heap of its own, freed at its end, bounds on
// source, heap and stack, and its output goes through the devices' own verifier (mpy_check.c)
// before anybody gets it.
#include "vm/vm.h"

#include "vm/compiler/vm_calls.h"
#include "vm/compiler/vm_counts.h"
#include "vm/compiler/vm_imports.h"
#include "vm/compiler/vm_members.h"
#include "vm/compiler/vm_newer.h"
#include "vm/compiler/vm_uploads.h"
#include "vm/mpy/mpy_check.h"
#include "vm/mpy/vm_text.h"

#include "base/check.h"
#include "base/error.h"

#include "py/compile.h"
#include "py/cstack.h"
#include "py/gc.h"
#include "py/mphal.h"
#include "py/persistentcode.h"
#include "py/runtime.h"
#include "shared/runtime/gchelper.h"

#include <stdlib.h>
#include <string.h>

#define COMPILE_HEAP_BYTES  (32 * 1024 * 1024) // pages are used only as the source needs them
#define COMPILE_STACK_BYTES (1024 * 1024)
#define COMPILE_SOURCE_MAX  (1024 * 1024)

struct compile_output {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    bool failed;
};

static void output_add(void *context, const char *bytes, size_t size)
{
    struct compile_output *output = context;
    if (size > output->capacity - output->size) {
        size_t capacity = 2 * output->capacity + size;
        uint8_t *grown = realloc(output->bytes, capacity);
        if (grown == NULL) {
            output->failed = true;
            return;
        }
        output->bytes = grown;
        output->capacity = capacity;
    }
    if (!output->failed) {
        memcpy(output->bytes + output->size, bytes, size);
        output->size += size;
    }
}

struct text_output {
    char text[BASE_ERROR_TEXT_MAX];
    size_t size;
};

static void text_add(void *context, const char *text, size_t size)
{
    struct text_output *output = context;
    size_t room = sizeof(output->text) - 1 - output->size;
    size = size < room ? size : room;
    memcpy(output->text + output->size, text, size);
    output->size += size;
    output->text[output->size] = '\0';
}

// Exceptions of the compiler carry the place as their only traceback entry.
static enum base_status exception_report(mp_obj_t exception, struct base_error *error)
{
    const mp_obj_type_t *type = mp_obj_get_type(exception);
    if (type == &mp_type_MemoryError) {
        return base_error_set(error, BASE_ERR_NOMEM, "source needs too much memory to compile");
    }
    struct text_output message = {.size = 0};
    const mp_print_t print = {&message, text_add};
    mp_obj_print_helper(&print, exception, PRINT_STR);
    if (type == &mp_type_RuntimeError && strcmp(message.text, "bytecode overflow") == 0) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "a loop, branch or try of over 32767 bytes of bytecode: move some of "
                              "it into functions");
    }
    if (type == &mp_type_RuntimeError) { // of the two others, one is of the stack
        bool name = strcmp(message.text, "name too long") == 0; // "a.b.c" as a whole
        return name ? base_error_set(error, BASE_ERR_TOO_LARGE, "a name of over %d bytes",
                                     DEV_VM_NAME_MAX)
                    : base_error_set(error, BASE_ERR_INVALID, "source is nested too deep");
    }
    size_t count = 0;
    size_t *trace = NULL;
    mp_obj_exception_get_traceback(exception, &count, &trace);
    enum base_status status =
        base_error_set(error, BASE_ERR_INVALID, "%s: %s", qstr_str(type->name), message.text);
    if (error != NULL && count >= 3) {
        error->line = (uint32_t)trace[1];
    }
    return status;
}

// What a device's Python has not is named: the source may run where it was written.
static enum base_status syntax_report(mp_obj_t exception, struct base_str source,
                                      struct base_error *error)
{
    enum base_status status = exception_report(exception, error);
    // The others of the compiler's words say enough.
    bool vague = error != NULL && (strcmp(error->text, "SyntaxError: invalid syntax") == 0 ||
                                   strstr(error->text, "must be assignment target") != NULL);
    if (!vague || error->line == 0) {
        return status;
    }
    uint32_t line = error->line;
    const char *newer = dev_vm_newer(source, line);
    if (newer != NULL) {
        status = base_error_set(error, status, "SyntaxError: a device's Python has no %s", newer);
        error->line = line;
    }
    return status;
}

// What is larger than a limit, and where; no line: nothing is.
struct excess {
    size_t line;
    const char *what;
    int limit;
    const char *unit;
};

// Whether the compiler keeps a token in its table of names, which has 16 bits for each, as the
// counts of a function's names have.
static bool in_table(const mp_lexer_t *lexer)
{
    return lexer->tok_kind == MP_TOKEN_NAME ||
           (lexer->tok_kind == MP_TOKEN_STRING &&
            lexer->vstr.len <= MICROPY_ALLOC_PARSE_INTERN_STRING_LEN);
}

// How many brackets are open behind the token.
static size_t brackets_after(const mp_lexer_t *lexer, size_t open)
{
    switch (lexer->tok_kind) {
    case MP_TOKEN_DEL_PAREN_OPEN:
    case MP_TOKEN_DEL_BRACKET_OPEN:
    case MP_TOKEN_DEL_BRACE_OPEN:
        return open + 1;
    case MP_TOKEN_DEL_PAREN_CLOSE:
    case MP_TOKEN_DEL_BRACKET_CLOSE:
    case MP_TOKEN_DEL_BRACE_CLOSE:
        return open > 0 ? open - 1 : 0;
    default:
        return open;
    }
}

// A token that is too much: a whole number, of which the compiler takes the square of the digits to
// read one, a long name, of which it says no line, or one name more than its table can count. Its
// own lexer looks for it, so what is text or comment is neither missed nor taken for one; what it
// cannot read is the parser's to say. What only the compiler puts into the table, the whole of
// "a.b.c", is in the file too, so the verifier counts it.
static struct excess token_excess(struct base_str source, qstr name)
{
    mp_lexer_t *lexer = mp_lexer_new_from_str_len(name, source.data, source.size, 0);
    struct excess found = {0};
    size_t open = 0;
    while (found.line == 0 && lexer->tok_kind != MP_TOKEN_END &&
           lexer->tok_kind != MP_TOKEN_INVALID) {
        open = brackets_after(lexer, open);
        if (open > DEV_VM_BRACKETS_MAX) {
            found = (struct excess){lexer->tok_line, "a depth", DEV_VM_BRACKETS_MAX,
                                    "brackets in one another"};
        } else if (lexer->tok_kind == MP_TOKEN_INTEGER && lexer->vstr.len > DEV_VM_DIGITS_MAX) {
            found = (struct excess){lexer->tok_line, "a whole number", DEV_VM_DIGITS_MAX, "digits"};
        } else if (lexer->tok_kind == MP_TOKEN_NAME && lexer->vstr.len > DEV_VM_NAME_MAX) {
            found = (struct excess){lexer->tok_line, "a name", DEV_VM_NAME_MAX, "bytes"};
        } else if (in_table(lexer) && qstr_from_strn(lexer->vstr.buf, lexer->vstr.len) >
                                          MP_QSTRnumber_of + DEV_VM_NAMES_MAX) {
            found = (struct excess){lexer->tok_line, "a source", DEV_VM_NAMES_MAX,
                                    "names and short texts"};
        }
        mp_lexer_to_next(lexer);
    }
    mp_lexer_free(lexer);
    return found;
}

static struct excess tree_excess(mp_parse_node_t root)
{
    const struct excess all[] = {
        {dev_vm_calls_long(root), "a call", DEV_VM_ARGUMENTS_MAX, "arguments"},
        {dev_vm_targets_many(root), "an assignment with a star", DEV_VM_TARGETS_MAX,
         "names before it, or behind"},
        {dev_vm_dotted_many(root), "a source", DEV_VM_DOTTED_MAX,
         "names with a dot in its imports"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].line > 0) {
            return all[i];
        }
    }
    return (struct excess){0};
}

static enum base_status excess_report(const struct excess *excess, struct base_error *error)
{
    enum base_status status = base_error_set(error, BASE_ERR_TOO_LARGE, "%s of over %d %s",
                                             excess->what, excess->limit, excess->unit);
    if (error != NULL) {
        error->line = (uint32_t)excess->line;
    }
    return status;
}

static __attribute__((noinline)) enum base_status
compile(struct base_str source, struct base_str file_name, struct compile_output *output,
        struct dev_vm_compiled *told, struct base_error *error)
{
    nlr_buf_t nlr;
    if (nlr_push(&nlr) == 0) {
        mp_init();
        qstr name = qstr_from_strn(file_name.data, file_name.size);
        struct excess excess = token_excess(source, name);
        if (excess.line > 0) {
            nlr_pop();
            return excess_report(&excess, error);
        }
        mp_lexer_t *lexer = mp_lexer_new_from_str_len(name, source.data, source.size, 0);
        mp_parse_tree_t tree = mp_parse(lexer, MP_PARSE_FILE_INPUT);
        excess = tree_excess(tree.root);
        if (excess.line > 0) {
            nlr_pop();
            return excess_report(&excess, error);
        }
        dev_vm_imports_find(tree.root, told);
        dev_vm_uploads_find(tree.root, told);
        dev_vm_members_find(tree.root, told);
        mp_module_context_t *context = m_new_obj(mp_module_context_t);
        context->module.base.type = &mp_type_module;
        context->module.globals = mp_globals_get();
        mp_compiled_module_t compiled = {.context = context};
        mp_compile_to_raw_code(&tree, name, false, &compiled);
        mp_print_t print = {output, output_add};
        mp_raw_code_save(&compiled, &print);
        nlr_pop();
        return output->failed ? base_error_set(error, BASE_ERR_NOMEM, "out of memory") : BASE_OK;
    }
    return syntax_report(MP_OBJ_FROM_PTR(nlr.ret_val), source, error);
}

enum base_status dev_vm_compile(struct base_str source, struct base_str file_name,
                                uint8_t **out_mpy, size_t *out_size, struct base_error *error)
{
    struct dev_vm_compiled told;
    BASE_TRY(dev_vm_compile_told(source, file_name, &told, error));
    *out_mpy = told.mpy;
    *out_size = told.size;
    return BASE_OK;
}

enum base_status dev_vm_compile_told(struct base_str source, struct base_str file_name,
                                     struct dev_vm_compiled *out, struct base_error *error)
{
    out->import_count = 0;
    out->upload_count = 0;
    out->member_count = 0;
    if (source.size > COMPILE_SOURCE_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "source is over %d bytes",
                              COMPILE_SOURCE_MAX);
    }
    if (file_name.size == 0 || file_name.size >= DEV_VM_FILE_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "file name is empty or over %d bytes",
                              DEV_VM_FILE_MAX - 1);
    }
    if (!dev_text_valid((const uint8_t *)source.data, source.size)) {
        return base_error_set(error, BASE_ERR_INVALID, "source is not UTF-8");
    }
    uint8_t *heap = malloc(COMPILE_HEAP_BYTES);
    if (heap == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    memset(&mp_state_ctx, 0, sizeof(mp_state_ctx));
    mp_cstack_init_with_top(__builtin_frame_address(0), COMPILE_STACK_BYTES);
    gc_init(heap, heap + COMPILE_HEAP_BYTES);
    struct compile_output output = {.bytes = NULL};
    enum base_status status = compile(source, file_name, &output, out, error);
    free(heap);
    struct dev_mpy_fault fault;
    if (status == BASE_OK && dev_mpy_check(output.bytes, output.size, &fault) != BASE_OK) {
        char text[BASE_ERROR_TEXT_MAX];
        dev_mpy_fault_text(&fault, text, sizeof(text));
        status = base_error_set(error, BASE_ERR_INVALID, "a device would refuse it: %s", text);
    }
    if (status != BASE_OK) {
        free(output.bytes);
        return status;
    }
    out->mpy = output.bytes;
    out->size = output.size;
    return BASE_OK;
}

// --- what MicroPython expects of a port

void gc_collect(void)
{
    gc_collect_start();
    gc_helper_collect_regs_and_stack();
    gc_collect_end();
}

_Noreturn void nlr_jump_fail(void *value)
{
    (void)value;
    base_check_failed(__FILE__, __LINE__, "exception outside a compilation");
}

void mp_hal_stdout_tx_strn_cooked(const char *text, size_t size)
{
    (void)text; // the compiler prints nothing
    (void)size;
}
