// The texts results are: a check of their syntax with a stack of bits (one a level: object or
// list), steps from value to value, and numbers. Called by result_compare.c for shadows and by
// posix_child_parse.c for what a task's process sends; pure, any thread. The steps rely on the
// check: they are called on texts alone that dev_json_ok has passed, so they look for ends and not
// for errors.
#include "core/run/result_syntax.h"

#include <float.h>
#include <string.h>

#define DEPTH_MAX      1024
#define DIGITS_MAX     18 // of a whole number that is exact
#define EXPONENT_LIMIT 100000
#define POWERS         22 // of ten, exact in a double

static char char_at(struct base_str text, size_t at)
{
    return at < text.size ? text.data[at] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t dev_json_space_end(struct base_str text, size_t at)
{
    while (at < text.size && (text.data[at] == ' ' || text.data[at] == '\t' ||
                              text.data[at] == '\n' || text.data[at] == '\r')) {
        at++;
    }
    return at;
}

// ---- The check: each of these gives the end of what begins at `at`, or 0

static size_t string_end(struct base_str text, size_t at)
{
    for (size_t i = at + 1; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"') {
            return i + 1;
        }
        if (c < 0x20) {
            return 0;
        }
        if (c != '\\') {
            continue;
        }
        char escaped = char_at(text, ++i);
        if (escaped == 'u') {
            for (uint32_t k = 0; k < 4; k++) {
                char digit = char_at(text, ++i);
                if (!is_digit(digit) && !(digit >= 'a' && digit <= 'f') &&
                    !(digit >= 'A' && digit <= 'F')) {
                    return 0;
                }
            }
        } else if (escaped == '\0' || strchr("\"\\/bfnrt", escaped) == NULL) {
            return 0;
        }
    }
    return 0;
}

static size_t digits_end(struct base_str text, size_t at)
{
    size_t end = at;
    while (is_digit(char_at(text, end))) {
        end++;
    }
    return end > at ? end : 0;
}

static size_t number_end(struct base_str text, size_t at)
{
    at += char_at(text, at) == '-' ? 1 : 0;
    size_t end = char_at(text, at) == '0' ? at + 1 : digits_end(text, at);
    if (end > 0 && char_at(text, end) == '.') {
        end = digits_end(text, end + 1);
    }
    if (end > 0 && (char_at(text, end) == 'e' || char_at(text, end) == 'E')) {
        end++;
        end += char_at(text, end) == '+' || char_at(text, end) == '-' ? 1 : 0;
        end = digits_end(text, end);
    }
    return end;
}

static size_t word_end(struct base_str text, size_t at)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t size = strlen(words[i]);
        if (text.size - at >= size && memcmp(text.data + at, words[i], size) == 0) {
            return at + size;
        }
    }
    return 0;
}

static size_t scalar_end(struct base_str text, size_t at)
{
    char c = char_at(text, at);
    return c == '"'                  ? string_end(text, at)
           : c == '-' || is_digit(c) ? number_end(text, at)
           : at < text.size          ? word_end(text, at)
                                     : 0;
}

struct check {
    struct base_str text;
    size_t at;
    uint64_t objects[DEPTH_MAX / 64]; // bit n: level n is an object
    uint32_t depth;
    uint32_t depth_max;
};

// A member's name and its colon.
static bool name_take(struct check *check)
{
    check->at = dev_json_space_end(check->text, check->at);
    size_t end = char_at(check->text, check->at) == '"' ? string_end(check->text, check->at) : 0;
    if (end == 0) {
        return false;
    }
    end = dev_json_space_end(check->text, end);
    if (char_at(check->text, end) != ':') {
        return false;
    }
    check->at = end + 1;
    return true;
}

// Opens a level; an empty one is closed at once. *out_done: a value is complete.
static bool level_open(struct check *check, bool *out_done)
{
    bool object = check->text.data[check->at] == '{';
    size_t next = dev_json_space_end(check->text, check->at + 1);
    if (check->depth == check->depth_max || check->depth == DEPTH_MAX) {
        return false;
    }
    *out_done = char_at(check->text, next) == (object ? '}' : ']');
    if (*out_done) {
        check->at = next + 1;
        return true;
    }
    uint64_t *bits = &check->objects[check->depth / 64];
    uint64_t bit = UINT64_C(1) << check->depth++ % 64;
    *bits = object ? *bits | bit : *bits & ~bit;
    check->at++;
    return !object || name_take(check);
}

// Behind a value: closes the levels that end here. False: something else comes.
static bool levels_close(struct check *check)
{
    while (check->depth > 0) {
        uint32_t level = check->depth - 1;
        bool object = (check->objects[level / 64] >> level % 64 & 1) != 0;
        check->at = dev_json_space_end(check->text, check->at);
        char c = char_at(check->text, check->at);
        if (c != ',' && c != (object ? '}' : ']')) {
            return false;
        }
        check->at++;
        if (c == ',') {
            return !object || name_take(check);
        }
        check->depth--;
    }
    return true;
}

bool dev_json_ok(struct base_str text, uint32_t depth_max)
{
    struct check check = {.text = text, .depth_max = depth_max};
    do { // each round takes a value, or opens one
        check.at = dev_json_space_end(text, check.at);
        char c = char_at(text, check.at);
        bool done = true;
        if (c == '{' || c == '[') {
            if (!level_open(&check, &done)) {
                return false;
            }
        } else {
            size_t end = scalar_end(text, check.at);
            if (end == 0) {
                return false;
            }
            check.at = end;
        }
        if (done && !levels_close(&check)) {
            return false;
        }
        if (done && check.depth == 0) {
            return dev_json_space_end(text, check.at) == text.size;
        }
    } while (check.at < text.size);
    return false;
}

// ---- Steps

size_t dev_json_token_end(struct base_str text, size_t at)
{
    size_t end = at + 1;
    if (text.data[at] == '"') {
        while (text.data[end] != '"') {
            end += text.data[end] == '\\' ? 2 : 1;
        }
        return end + 1;
    }
    while (end < text.size && strchr(" \t\n\r,:]}", text.data[end]) == NULL) {
        end++;
    }
    return end;
}

size_t dev_json_value_end(struct base_str text, size_t at)
{
    uint32_t depth = 0;
    do {
        char c = text.data[at];
        if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            depth--;
            at++;
        } else if (c == '"' || depth == 0) {
            at = dev_json_token_end(text, at);
        } else {
            at++;
        }
    } while (depth > 0);
    return at;
}

// ---- Numbers

struct number {
    double value;
    int64_t whole; // exact, when `exact`
    bool exact;    // a whole number, written without fraction and exponent
};

static double scale(double value, int64_t exponent)
{
    static const double powers[POWERS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    while (exponent > 0 && value > 0 && value <= DBL_MAX) {
        int64_t step = exponent < POWERS ? exponent : POWERS;
        value *= powers[step];
        exponent -= step;
    }
    while (exponent < 0 && value > 0) {
        int64_t step = -exponent < POWERS ? -exponent : POWERS;
        value /= powers[step];
        exponent += step;
    }
    return value;
}

// Digits behind the 18th significant one count as zeros: they are far below what a double holds.
static struct number number_of(struct base_str text)
{
    uint64_t digits = 0;
    uint32_t significant = 0;
    int64_t exponent = 0;
    bool fraction = false;
    bool negative = text.data[0] == '-';
    size_t at = negative ? 1 : 0;
    for (; at < text.size && text.data[at] != 'e' && text.data[at] != 'E'; at++) {
        if (text.data[at] == '.') {
            fraction = true;
            continue;
        }
        bool counts = significant < DIGITS_MAX;
        digits = counts ? digits * 10 + (uint64_t)(text.data[at] - '0') : digits;
        significant += counts && digits > 0 ? 1 : 0;
        exponent += (counts ? 0 : 1) - (fraction ? 1 : 0);
    }
    bool exact = !fraction && at == text.size && exponent == 0;
    if (at < text.size) {
        bool down = text.data[++at] == '-';
        int64_t written = 0;
        for (at += down || text.data[at] == '+' ? 1 : 0; at < text.size; at++) {
            written = written < EXPONENT_LIMIT ? written * 10 + (text.data[at] - '0') : written;
        }
        exponent += down ? -written : written;
    }
    double value = scale((double)digits, exponent);
    return (struct number){
        .value = negative ? -value : value,
        .whole = negative ? -(int64_t)digits : (int64_t)digits,
        .exact = exact,
    };
}

static double magnitude(double value)
{
    return value < 0 ? -value : value;
}

bool dev_number_within(struct base_str a, struct base_str b, double absolute, double relative)
{
    struct number one = number_of(a);
    struct number other = number_of(b);
    double larger = magnitude(one.value);
    larger = magnitude(other.value) > larger ? magnitude(other.value) : larger;
    if (larger > DBL_MAX) {
        return false;
    }
    double apart = magnitude(one.value - other.value);
    if (one.exact && other.exact) {
        apart = magnitude((double)(one.whole - other.whole));
    }
    double bound = relative * larger;
    return apart <= (bound > absolute ? bound : absolute);
}
