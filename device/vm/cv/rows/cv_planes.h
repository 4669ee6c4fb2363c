// walle.cv: the channels of some pixels apart, and joined again. Private to the loops over rows,
// which are compiled twice (np_wide.h).
#ifndef DEV_CV_PLANES_H
#define DEV_CV_PLANES_H

#include <stddef.h>
#include <stdint.h>

#ifdef NP_WIDE
#include <immintrin.h>
#endif

#define CV_PLANE 128 // pixels at a time: what is apart stays in the nearest cache

struct cv_planes {
    _Alignas(32) uint8_t at[3][CV_PLANE];
};

#ifdef NP_WIDE
#define CV_SIXTEEN(each, a, b)                                                                     \
    {                                                                                              \
        each(a, b, 0), each(a, b, 1), each(a, b, 2), each(a, b, 3), each(a, b, 4), each(a, b, 5),  \
            each(a, b, 6), each(a, b, 7), each(a, b, 8), each(a, b, 9), each(a, b, 10),            \
            each(a, b, 11), each(a, b, 12), each(a, b, 13), each(a, b, 14), each(a, b, 15)         \
    }
#define CV_NINE(each)                                                                              \
    {                                                                                              \
        {CV_SIXTEEN(each, 0, 0), CV_SIXTEEN(each, 0, 1), CV_SIXTEEN(each, 0, 2)},                  \
            {CV_SIXTEEN(each, 1, 0), CV_SIXTEEN(each, 1, 1), CV_SIXTEEN(each, 1, 2)},              \
        {                                                                                          \
            CV_SIXTEEN(each, 2, 0), CV_SIXTEEN(each, 2, 1), CV_SIXTEEN(each, 2, 2)                 \
        }                                                                                          \
    }
// Where in the vector v pixel k has its channel c, and which pixel is at k of it; 128: elsewhere.
#define CV_APART_AT(c, v, k)  ((3 * (k) + (c)) / 16 == (v) ? (3 * (k) + (c)) % 16 : 128)
#define CV_JOINED_AT(c, v, k) ((16 * (v) + (k)) % 3 == (c) ? (16 * (v) + (k)) / 3 : 128)

// Sixteen bytes from three vectors, each of which has some of them.
static inline __m128i cv_gathered(const __m128i vectors[3], const uint8_t *const places[3])
{
    __m128i made[3];
    for (size_t v = 0; v < 3; v++) {
        made[v] =
            _mm_shuffle_epi8(vectors[v], _mm_load_si128((const __m128i *)(const void *)places[v]));
    }
    return _mm_or_si128(_mm_or_si128(made[0], made[1]), made[2]);
}
#endif

// The first three channels of pixels that have three or four.
static inline void cv_planes_take(struct cv_planes *to, const uint8_t *restrict from,
                                  uint32_t channels, size_t count)
{
    size_t i = 0;
    if (channels == 4) {
        for (; i < count; i++) {
            to->at[0][i] = from[4 * i];
            to->at[1][i] = from[4 * i + 1];
            to->at[2][i] = from[4 * i + 2];
        }
        return;
    }
#ifdef NP_WIDE
    static const _Alignas(16) uint8_t places[3][3][16] = CV_NINE(CV_APART_AT);
    for (; i + 16 <= count; i += 16) {
        __m128i vectors[3];
        for (size_t v = 0; v < 3; v++) {
            vectors[v] = _mm_loadu_si128((const __m128i_u *)(const void *)(from + 3 * i + 16 * v));
        }
        for (size_t c = 0; c < 3; c++) {
            const uint8_t *const each[] = {places[c][0], places[c][1], places[c][2]};
            _mm_storeu_si128((__m128i_u *)(void *)(to->at[c] + i), cv_gathered(vectors, each));
        }
    }
#endif
    for (; i < count; i++) {
        to->at[0][i] = from[3 * i];
        to->at[1][i] = from[3 * i + 1];
        to->at[2][i] = from[3 * i + 2];
    }
}

// Pixels of three channels.
static inline void cv_planes_join(uint8_t *restrict to, const uint8_t *const from[3], size_t count)
{
    size_t i = 0;
#ifdef NP_WIDE
    static const _Alignas(16) uint8_t places[3][3][16] = CV_NINE(CV_JOINED_AT);
    for (; i + 16 <= count; i += 16) {
        __m128i vectors[3];
        for (size_t c = 0; c < 3; c++) {
            vectors[c] = _mm_loadu_si128((const __m128i_u *)(const void *)(from[c] + i));
        }
        for (size_t v = 0; v < 3; v++) {
            const uint8_t *const each[] = {places[0][v], places[1][v], places[2][v]};
            _mm_storeu_si128((__m128i_u *)(void *)(to + 3 * i + 16 * v),
                             cv_gathered(vectors, each));
        }
    }
#endif
    for (; i < count; i++) {
        to[3 * i] = from[0][i];
        to[3 * i + 1] = from[1][i];
        to[3 * i + 2] = from[2][i];
    }
}

#endif
