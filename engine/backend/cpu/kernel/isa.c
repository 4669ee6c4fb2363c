// Detection of the processor's instruction sets and the choice among the kernel tables. Called by
// sessions, the trainer, task_runner.c, tools, tests and benchmarks from any thread; the first call
// detects, under pthread_once, and nothing changes afterwards. A set counts only when the operating
// system saves its registers, too (Intel SDM volume 1, 13.1), and AMX only when the process was
// allowed its tiles. eng_cpu_emulate_tiles, which changes that later, is for tests alone.
#include "backend/cpu/kernel/isa.h"

#include "base/check.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#define L1_GUESS ((size_t)32 << 10)
#define L2_GUESS ((size_t)512 << 10)
#define L3_GUESS ((size_t)4 << 20)

// Registers the operating system must save (Intel SDM volume 1, 13.1).
#define XCR0_AVX          0x06u    // SSE and AVX
#define XCR0_AVX512       0xe6u    // and opmask, upper halves, upper registers
#define XCR0_AMX          0x60000u // tile configuration and tile data
#define ARCH_REQ_XCOMP    0x1023   // arch_prctl: asks for a state component
#define XFEATURE_TILEDATA 18

static const char *const names[ENG_ISA_COUNT] = {"generic", "avx2", "avx512", "amx"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    struct eng_cpu cpu;
    struct eng_kernels tables[ENG_ISA_COUNT];
} detected; // written once, under `once` (and by tests)

static size_t cache_bytes(int name, size_t guess)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (size_t)bytes : guess;
}

#if defined(__x86_64__)
static uint64_t read_xcr0(void)
{
    uint32_t low;
    uint32_t high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void detect_x86(struct eng_cpu *cpu)
{
    base_assert(!cpu->avx2 && !cpu->avx512 && !cpu->amx_bf16); // what is not found stays so
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    const uint32_t leaf1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1) {
        return;
    }
    uint64_t xcr0 = read_xcr0();
    if ((xcr0 & XCR0_AVX) != XCR0_AVX || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return;
    }
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t tiles = d & (1u << 24 | 1u << 22); // AMX-TILE, AMX-BF16
    cpu->avx2 = (b & bit_AVX2) != 0;
    cpu->avx512 = cpu->avx2 && (xcr0 & XCR0_AVX512) == XCR0_AVX512 && (b & avx512) == avx512;
    cpu->avx512_vnni = cpu->avx512 && (c & bit_AVX512VNNI) != 0;
    uint32_t leaf7_1 = 0;
    if (__get_cpuid_count(7, 1, &leaf7_1, &b, &c, &d)) {
        cpu->avx512_bf16 = cpu->avx512_vnni && (leaf7_1 & (1u << 5)) != 0;
    }
    cpu->amx_bf16 = cpu->avx512_bf16 && (xcr0 & XCR0_AMX) == XCR0_AMX &&
                    tiles == (1u << 24 | 1u << 22) &&
                    syscall(SYS_arch_prctl, ARCH_REQ_XCOMP, XFEATURE_TILEDATA) == 0;
}
#endif

static void detect(void)
{
    struct eng_cpu *cpu = &detected.cpu;
#if defined(__x86_64__)
    detect_x86(cpu);
#endif
    cpu->l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, L1_GUESS);
    cpu->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, L2_GUESS);
    cpu->l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, L3_GUESS);
    for (int i = 0; i < ENG_ISA_COUNT; i++) {
        base_assert(names[i] != NULL);
        detected.tables[i] = (struct eng_kernels){names[i], eng_gemm_kernels_of((enum eng_isa)i),
                                                  eng_vec_kernels_of((enum eng_isa)i)};
    }
}

const struct eng_cpu *eng_cpu_detect(void)
{
    (void)pthread_once(&once, detect);
    return &detected.cpu;
}

bool eng_cpu_emulate_tiles(void)
{
    detected.cpu.amx_bf16 = eng_cpu_detect()->avx512_bf16;
    return detected.cpu.amx_bf16;
}

const char *eng_isa_name(enum eng_isa isa)
{
    return (unsigned)isa < ENG_ISA_COUNT ? names[isa] : "unknown";
}

bool eng_isa_has(enum eng_isa isa)
{
    const struct eng_cpu *cpu = eng_cpu_detect();
    switch (isa) {
    case ENG_ISA_GENERIC:
        return true;
    case ENG_ISA_AVX2:
        return cpu->avx2;
    case ENG_ISA_AVX512:
        return cpu->avx512;
    case ENG_ISA_AMX:
        return cpu->amx_bf16;
    case ENG_ISA_COUNT:
        break;
    }
    return false;
}

const struct eng_kernels *eng_kernels_find(const char *isa)
{
    for (int i = ENG_ISA_COUNT - 1; i >= 0; i--) {
        if ((isa == NULL || strcmp(isa, names[i]) == 0) && eng_isa_has((enum eng_isa)i)) {
            base_assert(detected.tables[i].gemm != NULL && detected.tables[i].vec != NULL);
            return &detected.tables[i];
        }
    }
    return NULL;
}
