// Element types, descriptions and half-precision conversions: the functions of engine/tensor.h.
// Pure; called from everywhere in the engine and by its callers, on any thread. Sizes of
// descriptions are checked against overflow once, by eng_desc_check, where they come in; from then
// on counts and bytes are plain products. Conversions to F16 round to the nearest, ties to even,
// and keep NaN a NaN.
#include "engine/tensor.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
} types[ENG_DTYPE_COUNT] = {
    [ENG_UNDEFINED] = {"undefined", 0},
    [ENG_F32] = {"float", 4},
    [ENG_U8] = {"uint8", 1},
    [ENG_I8] = {"int8", 1},
    [ENG_U16] = {"uint16", 2},
    [ENG_I16] = {"int16", 2},
    [ENG_I32] = {"int32", 4},
    [ENG_I64] = {"int64", 8},
    [ENG_STRING] = {"string", sizeof(struct eng_string)},
    [ENG_BOOL] = {"bool", 1},
    [ENG_F16] = {"float16", 2},
    [ENG_F64] = {"double", 8},
    [ENG_U32] = {"uint32", 4},
    [ENG_U64] = {"uint64", 8},
    [ENG_C64] = {"complex64", 8},
    [ENG_C128] = {"complex128", 16},
    [ENG_BF16] = {"bfloat16", 2},
};

size_t eng_dtype_bytes(enum eng_dtype dtype)
{
    return (unsigned)dtype < ENG_DTYPE_COUNT ? types[dtype].bytes : 0;
}

const char *eng_dtype_name(enum eng_dtype dtype)
{
    return (unsigned)dtype < ENG_DTYPE_COUNT ? types[dtype].name : "unknown";
}

enum base_status eng_desc_check(const struct eng_desc *desc, int64_t *out_count)
{
    if (desc->rank > ENG_RANK_MAX) {
        return BASE_ERR_INVALID;
    }
    bool empty = false;
    for (uint32_t d = 0; d < desc->rank; d++) {
        if (desc->dims[d] < 0) {
            return BASE_ERR_INVALID;
        }
        empty = empty || desc->dims[d] == 0;
    }
    // The product of the dimensions other than 0 is bounded too: strides are computed from it.
    int64_t count = 1;
    for (uint32_t d = 0; d < desc->rank; d++) {
        int64_t dim = desc->dims[d] == 0 ? 1 : desc->dims[d];
        if (__builtin_mul_overflow(count, dim, &count) || count > ENG_ELEMENTS_MAX) {
            return BASE_ERR_OVERFLOW;
        }
    }
    base_assert(count >= 1 && count <= ENG_ELEMENTS_MAX);
    *out_count = empty ? 0 : count;
    return BASE_OK;
}

int64_t eng_desc_count(const struct eng_desc *desc)
{
    int64_t count = 1;
    base_check(desc->rank <= ENG_RANK_MAX);
    for (uint32_t d = 0; d < desc->rank; d++) {
        base_assert(desc->dims[d] >= 0);
        count *= desc->dims[d];
    }
    base_assert(count <= ENG_ELEMENTS_MAX);
    return count;
}

size_t eng_desc_bytes(const struct eng_desc *desc)
{
    return (size_t)eng_desc_count(desc) * eng_dtype_bytes(desc->dtype);
}

bool eng_desc_equal(const struct eng_desc *left, const struct eng_desc *right)
{
    if (left->dtype != right->dtype || left->rank != right->rank) {
        return false;
    }
    for (uint32_t d = 0; d < left->rank; d++) {
        if (left->dims[d] != right->dims[d]) {
            return false;
        }
    }
    return true;
}

const char *eng_desc_text(const struct eng_desc *desc, char *text, size_t size)
{
    // The longest text there can be: a name and ENG_RANK_MAX numbers of 20 digits.
    char full[32 + ENG_RANK_MAX * 22];
    size_t at = (size_t)snprintf(full, sizeof(full), "%s[", eng_dtype_name(desc->dtype));
    for (uint32_t d = 0; d < desc->rank && d < ENG_RANK_MAX; d++) {
        const char *comma = d == 0 ? "" : ",";
        if (desc->dims[d] < 0) {
            at += (size_t)snprintf(full + at, sizeof(full) - at, "%s?", comma);
        } else {
            at += (size_t)snprintf(full + at, sizeof(full) - at, "%s%lld", comma,
                                   (long long)desc->dims[d]);
        }
    }
    (void)snprintf(full + at, sizeof(full) - at, "]");
    if (size > 0) {
        (void)snprintf(text, size, "%s", full);
    }
    return text;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

float eng_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f) {
        return float_of_bits(sign | 0x7f800000u | (fraction << 13));
    }
    if (exponent == 0) {
        // Subnormal: fraction * 2^-24, exact in float32.
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return float_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t eng_f16_from_f32(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        // NaN: keep the top of the payload, and a bit set so that it stays a NaN.
        return (uint16_t)(sign | 0x7c00u | ((magnitude >> 13) & 0x3ffu) | 0x200u);
    }
    if (magnitude >= 0x477ff000u) { // 65520: rounds to infinity
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { // below 2^-14: subnormal or zero
        // Adding 0.5 puts the bits wanted at the bottom of the fraction, rounded by the addition.
        uint32_t shifted = bits_of_float(float_of_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (shifted - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    uint32_t rounded = magnitude + 0xfffu + odd;
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

float eng_bf16_to_f32(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

uint16_t eng_bf16_from_f32(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
