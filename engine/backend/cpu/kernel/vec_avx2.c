// Vector kernels for the avx2 instruction set: the shared template over its vector layer. Compiled
// with that set's flags (engine/CMakeLists.txt, by the file's name) and reached through the table
// only, which vec_tables.c hands out when isa.c has found the set; from any thread, no state.
#include "backend/cpu/kernel/vec_simd_avx2.h"

#include "backend/cpu/kernel/vec_template.h"
