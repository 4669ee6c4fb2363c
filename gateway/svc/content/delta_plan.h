// How a stretch of new content is told: in runs, each from one place of the old content and as
// numbers of one width, so that it costs the fewest bits by estimate.
#ifndef GW_DELTA_PLAN_H
#define GW_DELTA_PLAN_H

#include "svc/content/delta_shift.h"

#include <stdbool.h>

#define GW_DELTA_CHUNK_BYTES 1024u // runs begin at multiples of it, from the stretch's beginning
#define GW_DELTA_RUNS_MAX    513u  // of a plan, for 512 KiB
#define GW_DELTA_SHIFTS_MAX  9u    // tried for a stretch

// What a run is told as.
enum gw_delta_way {
    GW_DELTA_SAME, // equal bytes
    GW_DELTA_BYTES,
    GW_DELTA_PAIRS,   // 2-byte numbers that begin at even positions
    GW_DELTA_PAIRS_1, // ... at odd ones
    GW_DELTA_QUADS,   // 4-byte numbers, by the position of the first modulo 4
    GW_DELTA_QUADS_1,
    GW_DELTA_QUADS_2,
    GW_DELTA_QUADS_3,
    GW_DELTA_NEW, // unlike anything old
    GW_DELTA_WAY_COUNT
};

struct gw_delta_run {
    size_t from; // in the new content; it ends where the next one begins
    int64_t shift;
    enum gw_delta_way way;
};

struct gw_delta_plan {
    int64_t last_shift; // of the run that ended last
    uint32_t count;
    struct gw_delta_run runs[GW_DELTA_RUNS_MAX];
};

// Plans the bytes from `from` to `to`, at most 512 KiB; `plan` is zero at first, or was used for
// what comes before. The estimate, in bits, is returned.
uint32_t gw_delta_plan_make(const struct gw_delta_pair *pair, size_t from, size_t to,
                            const struct gw_delta_shifts *voted, struct gw_delta_plan *plan);

#endif
