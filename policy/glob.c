// Globs: see glob.h. Called by the targeting language, at compile time to check a pattern and for
// each evaluation of `~`.
//
// A star is met by trying the shortest run first; when the rest does not fit, only the latest star
// takes one more character, since whatever an earlier star could take, the later one can as well.
#include "policy/glob.h"

#include "policy/stat/assert.h"

#include <stddef.h>

#define NO_STAR UINT32_MAX

// The character at *at, which moves behind it. Bytes that are no UTF-8 are characters of their own,
// beyond Unicode.
static uint32_t next_char(const char *text, uint32_t size, uint32_t *at)
{
    pol_assert(*at < size);
    unsigned char first = (unsigned char)text[(*at)++];
    if (first < 0x80) {
        return first;
    }
    uint32_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    uint32_t value = first & (0x3fu >> more);
    if (first < 0xc0 || first >= 0xf8 || more > size - *at) {
        return 0x110000u + first;
    }
    for (uint32_t i = 0; i < more; i++) {
        unsigned char next = (unsigned char)text[*at + i];
        if ((next & 0xc0) != 0x80) {
            return 0x110000u + first;
        }
        value = value << 6 | (next & 0x3fu);
    }
    *at += more;
    return value;
}

// One item of a class: a character or a range, from *at on.
static void next_item(const char *pattern, uint32_t size, uint32_t *at, uint32_t *low,
                      uint32_t *high)
{
    *low = next_char(pattern, size, at);
    *high = *low;
    if (*at + 1 < size && pattern[*at] == '-' && pattern[*at + 1] != ']') {
        (*at)++;
        *high = next_char(pattern, size, at);
    }
}

// Is `c` in the class whose '[' is before *at? *at moves behind its ']'.
static bool class_has(const char *pattern, uint32_t size, uint32_t *at, uint32_t c)
{
    pol_assert(*at > 0 && pattern[*at - 1] == '[');
    bool negated = *at < size && pattern[*at] == '!';
    *at += negated;
    bool found = false;
    bool first = true;
    while (*at < size && (first || pattern[*at] != ']')) {
        uint32_t low;
        uint32_t high;
        next_item(pattern, size, at, &low, &high);
        found = found || (c >= low && c <= high);
        first = false;
    }
    *at += *at < size;
    return found != negated;
}

static bool check_class(const char *pattern, uint32_t size, uint32_t *at, const char **out_message)
{
    pol_assert(*at > 0 && pattern[*at - 1] == '[');
    uint32_t start = *at - 1;
    *at += *at < size && pattern[*at] == '!';
    bool first = true;
    while (*at < size && (first || pattern[*at] != ']')) {
        uint32_t item = *at;
        uint32_t low;
        uint32_t high;
        next_item(pattern, size, at, &low, &high);
        if (low > high) {
            *at = item;
            *out_message = "the ends of a class are in the wrong order";
            return false;
        }
        first = false;
    }
    if (*at == size) {
        *at = start;
        *out_message = "a class is never closed: ']' is missing";
        return false;
    }
    (*at)++;
    return true;
}

bool pol_glob_check(const char *pattern, uint32_t size, uint32_t *out_at, const char **out_message)
{
    *out_at = 0;
    if (size > POL_GLOB_BYTES_MAX) {
        *out_message = "a glob has at most 256 bytes";
        return false;
    }
    for (uint32_t at = 0; at < size;) {
        if (next_char(pattern, size, &at) == '[' && !check_class(pattern, size, &at, out_message)) {
            *out_at = at;
            return false;
        }
    }
    return true;
}

// Does the element of the pattern at *at, which is no star, take the character?
static bool takes(const char *pattern, uint32_t size, uint32_t *at, uint32_t c)
{
    uint32_t element = next_char(pattern, size, at);
    if (element == '[') {
        return class_has(pattern, size, at, c);
    }
    return element == '?' || element == c;
}

bool pol_glob_match(const char *pattern, uint32_t pattern_size, const char *text,
                    uint32_t text_size)
{
    uint32_t p = 0;
    uint32_t t = 0;
    uint32_t star = NO_STAR; // behind the latest star of the pattern
    uint32_t star_text = 0;  // where the text behind its run begins
    while (t < text_size) {
        if (p < pattern_size && pattern[p] == '*') {
            star = ++p;
            star_text = t;
            continue;
        }
        uint32_t next_p = p;
        uint32_t next_t = t;
        if (p < pattern_size &&
            takes(pattern, pattern_size, &next_p, next_char(text, text_size, &next_t))) {
            p = next_p;
            t = next_t;
            continue;
        }
        if (star == NO_STAR) {
            return false;
        }
        pol_assert(star_text <= t); // so there is a character for the star to take
        (void)next_char(text, text_size, &star_text);
        p = star;
        t = star_text;
    }
    while (p < pattern_size && pattern[p] == '*') {
        p++;
    }
    return p == pattern_size;
}
