// The events of a run: those of the match, of the page visit, or of a span of time, gathered from
// the sequences and encoded in blocks. Called when a start is handed over, on the pipeline's
// thread.
#include "pipeline/pipeline_private.h"

#include "base/check.h"

#include <string.h>

#define SIZE_BYTES    3 // room for the varint in front of a block
#define MISSING_BYTES 8 // room for two blocks of no bytes (tell_missing, tell_timed_out)

// Events on their way into blocks. Views are borrowed from the sequence; nothing is added to it
// meanwhile.
struct gathering {
    struct dev_pipeline *pipeline;
    const struct pipeline_start *start;
    const struct wire_declaration *declaration;
    uint64_t from_ms; // TIME
    uint32_t boot;    // of the block under way
    uint32_t count;   // events of the block under way
    uint32_t skip;    // events to pass over: only the newest are kept
    uint32_t wanted;  // so far, for counting
    size_t used;      // of the input
    bool counting;
    bool full;
};

static void block_end(struct gathering *self)
{
    base_assert(self->used + MISSING_BYTES <= self->pipeline->options.input_bytes);
    struct dev_pipeline *pipeline = self->pipeline;
    size_t capacity = pipeline->options.input_bytes - MISSING_BYTES - self->used;
    uint8_t *out = pipeline->input + self->used;
    size_t size = 0;
    if (self->count == 0 || self->full) {
        return;
    }
    enum base_status status =
        capacity <= SIZE_BYTES
            ? BASE_ERR_TOO_LARGE
            : wire_event_block_encode(
                  &(struct wire_event_list){pipeline->events, self->count, self->boot},
                  out + SIZE_BYTES, capacity - SIZE_BYTES, &size);
    self->count = 0;
    if (status != BASE_OK) {
        self->full = true;
        return;
    }
    struct base_writer writer;
    base_writer_init(&writer, out, SIZE_BYTES);
    base_writer_varint(&writer, size);
    base_check(writer.status == BASE_OK);
    memmove(out + base_writer_size(&writer), out + SIZE_BYTES, size);
    self->used += base_writer_size(&writer) + size;
}

static bool wants(const struct gathering *self, const struct dev_event *event)
{
    const struct pipeline_start *start = self->start;
    switch (self->declaration->events) {
    case WIRE_EVENTS_MATCHED:
        for (uint32_t i = 0; i < start->seq_count; i++) {
            if (start->seqs[i] == event->seq) {
                return true;
            }
        }
        return false;
    case WIRE_EVENTS_VISIT:
        // Of an event outside all visits, it alone: others without one have nothing to do with it.
        return start->visit != 0 ? event->visit == start->visit
                                 : event->seq == (start->timed_out ? start->seqs[0] : start->seq);
    case WIRE_EVENTS_TIME:
        return event->wall_ms >= self->from_ms;
    default:
        return false;
    }
}

static void event_meet(struct gathering *self, const struct dev_event *event)
{
    if (!wants(self, event)) {
        return;
    }
    self->wanted++;
    if (self->counting || self->wanted <= self->skip) {
        return;
    }
    if (self->count == PIPELINE_BLOCK_EVENTS || (self->count > 0 && self->boot != event->boot)) {
        block_end(self);
    }
    self->boot = event->boot;
    base_assert(self->count < PIPELINE_BLOCK_EVENTS);
    dev_event_wire(event, &self->pipeline->events[self->count++]);
}

// All events of the start that are in memory, in order.
static void walk(struct gathering *self)
{
    const struct pipeline_start *start = self->start;
    struct dev_sequence_cursor cursor;
    struct dev_event event;
    self->wanted = 0;
    if (self->declaration->events == WIRE_EVENTS_VISIT && start->visit != 0) {
        dev_sequence_visit(self->pipeline->sequence, start->visit, &cursor);
    } else {
        dev_sequence_range(self->pipeline->sequence, 0, start->seq, &cursor);
    }
    while (dev_sequence_next(&cursor, &event) && event.seq <= start->seq) {
        event_meet(self, &event);
    }
}

// Of stored events the walk is made while the store is being read: a block is ended before its
// views go.
static bool stored_one(void *ctx, const struct dev_event *event)
{
    struct gathering *self = ctx;
    event_meet(self, event);
    block_end(self);
    return !self->full;
}

// Does memory reach back to where what is wanted begins? Of a visit that is its first event; of a
// span of time there must be an older one.
static bool reaches_back(const struct gathering *self)
{
    const struct dev_sequence *sequence = self->pipeline->sequence;
    const struct pipeline_start *start = self->start;
    struct dev_sequence_cursor cursor;
    struct dev_event event;
    if (self->declaration->events == WIRE_EVENTS_VISIT && start->visit != 0) {
        dev_sequence_visit(sequence, start->visit, &cursor);
        return dev_sequence_next(&cursor, &event) && event.kind == DEV_EVENT_ENTER;
    }
    dev_sequence_range(sequence, 0, start->seq, &cursor);
    return self->declaration->events != WIRE_EVENTS_TIME ||
           (dev_sequence_next(&cursor, &event) && event.wall_ms < self->from_ms);
}

static bool in_memory(const struct gathering *self)
{
    struct dev_sequence_cursor cursor;
    struct dev_event event;
    const struct pipeline_start *start = self->start;
    uint64_t first = start->seq;
    if (self->declaration->events == WIRE_EVENTS_MATCHED && start->seq_count > 0) {
        first = start->seqs[0];
    }
    dev_sequence_range(self->pipeline->sequence, first, first, &cursor);
    return dev_sequence_next(&cursor, &event) && reaches_back(self);
}

static void gather(struct gathering *self)
{
    if (in_memory(self)) {
        walk(self);
        block_end(self);
        return;
    }
    // After a restart, when the start waited for long, or when there is more than memory holds.
    const struct pipeline_start *start = self->start;
    const struct dev_sequence_part part = {
        .from_seq = self->declaration->events == WIRE_EVENTS_MATCHED ? start->seqs[0] : 0,
        .to_seq = start->seq,
        .visit = self->declaration->events == WIRE_EVENTS_VISIT ? start->visit : 0};
    self->wanted = 0;
    enum base_status status = dev_sequence_each(self->pipeline->sequence, self->pipeline->now_us,
                                                &part, stored_one, self);
    if (status != BASE_OK) {
        base_log_debug(self->pipeline->options.ports.log, "pipeline", "events cannot be read: %s",
                       base_status_text(status));
    }
}

// Behind the blocks: how many events the version asked for and is not given.
static void tell_missing(struct gathering *self, uint32_t missing)
{
    struct base_writer writer;
    if (missing == 0) {
        return;
    }
    base_writer_init(&writer, self->pipeline->input + self->used, MISSING_BYTES);
    base_writer_varint(&writer, 0);
    base_writer_varint(&writer, missing);
    base_check(writer.status == BASE_OK);
    self->used += base_writer_size(&writer);
}

// Behind that: the run is of a start that no match followed in time. A block of no bytes, and that
// none is missing, which tell_missing does not say.
static void tell_timed_out(struct gathering *self)
{
    if (self->start->timed_out) {
        uint8_t *out = self->pipeline->input + self->used;
        out[0] = 0;
        out[1] = 0;
        self->used += 2;
    }
}

size_t dev_pipeline_input_make(struct dev_pipeline *pipeline, const struct pipeline_start *start,
                               const struct wire_declaration *declaration)
{
    base_assert(pipeline->input != NULL);
    uint32_t most =
        declaration->events_max > 0 ? declaration->events_max : WIRE_DECLARATION_EVENTS_MAX;
    uint64_t span_ms = (uint64_t)declaration->events_s * 1000;
    struct gathering self = {
        .pipeline = pipeline,
        .start = start,
        .declaration = declaration,
        .from_ms = start->wall_ms > span_ms ? start->wall_ms - span_ms : 0,
        .counting = true,
    };
    if (declaration->events == WIRE_EVENTS_NONE) {
        tell_timed_out(&self);
        return self.used;
    }
    gather(&self);
    self.counting = false;
    self.skip = self.wanted > most ? self.wanted - most : 0;
    do {
        self.full = false;
        self.used = 0;
        self.count = 0;
        gather(&self);
        // What does not fit goes at the old end, an eighth at a time.
        self.skip += self.full ? (self.wanted - self.skip) / 8 + 1 : 0;
    } while (self.full && self.skip < self.wanted);
    if (self.full) {
        self.used = 0;
        self.skip = self.wanted;
    }
    // Those that the declaration's own number leaves out nobody misses.
    uint32_t given = self.wanted - self.skip;
    uint32_t asked = declaration->events_max > 0 && self.wanted > most ? most : self.wanted;
    tell_missing(&self, asked > given ? asked - given : 0);
    tell_timed_out(&self);
    return self.used;
}

enum base_status dev_pipeline_past(void *ctx, uint64_t before, struct dev_event *out)
{
    const struct dev_pipeline *pipeline = ctx;
    struct dev_sequence_cursor cursor;
    if (before == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    dev_sequence_latest(pipeline->sequence, before - 1, &cursor);
    return dev_sequence_before(&cursor, out) ? BASE_OK : BASE_ERR_NOT_FOUND;
}
