// Stream functions: a declared pipeline from events to results, evaluated event by event.
//
//   events -> [Join with another event stream] -> KeyBy -> window -> aggregates -> results
//
// Filter is the caller's: it says with each event whether the stream, or the other stream of the
// join, has it. Map is the expressions of the aggregates: each adds the value of its expression
// (event_predicate.h). With the window EACH every event is a result of its own, which is Map alone.
//
// Windows. Times are wall_ms of the events, in ms.
//   TUMBLING  [k * size, (k + 1) * size)
//   HOPPING   as TUMBLING, a new window each `hop_ms`, which divides size_ms
//   SLIDING   at each event, (its time - size_ms, its time]; at most `count` events (0: 64)
//   SESSION   a key's events with less than gap_ms between neighbours
//   COUNT     each `count` events of a key; with hop_count, each hop_count events the last `count`
//   PAGE      one page visit; events outside any visit are left out
//   EACH      one event
//
// Time. The watermark is the greatest time seen, of all events whether selected or not, less
// lateness_ms. A TUMBLING, HOPPING or SESSION window is answered when the watermark reaches its end
// (SESSION: its last event + gap_ms). An event whose windows are all answered is late: counted and
// left out, except that TUMBLING and HOPPING windows stay for allowed_ms and are then answered
// again with what came late. A time DEV_STREAM_STEP_MS or more before what lateness allows is a
// step of the clock: what is open is answered at once, and the epoch changes.
//
// Join. An event of the stream and one of the other stream make a pair when their
// keys are equal and their times are at most within_ms apart; the later by seq completes it and
// gives the pair its time and visit. Expressions of `where` and of aggregates then know other.NAME.
// Both streams keep their events in one buffer of join.buffer_bytes; the oldest go first, counted
// (join_dropped). An event waits until the watermark is within_ms beyond it; lateness_ms makes it
// wait longer, with any window. Who comes later than that may miss a partner and is counted
// (join_late). While both counts are 0 and no key was keyless there is every pair.
//
// Bounds. At most keys_max keys have open windows, in at most nodes_max panes (events, where a
// window keeps events); the least recently used key goes first: its open windows are answered early
// (complete = false), those that keep events are dropped; both are counted.
//
// Identity. A window is (key, epoch, start, end); its revision is the seq of the last event the
// stream had taken in, so a later answer has a higher revision, and the same revision is the same
// answer. Events that were taken in before are recognised by seq and left out.
//
// No clock, no allocation, no I/O; memory is the caller's block. One thread. The emit function may
// not call the stream.
#ifndef DEV_EVENT_STREAM_H
#define DEV_EVENT_STREAM_H

#include "base/error.h"
#include "pipeline/stream/aggregate.h"
#include "pipeline/record/event.h"
#include "pipeline/stream/value.h"

#define DEV_STREAM_NAME_MAX       32 // [a-z][a-z0-9_-]*
#define DEV_STREAM_AGGREGATES_MAX 16
#define DEV_STREAM_KEYS_DEFAULT   64
#define DEV_STREAM_KEYS_MAX       4096
#define DEV_STREAM_NODES_MAX      16384
#define DEV_STREAM_STEP_MS        (60u * 60 * 1000)
#define DEV_STREAM_TIME_MAX       (UINT64_C(1) << 48)     // later times count as this
#define DEV_STREAM_BYTES_MAX      (4u * 1024 * 1024)      // of one stream's block
#define DEV_WINDOW_MS_MAX         (UINT64_C(34560000000)) // 400 days, each of a window's times
#define DEV_WINDOW_PANES_MAX      1024                    // of one key
#define DEV_WINDOW_VISITS_MAX     32                      // open page visits of one key
#define DEV_WINDOW_SLIDE_DEFAULT  64                      // events of a SLIDING window

enum dev_window_kind {
    DEV_WINDOW_EACH,
    DEV_WINDOW_TUMBLING,
    DEV_WINDOW_HOPPING,
    DEV_WINDOW_SLIDING,
    DEV_WINDOW_SESSION,
    DEV_WINDOW_COUNT,
    DEV_WINDOW_PAGE,
    DEV_WINDOW_KIND_COUNT
};

// What a kind does not use is 0.
struct dev_window_spec {
    enum dev_window_kind kind;
    uint64_t size_ms; // TUMBLING, HOPPING, SLIDING
    uint64_t hop_ms;  // HOPPING
    uint64_t gap_ms;  // SESSION
    uint32_t count;   // COUNT; SLIDING: events kept, 0: default
    uint32_t hop_count;
    uint64_t lateness_ms; // the four kinds with times; with a join any
    uint64_t allowed_ms;  // TUMBLING, HOPPING; not with a join
};

struct dev_join_spec {
    bool on;
    struct base_str key;
    struct base_str where; // condition on a pair; may be empty
    uint64_t within_ms;
    uint32_t buffer_bytes; // 0: default
};

struct dev_stream_spec {
    struct base_str name;
    struct base_str key; // expression; empty: one key for all. A join needs one.
    struct dev_join_spec join;
    struct dev_window_spec window;
    const struct dev_aggregate_spec *aggregates; // names differ
    uint32_t aggregate_count;                    // at least 1
    uint32_t keys_max;                           // 0: default
    uint32_t nodes_max; // at most so many (0: 1,024), but never less than one key can need
};

struct dev_stream;

struct dev_stream_result {
    const struct dev_stream *stream;
    struct dev_value key; // NONE: the stream has no key
    uint32_t epoch;
    uint64_t start;   // ms; COUNT and EACH: number of the first element; PAGE: the visit
    uint64_t end;     // ms; COUNT and EACH: number of the last element; PAGE: the visit
    uint64_t time_ms; // of the answer: a window of time's end, else the greatest time seen
    uint64_t revision;
    uint64_t first_seq; // of the events in it
    uint64_t last_seq;
    uint64_t events;
    bool complete; // false: answered early for want of room, by a clock step or by a flush
    const uint8_t *states;
};

// Who gets the answers.
struct dev_stream_sink {
    // Borrowed during the call, in which nothing of the stream may be called.
    void (*emit)(void *ctx, const struct dev_stream_result *result);
    void *ctx; // for `emit`
};

// The caller's memory, until the stream is not used any more.
struct dev_stream_block {
    void *memory; // aligned to 8
    size_t bytes; // at least what dev_stream_bytes says
};

struct dev_stream_stats {
    uint64_t events;     // taken in
    uint64_t duplicates; // by seq: left out
    uint64_t elements;   // events or pairs that reached the windows
    uint64_t results;
    uint64_t keyless; // no key, or a text above DEV_VALUE_TEXT_MAX
    uint64_t outside; // PAGE: not in a visit
    uint64_t late;
    uint64_t evicted_keys;
    uint64_t early;   // results that are not complete
    uint64_t dropped; // single events of windows that keep events
    uint64_t clock_steps;
    uint64_t join_dropped; // events that had to leave the join before their time, or were too large
    uint64_t join_late;    // events before whose time partners had left the join already
};

// Checks a declaration and says how large its block is. INVALID, TOO_LARGE, UNSUPPORTED: `error`
// (may be NULL) names the field; of an expression also line and column.
BASE_NODISCARD enum base_status dev_stream_bytes(const struct dev_stream_spec *spec,
                                                 size_t *out_bytes, struct base_error *error);
// Nothing of `spec` is borrowed. As _bytes, and TOO_LARGE when the block is too small.
BASE_NODISCARD enum base_status dev_stream_init(struct dev_stream_block block,
                                                const struct dev_stream_spec *spec,
                                                struct dev_stream_sink sink,
                                                struct dev_stream **out, struct base_error *error);

// `sides` may be none: then the event only moves the time. OTHER is for streams with a join.
#define DEV_STREAM_OWN   1u
#define DEV_STREAM_OTHER 2u // of the join
void dev_stream_feed(struct dev_stream *stream, const struct dev_event *event, uint32_t sides);
// A page visit ended without its EXIT being fed.
void dev_stream_on_visit_end(struct dev_stream *stream, uint32_t visit);
// Answers what is open, as not complete, and starts empty. What keeps events is dropped.
void dev_stream_flush(struct dev_stream *stream);

// The answer of aggregate `index`, and its state for dev_aggregate_last, _bin and _quantile.
struct dev_value dev_stream_answer(const struct dev_stream_result *result, uint32_t index);
const void *dev_stream_answer_state(const struct dev_stream_result *result, uint32_t index);
void dev_stream_stats(const struct dev_stream *stream, struct dev_stream_stats *out);

BASE_NODISCARD enum base_status dev_window_kind_parse(struct base_str text,
                                                      enum dev_window_kind *out);
bool dev_stream_validate(const struct dev_stream *stream); // for tests and debug builds

#endif
