// Tile instructions (AMX-TILE, AMX-BF16) in software, so that code compiled for them runs on
// processors without: there each of them raises SIGILL, and the handler installed here decodes it,
// does what it says to this thread's tiles, and goes on behind it.
//
// Only 64-bit mode and palette 1: eight tiles of at most 16 rows of 64 bytes. What the processor
// would refuse (#UD, #GP) is refused with a text; in the handler that text goes to stderr and the
// program ends by SIGILL. Memory is touched as the instruction would: row by row, configured bytes
// only, so that a sanitizer sees what a tile load reads.
#ifndef AMX_EMULATOR_H
#define AMX_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMX_TILES                 8
#define AMX_ROWS_MAX              16
#define AMX_ROW_BYTES             64
#define AMX_CONFIG_BYTES          64
#define AMX_INSTRUCTION_BYTES_MAX 15 // bytes of the longest instruction there can be

enum amx_instruction {
    AMX_LDTILECFG,
    AMX_STTILECFG,
    AMX_TILELOADD, // and TILELOADDT1
    AMX_TILESTORED,
    AMX_TILEZERO,
    AMX_TILERELEASE,
    AMX_TDPBF16PS,
    AMX_INSTRUCTION_COUNT
};

struct amx_tile {
    uint8_t rows;
    uint8_t row_bytes;
    _Alignas(4) uint8_t data[AMX_ROWS_MAX][AMX_ROW_BYTES];
};

struct amx_state {
    bool configured;
    uint8_t start_row;
    struct amx_tile tiles[AMX_TILES];
};

struct amx_registers {
    uint64_t gpr[16]; // as instructions number them: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ...
    uint64_t rip;     // of the instruction
};

// Does the one instruction at `code` (at least AMX_INSTRUCTION_BYTES_MAX bytes readable). Returns
// its length; 0: not done, *out_reason says why.
size_t amx_emulate(struct amx_state *state, const uint8_t *code,
                   const struct amx_registers *registers, const char **out_reason);

// Catches SIGILL in this process from here on. False: not on this kind of machine.
bool amx_emulator_install(void);
// Instructions of a kind done by the handler, in all threads.
uint64_t amx_emulator_count(enum amx_instruction kind);

#endif
