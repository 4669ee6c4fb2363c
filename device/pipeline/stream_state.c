// The state of a stream as bytes, so that it survives a kill. Called by who persists it, on the
// stream's thread.
//
//   u8 version, u64 fingerprint of the declaration, u8 seen, varint last_seq, time_max, watermark,
//   fired_to, epoch, the fields of the stats, varint keys, each, least recently used first: varint
//   slot, cell, varint since, dropped_at, nodes, each: varint start, zigzag end - start, first_seq,
//   last_seq, events, states or items; of the join varint gone_ms and its events; u64 hash of all
//   before
#include "pipeline/event_stream.h"

#include "pipeline/stream_parts.h"

#include "base/hash.h"

#include <string.h>

#define STATE_VERSION 2
#define HASH_BYTES    8
#define HASH_SEED     UINT64_C(0x57a11e5727ea3501)

_Static_assert(sizeof(struct dev_stream_stats) == DEV_STREAM_STATS * sizeof(uint64_t),
               "stats are numbers, one behind the other");

static void node_encode(const struct dev_stream *stream, struct dev_node *node,
                        struct base_writer *writer)
{
    base_writer_varint(writer, node->start);
    base_writer_zigzag(writer, (int64_t)(node->end - node->start));
    base_writer_varint(writer, node->first_seq);
    base_writer_varint(writer, node->last_seq);
    base_writer_varint(writer, node->events);
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct stream_aggregate *aggregate = &stream->aggregates[i];
        const void *state = stream_states(node) + aggregate->offset;
        if (stream->keeps_events) {
            dev_aggregate_item_encode(&aggregate->spec, state, writer);
        } else {
            dev_aggregate_encode(&aggregate->spec, state, writer);
        }
    }
}

static void key_encode(const struct dev_stream *stream, uint32_t slot, struct base_writer *writer)
{
    const struct dev_key_slot *key = &stream->keyed.slots[slot];
    base_writer_varint(writer, slot);
    dev_cell_encode(writer, &key->key);
    base_writer_varint(writer, key->since);
    base_writer_varint(writer, key->dropped_at);
    base_writer_varint(writer, key->nodes);
    for (uint32_t at = key->first; at != DEV_KEYED_NONE;) {
        struct dev_node *node = dev_keyed_node(&stream->keyed, at);
        node_encode(stream, node, writer);
        at = node->next;
    }
}

enum base_status dev_stream_state_encode(const struct dev_stream *stream, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    uint64_t stats[DEV_STREAM_STATS];
    memcpy(stats, &stream->stats, sizeof(stats));
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, STATE_VERSION);
    base_writer_u64(&writer, stream->fingerprint);
    base_writer_u8(&writer, stream->seen);
    base_writer_varint(&writer, stream->last_seq);
    base_writer_varint(&writer, stream->time_max);
    base_writer_varint(&writer, stream->watermark);
    base_writer_varint(&writer, stream->fired_to);
    base_writer_varint(&writer, stream->epoch);
    for (size_t i = 0; i < DEV_STREAM_STATS; i++) {
        base_writer_varint(&writer, stats[i]);
    }
    base_writer_varint(&writer, stream->keyed.keys);
    for (uint32_t slot = stream->keyed.oldest; slot != DEV_KEYED_NONE;
         slot = stream->keyed.slots[slot].newer) {
        key_encode(stream, slot, &writer);
    }
    dev_join_encode(&stream->join, &writer);
    BASE_TRY(writer.status);
    base_writer_u64(&writer, base_hash64_seed(out, base_writer_size(&writer), HASH_SEED));
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

// Reads a node and puts it in its place; the reader fails when that is not the last.
static void node_decode(struct dev_stream *stream, uint32_t slot, struct base_reader *reader)
{
    uint64_t start = base_reader_varint_max(reader, DEV_STREAM_TIME_MAX);
    int64_t length = base_reader_zigzag(reader);
    uint64_t first_seq = base_reader_varint(reader);
    const struct dev_key_slot *key = &stream->keyed.slots[slot];
    const struct dev_node *last =
        key->last != DEV_KEYED_NONE ? dev_keyed_node(&stream->keyed, key->last) : NULL;
    // Panes, sessions, counts and visits differ in where they start; events come by seq.
    bool ordered = last == NULL || last->start < start ||
                   (stream->keeps_events && last->start == start &&
                    !dev_seq_before(first_seq, last->first_seq));
    bool aligned = stream->window.hop_ms == 0 || start % stream->window.hop_ms == 0;
    if (reader->status != BASE_OK || !ordered || !aligned || length < 0 ||
        length > (int64_t)DEV_STREAM_TIME_MAX || !dev_keyed_nodes_left(&stream->keyed)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    struct dev_node *node =
        dev_keyed_node(&stream->keyed, dev_keyed_node_add(&stream->keyed, slot, start, first_seq));
    node->end = start + (uint64_t)length;
    node->last_seq = base_reader_varint(reader);
    node->events = base_reader_varint(reader);
    for (uint32_t i = 0; i < stream->aggregate_count; i++) {
        const struct stream_aggregate *aggregate = &stream->aggregates[i];
        void *state = stream_states(node) + aggregate->offset;
        if (stream->keeps_events) {
            dev_aggregate_item_decode(&aggregate->spec, state, reader);
        } else {
            dev_aggregate_decode(&aggregate->spec, state, reader);
        }
    }
    if (node->events == 0 || dev_seq_before(node->last_seq, node->first_seq)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static void key_decode(struct dev_stream *stream, struct base_reader *reader)
{
    struct dev_cell key;
    uint32_t slot = (uint32_t)base_reader_varint_max(reader, stream->keyed.slot_count - 1);
    dev_cell_decode(reader, &key);
    uint64_t since = base_reader_varint_max(reader, UINT32_MAX);
    uint64_t dropped_at = base_reader_varint_max(reader, DEV_STREAM_TIME_MAX);
    uint64_t nodes = base_reader_varint_max(reader, stream->key_nodes_max);
    bool keyed = stream->key != NULL;
    if (reader->status != BASE_OK || stream->keyed.slots[slot].used ||
        keyed != (key.type != DEV_VALUE_NONE) || nodes == 0 ||
        dev_keyed_find(&stream->keyed, dev_cell_get(&key)) != DEV_KEYED_NONE) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    dev_keyed_insert_at(&stream->keyed, slot, dev_cell_get(&key));
    stream->keyed.slots[slot].since = (uint32_t)since;
    stream->keyed.slots[slot].dropped_at = dropped_at;
    for (uint64_t i = 0; i < nodes && reader->status == BASE_OK; i++) {
        node_decode(stream, slot, reader);
    }
}

static void body_decode(struct dev_stream *stream, struct base_reader *reader)
{
    uint64_t stats[DEV_STREAM_STATS];
    uint8_t seen = base_reader_u8(reader);
    stream->seen = seen == 1;
    stream->last_seq = base_reader_varint(reader);
    stream->time_max = base_reader_varint_max(reader, DEV_STREAM_TIME_MAX);
    stream->watermark = base_reader_varint_max(reader, DEV_STREAM_TIME_MAX);
    stream->fired_to = base_reader_varint_max(reader, stream->watermark);
    stream->epoch = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
    for (size_t i = 0; i < DEV_STREAM_STATS; i++) {
        stats[i] = base_reader_varint(reader);
    }
    memcpy(&stream->stats, stats, sizeof(stats));
    uint64_t keys = base_reader_varint_max(reader, stream->keyed.slot_count);
    uint64_t hop = stream->window.hop_ms;
    if (seen > 1 || (hop != 0 && stream->fired_to % hop != 0)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint64_t i = 0; i < keys && reader->status == BASE_OK; i++) {
        key_decode(stream, reader);
    }
    dev_join_decode(&stream->join, reader);
}

static void state_clear(struct dev_stream *stream)
{
    dev_keyed_clear(&stream->keyed);
    (void)dev_join_clear(&stream->join);
    memset(&stream->stats, 0, sizeof(stream->stats));
    stream->seen = false;
    stream->last_seq = 0;
    stream->time_max = 0;
    stream->watermark = 0;
    stream->fired_to = 0;
    stream->epoch = 0;
    stream->due = UINT64_MAX;
}

static enum base_status head_check(const struct dev_stream *stream, struct base_reader *reader)
{
    uint8_t version = base_reader_u8(reader);
    BASE_TRY(reader->status);
    if (version != STATE_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    uint64_t fingerprint = base_reader_u64(reader);
    BASE_TRY(reader->status);
    return fingerprint == stream->fingerprint ? BASE_OK : BASE_ERR_CONFLICT;
}

enum base_status dev_stream_state_parse(struct dev_stream *stream, const uint8_t *bytes,
                                        size_t size)
{
    state_clear(stream);
    if (size < HASH_BYTES + 1) {
        return BASE_ERR_TRUNCATED;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes + size - HASH_BYTES, HASH_BYTES);
    if (base_reader_u64(&reader) != base_hash64_seed(bytes, size - HASH_BYTES, HASH_SEED)) {
        return BASE_ERR_HASH;
    }
    base_reader_init(&reader, bytes, size - HASH_BYTES);
    BASE_TRY(head_check(stream, &reader));
    body_decode(stream, &reader);
    enum base_status status = base_reader_finish(&reader);
    if (status == BASE_OK) {
        stream_window_due(stream);
        if (stream->due <= stream->watermark) {
            status = BASE_ERR_INVALID; // what was due was answered before the state was taken
        }
    }
    if (status != BASE_OK) {
        state_clear(stream);
    }
    return status;
}
