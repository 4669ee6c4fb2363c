// The handler behind the marks of isa_limit.py. Called by ort_worker's only thread before it loads
// the library; the handler itself runs on whatever thread asks what the processor can do.
#include "isa_limit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <ucontext.h>

#define MARK_0     0x06 // no instruction in 64-bit mode; where CPUID has 0x0f
#define MARK_1     0xa2
#define MARK_BYTES 2
#define LEAF_MORE  7    // more features
#define LEAF_SAVED 0x0d // what the operating system saves

#define BIT(n) (1u << (n))

// What one answer loses.
struct mask {
    uint32_t leaf, subleaf;
    uint32_t a, b, c, d;
};
static const struct mask masks[] = {
    {LEAF_MORE, 0, 0,
     // AVX-512: F, DQ, IFMA, PF, ER, CD, BW, VL
     BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31),
     // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
     BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14),
     // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
     BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25)},
    // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; AVX-VNNI-INT8, AMX-COMPLEX, AVX-VNNI-INT16, AVX10
    {LEAF_MORE, 1, BIT(4) | BIT(5) | BIT(21) | BIT(23), 0, 0, BIT(4) | BIT(8) | BIT(10) | BIT(19)},
    // Opmask, upper halves, upper registers; tile configuration and data
    {LEAF_SAVED, 0, BIT(5) | BIT(6) | BIT(7) | BIT(17) | BIT(18), 0, 0, 0},
};

static atomic_uint_fast64_t count;

static void on_illegal(int number, siginfo_t *info, void *opaque)
{
    (void)info;
    greg_t *saved = ((ucontext_t *)opaque)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)(uintptr_t)saved[REG_RIP];
    if (code[0] != MARK_0 || code[1] != MARK_1) { // not ours: met again, it ends the program
        (void)signal(number, SIG_DFL);
        return;
    }
    const uint32_t leaf = (uint32_t)saved[REG_RAX], subleaf = (uint32_t)saved[REG_RCX];
    uint32_t a = 0, b = 0, c = 0, d = 0;
    __cpuid_count(leaf, subleaf, a, b, c, d);
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        if (masks[i].leaf == leaf && masks[i].subleaf == subleaf) {
            a &= ~masks[i].a;
            b &= ~masks[i].b;
            c &= ~masks[i].c;
            d &= ~masks[i].d;
        }
    }
    saved[REG_RAX] = (greg_t)a;
    saved[REG_RBX] = (greg_t)b;
    saved[REG_RCX] = (greg_t)c;
    saved[REG_RDX] = (greg_t)d;
    saved[REG_RIP] += MARK_BYTES;
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

bool isa_limit_install(void)
{
    struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGILL, &action, NULL) == 0;
}

uint64_t isa_limit_count(void)
{
    return atomic_load(&count);
}
#else
bool isa_limit_install(void)
{
    return false;
}

uint64_t isa_limit_count(void)
{
    return 0;
}
#endif
