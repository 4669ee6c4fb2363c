// Numbers of JSON to floats and back, for the JSON codec, on its thread. A decimal is read as up to
// 19 digits and a power of ten. Where the powers are exact in a double, one multiplication is off
// by less than two units of its last place; that decides a float unless it lies that close to the
// middle of two floats. The rest, about one in 10^7 of ordinary data, goes to strtof.
#include "infer/codec/json_number.h"

#include "base/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX    19 // always fit 64 bits
#define EXPONENT_CAP  100000
#define EXACT_TEN     22 // the largest power of ten that a double has
#define EXACT_DIGITS  (1ull << 53)
#define BELOW_FLOAT   ((1ull << 29) - 1) // bits of a double that a float lacks
#define MIDDLE        (1ull << 28)
#define MIDDLE_MARGIN 4u // units of a double's last place
#define FLOAT_DIGITS  9
#define DOUBLE_DIGITS 17

static const double tens[EXACT_TEN + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                           1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                           1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct decimal {
    uint64_t digits;
    int exponent;
    bool negative;
    bool whole; // `digits` are all of them
};

// ---- Scanning

static inline bool is_digit(char c)
{
    return (unsigned)(c - '0') <= 9;
}

// What is not counted in `digits` must not be lost: then `whole` is not so.
static const char *scan_digits(const char *at, const char *end, int *count, struct decimal *out)
{
    const char *from = at;
    uint64_t digits = out->digits;
    for (; at < end && is_digit(*at); at++) {
        digits = digits * 10 + (uint64_t)(*at - '0');
    }
    out->digits = digits;
    *count = at - from > EXPONENT_CAP ? EXPONENT_CAP : (int)(at - from);
    return at;
}

static const char *scan_exponent(const char *at, const char *end, struct decimal *out)
{
    int exponent = 0;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) {
        at++;
    }
    if (at == end || !is_digit(*at)) {
        return NULL;
    }
    for (; at < end && is_digit(*at); at++) {
        exponent = exponent < EXPONENT_CAP ? exponent * 10 + (*at - '0') : exponent;
    }
    out->exponent += negative ? -exponent : exponent;
    return at;
}

// JSON's grammar (RFC 8259, 6). NULL: no number.
static inline const char *scan(const char *at, const char *end, struct decimal *out)
{
    int before = 0;
    int behind = 0;
    *out = (struct decimal){.negative = at < end && *at == '-', .whole = true};
    at += out->negative;
    const char *first = at;
    at = scan_digits(at, end, &before, out);
    if (before == 0 || (*first == '0' && before > 1)) {
        return NULL;
    }
    if (at < end && *at == '.') {
        at = scan_digits(at + 1, end, &behind, out);
        if (behind == 0) {
            return NULL;
        }
    }
    out->exponent = -behind;
    // A leading "0." is no digit that counts; further zeros behind it do, which is on the safe
    // side.
    out->whole = before + behind - (*first == '0') <= DIGITS_MAX;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at = scan_exponent(at + 1, end, out);
    }
    return at;
}

// The words that JSON lacks.
static const char *scan_word(const char *at, const char *end, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {
        {"NaN", (double)NAN}, {"Infinity", (double)INFINITY}, {"-Infinity", -(double)INFINITY}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t size = strlen(words[i].text);
        if ((size_t)(end - at) >= size && memcmp(at, words[i].text, size) == 0) {
            *out = words[i].value;
            return at + size;
        }
    }
    return NULL;
}

const char *gw_json_number_skip(const char *at, const char *end)
{
    struct decimal decimal;
    double value = 0;
    const char *behind = scan(at, end, &decimal);
    return behind != NULL ? behind : scan_word(at, end, &value);
}

// The text with a NUL behind it, for the C library.
static bool copy_text(const char *at, const char *end, char text[GW_JSON_NUMBER_BYTES_MAX + 1])
{
    size_t size = (size_t)(end - at);
    if (size > GW_JSON_NUMBER_BYTES_MAX) {
        return false;
    }
    memcpy(text, at, size);
    text[size] = '\0';
    return true;
}

// ---- Reading

// The product or quotient, off by less than MIDDLE_MARGIN units; false: the powers are not exact.
static inline bool near_value(const struct decimal *decimal, double *out)
{
    double digits = (double)decimal->digits;
    if (!decimal->whole || decimal->exponent < -EXACT_TEN || decimal->exponent > EXACT_TEN) {
        return false;
    }
    *out = decimal->exponent < 0 ? digits / tens[-decimal->exponent]
                                 : digits * tens[decimal->exponent];
    return true;
}

// Is it a float's whole range, and not in the middle of two?
static inline bool decides_float(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    uint64_t below = bits & BELOW_FLOAT;
    bool middle = below - (MIDDLE - MIDDLE_MARGIN) <= 2 * MIDDLE_MARGIN;
    return !middle && ((value >= (double)FLT_MIN && value < (double)FLT_MAX) || bits == 0);
}

const char *gw_json_f32(const char *at, const char *end, float *out)
{
    struct decimal decimal;
    double value = 0;
    const char *behind = scan(at, end, &decimal);
    if (behind == NULL) {
        behind = scan_word(at, end, &value);
        *out = (float)value;
        return behind;
    }
    if (near_value(&decimal, &value) && decides_float(value)) {
        *out = (float)(decimal.negative ? -value : value);
        return behind;
    }
    char text[GW_JSON_NUMBER_BYTES_MAX + 1];
    if (!copy_text(at, behind, text)) {
        return NULL;
    }
    *out = strtof(text, NULL);
    return behind;
}

const char *gw_json_f64(const char *at, const char *end, double *out)
{
    struct decimal decimal;
    const char *behind = scan(at, end, &decimal);
    if (behind == NULL) {
        return scan_word(at, end, out);
    }
    double value = 0;
    if (decimal.digits <= EXACT_DIGITS && near_value(&decimal, &value)) { // one rounding
        *out = decimal.negative ? -value : value;
        return behind;
    }
    char text[GW_JSON_NUMBER_BYTES_MAX + 1];
    if (!copy_text(at, behind, text)) {
        return NULL;
    }
    *out = strtod(text, NULL);
    return behind;
}

const char *gw_json_integer(const char *at, const char *end, bool *out_negative, uint64_t *out)
{
    uint64_t value = 0;
    *out_negative = at < end && *at == '-';
    at += *out_negative;
    const char *first = at;
    for (; at < end && is_digit(*at); at++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return NULL;
        }
    }
    bool padded = at - first > 1 && *first == '0';
    bool is_float = at < end && (*at == '.' || *at == 'e' || *at == 'E');
    *out = value;
    return at == first || padded || is_float ? NULL : at;
}

// ---- Writing

size_t gw_json_integer_text(bool negative, uint64_t value, char *out)
{
    char text[GW_JSON_NUMBER_TEXT_MAX];
    size_t at = sizeof(text);
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    if (negative) {
        text[--at] = '-';
    }
    size_t size = sizeof(text) - at;
    memcpy(out, text + at, size);
    out[size] = '\0';
    return size;
}

static size_t word_text(double value, char *out)
{
    const char *word = isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    size_t size = strlen(word);
    memcpy(out, word, size + 1);
    return size;
}

static size_t library_text(double value, int digits, char *out)
{
    int size = snprintf(out, GW_JSON_NUMBER_TEXT_MAX, "%.*g", digits, value);
    base_check(size > 0 && (size_t)size < GW_JSON_NUMBER_TEXT_MAX);
    return (size_t)size;
}

// `digits` with a point so that `behind` of them (0 to 22) follow it, ending zeros left out.
static size_t point_text(bool negative, uint64_t digits, int behind, char *out)
{
    while (behind > 0 && digits % 10 == 0) {
        digits /= 10;
        behind--;
    }
    char text[GW_JSON_NUMBER_TEXT_MAX];
    size_t count = gw_json_integer_text(false, digits, text);
    size_t size = 0;
    if (negative) {
        out[size++] = '-';
    }
    size_t after = (size_t)behind;
    if (count <= after) { // 0.000123
        memcpy(out + size, "0.000000", 2 + after - count);
        size += 2 + after - count;
        memcpy(out + size, text, count);
        size += count;
    } else {
        memcpy(out + size, text, count - after);
        size += count - after;
        if (after > 0) {
            out[size++] = '.';
            memcpy(out + size, text + count - after, after);
            size += after;
        }
    }
    out[size] = '\0';
    return size;
}

// Between these floats no exponent is written, and all powers of ten are exact.
#define PLAIN_MIN 1e-5f
#define PLAIN_MAX 1e9f

size_t gw_json_f32_text(float value, char *out)
{
    double size = fabs((double)value);
    if (!isfinite(value)) {
        return word_text((double)value, out);
    }
    if (size == 0 || size < (double)PLAIN_MIN || size >= (double)PLAIN_MAX) {
        for (int digits = 6; digits < FLOAT_DIGITS; digits++) {
            size_t length = library_text((double)value, digits, out);
            if (strtof(out, NULL) == value) {
                return length;
            }
        }
        return library_text((double)value, FLOAT_DIGITS, out);
    }
    int whole = 1; // digits in front of the point, as a power: 0.0123 has -1
    while (whole < 9 && size >= tens[whole]) {
        whole++;
    }
    while (whole > -4 && whole <= 1 && size * tens[1 - whole] < 1) {
        whole--;
    }
    for (int digits = 6; digits <= FLOAT_DIGITS; digits++) {
        int behind = digits - whole;
        if (behind < 0) {
            continue;
        }
        uint64_t kept = (uint64_t)(size * tens[behind] + 0.5);
        double again = (double)kept / tens[behind];
        if (digits == FLOAT_DIGITS || ((float)again == (float)size && decides_float(again))) {
            return point_text(value < 0, kept, behind, out);
        }
    }
    base_check(false);
    return 0;
}

size_t gw_json_f64_text(double value, char *out)
{
    if (!isfinite(value)) {
        return word_text(value, out);
    }
    for (int digits = 15; digits < DOUBLE_DIGITS; digits++) {
        size_t length = library_text(value, digits, out);
        if (strtod(out, NULL) == value) {
            return length;
        }
    }
    return library_text(value, DOUBLE_DIGITS, out);
}
