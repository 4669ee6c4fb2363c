// Shows text from outside. Called by the log port (log.c), by the guard of standard output
// (terminal.c) and where a command or a report puts such text into a line of its own
// (cli/base/cli_json.c, svc/device/device_faults.c); any thread, no state. A table of ranges says
// what has an effect instead of a shape, printable ASCII never asks it; UTF-8 is judged as RFC 3629
// has it. A step tells when bytes end within a character, so that text may come in pieces.
#include "base/visible.h"

#include "base/check.h"

#include <string.h>

// What has an effect or no shape, ascending: controls, soft hyphen, joiner, mark of direction,
// fillers, selectors of variants, widths, lines and directions, tags.
static const uint32_t unseen[][2] = {
    {0x0000, 0x001f}, {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
    {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

static bool has_effect(uint32_t code, enum base_visible mode)
{
    if (code == '\n' || code == '\t') {
        return mode == BASE_VISIBLE_TEXT;
    }
    if (code >= 0x20 && code < 0x7f) {
        return false;
    }
    for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
        if (code >= unseen[i][0] && code <= unseen[i][1]) {
            return true;
        }
    }
    return false;
}

// How many bytes a character takes that begins with `first`; 0: none does.
static size_t length_of(uint8_t first)
{
    return first < 0x80                     ? 1
           : first >= 0xc2 && first <= 0xdf ? 2
           : first >= 0xe0 && first <= 0xef ? 3
           : first >= 0xf0 && first <= 0xf4 ? 4
                                            : 0;
}

// The second byte decides about overlong forms, surrogates and what lies past U+10FFFF (RFC 3629).
static bool second_fits(uint8_t first, uint8_t second)
{
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most;
}

// The character at the start of `bytes` and how many of them it takes; 0 with *out_cut told: no
// character, or the bytes end within one.
static size_t decode(const uint8_t *bytes, size_t size, uint32_t *out_char, bool *out_cut)
{
    base_assert(size > 0);
    size_t length = length_of(bytes[0]);
    uint32_t c = length == 1 ? bytes[0] : bytes[0] & (0xffu >> (length + 1));
    *out_cut = false;
    for (size_t i = 1; i < length; i++) {
        if (i == size) {
            *out_cut = true;
            return 0;
        }
        bool fits = i == 1 ? second_fits(bytes[0], bytes[1]) : (bytes[i] & 0xc0) == 0x80;
        if (!fits) {
            return 0;
        }
        c = c << 6 | (bytes[i] & 0x3fu);
    }
    *out_char = c;
    return length;
}

static size_t write_hex(char kind, uint32_t value, size_t digits, char *out)
{
    static const char hex[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = kind;
    for (size_t i = 0; i < digits; i++) {
        out[2 + i] = hex[value >> (4 * (digits - 1 - i)) & 15];
    }
    return 2 + digits;
}

// As JSON writes it: past U+FFFF as a pair of surrogates.
static size_t write_char(uint32_t code, char out[BASE_VISIBLE_MAX])
{
    if (code < 0x10000) {
        return write_hex('u', code, 4, out);
    }
    size_t size = write_hex('u', 0xd800 + ((code - 0x10000) >> 10), 4, out);
    return size + write_hex('u', 0xdc00 + (code & 0x3ff), 4, out + size);
}

size_t base_visible_step(const uint8_t *bytes, size_t size, enum base_visible mode,
                         char out[BASE_VISIBLE_MAX], size_t *out_size)
{
    uint32_t c = 0;
    bool cut = false;
    size_t length = decode(bytes, size, &c, &cut);
    if (cut) {
        return 0;
    }
    if (length == 0) {
        *out_size = write_hex('x', bytes[0], 2, out);
        return 1;
    }
    if (has_effect(c, mode)) {
        *out_size = write_char(c, out);
        return length;
    }
    memcpy(out, bytes, length);
    *out_size = length;
    return length;
}

size_t base_visible_text(struct base_str text, char *out, size_t capacity)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    char shown[BASE_VISIBLE_MAX];
    base_assert(capacity > 0); // room for the NUL
    size_t written = 0;
    for (size_t at = 0; at < text.size;) {
        size_t size = 0;
        size_t taken =
            base_visible_step(bytes + at, text.size - at, BASE_VISIBLE_TEXT, shown, &size);
        if (taken == 0) { // the text ends within a character
            size = write_hex('x', bytes[at], 2, shown);
            taken = 1;
        }
        if (written + size >= capacity) {
            break;
        }
        memcpy(out + written, shown, size);
        written += size;
        at += taken;
    }
    out[written] = '\0';
    return written;
}

bool base_visible_is(struct base_str text)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    for (size_t at = 0; at < text.size;) {
        uint32_t c = 0;
        bool cut = false;
        size_t length = decode(bytes + at, text.size - at, &c, &cut);
        if (length == 0 || has_effect(c, BASE_VISIBLE_TEXT)) {
            return false;
        }
        at += length;
    }
    return true;
}
