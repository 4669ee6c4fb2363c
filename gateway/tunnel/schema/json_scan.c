// The scanner of json_scan.h: a machine with a stack of bits for what is open, so that depth is
// bounded and nothing recurses (RFC 8259). Called by schema_check.c and session_content.c for
// records on a worker's thread, and by schema_parse.c where a schema is declared. Pure, any thread:
// all state is in the scanner, and texts point into the input.
#include "tunnel/schema/json_scan.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_TEXT_MAX 64u

// What may come next.
enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, // first of a list
    EXPECT_KEY_OR_END,   // first of an object
    EXPECT_KEY,
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING, // after the only value
};

void gw_scan_init(struct gw_json_scan *scan, struct base_str text)
{
    *scan = (struct gw_json_scan){
        .start = text.data, .at = text.data, .end = text.data + text.size, .expect = EXPECT_VALUE};
}

static void skip_blanks(struct gw_json_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r')) {
        scan->at++;
    }
}

static bool in_object(const struct gw_json_scan *scan)
{
    return scan->depth > 0 && (scan->objects >> (scan->depth - 1) & 1) != 0;
}

// ---- Strings

static int hex_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool read_hex4(struct gw_json_scan *scan, uint32_t *out)
{
    *out = 0;
    if (scan->end - scan->at < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        int digit = hex_of(*scan->at);
        if (digit < 0) {
            return false;
        }
        *out = *out * 16 + (uint32_t)digit;
        scan->at++;
    }
    return true;
}

// Behind the backslash.
static bool read_escape(struct gw_json_scan *scan)
{
    uint32_t unit;
    if (scan->at == scan->end) {
        return false;
    }
    char c = *scan->at++;
    if (c != 'u') {
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
    }
    if (!read_hex4(scan, &unit) || (unit >= 0xdc00 && unit < 0xe000)) {
        return false;
    }
    if (unit < 0xd800 || unit >= 0xe000) {
        return true;
    }
    if (scan->end - scan->at < 2 || scan->at[0] != '\\' || scan->at[1] != 'u') {
        return false;
    }
    scan->at += 2;
    return read_hex4(scan, &unit) && unit >= 0xdc00 && unit < 0xe000;
}

// A sequence of two to four bytes; shortest forms alone, no surrogates (RFC 3629).
static bool read_utf8(struct gw_json_scan *scan)
{
    uint8_t lead = (uint8_t)*scan->at++;
    uint32_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || (size_t)(scan->end - scan->at) < more) {
        return false;
    }
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : low;
    high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : high;
    for (uint32_t i = 0; i < more; i++) {
        uint8_t byte = (uint8_t)*scan->at;
        if (byte < low || byte > high) {
            return false;
        }
        low = 0x80;
        high = 0xbf;
        scan->at++;
    }
    return true;
}

// Behind the opening quote.
static bool read_string(struct gw_json_scan *scan)
{
    base_assert(scan->at > scan->start && scan->at[-1] == '"');
    const char *from = scan->at;
    scan->escaped = false;
    while (scan->at < scan->end) {
        uint8_t c = (uint8_t)*scan->at;
        if (c == '"') {
            scan->text = (struct base_str){from, (size_t)(scan->at - from)};
            scan->at++;
            return true;
        }
        if (c == '\\') {
            scan->escaped = true;
            scan->at++;
            if (!read_escape(scan)) {
                return false;
            }
        } else if (c >= 0x80) {
            if (!read_utf8(scan)) {
                return false;
            }
        } else if (c < 0x20) {
            return false;
        } else {
            scan->at++;
        }
    }
    return false;
}

// ---- Numbers and words

static bool read_digits(struct gw_json_scan *scan)
{
    const char *from = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        scan->at++;
    }
    return scan->at > from;
}

static bool take(struct gw_json_scan *scan, char sign)
{
    if (scan->at < scan->end && *scan->at == sign) {
        scan->at++;
        return true;
    }
    return false;
}

static bool read_number(struct gw_json_scan *scan, enum gw_json_token *out)
{
    base_assert(*scan->at == '-' || (*scan->at >= '0' && *scan->at <= '9'));
    const char *from = scan->at;
    *out = GW_JSON_INTEGER;
    (void)take(scan, '-');
    if (!take(scan, '0') && !read_digits(scan)) {
        return false;
    }
    if (take(scan, '.')) {
        *out = GW_JSON_NUMBER;
        if (!read_digits(scan)) {
            return false;
        }
    }
    if (take(scan, 'e') || take(scan, 'E')) {
        *out = GW_JSON_NUMBER;
        if (!take(scan, '+')) {
            (void)take(scan, '-');
        }
        if (!read_digits(scan)) {
            return false;
        }
    }
    scan->text = (struct base_str){from, (size_t)(scan->at - from)};
    return true;
}

static bool read_word(struct gw_json_scan *scan, const char *word, size_t size)
{
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, word, size) != 0) {
        return false;
    }
    scan->at += size;
    return true;
}

double gw_scan_real(struct base_str number)
{
    char text[NUMBER_TEXT_MAX];
    size_t size = number.size < sizeof(text) - 1 ? number.size : sizeof(text) - 1;
    memcpy(text, number.data, size);
    text[size] = '\0';
    return strtod(text, NULL);
}

// ---- Tokens

static enum base_status open_level(struct gw_json_scan *scan, bool is_object,
                                   enum gw_json_token *out)
{
    if (scan->depth == GW_JSON_DEPTH_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    uint64_t bit = UINT64_C(1) << scan->depth;
    scan->objects = is_object ? scan->objects | bit : scan->objects & ~bit;
    scan->depth++;
    scan->at++;
    scan->expect = is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    *out = is_object ? GW_JSON_OBJECT : GW_JSON_LIST;
    return BASE_OK;
}

static enum base_status close_level(struct gw_json_scan *scan, enum gw_json_token *out)
{
    *out = in_object(scan) ? GW_JSON_OBJECT_END : GW_JSON_LIST_END;
    scan->depth--;
    scan->at++;
    scan->expect = scan->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
    return BASE_OK;
}

static enum base_status read_value(struct gw_json_scan *scan, enum gw_json_token *out)
{
    char c = *scan->at;
    bool good;
    if (c == '{' || c == '[') {
        return open_level(scan, c == '{', out);
    }
    if (c == '"') {
        scan->at++;
        *out = GW_JSON_STRING;
        good = read_string(scan);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        good = read_number(scan, out);
    } else {
        *out = c == 't' ? GW_JSON_TRUE : c == 'f' ? GW_JSON_FALSE : GW_JSON_NULL;
        good = c == 't'   ? read_word(scan, "true", 4)
               : c == 'f' ? read_word(scan, "false", 5)
                          : read_word(scan, "null", 4);
    }
    scan->expect = scan->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
    return good ? BASE_OK : BASE_ERR_INVALID;
}

static enum base_status read_key(struct gw_json_scan *scan, enum gw_json_token *out)
{
    *out = GW_JSON_KEY;
    if (!take(scan, '"') || !read_string(scan)) {
        return BASE_ERR_INVALID;
    }
    skip_blanks(scan);
    if (!take(scan, ':')) {
        return BASE_ERR_INVALID;
    }
    scan->expect = EXPECT_VALUE;
    return BASE_OK;
}

enum base_status gw_scan_next(struct gw_json_scan *scan, enum gw_json_token *out)
{
    base_assert(scan->at <= scan->end && scan->depth <= GW_JSON_DEPTH_MAX);
    skip_blanks(scan);
    if (scan->expect == EXPECT_NOTHING) {
        *out = GW_JSON_END;
        return scan->at == scan->end ? BASE_OK : BASE_ERR_INVALID;
    }
    if (scan->at == scan->end) {
        return BASE_ERR_INVALID;
    }
    char closes = in_object(scan) ? '}' : ']';
    bool may_end = scan->expect == EXPECT_COMMA_OR_END || scan->expect == EXPECT_KEY_OR_END ||
                   scan->expect == EXPECT_VALUE_OR_END;
    if (may_end && *scan->at == closes) {
        return close_level(scan, out);
    }
    if (scan->expect == EXPECT_COMMA_OR_END) {
        if (!take(scan, ',')) {
            return BASE_ERR_INVALID;
        }
        skip_blanks(scan);
        scan->expect = in_object(scan) ? EXPECT_KEY : EXPECT_VALUE;
        if (scan->at == scan->end) {
            return BASE_ERR_INVALID;
        }
    }
    bool key = scan->expect == EXPECT_KEY || scan->expect == EXPECT_KEY_OR_END;
    return key ? read_key(scan, out) : read_value(scan, out);
}

enum base_status gw_scan_check(struct base_str text)
{
    struct gw_json_scan scan;
    enum gw_json_token token = GW_JSON_NULL;
    gw_scan_init(&scan, text);
    while (token != GW_JSON_END) {
        BASE_TRY(gw_scan_next(&scan, &token));
    }
    return BASE_OK;
}
