// Pending starts and their ends; the rules are in timeouts.h. Called by the pipeline on its thread:
// by pipeline_starts.c at events and when its clock moves, by pipeline_tasks.c when tasks change
// and when the trigger engine's state is stored; declaration_check.c asks on any thread for what a
// pattern's time-out costs. At most DEV_TIMEOUTS_MAX are pending, in a plain array that is
// searched: it is short, and looked at only for patterns that ask for their time-outs.
#include "pipeline/trigger/timeouts.h"

#include "base/check.h"
#include "base/prng.h"

#include <string.h>

#define OPENING_MARK 0x6f70656e696e67ull // tells an opening's key from its pattern's

// ---- What a pattern asks for

static void opening_of(const struct dev_pattern *pattern, struct dev_pattern *out)
{
    base_assert(pattern->step_count > 0 && pattern->literal_count >= pattern->step_count);
    *out = (struct dev_pattern){.step_count = 1, .literal_count = 1, .page = pattern->page};
    struct dev_pattern_literal *literal = &out->literals[0];
    *literal = pattern->literals[0];
    literal->any_item = literal->any_item || (literal->marked && literal->item.size == 0);
    literal->marked = false; // there is nothing to be the same as
    literal->test_first = 0;
    out->test_count = literal->test_count;
    memcpy(out->tests, pattern->tests + pattern->literals[0].test_first,
           literal->test_count * sizeof(out->tests[0]));
}

enum base_status dev_timeout_ask(struct base_str pattern, char *text, size_t capacity,
                                 struct dev_timeout_ask *out)
{
    struct dev_pattern parsed;
    struct dev_pattern opening;
    size_t size = 0;
    BASE_TRY(dev_pattern_parse(pattern, &parsed, NULL));
    if (!parsed.timeout) {
        return BASE_ERR_NOT_FOUND;
    }
    opening_of(&parsed, &opening);
    if (dev_pattern_print(&opening, text, capacity, &size) != BASE_OK) {
        return BASE_ERR_NOMEM;
    }
    *out = (struct dev_timeout_ask){.within_ms = parsed.within_ms,
                                    .by_item = parsed.literals[0].marked,
                                    .opening = {text, size}};
    return BASE_OK;
}

uint64_t dev_timeout_key(uint64_t source_key)
{
    return base_mix64(source_key ^ OPENING_MARK);
}

// ---- Coming and going

static uint64_t due_us(const struct dev_timeout *timeout, struct dev_timeout_now now)
{
    uint64_t left_ms = timeout->due_wall_ms > now.wall_ms ? timeout->due_wall_ms - now.wall_ms : 0;
    left_ms = left_ms < timeout->within_ms ? left_ms : timeout->within_ms;
    return now.us + (left_ms + 1) * 1000;
}

static void take_out(struct dev_timeouts *timeouts, uint32_t at)
{
    base_assert(at < timeouts->count);
    timeouts->count--;
    memmove(&timeouts->items[at], &timeouts->items[at + 1],
            (timeouts->count - at) * sizeof(timeouts->items[0]));
}

static uint32_t count_of(const struct dev_timeouts *timeouts, uint64_t key)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < timeouts->count; i++) {
        count += timeouts->items[i].key == key;
    }
    return count;
}

// Of the pattern with most starts the one that has waited longest: a pattern that opens many takes
// no other's place.
static uint32_t who_gives_way(const struct dev_timeouts *timeouts)
{
    uint32_t found = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < timeouts->count; i++) {
        uint32_t count = count_of(timeouts, timeouts->items[i].key);
        found = count > most ? i : found;
        most = count > most ? count : most;
    }
    return found;
}

struct dev_timeout dev_timeout_of(const struct dev_event *event,
                                  const struct dev_trigger_fired *opening,
                                  const struct dev_timeout_ask *ask, struct dev_timeout_now now)
{
    base_assert(opening->seq == event->seq);
    struct dev_timeout timeout = {.key = opening->key,
                                  .seq = opening->seq,
                                  .item_hash = ask->by_item ? event->item_hash : 0,
                                  .due_wall_ms = event->wall_ms + ask->within_ms,
                                  .within_ms = ask->within_ms,
                                  .visit = event->visit};
    timeout.due_us = due_us(&timeout, now);
    return timeout;
}

bool dev_timeouts_open(struct dev_timeouts *timeouts, const struct dev_timeout *start,
                       struct dev_timeout *out_dropped)
{
    bool full = timeouts->count == DEV_TIMEOUTS_MAX;
    if (full) {
        uint32_t at = who_gives_way(timeouts);
        *out_dropped = timeouts->items[at];
        take_out(timeouts, at);
    }
    base_assert(timeouts->count < DEV_TIMEOUTS_MAX);
    timeouts->items[timeouts->count++] = *start;
    return full;
}

void dev_timeouts_match(struct dev_timeouts *timeouts, const struct dev_event *event,
                        const struct dev_trigger_fired *match)
{
    uint64_t key = dev_timeout_key(match->key);
    for (uint32_t i = timeouts->count; i-- > 0;) {
        const struct dev_timeout *timeout = &timeouts->items[i];
        bool other_visit = match->visit != 0 && timeout->visit != match->visit;
        bool other_item = timeout->item_hash != 0 && timeout->item_hash != match->item_hash;
        bool too_late = event->wall_ms > timeout->due_wall_ms;
        if (timeout->key == key && !other_visit && !other_item && !too_late) {
            take_out(timeouts, i);
        }
    }
}

bool dev_timeouts_over(struct dev_timeouts *timeouts, uint64_t now_us, struct dev_timeout *out)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < timeouts->count; i++) {
        if (timeouts->items[i].due_us <= now_us &&
            (first == UINT32_MAX || timeouts->items[i].due_us < timeouts->items[first].due_us)) {
            first = i;
        }
    }
    if (first == UINT32_MAX) {
        return false;
    }
    *out = timeouts->items[first];
    take_out(timeouts, first);
    return true;
}

uint64_t dev_timeouts_due(const struct dev_timeouts *timeouts)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < timeouts->count; i++) {
        due = timeouts->items[i].due_us < due ? timeouts->items[i].due_us : due;
    }
    return due;
}

void dev_timeouts_keep(struct dev_timeouts *timeouts, bool (*is_asked)(void *ctx, uint64_t key),
                       void *ctx)
{
    for (uint32_t i = timeouts->count; i-- > 0;) {
        if (!is_asked(ctx, timeouts->items[i].key)) {
            take_out(timeouts, i);
        }
    }
}

// ---- Stored

void dev_timeouts_write(const struct dev_timeouts *timeouts, struct base_writer *writer)
{
    base_assert(timeouts->count <= DEV_TIMEOUTS_MAX);
    base_writer_varint(writer, timeouts->count);
    for (uint32_t i = 0; i < timeouts->count; i++) {
        const struct dev_timeout *timeout = &timeouts->items[i];
        base_writer_u64(writer, timeout->key);
        base_writer_u64(writer, timeout->seq);
        base_writer_u64(writer, timeout->item_hash);
        base_writer_varint(writer, timeout->due_wall_ms);
        base_writer_varint(writer, timeout->within_ms);
        base_writer_varint(writer, timeout->visit);
    }
}

void dev_timeouts_read(struct dev_timeouts *timeouts, struct dev_timeout_now now,
                       struct base_reader *reader)
{
    uint32_t count = (uint32_t)base_reader_varint_max(reader, DEV_TIMEOUTS_MAX);
    timeouts->count = 0;
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        struct dev_timeout timeout = {.key = base_reader_u64(reader)};
        timeout.seq = base_reader_u64(reader);
        timeout.item_hash = base_reader_u64(reader);
        timeout.due_wall_ms = base_reader_varint(reader);
        timeout.within_ms = (uint32_t)base_reader_varint_max(reader, DEV_PATTERN_WITHIN_MAX_MS);
        timeout.visit = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
        timeout.due_us = due_us(&timeout, now);
        timeouts->items[timeouts->count++] = timeout;
    }
    timeouts->count = reader->status == BASE_OK ? timeouts->count : 0;
}
