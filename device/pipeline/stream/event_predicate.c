// Evaluates compiled expressions over events. Called by the stream functions (stream_events.c) and
// by a script's Filter, Map and KeyBy (vm/vm_stream.c) for every event, on their owner's thread;
// pure. The compiler is in event_predicate_parse.c, the code between the two in
// event_predicate_code.h.
//
// The code is postfix, in one pass over a stack whose depth the compiler has bounded
// (PREDICATE_STACK_MAX), so that an event costs at most the length of the text. A value that is
// missing makes what is built on it missing; `&&` and `||` are Kleene's.
#include "pipeline/stream/event_predicate.h"

#include "pipeline/stream/event_predicate_code.h"

#include "base/check.h"

#include <string.h>

// Where the evaluation of one program is.
struct run {
    const uint8_t *program;
    const struct dev_event *event;
    const struct dev_event *other;
    uint32_t at;
    uint32_t depth;
    struct dev_value stack[PREDICATE_STACK_MAX];
};

static uint16_t read_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | (uint32_t)bytes[1] << 8);
}

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static struct dev_value text_or_none(struct base_str text)
{
    return text.size == 0 ? dev_value_none() : dev_value_text(text);
}

static struct dev_value kind_text(enum dev_event_kind kind)
{
    static const struct base_str names[DEV_EVENT_KIND_END] = {
        [DEV_EVENT_ENTER] = {"enter", 5},       [DEV_EVENT_SCROLL] = {"scroll", 6},
        [DEV_EVENT_EXPOSURE] = {"exposure", 8}, [DEV_EVENT_CLICK] = {"click", 5},
        [DEV_EVENT_EXIT] = {"exit", 4},         [DEV_EVENT_CUSTOM] = {"custom", 6},
    };
    return (unsigned)kind < DEV_EVENT_KIND_END ? dev_value_text(names[kind]) : dev_value_none();
}

static struct dev_value field_value(enum predicate_field field, const struct dev_event *event)
{
    base_assert((unsigned)field < PREDICATE_FIELD_COUNT);
    switch (field) {
    case PREDICATE_FIELD_KIND:
        return kind_text(event->kind);
    case PREDICATE_FIELD_NAME:
        return text_or_none(event->name);
    case PREDICATE_FIELD_PAGE:
        return text_or_none(event->page);
    case PREDICATE_FIELD_ITEM:
        return text_or_none(event->item);
    case PREDICATE_FIELD_VISIT:
        return dev_value_integer(event->visit);
    case PREDICATE_FIELD_INSTANCE:
        return dev_value_integer(event->instance);
    case PREDICATE_FIELD_SEQ:
        return dev_value_integer((int64_t)event->seq);
    case PREDICATE_FIELD_TIME:
        return dev_value_integer((int64_t)event->wall_ms);
    case PREDICATE_FIELD_COUNT:
        break;
    }
    return dev_value_none();
}

static struct dev_value attr_value(struct base_str name, const struct dev_event *event)
{
    struct dev_event_attr attr;
    return dev_event_attr(event, name, &attr) == BASE_OK ? dev_value_of_attr(&attr)
                                                         : dev_value_none();
}

// The constant at run->at, which moves behind it.
static struct dev_value constant_read(struct run *run)
{
    base_assert(run->at < read_u16(run->program));
    const uint8_t *at = run->program + run->at;
    switch ((enum predicate_op)at[0]) {
    case PREDICATE_INTEGER:
        run->at += 9;
        return dev_value_integer((int64_t)read_u64(at + 1));
    case PREDICATE_REAL: {
        uint64_t bits = read_u64(at + 1);
        double real;
        memcpy(&real, &bits, sizeof(real));
        run->at += 9;
        return dev_value_real(real);
    }
    case PREDICATE_TEXT:
        run->at += 2u + at[1];
        return dev_value_text((struct base_str){(const char *)at + 2, at[1]});
    default:
        run->at += 1;
        return dev_value_boolean(at[0] == PREDICATE_TRUE);
    }
}

// A field or an attribute of one of the two events.
static struct dev_value name_read(struct run *run)
{
    base_assert(run->at + 1u < read_u16(run->program));
    const uint8_t *at = run->program + run->at;
    const struct dev_event *event = (at[0] & PREDICATE_OTHER) != 0 ? run->other : run->event;
    enum predicate_op op = (enum predicate_op)(at[0] & ~PREDICATE_OTHER);
    bool is_field = op == PREDICATE_FIELD || op == PREDICATE_HAS_FIELD;
    run->at += is_field ? 2u : 2u + at[1];
    struct dev_value value = dev_value_none();
    if (event != NULL) {
        value = is_field ? field_value((enum predicate_field)at[1], event)
                         : attr_value((struct base_str){(const char *)at + 2, at[1]}, event);
    }
    if (op == PREDICATE_HAS_FIELD || op == PREDICATE_HAS_ATTR) {
        return dev_value_boolean(value.type != DEV_VALUE_NONE);
    }
    return value;
}

static struct dev_value integers(enum predicate_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    switch (op) {
    case PREDICATE_ADD:
        return __builtin_add_overflow(a, b, &result) ? dev_value_none() : dev_value_integer(result);
    case PREDICATE_SUBTRACT:
        return __builtin_sub_overflow(a, b, &result) ? dev_value_none() : dev_value_integer(result);
    case PREDICATE_MULTIPLY:
        return __builtin_mul_overflow(a, b, &result) ? dev_value_none() : dev_value_integer(result);
    case PREDICATE_REMAINDER:
        if (b == 0) {
            return dev_value_none();
        }
        result = b == -1 ? 0 : a % b;
        return dev_value_integer(result != 0 && (result < 0) != (b < 0) ? result + b : result);
    default:
        return b == 0 ? dev_value_none() : dev_value_real((double)a / (double)b);
    }
}

static struct dev_value arithmetic(enum predicate_op op, struct dev_value a, struct dev_value b)
{
    base_assert(op >= PREDICATE_ADD && op <= PREDICATE_REMAINDER);
    if (!dev_value_is_number(a) || !dev_value_is_number(b)) {
        return dev_value_none();
    }
    if (a.type == DEV_VALUE_INTEGER && b.type == DEV_VALUE_INTEGER) {
        return integers(op, a.integer, b.integer);
    }
    double x = dev_value_as_real(a);
    double y = dev_value_as_real(b);
    switch (op) {
    case PREDICATE_ADD:
        return dev_value_real(x + y);
    case PREDICATE_SUBTRACT:
        return dev_value_real(x - y);
    case PREDICATE_MULTIPLY:
        return dev_value_real(x * y);
    case PREDICATE_DIVIDE:
        return y == 0 ? dev_value_none() : dev_value_real(x / y);
    default:
        return dev_value_none(); // a remainder is of integers
    }
}

static struct dev_value comparison(enum predicate_op op, struct dev_value a, struct dev_value b)
{
    base_assert(op >= PREDICATE_EQUAL && op <= PREDICATE_GREATER_EQUAL);
    bool numbers = dev_value_is_number(a) && dev_value_is_number(b);
    if (a.type == DEV_VALUE_NONE || (!numbers && a.type != b.type)) {
        return dev_value_none();
    }
    if (op == PREDICATE_EQUAL || op == PREDICATE_NOT_EQUAL) {
        return dev_value_boolean(dev_value_equal(a, b) == (op == PREDICATE_EQUAL));
    }
    if (!numbers) {
        return dev_value_none();
    }
    int order = dev_value_compare(a, b);
    switch (op) {
    case PREDICATE_LESS:
        return dev_value_boolean(order < 0);
    case PREDICATE_LESS_EQUAL:
        return dev_value_boolean(order <= 0);
    case PREDICATE_GREATER:
        return dev_value_boolean(order > 0);
    default:
        return dev_value_boolean(order >= 0);
    }
}

// False beats no value in `&&`, true beats it in `||`.
static struct dev_value kleene(bool strong, struct dev_value a, struct dev_value b)
{
    bool a_known = a.type == DEV_VALUE_BOOLEAN;
    bool b_known = b.type == DEV_VALUE_BOOLEAN;
    if ((a_known && (a.integer != 0) == strong) || (b_known && (b.integer != 0) == strong)) {
        return dev_value_boolean(strong);
    }
    return a_known && b_known ? dev_value_boolean(!strong) : dev_value_none();
}

static struct dev_value binary(enum predicate_op op, struct dev_value a, struct dev_value b)
{
    if (op == PREDICATE_AND || op == PREDICATE_OR) {
        return kleene(op == PREDICATE_OR, a, b);
    }
    return op <= PREDICATE_REMAINDER ? arithmetic(op, a, b) : comparison(op, a, b);
}

static struct dev_value negated(struct dev_value value)
{
    if (value.type == DEV_VALUE_REAL) {
        return dev_value_real(-value.real);
    }
    return value.type == DEV_VALUE_INTEGER ? integers(PREDICATE_SUBTRACT, 0, value.integer)
                                           : dev_value_none();
}

// Literals of a set have one type; a value of another type is neither in it nor outside.
static struct dev_value in_set(struct run *run, struct dev_value value)
{
    uint32_t count = run->program[run->at + 1];
    base_assert(count > 0 && count <= DEV_PREDICATE_SET_MAX);
    bool comparable = false;
    bool found = false;
    run->at += 2;
    for (uint32_t i = 0; i < count; i++) {
        struct dev_value literal = constant_read(run);
        struct dev_value same = comparison(PREDICATE_EQUAL, value, literal);
        comparable = comparable || same.type != DEV_VALUE_NONE;
        found = found || (same.type != DEV_VALUE_NONE && same.integer != 0);
    }
    return comparable ? dev_value_boolean(found) : dev_value_none();
}

static void skip(struct run *run, bool strong)
{
    base_assert(run->depth > 0);
    const struct dev_value *top = &run->stack[run->depth - 1];
    bool decided = top->type == DEV_VALUE_BOOLEAN && (top->integer != 0) == strong;
    run->at = decided ? read_u16(run->program + run->at + 1) : run->at + 3;
}

static void step(struct run *run)
{
    enum predicate_op op = (enum predicate_op)(run->program[run->at] & ~PREDICATE_OTHER);
    if (op <= PREDICATE_HAS_ATTR) {
        base_check(run->depth < PREDICATE_STACK_MAX);
        run->stack[run->depth++] = op <= PREDICATE_FALSE ? constant_read(run) : name_read(run);
        return;
    }
    base_check(run->depth >= 1);
    struct dev_value *top = &run->stack[run->depth - 1];
    switch (op) {
    case PREDICATE_NEGATE:
        *top = negated(*top);
        run->at++;
        break;
    case PREDICATE_NOT:
        *top = top->type == DEV_VALUE_BOOLEAN ? dev_value_boolean(top->integer == 0)
                                              : dev_value_none();
        run->at++;
        break;
    case PREDICATE_IN:
        *top = in_set(run, *top);
        break;
    case PREDICATE_AND_SKIP:
    case PREDICATE_OR_SKIP:
        skip(run, op == PREDICATE_OR_SKIP);
        break;
    default:
        base_check(run->depth >= 2);
        top[-1] = binary(op, top[-1], top[0]);
        run->depth--;
        run->at++;
        break;
    }
}

struct dev_value dev_predicate_value(const uint8_t *program, const struct dev_event *event,
                                     const struct dev_event *other)
{
    struct run run;
    run.program = program;
    run.event = event;
    run.other = other;
    run.at = PREDICATE_HEAD;
    run.depth = 0;
    uint32_t end = read_u16(program);
    unsigned first = program[PREDICATE_HEAD] & ~PREDICATE_OTHER;
    if (first >= PREDICATE_FIELD && first <= PREDICATE_HAS_ATTR) {
        run.stack[0] = name_read(&run); // often all there is: a key, a value
        run.depth = 1;
    }
    while (run.at < end) {
        step(&run);
    }
    base_check(run.depth == 1);
    base_assert(run.at == end);
    return run.stack[0];
}

bool dev_predicate_test(const uint8_t *program, const struct dev_event *event)
{
    struct dev_value value = dev_predicate_value(program, event, NULL);
    return value.type == DEV_VALUE_BOOLEAN && value.integer != 0;
}
