// A block of behaviour events in columns: how events are stored and travel. Columns of one sort
// compress better than rows, and small differences take one byte.
//
//   block := u8 version (1), varint event_count,
//            u64 first seq, u64 first wall_ms, u64 first mono_us, u32 boot,
//            texts: varint count, count x text8      (pages, items and names, each once)
//            attribute names: varint count, count x { text8 name, u8 type, varint bytes of its
//            values } columns, each event_count long:
//              varint seq - seq before - 1, u8 kind, zigzag wall_ms - the one before,
//              zigzag mono_us - the one before, zigzag visit - the one before (0 first),
//              varint instance,
//              varint page, varint item, varint name  (1 + index of the text; 0: none)
//              varint attr_count, then for each attribute varint index of its name
//            values: for each attribute name, the values of all events that have it, in order
//
// A block holds events of one boot. Seqs ascend.
#ifndef WIRE_EVENT_BLOCK_H
#define WIRE_EVENT_BLOCK_H

#include "wire/event_attrs.h"

#define WIRE_EVENT_BLOCK_VERSION    1
#define WIRE_EVENT_BLOCK_EVENTS_MAX 128
#define WIRE_EVENT_BLOCK_BYTES_MAX  (256 * 1024)
#define WIRE_EVENT_BLOCK_TEXTS_MAX  256
#define WIRE_EVENT_BLOCK_NAMES_MAX  128 // (name, type) of attributes
#define WIRE_EVENT_PAGE_MAX         64
#define WIRE_EVENT_ITEM_MAX         64
#define WIRE_EVENT_KIND_MAX         6 // DEV_EVENT_CUSTOM

struct wire_event { // as struct dev_event, without hashes
    uint64_t seq;
    uint64_t wall_ms;
    uint64_t mono_us;
    uint32_t visit;
    uint32_t instance;
    uint8_t kind;
    struct base_str name;
    struct base_str page;
    struct base_str item;
    const uint8_t *attrs; // as wire/event_attrs.h
    uint32_t attrs_bytes;
    uint32_t attr_count;
};

// Events on their way into a block. Borrowed during the call.
struct wire_event_list {
    const struct wire_event *events; // seqs must ascend
    uint32_t count;                  // 1 to WIRE_EVENT_BLOCK_EVENTS_MAX
    uint32_t boot;                   // of all of them
};

// INVALID; TOO_LARGE: over a limit or `capacity`, try with fewer events.
BASE_NODISCARD enum base_status wire_event_block_encode(const struct wire_event_list *list,
                                                        uint8_t *out, size_t capacity,
                                                        size_t *out_size);

// A checked block and the walk over it; about 17 KB. Texts are borrowed from the block's bytes,
// attributes from this struct, until the next call of _next.
struct wire_event_block {
    uint32_t count;
    uint32_t boot;
    uint64_t first_seq;
    uint32_t done;
    uint32_t text_count;
    uint32_t name_count;
    uint64_t seq; // of the event before
    uint64_t wall_ms;
    uint64_t mono_us;
    uint32_t visit;
    struct base_reader columns[10];
    struct base_str texts[WIRE_EVENT_BLOCK_TEXTS_MAX];
    struct {
        struct base_str name;
        enum wire_event_attr_type type;
        uint32_t bytes;
        struct base_reader values;
    } names[WIRE_EVENT_BLOCK_NAMES_MAX];
    uint8_t attrs[WIRE_EVENT_ATTRS_BYTES];
};
// INVALID, TRUNCATED, TOO_LARGE, UNSUPPORTED: then nothing can be walked.
BASE_NODISCARD enum base_status wire_event_block_parse(const uint8_t *bytes, size_t size,
                                                       struct wire_event_block *out);
// The next event; false: no more.
bool wire_event_block_next(struct wire_event_block *block, struct wire_event *out);
struct wire_event_block_head {
    uint32_t count;
    uint32_t boot;
    uint64_t first_seq;
    uint64_t wall_ms; // of the first event
};
// Only the head, for quotas and searches. The same errors, of the head.
BASE_NODISCARD enum base_status wire_event_block_head(const uint8_t *bytes, size_t size,
                                                      struct wire_event_block_head *out);

#endif
