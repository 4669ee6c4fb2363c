// A checksum behind a stored value, over where it belongs, its key and its bytes: a bit that flips
// on disk is found when the record is next read, and a record that ends up under another key or in
// another table is found too. Against accidents, not against those who can write the file.
//
//   value on disk := bytes, u64 seal (little-endian)
//   seal := XXH3-64(bytes, seed XXH3-64(key, seed XXH3-64(table's name)))
//
// And numbers of stored values, where their bytes lie at any address. Pure functions, any thread.
#ifndef BASE_RECORD_SEAL_H
#define BASE_RECORD_SEAL_H

#include "base/span.h"
#include "base/status.h"

#include <stdint.h>
#include <string.h>

#define BASE_SEAL_BYTES 8u

void base_record_seal(const char *table, struct base_span key, struct base_span bytes,
                      uint8_t out[BASE_SEAL_BYTES]);
// The bytes without their seal; CORRUPT when it is another.
BASE_NODISCARD enum base_status base_record_unseal(const char *table, struct base_span key,
                                                   struct base_span sealed,
                                                   struct base_span *out_bytes);

// The 2 or 8 bytes at `from` as a number of this machine, as LMDB writes its own.
static inline uint16_t base_stored_u16(const uint8_t *from)
{
    uint16_t number;
    memcpy(&number, from, sizeof(number));
    return number;
}
static inline uint64_t base_stored_u64(const uint8_t *from)
{
    uint64_t number;
    memcpy(&number, from, sizeof(number));
    return number;
}

#endif
