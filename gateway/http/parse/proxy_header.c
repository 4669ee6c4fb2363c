// Reads PROXY protocol headers of versions 1 and 2 with the reader cursor. Called by conn_intro.c
// for connections of trusted balancers, on the worker's thread. Pure; it gets what has come so far
// and says whether that is a header, not yet one, or none. Type-length-values are skipped.
#include "http/parse/proxy_header.h"

#include "base/cursor.h"
#include "base/str.h"
#include "http/guard/address_set.h"

#include <string.h>

#define SIGNATURE_BYTES 12u
#define V2_HEAD_BYTES   16u
#define V2_LOCAL        0x20
#define V2_PROXY        0x21
#define FAMILY_MASK     0xf0
#define FAMILY_V4       0x10
#define FAMILY_V6       0x20
#define FAMILY_UNIX     0x30
#define TRANSPORT_MAX   2   // unspecified, stream, datagram
#define V4_BYTES        12u // two addresses, two ports
#define V6_BYTES        36u
#define UNIX_BYTES      216u
#define PORT_MAX        65535u

static const uint8_t signature[SIGNATURE_BYTES] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                                   0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

// ---- Version 2

// Reads the addresses of a connection that is carried; the reader fails when they are not there.
static void read_addresses(struct base_reader *reader, uint8_t family, struct gw_proxy_header *out)
{
    struct gw_peer_address client = {{[10] = 0xff, [11] = 0xff}};
    switch (family & FAMILY_MASK) {
    case 0:
        return; // not known: as if nothing was said
    case FAMILY_V4:
        base_reader_copy(reader, client.bytes + 12, 4);
        (void)base_reader_bytes(reader, V4_BYTES - 4);
        break;
    case FAMILY_V6:
        base_reader_copy(reader, client.bytes, 16);
        (void)base_reader_bytes(reader, V6_BYTES - 16);
        break;
    case FAMILY_UNIX:
        (void)base_reader_bytes(reader, UNIX_BYTES);
        return;
    default:
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    out->has_client = true;
    out->client = client;
}

static enum base_status parse_v2(const uint8_t *bytes, size_t size, struct gw_proxy_header *out,
                                 size_t *out_size)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    (void)base_reader_bytes(&reader, SIGNATURE_BYTES);
    uint8_t command = base_reader_u8(&reader);
    uint8_t family = base_reader_u8(&reader);
    size_t high = base_reader_u8(&reader); // the length is big-endian
    size_t whole = V2_HEAD_BYTES + (high << 8 | base_reader_u8(&reader));
    bool known = (size <= SIGNATURE_BYTES || command == V2_LOCAL || command == V2_PROXY) &&
                 (family & ~FAMILY_MASK) <= TRANSPORT_MAX;
    if (!known || (size >= V2_HEAD_BYTES && whole > GW_PROXY_HEADER_MAX)) {
        return BASE_ERR_INVALID;
    }
    if (size < V2_HEAD_BYTES || size < whole) {
        return BASE_ERR_BUSY;
    }
    base_reader_init(&reader, bytes + V2_HEAD_BYTES, whole - V2_HEAD_BYTES);
    if (command == V2_PROXY) {
        read_addresses(&reader, family, out);
    }
    *out_size = whole;
    return reader.status == BASE_OK ? BASE_OK : BASE_ERR_INVALID;
}

// ---- Version 1

// Takes the word up to a blank or the end.
static struct base_str next_word(struct base_str *rest)
{
    const char *blank = rest->size > 0 ? memchr(rest->data, ' ', rest->size) : NULL;
    struct base_str word = {rest->data, blank != NULL ? (size_t)(blank - rest->data) : rest->size};
    size_t step = blank != NULL ? word.size + 1 : word.size;
    rest->data += step;
    rest->size -= step;
    return word;
}

static bool is_port(struct base_str word)
{
    uint64_t port;
    return word.size <= 5 && base_str_u64(word, &port) == BASE_OK && port <= PORT_MAX &&
           (word.size == 1 || word.data[0] != '0');
}

// Reads what stands between "PROXY " and the line's end.
static enum base_status parse_words(struct base_str rest, struct gw_proxy_header *out)
{
    struct base_str family = next_word(&rest);
    if (base_str_equal(family, BASE_STR("UNKNOWN"))) {
        return BASE_OK; // whatever follows
    }
    bool v6 = base_str_equal(family, BASE_STR("TCP6"));
    if (!v6 && !base_str_equal(family, BASE_STR("TCP4"))) {
        return BASE_ERR_INVALID;
    }
    struct base_str addresses[2] = {next_word(&rest), next_word(&rest)};
    struct gw_peer_address there;
    for (int i = 0; i < 2; i++) {
        bool colons =
            addresses[i].size > 0 && memchr(addresses[i].data, ':', addresses[i].size) != NULL;
        if (colons != v6) {
            return BASE_ERR_INVALID;
        }
    }
    struct base_str from_port = next_word(&rest);
    struct base_str to_port = next_word(&rest);
    BASE_TRY(gw_address_parse(addresses[1], &there));
    BASE_TRY(gw_address_parse(addresses[0], &out->client));
    if (!is_port(from_port) || !is_port(to_port) || rest.size != 0) {
        return BASE_ERR_INVALID;
    }
    out->has_client = true;
    return BASE_OK;
}

static enum base_status parse_v1(const uint8_t *bytes, size_t size, struct gw_proxy_header *out,
                                 size_t *out_size)
{
    static const struct base_str begin = {"PROXY ", 6};
    size_t compared = size < begin.size ? size : begin.size;
    if (memcmp(bytes, begin.data, compared) != 0) {
        return BASE_ERR_INVALID;
    }
    size_t looked = size < GW_PROXY_V1_MAX ? size : GW_PROXY_V1_MAX;
    const uint8_t *end = memchr(bytes, '\n', looked);
    if (end == NULL) {
        return size < GW_PROXY_V1_MAX ? BASE_ERR_BUSY : BASE_ERR_INVALID;
    }
    size_t line = (size_t)(end - bytes);
    if (line <= begin.size || bytes[line - 1] != '\r') {
        return BASE_ERR_INVALID;
    }
    *out_size = line + 1;
    return parse_words((struct base_str){(const char *)bytes + begin.size, line - 1 - begin.size},
                       out);
}

enum base_status gw_proxy_header_parse(const uint8_t *bytes, size_t size,
                                       struct gw_proxy_header *out, size_t *out_size)
{
    memset(out, 0, sizeof(*out));
    if (size == 0) {
        return BASE_ERR_BUSY;
    }
    if (bytes[0] != signature[0]) {
        return parse_v1(bytes, size, out, out_size);
    }
    size_t compared = size < SIGNATURE_BYTES ? size : SIGNATURE_BYTES;
    if (memcmp(bytes, signature, compared) != 0) {
        return BASE_ERR_INVALID;
    }
    return parse_v2(bytes, size, out, out_size);
}
