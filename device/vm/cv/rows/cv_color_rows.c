// Spaces of colours: the loops over pixels of a row. Of uint8 some pixels at a time have their
// channels taken apart, so that the compiler makes the loops over them wide. Constants are those of
// ITU-R BT.601 as OpenCV rounds them. Called by cv_color.c, on the VM's thread.
#include "vm/cv/rows/cv_color_rows.h"

#include "vm/cv/rows/cv_planes.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#define BITS     14 // behind the point, of products with colours
#define HALF     (1 << (BITS - 1))
#define MIDDLE   (128 << BITS)
#define HSV_BITS 12
#define ROUNDING 12582912.F // added and taken away again: rounds to even what is below 2 to the 22

static inline uint8_t held(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static uint8_t rounded(double value)
{
    return value > 0 ? (uint8_t)rint(value < 255 ? value : 255) : 0;
}

// --- the order of channels

#define REORDER(name, T, opaque)                                                                   \
    static void name(const struct cv_color *color, const void *from, void *to)                     \
    {                                                                                              \
        const T *in = from;                                                                        \
        T *out = to;                                                                               \
        for (size_t i = 0; i < color->count; i++, in += color->from, out += color->to) {           \
            T first = in[0];                                                                       \
            T last = in[2];                                                                        \
            out[color->blue] = first;                                                              \
            out[1] = in[1];                                                                        \
            out[color->blue ^ 2] = last;                                                           \
            if (color->to == 4) {                                                                  \
                out[3] = color->from == 4 ? in[3] : (opaque);                                      \
            }                                                                                      \
        }                                                                                          \
    }
REORDER(reorder_rest, uint8_t, 255)
REORDER(reorder_f32, float, 1)

#ifdef NP_WIDE
// Of which byte byte i of a vector of pixels is, where channels come to other places; 128: of none.
#define PIXEL_OF(from, to, i)   ((i) / (to) * (from))
#define CHANNEL_OF(to, blue, i) ((i) % (to) % 2 == 0 ? (i) % (to) ^ (blue) : (i) % (to))
#define PLACE_OF(from, to, blue, i)                                                                \
    ((i) % (to) >= (from) || PIXEL_OF(from, to, i) + CHANNEL_OF(to, blue, i) > 15                  \
         ? 128                                                                                     \
         : PIXEL_OF(from, to, i) + CHANNEL_OF(to, blue, i))
#define PLACE_34(blue, b, i) PLACE_OF(3, 4, blue, i)
#define PLACE_43(blue, b, i) PLACE_OF(4, 3, blue, i)
#define PLACE_33(blue, b, i) PLACE_OF(3, 3, blue, i)
#define PLACE_44(blue, b, i) PLACE_OF(4, 4, blue, i)
#define PLACES_OF(each)                                                                            \
    {                                                                                              \
        CV_SIXTEEN(each, 0, 0), CV_SIXTEEN(each, 2, 0)                                             \
    }

// As many pixels as lie in a vector, on both sides; what is written behind them is written anew.
static size_t reorder_vectors(const struct cv_color *color, const uint8_t *in, uint8_t *out)
{
    // By channels that are read, channels that are written, and whether blue changes places.
    static const uint8_t places[2][2][2][16] = {{PLACES_OF(PLACE_33), PLACES_OF(PLACE_34)},
                                                {PLACES_OF(PLACE_43), PLACES_OF(PLACE_44)}};
    const uint8_t *at = places[color->from - 3][color->to - 3][color->blue / 2];
    const __m128i place = _mm_loadu_si128((const __m128i_u *)(const void *)at);
    const bool makes_opaque = color->from == 3 && color->to == 4;
    const __m128i set = _mm_set1_epi32(makes_opaque ? -(1 << 24) : 0); // 255 in the last
    const size_t step = color->from == 3 && color->to == 3 ? 5 : 4;
    size_t i = 0;
    for (; i + 6 <= color->count; i += step) { // sixteen bytes of three channels are of six pixels
        __m128i pixels = _mm_loadu_si128((const __m128i_u *)(const void *)(in + i * color->from));
        pixels = _mm_or_si128(_mm_shuffle_epi8(pixels, place), set);
        _mm_storeu_si128((__m128i_u *)(void *)(out + i * color->to), pixels);
    }
    return i;
}
#else
static size_t reorder_vectors(const struct cv_color *color, const uint8_t *in, uint8_t *out)
{
    (void)color;
    (void)in;
    (void)out;
    return 0;
}
#endif

static void reorder_u8(const struct cv_color *color, const void *from, void *to)
{
    struct cv_color rest = *color;
    size_t done = reorder_vectors(color, from, to);
    rest.count -= done;
    reorder_rest(&rest, (const uint8_t *)from + done * color->from,
                 (uint8_t *)to + done * color->to);
}

#define UNGRAY(name, T, opaque)                                                                    \
    static void name(const struct cv_color *color, const void *from, void *to)                     \
    {                                                                                              \
        const T *restrict in = from;                                                               \
        T *restrict out = to;                                                                      \
        for (size_t i = 0; color->to == 3 && i < color->count; i++) {                              \
            out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];                                  \
        }                                                                                          \
        for (size_t i = 0; color->to == 4 && i < color->count; i++) {                              \
            out[4 * i] = out[4 * i + 1] = out[4 * i + 2] = in[i];                                  \
            out[4 * i + 3] = (opaque);                                                             \
        }                                                                                          \
    }
UNGRAY(ungray_rest, uint8_t, 255)
UNGRAY(ungray_f32, float, 1)

static void ungray_u8(const struct cv_color *color, const void *from, void *to)
{
    if (color->to == 3) {
        const uint8_t *const planes[] = {from, from, from};
        cv_planes_join(to, planes, color->count);
    } else {
        ungray_rest(color, from, to);
    }
}

// --- uint8, some pixels at a time

// What is done with channels that are apart: of an image of colours `given` is blue, green, red.
typedef void block(struct cv_planes *restrict made, const uint8_t *const given[3], double hues,
                   size_t count);

static void through(const struct cv_color *color, const uint8_t *in, uint8_t *out, block *each,
                    bool is_of_colours)
{
    struct cv_planes given;
    struct cv_planes made;
    const uint32_t first = is_of_colours ? color->blue : 0;
    const uint32_t to_first = is_of_colours ? 0 : color->blue;
    const uint8_t *const from[] = {given.at[first], given.at[1], given.at[first ^ 2]};
    const uint8_t *const to[] = {made.at[to_first], made.at[1], made.at[to_first ^ 2]};
    for (size_t at = 0; at < color->count; at += CV_PLANE) {
        size_t part = color->count - at < CV_PLANE ? color->count - at : CV_PLANE;
        cv_planes_take(&given, in + at * color->from, color->from, part);
        each(&made, from, color->hues, part);
        cv_planes_join(out + at * 3, to, part);
    }
}

static inline int32_t one_times(int32_t value, int32_t by)
{
    return value * by;
}

#ifdef NP_WIDE
typedef int32_t eight __attribute__((vector_size(32)));

static inline eight eight_at(const uint8_t *from)
{
    return (eight)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
}

static inline void eight_put(uint8_t *to, eight value)
{
    __m256i held = _mm256_packs_epi32((__m256i)value, (__m256i)value);
    held = _mm256_packus_epi16(held, held);
    const __m128i low = _mm256_castsi256_si128(held);
    _mm_storel_epi64((void *)to, _mm_unpacklo_epi32(low, _mm256_extracti128_si256(held, 1)));
}

// Of numbers of 16 bits, which a processor multiplies faster than those of 32.
static inline eight eight_times(eight value, int32_t by)
{
    return (eight)_mm256_madd_epi16((__m256i)value, _mm256_set1_epi32(by & 0xffff));
}

#define TIMES(value, by) _Generic((value), int32_t : one_times, eight : eight_times)(value, by)
#define EIGHTS(a, b, c, body)                                                                      \
    for (; i + 8 <= count; i += 8) {                                                               \
        const eight a = eight_at(one + i);                                                         \
        const eight b = eight_at(two + i);                                                         \
        const eight c = eight_at(three + i);                                                       \
        eight x;                                                                                   \
        eight y;                                                                                   \
        eight z;                                                                                   \
        body;                                                                                      \
        eight_put(made->at[0] + i, x);                                                             \
        eight_put(made->at[1] + i, y);                                                             \
        eight_put(made->at[2] + i, z);                                                             \
    }
#else
#define TIMES(value, by) one_times(value, by)
#define EIGHTS(a, b, c, body)
#endif

// `body` has the three channels of a pixel in whole numbers, and sets x, y and z: of colours it has
// and sets blue, green and red.
#define BLOCK(name, a, b, c, is_of_colours, body)                                                  \
    static void name##_block(struct cv_planes *restrict made, const uint8_t *const given[3],       \
                             double hues, size_t count)                                            \
    {                                                                                              \
        const uint8_t *restrict one = given[0];                                                    \
        const uint8_t *restrict two = given[1];                                                    \
        const uint8_t *restrict three = given[2];                                                  \
        size_t i = 0;                                                                              \
        EIGHTS(a, b, c, body)                                                                      \
        for (; i < count; i++) {                                                                   \
            const int32_t a = one[i];                                                              \
            const int32_t b = two[i];                                                              \
            const int32_t c = three[i];                                                            \
            int32_t x;                                                                             \
            int32_t y;                                                                             \
            int32_t z;                                                                             \
            body;                                                                                  \
            made->at[0][i] = held(x);                                                              \
            made->at[1][i] = held(y);                                                              \
            made->at[2][i] = held(z);                                                              \
        }                                                                                          \
        (void)hues;                                                                                \
    }                                                                                              \
    static void name(const struct cv_color *color, const void *from, void *to)                     \
    {                                                                                              \
        through(color, from, to, name##_block, is_of_colours);                                     \
    }

#define GRAY (TIMES(blue, 3735) + TIMES(green, 19235) + TIMES(red, 9798) + (1 << 14)) >> 15

static void gray_block(uint8_t *restrict out, const uint8_t *const given[3], size_t count)
{
    size_t i = 0;
#ifdef NP_WIDE
    for (; i + 8 <= count; i += 8) {
        const eight blue = eight_at(given[0] + i);
        const eight green = eight_at(given[1] + i);
        const eight red = eight_at(given[2] + i);
        eight_put(out + i, GRAY);
    }
#endif
    for (; i < count; i++) {
        const int32_t blue = given[0][i];
        const int32_t green = given[1][i];
        const int32_t red = given[2][i];
        out[i] = (uint8_t)(GRAY);
    }
}

static void gray_u8(const struct cv_color *color, const void *from, void *to)
{
    const uint8_t *in = from;
    uint8_t *out = to;
    struct cv_planes given;
    const uint8_t *const planes[] = {given.at[color->blue], given.at[1], given.at[color->blue ^ 2]};
    for (size_t at = 0; at < color->count; at += CV_PLANE) {
        size_t part = color->count - at < CV_PLANE ? color->count - at : CV_PLANE;
        cv_planes_take(&given, in + at * color->from, color->from, part);
        gray_block(out + at, planes, part);
    }
}

#define LIGHT (TIMES(blue, 1868) + TIMES(green, 9617) + TIMES(red, 4899) + HALF) >> BITS
BLOCK(ycrcb_u8, blue, green, red, true, x = LIGHT;
      y = (TIMES(red - x, 11682) + MIDDLE + HALF) >> BITS;
      z = (TIMES(blue - x, 9241) + MIDDLE + HALF) >> BITS)
BLOCK(yuv_u8, blue, green, red, true, x = LIGHT;
      y = (TIMES(blue - x, 8061) + MIDDLE + HALF) >> BITS;
      z = (TIMES(red - x, 14369) + MIDDLE + HALF) >> BITS)
BLOCK(unycrcb_u8, light, cr, cb, false, x = light + ((TIMES(cb - 128, 29049) + HALF) >> BITS);
      y = light + ((TIMES(cb - 128, -5636) + TIMES(cr - 128, -11698) + HALF) >> BITS);
      z = light + ((TIMES(cr - 128, 22987) + HALF) >> BITS))
// The first factor has more than 16 bits.
BLOCK(unyuv_u8, light, u, v, false, x = light + (((u - 128) * 33292 + HALF) >> BITS);
      y = light + ((TIMES(u - 128, -6472) + TIMES(v - 128, -9519) + HALF) >> BITS);
      z = light + ((TIMES(v - 128, 18678) + HALF) >> BITS))

// A quotient with HSV_BITS behind the point, rounded. No quotient of such whole numbers is as near
// to a half as a float is off, so that it is the same as in reals of twice the size. By 0: any.
static inline float divided(float part, float by)
{
    float quotient = part * (1 << HSV_BITS) / (by > 1 ? by : 1);
    return (quotient + ROUNDING) - ROUNDING;
}

struct hues {
    int16_t hue[CV_PLANE]; // six times as many steps as the spread
    int16_t spread[CV_PLANE];
    int16_t largest[CV_PLANE];
    int16_t part[CV_PLANE];  // of a circle
    int16_t depth[CV_PLANE]; // the saturation
};

// By which of the colours is the largest.
static void hues_begin(struct hues *restrict made, const uint8_t *const given[3], size_t count)
{
    const uint8_t *restrict one = given[0];
    const uint8_t *restrict two = given[1];
    const uint8_t *restrict three = given[2];
    for (size_t i = 0; i < count; i++) {
        const int16_t blue = one[i];
        const int16_t green = two[i];
        const int16_t red = three[i];
        int16_t largest = blue > green ? blue : green;
        int16_t least = blue < green ? blue : green;
        largest = red > largest ? red : largest;
        least = red < least ? red : least;
        const int16_t spread = (int16_t)(largest - least);
        const int16_t of_green = (int16_t)(blue - red + 2 * spread);
        const int16_t of_blue = (int16_t)(red - green + 4 * spread);
        const int16_t of_red = (int16_t)(green - blue);
        const int16_t hue = largest == green ? of_green : of_blue;
        made->hue[i] = largest == red ? of_red : hue;
        made->spread[i] = spread;
        made->largest[i] = largest;
    }
}

// All whole numbers below 2 to the 24, which floats have exactly.
static void hues_turn(struct hues *restrict made, float hues, size_t count)
{
    const float one = 1 << HSV_BITS;
    for (size_t i = 0; i < count; i++) {
        const float spread = made->spread[i];
        float part = made->hue[i] * divided(hues, 6 * spread) + one / 2;
        part += part < 0 ? hues * one : 0;
        made->part[i] = (int16_t)(int32_t)(part * (1 / one));
        const float depth = spread * divided(255, made->largest[i]) + one / 2;
        made->depth[i] = (int16_t)(int32_t)(depth * (1 / one));
    }
}

static void hsv_u8_block(struct cv_planes *restrict made, const uint8_t *const given[3],
                         double hues, size_t count)
{
    struct hues found;
    hues_begin(&found, given, count);
    hues_turn(&found, (float)hues, count);
    for (size_t i = 0; i < count; i++) {
        made->at[0][i] = held(found.part[i]);
        made->at[1][i] = held(found.depth[i]);
        made->at[2][i] = (uint8_t)found.largest[i];
    }
}

static void hsv_u8(const struct cv_color *color, const void *from, void *to)
{
    through(color, from, to, hsv_u8_block, true);
}

// --- one pixel at a time

// A loop over pixels: `body` has the channels in a, b and c in the order of the image that is read,
// and sets x, y and z in the order of the one that is written. Blue of colours is at `color->blue`.
#define FROM_COLOURS(name, T, body)                                                                \
    static void name(const struct cv_color *color, const void *from, void *to)                     \
    {                                                                                              \
        const T *in = from;                                                                        \
        T *out = to;                                                                               \
        for (size_t i = 0; i < color->count; i++, in += color->from, out += color->to) {           \
            const T blue = in[color->blue];                                                        \
            const T green = in[1];                                                                 \
            const T red = in[color->blue ^ 2];                                                     \
            body                                                                                   \
        }                                                                                          \
    }
#define TO_COLOURS(name, T, body)                                                                  \
    static void name(const struct cv_color *color, const void *from, void *to)                     \
    {                                                                                              \
        const T *in = from;                                                                        \
        T *out = to;                                                                               \
        for (size_t i = 0; i < color->count; i++, in += color->from, out += color->to) {           \
            const T first = in[0];                                                                 \
            const T second = in[1];                                                                \
            const T third = in[2];                                                                 \
            body                                                                                   \
        }                                                                                          \
    }

FROM_COLOURS(gray_f32, float, out[0] = blue * 0.114F + green * 0.587F + red * 0.299F;)
FROM_COLOURS(ycrcb_f32, float, float y = blue * 0.114F + green * 0.587F + red * 0.299F; out[0] = y;
             out[1] = (red - y) * 0.713F + 0.5F; out[2] = (blue - y) * 0.564F + 0.5F;)
FROM_COLOURS(yuv_f32, float, float y = blue * 0.114F + green * 0.587F + red * 0.299F; out[0] = y;
             out[1] = (blue - y) * 0.492F + 0.5F; out[2] = (red - y) * 0.877F + 0.5F;)
TO_COLOURS(unycrcb_f32, float, float cr = second - 0.5F; float cb = third - 0.5F;
           out[color->blue] = first + cb * 1.773F; out[1] = first + cb * -0.344F + cr * -0.714F;
           out[color->blue ^ 2] = first + cr * 1.403F;)
TO_COLOURS(unyuv_f32, float, float u = second - 0.5F; float v = third - 0.5F;
           out[color->blue] = first + u * 2.032F; out[1] = first + u * -0.395F + v * -0.581F;
           out[color->blue ^ 2] = first + v * 1.140F;)

struct hue {
    double hue; // degrees
    double least;
    double largest;
};

static struct hue real_hue(double blue, double green, double red, double small)
{
    struct hue made = {.least = fmin(blue, fmin(green, red)),
                       .largest = fmax(blue, fmax(green, red))};
    double by = 60 / (made.largest - made.least + small);
    if (made.largest == red) {
        made.hue = (green - blue) * by;
    } else if (made.largest == green) {
        made.hue = (blue - red) * by + 120;
    } else {
        made.hue = (red - green) * by + 240;
    }
    made.hue += made.hue < 0 ? 360 : 0;
    return made;
}

FROM_COLOURS(hsv_f32, float,
             struct hue hue = real_hue((double)blue, (double)green, (double)red,
                                       (double)FLT_EPSILON);
             out[0] = (float)hue.hue; out[1] = (float)((hue.largest - hue.least) /
                                                       (fabs(hue.largest) + (double)FLT_EPSILON));
             out[2] = (float)hue.largest;)

static void hls_of(double blue, double green, double red, double made[3])
{
    struct hue hue = real_hue(blue, green, red, 0);
    double spread = hue.largest - hue.least;
    double sum = hue.largest + hue.least;
    bool is_gray = !(spread > (double)FLT_EPSILON);
    made[0] = is_gray ? 0 : hue.hue;
    made[1] = sum / 2;
    made[2] = is_gray ? 0 : spread / (sum < 1 ? sum : 2 - sum);
}

FROM_COLOURS(hls_f32, float, double made[3]; hls_of((double)blue, (double)green, (double)red, made);
             out[0] = (float)made[0]; out[1] = (float)made[1]; out[2] = (float)made[2];)
FROM_COLOURS(hls_u8, uint8_t, double made[3];
             hls_of(blue / 255.0, green / 255.0, red / 255.0, made);
             out[0] = rounded(made[0] * color->hues / 360); out[1] = rounded(made[1] * 255);
             out[2] = rounded(made[2] * 255);)

// Blue, green and red of a hue in sixths: which of four values each has.
static void sector_of(double hue, const double four[4], double made[3])
{
    static const uint8_t places[6][3] = {{1, 3, 0}, {1, 0, 2}, {3, 0, 1},
                                         {0, 2, 1}, {0, 1, 3}, {2, 1, 0}};
    double sector = fmod(floor(hue), 6);
    sector += sector < 0 ? 6 : 0;
    const uint8_t *place = places[sector >= 0 && sector < 6 ? (int)sector : 0]; // NaN: the first
    for (int i = 0; i < 3; i++) {
        made[i] = four[place[i]];
    }
}

static void of_hsv(double hue, double saturation, double value, double made[3])
{
    double part = hue - floor(hue);
    double four[] = {value, value * (1 - saturation), value * (1 - saturation * part),
                     value * (1 - saturation * (1 - part))};
    sector_of(hue, four, made);
}

static void of_hls(double hue, double light, double saturation, double made[3])
{
    double part = hue - floor(hue);
    double high = light <= 0.5 ? light * (1 + saturation) : light + saturation - light * saturation;
    double low = 2 * light - high;
    double four[] = {high, low, low + (high - low) * (1 - part), low + (high - low) * part};
    sector_of(hue, four, made);
}

#define REAL_COLOURS(of, hue, second_of, third_of)                                                 \
    double made[3];                                                                                \
    of(hue, second_of, third_of, made);
#define PUT_REAL                                                                                   \
    out[color->blue] = (float)made[0];                                                             \
    out[1] = (float)made[1];                                                                       \
    out[color->blue ^ 2] = (float)made[2];
#define PUT_WHOLE                                                                                  \
    out[color->blue] = rounded(made[0] * 255);                                                     \
    out[1] = rounded(made[1] * 255);                                                               \
    out[color->blue ^ 2] = rounded(made[2] * 255);
TO_COLOURS(unhsv_f32, float,
           REAL_COLOURS(of_hsv, (double)first / 60, (double)second, (double)third) PUT_REAL)
TO_COLOURS(unhls_f32, float,
           REAL_COLOURS(of_hls, (double)first / 60, (double)second, (double)third) PUT_REAL)
TO_COLOURS(unhsv_u8, uint8_t,
           REAL_COLOURS(of_hsv, first * 6 / color->hues, second / 255.0, third / 255.0) PUT_WHOLE)
TO_COLOURS(unhls_u8, uint8_t,
           REAL_COLOURS(of_hls, first * 6 / color->hues, second / 255.0, third / 255.0) PUT_WHOLE)

const struct cv_color_rows NP_COMPILED(dev_cv_color_rows) = {
    .whole = {reorder_u8, gray_u8, ungray_u8, ycrcb_u8, unycrcb_u8, yuv_u8, unyuv_u8, hsv_u8,
              unhsv_u8, hls_u8, unhls_u8},
    .real = {reorder_f32, gray_f32, ungray_f32, ycrcb_f32, unycrcb_f32, yuv_f32, unyuv_f32, hsv_f32,
             unhsv_f32, hls_f32, unhls_f32},
};
