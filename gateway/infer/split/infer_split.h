// Which version answers a call while one of them is released, and what was seen of both. Pure: no
// thread, no clock, no memory of its own; the service calls it with its lock held.
//
// A share is of callers: one caller is answered by one version for as long as a stage lasts, and
// whom a small share has a larger one has too (policy/bucket.h). Shadows are of calls: what the
// candidate says to them nobody gets.
#ifndef GW_INFER_SPLIT_H
#define GW_INFER_SPLIT_H

#include "base/hist.h"
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

// What came of the calls of one version.
struct gw_infer_seen {
    uint64_t calls;      // that ended, but for those whose caller went
    uint64_t failed;     // of these: refused, too late, or failed in the run
    struct base_hist us; // from the start of the run to the answer, of those that ended well
};

struct gw_infer_trial {
    struct gw_infer_seen serving;
    struct gw_infer_seen candidate;
    uint64_t agreed; // shadows whose answer was that of the serving version
    uint64_t differed;
    uint64_t shadows_failed; // in the run, or too late
    uint64_t dropped;        // not run, or stopped: there was other work
    struct base_hist shadow_us;
};

void gw_infer_trial_init(struct gw_infer_trial *trial);
// Of the calls that ended well those that took longer: an undercount by less than one bucket of the
// histogram.
uint64_t gw_infer_seen_over(const struct gw_infer_seen *seen, uint64_t limit_us);

#endif
