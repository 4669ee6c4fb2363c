// Decoding and execution of tile instructions, and the SIGILL handler around them. Called by tests;
// the handler runs on whatever thread met the instruction, each thread has tiles of its own. The
// counters are the only state shared between threads, and atomic.
//
// Encodings, checks and the order of sums are those of Intel's manual (SDM volume 2, chapter of AMX
// instructions).
#include "amx_emulator.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <ucontext.h>
#endif

#define VEX3_BYTES     3 // before the opcode
#define VEX_UNUSED     15
#define CONFIG_COLUMNS 16 // where the bytes of rows begin, two bytes a tile
#define CONFIG_ROWS    48

enum vex_prefix { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };

// An instruction with its fields taken apart. Register numbers include VEX's high bits.
struct decoded {
    enum vex_prefix prefix;
    uint8_t opcode, mod, reg, rm, vvvv;
    bool memory, sib; // has a memory operand; with a SIB byte
    uint64_t base;    // address without index
    uint64_t index;   // index register times scale
    size_t bytes;
};

static int32_t displacement(const uint8_t *code, size_t bytes)
{
    if (bytes == 1) {
        return (int8_t)code[0];
    }
    int32_t value;
    memcpy(&value, code, sizeof(value));
    return value;
}

// The memory operand behind ModRM at `at`; x, b: VEX's high bits of index and base.
static void decode_memory(struct decoded *d, const uint8_t *code, size_t at, uint8_t x, uint8_t b,
                          const struct amx_registers *registers)
{
    uint8_t base = d->rm;
    d->sib = base == 4;
    if (d->sib) {
        const uint8_t sib = code[at++], index = (uint8_t)((sib >> 3 & 7) | x);
        base = sib & 7;
        d->index = index == 4 ? 0 : registers->gpr[index] << (sib >> 6); // 4: none
    }
    size_t length = d->mod == 1 ? 1 : d->mod == 2 ? 4 : 0;
    const bool bare = d->mod == 0 && base == 5; // no base: an address, or relative to the next one
    length = bare ? 4 : length;
    if (length > 0) {
        d->base = (uint64_t)(int64_t)displacement(code + at, length);
    }
    d->bytes = at + length;
    if (!bare) {
        d->base += registers->gpr[base | b];
    } else if (!d->sib) {
        d->base += registers->rip + d->bytes;
    }
}

static const char *decode(const uint8_t *code, const struct amx_registers *registers,
                          struct decoded *d)
{
    *d = (struct decoded){0};
    if (code[0] != 0xc4 || (code[1] & 31) != 2) {
        return "not a VEX instruction of map 0F38";
    }
    if ((code[2] & 0x84) != 0) {
        return "#UD: VEX.W or VEX.L is set";
    }
    const uint8_t r = code[1] & 0x80 ? 0 : 8, x = code[1] & 0x40 ? 0 : 8;
    const uint8_t b = code[1] & 0x20 ? 0 : 8;
    const uint8_t modrm = code[VEX3_BYTES + 1];
    d->prefix = (enum vex_prefix)(code[2] & 3);
    d->vvvv = (uint8_t)(~code[2] >> 3 & 15);
    d->opcode = code[VEX3_BYTES];
    d->mod = modrm >> 6;
    d->reg = (uint8_t)((modrm >> 3 & 7) | r);
    d->rm = modrm & 7;
    d->memory = d->mod != 3;
    d->bytes = VEX3_BYTES + 2;
    if (d->memory) {
        decode_memory(d, code, d->bytes, x, b, registers);
    } else {
        d->rm |= b;
    }
    return NULL;
}

static bool all_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static const char *load_config(struct amx_state *state, uint64_t address)
{
    uint8_t config[AMX_CONFIG_BYTES];
    memcpy(config, (const void *)(uintptr_t)address, sizeof(config));
    struct amx_state next = {.start_row = config[1]};
    if (config[0] > 1) {
        return "#GP: LDTILECFG of an unknown palette";
    }
    if (config[0] == 0) {
        *state = (struct amx_state){0};
        return NULL;
    }
    if (!all_zero(config + 2, 14) || !all_zero(config + CONFIG_COLUMNS + 2 * AMX_TILES, 16) ||
        !all_zero(config + CONFIG_ROWS + AMX_TILES, 8)) {
        return "#GP: LDTILECFG with reserved bytes set";
    }
    for (size_t i = 0; i < AMX_TILES; i++) {
        uint16_t row_bytes;
        memcpy(&row_bytes, config + CONFIG_COLUMNS + 2 * i, sizeof(row_bytes));
        const uint8_t rows = config[CONFIG_ROWS + i];
        if (row_bytes > AMX_ROW_BYTES || rows > AMX_ROWS_MAX) {
            return "#GP: LDTILECFG of a tile larger than 16 rows of 64 bytes";
        }
        if ((row_bytes == 0) != (rows == 0)) {
            return "#GP: LDTILECFG of a tile with rows but no columns, or columns but no rows";
        }
        next.tiles[i].rows = rows;
        next.tiles[i].row_bytes = (uint8_t)row_bytes;
    }
    next.configured = true;
    *state = next;
    return NULL;
}

static void store_config(const struct amx_state *state, uint64_t address)
{
    uint8_t config[AMX_CONFIG_BYTES] = {0};
    if (state->configured) {
        config[0] = 1;
        config[1] = state->start_row;
        for (size_t i = 0; i < AMX_TILES; i++) {
            config[CONFIG_COLUMNS + 2 * i] = state->tiles[i].row_bytes;
            config[CONFIG_ROWS + i] = state->tiles[i].rows;
        }
    }
    memcpy((void *)(uintptr_t)address, config, sizeof(config));
}

// A tile an instruction names; NULL: there is none, or it was given no size.
static struct amx_tile *tile_of(struct amx_state *state, uint8_t number)
{
    if (!state->configured || number >= AMX_TILES || state->tiles[number].rows == 0) {
        return NULL;
    }
    return &state->tiles[number];
}

static const char *move_tile(struct amx_state *state, const struct decoded *d, bool store)
{
    struct amx_tile *tile = tile_of(state, d->reg);
    if (!d->sib) {
        return "#UD: a tile is loaded or stored without a SIB byte";
    }
    if (tile == NULL) {
        return "#UD: a tile that is not configured is loaded or stored";
    }
    if (state->start_row >= tile->rows) {
        return "#UD: the row to start at lies behind the tile";
    }
    for (size_t r = state->start_row; r < tile->rows; r++) {
        void *memory = (void *)(uintptr_t)(d->base + r * d->index);
        if (store) {
            memcpy(memory, tile->data[r], tile->row_bytes);
        } else {
            memcpy(tile->data[r], memory, tile->row_bytes);
        }
    }
    if (!store) { // what lies outside a tile's size reads as zero
        for (size_t r = 0; r < AMX_ROWS_MAX; r++) {
            const size_t kept = r < tile->rows ? tile->row_bytes : 0;
            memset(tile->data[r] + kept, 0, AMX_ROW_BYTES - kept);
        }
    }
    state->start_row = 0;
    return NULL;
}

// Numbers too small to be normal count as zero, before and after each operation.
static float flush(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static float load_bf16(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof(half));
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return flush(value);
}

// One row of C: the products of even and of odd elements are summed apart along K, each by fused
// multiply-adds rounded to nearest, then added to each other and then to C.
static void multiply_row(uint8_t *c, const uint8_t *a, const struct amx_tile *b)
{
    for (size_t n = 0; n < b->row_bytes; n += 4) {
        float even = 0, odd = 0, sum;
        for (size_t k = 0; k < b->rows; k++) {
            even = flush(fmaf(load_bf16(a + 4 * k), load_bf16(b->data[k] + n), even));
            odd = flush(fmaf(load_bf16(a + 4 * k + 2), load_bf16(b->data[k] + n + 2), odd));
        }
        memcpy(&sum, c + n, sizeof(sum));
        sum = flush(flush(sum) + flush(even + odd));
        memcpy(c + n, &sum, sizeof(sum));
    }
}

static const char *multiply(struct amx_state *state, const struct decoded *d)
{
    struct amx_tile *c = tile_of(state, d->reg);
    const struct amx_tile *a = tile_of(state, d->rm), *b = tile_of(state, d->vvvv);
    if (a == NULL || b == NULL || c == NULL) {
        return "#UD: TDPBF16PS of a tile that is not configured";
    }
    if (a == b || a == c || b == c) {
        return "#UD: TDPBF16PS names a tile twice";
    }
    if (a->row_bytes % 4 != 0 || b->row_bytes % 4 != 0 || c->row_bytes % 4 != 0) {
        return "#UD: TDPBF16PS of rows that are not whole pairs";
    }
    if (a->rows != c->rows || b->row_bytes != c->row_bytes || a->row_bytes / 4 != b->rows) {
        return "#UD: TDPBF16PS of tiles whose sizes do not fit each other";
    }
    for (size_t m = 0; m < c->rows; m++) {
        multiply_row(c->data[m], a->data[m], b);
    }
    state->start_row = 0;
    return NULL;
}

// Opcode 49: configurations, TILEZERO, TILERELEASE.
static const char *do_49(struct amx_state *state, const struct decoded *d,
                         enum amx_instruction *out_kind)
{
    struct amx_tile *tile = tile_of(state, d->reg);
    if (d->memory && d->reg == 0 && d->prefix == PREFIX_NONE) {
        *out_kind = AMX_LDTILECFG;
        return load_config(state, d->base + d->index);
    }
    if (d->memory && d->reg == 0 && d->prefix == PREFIX_66) {
        *out_kind = AMX_STTILECFG;
        store_config(state, d->base + d->index);
        return NULL;
    }
    if (!d->memory && d->prefix == PREFIX_NONE && d->reg == 0 && d->rm == 0) {
        *out_kind = AMX_TILERELEASE;
        *state = (struct amx_state){0};
        return NULL;
    }
    if (d->memory || d->prefix != PREFIX_F2 || d->rm != 0) {
        return "no tile instruction";
    }
    if (tile == NULL) {
        return "#UD: TILEZERO of a tile that is not configured";
    }
    *out_kind = AMX_TILEZERO;
    memset(tile->data, 0, sizeof(tile->data));
    state->start_row = 0;
    return NULL;
}

static const char *execute(struct amx_state *state, const struct decoded *d,
                           enum amx_instruction *out_kind)
{
    if (d->opcode != 0x5c && d->vvvv != 0) {
        return "#UD: VEX.vvvv names a register of an instruction that has none";
    }
    switch (d->opcode) {
    case 0x49:
        return do_49(state, d, out_kind);
    case 0x4b:
        if (!d->memory || d->prefix == PREFIX_NONE) {
            return "no tile instruction";
        }
        *out_kind = d->prefix == PREFIX_F3 ? AMX_TILESTORED : AMX_TILELOADD;
        return move_tile(state, d, d->prefix == PREFIX_F3);
    case 0x5c:
        if (d->memory || d->prefix != PREFIX_F3) {
            return "no tile instruction";
        }
        *out_kind = AMX_TDPBF16PS;
        return multiply(state, d);
    default:
        return "no tile instruction";
    }
}

static atomic_uint_fast64_t counts[AMX_INSTRUCTION_COUNT];

size_t amx_emulate(struct amx_state *state, const uint8_t *code,
                   const struct amx_registers *registers, const char **out_reason)
{
    struct decoded d;
    enum amx_instruction kind = AMX_INSTRUCTION_COUNT;
    const char *reason = decode(code, registers, &d);
    if (reason == NULL) {
        reason = execute(state, &d, &kind);
    }
    if (reason != NULL) {
        *out_reason = reason;
        return 0;
    }
    atomic_fetch_add_explicit(&counts[kind], 1, memory_order_relaxed);
    return d.bytes;
}

uint64_t amx_emulator_count(enum amx_instruction kind)
{
    return atomic_load(&counts[kind]);
}

#if defined(__x86_64__)
static void say(const char *text)
{
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void on_illegal(int number, siginfo_t *info, void *opaque)
{
    static _Thread_local struct amx_state state;
    static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15};
    (void)info;
    greg_t *saved = ((ucontext_t *)opaque)->uc_mcontext.gregs;
    struct amx_registers registers = {.rip = (uint64_t)saved[REG_RIP]};
    for (size_t i = 0; i < 16; i++) {
        registers.gpr[i] = (uint64_t)saved[places[i]];
    }
    const char *reason = "";
    const size_t bytes =
        amx_emulate(&state, (const uint8_t *)(uintptr_t)registers.rip, &registers, &reason);
    if (bytes == 0) { // the instruction is met again, and now ends the program
        say("amx emulator: ");
        say(reason);
        say("\n");
        (void)signal(number, SIG_DFL);
        return;
    }
    saved[REG_RIP] += (greg_t)bytes;
}

bool amx_emulator_install(void)
{
    struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGILL, &action, NULL) == 0;
}
#else
bool amx_emulator_install(void)
{
    return false;
}
#endif
