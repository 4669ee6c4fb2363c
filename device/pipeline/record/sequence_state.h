// What the two files of sequences share. Private to them.
#ifndef DEV_SEQUENCE_STATE_H
#define DEV_SEQUENCE_STATE_H

#include "pipeline/record/sequence.h"
#include "wire/event_block.h"

// Room for an encoded block: texts and attributes of a full one, one more event that made it full,
// and the columns.
#define SEQUENCE_BLOCK_ROOM (24 * 1024)

struct sequence_record { // in the ring; then name, page, item, attributes
    uint32_t size;       // whole, a multiple of 8; 0: padding up to the end of the ring
    uint32_t boot;
    uint64_t before;        // place of the record before; UINT64_MAX: none
    uint64_t next_of_visit; // UINT64_MAX: none yet
    uint64_t seq;
    uint64_t wall_ms;
    uint64_t mono_us;
    uint64_t arrived_us; // when _on_event was called
    uint64_t name_hash;
    uint64_t page_hash;
    uint64_t item_hash;
    uint32_t visit;
    uint32_t instance;
    uint16_t attrs_bytes;
    uint16_t attr_count;
    uint8_t kind;
    uint8_t name_size;
    uint8_t page_size;
    uint8_t item_size;
};

struct sequence_visit {
    uint32_t visit; // 0: free
    bool whole;     // its chain begins with the visit's first event that came to memory
    uint64_t first; // places
    uint64_t last;
};

struct dev_sequence {
    struct dev_sequence_options options;
    uint8_t *ring;
    uint64_t capacity;
    uint64_t head;
    uint64_t tail;
    uint64_t stored;
    uint64_t latest; // place of the newest record; UINT64_MAX: none
    uint32_t count;
    uint32_t waiting; // records from `stored` on
    uint64_t waiting_bytes;
    uint64_t quota;
    bool due; // a visit ended
    bool gaps_dirty;
    uint32_t gap_count;
    struct dev_gap gaps[DEV_SEQUENCE_GAPS];
    struct sequence_visit visits[DEV_SEQUENCE_VISITS];
    struct dev_sequence_stats stats;
    union {                               // never at the same time
        uint8_t out[SEQUENCE_BLOCK_ROOM]; // of a block on its way out
        struct wire_event_block block;    // of a scan
    };
};

const struct sequence_record *sequence_record_at(const struct dev_sequence *sequence,
                                                 uint64_t place);
// The place of the next record at or behind `place`; `head` when there is none.
uint64_t sequence_skip_padding(const struct dev_sequence *sequence, uint64_t place);
uint64_t sequence_after(const struct dev_sequence *sequence, uint64_t place);
void sequence_view(const struct sequence_record *record, struct dev_event *out);
const struct sequence_visit *sequence_visit_find(const struct dev_sequence *sequence,
                                                 uint32_t visit);

// ---- sequence_store.c
bool sequence_is_full(const struct dev_sequence *sequence); // what waits fills a block
// Puts one block of what waits. `stored_to`: what is stored when that is all that waits.
enum base_status sequence_put_block(struct dev_sequence *sequence, uint64_t now_us,
                                    uint64_t stored_to);

#endif
