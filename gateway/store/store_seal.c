// The seal of the store's values; see the header. Called by the reading and writing functions of
// the store on any thread, and by salvage.
#include "store/store_seal.h"

#include "base/record_seal.h"

_Static_assert(GW_STORE_SEAL_BYTES == BASE_SEAL_BYTES, "one seal");

void gw_store_seal(const char *table, struct gw_span key, struct gw_span bytes,
                   uint8_t out[GW_STORE_SEAL_BYTES])
{
    base_record_seal(table, (struct base_span){key.data, key.size},
                     (struct base_span){bytes.data, bytes.size}, out);
}

enum base_status gw_store_unseal(const char *table, struct gw_span key, struct gw_span sealed,
                                 struct gw_span *out_bytes)
{
    struct base_span bytes;
    BASE_TRY(base_record_unseal(table, (struct base_span){key.data, key.size},
                                (struct base_span){sealed.data, sealed.size}, &bytes));
    *out_bytes = (struct gw_span){bytes.data, bytes.size};
    return BASE_OK;
}
