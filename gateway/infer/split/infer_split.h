// Which version answers a call while one of them is released, and what was seen of both. Pure: no
// thread, no clock, no memory of its own; the service calls it with its lock held.
//
// A share is of callers: one caller is answered by one version for as long as a stage lasts, and
// whom a small share has a larger one has too (policy/bucket.h). Shadows are of calls: what the
// candidate says to them nobody gets.
#ifndef GW_INFER_SPLIT_H
#define GW_INFER_SPLIT_H

#include "base/hist.h"
#include "base/keyed_hash.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

// Zeroed: the candidate gets nothing.
struct gw_infer_split {
    uint64_t salt;
    uint16_t share;  // of POL_BUCKET_COUNT callers those whom the candidate answers
    uint16_t shadow; // of POL_BUCKET_COUNT calls of the others those it runs as well
};

// The number of a caller that is known by this text; 0: by none.
uint64_t gw_infer_caller(struct base_str text);
// Is the caller of this number (any 64 bits, the same for all its calls) one of the candidate's?
bool gw_infer_split_has(const struct gw_infer_split *split, uint64_t caller);
// Is the call of this number, counted from 0, run by the candidate as well?
bool gw_infer_split_shadows(const struct gw_infer_split *split, uint64_t call);

// ---- What one caller may count

#define GW_INFER_CALLER_SLOTS    8192u  // of counts of callers; whose slot is one share what counts
#define GW_INFER_PER_CALLER_MAX  10000u // calls of one caller that a stage may count
#define GW_INFER_P99_CALLS_LEAST 100u   // of the serving version, to know its p99

enum gw_infer_counted {
    GW_INFER_COUNTED_SERVING,
    GW_INFER_COUNTED_CANDIDATE,
    GW_INFER_COUNTED_SHADOW,
    GW_INFER_COUNTED_KINDS
};

struct gw_infer_tally {
    uint16_t good;
    uint16_t bad;
};

// How often each caller counted, by its number. No table of callers that is full, or that somebody
// could fill: callers share slots, by a hash with a key.
struct gw_infer_callers {
    struct base_hash_key key;
    uint32_t per_caller; // up to GW_INFER_PER_CALLER_MAX; 0: all that it calls
    struct gw_infer_tally slots[GW_INFER_COUNTED_KINDS][GW_INFER_CALLER_SLOTS];
};

// The most that came of one caller, of each kind its own, and how many callers counted at all, of
// whom those that share a slot are one. All 0 where everything counts.
struct gw_infer_most {
    uint32_t good;
    uint32_t bad;
    uint32_t callers;
};

void gw_infer_callers_init(struct gw_infer_callers *callers, const struct base_hash_key *key,
                           uint32_t per_caller);
// Has the caller counted as often as it may?
bool gw_infer_callers_full(const struct gw_infer_callers *callers, enum gw_infer_counted kind,
                           uint64_t who);
// Counts a call of it, unless it has. False: then. `most` is kept up.
bool gw_infer_callers_count(struct gw_infer_callers *callers, enum gw_infer_counted kind,
                            uint64_t who, bool good, struct gw_infer_most *most);

// What came of the calls of one version.
struct gw_infer_seen {
    uint64_t calls;  // that ended, but for those whose caller went, and those that are its fault
    uint64_t failed; // of these: refused, too late, or failed in the run
    struct base_hist us; // from the start of the run to the answer, of those that ended well
    struct gw_infer_most most;
};

struct gw_infer_trial {
    struct gw_infer_seen serving;
    struct gw_infer_seen candidate;
    uint64_t agreed; // shadows whose answer was that of the serving version
    uint64_t differed;
    uint64_t shadows_failed; // in the run, or too late
    uint64_t dropped;        // not run, or stopped: there was other work
    uint64_t uncounted;      // calls and shadows of callers that had counted as often as they may
    struct gw_infer_most shadows_most;
    struct base_hist shadow_us;
};

void gw_infer_trial_init(struct gw_infer_trial *trial);
// Of the calls that ended well those that took longer: an undercount by less than one bucket of the
// histogram.
uint64_t gw_infer_seen_over(const struct gw_infer_seen *seen, uint64_t limit_us);

#endif
