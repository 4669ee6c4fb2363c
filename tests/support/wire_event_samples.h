// Random behaviour events for tests of blocks and of the pipeline: few pages, items and names, so
// that they repeat, and every type of attribute.
#ifndef WIRE_EVENT_SAMPLES_H
#define WIRE_EVENT_SAMPLES_H

#include "base/check.h"
#include "base/prng.h"
#include "wire/event_block.h"

#include <stdio.h>
#include <string.h>

struct wire_event_sample {
    struct wire_event event;
    char page[WIRE_EVENT_PAGE_MAX];
    char item[WIRE_EVENT_ITEM_MAX];
    char name[WIRE_EVENT_ATTR_NAME_MAX];
    uint8_t attrs[WIRE_EVENT_ATTRS_BYTES];
};

static inline struct base_str wire_sample_text(char *out, size_t capacity, const char *prefix,
                                               uint64_t number)
{
    int size = snprintf(out, capacity, "%s%llu", prefix, (unsigned long long)number);
    return (struct base_str){out, (size_t)size};
}

static inline int64_t wire_sample_integer(struct base_prng *prng)
{
    static const int64_t edges[] = {0, 1, -1, INT64_MIN, INT64_MAX, 127, -128};
    return base_prng_below(prng, 4) == 0 ? edges[base_prng_below(prng, 7)]
                                         : (int64_t)base_prng_below(prng, 100000);
}

static inline void wire_sample_attrs(struct base_prng *prng, struct wire_event_sample *out,
                                     uint32_t count, size_t text_max)
{
    static char texts[WIRE_EVENT_ATTRS_BYTES];
    char names[WIRE_EVENT_ATTRS_MAX][16];
    struct base_writer writer;
    memset(texts, 't', sizeof(texts));
    base_writer_init(&writer, out->attrs, sizeof(out->attrs));
    out->event.attr_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct wire_event_attr attr = {
            .name = wire_sample_text(names[i], sizeof(names[i]), i % 2 == 0 ? "a.b_" : "c", i),
            .type = (enum wire_event_attr_type)((i + base_prng_below(prng, 10) / 9) %
                                                WIRE_EVENT_ATTR_TYPE_END),
        };
        attr.text = (struct base_str){texts, (size_t)base_prng_below(prng, text_max + 1)};
        attr.integer = attr.type == WIRE_EVENT_ATTR_BOOLEAN ? (int64_t)base_prng_below(prng, 2)
                                                            : wire_sample_integer(prng);
        attr.real = (double)base_prng_below(prng, 1000) / 8 - 20;
        struct base_writer before = writer;
        wire_event_attr_write(&writer, &attr);
        if (writer.status != BASE_OK) { // no more room
            writer = before;
            break;
        }
        out->event.attr_count++;
    }
    out->event.attrs = out->attrs;
    out->event.attrs_bytes = (uint32_t)base_writer_size(&writer);
}

// The event after *before (NULL: the first).
static inline void wire_sample_event(struct base_prng *prng, const struct wire_event *before,
                                     struct wire_event_sample *out)
{
    static const uint64_t starts[] = {1, 0, 1u << 20, UINT64_MAX - 2000000};
    uint64_t step = base_prng_below(prng, 5) == 0 ? base_prng_below(prng, 1000) : 0;
    struct wire_event *event = &out->event;
    *event = (struct wire_event){
        .seq = before != NULL ? before->seq + 1 + step : starts[base_prng_below(prng, 4)],
        .wall_ms = before != NULL ? before->wall_ms + base_prng_below(prng, 3000) - 50
                                  : base_prng_next(prng),
        .mono_us = before != NULL ? before->mono_us + base_prng_below(prng, 3000000)
                                  : base_prng_next(prng) / 2,
        .visit = (uint32_t)base_prng_below(prng, 40),
        .instance = (uint32_t)base_prng_below(prng, 3),
        .kind = (uint8_t)(1 + base_prng_below(prng, WIRE_EVENT_KIND_MAX)),
    };
    if (base_prng_below(prng, 30) == 0) {
        event->wall_ms = base_prng_next(prng);
        event->visit = (uint32_t)base_prng_next(prng);
        event->instance = UINT32_MAX;
    }
    event->page = wire_sample_text(out->page, sizeof(out->page), "page ", base_prng_below(prng, 5));
    if (base_prng_below(prng, 3) > 0) {
        event->item =
            wire_sample_text(out->item, sizeof(out->item), "item:", base_prng_below(prng, 90));
    }
    if (event->kind == WIRE_EVENT_KIND_MAX) {
        event->name =
            wire_sample_text(out->name, sizeof(out->name), "custom.", base_prng_below(prng, 4));
    }
    wire_sample_attrs(prng, out, (uint32_t)base_prng_below(prng, 9), 30);
}

static inline void wire_event_check_same(const struct wire_event *a, const struct wire_event *b)
{
    base_check(a->seq == b->seq);
    base_check(a->wall_ms == b->wall_ms);
    base_check(a->mono_us == b->mono_us);
    base_check(a->visit == b->visit);
    base_check(a->instance == b->instance);
    base_check(a->kind == b->kind);
    base_check(base_str_equal(a->page, b->page));
    base_check(base_str_equal(a->item, b->item));
    base_check(base_str_equal(a->name, b->name));
    base_check(a->attr_count == b->attr_count);
    base_check(a->attrs_bytes == b->attrs_bytes);
    base_check(a->attrs_bytes == 0 || memcmp(a->attrs, b->attrs, a->attrs_bytes) == 0);
}

#endif
