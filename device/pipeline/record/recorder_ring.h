// The ring between the threads that record and the one that drains. Private to the recorder.
#ifndef DEV_RECORDER_RING_H
#define DEV_RECORDER_RING_H

#include "pipeline/record/recorder.h"

#include <stdatomic.h>

// Every field is shared unless said otherwise.
struct dev_ring {
    _Atomic uint64_t head; // bytes ever reserved
    _Atomic uint64_t tail; // bytes ever given back
    _Atomic uint64_t lost; // since the last record that was put
    _Atomic uint64_t skipped;
    _Atomic uint64_t invalid;
    _Atomic uint64_t secret;
    _Atomic uint32_t gate_kinds;
    _Atomic bool gate_every_attr;
    _Atomic bool idle; // the drain found nothing and wants to be woken
    _Atomic uint64_t gate_pages[DEV_CAPTURE_GATE_BITS / 64];
    _Atomic uint64_t gate_names[DEV_EVENT_MARKS / 64];
    uint8_t *bytes; // constant
    uint64_t capacity;
};

struct dev_ring_record { // borrowed from the ring until _pop
    uint32_t size;
    uint64_t lost; // recordings that found no room since the record before
    uint64_t skipped;
    struct dev_event event; // what was recorded; numbers, visit and hashes are 0
};

// `bytes`: capacity of them, a power of two, aligned to 8. The gate is open.
void dev_ring_init(struct dev_ring *ring, uint8_t *bytes, uint32_t capacity);
// NULL: open. Any time.
void dev_ring_gate(struct dev_ring *ring, const struct dev_capture_gate *gate, uint64_t secret);

// Any thread. Looks at the recording and counts it when it is not to be put: false, *out_status is
// OK where the gate rejects it, INVALID or TOO_LARGE where it is not well formed.
bool dev_ring_admits(struct dev_ring *ring, const struct dev_recording *recording,
                     enum base_status *out_status);
// Any thread; what _admits admits. LIMIT (no room); INVALID and TOO_LARGE for its attributes.
enum base_status dev_ring_put(struct dev_ring *ring, const struct dev_recording *recording);
// After a put: is somebody to be woken? True once for each dev_ring_sleep.
bool dev_ring_wakes(struct dev_ring *ring);

// One thread. False: nothing that is complete.
bool dev_ring_peek(struct dev_ring *ring, struct dev_ring_record *out);
void dev_ring_pop(struct dev_ring *ring, const struct dev_ring_record *record);
// What was lost and skipped behind the last record.
void dev_ring_rest(struct dev_ring *ring, uint64_t *out_lost, uint64_t *out_skipped);
// Undoes it: they are told with the next record.
void dev_ring_unrest(struct dev_ring *ring, uint64_t lost, uint64_t skipped);
// Says that the next put is to wake; false: one came meanwhile, drain again.
bool dev_ring_sleep(struct dev_ring *ring);

#endif
