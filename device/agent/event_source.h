// Behaviour events from a file, a pipe or standard input, recorded as an app would: JSON lines
// (event_lines.h), as fast as the recorder takes them. On the agent's loop.
//
// A pipe that nobody has opened for writing is waited for; it ends when all who wrote have closed
// it. A line that is too long is skipped and said; what goes on without an end of line is no file
// of events, and ends there; what the kernel makes up (/proc) is none either, and is refused.
#ifndef EVENT_SOURCE_H
#define EVENT_SOURCE_H

#include "base/error.h"
#include "base/log.h"
#include "pipeline/record/record.h"

#define EVENT_SOURCE_LINES   32 // recorded at once, then others get their turn
#define EVENT_SOURCE_WAIT_MS 20 // when a pipe has nothing
#define EVENT_SOURCE_SKIP_MAX                                                                      \
    (1024u * 1024)                // bytes of a line that is too long: then it is the last
#define EVENT_SOURCE_BAD_SAID  10 // bad lines that are told one by one, then
#define EVENT_SOURCE_BAD_GAP_S 60 // the latest once in so many seconds, with how many there were

struct event_base;
struct event_source;

struct event_source_stats {
    uint64_t lines;
    uint64_t recorded;
    uint64_t bad;
};

struct event_source_options {
    const char *path; // "-": standard input
    struct dev_recorder *recorder;
    const struct base_log *log;
    void *ctx;
    void (*ended)(void *ctx, bool broken); // nothing more is read; broken: it is no file of events
};

// INVALID: neither a regular file nor a pipe; IO, NOMEM; `error` says the file. `options` is
// copied.
BASE_NODISCARD enum base_status event_source_new(struct event_base *base,
                                                 const struct event_source_options *options,
                                                 struct event_source **out,
                                                 struct base_error *error);
void event_source_free(struct event_source *source); // accepts NULL
bool event_source_ended(const struct event_source *source);
void event_source_stats(const struct event_source *source, struct event_source_stats *out);

#endif
