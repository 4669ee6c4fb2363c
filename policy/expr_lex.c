// The scanner of the targeting language. Called by the parser; nothing is kept.
//
// The one place that needs care is a number: "18..30" is two integers and a range, "1.2..1.4" two
// versions and a range, "9.2.1-beta..9.3" a version with a pre-release and a range. A dot belongs
// to a number only when a further part follows it.
#include "policy/expr_lex.h"

#include "policy/stat/assert.h"

#include <stddef.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_inner(char c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-';
}

// The character at `at`; NUL, which no token has, behind the end.
static char char_at(struct pol_text text, uint32_t at)
{
    return at < text.size ? text.data[at] : '\0';
}

static struct pol_token bad(uint32_t at, const char *message)
{
    return (struct pol_token){.kind = POL_TOKEN_BAD, .start = at, .end = at, .message = message};
}

static bool word_is(struct pol_text text, const struct pol_token *token, const char *word)
{
    uint32_t size = token->end - token->start;
    return size == strlen(word) && memcmp(text.data + token->start, word, size) == 0;
}

static struct pol_token scan_name(struct pol_text text, uint32_t at)
{
    struct pol_token token = {.kind = POL_TOKEN_NAME, .start = at, .end = at};
    while (is_inner(char_at(text, token.end))) {
        token.end++;
    }
    pol_assert(token.end > at); // its first letter was seen
    char last = text.data[token.end - 1];
    if (last == '.' || last == '-') {
        return bad(token.end - 1, "a name does not end with '.' or '-'");
    }
    if (token.end - token.start > POL_EXPR_NAME_MAX) {
        return bad(at, "a name has at most 32 characters");
    }
    if (word_is(text, &token, "true")) {
        token.kind = POL_TOKEN_TRUE;
    } else if (word_is(text, &token, "false")) {
        token.kind = POL_TOKEN_FALSE;
    } else if (word_is(text, &token, "in")) {
        token.kind = POL_TOKEN_IN;
    }
    return token;
}

// Dot-separated identifiers of a pre-release or build: a dot is theirs when one follows it.
static uint32_t skip_identifiers(struct pol_text text, uint32_t at)
{
    for (;;) {
        char c = char_at(text, at);
        char next = char_at(text, at + 1);
        bool dot = c == '.' && (is_letter(next) || is_digit(next) || next == '-');
        if (!is_letter(c) && !is_digit(c) && c != '-' && !dot) {
            return at;
        }
        at++;
    }
}

static bool read_integer(struct pol_text text, uint32_t from, uint32_t to, bool negative,
                         int64_t *out)
{
    int64_t value = 0;
    for (uint32_t at = from; at < to; at++) {
        int64_t digit = text.data[at] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static struct pol_token scan_version(struct pol_text text, uint32_t start, uint32_t end)
{
    struct pol_token token = {.kind = POL_TOKEN_VERSION, .start = start, .end = end};
    if (char_at(text, token.end) == '-') {
        token.end = skip_identifiers(text, token.end + 1);
    }
    if (char_at(text, token.end) == '+') {
        token.end = skip_identifiers(text, token.end + 1);
    }
    bool closed = !is_letter(char_at(text, token.end)) && char_at(text, token.end) != '_';
    if (!closed || !pol_semver_parse(text.data + start, token.end - start, &token.version)) {
        return bad(start, "a malformed version");
    }
    return token;
}

static struct pol_token scan_number(struct pol_text text, uint32_t at)
{
    pol_assert(is_digit(char_at(text, at)) || char_at(text, at) == '-');
    bool negative = text.data[at] == '-';
    uint32_t digits = at + negative;
    uint32_t end = digits;
    bool dotted = false;
    while (is_digit(char_at(text, end)) ||
           (end > digits && char_at(text, end) == '.' && is_digit(char_at(text, end + 1)))) {
        dotted = dotted || text.data[end] == '.';
        end++;
    }
    if (end == digits) {
        return bad(at, "a number is expected after '-'");
    }
    if (dotted) {
        return negative ? bad(at, "a version has no sign") : scan_version(text, at, end);
    }
    char next = char_at(text, end);
    if (is_letter(next) || next == '_' || next == '-' || next == '+') {
        return bad(at, "a malformed number");
    }
    struct pol_token token = {.kind = POL_TOKEN_INTEGER, .start = at, .end = end};
    if (!read_integer(text, digits, end, negative, &token.integer)) {
        return bad(at, "an integer beyond 64 bits");
    }
    return token;
}

static struct pol_token scan_string(struct pol_text text, uint32_t at)
{
    pol_assert(char_at(text, at) == '"');
    struct pol_token token = {.kind = POL_TOKEN_STRING, .start = at, .end = at + 1};
    for (;;) {
        char c = char_at(text, token.end);
        if (token.end >= text.size || c == '\n') {
            return bad(at, "a text is never closed: '\"' is missing");
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            return bad(token.end, "a control character in a text");
        }
        if (c == '"') {
            token.end++;
            return token;
        }
        if (c == '\\') {
            char next = char_at(text, token.end + 1);
            if (next != '"' && next != '\\' && next != 'n' && next != 't') {
                return bad(token.end, "unknown escape: \\\" \\\\ \\n \\t are known");
            }
            token.escaped = true;
            token.end++;
        }
        token.end++;
    }
}

struct symbol {
    char text[3];
    enum pol_token_kind kind;
};

static struct pol_token scan_symbol(struct pol_text text, uint32_t at)
{
    // The longer ones first.
    static const struct symbol symbols[] = {
        {"&&", POL_TOKEN_AND},      {"||", POL_TOKEN_OR},       {"==", POL_TOKEN_EQ},
        {"!=", POL_TOKEN_NE},       {"!~", POL_TOKEN_NOT_LIKE}, {"<=", POL_TOKEN_LE},
        {">=", POL_TOKEN_GE},       {"..", POL_TOKEN_RANGE},    {"<", POL_TOKEN_LT},
        {">", POL_TOKEN_GT},        {"~", POL_TOKEN_LIKE},      {"!", POL_TOKEN_NOT},
        {"(", POL_TOKEN_OPEN},      {")", POL_TOKEN_CLOSE},     {"[", POL_TOKEN_SET_OPEN},
        {"]", POL_TOKEN_SET_CLOSE}, {",", POL_TOKEN_COMMA},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        uint32_t size = symbols[i].text[1] == '\0' ? 1 : 2;
        if (at + size <= text.size && memcmp(text.data + at, symbols[i].text, size) == 0) {
            return (struct pol_token){.kind = symbols[i].kind, .start = at, .end = at + size};
        }
    }
    pol_assert(at < text.size);
    switch (text.data[at]) {
    case '&':
        return bad(at, "'&&' is meant: there is no '&'");
    case '|':
        return bad(at, "'||' is meant: there is no '|'");
    case '=':
        return bad(at, "'==' is meant: there is no '='");
    case '\'':
        return bad(at, "a text is written in double quotes");
    default:
        return bad(at, "a character that means nothing here");
    }
}

struct pol_token pol_expr_next(struct pol_text text, uint32_t at)
{
    char c = char_at(text, at);
    while (at < text.size && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
        c = char_at(text, ++at);
    }
    if (at >= text.size) {
        return (struct pol_token){.kind = POL_TOKEN_END, .start = text.size, .end = text.size};
    }
    if (is_letter(c)) {
        return scan_name(text, at);
    }
    if (is_digit(c) || c == '-') {
        return scan_number(text, at);
    }
    return c == '"' ? scan_string(text, at) : scan_symbol(text, at);
}

uint32_t pol_expr_unescape(struct pol_text text, const struct pol_token *token, char *out)
{
    pol_assert(token->kind == POL_TOKEN_STRING);
    pol_assert(token->end <= text.size);
    uint32_t size = 0;
    for (uint32_t at = token->start + 1; at + 1 < token->end; at++) {
        char c = text.data[at];
        if (c == '\\') {
            c = text.data[++at];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        out[size++] = c;
    }
    return size;
}
