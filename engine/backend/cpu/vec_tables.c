// Which table of elementwise, reduction and move kernels an instruction set uses. Called by isa.c.
#include "backend/cpu/isa.h"

const struct eng_vec_kernels *eng_vec_kernels_of(enum eng_isa isa)
{
    (void)isa;
    return NULL;
}
