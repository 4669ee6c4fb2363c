// walle.np: its loops are compiled twice from the same source, for every processor ("plain") and
// for those with AVX2 and FMA ("wide"), and np_wide.c chooses once a loop is asked for. Results are
// the same, bit for bit, but for products of vectors and matrices.
#ifndef DEV_NP_WIDE_H
#define DEV_NP_WIDE_H

#include <stdbool.h>

#if defined(NP_WIDE)
#define NP_COMPILED(name) name##_wide
#else
#define NP_COMPILED(name) name##_plain
#endif

bool dev_np_is_wide(void); // whether this processor has what the wide loops need

#endif
