// The events a run was started with, as the script's VM wants them.
#ifndef DEV_RUNNER_EVENTS_H
#define DEV_RUNNER_EVENTS_H

#include "vm/vm.h"

// Events of an input (blocks, each `varint size, block`; `varint 0, varint count` says how many
// there was no room for, with a count of 0 that the run is of a time-out). Texts are borrowed from
// the input's bytes.
struct dev_runner_events {
    struct dev_event *events; // malloc
    uint32_t count;
    uint32_t missing; // older ones that the run is not given
    bool timed_out;   // no match followed the start in time
    uint8_t *attrs;   // malloc: of all of them
};
// INVALID and the errors of wire_event_block_parse, NOMEM. Zero-initialise *out first.
BASE_NODISCARD enum base_status dev_runner_events_make(const uint8_t *bytes, size_t size,
                                                       struct dev_runner_events *out);
void dev_runner_events_done(struct dev_runner_events *events);
// The other way: an input of these events, of one boot and ascending seqs. The caller frees
// *out_bytes. INVALID, TOO_LARGE (an event that no block takes), NOMEM.
BASE_NODISCARD enum base_status dev_runner_events_write(const struct dev_event *events,
                                                        uint32_t count, uint8_t **out_bytes,
                                                        size_t *out_size);

#endif
