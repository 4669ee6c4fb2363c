// Windows of a stream: where an element belongs, when a window is answered, and what goes when
// there is no room. Called by stream_events.c for every element and every move of the watermark, on
// the stream's thread.
//
// A node is a pane: the states of all aggregates over one hop of time (HOPPING windows are merged
// from panes), one session, one count or one visit. SLIDING windows and those that hop by count
// keep single events instead and add them up for each answer.
#include "pipeline/stream/event_stream.h"

#include "pipeline/stream/stream_parts.h"

#include "base/check.h"

#include <string.h>

#define NONE DEV_KEYED_NONE

static struct dev_node *node_of(const struct dev_stream *stream, uint32_t node)
{
    base_assert(node < stream->keyed.node_count);
    return dev_keyed_node(&stream->keyed, node);
}

static bool is_paned(const struct dev_stream *stream)
{
    return stream->window.kind == DEV_WINDOW_TUMBLING || stream->window.kind == DEV_WINDOW_HOPPING;
}

// --- answers

static void states_init(const struct dev_stream *stream, uint8_t *states)
{
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct dev_aggregate_spec *spec = &stream->aggregates[i].spec;
        dev_aggregate_init(spec, states);
        states += dev_aggregate_bytes(spec);
    }
}

static void states_merge(const struct dev_stream *stream, uint8_t *states, const uint8_t *from)
{
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct dev_aggregate_spec *spec = &stream->aggregates[i].spec;
        size_t bytes = dev_aggregate_bytes(spec);
        dev_aggregate_merge(spec, states, from);
        states += bytes;
        from += bytes;
    }
}

static void states_add(const struct dev_stream *stream, uint8_t *states,
                       const struct stream_element *element)
{
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct dev_aggregate_spec *spec = &stream->aggregates[i].spec;
        dev_aggregate_add(spec, states, element->values[i], element->seq);
        states += dev_aggregate_bytes(spec);
    }
}

static void items_add(const struct dev_stream *stream, uint8_t *states, struct dev_node *node)
{
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct stream_aggregate *aggregate = &stream->aggregates[i];
        dev_aggregate_item_add(&aggregate->spec, states, stream_states(node) + aggregate->offset,
                               node->first_seq);
        states += dev_aggregate_bytes(&aggregate->spec);
    }
}

// What the answer says of its events.
static void result_count(struct dev_stream_result *result, const struct dev_node *node)
{
    if (result->events == 0 || dev_seq_before(node->first_seq, result->first_seq)) {
        result->first_seq = node->first_seq;
    }
    if (result->events == 0 || dev_seq_before(result->last_seq, node->last_seq)) {
        result->last_seq = node->last_seq;
    }
    result->events += node->events;
}

static struct dev_stream_result result_of(const struct dev_stream *stream, uint64_t start,
                                          uint64_t end, bool complete)
{
    enum dev_window_kind kind = stream->window.kind;
    bool timed = is_paned(stream) || kind == DEV_WINDOW_SLIDING || kind == DEV_WINDOW_SESSION;
    return (struct dev_stream_result){
        .stream = stream,
        .key = dev_value_none(),
        .epoch = stream->epoch,
        .start = start,
        .end = end,
        .time_ms = timed ? end : stream->time_max,
        .revision = stream->last_seq,
        .complete = complete,
        .states = stream->scratch,
    };
}

static void answer(struct dev_stream *stream, uint32_t slot, struct dev_stream_result *result)
{
    base_assert(result->events > 0);
    if (slot != NONE) {
        result->key = dev_cell_get(&stream->keyed.slots[slot].key);
    }
    stream->stats.results++;
    stream->stats.early += !result->complete;
    stream->sink.emit(stream->sink.ctx, result);
}

static void answer_node(struct dev_stream *stream, uint32_t slot, struct dev_node *node,
                        struct dev_stream_result result)
{
    base_assert(!stream->keeps_events && node->events > 0);
    result.states = stream_states(node);
    result_count(&result, node);
    answer(stream, slot, &result);
}

// The window of panes that ends at `end`.
static void answer_panes(struct dev_stream *stream, uint32_t slot, uint64_t end, bool complete)
{
    base_assert(is_paned(stream) && end >= stream->window.size_ms);
    uint64_t start = end - stream->window.size_ms;
    struct dev_stream_result result = result_of(stream, start, end, complete);
    if (stream->window.hop_ms != stream->window.size_ms) {
        states_init(stream, stream->scratch);
    }
    for (uint32_t at = stream->keyed.slots[slot].first; at != NONE;
         at = node_of(stream, at)->next) {
        struct dev_node *node = node_of(stream, at);
        if (node->start < start || node->start >= end) {
            continue;
        }
        result_count(&result, node);
        if (stream->window.hop_ms == stream->window.size_ms) {
            result.states = stream_states(node);
        } else {
            states_merge(stream, stream->scratch, stream_states(node));
        }
    }
    if (result.events > 0) {
        answer(stream, slot, &result);
    }
}

// The events of a key with start in [from, to].
static void answer_events(struct dev_stream *stream, uint32_t slot, uint64_t from, uint64_t to,
                          struct dev_stream_result *result)
{
    base_assert(stream->keeps_events && from <= to);
    states_init(stream, stream->scratch);
    for (uint32_t at = stream->keyed.slots[slot].first; at != NONE;
         at = node_of(stream, at)->next) {
        struct dev_node *node = node_of(stream, at);
        if (node->start > to) {
            break;
        }
        if (node->start >= from) {
            result_count(result, node);
            items_add(stream, stream->scratch, node);
        }
    }
    answer(stream, slot, result);
}

// --- when

// The end of the key's next window to be answered after `fired_to`; UINT64_MAX: none. Window ends
// stand wherever a hop ends, so the search is over panes, not over time.
static uint64_t next_end(const struct dev_stream *stream, uint32_t slot, uint64_t fired_to)
{
    const struct dev_window_spec *window = &stream->window;
    for (uint32_t at = stream->keyed.slots[slot].first; at != NONE;
         at = node_of(stream, at)->next) {
        const struct dev_node *node = node_of(stream, at);
        if (window->kind == DEV_WINDOW_SESSION) {
            return node->end + window->gap_ms; // sessions lie apart: the first ends first
        }
        if (node->start + window->size_ms > fired_to) {
            return (fired_to > node->start ? fired_to : node->start) + window->hop_ms;
        }
    }
    return UINT64_MAX;
}

// When the key has to be looked at next: to answer, or to free its first pane.
static uint64_t key_due(const struct dev_stream *stream, uint32_t slot)
{
    const struct dev_window_spec *window = &stream->window;
    uint64_t due = next_end(stream, slot, stream->fired_to);
    uint32_t first = stream->keyed.slots[slot].first;
    if (is_paned(stream) && first != NONE) {
        uint64_t gone = node_of(stream, first)->start + window->size_ms + window->allowed_ms;
        due = gone < due ? gone : due;
    }
    return due;
}

static void due_set(struct dev_stream *stream)
{
    stream->due = UINT64_MAX;
    if (!is_paned(stream) && stream->window.kind != DEV_WINDOW_SESSION) {
        return;
    }
    for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
        if (stream->keyed.slots[slot].used) {
            uint64_t due = key_due(stream, slot);
            stream->due = due < stream->due ? due : stream->due;
        }
    }
}

static void node_drop_first(struct dev_stream *stream, uint32_t slot)
{
    dev_keyed_node_remove(&stream->keyed, slot, NONE);
}

// All windows that end at `end`, by slot.
static void answer_all_at(struct dev_stream *stream, uint64_t end)
{
    for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
        struct dev_key_slot *key = &stream->keyed.slots[slot];
        if (!key->used || next_end(stream, slot, stream->fired_to) != end) {
            continue;
        }
        if (stream->window.kind == DEV_WINDOW_SESSION) {
            struct dev_node *node = node_of(stream, key->first);
            answer_node(stream, slot, node, result_of(stream, node->start, end, true));
            node_drop_first(stream, slot);
            if (key->nodes == 0) {
                dev_keyed_remove(&stream->keyed, slot);
            }
        } else {
            answer_panes(stream, slot, end, true);
        }
    }
}

static void panes_free(struct dev_stream *stream)
{
    base_assert(is_paned(stream));
    const struct dev_window_spec *window = &stream->window;
    for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
        struct dev_key_slot *key = &stream->keyed.slots[slot];
        while (key->used &&
               node_of(stream, key->first)->start + window->size_ms + window->allowed_ms <=
                   stream->watermark) {
            node_drop_first(stream, slot);
            if (key->nodes == 0) {
                dev_keyed_remove(&stream->keyed, slot);
            }
        }
    }
}

void stream_window_advance(struct dev_stream *stream)
{
    for (;;) {
        uint64_t end = UINT64_MAX;
        for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
            if (stream->keyed.slots[slot].used) {
                uint64_t own = next_end(stream, slot, stream->fired_to);
                end = own < end ? own : end;
            }
        }
        if (end > stream->watermark) {
            break;
        }
        answer_all_at(stream, end);
        stream->fired_to = is_paned(stream) ? end : 0;
    }
    if (is_paned(stream)) {
        stream->fired_to = stream->watermark - stream->watermark % stream->window.hop_ms;
        panes_free(stream);
    }
    due_set(stream);
}

// --- room

// Answers all that is open of a key, early; single events are dropped.
static void key_flush(struct dev_stream *stream, uint32_t slot)
{
    struct dev_key_slot *key = &stream->keyed.slots[slot];
    if (is_paned(stream)) {
        uint64_t fired_to = stream->fired_to;
        uint64_t end = next_end(stream, slot, fired_to);
        while (end != UINT64_MAX) {
            answer_panes(stream, slot, end, false);
            fired_to = end;
            end = next_end(stream, slot, fired_to);
        }
    } else if (stream->keeps_events) {
        stream->stats.dropped += key->nodes;
    } else {
        for (uint32_t at = key->first; at != NONE; at = node_of(stream, at)->next) {
            struct dev_node *node = node_of(stream, at);
            uint64_t end = node->end + stream->window.gap_ms; // gap: SESSION only
            answer_node(stream, slot, node, result_of(stream, node->start, end, false));
        }
    }
}

// SLIDING: events no later window can hold.
static void slide_expire(struct dev_stream *stream, uint32_t slot)
{
    base_assert(stream->window.kind == DEV_WINDOW_SLIDING);
    struct dev_key_slot *key = &stream->keyed.slots[slot];
    while (key->first != NONE &&
           node_of(stream, key->first)->start + stream->window.size_ms <= stream->watermark) {
        node_drop_first(stream, slot);
    }
}

static void key_evict(struct dev_stream *stream, uint32_t slot)
{
    base_assert(slot < stream->keyed.slot_count && stream->keyed.slots[slot].used);
    if (stream->window.kind == DEV_WINDOW_SLIDING) {
        slide_expire(stream, slot);
    }
    if (stream->keyed.slots[slot].nodes > 0) {
        stream->stats.evicted_keys++;
        key_flush(stream, slot);
    }
    dev_keyed_remove(&stream->keyed, slot);
}

static uint32_t slot_take(struct dev_stream *stream, struct dev_value key)
{
    uint32_t slot = dev_keyed_find(&stream->keyed, key);
    if (slot != NONE) {
        dev_keyed_touch(&stream->keyed, slot);
        return slot;
    }
    if (dev_keyed_full(&stream->keyed)) {
        key_evict(stream, stream->keyed.oldest);
    }
    return dev_keyed_insert(&stream->keyed, key);
}

// The oldest node of a key that has all it may have.
static void oldest_cut(struct dev_stream *stream, uint32_t slot)
{
    struct dev_key_slot *key = &stream->keyed.slots[slot];
    base_assert(key->nodes > 0 && key->nodes <= stream->key_nodes_max);
    struct dev_node *node = node_of(stream, key->first);
    if (stream->keeps_events) {
        bool expected = stream->window.kind == DEV_WINDOW_COUNT;
        stream->stats.dropped += !expected;
        key->dropped_at = node->start;
        key->since |= expected ? 0 : 1u;
    } else {
        uint64_t end = node->end + stream->window.gap_ms; // gap: SESSION only
        answer_node(stream, slot, node, result_of(stream, node->start, end, false));
    }
    node_drop_first(stream, slot);
}

// A node of `slot`, which is the newest key and stays.
static struct dev_node *node_take(struct dev_stream *stream, uint32_t slot, uint64_t start,
                                  uint64_t seq)
{
    struct dev_key_slot *key = &stream->keyed.slots[slot];
    if (key->nodes >= stream->key_nodes_max) {
        oldest_cut(stream, slot);
    }
    while (!dev_keyed_nodes_left(&stream->keyed)) {
        base_check(stream->keyed.oldest != slot);
        key_evict(stream, stream->keyed.oldest);
    }
    struct dev_node *node = node_of(stream, dev_keyed_node_add(&stream->keyed, slot, start, seq));
    if (!stream->keeps_events) {
        states_init(stream, stream_states(node));
    }
    return node;
}

static void node_add(struct dev_stream *stream, struct dev_node *node,
                     const struct stream_element *element)
{
    base_assert(!stream->keeps_events);
    states_add(stream, stream_states(node), element);
    node->events++;
    if (dev_seq_before(node->last_seq, element->seq)) {
        node->last_seq = element->seq;
    }
}

// --- where an element belongs

static void paned_add(struct dev_stream *stream, const struct stream_element *element)
{
    const struct dev_window_spec *window = &stream->window;
    base_assert(window->hop_ms > 0 && window->size_ms % window->hop_ms == 0);
    uint64_t start = element->time - element->time % window->hop_ms;
    // Nothing was due meanwhile, so everything up to the watermark counts as answered.
    stream->fired_to = stream->watermark - stream->watermark % window->hop_ms;
    if (start + window->size_ms + window->allowed_ms <= stream->watermark) {
        stream->stats.late++;
        return;
    }
    uint32_t slot = slot_take(stream, element->key);
    uint32_t at = stream->keyed.slots[slot].last; // mostly the newest pane
    if (at == NONE || node_of(stream, at)->start != start) {
        at = stream->keyed.slots[slot].first;
        while (at != NONE && node_of(stream, at)->start != start) {
            at = node_of(stream, at)->next;
        }
    }
    struct dev_node *node =
        at != NONE ? node_of(stream, at) : node_take(stream, slot, start, element->seq);
    node_add(stream, node, element);
    for (uint64_t end = start + window->hop_ms; end <= start + window->size_ms;
         end += window->hop_ms) {
        if (end <= stream->watermark && end + window->allowed_ms > stream->watermark) {
            answer_panes(stream, slot, end, true);
        }
    }
    uint64_t due = key_due(stream, slot);
    stream->due = due < stream->due ? due : stream->due;
}

// The session node that `time` is part of, and the one before it; NONE: none.
static uint32_t session_find(const struct dev_stream *stream, uint32_t slot, uint64_t time,
                             uint32_t *out_before)
{
    uint64_t gap = stream->window.gap_ms;
    *out_before = NONE;
    for (uint32_t at = stream->keyed.slots[slot].first; at != NONE;
         at = node_of(stream, at)->next) {
        const struct dev_node *node = node_of(stream, at);
        if (time < node->end + gap && time + gap > node->start) {
            return at;
        }
        *out_before = at;
    }
    return NONE;
}

// A session that now reaches the next one takes it in.
static void session_join(struct dev_stream *stream, uint32_t slot, uint32_t at)
{
    base_assert(stream->window.kind == DEV_WINDOW_SESSION);
    struct dev_node *node = node_of(stream, at);
    if (node->next == NONE) {
        return;
    }
    struct dev_node *next = node_of(stream, node->next);
    if (next->start >= node->end + stream->window.gap_ms) {
        return;
    }
    states_merge(stream, stream_states(node), stream_states(next));
    node->events += next->events;
    node->end = next->end > node->end ? next->end : node->end;
    node->first_seq =
        dev_seq_before(next->first_seq, node->first_seq) ? next->first_seq : node->first_seq;
    node->last_seq =
        dev_seq_before(node->last_seq, next->last_seq) ? next->last_seq : node->last_seq;
    dev_keyed_node_remove(&stream->keyed, slot, at);
}

static void session_add(struct dev_stream *stream, const struct stream_element *element)
{
    uint64_t time = element->time;
    uint32_t before = NONE;
    uint32_t slot = dev_keyed_find(&stream->keyed, element->key);
    uint32_t at = slot != NONE ? session_find(stream, slot, time, &before) : NONE;
    if (at == NONE && time + stream->window.gap_ms <= stream->watermark) {
        stream->stats.late++;
        return;
    }
    slot = slot_take(stream, element->key);
    struct dev_node *node =
        at != NONE ? node_of(stream, at) : node_take(stream, slot, time, element->seq);
    node_add(stream, node, element);
    node->start = time < node->start ? time : node->start;
    node->end = time > node->end ? time : node->end;
    if (at != NONE) {
        session_join(stream, slot, at);
    }
    uint64_t due = key_due(stream, slot);
    stream->due = due < stream->due ? due : stream->due;
}

static struct dev_node *event_keep(struct dev_stream *stream, uint32_t slot, uint64_t start,
                                   const struct stream_element *element)
{
    base_assert(stream->keeps_events);
    struct dev_node *node = node_take(stream, slot, start, element->seq);
    node->events = 1;
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct stream_aggregate *aggregate = &stream->aggregates[i];
        dev_aggregate_item_set(&aggregate->spec, stream_states(node) + aggregate->offset,
                               element->values[i]);
    }
    return node;
}

static void count_add(struct dev_stream *stream, const struct stream_element *element)
{
    const struct dev_window_spec *window = &stream->window;
    base_assert(stream->keeps_events == (window->hop_count != 0));
    uint32_t slot = slot_take(stream, element->key);
    struct dev_key_slot *key = &stream->keyed.slots[slot];
    uint64_t number = stream->stats.elements;
    if (window->hop_count != 0) {
        (void)event_keep(stream, slot, number, element);
        if (++key->since >= window->hop_count) {
            key->since = 0;
            uint64_t first = node_of(stream, key->first)->start;
            struct dev_stream_result result = result_of(stream, first, number, true);
            answer_events(stream, slot, first, number, &result);
        }
        return;
    }
    struct dev_node *node = key->first != NONE ? node_of(stream, key->first)
                                               : node_take(stream, slot, number, element->seq);
    node_add(stream, node, element);
    node->end = number;
    if (node->events >= window->count) {
        answer_node(stream, slot, node, result_of(stream, node->start, number, true));
        dev_keyed_remove(&stream->keyed, slot);
    }
}

static void page_add(struct dev_stream *stream, const struct stream_element *element)
{
    if (element->visit == 0) {
        stream->stats.outside++;
        return;
    }
    uint32_t slot = slot_take(stream, element->key);
    uint32_t at = stream->keyed.slots[slot].first;
    while (at != NONE && node_of(stream, at)->start != element->visit) {
        at = node_of(stream, at)->next;
    }
    struct dev_node *node =
        at != NONE ? node_of(stream, at) : node_take(stream, slot, element->visit, element->seq);
    node_add(stream, node, element);
}

static void slide_add(struct dev_stream *stream, const struct stream_element *element)
{
    if (element->time < stream->watermark) {
        stream->stats.late++;
        return;
    }
    uint32_t slot = slot_take(stream, element->key);
    slide_expire(stream, slot);
    (void)event_keep(stream, slot, element->time, element);
}

void stream_window_slide(struct dev_stream *stream, struct dev_value key, uint64_t time)
{
    uint32_t slot = dev_keyed_find(&stream->keyed, key);
    if (slot == NONE || time < stream->watermark) {
        return;
    }
    const struct dev_key_slot *own = &stream->keyed.slots[slot];
    uint64_t size = stream->window.size_ms;
    uint64_t from = time >= size ? time - size + 1 : 0;
    bool complete = own->since == 0 || own->dropped_at < from;
    struct dev_stream_result result =
        result_of(stream, time >= size ? time - size : 0, time, complete);
    answer_events(stream, slot, from, time, &result);
}

void stream_window_add(struct dev_stream *stream, const struct stream_element *element)
{
    switch (stream->window.kind) {
    case DEV_WINDOW_TUMBLING:
    case DEV_WINDOW_HOPPING:
        paned_add(stream, element);
        break;
    case DEV_WINDOW_SESSION:
        session_add(stream, element);
        break;
    case DEV_WINDOW_SLIDING:
        slide_add(stream, element);
        break;
    case DEV_WINDOW_COUNT:
        count_add(stream, element);
        break;
    case DEV_WINDOW_PAGE:
        page_add(stream, element);
        break;
    default: {
        base_assert(stream->window.kind == DEV_WINDOW_EACH);
        uint64_t number = stream->stats.elements;
        struct dev_stream_result result = result_of(stream, number, number, true);
        states_init(stream, stream->scratch);
        states_add(stream, stream->scratch, element);
        result.key = element->key;
        result.first_seq = element->seq;
        result.last_seq = element->seq;
        result.events = 1;
        answer(stream, NONE, &result);
        break;
    }
    }
}

// --- ends from outside

void dev_stream_on_visit_end(struct dev_stream *stream, uint32_t visit)
{
    if (stream->window.kind != DEV_WINDOW_PAGE) {
        return;
    }
    for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
        struct dev_key_slot *key = &stream->keyed.slots[slot];
        uint32_t before = NONE;
        uint32_t at = key->used ? key->first : NONE;
        while (at != NONE && node_of(stream, at)->start != visit) {
            before = at;
            at = node_of(stream, at)->next;
        }
        if (at != NONE) {
            answer_node(stream, slot, node_of(stream, at), result_of(stream, visit, visit, true));
            dev_keyed_node_remove(&stream->keyed, slot, before);
            if (key->nodes == 0) {
                dev_keyed_remove(&stream->keyed, slot);
            }
        }
    }
}

void stream_window_flush(struct dev_stream *stream)
{
    for (uint32_t slot = 0; slot < stream->keyed.slot_count; slot++) {
        if (stream->keyed.slots[slot].used) {
            key_flush(stream, slot);
        }
    }
    dev_keyed_clear(&stream->keyed);
    stream->due = UINT64_MAX;
}

void dev_stream_flush(struct dev_stream *stream)
{
    stream_window_flush(stream);
    (void)dev_join_clear(&stream->join);
}
