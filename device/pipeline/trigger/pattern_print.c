// The normal form of a pattern as text, and what a test of an attribute says of an event. The text
// is made by timeouts.c, whose openings are patterns again; the test is asked for every event by
// trigger_match.c, for events of the past by trigger_embed.c, and by the simulator's walks. Numbers
// are compared as whole numbers where both are, else as doubles: a pattern's decimal has at most 15
// digits, so its double is the nearest one. Any thread, no state.
#include "pipeline/trigger/pattern.h"

#include "base/check.h"
#include "base/cursor.h"

#include <stdio.h>
#include <string.h>

static void put(struct base_writer *writer, const char *text)
{
    base_writer_bytes(writer, text, strlen(text));
}

static void put_number(struct base_writer *writer, const char *before, uint32_t value,
                       const char *after)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", value);
    put(writer, before);
    put(writer, text);
    put(writer, after);
}

static void put_quoted(struct base_writer *writer, struct base_str text)
{
    bool single = text.size > 0 && memchr(text.data, '"', text.size) != NULL;
    put(writer, single ? "'" : "\"");
    base_writer_bytes(writer, text.data, text.size);
    put(writer, single ? "'" : "\"");
}

static void put_value(struct base_writer *writer, const struct dev_pattern_test *test)
{
    if (test->type == DEV_ATTR_STRING) {
        put_quoted(writer, test->text);
        return;
    }
    if (test->type == DEV_ATTR_BOOLEAN) {
        put(writer, test->digits != 0 ? "true" : "false");
        return;
    }
    base_assert(test->scale <= DEV_PATTERN_DIGITS_MAX);
    char text[DEV_PATTERN_DIGITS_MAX + 8];
    uint64_t digits = (uint64_t)(test->digits < 0 ? -test->digits : test->digits);
    uint64_t unit = 1;
    for (unsigned i = 0; i < test->scale; i++) {
        unit *= 10;
    }
    (void)snprintf(text, sizeof text, "%s%llu", test->digits < 0 ? "-" : "",
                   (unsigned long long)(digits / unit));
    put(writer, text);
    if (test->scale > 0) {
        (void)snprintf(text, sizeof text, ".%0*llu", (int)test->scale,
                       (unsigned long long)(digits % unit));
        put(writer, text);
    }
}

static void put_literal(struct base_writer *writer, const struct dev_pattern *pattern,
                        const struct dev_pattern_literal *literal)
{
    static const char *const ops[DEV_PATTERN_OP_COUNT] = {"==", "!=", "<", "<=", ">", ">="};
    put(writer, literal->kind == 0 ? "any" : dev_event_kind_name(literal->kind));
    if (literal->name.size > 0) {
        put(writer, ":");
        base_writer_bytes(writer, literal->name.data, literal->name.size);
    }
    const char *before = "(";
    if (literal->page.size > 0) {
        put(writer, before);
        put_quoted(writer, literal->page);
        before = ", ";
    }
    if (literal->item.size > 0 || literal->any_item) {
        put(writer, before);
        put(writer, literal->any_item ? "item=*" : "item=");
        if (!literal->any_item) {
            put_quoted(writer, literal->item);
        }
        before = ", ";
    }
    for (unsigned i = 0; i < literal->test_count; i++) {
        const struct dev_pattern_test *test = &pattern->tests[literal->test_first + i];
        base_assert(test->op < DEV_PATTERN_OP_COUNT);
        put(writer, before);
        base_writer_bytes(writer, test->attr.data, test->attr.size);
        put(writer, " ");
        put(writer, ops[test->op]);
        put(writer, " ");
        put_value(writer, test);
        before = ", ";
    }
    if (before[0] == ',') {
        put(writer, ")");
    }
    if (literal->marked) {
        put(writer, " same(item)");
    }
}

static void put_space(struct base_writer *writer)
{
    if (base_writer_size(writer) > 0) {
        put(writer, " ");
    }
}

static void put_gap(struct base_writer *writer, const struct dev_pattern *pattern,
                    const struct dev_pattern_gap *gap)
{
    base_assert(gap->not_literal <= pattern->literal_count);
    for (unsigned i = 0; i < gap->ones; i++) {
        put_space(writer);
        put(writer, "?");
    }
    if (gap->spread > 0) {
        put_space(writer);
        put_number(writer, "*{0,", gap->spread, "}");
    }
    if (gap->not_literal != 0) {
        put(writer, " not ");
        put_literal(writer, pattern, &pattern->literals[gap->not_literal - 1]);
        put(writer, " before next");
    } else if (gap->star) {
        put_space(writer);
        put(writer, "*");
    }
}

static void put_duration(struct base_writer *writer, const char *clause, uint32_t ms)
{
    static const struct {
        uint32_t ms;
        const char *unit;
    } units[] = {
        {24 * 3600 * 1000, "d"}, {3600 * 1000, "h"}, {60 * 1000, "m"}, {1000, "s"}, {1, "ms"}};
    if (ms == 0) {
        return;
    }
    unsigned unit = 0;
    while (ms % units[unit].ms != 0) {
        unit++;
    }
    put_number(writer, clause, ms / units[unit].ms, units[unit].unit);
}

enum base_status dev_pattern_print(const struct dev_pattern *pattern, char *out, size_t capacity,
                                   size_t *out_size)
{
    base_assert(pattern->step_count <= pattern->literal_count);
    base_assert(pattern->policy <= DEV_PATTERN_ONCE_PER_VISIT);
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    for (unsigned i = 0; i < pattern->step_count; i++) {
        put_gap(&writer, pattern, &pattern->gaps[i]);
        put_space(&writer);
        put_literal(&writer, pattern, &pattern->literals[i]);
    }
    const struct dev_pattern_gap tail = {.ones = pattern->tail};
    put_gap(&writer, pattern, &tail);
    put_duration(&writer, " within ", pattern->within_ms);
    if (pattern->page) {
        put(&writer, " page");
    }
    put_duration(&writer, " cooldown ", pattern->cooldown_ms);
    if (pattern->per_day > 0) {
        put_number(&writer, " max ", pattern->per_day, "/day");
    }
    if (pattern->policy != DEV_PATTERN_EACH) {
        put(&writer, pattern->policy == DEV_PATTERN_RESET ? " reset" : " once per visit");
    }
    if (pattern->every_event) {
        put(&writer, " every-event");
    }
    if (pattern->timeout) {
        put(&writer, " or timeout");
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static bool ordered(int order, uint8_t op)
{
    switch ((enum dev_pattern_op)op) {
    case DEV_PATTERN_EQ:
        return order == 0;
    case DEV_PATTERN_NE:
        return order != 0;
    case DEV_PATTERN_LT:
        return order < 0;
    case DEV_PATTERN_LE:
        return order <= 0;
    case DEV_PATTERN_GT:
        return order > 0;
    case DEV_PATTERN_GE:
        return order >= 0;
    case DEV_PATTERN_OP_COUNT:
        break;
    }
    return false;
}

static int compare_text(struct base_str a, struct base_str b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.data, b.data, common) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

// At most 15 digits and a power of ten below 2^53: the quotient is the nearest double.
static double real_of(const struct dev_pattern_test *test)
{
    double unit = 1;
    for (unsigned i = 0; i < test->scale; i++) {
        unit *= 10;
    }
    return (double)test->digits / unit;
}

static int compare_numbers(const struct dev_event_attr *attr, const struct dev_pattern_test *test)
{
    if (attr->type == DEV_ATTR_INTEGER && test->type == DEV_ATTR_INTEGER) {
        return (attr->integer > test->digits) - (attr->integer < test->digits);
    }
    double left = attr->type == DEV_ATTR_INTEGER ? (double)attr->integer : attr->real;
    double right = real_of(test);
    return (left > right) - (left < right);
}

bool dev_pattern_test_holds(const struct dev_pattern_test *test, const struct dev_event *event)
{
    struct dev_event_attr attr;
    if (dev_event_attr(event, test->attr, &attr) != BASE_OK) {
        return false;
    }
    bool number = test->type == DEV_ATTR_INTEGER || test->type == DEV_ATTR_REAL;
    if (number) {
        return (attr.type == DEV_ATTR_INTEGER || attr.type == DEV_ATTR_REAL) &&
               ordered(compare_numbers(&attr, test), test->op);
    }
    if (attr.type != (enum dev_attr_type)test->type) {
        return false;
    }
    int order = test->type == DEV_ATTR_STRING
                    ? compare_text(attr.text, test->text)
                    : (attr.integer > test->digits) - (attr.integer < test->digits);
    return ordered(order, test->op);
}
