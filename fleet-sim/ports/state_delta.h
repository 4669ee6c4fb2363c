// The bytes that differ between two blocks of the same size, and the block again from them. Exact
// for any bytes: applying what was found gives back what it was found in. Pure functions.
//
//   delta := run ...    run := varint equal bytes before it, varint count, the bytes
//
// Where no run covers the end, it is equal. Records of the device runtime end in a checksum of all
// before (core/device_state.c); it differs as soon as anything does and follows from the rest, so
// who keeps deltas may leave it out where state_is_sealed says that it does follow.
#ifndef SIM_STATE_DELTA_H
#define SIM_STATE_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_STATE_SEAL_BYTES 8u

// What makes `bytes` of `base`, both of `size` bytes; written to `out` and at most `capacity`
// bytes. SIZE_MAX: it would be more.
size_t sim_delta_find(const uint8_t *base, const uint8_t *bytes, size_t size, uint8_t *out,
                      size_t capacity);
// Changes `bytes`, a copy of the base. False: it is no delta of a block of this size.
bool sim_delta_apply(const uint8_t *delta, size_t delta_bytes, uint8_t *bytes, size_t size);
// Where deltas change something. Devices that did the same differ in the same places, so who keeps
// many deltas keeps a shape of them once, and of each delta the bytes at its places.
#define SIM_SHAPE_RUNS_MAX  16u
#define SIM_SHAPE_BYTES_MAX 128u

struct sim_delta_shape {
    uint16_t bytes; // of all runs
    uint16_t run_count;
    struct {
        uint16_t at; // in the block
        uint16_t count;
    } runs[SIM_SHAPE_RUNS_MAX];
};

// Of a delta that sim_delta_find gave. False: it changes too much.
bool sim_shape_of(const uint8_t *delta, size_t delta_bytes, struct sim_delta_shape *out);
// Does it change all that the other one does?
bool sim_shape_covers(const struct sim_delta_shape *shape, const struct sim_delta_shape *other);
// What `block` has at its places, one run behind the other.
void sim_shape_take(const struct sim_delta_shape *shape, const uint8_t *block, uint8_t *out);
// ... put back.
void sim_shape_put(const struct sim_delta_shape *shape, const uint8_t *bytes, uint8_t *block);

// Are the last bytes the checksum of those before?
bool sim_state_is_sealed(const uint8_t *bytes, size_t size);
// Makes them so.
void sim_state_seal(uint8_t *bytes, size_t size);

#endif
