// Borrowed text, numbers in text, hex and base64url.
//
// Called at every border and on the check-in path (base64url of the profile header), from any
// thread; there is no state and nothing is allocated. The decoders look characters up in a table
// and collect errors with OR, so that the loop has no branch per character; with SSE2, which every
// x86-64 has, long texts go sixteen at a time.
#include "base/str.h"

#include "base/check.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct base_str base_str_of(const char *text)
{
    if (text == NULL) {
        return (struct base_str){NULL, 0};
    }
    return (struct base_str){text, strlen(text)};
}

bool base_str_starts(struct base_str text, struct base_str prefix)
{
    if (text.size < prefix.size) {
        return false;
    }
    return prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0;
}

enum base_status base_str_u64(struct base_str text, uint64_t *out_value)
{
    if (text.size == 0) {
        return BASE_ERR_INVALID;
    }
    uint64_t value = 0;
    bool overflow = false;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9) {
            return BASE_ERR_INVALID;
        }
        overflow |= __builtin_mul_overflow(value, (uint64_t)10, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)digit, &value);
    }
    if (overflow) {
        return BASE_ERR_OVERFLOW;
    }
    *out_value = value;
    return BASE_OK;
}

enum base_status base_str_i64(struct base_str text, int64_t *out_value)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    if (negative) {
        text.data++;
        text.size--;
    }
    uint64_t magnitude;
    BASE_TRY(base_str_u64(text, &magnitude));
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return BASE_ERR_OVERFLOW;
    }
    // Negating as unsigned keeps INT64_MIN defined.
    *out_value = (int64_t)(negative ? 0 - magnitude : magnitude);
    return BASE_OK;
}

void base_hex_encode(const uint8_t *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

// 0x10 and its value for each hex digit, 0 for what is none.
static const uint8_t hex_digit[256] = {
    ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15,
    ['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1a, ['b'] = 0x1b,
    ['c'] = 0x1c, ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f, ['A'] = 0x1a, ['B'] = 0x1b,
    ['C'] = 0x1c, ['D'] = 0x1d, ['E'] = 0x1e, ['F'] = 0x1f,
};

enum base_status base_hex_decode(struct base_str text, uint8_t *out, size_t size)
{
    const uint8_t *from = (const uint8_t *)text.data;
    uint8_t all = 0x10;
    if (text.size % 2 != 0 || text.size / 2 != size) {
        return BASE_ERR_INVALID;
    }
    for (size_t i = 0; i < text.size; i++) {
        all &= hex_digit[from[i]];
    }
    if (all == 0) {
        return BASE_ERR_INVALID;
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(hex_digit[from[2 * i]] << 4 | (hex_digit[from[2 * i + 1]] & 0x0f));
    }
    return BASE_OK;
}

static const char b64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// Value of each character; BB, whose high bits no value has, marks what is not in the alphabet.
#define BB 0xff
// clang-format off
static const uint8_t b64_value[256] = {
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, 62, BB, BB,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, BB, BB, BB, BB, BB, BB,
    BB, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, BB, BB, BB, BB, 63,
    BB, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
    BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB, BB,
};
// clang-format on
#undef BB

#define B64_BAD 0xc0u

size_t base_b64_encode(const uint8_t *bytes, size_t size, char *out)
{
    size_t at = 0;
    size_t i = 0;
    for (; i + 3 <= size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        out[at] = b64_alphabet[group >> 18];
        out[at + 1] = b64_alphabet[group >> 12 & 63];
        out[at + 2] = b64_alphabet[group >> 6 & 63];
        out[at + 3] = b64_alphabet[group & 63];
        at += 4;
    }
    if (size - i == 1) {
        out[at++] = b64_alphabet[bytes[i] >> 2];
        out[at++] = b64_alphabet[(bytes[i] & 3) << 4];
    } else if (size - i == 2) {
        uint32_t group = (uint32_t)bytes[i] << 8 | bytes[i + 1];
        out[at++] = b64_alphabet[group >> 10];
        out[at++] = b64_alphabet[group >> 4 & 63];
        out[at++] = b64_alphabet[(group & 15) << 2];
    }
    base_assert(at == BASE_B64_ENCODED(size));
    return at;
}

// Decodes the last 2 or 3 characters. False: bad character, or unused bits that are not zero.
static bool b64_tail(const uint8_t *text, size_t size, uint8_t *out)
{
    base_assert(size == 2 || size == 3);
    uint32_t a = b64_value[text[0]];
    uint32_t b = b64_value[text[1]];
    uint32_t c = size == 3 ? b64_value[text[2]] : 0;
    if (((a | b | c) & B64_BAD) != 0) {
        return false;
    }
    out[0] = (uint8_t)(a << 2 | b >> 4);
    if (size == 2) {
        return (b & 15) == 0;
    }
    out[1] = (uint8_t)(b << 4 | c >> 2);
    return (c & 3) == 0;
}

#ifdef __SSE2__
// Bytes of `text` from `first` to `last` become `value`, `value` + 1, ..; the others 0, also in
// *all, which collects who was in a range.
static __m128i b64_range(__m128i text, char first, char last, char value, __m128i *all)
{
    __m128i in = _mm_and_si128(_mm_cmpgt_epi8(text, _mm_set1_epi8((char)(first - 1))),
                               _mm_cmplt_epi8(text, _mm_set1_epi8((char)(last + 1))));
    *all = _mm_or_si128(*all, in);
    return _mm_and_si128(in, _mm_add_epi8(text, _mm_set1_epi8((char)(value - first))));
}

// Two numbers of 24 bits in their order in memory; writes 8 bytes.
static void b64_six_bytes(uint64_t numbers, uint8_t *to)
{
    uint64_t bytes = __builtin_bswap64(numbers << 40 | (numbers >> 32) << 16);
    memcpy(to, &bytes, sizeof(bytes));
}

// 16 characters to 12 bytes; writes 14. False: a bad character.
static bool b64_block(const uint8_t *from, uint8_t *to)
{
    __m128i text = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i good = _mm_setzero_si128();
    __m128i six = b64_range(text, 'A', 'Z', 0, &good);
    six = _mm_or_si128(six, b64_range(text, 'a', 'z', 26, &good));
    six = _mm_or_si128(six, b64_range(text, '0', '9', 52, &good));
    __m128i minus = _mm_cmpeq_epi8(text, _mm_set1_epi8('-'));
    __m128i line = _mm_cmpeq_epi8(text, _mm_set1_epi8('_'));
    good = _mm_or_si128(good, _mm_or_si128(minus, line));
    six = _mm_or_si128(six, _mm_or_si128(_mm_and_si128(minus, _mm_set1_epi8(62)),
                                         _mm_and_si128(line, _mm_set1_epi8(63))));
    // Pairs of 6 bits to 12, pairs of those to 24, in four numbers of 32 bits.
    __m128i even = _mm_slli_epi16(_mm_and_si128(six, _mm_set1_epi16(0xff)), 6);
    __m128i twelve = _mm_or_si128(even, _mm_srli_epi16(six, 8));
    __m128i full = _mm_madd_epi16(twelve, _mm_set1_epi32(0x00011000));
    b64_six_bytes((uint64_t)_mm_cvtsi128_si64(full), to);
    b64_six_bytes((uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(full, full)), to + 6);
    return _mm_movemask_epi8(good) == 0xffff;
}
#endif

enum base_status base_b64_decode(struct base_str text, uint8_t *out, size_t capacity,
                                 size_t *out_size)
{
    size_t tail = text.size % 4;
    size_t whole = text.size - tail;
    if (tail == 1) {
        return BASE_ERR_INVALID;
    }
    size_t size = whole / 4 * 3 + (tail == 0 ? 0 : tail - 1);
    if (size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    const uint8_t *from = (const uint8_t *)text.data;
    uint8_t *to = out;
    uint32_t seen = 0;
    size_t i = 0;
#ifdef __SSE2__
    for (; i + 20 <= whole; i += 16) { // what a block writes too much is inside `out`
        seen |= b64_block(from + i, to) ? 0 : B64_BAD;
        to += 12;
    }
#endif
    for (; i < whole; i += 4) {
        uint32_t a = b64_value[from[i]];
        uint32_t b = b64_value[from[i + 1]];
        uint32_t c = b64_value[from[i + 2]];
        uint32_t d = b64_value[from[i + 3]];
        seen |= a | b | c | d;
        to[0] = (uint8_t)(a << 2 | b >> 4);
        to[1] = (uint8_t)(b << 4 | c >> 2);
        to[2] = (uint8_t)(c << 6 | d);
        to += 3;
    }
    base_assert((size_t)(to - out) == whole / 4 * 3);
    if ((seen & B64_BAD) != 0) {
        return BASE_ERR_INVALID;
    }
    if (tail != 0 && !b64_tail(from + whole, tail, to)) {
        return BASE_ERR_INVALID;
    }
    *out_size = size;
    return BASE_OK;
}
