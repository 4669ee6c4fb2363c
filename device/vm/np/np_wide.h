// walle.np and walle.cv: their loops are compiled twice from the same source, for every processor
// ("plain") and for those with AVX2 and FMA ("wide"), and np_wide.c chooses once a loop is asked
// for. Functions of one operand, which compute most, are compiled for AVX-512 ("wider") as well.
// Results are the same, bit for bit, but for products of vectors and matrices.
#ifndef DEV_NP_WIDE_H
#define DEV_NP_WIDE_H

#include <stdbool.h>

#if defined(NP_WIDER)
#define NP_COMPILED(name) name##_wider
#elif defined(NP_WIDE)
#define NP_COMPILED(name) name##_wide
#else
#define NP_COMPILED(name) name##_plain
#endif

// Of a constant table of loops, which its file defines as NP_COMPILED(table): the one to use here.
#if defined(__x86_64__)
#define NP_CHOSEN(table) (dev_np_is_wide() ? &table##_wide : &table##_plain)
#else
#define NP_CHOSEN(table) (&table##_plain)
#endif

bool dev_np_is_wide(void);  // whether this processor has what the wide loops need
bool dev_np_is_wider(void); // ... and AVX-512, for which functions of one operand are compiled too

#endif
