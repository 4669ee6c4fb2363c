// The checksum behind a value; its layout is in the header. Called by the gateway's store
// (gateway/store, at each read and write) and by the device's posix port (posix_env.c,
// posix_state.c), on any thread; pure. The table's name and the key go in as seeds of the hash, so
// that a record moved to another place is found out and no copy is made to seal one. Little-endian
// on every machine.
#include "base/record_seal.h"

#include "base/hash.h"

#include <string.h>

void base_record_seal(const char *table, struct base_span key, struct base_span bytes,
                      uint8_t out[BASE_SEAL_BYTES])
{
    uint64_t seed = base_hash64_seed(key.data, key.size, base_hash64(table, strlen(table)));
    uint64_t seal = base_hash64_seed(bytes.data, bytes.size, seed);
    for (unsigned i = 0; i < BASE_SEAL_BYTES; i++) {
        out[i] = (uint8_t)(seal >> (8 * i));
    }
}

enum base_status base_record_unseal(const char *table, struct base_span key,
                                    struct base_span sealed, struct base_span *out_bytes)
{
    if (sealed.size < BASE_SEAL_BYTES) {
        return BASE_ERR_CORRUPT;
    }
    struct base_span bytes = {sealed.data, sealed.size - BASE_SEAL_BYTES};
    uint8_t seal[BASE_SEAL_BYTES];
    base_record_seal(table, key, bytes, seal);
    if (memcmp(seal, sealed.data + bytes.size, sizeof(seal)) != 0) {
        return BASE_ERR_CORRUPT;
    }
    *out_bytes = bytes;
    return BASE_OK;
}
