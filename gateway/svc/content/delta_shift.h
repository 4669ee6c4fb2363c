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

// The old content, looked up; 6 MiB.
struct gw_delta_index;
// NOMEM. `pair` is borrowed.
BASE_NODISCARD enum base_status gw_delta_index_new(const struct gw_delta_pair *pair,
                                                   struct gw_delta_index **out_index);
void gw_delta_index_free(struct gw_delta_index *index); // accepts NULL
// Where the new content from `from` to `to` stood: the shifts with the most votes.
void gw_delta_index_vote(const struct gw_delta_index *index, size_t from, size_t to,
                         struct gw_delta_shifts *out);

#endif
