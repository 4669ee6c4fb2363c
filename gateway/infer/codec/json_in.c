// The JSON cursor behind the inference service's codec, on its thread. Every step checks against
// the end of the input, which has no NUL behind it. Strings are UTF-8 without overlong forms, and
// escapes that are half a surrogate pair are faults: what comes out is always UTF-8.
#include "infer/codec/json_in.h"

#include "base/check.h"
#include "infer/codec/json_number.h"

#include <stdarg.h>
#include <stdio.h>

_Static_assert(GW_JSON_IN_DEPTH_MAX <= 64, "the kinds of open values are bits of one number");

void gw_json_in_init(struct gw_json_in *in, struct base_arena *arena, struct base_str text,
                     struct base_error *error)
{
    const char *start = text.data != NULL ? text.data : "";
    *in = (struct gw_json_in){start, start, start + text.size, arena, error, BASE_OK};
}

bool gw_json_fail(struct gw_json_in *in, enum base_status status, const char *format, ...)
{
    char text[BASE_ERROR_TEXT_MAX - 24];
    if (in->status != BASE_OK) {
        return false;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    in->status =
        base_error_set(in->error, status, "%s (byte %zu)", text, (size_t)(in->at - in->start));
    return false;
}

char gw_json_peek(struct gw_json_in *in)
{
    if (in->status != BASE_OK) {
        return '\0';
    }
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t')) {
        in->at++;
    }
    return in->at < in->end ? *in->at : '\0';
}

bool gw_json_take(struct gw_json_in *in, char c)
{
    base_assert(c != '\0');
    if (gw_json_peek(in) != c) {
        return false;
    }
    in->at++;
    return true;
}

bool gw_json_expect(struct gw_json_in *in, char c)
{
    return gw_json_take(in, c) ||
           gw_json_fail(in, BASE_ERR_INVALID, "JSON: '%c' is wanted here", c);
}

bool gw_json_element(struct gw_json_in *in, bool *first)
{
    if (gw_json_take(in, ']')) {
        return false;
    }
    if (!*first && !gw_json_expect(in, ',')) {
        return false;
    }
    *first = false;
    return in->status == BASE_OK;
}

bool gw_json_member(struct gw_json_in *in, bool *first, struct base_str *out_name)
{
    if (gw_json_take(in, '}')) {
        return false;
    }
    if (!*first && !gw_json_expect(in, ',')) {
        return false;
    }
    *first = false;
    return gw_json_in_text(in, out_name) && gw_json_expect(in, ':');
}

// ---- Texts

static bool hex4(const char *at, const char *end, uint32_t *out)
{
    uint8_t bytes[2];
    if (end - at < 4 || base_hex_decode((struct base_str){at, 4}, bytes, 2) != BASE_OK) {
        return false;
    }
    *out = (uint32_t)bytes[0] << 8 | bytes[1];
    return true;
}

static char *put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *out++ = (char)(0xe0 | code >> 12);
        } else {
            *out++ = (char)(0xf0 | code >> 18);
            *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *out++ = (char)(0x80 | (code & 0x3f));
    return out;
}

// Behind "\u"; moves *at. No code is 0xd800 to 0xdfff: UINT32_MAX then.
static uint32_t unicode_escape(const char **at, const char *end)
{
    uint32_t code = 0;
    uint32_t low = 0;
    if (!hex4(*at, end, &code)) {
        return UINT32_MAX;
    }
    *at += 4;
    if (code < 0xd800 || code > 0xdfff) {
        return code;
    }
    if (code > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' ||
        !hex4(*at + 2, end, &low) || low < 0xdc00 || low > 0xdfff) {
        return UINT32_MAX;
    }
    *at += 6;
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

// Decodes what lies between the quotes, which holds an escape. False: one is none.
static bool unescape(const char *at, const char *end, char *out, size_t *out_size)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *start = out;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        char kind = at[1]; // the scan has seen it
        at += 2;
        const char *simple = memchr(from, kind, sizeof(from) - 1);
        if (simple != NULL) {
            *out++ = to[simple - from];
            continue;
        }
        uint32_t code = kind == 'u' ? unicode_escape(&at, end) : UINT32_MAX;
        if (code == UINT32_MAX) {
            return false;
        }
        out = put_utf8(out, code);
    }
    *out_size = (size_t)(out - start);
    return true;
}

size_t gw_json_utf8(const char *text, const char *end)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t left = (size_t)(end - text);
    if (at[0] < 0x80) {
        return 1;
    }
    uint8_t lowest = 0x80;
    uint8_t highest = 0xbf;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < size) {
        return 0;
    }
    if (at[0] == 0xe0 || at[0] == 0xf0) { // overlong below
        lowest = at[0] == 0xe0 ? 0xa0 : 0x90;
    } else if (at[0] == 0xed || at[0] == 0xf4) { // surrogates, and past U+10FFFF
        highest = at[0] == 0xed ? 0x9f : 0x8f;
    }
    if (at[1] < lowest || at[1] > highest) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

// Finds the closing quote; NULL: there is none, or what comes before it is malformed.
static const char *text_end(const char *at, const char *end, bool *out_escapes)
{
    while (at < end && *at != '"') {
        uint8_t byte = (uint8_t)*at;
        size_t size = 1;
        if (byte == '\\') {
            *out_escapes = true;
            size = 2;
        } else if (byte >= 0x80) {
            size = gw_json_utf8(at, end);
        } else if (byte < 0x20) {
            return NULL;
        }
        if (size == 0 || size > (size_t)(end - at) || (size == 2 && byte == '\\' && at[1] < ' ')) {
            return NULL;
        }
        at += size;
    }
    return at < end ? at : NULL;
}

bool gw_json_in_text(struct gw_json_in *in, struct base_str *out)
{
    bool escapes = false;
    if (!gw_json_take(in, '"')) {
        return gw_json_fail(in, BASE_ERR_INVALID, "JSON: a text is wanted here");
    }
    const char *from = in->at;
    const char *behind = text_end(from, in->end, &escapes);
    if (behind == NULL) {
        return gw_json_fail(in, BASE_ERR_INVALID, "JSON: a text that is malformed or has no end");
    }
    *out = (struct base_str){from, (size_t)(behind - from)};
    if (escapes) {
        char *decoded = base_arena_alloc(in->arena, out->size); // never longer
        if (decoded == NULL) {
            return gw_json_fail(in, BASE_ERR_NOMEM, "out of memory");
        }
        if (!unescape(from, behind, decoded, &out->size)) {
            return gw_json_fail(in, BASE_ERR_INVALID, "JSON: a text with an escape that is none");
        }
        out->data = decoded;
    }
    in->at = behind + 1;
    return true;
}

// ---- Other values

static bool take_word(struct gw_json_in *in, const char *word)
{
    size_t size = strlen(word);
    (void)gw_json_peek(in);
    if (in->status != BASE_OK || (size_t)(in->end - in->at) < size ||
        memcmp(in->at, word, size) != 0) {
        return false;
    }
    in->at += size;
    return true;
}

bool gw_json_in_bool(struct gw_json_in *in, bool *out)
{
    *out = take_word(in, "true");
    return *out || take_word(in, "false") ||
           gw_json_fail(in, BASE_ERR_INVALID, "JSON: true or false is wanted here");
}

bool gw_json_in_u64(struct gw_json_in *in, const char *what, uint64_t max, uint64_t *out)
{
    bool negative = false;
    (void)gw_json_peek(in);
    const char *behind =
        in->status == BASE_OK ? gw_json_integer(in->at, in->end, &negative, out) : NULL;
    if (behind == NULL || (negative && *out > 0) || *out > max) {
        return gw_json_fail(in, BASE_ERR_INVALID, "%s: a whole number from 0 to %llu is wanted",
                            what, (unsigned long long)max);
    }
    in->at = behind;
    return true;
}

// A value that holds no others.
static bool skip_plain(struct gw_json_in *in)
{
    struct base_str text;
    if (gw_json_peek(in) == '"') {
        return gw_json_in_text(in, &text);
    }
    if (take_word(in, "true") || take_word(in, "false") || take_word(in, "null")) {
        return true;
    }
    const char *behind = gw_json_number_skip(in->at, in->end);
    if (in->status != BASE_OK || behind == NULL) {
        return gw_json_fail(in, BASE_ERR_INVALID, "JSON: a value is wanted here");
    }
    in->at = behind;
    return true;
}

bool gw_json_skip(struct gw_json_in *in)
{
    uint64_t objects = 0; // a bit of each open value: is it an object?
    uint32_t depth = 0;
    bool first = true;
    do {
        bool object = gw_json_take(in, '{');
        if (object || gw_json_take(in, '[')) {
            if (depth == GW_JSON_IN_DEPTH_MAX) {
                return gw_json_fail(in, BASE_ERR_TOO_LARGE, "JSON: over %u deep",
                                    GW_JSON_IN_DEPTH_MAX);
            }
            objects = objects << 1 | object;
            depth++;
            first = true;
        } else if (!skip_plain(in)) {
            return false;
        }
        struct base_str name;
        while (depth > 0 && !((objects & 1) != 0 ? gw_json_member(in, &first, &name)
                                                 : gw_json_element(in, &first))) {
            objects >>= 1; // this one is over, or there is a fault
            depth--;
            first = false;
        }
    } while (depth > 0 && in->status == BASE_OK);
    return in->status == BASE_OK;
}

bool gw_json_finish(struct gw_json_in *in)
{
    (void)gw_json_peek(in);
    return in->status == BASE_OK &&
           (in->at == in->end ||
            gw_json_fail(in, BASE_ERR_INVALID, "JSON: something follows the message"));
}
