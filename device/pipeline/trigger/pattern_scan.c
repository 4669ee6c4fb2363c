// The words of a pattern's text: white space, words, numbers, quotes, and literals such as
// click(home, "buy", price > 10). Called by pattern.c alone, through pattern_parse.h; any thread. A
// literal is all in here, its arguments included, since they are nothing but words. Texts are
// borrowed from the pattern's own, so nothing is copied or allocated; the first fault ends the scan
// with its place.
#include "pipeline/trigger/pattern_parse.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum base_status pattern_fail(const struct pattern_scan *scan, size_t at, enum base_status status,
                              const char *format, ...)
{
    base_assert(status != BASE_OK);
    if (scan->error == NULL) {
        return status;
    }
    struct base_error *error = scan->error;
    *error = (struct base_error){.status = status, .line = 1, .column = 1};
    for (size_t i = 0; i < at && i < scan->text.size; i++) {
        unsigned char byte = (unsigned char)scan->text.data[i];
        if (byte == '\n') {
            error->line++;
            error->column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            error->column++;
        }
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}

static bool is_word_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-' ||
           byte == '/' || byte == ':';
}

void pattern_skip_space(struct pattern_scan *scan)
{
    while (scan->at < scan->text.size && scan->text.data[scan->at] != '\0' &&
           strchr(" \t\r\n", scan->text.data[scan->at]) != NULL) {
        scan->at++;
    }
}

bool pattern_at_end(struct pattern_scan *scan)
{
    pattern_skip_space(scan);
    return scan->at == scan->text.size;
}

bool pattern_take(struct pattern_scan *scan, struct base_str sign)
{
    struct base_str rest = {scan->text.data + scan->at, scan->text.size - scan->at};
    if (!base_str_starts(rest, sign)) {
        return false;
    }
    scan->at += sign.size;
    return true;
}

bool pattern_peek_word(const struct pattern_scan *scan, struct base_str *out)
{
    base_assert(scan->at <= scan->text.size);
    size_t end = scan->at;
    while (end < scan->text.size && is_word_byte(scan->text.data[end])) {
        end++;
    }
    *out = (struct base_str){scan->text.data + scan->at, end - scan->at};
    return end > scan->at;
}

bool pattern_word(struct pattern_scan *scan, struct base_str *out)
{
    if (!pattern_peek_word(scan, out)) {
        return false;
    }
    scan->at += out->size;
    return true;
}

enum base_status pattern_number(struct pattern_scan *scan, uint32_t max, const char *what,
                                uint32_t *out)
{
    size_t start = scan->at;
    uint64_t value = 0;
    while (scan->at < scan->text.size && scan->text.data[scan->at] >= '0' &&
           scan->text.data[scan->at] <= '9') {
        value = value * 10 + (uint64_t)(scan->text.data[scan->at++] - '0');
        if (value > max) {
            return pattern_fail(scan, start, BASE_ERR_TOO_LARGE, "%s is above %u", what, max);
        }
    }
    if (scan->at == start) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "expected a number: %s", what);
    }
    *out = (uint32_t)value;
    return BASE_OK;
}

enum base_status pattern_quoted(struct pattern_scan *scan, struct base_str *out)
{
    base_assert(scan->at < scan->text.size);
    size_t start = scan->at;
    char quote = scan->text.data[scan->at++];
    while (scan->at < scan->text.size && scan->text.data[scan->at] != quote) {
        if ((unsigned char)scan->text.data[scan->at] < 0x20) {
            return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "control character in a text");
        }
        scan->at++;
    }
    if (scan->at == scan->text.size) {
        return pattern_fail(scan, start, BASE_ERR_INVALID, "text without its closing quote");
    }
    *out = (struct base_str){scan->text.data + start + 1, scan->at - start - 1};
    scan->at++;
    return BASE_OK;
}

static bool next_is_quote(const struct pattern_scan *scan)
{
    return scan->at < scan->text.size &&
           (scan->text.data[scan->at] == '"' || scan->text.data[scan->at] == '\'');
}

// [a-z][a-z0-9_.]*, as names of attributes and custom events are.
static bool is_name(struct base_str text)
{
    if (text.size == 0 || text.size > DEV_EVENT_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        bool letter = byte >= 'a' && byte <= 'z';
        bool rest = (byte >= '0' && byte <= '9') || byte == '_' || byte == '.';
        if (!letter && (i == 0 || !rest)) {
            return false;
        }
    }
    return true;
}

// A decimal number: at most 15 digits, so that digits / 10^scale is the nearest double.
static enum base_status number_value(struct pattern_scan *scan, struct dev_pattern_test *test)
{
    size_t start = scan->at;
    bool negative = pattern_take(scan, BASE_STR("-"));
    unsigned digits = 0;
    bool point = false;
    test->digits = 0;
    test->scale = 0;
    for (; scan->at < scan->text.size; scan->at++) {
        char byte = scan->text.data[scan->at];
        if (byte == '.' && !point && digits > 0) {
            point = true;
            continue;
        }
        if (byte < '0' || byte > '9') {
            break;
        }
        if (++digits > DEV_PATTERN_DIGITS_MAX) {
            return pattern_fail(scan, start, BASE_ERR_TOO_LARGE, "a number has over %d digits",
                                DEV_PATTERN_DIGITS_MAX);
        }
        test->digits = test->digits * 10 + (byte - '0');
        test->scale = (uint8_t)(test->scale + point);
    }
    if (digits == 0 || (point && test->scale == 0)) {
        return pattern_fail(scan, start, BASE_ERR_INVALID,
                            "expected a number, text or truth value");
    }
    base_assert(test->scale < digits); // a digit stands before the point
    while (test->scale > 0 && test->digits % 10 == 0) {
        test->digits /= 10;
        test->scale--;
    }
    test->digits = negative ? -test->digits : test->digits;
    test->type = test->scale == 0 ? DEV_ATTR_INTEGER : DEV_ATTR_REAL;
    return BASE_OK;
}

static enum base_status test_value(struct pattern_scan *scan, struct dev_pattern_test *test)
{
    size_t start = scan->at;
    if (next_is_quote(scan)) {
        test->type = DEV_ATTR_STRING;
        return pattern_quoted(scan, &test->text);
    }
    struct base_str word;
    bool has_word = pattern_peek_word(scan, &word);
    bool yes = has_word && base_str_equal(word, BASE_STR("true"));
    if (yes || (has_word && base_str_equal(word, BASE_STR("false")))) {
        scan->at += word.size;
        test->type = DEV_ATTR_BOOLEAN;
        test->digits = yes;
        if (test->op != DEV_PATTERN_EQ && test->op != DEV_PATTERN_NE) {
            return pattern_fail(scan, start, BASE_ERR_INVALID, "truth values have no order");
        }
        return BASE_OK;
    }
    return number_value(scan, test);
}

static bool take_op(struct pattern_scan *scan, uint8_t *out)
{
    static const struct base_str signs[DEV_PATTERN_OP_COUNT] = {
        [DEV_PATTERN_EQ] = {"==", 2}, [DEV_PATTERN_NE] = {"!=", 2}, [DEV_PATTERN_LE] = {"<=", 2},
        [DEV_PATTERN_LT] = {"<", 1},  [DEV_PATTERN_GE] = {">=", 2}, [DEV_PATTERN_GT] = {">", 1},
    };
    static const uint8_t order[] = {DEV_PATTERN_EQ, DEV_PATTERN_NE, DEV_PATTERN_LE,
                                    DEV_PATTERN_GE, DEV_PATTERN_LT, DEV_PATTERN_GT};
    for (size_t i = 0; i < sizeof order; i++) {
        if (pattern_take(scan, signs[order[i]])) {
            *out = order[i];
            return true;
        }
    }
    return false;
}

static enum base_status test_rest(struct pattern_scan *scan, struct dev_pattern *out,
                                  struct dev_pattern_literal *literal, struct base_str attr,
                                  uint8_t op)
{
    base_assert(attr.data >= scan->text.data && attr.data <= scan->text.data + scan->at);
    size_t start = (size_t)(attr.data - scan->text.data);
    if (!is_name(attr)) {
        return pattern_fail(scan, start, BASE_ERR_INVALID,
                            "an attribute's name is [a-z][a-z0-9_.]*, at most %d bytes",
                            DEV_EVENT_NAME_MAX);
    }
    if (out->test_count == DEV_PATTERN_TESTS_MAX) {
        return pattern_fail(scan, start, BASE_ERR_TOO_LARGE, "over %d tests in one pattern",
                            DEV_PATTERN_TESTS_MAX);
    }
    struct dev_pattern_test *test = &out->tests[out->test_count];
    *test = (struct dev_pattern_test){.attr = attr, .op = op};
    pattern_skip_space(scan);
    BASE_TRY(test_value(scan, test));
    out->test_count++;
    literal->test_count++;
    return BASE_OK;
}

// A page or an item among a literal's arguments.
struct field {
    size_t at; // where it begins in the text
    struct base_str value;
    bool any; // `*`: there is no value
    bool is_item;
};

// page=..., item=..., or the next of the two by position. `given` has bit 1 of a page, 2 of an
// item.
static enum base_status set_field(const struct pattern_scan *scan, const struct field *field,
                                  unsigned *given, struct dev_pattern_literal *literal)
{
    bool is_item = field->is_item;
    struct base_str value = field->value;
    unsigned bit = is_item ? 2 : 1;
    const char *name = is_item ? "item" : "page";
    base_assert(!field->any || value.size == 0);
    if ((*given & bit) != 0) {
        return pattern_fail(scan, field->at, BASE_ERR_INVALID, "the %s is given twice", name);
    }
    *given |= bit;
    if (field->any) {
        literal->any_item = literal->any_item || is_item;
        return BASE_OK;
    }
    size_t max = is_item ? DEV_EVENT_ITEM_MAX : DEV_EVENT_PAGE_MAX;
    if (value.size == 0 || value.size > max) {
        return pattern_fail(scan, field->at,
                            value.size == 0 ? BASE_ERR_INVALID : BASE_ERR_TOO_LARGE,
                            "a %s has 1 to %zu bytes", name, max);
    }
    *(is_item ? &literal->item : &literal->page) = value;
    return BASE_OK;
}

static enum base_status field_value(struct pattern_scan *scan, struct field *out)
{
    pattern_skip_space(scan);
    out->value = (struct base_str){0};
    out->any = pattern_take(scan, BASE_STR("*"));
    if (out->any) {
        return BASE_OK;
    }
    if (next_is_quote(scan)) {
        return pattern_quoted(scan, &out->value);
    }
    if (!pattern_word(scan, &out->value)) {
        return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "expected a text or *");
    }
    return BASE_OK;
}

static enum base_status argument(struct pattern_scan *scan, struct dev_pattern *out,
                                 struct dev_pattern_literal *literal, unsigned *given)
{
    struct field field = {.at = scan->at, .is_item = (*given & 1) != 0};
    bool quoted = next_is_quote(scan);
    BASE_TRY(field_value(scan, &field));
    pattern_skip_space(scan);
    bool is_word = !field.any && !quoted;
    uint8_t op;
    if (is_word && take_op(scan, &op)) {
        return test_rest(scan, out, literal, field.value, op);
    }
    if (is_word && pattern_take(scan, BASE_STR("="))) {
        field.is_item = base_str_equal(field.value, BASE_STR("item"));
        if (!field.is_item && !base_str_equal(field.value, BASE_STR("page"))) {
            return pattern_fail(scan, field.at, BASE_ERR_INVALID,
                                "expected page= or item=; a test of an attribute has ==");
        }
        BASE_TRY(field_value(scan, &field));
    }
    return set_field(scan, &field, given, literal);
}

static enum base_status arguments(struct pattern_scan *scan, struct dev_pattern *out,
                                  struct dev_pattern_literal *literal)
{
    unsigned given = 0;
    pattern_skip_space(scan);
    if (pattern_take(scan, BASE_STR(")"))) {
        return BASE_OK;
    }
    for (;;) {
        pattern_skip_space(scan);
        BASE_TRY(argument(scan, out, literal, &given));
        pattern_skip_space(scan);
        if (pattern_take(scan, BASE_STR(")"))) {
            return BASE_OK;
        }
        if (!pattern_take(scan, BASE_STR(","))) {
            return pattern_fail(scan, scan->at, BASE_ERR_INVALID, "expected , or )");
        }
    }
}

static enum base_status kind_of(struct pattern_scan *scan, struct dev_pattern_literal *literal)
{
    base_assert(literal->kind == 0 && literal->name.size == 0); // as `any` leaves it
    size_t start = scan->at;
    struct base_str word = {0};
    (void)pattern_word(scan, &word);
    if (base_str_equal(word, BASE_STR("any"))) {
        return BASE_OK;
    }
    struct base_str custom = BASE_STR("custom:");
    if (base_str_starts(word, custom)) {
        literal->kind = DEV_EVENT_CUSTOM;
        literal->name = (struct base_str){word.data + custom.size, word.size - custom.size};
        if (!is_name(literal->name)) {
            return pattern_fail(scan, start + custom.size, BASE_ERR_INVALID,
                                "a custom event's name is [a-z][a-z0-9_.]*, at most %d bytes",
                                DEV_EVENT_NAME_MAX);
        }
        return BASE_OK;
    }
    enum dev_event_kind kind;
    if (dev_event_kind_parse(word, &kind) != BASE_OK) {
        return pattern_fail(scan, start, BASE_ERR_INVALID,
                            "expected a step (enter, scroll, exposure, click, exit, custom, any, "
                            "?, *) or a clause");
    }
    literal->kind = (uint8_t)kind;
    return BASE_OK;
}

enum base_status pattern_literal(struct pattern_scan *scan, struct dev_pattern *out,
                                 struct dev_pattern_literal *literal)
{
    size_t start = scan->at;
    *literal = (struct dev_pattern_literal){.test_first = out->test_count};
    BASE_TRY(kind_of(scan, literal));
    pattern_skip_space(scan);
    if (pattern_take(scan, BASE_STR("("))) {
        BASE_TRY(arguments(scan, out, literal));
    }
    struct pattern_scan ahead = *scan;
    pattern_skip_space(&ahead);
    if (pattern_take(&ahead, BASE_STR("same"))) {
        size_t same = ahead.at - 4;
        pattern_skip_space(&ahead);
        if (!pattern_take(&ahead, BASE_STR("(item)"))) {
            return pattern_fail(scan, same, BASE_ERR_INVALID, "expected same(item)");
        }
        literal->marked = true;
        *scan = ahead;
    }
    if (literal->marked || literal->item.size > 0) {
        literal->any_item = false; // said already
    }
    if (literal->kind == 0 && literal->page.size == 0 && literal->item.size == 0 &&
        !literal->any_item && !literal->marked && literal->test_count == 0) {
        return pattern_fail(scan, start, BASE_ERR_INVALID,
                            "any() without a condition is every event: write ?");
    }
    base_assert(literal->test_first + literal->test_count == out->test_count);
    return BASE_OK;
}
