// Semantic versions: parsing and precedence (semver.org 2.0.0, sections 9 to 11).
//
// Called when targets are evaluated, once per cohort and condition. Nothing is kept but a borrowed
// pointer to the pre-release text. Pre-release numbers may have any length: they are compared as
// text, not converted.
#include "policy/semver.h"

#include "policy/stat/assert.h"

#include <stddef.h>
#include <string.h>

#define NUMBERS_MAX 4u

struct scanner {
    const char *text;
    uint32_t size;
    uint32_t at;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_identifier_char(char c)
{
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-';
}

static bool next_is(const struct scanner *scanner, char c)
{
    return scanner->at < scanner->size && scanner->text[scanner->at] == c;
}

static bool scan_number(struct scanner *scanner, uint64_t *out)
{
    uint32_t start = scanner->at;
    uint64_t value = 0;
    while (scanner->at < scanner->size && is_digit(scanner->text[scanner->at])) {
        unsigned digit = (unsigned)(scanner->text[scanner->at] - '0');
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
        scanner->at++;
    }
    *out = value;
    return scanner->at > start;
}

// Dot-separated identifiers up to '+' or the end. `strict` also refuses numbers with leading zeros,
// which pre-releases may not have and build metadata may.
static bool scan_identifiers(struct scanner *scanner, bool strict)
{
    for (;;) {
        uint32_t start = scanner->at;
        bool numeric = true;
        while (scanner->at < scanner->size && is_identifier_char(scanner->text[scanner->at])) {
            numeric &= is_digit(scanner->text[scanner->at]);
            scanner->at++;
        }
        uint32_t size = scanner->at - start;
        if (size == 0 || (strict && numeric && size > 1 && scanner->text[start] == '0')) {
            return false;
        }
        if (!next_is(scanner, '.')) {
            return true;
        }
        scanner->at++;
    }
}

static bool scan_version(struct scanner *scanner, struct pol_semver *version)
{
    if (next_is(scanner, 'v')) {
        scanner->at++;
    }
    for (uint32_t i = 0; i < NUMBERS_MAX; i++) {
        if (!scan_number(scanner, &version->numbers[i])) {
            return false;
        }
        if (!next_is(scanner, '.')) {
            break;
        }
        if (i == NUMBERS_MAX - 1) {
            return false;
        }
        scanner->at++;
    }
    if (next_is(scanner, '-')) {
        scanner->at++;
        uint32_t start = scanner->at;
        if (!scan_identifiers(scanner, true)) {
            return false;
        }
        version->pre = scanner->text + start;
        version->pre_size = scanner->at - start;
    }
    if (next_is(scanner, '+')) {
        scanner->at++;
        if (!scan_identifiers(scanner, false)) {
            return false;
        }
    }
    pol_assert(scanner->at <= scanner->size);
    return scanner->at == scanner->size;
}

bool pol_semver_parse(const char *text, uint32_t size, struct pol_semver *out)
{
    if (text == NULL || size == 0) {
        return false;
    }
    struct scanner scanner = {.text = text, .size = size, .at = 0};
    struct pol_semver version = {.numbers = {0, 0, 0, 0}, .pre = NULL, .pre_size = 0};
    if (!scan_version(&scanner, &version)) {
        return false;
    }
    *out = version;
    return true;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

// Takes the identifier at *at, and moves *at behind it and its dot. Size 0: there was none left.
static struct scanner next_identifier(const char *text, uint32_t size, uint32_t *at)
{
    pol_assert(*at <= size);
    struct scanner identifier = {.text = text + *at, .size = 0, .at = 0};
    while (*at < size && text[*at] != '.') {
        identifier.size++;
        (*at)++;
    }
    if (*at < size) {
        (*at)++;
    }
    return identifier;
}

static bool all_digits(struct scanner identifier)
{
    for (uint32_t i = 0; i < identifier.size; i++) {
        if (!is_digit(identifier.text[i])) {
            return false;
        }
    }
    return true;
}

static int compare_identifiers(struct scanner a, struct scanner b)
{
    bool a_number = all_digits(a);
    bool b_number = all_digits(b);
    if (a_number != b_number) {
        return a_number ? -1 : 1;
    }
    // Numbers have no leading zeros here, so the longer one is the larger.
    if (a_number && a.size != b.size) {
        return compare_u64(a.size, b.size);
    }
    uint32_t common = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.text, b.text, common);
    if (order != 0) {
        return order < 0 ? -1 : 1;
    }
    return compare_u64(a.size, b.size);
}

static int compare_pre(const struct pol_semver *a, const struct pol_semver *b)
{
    if (a->pre == NULL || b->pre == NULL) {
        // A version without pre-release is the later one.
        return (a->pre == NULL) - (b->pre == NULL);
    }
    uint32_t a_at = 0;
    uint32_t b_at = 0;
    while (a_at < a->pre_size && b_at < b->pre_size) {
        struct scanner left = next_identifier(a->pre, a->pre_size, &a_at);
        struct scanner right = next_identifier(b->pre, b->pre_size, &b_at);
        int order = compare_identifiers(left, right);
        if (order != 0) {
            return order;
        }
    }
    pol_assert(a_at == a->pre_size || b_at == b->pre_size);
    // All shared identifiers are equal: more of them is later.
    return (a_at < a->pre_size) - (b_at < b->pre_size);
}

int pol_semver_compare(const struct pol_semver *a, const struct pol_semver *b)
{
    for (uint32_t i = 0; i < NUMBERS_MAX; i++) {
        int order = compare_u64(a->numbers[i], b->numbers[i]);
        if (order != 0) {
            return order;
        }
    }
    return compare_pre(a, b);
}
