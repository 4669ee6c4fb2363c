// Every value of the store ends with a checksum over its table's name, its key and its bytes: a bit
// that flips on disk is found when the record is next read, and a record that ends up under another
// key or in another table is found too. Against accidents, not against those who can write the
// file.
//
//   value on disk := bytes, u64 seal (little-endian)
//   seal := XXH3-64(bytes, seed XXH3-64(key, seed XXH3-64(table's name)))
//
// Pure functions, any thread.
#ifndef GW_STORE_SEAL_H
#define GW_STORE_SEAL_H

#include "store/store.h"

#define GW_STORE_SEAL_BYTES 8u

void gw_store_seal(const char *table, struct gw_span key, struct gw_span bytes,
                   uint8_t out[GW_STORE_SEAL_BYTES]);
// The bytes without their seal; CORRUPT when it is another.
BASE_NODISCARD enum base_status gw_store_unseal(const char *table, struct gw_span key,
                                                struct gw_span sealed, struct gw_span *out_bytes);

#endif
