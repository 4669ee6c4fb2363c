// Events as lines of JSON, as a logging library that sends everything writes them. Texts of the
// generator need no escapes but are checked. Called by bench/ipv (ipv_worker.c, ipv_compress.c),
// which compares the size of raw logs with ours, and by tests of compression; walle-fleet-sim does
// not call it. No state, any thread.
#include "ipv_world.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_plain(struct base_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

static int attr_json(const struct dev_event_attr *attr, char *out, size_t capacity)
{
    int name = (int)attr->name.size;
    switch (attr->type) {
    case DEV_ATTR_STRING:
        base_check(is_plain(attr->text));
        return snprintf(out, capacity, ",\"%.*s\":\"%.*s\"", name, attr->name.data,
                        (int)attr->text.size, attr->text.data);
    case DEV_ATTR_INTEGER:
        return snprintf(out, capacity, ",\"%.*s\":%" PRId64, name, attr->name.data, attr->integer);
    case DEV_ATTR_REAL:
        return snprintf(out, capacity, ",\"%.*s\":%.17g", name, attr->name.data, attr->real);
    case DEV_ATTR_BOOLEAN:
        break;
    }
    return snprintf(out, capacity, ",\"%.*s\":%s", name, attr->name.data,
                    attr->integer != 0 ? "true" : "false");
}

size_t ipv_raw_json(uint64_t device, const struct dev_event *event, char *out, size_t capacity)
{
    int wrote = snprintf(
        out, capacity,
        "{\"device\":\"%016" PRIx64 "\",\"seq\":%" PRIu64
        ",\"kind\":\"%s\",\"name\":\"%.*s\",\"page\":\"%.*s\",\"instance\":%" PRIu32
        ",\"item\":\"%.*s\",\"wall_ms\":%" PRIu64 ",\"mono_us\":%" PRIu64 ",\"boot\":%" PRIu32,
        device, event->seq, dev_event_kind_name(event->kind), (int)event->name.size,
        event->name.size > 0 ? event->name.data : "", (int)event->page.size, event->page.data,
        event->instance, (int)event->item.size, event->item.size > 0 ? event->item.data : "",
        event->wall_ms, event->mono_us, event->boot);
    size_t at = wrote > 0 ? (size_t)wrote : capacity;
    uint32_t cursor = 0;
    struct dev_event_attr attr;
    while (at < capacity && dev_event_attr_next(event, &cursor, &attr)) {
        wrote = attr_json(&attr, out + at, capacity - at);
        at += wrote > 0 ? (size_t)wrote : capacity;
    }
    if (at + 2 > capacity) {
        return 0;
    }
    out[at] = '}';
    out[at + 1] = '\0';
    return at + 1;
}
