// Makes this process look like a processor with AVX2 and nothing above it, to a library whose CPUID
// instructions were marked by isa_limit.py: each raises SIGILL, is executed here, and answers
// without the bits of AVX-512, AVX10, AMX and VNNI. Call before the library is loaded.
#ifndef BENCH_ISA_LIMIT_H
#define BENCH_ISA_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

// False: not on this kind of machine.
bool isa_limit_install(void);
// Marked instructions executed since then.
uint64_t isa_limit_count(void);

#endif
