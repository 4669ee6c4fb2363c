// Reading and asking sets of addresses. worker.c reads the settings on the main thread, at start
// and reload; listener.c and conn_intro.c ask for each connection, stream_headers.c for requests of
// trusted hops, on the worker's thread. IPv4 addresses are kept in their IPv6 form, so one
// comparison of leading bits serves both. An x-forwarded-for is read from its end and for
// GW_FORWARDED_HOPS_MAX entries at most: what is behind a hop that nobody trusts is hearsay.
#include "http/guard/address_set.h"

#include "base/text/str_cut.h"

#include <arpa/inet.h>
#include <string.h>

#define V4_BITS 96u // in front of an IPv4 address

enum base_status gw_address_parse(struct base_str text, struct gw_peer_address *out)
{
    char name[INET6_ADDRSTRLEN];
    struct gw_peer_address address = {{[10] = 0xff, [11] = 0xff}};
    if (text.size == 0 || text.size >= sizeof(name) || memchr(text.data, 0, text.size) != NULL) {
        return BASE_ERR_INVALID;
    }
    memcpy(name, text.data, text.size);
    name[text.size] = '\0';
    if (inet_pton(AF_INET, name, address.bytes + 12) != 1 &&
        inet_pton(AF_INET6, name, address.bytes) != 1) {
        return BASE_ERR_INVALID;
    }
    *out = address;
    return BASE_OK;
}

static bool is_v4(const struct gw_peer_address *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, uint32_t bits)
{
    uint32_t whole = bits / 8;
    uint32_t rest = bits % 8;
    return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

static bool has_bits_behind(const struct gw_address_range *range)
{
    struct gw_peer_address network = range->network;
    for (uint32_t bit = range->bits; bit < 128; bit++) {
        network.bytes[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    }
    return memcmp(&network, &range->network, sizeof(network)) != 0;
}

static enum base_status parse_range(struct base_str entry, struct gw_address_range *out,
                                    struct base_error *error)
{
    int shown = entry.size < 50 ? (int)entry.size : 50;
    const char *slash = entry.size > 0 ? memchr(entry.data, '/', entry.size) : NULL;
    struct base_str address = entry;
    uint64_t bits = 0;
    if (slash != NULL) {
        address.size = (size_t)(slash - entry.data);
    }
    if (gw_address_parse(address, &out->network) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.*s' is not a numeric address", shown,
                              entry.data != NULL ? entry.data : "");
    }
    uint32_t before = is_v4(&out->network) ? V4_BITS : 0;
    if (slash == NULL) {
        out->bits = 128;
        return BASE_OK;
    }
    struct base_str number = {slash + 1, entry.size - address.size - 1};
    if (base_str_u64(number, &bits) != BASE_OK || bits > 128 - before) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.*s': the number of bits is 0 to %u",
                              shown, entry.data, 128 - before);
    }
    out->bits = (uint8_t)(before + bits);
    if (has_bits_behind(out)) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.*s' has bits set behind its first %u",
                              shown, entry.data, (unsigned)bits);
    }
    return BASE_OK;
}

// Takes the text in front of the first comma; true when there was one.
static bool next_entry(struct base_str *rest, struct base_str *out)
{
    const char *comma = rest->size > 0 ? memchr(rest->data, ',', rest->size) : NULL;
    size_t size = comma != NULL ? (size_t)(comma - rest->data) : rest->size;
    *out = base_str_trim((struct base_str){rest->data, size});
    if (comma != NULL) {
        rest->data += size + 1;
        rest->size -= size + 1;
    }
    return comma != NULL;
}

enum base_status gw_address_set_parse(struct base_str text, struct gw_address_set *out,
                                      struct base_error *error)
{
    out->count = 0;
    if (base_str_trim(text).size == 0) {
        return BASE_OK;
    }
    bool more = true;
    while (more) {
        struct base_str entry;
        more = next_entry(&text, &entry);
        if (out->count == GW_ADDRESS_SET_MAX) {
            return base_error_set(error, BASE_ERR_INVALID, "more than %u addresses",
                                  GW_ADDRESS_SET_MAX);
        }
        BASE_TRY(parse_range(entry, &out->ranges[out->count], error));
        out->count++;
    }
    return BASE_OK;
}

bool gw_address_set_has(const struct gw_address_set *set, const struct gw_peer_address *address)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (same_bits(set->ranges[i].network.bytes, address->bytes, set->ranges[i].bits)) {
            return true;
        }
    }
    return false;
}

// Takes the text behind the last comma; true when there was one.
static bool last_entry(struct base_str *rest, struct base_str *out)
{
    size_t at = rest->size;
    while (at > 0 && rest->data[at - 1] != ',') {
        at--;
    }
    *out = base_str_trim((struct base_str){rest->data + at, rest->size - at});
    rest->size = at > 0 ? at - 1 : 0;
    return at > 0;
}

struct gw_peer_address gw_forwarded_client(const struct gw_address_set *hops,
                                           const struct gw_peer_address *from,
                                           struct base_str forwarded_for)
{
    struct gw_peer_address client = *from;
    bool more = forwarded_for.size > 0;
    for (uint32_t i = 0; i < GW_FORWARDED_HOPS_MAX && more; i++) {
        struct base_str entry;
        struct gw_peer_address address;
        more = last_entry(&forwarded_for, &entry);
        if (gw_address_parse(entry, &address) != BASE_OK) {
            break;
        }
        client = address;
        more = more && gw_address_set_has(hops, &address);
    }
    return client;
}
