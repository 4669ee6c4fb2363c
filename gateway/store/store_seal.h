// Every value of the store ends with a seal over its table's name, its key and its bytes
// (base/record_seal.h).
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
