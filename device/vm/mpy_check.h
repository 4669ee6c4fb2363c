// Structural check of .mpy bytecode, before MicroPython's loader sees it.
//
// MicroPython trusts its input: it reads past the end of a short file and follows any index. What
// runs on a device is signed and hashed, so this is not what keeps strangers out; it is what turns
// a damaged or foreign file into an error. Checked: header and version, every size, text encoding,
// nesting, and per function that the prelude fits, that every instruction is known, that operands
// index what exists and that jumps land on instructions of the same function. Not checked: the
// balance of the operand stack.
#ifndef DEV_VM_MPY_CHECK_H
#define DEV_VM_MPY_CHECK_H

#include "base/cursor.h"

#define DEV_MPY_BYTES_MAX    (4 * 1024 * 1024)
#define DEV_MPY_TABLE_MAX    16384 // names, constants
#define DEV_MPY_DEPTH_MAX    32    // functions in functions
#define DEV_MPY_TUPLE_MAX    16    // tuples in constant tuples
#define DEV_MPY_FUNCTION_MAX 32768 // bytes of one function; jumps reach no further
#define DEV_MPY_STATE_MAX    4096  // locals and stack slots of one function

struct dev_mpy_fault {
    const char *what; // static text
    size_t offset;    // in the file
};

// OK, or INVALID, UNSUPPORTED (another version or native code), TRUNCATED with `out_fault` filled.
BASE_NODISCARD enum base_status dev_mpy_check(const uint8_t *bytes, size_t size,
                                              struct dev_mpy_fault *out_fault);

// --- between mpy_check.c and mpy_code.c

struct dev_mpy_code {
    const uint8_t *bytes;
    size_t size;
    size_t names;     // entries of the module's name table
    size_t constants; // entries of its constant table
    size_t children;  // functions defined in this one
};

// One function's prelude and instructions. NULL: fine; else what is wrong (static text).
const char *dev_mpy_code_check(const struct dev_mpy_code *code);
// An unsigned number in MicroPython's encoding: 7 bits a byte, highest first. The reader fails with
// INVALID above `max`.
size_t dev_mpy_uint(struct base_reader *reader, size_t max);

#endif
