// The trigger engine: which patterns (pattern.h) match at this event. All patterns of all tasks are
// one automaton, a trie of steps; an event moves what is active in it, so the cost is that of what
// is live, not that of what is installed.
//
// Meaning: for each event n the engine gives the set of patterns that match at n, each once,
// in the order of the sources (the caller sorts them by task), whatever the number of ways in
// which a pattern matches. Then each pattern's own policy decides, in this order: `reset` drops
// what the pattern had matched so far (also when the start is then suppressed: a match at a later
// event has all its events after n); `once per visit` (of the last DEV_TRIGGER_VISITS_KEPT visits
// in which it started something), `cooldown` (since the last start), `max n/day` (a day is 24 hours
// from the first start that counts). What a policy suppresses is counted.
//
// Order is seq. An event whose seq is not above the last one's (as a signed distance, so seq may
// wrap) is a duplicate: dropped, counted. An event that the engine was not given (a gap in seq)
// breaks adjacency; who leaves events out gives them by dev_trigger_on_wanted.
//
// Time. Between two consecutive events pass: in one boot, the difference of their monotonic clocks
// (up to DEV_TRIGGER_SKEW_MS backwards counts as none, the later time stays the reference); across
// boots, the difference of their wall clocks. If that is negative, time is unknown: every `within`
// that spans this place is expired, and for cooldown and cap no time has passed. Sums are cut to
// whole milliseconds. `within` D holds up to and including D.
//
// Bounds. Live state is at most one entry per node of the trie, but for patterns with `page` or
// same(item): these have one per node and key (visit, item), at most `keys_max` of them in all,
// the least recently entered goes first and is counted. The certificate bounds the work of an event
// for any history; compiling refuses a set above `work_max`. Should an event still cost more, the
// engine finishes correctly and counts it.
//
// Keys are dev_event_hash values: two items are the same when their hashes are. All events and the
// set must use one secret.
//
// Life: dev_trigger_scratch_bytes -> dev_trigger_certify (in scratch) -> dev_trigger_compile into a
// block of certificate.set_bytes -> dev_trigger_init on a block of certificate.state_bytes. The set
// is immutable and may be shared; an engine belongs to one thread. To change patterns: make a new
// set and engine aside, dev_trigger_carry, use the new one from the next event on. Memory is the
// caller's, aligned to 8; nothing is allocated, no clock but the events'.
#ifndef DEV_TRIGGER_H
#define DEV_TRIGGER_H

#include "pipeline/trigger/pattern.h"

#define DEV_TRIGGER_WORK_MAX     4096 // default of `work_max`: steps of one event, about 20 us
#define DEV_TRIGGER_KEYS_DEFAULT 256  // default of `keys_max`
#define DEV_TRIGGER_KEYS_MAX     (1u << 20)
#define DEV_TRIGGER_SOURCES_MAX  (1u << 20)
#define DEV_TRIGGER_NODES_MAX    ((1u << 24) - 1)
#define DEV_TRIGGER_LITERALS_MAX ((1u << 22) - 1)
#define DEV_TRIGGER_VISITS_KEPT  8
#define DEV_TRIGGER_SKEW_MS      1000
#define DEV_TRIGGER_LOOKBACK_MAX 10000 // events an embedding query reads
#define DEV_TRIGGER_SHAPES       12    // how much of kind, name, page and item a literal fixes

struct dev_trigger_source {
    uint64_t key; // names task and trigger, the same in every version; unique in a set
    struct base_str pattern;
};

// The patterns of a set, in the order in which matches are told. Borrowed during the call.
struct dev_trigger_sources {
    const struct dev_trigger_source *items; // `count`; may be NULL when there are none
    uint32_t count;
};

struct dev_trigger_options {
    uint64_t secret;   // of the install, as for dev_event_hash
    uint32_t work_max; // 0: DEV_TRIGGER_WORK_MAX
    uint32_t keys_max; // 0: DEV_TRIGGER_KEYS_DEFAULT
};

// What a set costs at most, for any history of events.
struct dev_trigger_certificate {
    size_t set_bytes;     // with this secret
    size_t set_bytes_max; // with any: its tables are placed by hashes
    size_t state_bytes;
    uint32_t sources;
    uint32_t nodes;
    uint32_t literals;
    uint32_t slots;       // of the hash of edges
    uint32_t live_max;    // transient nodes after one event
    uint32_t reached_max; // nodes one event reaches
    uint32_t fired_max;   // patterns that match at one event
    uint32_t matched_max; // literals one event matches
    uint64_t work;        // steps of one event
};

// Why a set was refused, and the source with which it became too much or which is wrong.
struct dev_trigger_fault {
    uint32_t source; // UINT32_MAX: none in particular
    struct base_error error;
};

// Memory that certify and compile need for a while; the caller's, who gives it back when the set is
// compiled.
struct dev_trigger_scratch {
    void *memory; // aligned to 8
    size_t bytes; // at least what dev_trigger_scratch_bytes says
};

struct dev_trigger_set;
struct dev_trigger_engine;

// How much scratch certify and compile need. INVALID, TOO_LARGE: a source is no pattern, or there
// are too many. `fault` may be NULL, here and below.
BASE_NODISCARD enum base_status dev_trigger_scratch_bytes(const struct dev_trigger_sources *sources,
                                                          size_t *out,
                                                          struct dev_trigger_fault *fault);
// Builds the trie in scratch and bounds its cost. LIMIT: above work_max, or above
// DEV_TRIGGER_NODES_MAX or _LITERALS_MAX; INVALID, TOO_LARGE as above, or two sources have one key;
// NOMEM: scratch is too small.
BASE_NODISCARD enum base_status dev_trigger_certify(const struct dev_trigger_sources *sources,
                                                    const struct dev_trigger_options *options,
                                                    struct dev_trigger_scratch scratch,
                                                    struct dev_trigger_certificate *out,
                                                    struct dev_trigger_fault *fault);
// Right after a certify that was OK, with the memory of its scratch. The set points into `memory`
// only: scratch and texts may go. NOMEM: memory_bytes is below set_bytes; CONFLICT: there was no
// such certify, or the set was compiled already.
BASE_NODISCARD enum base_status dev_trigger_compile(void *scratch, void *memory,
                                                    size_t memory_bytes,
                                                    const struct dev_trigger_set **out);

// The engine borrows `set`. NOMEM.
BASE_NODISCARD enum base_status dev_trigger_init(const struct dev_trigger_set *set, void *memory,
                                                 size_t memory_bytes,
                                                 struct dev_trigger_engine **out);

// One match that is to start something.
struct dev_trigger_fired {
    uint32_t source;
    uint32_t node;  // for dev_trigger_embed
    uint64_t key;   // of the source
    uint64_t token; // of (source key, seq): the same when the event is given again after recovery
    uint64_t seq;
    uint64_t item_hash;  // same(item): the item; 0 otherwise
    uint32_t visit;      // page: the visit; 0 otherwise
    uint32_t elapsed_ms; // from the first literal to this event, of the latest start
};

uint64_t dev_trigger_token(uint64_t source_key, uint64_t seq);
// The matches to start, borrowed until the next call.
const struct dev_trigger_fired *dev_trigger_on_event(struct dev_trigger_engine *engine,
                                                     const struct dev_event *event,
                                                     uint32_t *out_count);
// The same, but the engine does not see an event on which no match depends (its attributes are not
// looked at). *out_seen: whether it saw this one.
const struct dev_trigger_fired *dev_trigger_on_wanted(struct dev_trigger_engine *engine,
                                                      const struct dev_event *event,
                                                      uint32_t *out_count, bool *out_seen);

// Where events of before a match are read.
struct dev_trigger_past {
    // The event with the greatest seq below `before`, valid until the next call. NOT_FOUND: there
    // is none any more.
    enum base_status (*read)(void *ctx, uint64_t before, struct dev_event *out);
    void *ctx; // for `read`
};

// The events of a match, by their seqs.
struct dev_trigger_embedding {
    uint32_t count;                       // of seqs, at least 1
    uint64_t seqs[DEV_PATTERN_STEPS_MAX]; // ascending
};

// The events of the latest-start embedding of a match: of all embeddings that end at fired->seq
// (under same(item): with fired->item_hash) the one whose list of seqs is greatest, first event
// first. `last` is the event of fired->seq. NOT_FOUND: the events are not there any more or lie
// more than DEV_TRIGGER_LOOKBACK_MAX events back; INVALID: no match of this set; the errors of
// `past`.
BASE_NODISCARD enum base_status dev_trigger_embed(const struct dev_trigger_set *set,
                                                  const struct dev_trigger_fired *fired,
                                                  const struct dev_event *last,
                                                  struct dev_trigger_past past,
                                                  struct dev_trigger_embedding *out);

struct dev_trigger_stats {
    uint64_t events;
    uint64_t duplicates;
    uint64_t gaps; // in seq
    uint64_t matches;
    uint64_t fired;
    uint64_t suppressed_visit;
    uint64_t suppressed_cooldown;
    uint64_t suppressed_cap;
    uint64_t evicted_keys;
    uint64_t clock_backwards;
    uint64_t overruns;
    uint64_t work_seen_max; // steps of the dearest event
    uint64_t lost_partials; // states that decode or carry had no place for
    uint32_t live_transient;
    uint32_t live_sticky;
    uint32_t live_keys;
};

void dev_trigger_stats(const struct dev_trigger_engine *engine, struct dev_trigger_stats *out);

// What survives a kill: partial matches, policies, clock, last seq. Stored with the group that
// stores the events, so that events behind it are given again and give the same tokens.
size_t dev_trigger_encoded_max(const struct dev_trigger_engine *engine);
BASE_NODISCARD enum base_status dev_trigger_encode(const struct dev_trigger_engine *engine,
                                                   void *out, size_t capacity, size_t *out_size);
// Into a fresh engine. State of another set: policies of sources that are still there are taken,
// partial matches are counted as lost. UNSUPPORTED (version), INVALID, TRUNCATED: then the engine
// is as fresh as before.
BASE_NODISCARD enum base_status dev_trigger_decode(struct dev_trigger_engine *engine,
                                                   const void *bytes, size_t size);
// Takes over into the fresh engine `to`: clock, last seq, policies by source key, and the state of
// every prefix that the new set has too. Both sets must be compiled with one secret.
void dev_trigger_carry(const struct dev_trigger_engine *from, struct dev_trigger_engine *to);

// Invariants of a whole engine; for tests and debug builds.
bool dev_trigger_validate(const struct dev_trigger_engine *engine);

#endif
