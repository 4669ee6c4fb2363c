// The container format of .mpy files: header, names, constants, functions. Called by vm_import.c
// before a module is loaded, on the VM's thread; by the compiler for its own output, and by `walle
// task build` for what it is given; pure. It goes through the file once with a bounded reader and
// has each function judged by mpy_code.c and mpy_flow.c: what passes cannot lead the interpreter
// out of its bounds. The first fault counts, and is told with its function and instruction by
// mpy_fault.c.
#include "vm/mpy/mpy_code.h"

#include "vm/mpy/vm_text.h"

#include "py/persistentcode.h"
#include "py/qstr.h"
#include "py/smallint.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 255
#define SCRATCH_WORDS  1536
#define CHILDREN_FEW   16
#define LONG_FUNCTION  "bytecode: function of over 32768 bytes"

_Static_assert(DEV_MPY_TABLE_MAX == 16384, "texts below say so");
_Static_assert(DEV_MPY_FUNCTION_MAX == 32768, "the text above says so");

struct check {
    struct base_reader reader;
    size_t names;
    size_t constants;
    size_t names_at;   // in the file
    const char *fault; // first one
    struct dev_mpy_fault *out;
    uint64_t cell_bits[DEV_MPY_CELL_WORDS];
    uint64_t scratch[SCRATCH_WORDS]; // the targets of a function, then its paths
};

_Static_assert(SCRATCH_WORDS > 2 * DEV_MPY_BIT_WORDS(DEV_MPY_FUNCTION_MAX), "targets fit");

// An unsigned number in MicroPython's encoding: 7 bits a byte, highest first. The reader fails with
// INVALID above `max`.
static size_t uint_read(struct base_reader *reader, size_t max)
{
    size_t value = 0;
    uint8_t byte;
    do {
        byte = base_reader_u8(reader);
        value = (value << 7) | (byte & 0x7F);
        if (value > max) {
            base_reader_fail(reader, BASE_ERR_INVALID);
            return 0;
        }
    } while ((byte & 0x80) != 0);
    return value;
}

static void fault(struct check *check, enum base_status status, const char *what)
{
    if (check->fault == NULL) {
        check->fault = what;
        base_reader_fail(&check->reader, status);
    }
}

// The same for a count or a size that has a limit, and says which.
static size_t limited_read(struct check *check, size_t max, const char *over)
{
    bool before = check->reader.status == BASE_OK;
    size_t value = uint_read(&check->reader, max);
    if (before && check->reader.status == BASE_ERR_INVALID) {
        fault(check, BASE_ERR_INVALID, over);
    }
    return value;
}

static bool going(const struct check *check)
{
    return check->fault == NULL && check->reader.status == BASE_OK;
}

// Bytes followed by a NUL that is not counted. NULL after a fault.
static const uint8_t *terminated(struct check *check, size_t size)
{
    const uint8_t *bytes = base_reader_bytes(&check->reader, size);
    if (base_reader_u8(&check->reader) != 0) {
        fault(check, BASE_ERR_INVALID, "bytecode: text without its end");
        return NULL;
    }
    return going(check) ? bytes : NULL;
}

static void header_check(struct check *check)
{
    struct base_reader *reader = &check->reader;
    uint8_t magic = base_reader_u8(reader);
    uint8_t version = base_reader_u8(reader);
    uint8_t feature = base_reader_u8(reader);
    uint8_t int_bits = base_reader_u8(reader);
    if (magic != 'M') {
        fault(check, BASE_ERR_INVALID, "not bytecode");
    } else if (version != MPY_VERSION) {
        fault(check, BASE_ERR_UNSUPPORTED, "bytecode of another version");
    } else if (MPY_FEATURE_DECODE_ARCH(feature) != MP_NATIVE_ARCH_NONE) {
        fault(check, BASE_ERR_UNSUPPORTED, "native code in bytecode");
    } else if (int_bits > MP_SMALL_INT_BITS) {
        fault(check, BASE_ERR_UNSUPPORTED, "bytecode for a machine with longer words");
    }
}

static void name_check(struct check *check)
{
    size_t coded = uint_read(&check->reader, 2 * DEV_MPY_TABLE_MAX);
    size_t value = coded >> 1;
    if ((coded & 1) != 0) {
        if (value == MP_QSTRnull || value >= MP_QSTRnumber_of_static) {
            fault(check, BASE_ERR_INVALID, "bytecode: unknown name");
        }
        return;
    }
    if (value > NAME_MAX_BYTES) {
        fault(check, BASE_ERR_INVALID, "bytecode: name too long");
        return;
    }
    const uint8_t *text = terminated(check, value);
    if (text != NULL && !dev_text_valid(text, value)) {
        fault(check, BASE_ERR_INVALID, "bytecode: name is not UTF-8");
    }
}

static void number_check(struct check *check, uint8_t type, size_t size)
{
    const uint8_t *text = base_reader_bytes(&check->reader, size);
    if (text == NULL || size == 0) {
        fault(check, BASE_ERR_INVALID, "bytecode: number without digits");
        return;
    }
    for (size_t i = 0; i < size; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        bool sign = text[i] == '-' || text[i] == '+';
        bool other =
            type != MP_PERSISTENT_OBJ_INT && (text[i] == '.' || text[i] == '(' || text[i] == ')' ||
                                              (text[i] >= 'a' && text[i] <= 'z'));
        if (!digit && !sign && !other) {
            fault(check, BASE_ERR_INVALID, "bytecode: number is not one");
            return;
        }
    }
}

static void constant_check(struct check *check, unsigned depth)
{
    uint8_t type = base_reader_u8(&check->reader);
    if (type == MP_PERSISTENT_OBJ_FUN_TABLE || type > MP_PERSISTENT_OBJ_TUPLE) {
        fault(check, BASE_ERR_INVALID, "bytecode: unknown constant");
        return;
    }
    if (type <= MP_PERSISTENT_OBJ_ELLIPSIS) {
        return;
    }
    size_t size = uint_read(&check->reader, base_reader_left(&check->reader));
    if (type == MP_PERSISTENT_OBJ_TUPLE) {
        if (depth == DEV_MPY_TUPLE_MAX) {
            fault(check, BASE_ERR_INVALID, "bytecode: constants nested too deep");
        }
        for (size_t i = 0; i < size && going(check); i++) {
            constant_check(check, depth + 1);
        }
    } else if (type == MP_PERSISTENT_OBJ_STR || type == MP_PERSISTENT_OBJ_BYTES) {
        const uint8_t *text = terminated(check, size);
        if (type == MP_PERSISTENT_OBJ_STR && text != NULL && !dev_text_valid(text, size)) {
            fault(check, BASE_ERR_INVALID, "bytecode: text is not UTF-8");
        }
    } else {
        number_check(check, type, size);
    }
}

// The text of an entry of the name table, which was checked.
static struct base_str name_text(const struct check *check, size_t index)
{
    struct base_reader reader;
    base_reader_init(&reader, check->reader.start,
                     (size_t)(check->reader.end - check->reader.start));
    (void)base_reader_bytes(&reader, check->names_at);
    for (size_t i = 0; reader.status == BASE_OK; i++) {
        size_t coded = uint_read(&reader, 2 * DEV_MPY_TABLE_MAX);
        size_t size = coded >> 1;
        if ((coded & 1) != 0) {
            if (i == index) {
                return dev_mpy_static_name(size);
            }
            continue;
        }
        const uint8_t *text = base_reader_bytes(&reader, size + 1);
        if (i == index && text != NULL) {
            return (struct base_str){(const char *)text, size};
        }
    }
    return (struct base_str){NULL, 0};
}

static void function_fault(struct check *check, const struct dev_mpy_code *code, const char *what)
{
    bool memory = what == dev_mpy_no_memory;
    fault(check, memory ? BASE_ERR_NOMEM : BASE_ERR_INVALID, what);
    struct dev_mpy_fault *out = check->out;
    out->offset = (size_t)(code->bytes - check->reader.start);
    struct base_str name = name_text(check, code->name);
    size_t size = name.size < DEV_MPY_NAME_SHOWN ? name.size : DEV_MPY_NAME_SHOWN;
    for (size_t i = 0; i < size; i++) {
        bool plain = (uint8_t)name.data[i] >= 0x20 && (uint8_t)name.data[i] < 0x7F;
        out->function[i] = plain ? name.data[i] : '?';
    }
    out->function[size] = '\0';
    if (code->fault_in_instruction) {
        out->at = code->fault_at;
        out->offset += (size_t)(code->start - code->bytes) + code->fault_at;
        out->instruction = dev_mpy_instruction_name(code->start[code->fault_at]);
    }
}

static const char *code_check(struct check *check, struct dev_mpy_code *code)
{
    code->cell_bits = check->cell_bits;
    code->target_bits = check->scratch;
    const char *wrong = dev_mpy_code_check(code);
    if (wrong == NULL && code->made.reached) {
        uint64_t *rest = check->scratch + DEV_MPY_BIT_WORDS(code->length);
        wrong = dev_mpy_flow_check(code, rest,
                                   sizeof(check->scratch) -
                                       (size_t)((uint8_t *)rest - (uint8_t *)check->scratch));
    }
    return wrong;
}

static void function_check(struct check *check, struct dev_mpy_made made, unsigned depth)
{
    struct base_reader *reader = &check->reader;
    size_t coded = limited_read(check, ((size_t)DEV_MPY_FUNCTION_MAX << 3) | 7, LONG_FUNCTION);
    if ((coded & 3) != 0) {
        fault(check, BASE_ERR_UNSUPPORTED, "native code in bytecode");
        return;
    }
    if (depth == DEV_MPY_DEPTH_MAX) {
        fault(check, BASE_ERR_INVALID, "bytecode: functions nested too deep");
        return;
    }
    struct dev_mpy_code code = {
        .size = coded >> 3, .names = check->names, .constants = check->constants, .made = made};
    code.bytes = base_reader_bytes(reader, code.size);
    if ((coded & 4) != 0) {
        code.children =
            limited_read(check, DEV_MPY_TABLE_MAX, "bytecode: over 16384 functions in a function");
    }
    if (code.children > base_reader_left(reader)) {
        fault(check, BASE_ERR_TRUNCATED, "bytecode ends too early");
    }
    if (!going(check)) {
        return;
    }
    struct dev_mpy_made few[CHILDREN_FEW] = {{0}};
    struct dev_mpy_made *many =
        code.children > CHILDREN_FEW ? calloc(code.children, sizeof(*many)) : NULL;
    code.children_made = code.children > CHILDREN_FEW ? many : few;
    const char *wrong = code.children_made == NULL ? dev_mpy_no_memory : code_check(check, &code);
    if (wrong != NULL) {
        function_fault(check, &code, wrong);
    }
    for (size_t i = 0; i < code.children && going(check); i++) {
        function_check(check, code.children_made[i], depth + 1);
    }
    free(many);
}

enum base_status dev_mpy_check(const uint8_t *bytes, size_t size, struct dev_mpy_fault *out_fault)
{
    struct check check; // most of it is scratch
    check.fault = NULL;
    check.out = out_fault;
    *out_fault = (struct dev_mpy_fault){.what = NULL};
    base_reader_init(&check.reader, bytes, size);
    if (size > DEV_MPY_BYTES_MAX) {
        fault(&check, BASE_ERR_INVALID, "bytecode: file too long");
    }
    header_check(&check);
    check.names = limited_read(&check, DEV_MPY_TABLE_MAX, "bytecode: over 16384 names");
    check.constants = limited_read(&check, DEV_MPY_TABLE_MAX, "bytecode: over 16384 constants");
    check.names_at = base_reader_offset(&check.reader);
    if (going(&check) && check.names == 0) {
        fault(&check, BASE_ERR_INVALID, "bytecode: no file name");
    }
    for (size_t i = 0; i < check.names && going(&check); i++) {
        name_check(&check);
    }
    for (size_t i = 0; i < check.constants && going(&check); i++) {
        constant_check(&check, 0);
    }
    if (going(&check)) {
        function_check(&check, (struct dev_mpy_made){.reached = true}, 0);
    }
    size_t offset = base_reader_offset(&check.reader);
    enum base_status status = base_reader_finish(&check.reader);
    if (status != BASE_OK) {
        const char *what =
            status == BASE_ERR_TRUNCATED ? "bytecode ends too early" : "damaged bytecode";
        out_fault->what = check.fault != NULL ? check.fault : what;
        out_fault->offset = out_fault->function[0] != '\0' ? out_fault->offset : offset;
    }
    return status;
}
