// The inside of one function's bytecode, byte after byte: head, source lines, instructions and
// their operands, where jumps land, which locals are cells. Called by mpy_check.c; pure. The
// encodings are those of py/bc.h and py/bc0.h.
#include "vm/mpy/mpy_code.h"

#include "py/bc0.h"
#include "py/runtime0.h"

#include <string.h>

#define HEAD_BYTES_MAX 8 // of the signature and of the sizes; more would overflow what they hold

struct walk {
    struct dev_mpy_code *code;
    const uint8_t *at;
    const uint8_t *end;
    uint64_t *starts; // one bit an instruction
    size_t local_top; // highest local that is used, plus one
};

static void head_read(struct base_reader *reader, struct dev_mpy_head *out)
{
    uint8_t byte = base_reader_u8(reader);
    *out = (struct dev_mpy_head){.state = (byte >> 3) & 0xF, .blocks = (byte >> 2) & 1};
    out->positional = byte & 3;
    unsigned n = 0;
    for (; (byte & 0x80) != 0 && n < HEAD_BYTES_MAX; n++) {
        byte = base_reader_u8(reader);
        out->state |= (size_t)(byte & 0x30) << (2 * n);
        out->blocks |= (size_t)(byte & 2) << n;
        out->flags |= (size_t)((byte >> 6) & 1) << n;
        out->positional |= (size_t)(byte & 4) << n;
        out->keyword |= (size_t)((byte >> 3) & 1) << n;
        out->defaults |= (size_t)(byte & 1) << n;
    }
    out->state++;
    unsigned m = 0;
    do {
        byte = base_reader_u8(reader);
        out->cells |= (size_t)(byte & 1) << m;
        out->info_bytes |= (size_t)((byte >> 1) & 0x3F) << (6 * m);
        m++;
    } while ((byte & 0x80) != 0 && m < HEAD_BYTES_MAX);
    if (n == HEAD_BYTES_MAX || m == HEAD_BYTES_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static size_t name_read(struct base_reader *reader)
{
    size_t value = 0;
    uint8_t byte;
    do {
        byte = base_reader_u8(reader);
        value = value << 7 | (byte & 0x7F);
    } while ((byte & 0x80) != 0 && value < DEV_MPY_TABLE_MAX);
    return value;
}

// Names of the function and its arguments, then pairs of (bytes, lines) up to the end.
static const char *info_check(struct dev_mpy_code *code, const uint8_t *info)
{
    const struct dev_mpy_head *head = &code->head;
    struct base_reader reader;
    base_reader_init(&reader, info, head->info_bytes);
    for (size_t i = 0; i < 1 + head->positional + head->keyword && reader.status == BASE_OK; i++) {
        size_t name = name_read(&reader);
        if (name >= code->names) {
            return "bytecode: argument without a name";
        }
        if (i == 0) {
            code->name = name;
        }
    }
    if (reader.status != BASE_OK) {
        return "bytecode: argument without a name";
    }
    const uint8_t *at = reader.at;
    while (at < reader.end) {
        at += (*at & 0x80) != 0 ? 2 : 1;
    }
    return at == reader.end ? NULL : "bytecode: source lines cut off";
}

// What the head says of the arguments against how the function is made.
static const char *made_check(const struct dev_mpy_code *code)
{
    const struct dev_mpy_head *head = &code->head;
    if (head->defaults > head->positional) {
        return "bytecode: more default values than arguments";
    }
    if (!code->made.reached) {
        return NULL;
    }
    if (head->defaults != code->made.defaults) {
        return "bytecode: made with other default values than it declares";
    }
    if (((head->flags & MP_SCOPE_FLAG_DEFKWARGS) != 0) != code->made.keywords) {
        return "bytecode: made with other keyword default values than it declares";
    }
    if (code->made.closed > head->positional) {
        return "bytecode: made with more cells than it has arguments";
    }
    return NULL;
}

static const char *opcode_check(uint8_t op)
{
    bool known;
    switch (op & MP_BC_MASK_FORMAT) {
    case MP_BC_BASE_RESERVED:
        known = false;
        break;
    case MP_BC_BASE_QSTR_O:
        known = op <= MP_BC_IMPORT_FROM;
        break;
    case MP_BC_BASE_VINT_O:
        known = op <= MP_BC_CALL_METHOD_VAR_KW;
        break;
    case MP_BC_BASE_JUMP_E:
        known = op != MP_BC_BASE_JUMP_E + 1 && op <= MP_BC_FOR_ITER;
        break;
    case MP_BC_BASE_BYTE_E:
        known = op >= MP_BC_STORE_MAP && op <= MP_BC_IMPORT_STAR;
        break;
    default:
        known = op < MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM;
    }
    return known ? NULL : "bytecode: unknown instruction";
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

static const char cut_off[] = "bytecode: function without an end";

// The operand; SIZE_MAX when it runs off the function or above UINT32_MAX.
static size_t uint_read(struct walk *walk)
{
    size_t value = 0;
    while (walk->at < walk->end) {
        uint8_t byte = *walk->at++;
        value = value << 7 | (byte & 0x7F);
        if (value > UINT32_MAX) {
            return SIZE_MAX;
        }
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    return SIZE_MAX;
}

static const char *local_check(struct walk *walk, uint8_t op, size_t local)
{
    struct dev_mpy_code *code = walk->code;
    if (local >= code->head.state) {
        return "bytecode: local out of range";
    }
    walk->local_top = local >= walk->local_top ? local + 1 : walk->local_top;
    bool cell = dev_mpy_bit(code->cell_bits, local);
    bool wants_cell = op == MP_BC_LOAD_DEREF || op == MP_BC_STORE_DEREF || op == MP_BC_DELETE_DEREF;
    bool loads =
        op == MP_BC_LOAD_FAST_N || (op >= MP_BC_LOAD_FAST_MULTI && op < MP_BC_STORE_FAST_MULTI);
    if (!code->made.reached || loads || cell == wants_cell) {
        code->pushes += loads || op == MP_BC_LOAD_DEREF;
        return NULL;
    }
    return cell ? "bytecode: local is a cell" : "bytecode: local is not a cell";
}

// Slots that a call takes besides the function.
static size_t call_slots(size_t operand)
{
    return (operand & 0xFF) + 2 * ((operand >> 8) & 0xFF);
}

static const char *count_check(struct walk *walk, uint8_t op, size_t operand)
{
    struct dev_mpy_code *code = walk->code;
    size_t state = code->head.state;
    bool good = true;
    code->pushes++;
    switch (op) {
    case MP_BC_LOAD_CONST_OBJ:
        good = operand < code->constants;
        break;
    case MP_BC_MAKE_FUNCTION:
    case MP_BC_MAKE_FUNCTION_DEFARGS:
    case MP_BC_MAKE_CLOSURE:
    case MP_BC_MAKE_CLOSURE_DEFARGS:
        good = operand < code->children;
        break;
    case MP_BC_BUILD_MAP: // a hint of the size
        good = operand <= DEV_MPY_FUNCTION_MAX;
        break;
    case MP_BC_BUILD_SLICE: // one byte, whatever its high bit says
        good = operand == 2 || operand == 3;
        good = good && walk->at[-2] == op;
        break;
    case MP_BC_STORE_COMP:
        good = operand < 4 * (state + 1) && (operand & 3) != 3;
        break;
    case MP_BC_UNPACK_SEQUENCE:
        code->pushes += operand;
        good = operand <= state;
        break;
    case MP_BC_UNPACK_EX:
        code->pushes += (operand & 0xFF) + (operand >> 8);
        good = operand <= 0xFFFF && (operand & 0xFF) + (operand >> 8) <= state;
        break;
    case MP_BC_CALL_FUNCTION:
    case MP_BC_CALL_FUNCTION_VAR_KW:
    case MP_BC_CALL_METHOD:
    case MP_BC_CALL_METHOD_VAR_KW:
        good = operand <= 0xFFFF && call_slots(operand) <= state;
        break;
    default: // BUILD_TUPLE, BUILD_LIST, BUILD_SET
        good = operand <= state;
    }
    return good ? NULL : "bytecode: operand out of range";
}

static const char *number_operand(struct walk *walk, uint8_t op)
{
    if (op == MP_BC_LOAD_CONST_SMALL_INT) {
        walk->code->pushes++;
        while (walk->at < walk->end && (*walk->at++ & 0x80) != 0) {
        }
        return walk->at < walk->end ? NULL : cut_off;
    }
    size_t operand = uint_read(walk);
    if (operand == SIZE_MAX) {
        return walk->at < walk->end ? "bytecode: operand out of range" : cut_off;
    }
    switch (op) {
    case MP_BC_LOAD_FAST_N:
    case MP_BC_LOAD_DEREF:
    case MP_BC_STORE_FAST_N:
    case MP_BC_STORE_DEREF:
    case MP_BC_DELETE_FAST:
    case MP_BC_DELETE_DEREF:
        return local_check(walk, op, operand);
    default:
        return count_check(walk, op, operand);
    }
}

static const char *jump_operand(struct walk *walk, uint8_t op)
{
    struct dev_mpy_code *code = walk->code;
    if (walk->at == walk->end) {
        return cut_off;
    }
    ptrdiff_t distance = *walk->at++;
    ptrdiff_t bias = 0x40;
    if ((distance & 0x80) != 0) {
        if (walk->at == walk->end) {
            return cut_off;
        }
        distance = (distance & 0x7F) | (*walk->at++ << 7);
        bias = 0x4000;
    }
    bool is_signed = op <= MP_BC_POP_JUMP_IF_FALSE;
    ptrdiff_t target = (walk->at - code->start) + distance - (is_signed ? bias : 0);
    if (target < 0 || (size_t)target >= code->length) {
        return "bytecode: jump out of the function";
    }
    dev_mpy_bit_set(code->target_bits, (size_t)target);
    if (op >= MP_BC_SETUP_WITH && op <= MP_BC_SETUP_FINALLY) {
        code->setups++;
        code->pushes += op == MP_BC_SETUP_WITH ? 4 : 1;
    }
    code->pushes += op == MP_BC_FOR_ITER;
    return NULL;
}

// Pushes of instructions without an operand, of which a few push more than one slot.
static size_t byte_pushes(uint8_t op)
{
    switch (op) {
    case MP_BC_GET_ITER_STACK:
        return 4;
    case MP_BC_ROT_THREE:
        return 3;
    case MP_BC_DUP_TOP_TWO:
    case MP_BC_ROT_TWO:
        return 2;
    default:
        return 1;
    }
}

static const char *instruction_check(struct walk *walk, uint8_t op)
{
    struct dev_mpy_code *code = walk->code;
    unsigned format = (unsigned)MP_BC_FORMAT(op);
    const char *wrong = opcode_check(op);
    if (wrong != NULL) {
        return wrong;
    }
    if (format == MP_BC_FORMAT_QSTR) {
        size_t name = uint_read(walk);
        code->pushes += 2;
        if (name >= code->names) {
            return name == SIZE_MAX && walk->at == walk->end ? cut_off
                                                             : "bytecode: name out of range";
        }
    } else if (format == MP_BC_FORMAT_VAR_UINT) {
        wrong = number_operand(walk, op);
    } else if (format == MP_BC_FORMAT_OFFSET) {
        wrong = jump_operand(walk, op);
    } else if (op >= MP_BC_LOAD_FAST_MULTI && op < MP_BC_UNARY_OP_MULTI) {
        wrong = local_check(walk, op, op & 0xF); // both groups have 16, from a multiple of it
    } else if ((op == MP_BC_YIELD_VALUE || op == MP_BC_YIELD_FROM) &&
               (code->head.flags & MP_SCOPE_FLAG_GENERATOR) == 0) {
        return "bytecode: yield outside a generator";
    } else {
        code->pushes += byte_pushes(op);
    }
    if ((op & MP_BC_MASK_EXTRA_BYTE) == 0 && wrong == NULL) {
        if (walk->at == walk->end) {
            return cut_off;
        }
        walk->at++;
    }
    return wrong;
}

static const char *instructions_check(struct walk *walk)
{
    struct dev_mpy_code *code = walk->code;
    uint8_t op = 0;
    while (walk->at < walk->end) {
        code->fault_at = (size_t)(walk->at - code->start);
        code->fault_in_instruction = true;
        dev_mpy_bit_set(walk->starts, code->fault_at);
        op = *walk->at++;
        const char *wrong = instruction_check(walk, op);
        if (wrong != NULL) {
            return wrong;
        }
    }
    if (code->length == 0 || !opcode_leaves(op)) {
        return cut_off;
    }
    code->fault_in_instruction = false;
    for (size_t i = 0; i < DEV_MPY_BIT_WORDS(code->length); i++) {
        uint64_t stray = code->target_bits[i] & ~walk->starts[i];
        if (stray != 0) {
            return "bytecode: jump into an instruction";
        }
        code->targets += (size_t)__builtin_popcountll(code->target_bits[i]);
    }
    return NULL;
}

static const char *cells_check(struct dev_mpy_code *code, const uint8_t *cells, size_t *local_top)
{
    memset(code->cell_bits, 0, (code->head.state / 64 + 1) * sizeof(uint64_t));
    for (size_t i = 0; i < code->made.closed; i++) {
        dev_mpy_bit_set(code->cell_bits, i);
    }
    for (size_t i = 0; i < code->head.cells; i++) {
        if (cells[i] >= code->head.state) {
            return "bytecode: local out of range";
        }
        dev_mpy_bit_set(code->cell_bits, cells[i]);
        *local_top = cells[i] >= *local_top ? cells[i] + 1U : *local_top;
    }
    return NULL;
}

static size_t arguments(const struct dev_mpy_head *head)
{
    return head->positional + head->keyword + ((head->flags & MP_SCOPE_FLAG_VARARGS) != 0) +
           ((head->flags & MP_SCOPE_FLAG_VARKEYWORDS) != 0);
}

const char *dev_mpy_code_check(struct dev_mpy_code *code)
{
    static const char damaged[] = "bytecode: damaged function head";
    struct dev_mpy_head *head = &code->head;
    struct base_reader reader;
    base_reader_init(&reader, code->bytes, code->size);
    head_read(&reader, head);
    if (reader.status != BASE_OK || head->state > DEV_MPY_STATE_MAX ||
        head->blocks > DEV_MPY_BLOCKS_MAX || head->flags > MP_SCOPE_FLAG_ALL_SIG) {
        return damaged;
    }
    const uint8_t *info = base_reader_bytes(&reader, head->info_bytes);
    const uint8_t *cells = base_reader_bytes(&reader, head->cells);
    if (info == NULL || cells == NULL || arguments(head) > head->state) {
        return damaged;
    }
    const char *wrong = info_check(code, info);
    if (wrong == NULL) {
        wrong = made_check(code);
    }
    struct walk walk = {.code = code, .at = reader.at, .end = reader.end};
    walk.local_top = arguments(head);
    if (wrong == NULL) {
        wrong = cells_check(code, cells, &walk.local_top);
    }
    if (wrong != NULL) {
        return wrong;
    }
    code->start = reader.at;
    code->length = base_reader_left(&reader);
    size_t words = DEV_MPY_BIT_WORDS(code->length);
    memset(code->target_bits, 0, 2 * words * sizeof(uint64_t));
    walk.starts = code->target_bits + words;
    wrong = instructions_check(&walk);
    code->locals = walk.local_top;
    return wrong;
}
