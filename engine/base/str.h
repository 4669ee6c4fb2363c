// Borrowed text and bytes with a length, and the small conversions every border needs.
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

BASE_C_BEGIN

// Not NUL-terminated; the bytes belong to somebody else. {NULL, 0} is the empty text.
struct base_str {
    const char *data;
    size_t size;
};

#ifdef __cplusplus
#define BASE_STR(literal) (base_str{(literal), sizeof(literal) - 1})
#else
#define BASE_STR(literal) ((struct base_str){(literal), sizeof(literal) - 1})
#endif

struct base_str base_str_of(const char *text); // strlen once; NULL gives the empty text

static inline bool base_str_equal(struct base_str left, struct base_str right)
{
    return left.size == right.size &&
           (left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}

bool base_str_starts(struct base_str text, struct base_str prefix);

// Whole text as a decimal number without sign; INVALID for anything else, OVERFLOW past 2^64-1.
BASE_NODISCARD enum base_status base_str_u64(struct base_str text, uint64_t *out_value);
// Whole text as a decimal number with optional '-'.
BASE_NODISCARD enum base_status base_str_i64(struct base_str text, int64_t *out_value);

// Lower-case hex; `out` holds 2*size bytes, no NUL is written.
void base_hex_encode(const uint8_t *bytes, size_t size, char *out);
// Exactly 2*size hex digits of either case; INVALID otherwise.
BASE_NODISCARD enum base_status base_hex_decode(struct base_str text, uint8_t *out, size_t size);

// base64url (RFC 4648 section 5) without padding.
#define BASE_B64_ENCODED(size)     (((size)*4 + 2) / 3)
#define BASE_B64_DECODED_MAX(size) ((size)*3 / 4)
// Writes BASE_B64_ENCODED(size) characters, no NUL; returns that number.
size_t base_b64_encode(const uint8_t *bytes, size_t size, char *out);
// INVALID: a character outside the alphabet, an impossible length, or set unused bits; TOO_LARGE:
// over `capacity`.
BASE_NODISCARD enum base_status base_b64_decode(struct base_str text, uint8_t *out, size_t capacity,
                                                size_t *out_size);

BASE_C_END

#endif
