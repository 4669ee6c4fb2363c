// The container format of .mpy files: header, names, constants, functions. Called before a module
// is loaded, on the VM's thread; pure.
#include "vm/mpy_check.h"

#include "vm/vm_text.h"

#include "py/persistentcode.h"
#include "py/qstr.h"
#include "py/smallint.h"

#include <stdbool.h>

#define NAME_MAX_BYTES 255

struct check {
    struct base_reader reader;
    size_t names;
    size_t constants;
    const char *fault; // first one
};

size_t dev_mpy_uint(struct base_reader *reader, size_t max)
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
    size_t coded = dev_mpy_uint(&check->reader, 2 * DEV_MPY_TABLE_MAX);
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
    size_t size = dev_mpy_uint(&check->reader, base_reader_left(&check->reader));
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

static void function_check(struct check *check, unsigned depth)
{
    struct base_reader *reader = &check->reader;
    size_t coded = dev_mpy_uint(reader, ((size_t)DEV_MPY_FUNCTION_MAX << 3) | 7);
    if ((coded & 3) != 0) {
        fault(check, BASE_ERR_UNSUPPORTED, "native code in bytecode");
        return;
    }
    if (depth == DEV_MPY_DEPTH_MAX) {
        fault(check, BASE_ERR_INVALID, "bytecode: functions nested too deep");
        return;
    }
    struct dev_mpy_code code = {
        .size = coded >> 3, .names = check->names, .constants = check->constants};
    code.bytes = base_reader_bytes(reader, code.size);
    if ((coded & 4) != 0) {
        code.children = dev_mpy_uint(reader, DEV_MPY_TABLE_MAX);
    }
    if (!going(check)) {
        return;
    }
    const char *wrong = dev_mpy_code_check(&code);
    if (wrong != NULL) {
        fault(check, BASE_ERR_INVALID, wrong);
    }
    for (size_t i = 0; i < code.children && going(check); i++) {
        function_check(check, depth + 1);
    }
}

enum base_status dev_mpy_check(const uint8_t *bytes, size_t size, struct dev_mpy_fault *out_fault)
{
    struct check check = {.fault = NULL};
    base_reader_init(&check.reader, bytes, size);
    if (size > DEV_MPY_BYTES_MAX) {
        fault(&check, BASE_ERR_INVALID, "bytecode: file too long");
    }
    header_check(&check);
    check.names = dev_mpy_uint(&check.reader, DEV_MPY_TABLE_MAX);
    check.constants = dev_mpy_uint(&check.reader, DEV_MPY_TABLE_MAX);
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
        function_check(&check, 0);
    }
    enum base_status status = base_reader_finish(&check.reader);
    if (status != BASE_OK) {
        const char *what =
            status == BASE_ERR_TRUNCATED ? "bytecode ends too early" : "damaged bytecode";
        out_fault->what = check.fault != NULL ? check.fault : what;
        out_fault->offset = base_reader_offset(&check.reader);
    }
    return status;
}
