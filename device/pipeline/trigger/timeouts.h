// Starts of patterns that ask for their time-outs (`or timeout`), until they are matched or their
// time is over.
//
// A start is an event that matches the pattern's first literal (under `page`: in a visit). It is
// pending until a match of the pattern comes, of the same visit under `page`, of the same item when
// the first literal has same(item): that ends it and every earlier one. A pending start whose
// `within` has passed is timed out: told once, whatever the reason that no match came. An event may
// end earlier starts and be one itself.
//
// The trie keeps the latest start of each step alone, so starts are kept here. They are seen by a
// pattern of their own, the first literal, which is compiled beside the one that asks: the trigger
// engine says of both what happened at an event, first the match, then the start.
//
// Bounds. DEV_TIMEOUTS_MAX starts wait on a device; one more, and of the pattern that has most of
// them the one that has waited longest gives way: the caller counts it.
//
// Time. `within` D holds up to and including D, by the wall clock that events carry; across a
// restart what is left of D goes on, and where the clock went back a start waits D again at most.
//
// Pure; no allocation, no clock.
#ifndef DEV_TIMEOUTS_H
#define DEV_TIMEOUTS_H

#include "base/cursor.h"
#include "pipeline/trigger/trigger.h"

#define DEV_TIMEOUTS_MAX 64 // starts that wait on a device

// How the starts of a pattern are seen.
struct dev_timeout_ask {
    uint32_t within_ms;
    bool by_item;            // a match ends the starts of its item alone
    struct base_str opening; // the pattern of the first literal
};

// Room for the openings of so many patterns with so many bytes in all.
#define DEV_TIMEOUT_TEXTS(bytes, patterns) (2 * (size_t)(bytes) + 16 * (size_t)(patterns))
// The opening of a pattern, written into `text`. NOT_FOUND: it does not ask; INVALID, TOO_LARGE: it
// is no pattern; NOMEM: `capacity` is too small.
BASE_NODISCARD enum base_status dev_timeout_ask(struct base_str pattern, char *text,
                                                size_t capacity, struct dev_timeout_ask *out);
// Key of the opening's source, by that of the pattern's.
uint64_t dev_timeout_key(uint64_t source_key);

struct dev_timeout {
    uint64_t key; // of the opening
    uint64_t seq; // of the start
    uint64_t item_hash;
    uint64_t due_wall_ms; // the last moment at which a match ends it
    uint64_t due_us;      // by the clock of this process: it is over
    uint32_t within_ms;
    uint32_t visit; // of the start; 0: none
};

// Oldest first.
struct dev_timeouts {
    uint32_t count;
    struct dev_timeout items[DEV_TIMEOUTS_MAX];
};

struct dev_timeout_now {
    uint64_t us;
    uint64_t wall_ms;
};

// The start that `event` is, of the pattern whose opening it fired.
struct dev_timeout dev_timeout_of(const struct dev_event *event,
                                  const struct dev_trigger_fired *opening,
                                  const struct dev_timeout_ask *ask, struct dev_timeout_now now);
// A start came. True: *out_dropped is one that gave way to it.
bool dev_timeouts_open(struct dev_timeouts *timeouts, const struct dev_timeout *start,
                       struct dev_timeout *out_dropped);
// A match came. Starts whose time was over before its event stay.
void dev_timeouts_match(struct dev_timeouts *timeouts, const struct dev_event *event,
                        const struct dev_trigger_fired *match);
// Takes out one that is over. False: there is none.
bool dev_timeouts_over(struct dev_timeouts *timeouts, uint64_t now_us, struct dev_timeout *out);
uint64_t dev_timeouts_due(const struct dev_timeouts *timeouts); // UINT64_MAX: none waits
// Keeps those for whom `is_asked` says true: their pattern is still there.
void dev_timeouts_keep(struct dev_timeouts *timeouts, bool (*is_asked)(void *ctx, uint64_t key),
                       void *ctx);

//   varint count, count x { u64 key, u64 seq, u64 item_hash, varint due_wall_ms, varint within_ms,
//   varint visit }
#define DEV_TIMEOUTS_BYTES_MAX (3 + DEV_TIMEOUTS_MAX * (3 * 8 + 10 + 5 + 5))
void dev_timeouts_write(const struct dev_timeouts *timeouts, struct base_writer *writer);
// The reader's status says whether it went well; *timeouts is empty otherwise.
void dev_timeouts_read(struct dev_timeouts *timeouts, struct dev_timeout_now now,
                       struct base_reader *reader);

#endif
