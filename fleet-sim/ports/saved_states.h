// What the runtimes of a shard's devices saved, in little memory: devices save hundreds of bytes
// and differ in a dozen of them.
//
// A state is kept as a number of a base and what differs from it (state_delta.h). Bases are whole
// states that stay for good, at most SIM_STATE_BASES_MAX of them; a new one is made when none of
// those made last is near. Devices that did the same differ from a base in the same places: these
// are kept once, as a shape, and of each state the bytes that it has there. A state that nothing is
// near to, or that is too large, is kept whole.
//
// Blocks lie in cells of a few sizes, chained where the largest is too small, so a state that
// changes its size leaves cells that others use.
//
// Getting gives what was put, byte for byte. One put in SIM_STATE_CHECK_EVERY is looked at again,
// and any that would not is counted and kept whole. One thread owns all of it.
#ifndef SIM_SAVED_STATES_H
#define SIM_SAVED_STATES_H

#include "base/ports.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_STATE_BYTES_MAX   UINT16_MAX
#define SIM_STATE_BASES_MAX   8192u
#define SIM_STATE_CHECK_EVERY 1000u

struct sim_states;

// One that is kept; 0: none.
typedef uint32_t sim_state_ref;

struct sim_states_stats {
    uint64_t kept;  // states
    uint64_t whole; // ... of these without a base
    uint64_t bytes; // memory of states and bases
    uint64_t bases;
    uint64_t cells; // taken by states
    uint64_t puts;
    uint64_t checked;    // ... of these that were looked at again
    uint64_t mismatches; // ... and would not have come back as they were
};

// NOMEM.
BASE_NODISCARD enum base_status sim_states_new(const struct base_alloc_port *alloc,
                                               struct sim_states **out_states);
void sim_states_free(struct sim_states *states); // accepts NULL
// Keeps `bytes`, at most SIM_STATE_BYTES_MAX, in place of what *ref is of. `alone`: they share
// nothing with others. NOMEM: all is as before.
BASE_NODISCARD enum base_status sim_states_put(struct sim_states *states, sim_state_ref *ref,
                                               struct base_span bytes, bool alone);
// What was put. NOT_FOUND: `ref` is 0; TOO_LARGE: more than `capacity`.
BASE_NODISCARD enum base_status sim_states_get(struct sim_states *states, sim_state_ref ref,
                                               uint8_t *out, size_t capacity, size_t *out_size);
// Forgets it; *ref is 0 then.
void sim_states_drop(struct sim_states *states, sim_state_ref *ref);
struct sim_states_stats sim_states_stats(const struct sim_states *states);
// Adds its figures.
void sim_states_merge(struct sim_states_stats *into, const struct sim_states *states);

#endif
