// The verifier of .mpy bytecode, before MicroPython's loader sees it.
//
// MicroPython trusts its input: it reads past the end of a short file, follows any index, and
// pushes and pops wherever the bytecode says. This check is the wall: what it passes cannot read or
// write outside the interpreter's own objects, whoever wrote it. Checked: header and version, every
// size, text encoding, nesting; per function the head, that every instruction is known, that
// operands index what exists and that jumps land on instructions (mpy_code.c); and along every path
// the depth of the operand stack, what lies in the slots that the interpreter trusts, the nesting
// of exception blocks, and how functions are made (mpy_flow.c). Linear in the size of the file.
#ifndef DEV_VM_MPY_CHECK_H
#define DEV_VM_MPY_CHECK_H

#include "base/cursor.h"

#define DEV_MPY_BYTES_MAX    (4 * 1024 * 1024)
#define DEV_MPY_TABLE_MAX    16384 // names, constants
#define DEV_MPY_DEPTH_MAX    32    // functions in functions
#define DEV_MPY_TUPLE_MAX    16    // tuples in constant tuples
#define DEV_MPY_FUNCTION_MAX 32768 // bytes of one function; jumps reach no further
#define DEV_MPY_STATE_MAX    4095  // locals and stack slots of one function
#define DEV_MPY_BLOCKS_MAX   127   // exception blocks in blocks: what an unwinding jump can count
#define DEV_MPY_WORK_FACTOR  64    // steps of the verifier for one byte of a function

#define DEV_MPY_NAME_SHOWN 40 // bytes of a function's name in a fault

struct dev_mpy_fault {
    const char *what;                      // static text
    size_t offset;                         // in the file
    const char *instruction;               // its name, static text; NULL: it is not about one
    size_t at;                             // of the instruction in its function
    char function[DEV_MPY_NAME_SHOWN + 1]; // printable; empty: it is not about one
};

// OK, or INVALID, UNSUPPORTED (another version or native code), TRUNCATED, NOMEM with `out_fault`
// filled.
BASE_NODISCARD enum base_status dev_mpy_check(const uint8_t *bytes, size_t size,
                                              struct dev_mpy_fault *out_fault);

// The fault as one line: what, and where there is one the function, the place in it and the
// instruction. Cut where it does not fit.
void dev_mpy_fault_text(const struct dev_mpy_fault *fault, char *out_text, size_t capacity);

#endif
