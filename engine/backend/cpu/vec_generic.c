// Vector kernels in plain C: the shared template over its vector layer. Compiled
// for any processor; reached through the table only.
#include "backend/cpu/vec_simd_generic.h"

#include "backend/cpu/vec_template.h"
