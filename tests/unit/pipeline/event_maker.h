// Events for tests: a view with its own room for attributes.
#ifndef EVENT_MAKER_H
#define EVENT_MAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/record/event.h"

#include <string.h>

#define MAKER_ATTRS_MAX 8

struct made_event {
    struct dev_event event;
    uint8_t attrs[256];
};

static inline struct dev_event_attr attr_integer(const char *name, int64_t integer)
{
    return (struct dev_event_attr){
        .name = base_str_of(name), .type = DEV_ATTR_INTEGER, .integer = integer};
}
static inline struct dev_event_attr attr_real(const char *name, double real)
{
    return (struct dev_event_attr){.name = base_str_of(name), .type = DEV_ATTR_REAL, .real = real};
}
static inline struct dev_event_attr attr_boolean(const char *name, bool truth)
{
    return (struct dev_event_attr){
        .name = base_str_of(name), .type = DEV_ATTR_BOOLEAN, .integer = truth};
}
static inline struct dev_event_attr attr_text(const char *name, const char *text)
{
    return (struct dev_event_attr){
        .name = base_str_of(name), .type = DEV_ATTR_STRING, .text = base_str_of(text)};
}

// `page` and `item` must outlive the event.
static inline void event_make(struct made_event *made, uint64_t seq, uint64_t wall_ms,
                              enum dev_event_kind kind, const char *page, const char *item,
                              const struct dev_event_attr *attrs, uint32_t count)
{
    size_t size = 0;
    assert_int_equal(dev_event_attrs_encode(attrs, count, made->attrs, sizeof(made->attrs), &size),
                     BASE_OK);
    made->event = (struct dev_event){
        .seq = seq,
        .wall_ms = wall_ms,
        .mono_us = wall_ms * 1000,
        .kind = kind,
        .page = base_str_of(page),
        .item = base_str_of(item),
        .attrs = made->attrs,
        .attrs_bytes = (uint32_t)size,
        .attr_count = count,
    };
    made->event.page_hash = dev_event_hash(1, made->event.page);
    made->event.item_hash = dev_event_hash(1, made->event.item);
}

#endif
