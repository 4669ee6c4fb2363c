// Outcomes waiting to be reported, packed into a block of bytes the runtime provides. Numbered
// without gaps; bounded: the oldest goes when there is no room.
//
//   entry := u8 size of what follows, outcome (wire/outcome.h), detail
#ifndef DEV_OUTCOME_QUEUE_H
#define DEV_OUTCOME_QUEUE_H

#include "base/cursor.h"
#include "wire/report.h"

#define DEV_OUTCOME_ENTRY_MAX    (1 + WIRE_OUTCOME_BYTES_MAX + WIRE_REPORT_DETAIL_MAX)
#define DEV_OUTCOME_ENTRY_COMMON 64 // room reserved for an entry on average

struct dev_outcome_queue {
    uint8_t *bytes; // not owned
    uint32_t capacity;
    uint32_t size;
    uint32_t count;
    uint32_t count_max;
    uint64_t first_seq; // of the oldest entry, or of the next one when empty
};

// Bytes of memory for a queue of `count_max` outcomes.
uint32_t dev_outcomes_bytes(uint32_t count_max);
void dev_outcomes_init(struct dev_outcome_queue *queue, void *memory, uint32_t count_max);
// Adds an outcome (its detail is cut to fit, between characters) and returns how many old ones were
// dropped for it.
uint32_t dev_outcomes_add(struct dev_outcome_queue *queue, const struct wire_outcome *outcome);
// Reads the next entry; details are borrowed from the queue. NOT_FOUND at the end, CORRUPT.
BASE_NODISCARD enum base_status dev_outcomes_next(struct base_reader *reader,
                                                  struct wire_outcome *out);
void dev_outcomes_reader(const struct dev_outcome_queue *queue, struct base_reader *out_reader);
// Removes all up to and including number `last_seq`; returns how many.
uint32_t dev_outcomes_ack(struct dev_outcome_queue *queue, uint64_t last_seq);
// Takes the packed bytes of `count` entries from a stored record. CORRUPT leaves the queue empty.
BASE_NODISCARD enum base_status dev_outcomes_restore(struct dev_outcome_queue *queue,
                                                     const uint8_t *bytes, size_t size,
                                                     uint32_t count, uint64_t first_seq);

#endif
