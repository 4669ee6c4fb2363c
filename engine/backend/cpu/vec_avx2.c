// Vector kernels for the avx2 instruction set: the shared template over its vector layer. Compiled
// with that set's flags; reached through the table only.
#include "backend/cpu/vec_simd_avx2.h"

#include "backend/cpu/vec_template.h"
