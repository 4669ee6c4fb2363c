// Events on their way through a stream: order and time, Join, Map; the windows are in
// stream_window.c. On the stream's thread: a script's aggregates (vm/vm_aggregate.c) and the
// benchmarks (bench/ipv) feed each event with the sides of the join that their filters found. An
// event is taken in once: one that is not newer, by seq, is dropped before it moves the watermark.
// A clock that was set back ends what waits for partners.
#include "pipeline/stream/event_stream.h"

#include "pipeline/stream/event_predicate.h"
#include "pipeline/stream/stream_parts.h"

#include "base/check.h"

static bool has_time(const struct dev_stream *stream)
{
    enum dev_window_kind kind = stream->window.kind;
    return kind == DEV_WINDOW_TUMBLING || kind == DEV_WINDOW_HOPPING ||
           kind == DEV_WINDOW_SLIDING || kind == DEV_WINDOW_SESSION;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static bool join_missed(const struct dev_stream *stream, uint64_t time)
{
    return less(time, stream->within_ms) < stream->join.gone_ms;
}

// The clock was set back: what waits for partners by the old clock finds none by the new one.
static void join_restart(struct dev_stream *stream, uint64_t time)
{
    stream->stats.join_late += join_missed(stream, time);
    stream->stats.join_dropped += dev_join_clear(&stream->join);
}

// The time of an event moves the watermark, or shows that the clock was set back.
static void time_take(struct dev_stream *stream, uint64_t time)
{
    const struct dev_window_spec *window = &stream->window;
    uint64_t slack = window->lateness_ms + window->allowed_ms + stream->within_ms;
    if (time + slack + DEV_STREAM_STEP_MS <= stream->time_max) {
        stream->stats.clock_steps++;
        if (has_time(stream)) {
            stream_window_flush(stream);
            stream->epoch++;
        }
        join_restart(stream, time);
        stream->time_max = time;
        stream->watermark = less(time, window->lateness_ms);
        stream->fired_to = 0;
        return;
    }
    if (time > stream->time_max) {
        stream->time_max = time;
    }
    base_assert(stream->watermark <= stream->time_max);
    uint64_t watermark = less(stream->time_max, window->lateness_ms);
    if (watermark > stream->watermark) {
        stream->watermark = watermark;
    }
    if (stream->watermark >= stream->due) {
        stream_window_advance(stream);
    }
}

// A key, or NONE when the event has none that can be kept.
static struct dev_value key_of(const uint8_t *program, const struct dev_event *event)
{
    struct dev_value key = dev_predicate_value(program, event, NULL);
    if (key.type == DEV_VALUE_TEXT && key.text.size > DEV_VALUE_TEXT_MAX) {
        return dev_value_none();
    }
    return key;
}

static void element_take(struct dev_stream *stream, const struct dev_event *event,
                         const struct dev_event *other, struct stream_element *element)
{
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const uint8_t *value = stream->aggregates[i].value;
        uint32_t same = stream->aggregates[i].same;
        base_assert(same <= i);
        if (same < i) {
            element->values[i] = element->values[same];
        } else {
            element->values[i] =
                value != NULL ? dev_predicate_value(value, event, other) : dev_value_none();
        }
    }
    stream->stats.elements++;
    stream_window_add(stream, element);
}

static void single_take(struct dev_stream *stream, const struct dev_event *event,
                        struct stream_element *element)
{
    element->key = dev_value_none();
    if (stream->key != NULL) {
        element->key = key_of(stream->key, event);
        if (element->key.type == DEV_VALUE_NONE) {
            stream->stats.keyless++;
            return;
        }
    }
    element_take(stream, event, NULL, element);
    if (stream->window.kind == DEV_WINDOW_SLIDING) {
        stream_window_slide(stream, element->key, element->time);
    }
}

// --- join

static bool near(uint64_t a, uint64_t b, uint64_t within)
{
    return (a > b ? a - b : b - a) <= within;
}

static void pair_take(struct dev_stream *stream, const struct dev_event *left,
                      const struct dev_event *right, struct stream_element *element,
                      uint32_t *pairs)
{
    if (stream->where != NULL) {
        struct dev_value truth = dev_predicate_value(stream->where, left, right);
        if (truth.type != DEV_VALUE_BOOLEAN || truth.integer == 0) {
            return;
        }
    }
    element_take(stream, left, right, element);
    (*pairs)++;
}

// Pairs of an event that comes into the join with those that wait there.
static void pairs_take(struct dev_stream *stream, const struct dev_join_entry *own,
                       struct stream_element *element)
{
    uint32_t sides = own->sides;
    base_assert(sides != 0 && stream->joined);
    uint32_t at = 0;
    uint32_t left_pairs = 0;
    uint32_t right_pairs = 0;
    struct dev_join_entry entry;
    while (dev_join_next(&stream->join, &at, &entry)) {
        uint64_t time = entry.event.wall_ms;
        if (!near(time, element->time, stream->within_ms)) {
            continue;
        }
        if ((sides & DEV_JOIN_LEFT) != 0 && (entry.sides & DEV_JOIN_RIGHT) != 0 &&
            dev_value_equal(own->left_key, entry.right_key)) {
            element->key = own->left_key;
            pair_take(stream, &own->event, &entry.event, element, &left_pairs);
        }
        if ((sides & DEV_JOIN_RIGHT) != 0 && (entry.sides & DEV_JOIN_LEFT) != 0 &&
            dev_value_equal(own->right_key, entry.left_key)) {
            element->key = own->right_key;
            pair_take(stream, &entry.event, &own->event, element, &right_pairs);
        }
    }
    if (stream->window.kind != DEV_WINDOW_SLIDING) {
        return;
    }
    if (left_pairs > 0) { // an event on both sides may have two keys; both windows end here
        stream_window_slide(stream, own->left_key, element->time);
    }
    if (right_pairs > 0 && (left_pairs == 0 || !dev_value_equal(own->left_key, own->right_key))) {
        stream_window_slide(stream, own->right_key, element->time);
    }
}

static void join_take(struct dev_stream *stream, const struct dev_event *event, uint32_t asked,
                      struct stream_element *element)
{
    base_assert(stream->joined && stream->key != NULL && stream->join_key != NULL);
    uint32_t sides = 0;
    struct dev_value left_key = dev_value_none();
    struct dev_value right_key = dev_value_none();
    if ((asked & DEV_STREAM_OWN) != 0) {
        left_key = key_of(stream->key, event);
        sides |= left_key.type != DEV_VALUE_NONE ? DEV_JOIN_LEFT : 0;
    }
    if ((asked & DEV_STREAM_OTHER) != 0) {
        right_key = key_of(stream->join_key, event);
        sides |= right_key.type != DEV_VALUE_NONE ? DEV_JOIN_RIGHT : 0;
    }
    stream->stats.keyless += sides != asked;
    dev_join_expire(&stream->join,
                    less(stream->time_max, stream->within_ms + stream->window.lateness_ms));
    if (sides == 0) {
        return;
    }
    stream->stats.join_late += join_missed(stream, element->time);
    struct dev_join_entry own = {
        .event = *event, .sides = sides, .left_key = left_key, .right_key = right_key};
    pairs_take(stream, &own, element);
    own.event.wall_ms = element->time;
    uint32_t dropped = dev_join_put(&stream->join, &own.event, sides, left_key, right_key);
    stream->stats.join_dropped += dropped == UINT32_MAX ? 1 : dropped;
}

// --- entry points

_Static_assert(DEV_STREAM_OWN == DEV_JOIN_LEFT && DEV_STREAM_OTHER == DEV_JOIN_RIGHT, "sides");

// True: the event is new, and its time was taken in.
static bool event_take(struct dev_stream *stream, const struct dev_event *event,
                       struct stream_element *element)
{
    if (stream->seen && !dev_seq_before(stream->last_seq, event->seq)) {
        stream->stats.duplicates++;
        return false;
    }
    stream->seen = true;
    stream->stats.events++;
    stream->last_seq = event->seq;
    element->time = event->wall_ms < DEV_STREAM_TIME_MAX ? event->wall_ms : DEV_STREAM_TIME_MAX;
    element->seq = event->seq;
    element->visit = event->visit;
    time_take(stream, element->time);
    return true;
}

void dev_stream_feed(struct dev_stream *stream, const struct dev_event *event, uint32_t sides)
{
    base_assert((sides & ~(DEV_STREAM_OWN | DEV_STREAM_OTHER)) == 0);
    struct stream_element element;
    if (!event_take(stream, event, &element)) {
        return;
    }
    if (stream->joined) {
        join_take(stream, event, sides, &element);
    } else if ((sides & DEV_STREAM_OWN) != 0) {
        single_take(stream, event, &element);
    }
    if (event->kind == DEV_EVENT_EXIT && event->visit != 0) {
        dev_stream_on_visit_end(stream, event->visit);
    }
}
