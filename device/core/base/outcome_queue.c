// The packed queue of outcomes. Called on the runtime's thread by device_control.c (add, report,
// acknowledge), by runtime.c (its memory) and by device_state.c (restore); pure. Entries lie one
// behind the other from the start of the block, so taking the oldest moves the rest: at most
// outcomes_max entries, and a report takes them in that order. What is restored is checked entry by
// entry first; a queue that has become smaller keeps the newest.
#include "core/base/outcome_queue.h"

#include "base/check.h"
#include "base/text/str_cut.h"

#include <string.h>

_Static_assert(DEV_OUTCOME_ENTRY_MAX <= 1 + UINT8_MAX, "an entry's size is a byte");
_Static_assert(1 + WIRE_FIGURES_BYTES_MAX <= DEV_OUTCOME_ENTRY_COMMON, "any entry fits alone");

// For one entry of the greatest size beside the common ones; its figures lie within one of those.
uint32_t dev_outcomes_bytes(uint32_t count_max)
{
    return count_max * DEV_OUTCOME_ENTRY_COMMON + DEV_OUTCOME_ENTRY_MAX - 1 -
           WIRE_FIGURES_BYTES_MAX;
}

void dev_outcomes_init(struct dev_outcome_queue *queue, void *memory, uint32_t count_max)
{
    *queue = (struct dev_outcome_queue){
        .bytes = memory,
        .capacity = dev_outcomes_bytes(count_max),
        .count_max = count_max,
        .first_seq = 1,
    };
}

static void drop_first(struct dev_outcome_queue *queue)
{
    base_check(queue->count > 0);
    uint32_t entry = 1u + queue->bytes[0];
    base_check(entry <= queue->size);
    queue->size -= entry;
    queue->count--;
    queue->first_seq++;
    memmove(queue->bytes, queue->bytes + entry, queue->size);
}

uint32_t dev_outcomes_add(struct dev_outcome_queue *queue, const struct wire_outcome *outcome)
{
    uint8_t entry[DEV_OUTCOME_ENTRY_MAX];
    struct base_writer writer;
    base_writer_init(&writer, entry, sizeof(entry));
    base_writer_u8(&writer, 0);
    wire_outcome_write(&writer, outcome);
    base_writer_bytes(&writer, outcome->detail.data,
                      base_str_fit(outcome->detail, WIRE_REPORT_DETAIL_MAX));
    base_check(writer.status == BASE_OK);
    uint32_t size = (uint32_t)base_writer_size(&writer);
    entry[0] = (uint8_t)(size - 1);
    uint32_t dropped = 0;
    while (queue->count >= queue->count_max || size > queue->capacity - queue->size) {
        drop_first(queue);
        dropped++;
    }
    memcpy(queue->bytes + queue->size, entry, size);
    queue->size += size;
    queue->count++;
    return dropped;
}

void dev_outcomes_reader(const struct dev_outcome_queue *queue, struct base_reader *out_reader)
{
    base_reader_init(out_reader, queue->bytes, queue->size);
}

enum base_status dev_outcomes_next(struct base_reader *reader, struct wire_outcome *out)
{
    if (base_reader_left(reader) == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    size_t size = base_reader_u8(reader);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (bytes == NULL) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader entry;
    base_reader_init(&entry, bytes, size);
    (void)wire_outcome_read(&entry, out);
    size_t left = base_reader_left(&entry);
    const uint8_t *detail = base_reader_bytes(&entry, left);
    if (entry.status != BASE_OK || left > WIRE_REPORT_DETAIL_MAX) {
        return BASE_ERR_CORRUPT;
    }
    out->detail = (struct base_str){(const char *)detail, left};
    return BASE_OK;
}

uint32_t dev_outcomes_ack(struct dev_outcome_queue *queue, uint64_t last_seq)
{
    uint32_t removed = 0;
    while (queue->count > 0 && queue->first_seq <= last_seq) {
        drop_first(queue);
        removed++;
    }
    return removed;
}

static bool entries_ok(const uint8_t *bytes, size_t size, uint32_t count)
{
    struct base_reader reader;
    struct wire_outcome outcome;
    base_reader_init(&reader, bytes, size);
    for (uint32_t i = 0; i < count; i++) {
        if (dev_outcomes_next(&reader, &outcome) != BASE_OK) {
            return false;
        }
    }
    return base_reader_left(&reader) == 0;
}

enum base_status dev_outcomes_restore(struct dev_outcome_queue *queue, const uint8_t *bytes,
                                      size_t size, uint32_t count, uint64_t first_seq)
{
    queue->size = 0;
    queue->count = 0;
    queue->first_seq = first_seq;
    if (!entries_ok(bytes, size, count)) {
        return BASE_ERR_CORRUPT;
    }
    // A smaller queue than the one that was stored keeps the newest.
    while (size > queue->capacity || count > queue->count_max) {
        size_t entry = 1u + bytes[0];
        bytes += entry;
        size -= entry;
        count--;
        queue->first_seq++;
    }
    if (size > 0) {
        memcpy(queue->bytes, bytes, size);
    }
    queue->size = (uint32_t)size;
    queue->count = count;
    return BASE_OK;
}
