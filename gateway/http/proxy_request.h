// What is said on either side of the reverse proxy: the HTTP/1.1 request head made from a stream's
// headers, and the HTTP/2 fields made from the upstream's response head.
#ifndef GW_HTTP_PROXY_REQUEST_H
#define GW_HTTP_PROXY_REQUEST_H

#include "base/str.h"
#include "http/parse/h1_message.h"

#include <nghttp2/nghttp2.h>

struct evbuffer;
struct gw_stream_work;
struct gw_proxy_said;

// Could the path and the authority stand in an HTTP/1.1 request line and Host field?
bool gw_proxy_request_valid(const struct gw_stream_work *work);
// Writes request line and fields. Left out: hop-by-hop fields, and whatever the client says of its
// address or of what was proven, and what rides with the request; added is what the gateway knows:
// x-forwarded-*, x-real-ip, forwarded and, when `proven` is not empty, walle-proven. NOMEM.
BASE_NODISCARD enum base_status gw_proxy_request_head(const struct gw_stream_work *work,
                                                      const char *upstream_host,
                                                      struct base_str proven, struct evbuffer *out);
// Fills `out` (GW_H1_FIELDS_MAX + 4 places): status, the response's end-to-end fields but those
// that only this gateway may say (walle-), what it says, and then that no cache keeps that. Texts
// are borrowed; `status_text` has 4 bytes.
size_t gw_proxy_reply_fields(const struct gw_h1_message *response, char *status_text,
                             const struct gw_proxy_said *said, nghttp2_nv *out);

#endif
