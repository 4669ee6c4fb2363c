// walle.cv: vectors of a filter's loops, as wide as the processor that a loop is compiled for has
// them: what the compiler's own vectors have no word for, or no good one.
#ifndef DEV_CV_VECTOR_H
#define DEV_CV_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(NP_WIDE)
#include <immintrin.h>
#define CV_VECTOR 32 // bytes
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#define CV_VECTOR 16
#endif
#define CV_WORDS  ((size_t)CV_VECTOR / 2) // in a vector
#define CV_LONGS  ((size_t)CV_VECTOR / 4)
#define CV_INLINE static inline __attribute__((always_inline))

typedef uint16_t cv_words __attribute__((vector_size(CV_VECTOR)));
typedef uint32_t cv_longs __attribute__((vector_size(CV_VECTOR)));
typedef float cv_reals __attribute__((vector_size(CV_VECTOR)));

CV_INLINE cv_words cv_words_of_bytes(const uint8_t *from)
{
#if defined(NP_WIDE)
    return (cv_words)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
#else
    typedef uint8_t half __attribute__((vector_size(CV_VECTOR / 2)));
    half read;
    memcpy(&read, from, sizeof(read));
    return __builtin_convertvector(read, cv_words);
#endif
}

CV_INLINE cv_longs cv_longs_of_words(const uint16_t *from)
{
#if defined(NP_WIDE)
    return (cv_longs)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#else
    typedef uint16_t half __attribute__((vector_size(CV_VECTOR / 2)));
    half read;
    memcpy(&read, from, sizeof(read));
    return __builtin_convertvector(read, cv_longs);
#endif
}

CV_INLINE cv_words cv_words_at(const uint16_t *from)
{
    cv_words read;
    memcpy(&read, from, sizeof(read));
    return read;
}

CV_INLINE cv_reals cv_reals_at(const float *from)
{
    cv_reals read;
    memcpy(&read, from, sizeof(read));
    return read;
}

// The upper half of each product.
CV_INLINE cv_words cv_words_high(cv_words one, uint16_t other)
{
#if defined(NP_WIDE)
    return (cv_words)_mm256_mulhi_epu16((__m256i)one, _mm256_set1_epi16((int16_t)other));
#elif defined(__SSE2__)
    return (cv_words)_mm_mulhi_epu16((__m128i)one, _mm_set1_epi16((int16_t)other));
#else
    for (size_t i = 0; i < CV_WORDS; i++) {
        one[i] = (uint16_t)((uint32_t)one[i] * other >> 16);
    }
    return one;
#endif
}

// Two vectors of int16, held within uint8, to one.
CV_INLINE void cv_bytes_put(uint8_t *to, cv_words low, cv_words high)
{
#if defined(NP_WIDE)
    __m256i both = _mm256_packus_epi16((__m256i)low, (__m256i)high);
    enum { IN_ORDER = 0xd8 }; // lanes of 128 bits are packed apart
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(both, IN_ORDER));
#elif defined(__SSE2__)
    _mm_storeu_si128((__m128i *)(void *)to, _mm_packus_epi16((__m128i)low, (__m128i)high));
#else
    for (size_t i = 0; i < CV_WORDS; i++) {
        const int16_t values[] = {(int16_t)low[i], (int16_t)high[i]};
        for (size_t k = 0; k < 2; k++) {
            to[i + k * CV_WORDS] = (uint8_t)(values[k] < 0           ? 0
                                             : values[k] > UINT8_MAX ? UINT8_MAX
                                                                     : values[k]);
        }
    }
#endif
}

// Two vectors of whole numbers below 65536 to one of words.
CV_INLINE cv_words cv_words_of_longs(cv_longs low, cv_longs high)
{
#if defined(NP_WIDE)
    enum { IN_ORDER = 0xd8 };
    __m256i both = _mm256_packus_epi32((__m256i)low, (__m256i)high);
    return (cv_words)_mm256_permute4x64_epi64(both, IN_ORDER);
#else
    cv_words made;
    for (size_t i = 0; i < CV_LONGS; i++) {
        made[i] = (uint16_t)low[i];
        made[i + CV_LONGS] = (uint16_t)high[i];
    }
    return made;
#endif
}

#endif
