// Spaces of colours: the loops over pixels of a row. Pure functions of their arguments; callers
// count what they go through. Constants are those of ITU-R BT.601 as OpenCV rounds them. Called by
// cv_color.c, on the VM's thread.
#include "vm/cv/cv_colors.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#define BITS     14 // behind the point, of products with colours
#define HALF     (1 << (BITS - 1))
#define MIDDLE   (128 << BITS)
#define HSV_BITS 12

static uint8_t held(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static uint8_t rounded(double value)
{
    return value > 0 ? (uint8_t)rint(value < 255 ? value : 255) : 0;
}

#define REORDER(name, T, opaque)                                                                   \
    void name(const struct cv_color *color, const void *from, void *to)                            \
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
REORDER(dev_cv_reorder_u8, uint8_t, 255)
REORDER(dev_cv_reorder_f32, float, 1)

#define UNGRAY(name, T, opaque)                                                                    \
    void name(const struct cv_color *color, const void *from, void *to)                            \
    {                                                                                              \
        const T *in = from;                                                                        \
        T *out = to;                                                                               \
        for (size_t i = 0; i < color->count; i++, out += color->to) {                              \
            out[0] = out[1] = out[2] = in[i];                                                      \
            if (color->to == 4) {                                                                  \
                out[3] = (opaque);                                                                 \
            }                                                                                      \
        }                                                                                          \
    }
UNGRAY(dev_cv_ungray_u8, uint8_t, 255)
UNGRAY(dev_cv_ungray_f32, float, 1)

// A loop over pixels: `body` has the channels in a, b and c in the order of the image that is read,
// and sets x, y and z in the order of the one that is written. Blue of colours is at `color->blue`.
#define FROM_COLOURS(name, T, body)                                                                \
    void name(const struct cv_color *color, const void *from, void *to)                            \
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
    void name(const struct cv_color *color, const void *from, void *to)                            \
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

FROM_COLOURS(dev_cv_gray_u8, uint8_t,
             out[0] = (uint8_t)((blue * 3735 + green * 19235 + red * 9798 + (1 << 14)) >> 15);)
FROM_COLOURS(dev_cv_gray_f32, float, out[0] = blue * 0.114F + green * 0.587F + red * 0.299F;)

#define LIGHT (blue * 1868 + green * 9617 + red * 4899 + HALF) >> BITS
FROM_COLOURS(dev_cv_ycrcb_u8, uint8_t, int32_t y = LIGHT; out[0] = held(y);
             out[1] = held(((red - y) * 11682 + MIDDLE + HALF) >> BITS);
             out[2] = held(((blue - y) * 9241 + MIDDLE + HALF) >> BITS);)
FROM_COLOURS(dev_cv_yuv_u8, uint8_t, int32_t y = LIGHT; out[0] = held(y);
             out[1] = held(((blue - y) * 8061 + MIDDLE + HALF) >> BITS);
             out[2] = held(((red - y) * 14369 + MIDDLE + HALF) >> BITS);)
FROM_COLOURS(dev_cv_ycrcb_f32, float, float y = blue * 0.114F + green * 0.587F + red * 0.299F;
             out[0] = y; out[1] = (red - y) * 0.713F + 0.5F; out[2] = (blue - y) * 0.564F + 0.5F;)
FROM_COLOURS(dev_cv_yuv_f32, float, float y = blue * 0.114F + green * 0.587F + red * 0.299F;
             out[0] = y; out[1] = (blue - y) * 0.492F + 0.5F; out[2] = (red - y) * 0.877F + 0.5F;)

TO_COLOURS(dev_cv_unycrcb_u8, uint8_t, int32_t cr = second - 128; int32_t cb = third - 128;
           out[color->blue] = held(first + ((cb * 29049 + HALF) >> BITS));
           out[1] = held(first + ((cb * -5636 + cr * -11698 + HALF) >> BITS));
           out[color->blue ^ 2] = held(first + ((cr * 22987 + HALF) >> BITS));)
TO_COLOURS(dev_cv_unyuv_u8, uint8_t, int32_t u = second - 128; int32_t v = third - 128;
           out[color->blue] = held(first + ((u * 33292 + HALF) >> BITS));
           out[1] = held(first + ((u * -6472 + v * -9519 + HALF) >> BITS));
           out[color->blue ^ 2] = held(first + ((v * 18678 + HALF) >> BITS));)
TO_COLOURS(dev_cv_unycrcb_f32, float, float cr = second - 0.5F; float cb = third - 0.5F;
           out[color->blue] = first + cb * 1.773F; out[1] = first + cb * -0.344F + cr * -0.714F;
           out[color->blue ^ 2] = first + cr * 1.403F;)
TO_COLOURS(dev_cv_unyuv_f32, float, float u = second - 0.5F; float v = third - 0.5F;
           out[color->blue] = first + u * 2.032F; out[1] = first + u * -0.395F + v * -0.581F;
           out[color->blue ^ 2] = first + v * 1.140F;)

// --- hues

// Six times as many steps as the spread, by which of the colours is the largest.
static int32_t hue_of(int32_t blue, int32_t green, int32_t red, int32_t spread)
{
    int32_t largest = blue > green ? blue : green;
    largest = red > largest ? red : largest;
    if (largest == red) {
        return green - blue;
    }
    return largest == green ? blue - red + 2 * spread : red - green + 4 * spread;
}

static int32_t divided(double part, int32_t by)
{
    return by == 0 ? 0 : (int32_t)rint(part * (1 << HSV_BITS) / by);
}

void dev_cv_hsv_u8(const struct cv_color *color, const void *from, void *to)
{
    const uint8_t *in = from;
    uint8_t *out = to;
    const int32_t half = 1 << (HSV_BITS - 1);
    for (size_t i = 0; i < color->count; i++, in += color->from, out += color->to) {
        int32_t blue = in[color->blue];
        int32_t green = in[1];
        int32_t red = in[color->blue ^ 2];
        int32_t largest = blue > green ? blue : green;
        int32_t least = blue < green ? blue : green;
        largest = red > largest ? red : largest;
        least = red < least ? red : least;
        int32_t spread = largest - least;
        int32_t hue = hue_of(blue, green, red, spread);
        hue = (hue * divided(color->hues / 6, spread) + half) >> HSV_BITS;
        hue += hue < 0 ? (int32_t)color->hues : 0;
        out[0] = held(hue);
        out[1] = held((spread * divided(255, largest) + half) >> HSV_BITS);
        out[2] = held(largest);
    }
}

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

FROM_COLOURS(dev_cv_hsv_f32, float,
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

FROM_COLOURS(dev_cv_hls_f32, float, double made[3];
             hls_of((double)blue, (double)green, (double)red, made); out[0] = (float)made[0];
             out[1] = (float)made[1]; out[2] = (float)made[2];)
FROM_COLOURS(dev_cv_hls_u8, uint8_t, double made[3];
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
TO_COLOURS(dev_cv_unhsv_f32, float,
           REAL_COLOURS(of_hsv, (double)first / 60, (double)second, (double)third) PUT_REAL)
TO_COLOURS(dev_cv_unhls_f32, float,
           REAL_COLOURS(of_hls, (double)first / 60, (double)second, (double)third) PUT_REAL)
TO_COLOURS(dev_cv_unhsv_u8, uint8_t,
           REAL_COLOURS(of_hsv, first * 6 / color->hues, second / 255.0, third / 255.0) PUT_WHOLE)
TO_COLOURS(dev_cv_unhls_u8, uint8_t,
           REAL_COLOURS(of_hls, first * 6 / color->hues, second / 255.0, third / 255.0) PUT_WHOLE)
