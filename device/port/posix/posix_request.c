// Headers of the device protocol's requests.
//
// Called by posix_http.c and posix_tunnel.c for the agent and by the simulator's links
// (fleet-sim/ports/sim_links.c), on the thread of the connection.
#include "posix/posix_request.h"

#include "base/check.h"

#include <stdio.h>

// A byte sequence of RFC 8941: ":" base64 with its padding ":".
static void dictionary_text(const struct wire_sha256 *digest, char out[POSIX_DICTIONARY_TEXT])
{
    size_t size = base_b64_encode(digest->bytes, WIRE_SHA256_BYTES, out + 1);
    for (size_t i = 1; i <= size; i++) {
        out[i] = out[i] == '-' ? '+' : out[i];
        out[i] = out[i] == '_' ? '/' : out[i];
    }
    out[0] = ':';
    out[size + 1] = '=';
    out[size + 2] = ':';
}

static struct base_str codings_text(uint32_t codings)
{
    if (codings == DEV_DELTA_DCZ) {
        return BASE_STR("dcz");
    }
    return codings == DEV_DELTA_PIECES ? BASE_STR("wdelta") : BASE_STR("wdelta, dcz");
}

uint32_t posix_request_headers(const struct dev_request *request, struct posix_request_text *text,
                               struct h2_header *out)
{
    uint32_t count = 0;
    if (request->profile.size > 0) {
        out[count++] = (struct h2_header){BASE_STR("walle-profile"), request->profile};
    }
    if (request->nonce.size > 0) {
        out[count++] = (struct h2_header){BASE_STR("walle-nonce"), request->nonce};
    }
    if (request->range_from > 0) {
        int size = snprintf(text->range, sizeof(text->range), "bytes=%llu-",
                            (unsigned long long)request->range_from);
        out[count++] = (struct h2_header){BASE_STR("range"), {text->range, (size_t)size}};
    }
    if (request->dictionary != NULL) {
        dictionary_text(request->dictionary, text->dictionary);
        out[count++] =
            (struct h2_header){BASE_STR("accept-encoding"), codings_text(request->delta_codings)};
        out[count++] = (struct h2_header){BASE_STR("available-dictionary"),
                                          {text->dictionary, sizeof(text->dictionary)}};
    }
    if (request->content_type.size > 0) {
        out[count++] = (struct h2_header){BASE_STR("content-type"), request->content_type};
    }
    if (request->idempotency_key.size > 0) {
        out[count++] = (struct h2_header){BASE_STR("idempotency-key"), request->idempotency_key};
    }
    if (request->urgent) {
        out[count++] = (struct h2_header){BASE_STR("priority"), BASE_STR("u=0")};
    }
    base_assert(count <= POSIX_REQUEST_HEADERS_MAX);
    return count;
}

struct posix_tunnel_rank posix_tunnel_rank(uint8_t class_id)
{
    static const struct posix_tunnel_rank ranks[WIRE_TUNNEL_CLASSES] = {
        {{"u=0", 3}, 256}, {{"u=1", 3}, 128}, {{"u=4", 3}, 16}, {{"u=7", 3}, 4}};
    base_assert(class_id < WIRE_TUNNEL_CLASSES);
    return ranks[class_id];
}
