// Pixels that are moved as they are: in the opposite order, from columns to rows, one by one from a
// table of places. Each loop is compiled for the sizes that pixels have. Called by cv_move.c,
// cv_resize.c and cv_canvas.c.
#include "vm/cv/rows/cv_place_rows.h"

#include <string.h>

#if defined(NP_WIDE)
#include <immintrin.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define BLOCK  32 // pixels that are turned together: what a first-level cache holds

// Calls a loop with the size as a constant, so that a pixel is a move or two.
#define BY_PIXEL(pixel, loop, ...)                                                                 \
    do {                                                                                           \
        switch (pixel) {                                                                           \
        case 1:                                                                                    \
            loop(__VA_ARGS__, 1);                                                                  \
            break;                                                                                 \
        case 2:                                                                                    \
            loop(__VA_ARGS__, 2);                                                                  \
            break;                                                                                 \
        case 3:                                                                                    \
            loop(__VA_ARGS__, 3);                                                                  \
            break;                                                                                 \
        case 4:                                                                                    \
            loop(__VA_ARGS__, 4);                                                                  \
            break;                                                                                 \
        case 8:                                                                                    \
            loop(__VA_ARGS__, 8);                                                                  \
            break;                                                                                 \
        case 12:                                                                                   \
            loop(__VA_ARGS__, 12);                                                                 \
            break;                                                                                 \
        case 16:                                                                                   \
            loop(__VA_ARGS__, 16);                                                                 \
            break;                                                                                 \
        default:                                                                                   \
            loop(__VA_ARGS__, pixel);                                                              \
            break;                                                                                 \
        }                                                                                          \
    } while (0)

ALWAYS void reverse_of(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                       size_t pixel)
{
    const uint8_t *last = from + count * pixel;
    for (size_t i = 0; i < count; i++) {
        last -= pixel;
        memcpy(to + i * pixel, last, pixel);
    }
}

#if defined(NP_WIDE)
// Whole vectors of pixels of one to four bytes; how many it did.
static size_t reverse_wide(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                           size_t pixel)
{
    // The bytes of a load end with the last pixel's: three-byte pixels have one byte before them.
    static const int8_t orders[4][16] = {{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
                                         {14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
                                         {13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0},
                                         {12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}};
    const __m128i order = _mm_loadu_si128((const void *)orders[pixel - 1]);
    const size_t each = 16 / pixel;
    size_t done = 0;
    for (; done + each < count; done += each) {
        const uint8_t *end = from + (count - done) * pixel;
        __m128i bytes = _mm_loadu_si128((const void *)(end - 16));
        _mm_storeu_si128((void *)(to + done * pixel), _mm_shuffle_epi8(bytes, order));
    }
    return done;
}
#endif

static void reverse(uint8_t *to, const uint8_t *from, size_t count, size_t pixel)
{
    size_t done = 0;
#if defined(NP_WIDE)
    if (pixel <= 4) {
        done = reverse_wide(to, from, count, pixel);
    }
#endif
    BY_PIXEL(pixel, reverse_of, to + done * pixel, from, count - done);
}

ALWAYS void pick_of(uint8_t *restrict to, const uint8_t *restrict from, const int32_t *restrict at,
                    size_t count, size_t pixel)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * pixel, from + (size_t)at[i] * pixel, pixel);
    }
}

static void pick(uint8_t *to, const uint8_t *from, const int32_t *at, size_t count, size_t pixel)
{
    BY_PIXEL(pixel, pick_of, to, from, at, count);
}

// What is there is copied behind itself, twice as much each time.
static void repeat(uint8_t *to, const uint8_t *color, size_t count, size_t pixel)
{
    const size_t bytes = count * pixel;
    if (count == 0) {
        return;
    }
    memcpy(to, color, pixel);
    for (size_t made = pixel; made < bytes;) {
        size_t more = made < bytes - made ? made : bytes - made;
        memcpy(to + made, to, more);
        made += more;
    }
}

ALWAYS void turn_of(const struct cv_turning *turning, size_t from, size_t to, size_t pixel)
{
    for (size_t top = 0; top < turning->rows; top += BLOCK) {
        const size_t rows = turning->rows - top < BLOCK ? turning->rows - top : BLOCK;
        const uint8_t *block = turning->from + (int64_t)top * turning->from_step;
        for (size_t x = from; x < to; x++) {
            uint8_t *restrict out = turning->to + (int64_t)x * turning->to_step + top * pixel;
            const uint8_t *restrict in = block + x * pixel;
            for (size_t y = 0; y < rows; y++, in += turning->from_step) {
                memcpy(out + y * pixel, in, pixel);
            }
        }
    }
}

static void turn(const struct cv_turning *turning, size_t from, size_t to)
{
    BY_PIXEL(turning->pixel, turn_of, turning, from, to);
}

// --- channels

static void merge(uint8_t *restrict to, const uint8_t *const *rows, size_t channels, size_t count)
{
    const uint8_t *restrict a = rows[0];
    const uint8_t *restrict b = rows[1];
    const uint8_t *restrict c = channels > 2 ? rows[2] : a;
    const uint8_t *restrict d = channels > 3 ? rows[3] : a;
    if (channels == 2) {
        for (size_t i = 0; i < count; i++) {
            to[2 * i] = a[i];
            to[2 * i + 1] = b[i];
        }
    } else if (channels == 3) {
        for (size_t i = 0; i < count; i++) {
            to[3 * i] = a[i];
            to[3 * i + 1] = b[i];
            to[3 * i + 2] = c[i];
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            to[4 * i] = a[i];
            to[4 * i + 1] = b[i];
            to[4 * i + 2] = c[i];
            to[4 * i + 3] = d[i];
        }
    }
}

static void split(uint8_t *const *rows, const uint8_t *restrict from, size_t channels, size_t count)
{
    uint8_t *restrict a = rows[0];
    uint8_t *restrict b = rows[1];
    uint8_t *restrict c = channels > 2 ? rows[2] : NULL;
    uint8_t *restrict d = channels > 3 ? rows[3] : NULL;
    if (channels == 2) {
        for (size_t i = 0; i < count; i++) {
            a[i] = from[2 * i];
            b[i] = from[2 * i + 1];
        }
    } else if (channels == 3) {
        for (size_t i = 0; i < count; i++) {
            a[i] = from[3 * i];
            b[i] = from[3 * i + 1];
            c[i] = from[3 * i + 2];
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            a[i] = from[4 * i];
            b[i] = from[4 * i + 1];
            c[i] = from[4 * i + 2];
            d[i] = from[4 * i + 3];
        }
    }
}

ALWAYS void channel_of(uint8_t *restrict to, const uint8_t *restrict from, const size_t steps[2],
                       size_t count, size_t item)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * steps[0], from + i * steps[1], item);
    }
}

static void channel(uint8_t *to, const uint8_t *from, const size_t steps[2], size_t count,
                    size_t item)
{
    if (item == 1) {
        channel_of(to, from, steps, count, 1);
    } else if (item == 4) {
        channel_of(to, from, steps, count, 4);
    } else {
        channel_of(to, from, steps, count, item);
    }
}

const struct cv_move_rows NP_COMPILED(dev_cv_move_rows) = {reverse, pick,  repeat, turn,
                                                           merge,   split, channel};
