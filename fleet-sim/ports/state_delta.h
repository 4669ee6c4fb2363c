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

// Are the last bytes the checksum of those before?
bool sim_state_is_sealed(const uint8_t *bytes, size_t size);
// Makes them so.
void sim_state_seal(uint8_t *bytes, size_t size);

#endif
