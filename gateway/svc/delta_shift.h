// Where in the old content a part of the new one stood: guesses, by votes.
//
// Content moves when something in front of it grows or shrinks: a file's header, a new layer.
// Weights that all changed a little share no run of bytes with the old ones, but most keep their
// sign and exponent, the byte in front of each. So runs are looked up three times: of all bytes, of
// every second and of every fourth.
#ifndef GW_DELTA_SHIFT_H
#define GW_DELTA_SHIFT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define GW_DELTA_VOTED_MAX 6u // shifts found for a stretch

// Two contents, borrowed.
struct gw_delta_pair {
    const uint8_t *old;
    size_t old_size;
    const uint8_t *fresh;
    size_t fresh_size;
};

// Old position less new one.
struct gw_delta_shifts {
    uint32_t count;
    int64_t shift[GW_DELTA_VOTED_MAX];
};

// One entry for each `window` bytes of the new content, in `out`. NOMEM.
BASE_NODISCARD enum base_status gw_delta_shifts_find(const struct gw_delta_pair *pair,
                                                     size_t window, struct gw_delta_shifts *out);

#endif
