// One function of a .mpy file as the verifier sees it: shared by mpy_check.c (the container),
// mpy_code.c (head and instructions, one after the other) and mpy_flow.c (along the paths).
#ifndef DEV_VM_MPY_CODE_H
#define DEV_VM_MPY_CODE_H

#include "vm/mpy/mpy_check.h"

#include "base/str.h"

#include <stdbool.h>

// How the function around it makes a function: what the interpreter will find in its slots.
struct dev_mpy_made {
    uint16_t defaults; // positional default values
    uint8_t closed;    // cells handed over as its first locals
    bool keywords;     // default values of keyword-only arguments
    bool reached;      // false: no path makes it, so it never runs
};

struct dev_mpy_head {
    size_t state;      // slots: locals at one end, operand stack at the other
    size_t blocks;     // exception blocks it may have open
    size_t flags;      // MP_SCOPE_FLAG_
    size_t positional; // arguments
    size_t keyword;    // keyword-only arguments
    size_t defaults;
    size_t info_bytes;
    size_t cells;
};

struct dev_mpy_code {
    const uint8_t *bytes;
    size_t size;
    size_t names;     // entries of the module's name table
    size_t constants; // entries of its constant table
    size_t children;  // functions defined in this one
    struct dev_mpy_made made;
    struct dev_mpy_made *children_made; // out: how this one makes them

    // Filled by dev_mpy_code_check.
    struct dev_mpy_head head;
    const uint8_t *start; // of the instructions
    size_t length;
    size_t name; // index of its own name
    size_t locals;
    size_t pushes;  // slots that all instructions together push
    size_t setups;  // exception blocks that are set up
    size_t targets; // places that jumps lead to
    uint64_t *target_bits;
    uint64_t *cell_bits; // locals that hold cells

    // Where the fault is.
    size_t fault_at;
    bool fault_in_instruction;
};

#define DEV_MPY_BIT_WORDS(length) ((length) / 64 + 1)
#define DEV_MPY_CELL_WORDS        DEV_MPY_BIT_WORDS(DEV_MPY_STATE_MAX)

static inline bool dev_mpy_bit(const uint64_t *bits, size_t at)
{
    return (bits[at / 64] >> (at % 64) & 1) != 0;
}

static inline void dev_mpy_bit_set(uint64_t *bits, size_t at)
{
    bits[at / 64] |= (uint64_t)1 << (at % 64);
}

// Head and instructions. `cell_bits` has DEV_MPY_CELL_WORDS, `target_bits` 2 *
// DEV_MPY_BIT_WORDS(size) words, the second half of which is scratch. NULL: fine; else what is
// wrong (static text).
const char *dev_mpy_code_check(struct dev_mpy_code *code);

// Every path through the instructions of a function that dev_mpy_code_check has passed. `scratch`
// (8-aligned) saves an allocation where it suffices. NULL: fine; else what is wrong.
const char *dev_mpy_flow_check(struct dev_mpy_code *code, void *scratch, size_t scratch_size);
extern const char dev_mpy_no_memory[]; // what dev_mpy_flow_check says without memory

// The instruction's name for a fault.
const char *dev_mpy_instruction_name(uint8_t op);
// Text of a static name; empty: there is none.
struct base_str dev_mpy_static_name(size_t qstr);

// An operand: 7 bits a byte, highest first. The bytes were checked by dev_mpy_code_check.
static inline size_t dev_mpy_operand(const uint8_t **at)
{
    const uint8_t *next = *at;
    size_t value = *next & 0x7F;
    while ((*next++ & 0x80) != 0) {
        value = value << 7 | (*next & 0x7F);
    }
    *at = next;
    return value;
}

#endif
