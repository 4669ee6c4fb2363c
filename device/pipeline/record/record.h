// Behaviour events, as an app records them: what the user did, where, when. Any thread may record;
// a recording copies the event and returns, without a lock, an allocation or a wait. What the live
// tasks declare decides what becomes of it (docs/PIPELINE.md).
#ifndef DEV_PIPELINE_RECORD_H
#define DEV_PIPELINE_RECORD_H

#include "base/status.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

BASE_C_BEGIN

#define DEV_EVENT_PAGE_MAX    64 // bytes of a page id, at least 1; no control characters
#define DEV_EVENT_ITEM_MAX    64 // bytes of an item or widget id
#define DEV_EVENT_NAME_MAX    32 // bytes of a custom event's or an attribute's name, [a-z][a-z0-9_.]*
#define DEV_EVENT_ATTRS_MAX   64   // attributes of one event, names unique
#define DEV_EVENT_ATTRS_BYTES 4096 // of all attributes of one event, encoded

enum dev_event_kind {
    DEV_EVENT_ENTER = 1,
    DEV_EVENT_SCROLL,
    DEV_EVENT_EXPOSURE,
    DEV_EVENT_CLICK,
    DEV_EVENT_EXIT,
    DEV_EVENT_CUSTOM, // has a name
    DEV_EVENT_KIND_END
};

enum dev_attr_type {
    DEV_ATTR_STRING,
    DEV_ATTR_INTEGER,
    DEV_ATTR_REAL,
    DEV_ATTR_BOOLEAN,
};

struct dev_event_attr {
    struct base_str name;
    enum dev_attr_type type;
    struct base_str text; // STRING, UTF-8
    int64_t integer;      // INTEGER; BOOLEAN: 0 or 1
    double real;          // REAL, finite
};

// What the app says. Texts and attributes are copied.
struct dev_recording {
    enum dev_event_kind kind;
    uint32_t instance;    // tells apart two tabs that show one page; 0 otherwise
    struct base_str name; // of a CUSTOM event
    struct base_str page;
    struct base_str item;
    uint64_t wall_ms; // when it happened, by the clock
    uint64_t mono_us; // monotonic within one boot of the device
    const struct dev_event_attr *attrs;
    uint32_t attr_count;
};

struct dev_recorder; // of the port: posix_port_recorder

// Any thread. OK: recorded, or nobody needs it. LIMIT: the ring is full; it has a seq and is
// accounted as lost. INVALID, TOO_LARGE: not an event, no seq.
enum base_status dev_record(struct dev_recorder *recorder, const struct dev_recording *recording);

BASE_C_END

#endif
