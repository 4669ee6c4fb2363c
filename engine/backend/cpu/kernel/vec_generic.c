// Vector kernels in plain C: the shared template over its vector layer. Compiled for any processor
// and reached through the table only, which vec_tables.c hands out; from any thread, no state. It
// is what processors without AVX2 run.
#include "backend/cpu/kernel/vec_simd_generic.h"

#include "backend/cpu/kernel/vec_template.h"
