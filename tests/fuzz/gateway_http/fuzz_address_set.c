// Fuzz target of sets of addresses and of x-forwarded-for: any text is a set or an error with a
// text; the client that a list names is never a hop in front of a stranger.
#include "http/guard/address_set.h"

#include "base/check.h"
#include "fuzz_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_address_set set = {.count = 0};
    struct base_error error = {0};
    const char *text = (const char *)data;
    const char *line = size > 0 ? memchr(text, '\n', size) : NULL;
    size_t named = line != NULL ? (size_t)(line - text) : size;
    enum base_status status = gw_address_set_parse((struct base_str){text, named}, &set, &error);
    base_check(status == BASE_OK || error.text[0] != '\0');
    base_check(set.count <= GW_ADDRESS_SET_MAX);
    for (uint32_t i = 0; status == BASE_OK && i < set.count; i++) {
        base_check(set.ranges[i].bits <= 128);
        base_check(gw_address_set_has(&set, &set.ranges[i].network));
    }
    if (status == BASE_OK && line != NULL) {
        const struct gw_peer_address from = {{[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 1}};
        const struct base_str list = {line + 1, size - named - 1};
        struct gw_peer_address client = gw_forwarded_client(&set, &from, list);
        const struct gw_address_set nobody = {.count = 0};
        struct gw_peer_address last = gw_forwarded_client(&nobody, &from, list);
        // Who is no hop ends the walk: then it is the last one.
        base_check(gw_address_set_has(&set, &last) || memcmp(&client, &last, sizeof(last)) == 0);
    }
    return 0;
}
