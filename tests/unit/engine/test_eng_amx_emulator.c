// The emulator of tile instructions: hand-assembled instructions against loops over plain arrays,
// their addressing, the rule of sums, refusals, and the handler on two threads.
#include "test_kit.h"

#include "amx_emulator.h"
#include "backend/cpu/kernel/isa.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEED 20240701u

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

static struct base_prng prng;

struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const uint8_t ldtilecfg_rax[15] = {0xc4, 0xe2, 0x78, 0x49, 0x00};
static const uint8_t sttilecfg_rdx[15] = {0xc4, 0xe2, 0x79, 0x49, 0x02};
static const uint8_t tilerelease[15] = {0xc4, 0xe2, 0x78, 0x49, 0xc0};
static const uint8_t tilezero_6[15] = {0xc4, 0xe2, 0x7b, 0x49, 0xf0};
static const uint8_t tileload_0_rax_rcx[15] = {0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08};
static const uint8_t tileload_1_rax_rcx[15] = {0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x08};
static const uint8_t tileload_2_rax_rcx[15] = {0xc4, 0xe2, 0x7b, 0x4b, 0x14, 0x08};
static const uint8_t tilestore_4_rdi_rcx[15] = {0xc4, 0xe2, 0x7a, 0x4b, 0x24, 0x0f};
static const uint8_t tilestore_0_rdi_rcx[15] = {0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x0f};
static const uint8_t tdpbf16ps_0_1_2[15] = {0xc4, 0xe2, 0x6a, 0x5c, 0xc1};

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

// Does it, and checks the length; names the reason when it is refused.
static void emulate(struct amx_state *state, const uint8_t *code,
                    const struct amx_registers *registers, size_t bytes)
{
    const char *reason = "none";
    const size_t found = amx_emulate(state, code, registers, &reason);
    if (found != bytes) {
        fail_msg("%zu bytes, expected %zu: %s", found, bytes, reason);
    }
}

static void configure(struct amx_state *state, const struct config *config)
{
    emulate(state, ldtilecfg_rax, &(struct amx_registers){.gpr = {[RAX] = address(config)}}, 5);
}

// All tiles of one size.
static struct config uniform(uint8_t rows, uint16_t row_bytes)
{
    struct config config = {.palette = 1};
    for (int i = 0; i < AMX_TILES; i++) {
        config.rows[i] = rows;
        config.row_bytes[i] = row_bytes;
    }
    return config;
}

static void test_config(void **unused)
{
    (void)unused;
    static struct amx_state state;
    struct config config = {.palette = 1, .row_bytes = {64, 8, 0, 12}, .rows = {16, 3, 0, 1}};
    struct config found = {0};
    const struct amx_registers out = {.gpr = {[RDX] = address(&found)}};
    configure(&state, &config);
    emulate(&state, sttilecfg_rdx, &out, 5);
    assert_memory_equal(&found, &config, sizeof(config));
    emulate(&state, tilerelease, &out, 5);
    emulate(&state, sttilecfg_rdx, &out, 5);
    config = (struct config){0};
    assert_memory_equal(&found, &config, sizeof(config));
    assert_false(state.configured);
}

struct addressing {
    uint8_t code[AMX_INSTRUCTION_BYTES_MAX];
    size_t bytes;
    int base, index; // registers; -1: none
    uint8_t tile;
    int64_t displacement;
    uint32_t scale;
};

static const struct addressing addressings[] = {
    {{0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08}, 6, RAX, RCX, 0, 0, 1},
    {{0xc4, 0x82, 0x7b, 0x4b, 0x6c, 0x71, 0x40}, 7, R9, R14, 5, 0x40, 2},
    {{0xc4, 0xc2, 0x79, 0x4b, 0x5c, 0x95, 0x00}, 7, R13, RDX, 3, 0, 4}, // TILELOADDT1
    {{0xc4, 0xa2, 0x7b, 0x4b, 0x7c, 0xe5, 0x80}, 7, RBP, R12, 7, -0x80, 8},
    {{0xc4, 0xe2, 0x7b, 0x4b, 0x94, 0x1c, 0x00, 0x10, 0x00, 0x00}, 10, RSP, RBX, 2, 0x1000, 1},
    {{0xc4, 0x82, 0x7b, 0x4b, 0x0c, 0x3c}, 6, R12, R15, 1, 0, 1},
    {{0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x26}, 6, RSI, -1, 6, 0, 1},
};

// Every form of address finds the rows it should; what lies outside the tile's size is zero.
static void test_addressing(void **unused)
{
    (void)unused;
    static struct amx_state state;
    enum { ROWS = 5, ROW_BYTES = 24, STRIDE = 64, BYTES = 1024 };
    static uint8_t memory[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        memory[i] = (uint8_t)(1 + base_prng_below(&prng, 255));
    }
    const struct config config = uniform(ROWS, ROW_BYTES);
    for (size_t i = 0; i < TEST_COUNT(addressings); i++) {
        const struct addressing *a = &addressings[i];
        struct amx_registers registers;
        memset(&registers, 0xa5, sizeof(registers)); // a wrong register is a wild address
        registers.gpr[a->base] = address(memory + 100) - (uint64_t)a->displacement;
        const size_t stride = a->index < 0 ? 0 : STRIDE;
        if (a->index >= 0) {
            registers.gpr[a->index] = STRIDE / a->scale;
        }
        configure(&state, &config);
        memset(state.tiles[a->tile].data, 0xee, sizeof(state.tiles[0].data));
        emulate(&state, a->code, &registers, a->bytes);
        for (size_t r = 0; r < AMX_ROWS_MAX; r++) {
            for (size_t j = 0; j < AMX_ROW_BYTES; j++) {
                const bool inside = r < ROWS && j < ROW_BYTES;
                const uint8_t want = inside ? memory[100 + r * stride + j] : 0;
                assert_int_equal(state.tiles[a->tile].data[r][j], want);
            }
        }
    }
}

// Addresses without a base: relative to the next instruction, or plain.
static void test_addresses_without_base(void **unused)
{
    (void)unused;
    static struct amx_state state;
    const struct config config = uniform(2, 8);
    const uint8_t relative[15] = {0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0x01, 0x00, 0x00};
    emulate(&state, relative, &(struct amx_registers){.rip = address(&config) - 0x100 - 9}, 9);
    assert_int_equal(state.tiles[7].row_bytes, 8);
    // ldtilecfg 0x40(%r13)
    const uint8_t with_r13[15] = {0xc4, 0xc2, 0x78, 0x49, 0x45, 0x40};
    state = (struct amx_state){0};
    emulate(&state, with_r13, &(struct amx_registers){.gpr = {[R13] = address(&config) - 0x40}}, 6);
    assert_true(state.configured);
    // tileloadd 0x1000(,%rcx,1), tmm1: rows 0x1000 + r * rcx, so that one row says it all.
    const uint8_t plain[15] = {0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x0d, 0x00, 0x10, 0x00, 0x00};
    struct config late = uniform(2, 8);
    late.start_row = 1;
    const uint64_t bytes = 0x1122334455667788u;
    configure(&state, &late);
    emulate(&state, plain, &(struct amx_registers){.gpr = {[RCX] = address(&bytes) - 0x1000}}, 10);
    assert_memory_equal(state.tiles[1].data[1], &bytes, 8);
    assert_int_equal(state.start_row, 0);
}

static void test_store(void **unused)
{
    (void)unused;
    static struct amx_state state;
    const struct config config = uniform(3, 20);
    configure(&state, &config);
    for (size_t i = 0; i < 3 * AMX_ROW_BYTES; i++) {
        state.tiles[4].data[i / AMX_ROW_BYTES][i % AMX_ROW_BYTES] = (uint8_t)(i + 1);
    }
    uint8_t memory[100], want[100];
    memset(memory, 0x77, sizeof(memory));
    memset(want, 0x77, sizeof(want));
    for (size_t r = 0; r < 3; r++) {
        memcpy(want + 10 + r * 31, state.tiles[4].data[r], 20);
    }
    const struct amx_registers registers = {.gpr = {[RDI] = address(memory + 10), [RCX] = 31}};
    emulate(&state, tilestore_4_rdi_rcx, &registers, 6);
    assert_memory_equal(memory, want, sizeof(memory));
    state.tiles[6].data[2][19] = 9;
    emulate(&state, tilezero_6, &registers, 5);
    assert_int_equal(state.tiles[6].data[2][19], 0);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

// Products of small whole numbers: exact in any order, so that plain loops are an oracle.
static void test_products(void **unused)
{
    (void)unused;
    static struct amx_state state;
    for (int round = 0; round < 200; round++) {
        const size_t m = 1 + base_prng_below(&prng, 16), n = 1 + base_prng_below(&prng, 16);
        const size_t pairs = 1 + base_prng_below(&prng, 16);
        const size_t stride = 64 + 2 * base_prng_below(&prng, 9);
        struct config config = uniform(1, 4);
        config.rows[0] = config.rows[1] = (uint8_t)m;
        config.rows[2] = (uint8_t)pairs;
        config.row_bytes[1] = (uint16_t)(pairs * 4);
        config.row_bytes[0] = config.row_bytes[2] = (uint16_t)(n * 4);
        static uint8_t a[16 * 80], b[16 * 80], c[16 * 80];
        static float x[16][32], y[32][16], z[16][16];
        for (size_t i = 0; i < 16 * 32; i++) {
            const size_t r = i / 32, k = i % 32;
            x[r][k] = (float)base_prng_below(&prng, 17) - 8;
            y[k][r] = (float)base_prng_below(&prng, 17) - 8;
            z[r][k % 16] = (float)base_prng_below(&prng, 99) - 50;
            const uint16_t at_a = to_bf16(x[r][k]), at_b = to_bf16(y[k][r]);
            memcpy(a + r * stride + k * 2, &at_a, 2);
            memcpy(b + k / 2 * stride + r * 4 + k % 2 * 2, &at_b, 2);
        }
        for (size_t r = 0; r < 16; r++) {
            memcpy(c + r * stride, z[r], sizeof(z[r]));
        }
        configure(&state, &config);
        struct amx_registers registers = {.gpr = {[RCX] = stride}};
        const uint8_t *const loads[3] = {tileload_0_rax_rcx, tileload_1_rax_rcx,
                                         tileload_2_rax_rcx};
        uint8_t *const memory[3] = {c, a, b};
        for (int i = 0; i < 3; i++) {
            registers.gpr[RAX] = address(memory[i]);
            emulate(&state, loads[i], &registers, 6);
        }
        emulate(&state, tdpbf16ps_0_1_2, &registers, 5);
        registers.gpr[RDI] = address(c);
        emulate(&state, tilestore_0_rdi_rcx, &registers, 6);
        for (size_t i = 0; i < m * n; i++) {
            float want = z[i / n][i % n], found;
            for (size_t k = 0; k < 2 * pairs; k++) {
                want += x[i / n][k] * y[k][i % n];
            }
            memcpy(&found, c + i / n * stride + i % n * 4, sizeof(found));
            assert_float_equal(found, want, 0);
        }
    }
}

// One element of C from up to two pairs, by hand.
static float one_sum(float c, const float a[4], const float b[4])
{
    static struct amx_state state;
    struct config config = uniform(1, 4);
    config.rows[2] = 2;
    config.row_bytes[1] = 8;
    configure(&state, &config);
    memcpy(state.tiles[0].data, &c, 4);
    for (size_t i = 0; i < 4; i++) {
        const uint16_t x = to_bf16(a[i]), y = to_bf16(b[i]);
        memcpy(state.tiles[1].data[0] + 2 * i, &x, 2);
        memcpy(state.tiles[2].data[i / 2] + 2 * (i % 2), &y, 2);
    }
    emulate(&state, tdpbf16ps_0_1_2, &(struct amx_registers){0}, 5);
    memcpy(&c, state.tiles[0].data, 4);
    return c;
}

// Which sums are rounded when, and what becomes of numbers below the normal ones.
static void test_sums(void **unused)
{
    (void)unused;
    const float one[4] = {1, 1, 1, 1}, big = 0x1p24f, tiny = 0x1p-130f, small = 0x1p-70f;
    // Even elements together: 2^24 + 1 rounds to 2^24, and the odd ones bring 2. In the order of K
    // all of them would be lost.
    assert_float_equal(one_sum(0, (float[]){big, 1, 1, 1}, one), big + 2, 0);
    // Ties go to even.
    assert_float_equal(one_sum(3, (float[]){big, 0, 0, 0}, one), big + 4, 0);
    // A product is not flushed before it is added.
    assert_float_equal(one_sum(0, (float[]){0x1p-126f, 0, small, 0}, (float[]){1, 0, small, 0}),
                       0x1p-126f + 0x1p-140f, 0);
    // Subnormal operands, results and sums are zero.
    assert_float_equal(one_sum(0, (float[]){tiny, 0, 0, 0}, (float[]){0x1p100f, 0, 0, 0}), 0, 0);
    assert_float_equal(one_sum(0, (float[]){small, 0, 0, 0}, (float[]){small, 0, 0, 0}), 0, 0);
    assert_float_equal(one_sum(tiny, (float[]){0, 0, 0, 0}, one), 0, 0);
    assert_true(isnan(one_sum(0, (float[]){INFINITY, -INFINITY, 0, 0}, one)));
}

struct refusal {
    uint8_t code[AMX_INSTRUCTION_BYTES_MAX];
    const char *reason;
};

// On tiles 0-6 of 4 rows by 16 bytes; tile 7 has no size.
static const struct refusal refusals[] = {
    {{0xc5, 0xf8, 0x77}, "not a VEX instruction of map 0F38"},
    {{0x0f, 0x0b}, "not a VEX instruction of map 0F38"},
    {{0xc4, 0xe2, 0x7c, 0x49, 0xc0}, "VEX.L"},
    {{0xc4, 0xe2, 0xf8, 0x49, 0xc0}, "VEX.W"},
    {{0xc4, 0xe2, 0x70, 0x49, 0xc0}, "VEX.vvvv"},
    {{0xc4, 0xe2, 0x78, 0x49, 0xc1}, "no tile instruction"},
    {{0xc4, 0xe2, 0x78, 0x4a, 0xc0}, "no tile instruction"},
    {{0xc4, 0xe2, 0x7b, 0x4b, 0xc0}, "no tile instruction"},
    {{0xc4, 0xe2, 0x7b, 0x4b, 0x00}, "without a SIB byte"},
    {{0xc4, 0xe2, 0x7b, 0x4b, 0x3c, 0x08}, "that is not configured is loaded"},
    {{0xc4, 0x62, 0x7b, 0x4b, 0x04, 0x08}, "that is not configured is loaded"}, // tmm8
    {{0xc4, 0xe2, 0x7b, 0x49, 0xf8}, "TILEZERO of a tile that is not configured"},
    {{0xc4, 0xe2, 0x42, 0x5c, 0xc1}, "TDPBF16PS of a tile that is not configured"}, // 0, 1, 7
    {{0xc4, 0xe2, 0x7a, 0x5c, 0xc1}, "names a tile twice"},                         // 0, 1, 0
    {{0xc4, 0xe2, 0x6a, 0x5c, 0xc2}, "names a tile twice"},                         // 0, 2, 2
    {{0xc4, 0xe2, 0x72, 0x5c, 0xc0}, "names a tile twice"},                         // 0, 0, 1
    {{0xc4, 0xe2, 0x62, 0x5c, 0xc1}, "sizes do not fit"},                           // 0, 1, 3
    {{0xc4, 0xe2, 0x6a, 0x5c, 0xc4}, "sizes do not fit"},                           // 0, 4, 2
    {{0xc4, 0xe2, 0x52, 0x5c, 0xc1}, "not whole pairs"},                            // 0, 1, 5
};

static void test_refusals(void **unused)
{
    (void)unused;
    static struct amx_state state, before;
    struct config config = uniform(4, 16);
    config.rows[7] = 0;
    config.row_bytes[7] = 0;
    config.rows[3] = 3;
    config.rows[4] = 5;
    config.row_bytes[5] = 14;
    configure(&state, &config);
    before = state;
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        const char *reason = "none";
        assert_int_equal(amx_emulate(&state, refusals[i].code, &(struct amx_registers){0}, &reason),
                         0);
        if (strstr(reason, refusals[i].reason) == NULL) {
            fail_msg("case %zu: \"%s\", expected \"%s\"", i, reason, refusals[i].reason);
        }
        assert_memory_equal(&state, &before, sizeof(state));
    }
    const char *reason = "none";
    emulate(&state, tilerelease, &(struct amx_registers){0}, 5);
    assert_int_equal(amx_emulate(&state, tdpbf16ps_0_1_2, &(struct amx_registers){0}, &reason), 0);
}

static void test_bad_configs(void **unused)
{
    (void)unused;
    struct config bad[8];
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        bad[i] = uniform(16, 64);
    }
    bad[0].palette = 2;
    bad[1].reserved[0] = 1;
    bad[2].rows[3] = 17;
    bad[3].row_bytes[3] = 65;
    bad[4].rows[2] = 0;
    bad[5].row_bytes[2] = 0;
    bad[6].rows[8] = 1;
    bad[7].row_bytes[15] = 4;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        static struct amx_state state;
        const char *reason = "none";
        const struct amx_registers registers = {.gpr = {[RAX] = address(&bad[i])}};
        assert_int_equal(amx_emulate(&state, ldtilecfg_rax, &registers, &reason), 0);
        if (strncmp(reason, "#GP", 3) != 0) {
            fail_msg("configuration %zu: %s", i, reason);
        }
        assert_false(state.configured);
    }
}

#if defined(__x86_64__)
// cmocka catches SIGILL itself from the start of each test on.
static void install(void)
{
    if (!eng_isa_has(ENG_ISA_AMX)) {
        assert_true(amx_emulator_install());
    }
    printf("executed by the %s\n", eng_isa_has(ENG_ISA_AMX) ? "processor" : "emulator");
}

// Loads, stores and multiplies by real instructions: C = C + A B on tiles of m rows, 1 pair, 2
// columns, everything `scale`.
static float execute(uint8_t m, float scale)
{
    struct config config = uniform(1, 4);
    config.rows[0] = config.rows[1] = m;
    config.row_bytes[0] = config.row_bytes[2] = 8;
    float c[16][2], a[16], b[2];
    const uint16_t half = to_bf16(scale);
    const uint32_t pair = (uint32_t)half << 16 | half;
    for (size_t i = 0; i < 16; i++) {
        memcpy(&a[i], &pair, 4);
        memcpy(&b[i % 2], &pair, 4);
        c[i][0] = c[i][1] = 1;
    }
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(&config), "m"(config));
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08" ::"a"(c), "c"(8L), "m"(c));
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x08" ::"a"(a), "c"(4L), "m"(a));
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x14, 0x08" ::"a"(b), "c"(8L), "m"(b));
    __asm__ volatile(".byte 0xc4, 0xe2, 0x6a, 0x5c, 0xc1");
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x0f" ::"D"(c), "c"(8L) : "memory");
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");
    assert_float_equal(c[m - 1][0], c[m - 1][1], 0);
    assert_true(m == 16 || c[m % 16][0] == 1.0f);
    return c[m - 1][1];
}

static void *execute_often(void *ctx)
{
    float *const wrong = ctx;
    for (uint8_t m = 1; m <= 16; m++) {
        const float scale = *wrong != 0 ? 3 : 2;
        if (execute(m, scale) != 1 + 2 * scale * scale) {
            return ctx;
        }
    }
    return NULL;
}

// Each thread has tiles of its own.
static void test_executed(void **unused)
{
    (void)unused;
    install();
    const uint64_t before = amx_emulator_count(AMX_TDPBF16PS);
    float numbers[2] = {0, 1};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, execute_often, &numbers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    if (!eng_isa_has(ENG_ISA_AMX)) {
        assert_int_equal(amx_emulator_count(AMX_TDPBF16PS), before + 32);
    }
}

// A refused instruction ends the program, by SIGILL, with the reason.
static void test_refused_ends(void **unused)
{
    (void)unused;
    install();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        if (eng_isa_has(ENG_ISA_AMX)) {    // the emulator has a handler of its own
            (void)signal(SIGILL, SIG_DFL); // not the test library's, which goes on
        }
        __asm__ volatile(".byte 0xc4, 0xe2, 0x6a, 0x5c, 0xc1"); // without a configuration
        _exit(0);
    }
    (void)close(ends[1]);
    char text[256] = "";
    size_t size = 0;
    for (ssize_t more = 1; more > 0 && size < sizeof(text) - 1; size += (size_t)more) {
        more = read(ends[0], text + size, sizeof(text) - 1 - size);
        assert_true(more >= 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)close(ends[0]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGILL);
    if (!eng_isa_has(ENG_ISA_AMX)) {
        assert_non_null(strstr(text, "amx emulator: #UD"));
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_addressing),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_addresses_without_base),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_configs),
#if defined(__x86_64__)
        cmocka_unit_test(test_executed),
        cmocka_unit_test(test_refused_ends),
#endif
    };
    printf("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
