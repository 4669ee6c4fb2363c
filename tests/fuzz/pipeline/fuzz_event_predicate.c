// A text, a NUL, then the encoded attributes of one event and of another that is joined with it,
// one after the other. No crash; what is refused says where inside the text; what is accepted stays
// inside its program, and gives the same value when moved to another address.
#include "fuzz_target.h"

#include "base/check.h"
#include "pipeline/stream/event_predicate.h"
#include "wire/event_attrs.h"

#include <stdlib.h>
#include <string.h>

// How many attributes begin `bytes`, and how many bytes they are.
static void attrs_take(const uint8_t *bytes, size_t size, struct dev_event *event)
{
    struct dev_event whole = {.attrs = bytes, .attrs_bytes = (uint32_t)size};
    struct dev_event_attr attr;
    uint32_t at = 0;
    uint32_t count = 0;
    while (count < 4 && dev_event_attr_next(&whole, &at, &attr)) {
        count++;
    }
    if (wire_event_attrs_check(bytes, at, count) == BASE_OK) {
        event->attrs = bytes;
        event->attrs_bytes = at;
        event->attr_count = count;
    }
}

static struct dev_value evaluate(const uint8_t *program, size_t size, const struct dev_event *event,
                                 const struct dev_event *other)
{
    uint8_t *moved = malloc(size); // exactly its size, so that a read past the end is seen
    base_check(moved != NULL);
    memcpy(moved, program, size);
    struct dev_value value = dev_predicate_value(moved, event, other);
    if (value.type == DEV_VALUE_TEXT) {
        value.text.data = NULL; // may lie in the program
    }
    free(moved);
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    size_t text_size = nul != NULL ? (size_t)(nul - data) : size;
    struct base_str text = {(const char *)data, text_size};
    struct base_error error = {.status = BASE_OK};
    uint8_t program[DEV_PREDICATE_BYTES_MAX];
    struct dev_predicate_program made = {.bytes = program, .capacity = sizeof(program)};
    uint32_t flags = DEV_PREDICATE_OTHER | (size % 2 == 0 ? DEV_PREDICATE_TRUTH : 0);
    if (dev_predicate_compile(text, flags, &made, &error) != BASE_OK) {
        base_check(error.status != BASE_OK);
        base_check(error.line >= 1);
        base_check(error.column >= 1);
        base_check(error.text[0] != '\0');
        return 0;
    }
    struct dev_event events[2] = {{.seq = 1, .kind = DEV_EVENT_CLICK, .page = BASE_STR("home")},
                                  {.seq = 2, .kind = DEV_EVENT_EXIT, .item = BASE_STR("buy")}};
    if (nul != NULL) {
        size_t rest = size - text_size - 1;
        attrs_take(nul + 1, rest, &events[0]);
        attrs_take(nul + 1 + events[0].attrs_bytes, rest - events[0].attrs_bytes, &events[1]);
    }
    struct dev_value a = evaluate(program, made.size, &events[0], &events[1]);
    struct dev_value b = evaluate(program, made.size, &events[0], &events[1]);
    base_check(a.type == b.type);
    base_check(a.type == DEV_VALUE_TEXT ? a.text.size == b.text.size : dev_value_equal(a, b));
    base_check(dev_predicate_test(program, &events[0]) ==
               (evaluate(program, made.size, &events[0], NULL).type == DEV_VALUE_BOOLEAN &&
                evaluate(program, made.size, &events[0], NULL).integer != 0));
    return 0;
}
