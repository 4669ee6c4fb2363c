// Fuzz target of the PROXY protocol's header: what a prefix says holds for the whole. A prefix of a
// header is never refused or taken for a shorter one, and what is over when it is.
#include "http/parse/proxy_header.h"

#include "base/check.h"
#include "fuzz_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_proxy_header whole;
    struct gw_proxy_header part;
    size_t used = 0;
    size_t part_used = 0;
    enum base_status status = gw_proxy_header_parse(data, size, &whole, &used);
    base_check(status == BASE_OK || status == BASE_ERR_BUSY || status == BASE_ERR_INVALID);
    base_check(status != BASE_ERR_BUSY || size < GW_PROXY_HEADER_MAX);
    base_check(status != BASE_OK || (used > 0 && used <= size && used <= GW_PROXY_HEADER_MAX));
    size_t first = status == BASE_OK ? used : size;
    for (size_t i = 0; i < first && i <= GW_PROXY_HEADER_MAX; i++) {
        enum base_status before = gw_proxy_header_parse(data, i, &part, &part_used);
        base_check(before == BASE_ERR_BUSY || (before == status && status == BASE_ERR_INVALID));
    }
    if (status == BASE_OK) {
        base_check(gw_proxy_header_parse(data, used, &part, &part_used) == BASE_OK);
        base_check(part_used == used && memcmp(&part, &whole, sizeof(part)) == 0);
    }
    return 0;
}
