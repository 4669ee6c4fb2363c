// The inside of one function's bytecode: prelude, source lines, instructions. Called by
// mpy_check.c; pure. The encodings are those of py/bc.h and py/bc0.h.
#include "vm/mpy_check.h"

#include "py/bc0.h"
#include "py/runtime0.h"

#include <stdbool.h>
#include <string.h>

#define PRELUDE_BYTES_MAX 8 // of the signature and of the sizes; more would overflow what they hold

struct prelude {
    size_t state;
    size_t args;
    size_t info_bytes;
    size_t cells;
};

struct walk {
    const struct dev_mpy_code *code;
    struct prelude prelude;
    struct base_reader reader;                 // over the instructions
    uint8_t starts[DEV_MPY_FUNCTION_MAX / 8];  // one bit an instruction
    uint8_t targets[DEV_MPY_FUNCTION_MAX / 8]; // one bit a place some jump leads to
};

static void bit_set(uint8_t *bits, size_t at)
{
    bits[at / 8] = (uint8_t)(bits[at / 8] | (1U << (at % 8)));
}

static void prelude_read(struct base_reader *reader, struct prelude *out)
{
    uint8_t byte = base_reader_u8(reader);
    size_t state = (byte >> 3) & 0xF;
    size_t positional = byte & 3;
    size_t keyword = 0;
    unsigned n = 0;
    for (; (byte & 0x80) != 0 && n < PRELUDE_BYTES_MAX; n++) {
        byte = base_reader_u8(reader);
        state |= (size_t)(byte & 0x30) << (2 * n);
        positional |= (size_t)(byte & 4) << n;
        keyword |= (size_t)((byte >> 3) & 1) << n;
    }
    out->state = state + 1;
    out->args = positional + keyword;
    out->info_bytes = 0;
    out->cells = 0;
    unsigned m = 0;
    do {
        byte = base_reader_u8(reader);
        out->cells |= (size_t)(byte & 1) << m;
        out->info_bytes |= (size_t)((byte >> 1) & 0x3F) << (6 * m);
        m++;
    } while ((byte & 0x80) != 0 && m < PRELUDE_BYTES_MAX);
    if (n == PRELUDE_BYTES_MAX || m == PRELUDE_BYTES_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// Names of the function and its arguments, then pairs of (bytes, lines) up to the end.
static const char *info_check(const struct walk *walk, const uint8_t *info)
{
    struct base_reader reader;
    base_reader_init(&reader, info, walk->prelude.info_bytes);
    for (size_t i = 0; i < 1 + walk->prelude.args && reader.status == BASE_OK; i++) {
        if (dev_mpy_uint(&reader, DEV_MPY_TABLE_MAX) >= walk->code->names) {
            return "bytecode: argument without a name";
        }
    }
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        if ((base_reader_u8(&reader) & 0x80) != 0) {
            (void)base_reader_u8(&reader);
        }
    }
    return reader.status == BASE_OK ? NULL : "bytecode: source lines cut off";
}

static bool opcode_known(uint8_t op)
{
    switch (op & MP_BC_MASK_FORMAT) {
    case MP_BC_BASE_RESERVED:
        return false;
    case MP_BC_BASE_QSTR_O:
        return op <= MP_BC_IMPORT_FROM;
    case MP_BC_BASE_VINT_O:
        return op <= MP_BC_CALL_METHOD_VAR_KW;
    case MP_BC_BASE_JUMP_E:
        return op != MP_BC_BASE_JUMP_E + 1 && op <= MP_BC_FOR_ITER;
    case MP_BC_BASE_BYTE_E:
        return op >= MP_BC_STORE_MAP && op <= MP_BC_IMPORT_STAR;
    default:
        return op < MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM;
    }
}

// True when nothing is executed behind the instruction unless a jump leads there.
static bool opcode_leaves(uint8_t op)
{
    switch (op) {
    case MP_BC_RETURN_VALUE:
    case MP_BC_RAISE_LAST:
    case MP_BC_RAISE_OBJ:
    case MP_BC_RAISE_FROM:
    case MP_BC_JUMP:
    case MP_BC_UNWIND_JUMP:
    case MP_BC_POP_EXCEPT_JUMP:
        return true;
    default:
        return false;
    }
}

// What a counting operand must stay below.
static size_t operand_limit(const struct walk *walk, uint8_t op)
{
    switch (op) {
    case MP_BC_LOAD_CONST_OBJ:
        return walk->code->constants;
    case MP_BC_MAKE_FUNCTION:
    case MP_BC_MAKE_FUNCTION_DEFARGS:
    case MP_BC_MAKE_CLOSURE:
    case MP_BC_MAKE_CLOSURE_DEFARGS:
        return walk->code->children;
    case MP_BC_LOAD_FAST_N:
    case MP_BC_LOAD_DEREF:
    case MP_BC_STORE_FAST_N:
    case MP_BC_STORE_DEREF:
    case MP_BC_DELETE_FAST:
    case MP_BC_DELETE_DEREF:
        return walk->prelude.state;
    case MP_BC_BUILD_TUPLE:
    case MP_BC_BUILD_LIST:
    case MP_BC_BUILD_SET:
    case MP_BC_UNPACK_SEQUENCE:
        return walk->prelude.state + 1;
    case MP_BC_BUILD_SLICE:
        return 4;
    case MP_BC_STORE_COMP:
        return 4 * (walk->prelude.state + 1);
    default:
        return SIZE_MAX; // a value, a hint, or several numbers in one
    }
}

// Several numbers in one operand: how many stack slots they stand for together.
static size_t operand_slots(uint8_t op, size_t operand)
{
    switch (op) {
    case MP_BC_UNPACK_EX:
        return (operand & 0xFF) + ((operand >> 8) & 0xFF);
    case MP_BC_CALL_FUNCTION:
    case MP_BC_CALL_FUNCTION_VAR_KW:
    case MP_BC_CALL_METHOD:
    case MP_BC_CALL_METHOD_VAR_KW:
        return (operand & 0xFF) + 2 * ((operand >> 8) & 0xFF);
    default:
        return 0;
    }
}

static const char *number_operand(struct walk *walk, uint8_t op)
{
    if (op == MP_BC_LOAD_CONST_SMALL_INT) {
        while ((base_reader_u8(&walk->reader) & 0x80) != 0) {
        }
        return NULL;
    }
    size_t operand = dev_mpy_uint(&walk->reader, UINT32_MAX);
    if (operand >= operand_limit(walk, op) || operand_slots(op, operand) > walk->prelude.state) {
        return "bytecode: operand out of range";
    }
    return NULL;
}

static const char *jump_operand(struct walk *walk, uint8_t op)
{
    struct base_reader *reader = &walk->reader;
    bool is_signed = op <= MP_BC_POP_JUMP_IF_FALSE;
    uint8_t low = base_reader_u8(reader);
    ptrdiff_t distance = low;
    ptrdiff_t bias = 0x40;
    if ((low & 0x80) != 0) {
        distance = (low & 0x7F) | (base_reader_u8(reader) << 7);
        bias = 0x4000;
    }
    ptrdiff_t target = (ptrdiff_t)base_reader_offset(reader) + distance - (is_signed ? bias : 0);
    if (target < 0 || target >= reader->end - reader->start) {
        return "bytecode: jump out of the function";
    }
    bit_set(walk->targets, (size_t)target);
    return NULL;
}

static const char *instruction_check(struct walk *walk, uint8_t op)
{
    const char *wrong = NULL;
    if (!opcode_known(op)) {
        return "bytecode: unknown instruction";
    }
    unsigned format = (unsigned)MP_BC_FORMAT(op);
    if (format == MP_BC_FORMAT_QSTR) {
        if (dev_mpy_uint(&walk->reader, DEV_MPY_TABLE_MAX) >= walk->code->names) {
            wrong = "bytecode: name out of range";
        }
    } else if (format == MP_BC_FORMAT_VAR_UINT) {
        wrong = number_operand(walk, op);
    } else if (format == MP_BC_FORMAT_OFFSET) {
        wrong = jump_operand(walk, op);
    } else if (op >= MP_BC_LOAD_FAST_MULTI && op < MP_BC_UNARY_OP_MULTI) {
        size_t slot = (size_t)(op & 0xF); // both groups have 16 and start at a multiple of it
        if (slot >= walk->prelude.state) {
            wrong = "bytecode: local out of range";
        }
    }
    if ((op & MP_BC_MASK_EXTRA_BYTE) == 0) {
        (void)base_reader_u8(&walk->reader);
    }
    return wrong;
}

static const char *instructions_check(struct walk *walk)
{
    struct base_reader *reader = &walk->reader;
    size_t size = base_reader_left(reader);
    uint8_t op = 0;
    while (base_reader_left(reader) > 0) {
        bit_set(walk->starts, base_reader_offset(reader));
        op = base_reader_u8(reader);
        const char *wrong = instruction_check(walk, op);
        if (wrong != NULL) {
            return wrong;
        }
    }
    if (reader->status != BASE_OK || size == 0 || !opcode_leaves(op)) {
        return "bytecode: function without an end";
    }
    for (size_t i = 0; i <= size / 8 && i < sizeof(walk->starts); i++) {
        if ((walk->targets[i] & ~walk->starts[i]) != 0) {
            return "bytecode: jump into an instruction";
        }
    }
    return NULL;
}

const char *dev_mpy_code_check(const struct dev_mpy_code *code)
{
    if (code->size > DEV_MPY_FUNCTION_MAX) {
        return "bytecode: function too long";
    }
    struct walk walk;
    memset(&walk, 0, offsetof(struct walk, starts));
    memset(walk.starts, 0,
           code->size / 8 + 1 < sizeof(walk.starts) ? code->size / 8 + 1 : sizeof(walk.starts));
    memset(walk.targets, 0,
           code->size / 8 + 1 < sizeof(walk.targets) ? code->size / 8 + 1 : sizeof(walk.targets));
    walk.code = code;
    struct base_reader reader;
    base_reader_init(&reader, code->bytes, code->size);
    prelude_read(&reader, &walk.prelude);
    const struct prelude *prelude = &walk.prelude;
    if (reader.status != BASE_OK || prelude->state > DEV_MPY_STATE_MAX ||
        prelude->args > prelude->state) {
        return "bytecode: damaged function head";
    }
    const uint8_t *info = base_reader_bytes(&reader, prelude->info_bytes);
    const uint8_t *cells = base_reader_bytes(&reader, prelude->cells);
    if (info == NULL || cells == NULL) {
        return "bytecode: damaged function head";
    }
    const char *wrong = info_check(&walk, info);
    for (size_t i = 0; i < prelude->cells && wrong == NULL; i++) {
        if (cells[i] >= prelude->state) {
            wrong = "bytecode: local out of range";
        }
    }
    if (wrong != NULL) {
        return wrong;
    }
    base_reader_init(&walk.reader, reader.at, base_reader_left(&reader));
    return instructions_check(&walk);
}
