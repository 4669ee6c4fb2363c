// Vector kernels for the avx512 instruction set: the shared template over its vector layer.
// Compiled with that set's flags; reached through the table only.
#include "backend/cpu/vec_simd_avx512.h"

#include "backend/cpu/vec_template.h"
