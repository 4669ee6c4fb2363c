// What the files of the stream functions share. Private to device/pipeline/stream*.c.
#ifndef DEV_STREAM_PARTS_H
#define DEV_STREAM_PARTS_H

#include "pipeline/stream/join_buffer.h"
#include "pipeline/stream/keyed.h"
#include "pipeline/stream/event_stream.h"

struct stream_aggregate {
    struct dev_aggregate_spec spec; // its texts lie in the block
    const uint8_t *value;           // program; NULL: none
    uint32_t same;                  // the first aggregate with this expression
    size_t offset;                  // of its state in a pane, of its item in an event's node
};

struct dev_stream {
    struct dev_stream_sink sink;
    const uint8_t *key; // programs; NULL: none
    const uint8_t *join_key;
    const uint8_t *where;
    struct dev_window_spec window;
    uint64_t within_ms;
    bool joined;
    bool keeps_events; // nodes are events, not panes
    uint32_t key_nodes_max;
    uint32_t aggregate_count;
    size_t states_bytes;
    uint8_t *scratch; // states of one answer

    // State.
    struct dev_keyed keyed;
    struct dev_join_buffer join;
    bool seen; // an event was taken in
    uint64_t last_seq;
    uint64_t time_max;
    uint64_t watermark;
    uint64_t fired_to; // TUMBLING, HOPPING: windows that end here or before are answered
    uint64_t due;      // no window is to be answered and no pane to be freed before
    uint32_t epoch;
    struct dev_stream_stats stats;

    struct stream_aggregate aggregates[];
};

// An event, or a pair, on its way into the windows.
struct stream_element {
    uint64_t time;
    uint64_t seq;
    uint32_t visit;
    struct dev_value key;
    struct dev_value values[DEV_STREAM_AGGREGATES_MAX];
};

static inline uint8_t *stream_states(struct dev_node *node)
{
    return (uint8_t *)(node + 1);
}

// --- stream_window.c
void stream_window_add(struct dev_stream *stream, const struct stream_element *element);
// Answers windows the watermark has reached and frees what is no longer needed.
void stream_window_advance(struct dev_stream *stream);
// SLIDING: the answer at the event that was just added, for its key.
void stream_window_slide(struct dev_stream *stream, struct dev_value key, uint64_t time);
// Answers what is open, as not complete.
void stream_window_flush(struct dev_stream *stream);

#endif
