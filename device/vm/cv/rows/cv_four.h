// walle.cv: four numbers next to one another as floats, a pixel of up to four channels. Private to
// the loops over rows, which are compiled twice (np_wide.h). Four elements are read, whatever the
// pixel has: rows and images have that much behind them (CV_ROW_SPARE).
#ifndef DEV_CV_FOUR_H
#define DEV_CV_FOUR_H

#include <stdint.h>
#include <string.h>

#if defined(NP_WIDE)
#include <immintrin.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))

typedef float cv_four __attribute__((vector_size(16)));

ALWAYS cv_four four_u8(const uint8_t *from)
{
#if defined(NP_WIDE)
    int bytes;
    memcpy(&bytes, from, sizeof(bytes));
    return (cv_four)_mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));
#else
    return (cv_four){from[0], from[1], from[2], from[3]};
#endif
}

ALWAYS cv_four four_f32(const float *from)
{
    cv_four made;
    memcpy(&made, from, sizeof(made));
    return made;
}

#endif
