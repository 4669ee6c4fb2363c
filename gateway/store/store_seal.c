// The checksum behind every value; see the header. Called by the reading and writing functions of
// the store on any thread, and by salvage.
#include "store/store_seal.h"

#include "base/hash.h"

#include <string.h>

void gw_store_seal(const char *table, struct gw_span key, struct gw_span bytes,
                   uint8_t out[GW_STORE_SEAL_BYTES])
{
    uint64_t seed = base_hash64_seed(key.data, key.size, base_hash64(table, strlen(table)));
    uint64_t seal = base_hash64_seed(bytes.data, bytes.size, seed);
    for (unsigned i = 0; i < GW_STORE_SEAL_BYTES; i++) {
        out[i] = (uint8_t)(seal >> (8 * i));
    }
}

enum base_status gw_store_unseal(const char *table, struct gw_span key, struct gw_span sealed,
                                 struct gw_span *out_bytes)
{
    if (sealed.size < GW_STORE_SEAL_BYTES) {
        return BASE_ERR_CORRUPT;
    }
    struct gw_span bytes = {sealed.data, sealed.size - GW_STORE_SEAL_BYTES};
    uint8_t seal[GW_STORE_SEAL_BYTES];
    gw_store_seal(table, key, bytes, seal);
    if (memcmp(seal, sealed.data + bytes.size, sizeof(seal)) != 0) {
        return BASE_ERR_CORRUPT;
    }
    *out_bytes = bytes;
    return BASE_OK;
}
