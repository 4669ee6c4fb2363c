// What all of the pipeline knows about events: names of kinds, the keyed hash, and attributes.
//
// Called by the recorder on any thread and by everything that reads events on the runtime's;
// nothing is shared.
#include "pipeline/record/event.h"

#include "base/check.h"
#include "base/hash.h"
#include "pipeline/record/event_names.h"
#include "wire/event_attrs.h"
#include "wire/event_block.h"

// The wire's limits and types are the pipeline's: one encoding from the app to the cloud.
_Static_assert(DEV_EVENT_ATTRS_MAX == WIRE_EVENT_ATTRS_MAX, "attributes of an event");
_Static_assert(DEV_EVENT_ATTRS_BYTES == WIRE_EVENT_ATTRS_BYTES, "bytes of attributes");
_Static_assert(DEV_EVENT_NAME_MAX == WIRE_EVENT_ATTR_NAME_MAX, "bytes of a name");
_Static_assert((int)DEV_ATTR_STRING == (int)WIRE_EVENT_ATTR_STRING &&
                   (int)DEV_ATTR_INTEGER == (int)WIRE_EVENT_ATTR_INTEGER &&
                   (int)DEV_ATTR_REAL == (int)WIRE_EVENT_ATTR_REAL &&
                   (int)DEV_ATTR_BOOLEAN == (int)WIRE_EVENT_ATTR_BOOLEAN,
               "attribute types");

static const char *const kind_names[DEV_EVENT_KIND_END] = {
    [DEV_EVENT_ENTER] = "enter", [DEV_EVENT_SCROLL] = "scroll", [DEV_EVENT_EXPOSURE] = "exposure",
    [DEV_EVENT_CLICK] = "click", [DEV_EVENT_EXIT] = "exit",     [DEV_EVENT_CUSTOM] = "custom",
};

void dev_event_wire(const struct dev_event *event, struct wire_event *out)
{
    *out = (struct wire_event){
        .seq = event->seq,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .visit = event->visit,
        .instance = event->instance,
        .kind = (uint8_t)event->kind,
        .name = event->name,
        .page = event->page,
        .item = event->item,
        .attrs = event->attrs,
        .attrs_bytes = event->attrs_bytes,
        .attr_count = event->attr_count,
    };
}

uint64_t dev_event_hash(uint64_t secret, struct base_str text)
{
    if (text.size == 0) {
        return 0;
    }
    uint64_t hash = base_hash64_seed(text.data, text.size, secret);
    return hash != 0 ? hash : 1;
}

const char *dev_event_kind_name(enum dev_event_kind kind)
{
    bool known = (unsigned)kind >= DEV_EVENT_ENTER && (unsigned)kind < DEV_EVENT_KIND_END;
    return known ? kind_names[kind] : "?";
}

enum base_status dev_event_kind_parse(struct base_str text, enum dev_event_kind *out)
{
    for (unsigned kind = DEV_EVENT_ENTER; kind < DEV_EVENT_KIND_END; kind++) {
        if (base_str_equal(text, base_str_of(kind_names[kind]))) {
            *out = (enum dev_event_kind)kind;
            return BASE_OK;
        }
    }
    return BASE_ERR_NOT_FOUND;
}

static bool name_before(const struct dev_event_attr *attrs, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (base_str_equal(attrs[i].name, attrs[at].name)) {
            return true;
        }
    }
    return false;
}

enum base_status dev_event_attr_write(struct base_writer *writer,
                                      const struct dev_event_attr *attrs, uint32_t at,
                                      uint32_t mark, struct dev_event_names *names)
{
    const struct dev_event_attr *attr = &attrs[at];
    const struct wire_event_attr encoded = {
        .name = attr->name,
        .type = (enum wire_event_attr_type)attr->type,
        .text = attr->text,
        .integer = attr->integer,
        .real = attr->real,
    };
    base_assert(mark == dev_event_mark(attr->name));
    bool maybe = (names->marks[mark / 64] >> mark % 64 & 1) != 0;
    if (maybe && name_before(attrs, at)) {
        return BASE_ERR_INVALID;
    }
    names->marks[mark / 64] |= UINT64_C(1) << mark % 64;
    wire_event_attr_write(writer, &encoded);
    return writer->status;
}

enum base_status dev_event_attrs_encode(const struct dev_event_attr *attrs, uint32_t count,
                                        uint8_t *out, size_t capacity, size_t *out_size)
{
    if (count > DEV_EVENT_ATTRS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_writer writer;
    struct dev_event_names names = {0};
    base_writer_init(&writer, out,
                     capacity < DEV_EVENT_ATTRS_BYTES ? capacity : DEV_EVENT_ATTRS_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(dev_event_attr_write(&writer, attrs, i, dev_event_mark(attrs[i].name), &names));
    }
    *out_size = base_writer_size(&writer);
    base_assert(*out_size <= capacity && *out_size <= DEV_EVENT_ATTRS_BYTES);
    return BASE_OK;
}

bool dev_event_attr_next(const struct dev_event *event, uint32_t *at, struct dev_event_attr *out)
{
    if (*at >= event->attrs_bytes) {
        return false;
    }
    struct base_reader reader;
    struct wire_event_attr attr;
    base_reader_init(&reader, event->attrs + *at, event->attrs_bytes - *at);
    wire_event_attr_take(&reader, &attr);
    if (reader.status != BASE_OK) {
        return false; // not what the encoder made: there is nothing to walk
    }
    *at += (uint32_t)base_reader_offset(&reader);
    *out = (struct dev_event_attr){
        .name = attr.name,
        .type = (enum dev_attr_type)attr.type,
        .text = attr.text,
        .integer = attr.integer,
        .real = attr.real,
    };
    return true;
}

enum base_status dev_event_attr(const struct dev_event *event, struct base_str name,
                                struct dev_event_attr *out)
{
    uint32_t at = 0;
    struct dev_event_attr attr;
    while (dev_event_attr_next(event, &at, &attr)) {
        if (base_str_equal(attr.name, name)) {
            *out = attr;
            return BASE_OK;
        }
    }
    return BASE_ERR_NOT_FOUND;
}
