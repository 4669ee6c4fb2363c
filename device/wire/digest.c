// Names of content and things: SHA-256 values, task names and ids, device ids.
//
// Called by both sides from any thread; there is no state. Computing SHA-256 is not done here: each
// side has its own port for it.
#include "wire/digest.h"

#include "base/hash.h"
#include "base/os/path_part.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SHADOW_MARK UINT64_C(0x736861646f772323)

bool wire_sha256_equal(const struct wire_sha256 *a, const struct wire_sha256 *b)
{
    return memcmp(a->bytes, b->bytes, WIRE_SHA256_BYTES) == 0;
}

bool wire_sha256_is_zero(const struct wire_sha256 *a)
{
    uint8_t any = 0;
    for (size_t i = 0; i < WIRE_SHA256_BYTES; i++) {
        any |= a->bytes[i];
    }
    return any == 0;
}

uint64_t wire_version_id(const struct wire_sha256 *manifest)
{
    uint64_t id = 0;
    for (size_t i = 0; i < 8; i++) {
        id |= (uint64_t)manifest->bytes[i] << (8 * i);
    }
    return id;
}

void wire_sha256_hex(const struct wire_sha256 *digest, char out[WIRE_SHA256_HEX + 1])
{
    base_hex_encode(digest->bytes, WIRE_SHA256_BYTES, out);
    out[WIRE_SHA256_HEX] = '\0';
}

enum base_status wire_sha256_parse(struct base_str hex, struct wire_sha256 *out)
{
    return base_hex_decode(hex, out->bytes, WIRE_SHA256_BYTES);
}

static bool is_task_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '/' ||
           c == '-';
}

const char *wire_task_name_fault(struct base_str name)
{
    if (name.size == 0 || name.size > WIRE_TASK_NAME_MAX) {
        return "is not 1 to 64 characters long";
    }
    for (size_t i = 0; i < name.size; i++) {
        if (!is_task_name_char(name.data[i])) {
            return "has a character that is none of a-z 0-9 . _ / -";
        }
    }
    char first = name.data[0];
    if (first == '.' || first == '_' || first == '/' || first == '-') {
        return "does not begin with a letter or digit";
    }
    return base_path_fault(name) == NULL ? NULL
                                         : "has a part, between slashes, that is empty, '.', '..' "
                                           "or '.git'";
}
_Static_assert(WIRE_TASK_NAME_MAX == 64, "the text above says so");

bool wire_task_name_ok(struct base_str name)
{
    return wire_task_name_fault(name) == NULL;
}

uint64_t wire_task_id(struct base_str name)
{
    return base_hash64(name.data, name.size);
}

uint64_t wire_shadow_task_id(uint64_t task_id)
{
    return task_id ^ SHADOW_MARK;
}

void wire_device_hex(uint64_t device_id, char out[WIRE_DEVICE_HEX + 1])
{
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(device_id >> (56 - 8 * i));
    }
    base_hex_encode(bytes, sizeof bytes, out);
    out[WIRE_DEVICE_HEX] = '\0';
}

// The digits of an id. Lower case only: one spelling per device, so that text compares as the id
// does. On the check-in path: no branch but for what is wrong. False: a bad character.
#ifdef __SSE2__
// Bytes of `text` from `first` to `last` become `value`, `value` + 1, ..; the others 0, also in
// *all, which collects who was in a range.
static __m128i hex_range(__m128i text, char first, char last, char value, __m128i *all)
{
    __m128i at = _mm_sub_epi8(text, _mm_set1_epi8(first));
    __m128i in = _mm_cmpeq_epi8(_mm_min_epu8(at, _mm_set1_epi8((char)(last - first))), at);
    *all = _mm_or_si128(*all, in);
    return _mm_and_si128(in, _mm_add_epi8(at, _mm_set1_epi8(value)));
}

static bool hex_digits(const char *text, uint64_t *out_id)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
    __m128i good = _mm_setzero_si128();
    __m128i four = hex_range(bytes, '0', '9', 0, &good);
    four = _mm_or_si128(four, hex_range(bytes, 'a', 'f', 10, &good));
    // Pairs of 4 bits to bytes, the first digit above the second; then the first byte on top.
    __m128i pairs = _mm_or_si128(_mm_slli_epi16(four, 4), _mm_srli_epi16(four, 8));
    pairs = _mm_and_si128(pairs, _mm_set1_epi16(0xff));
    *out_id = __builtin_bswap64((uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)));
    return _mm_movemask_epi8(good) == 0xffff;
}
#else
// Each mark is a digit and HEX_DIGIT; what is no digit is 0.
#define HEX_DIGIT 0x10u
static const uint8_t hex_marks[256] = {
    ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15,
    ['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1a, ['b'] = 0x1b,
    ['c'] = 0x1c, ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f,
};

// Four digits a turn.
static bool hex_digits(const char *digits, uint64_t *out_id)
{
    const unsigned char *text = (const unsigned char *)digits;
    uint64_t id = 0;
    unsigned all = HEX_DIGIT;
    for (size_t i = 0; i < WIRE_DEVICE_HEX; i += 4) {
        unsigned a = hex_marks[text[i]];
        unsigned b = hex_marks[text[i + 1]];
        unsigned c = hex_marks[text[i + 2]];
        unsigned d = hex_marks[text[i + 3]];
        all &= a & b & c & d;
        id = id << 16 | (uint16_t)((a << 12) + (b << 8) + (c << 4) + d - HEX_DIGIT * 0x1111u);
    }
    *out_id = id;
    return all == HEX_DIGIT;
}
#endif
_Static_assert(WIRE_DEVICE_HEX == 16, "as many digits as are read");

enum base_status wire_device_parse(struct base_str hex, uint64_t *out_device_id)
{
    uint64_t id;
    if (hex.size != WIRE_DEVICE_HEX || !hex_digits(hex.data, &id)) {
        return BASE_ERR_INVALID;
    }
    *out_device_id = id;
    return BASE_OK;
}

enum base_status wire_device_parse_own(struct base_str hex, uint64_t *out_device_id)
{
    BASE_TRY(wire_device_parse(hex, out_device_id));
    return *out_device_id != 0 ? BASE_OK : BASE_ERR_INVALID;
}
