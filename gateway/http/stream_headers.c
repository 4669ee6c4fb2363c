// Request headers: the few that the core reads are copied to the stream's arena; all of them are
// when the path belongs to the upstream. Called by h2_events.c for every header field, so names are
// told apart by length first.
#include "http/stream.h"

#include "base/check.h"
#include "http/conn.h"
#include "http/worker.h"
#include "svc/route.h"

#include <stddef.h>
#include <string.h>

static enum gw_method method_of(struct base_str text)
{
    static const struct {
        struct base_str name;
        enum gw_method method;
    } methods[] = {
        {{"GET", 3}, GW_METHOD_GET},         {{"POST", 4}, GW_METHOD_POST},
        {{"HEAD", 4}, GW_METHOD_HEAD},       {{"PUT", 3}, GW_METHOD_PUT},
        {{"PATCH", 5}, GW_METHOD_PATCH},     {{"DELETE", 6}, GW_METHOD_DELETE},
        {{"OPTIONS", 7}, GW_METHOD_OPTIONS},
    };
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (base_str_equal(text, methods[i].name)) {
            return methods[i].method;
        }
    }
    return GW_METHOD_OTHER;
}

// Of a name that has the text's length: compared in place, without a call.
#define IS(name, text) (memcmp((name).data, (text), sizeof(text) - 1) == 0)

// Where the core wants this header; NULL: nowhere. One memcmp at most.
static struct base_str *place_of(struct gw_request *request, struct base_str name)
{
    switch (name.size) {
    case 5:
        return IS(name, "range") ? &request->range : NULL;
    case 6:
        return IS(name, "origin") ? &request->origin : NULL;
    case 8:
        if (IS(name, "if-range")) {
            return &request->if_range;
        }
        if (IS(name, "priority")) {
            return &request->priority;
        }
        return IS(name, "if-match") ? &request->if_match : NULL;
    case 10:
        if (IS(name, "walle-ride")) {
            return &request->ride;
        }
        return IS(name, "tracestate") ? &request->trace_state : NULL;
    case 11:
        if (IS(name, "traceparent")) {
            return &request->trace_parent;
        }
        return IS(name, "walle-nonce") ? &request->nonce : NULL;
    case 12:
        if (IS(name, "walle-device")) {
            return &request->device;
        }
        if (IS(name, "grpc-timeout")) {
            return &request->grpc_timeout;
        }
        if (IS(name, "walle-tenant")) {
            return &request->tenant;
        }
        if (IS(name, "walle-report")) {
            return &request->report;
        }
        return IS(name, "content-type") ? &request->content_type : NULL;
    case 13:
        if (IS(name, "grpc-encoding")) {
            return &request->grpc_encoding;
        }
        if (IS(name, "walle-profile")) {
            return &request->profile;
        }
        if (IS(name, "authorization")) {
            return &request->authorization;
        }
        return IS(name, "if-none-match") ? &request->if_none_match : NULL;
    case 14:
        return IS(name, "sec-fetch-site") ? &request->fetch_site : NULL;
    case 15:
        if (IS(name, "accept-encoding")) {
            return &request->accept_encoding;
        }
        return IS(name, "idempotency-key") ? &request->idempotency_key : NULL;
    case 16:
        if (IS(name, "walle-enroll-key")) {
            return &request->enrol_key;
        }
        return IS(name, "walle-credential") ? &request->credential : NULL;
    case 31:
        return IS(name, "inference-header-content-length") ? &request->infer_json : NULL;
    case 20:
        return IS(name, "available-dictionary") ? &request->available_dictionary : NULL;
    default:
        return NULL;
    }
}

// A copy in the arena; the empty text and a mark when there is no room.
static struct base_str keep(struct gw_stream_work *work, struct base_str text)
{
    if (text.size == 0) {
        return (struct base_str){"", 0};
    }
    char *copy = base_arena_copy(&work->arena, text.data, text.size);
    if (copy == NULL) {
        work->refuse_status = 431;
        return (struct base_str){0};
    }
    return (struct base_str){copy, text.size};
}

static void set_path(struct gw_stream *stream, struct base_str value)
{
    struct gw_stream_work *work = stream->work;
    struct gw_request *request = &work->exchange.request;
    struct base_str whole = keep(work, value);
    const char *mark = whole.size > 0 ? memchr(whole.data, '?', whole.size) : NULL;
    request->path = whole;
    if (mark != NULL) {
        request->path.size = (size_t)(mark - whole.data);
        request->query = (struct base_str){mark + 1, whole.size - request->path.size - 1};
    }
    work->path_seen = true;
    work->exchange.route = gw_route_find(stream->conn->worker->svc, request->path);
    work->forward = work->exchange.route == NULL;
}

static void forward(struct gw_stream_work *work, struct base_str name, struct base_str value)
{
    if (work->headers == NULL) {
        work->headers =
            base_arena_alloc(&work->arena, GW_STREAM_FORWARD_HEADERS_MAX * sizeof(*work->headers));
    }
    if (work->headers == NULL || work->header_count == GW_STREAM_FORWARD_HEADERS_MAX) {
        work->refuse_status = 431;
        return;
    }
    work->headers[work->header_count].name = keep(work, name);
    work->headers[work->header_count].value = keep(work, value);
    work->header_count++;
}

static void set_authority(struct gw_stream_work *work, struct base_str value)
{
    if (work->authority.data == NULL) {
        work->authority = keep(work, value);
        work->exchange.request.authority = work->authority;
    } else if (!base_str_equal(work->authority, value)) {
        work->refuse_status = 400; // two names: who looks at which? (RFC 9113, 8.3.1)
    }
}

static void pseudo_header(struct gw_stream *stream, struct base_str name, struct base_str value)
{
    struct gw_stream_work *work = stream->work;
    if (name.size == 5) { // :path
        set_path(stream, value);
    } else if (name.data[1] == 'm') { // :method
        work->exchange.request.method = method_of(value);
        stream->head = work->exchange.request.method == GW_METHOD_HEAD;
        if (work->exchange.request.method == GW_METHOD_OTHER) {
            work->refuse_status = 501;
        }
    } else if (name.data[1] == 'a') { // :authority
        set_authority(work, value);
    }
}

// Fields that the transport itself looks at.
static void note_field(struct gw_stream_work *work, struct base_str name, struct base_str value)
{
    if (name.size == 4 && IS(name, "host")) {
        set_authority(work, value);
    } else if (name.size == 14 && IS(name, "content-length")) {
        work->has_length = base_str_u64(value, &work->length) == BASE_OK;
        work->refuse_status = work->has_length ? work->refuse_status : 400;
    }
}

// A field that says who asks. A second one, the same too, is no client's of ours: which would be
// looked at, and which is the upstream told of?
static bool says_who(const struct gw_request *request, const struct base_str *place)
{
    return place == &request->device || place == &request->credential ||
           place == &request->enrol_key || place == &request->authorization;
}

// What a browser says of a page it says once, and so a caller how much of its body is JSON. Two
// values: which would be looked at?
static bool contradicts(const struct gw_request *request, const struct base_str *place,
                        struct base_str value)
{
    return (place == &request->origin || place == &request->fetch_site ||
            place == &request->infer_json) &&
           !base_str_equal(*place, value);
}

// A device's secrets, and what rides on its request, are for this gateway alone.
static bool is_ours(const struct gw_request *request, const struct base_str *place)
{
    return place == &request->credential || place == &request->enrol_key ||
           place == &request->profile || place == &request->nonce || place == &request->ride ||
           place == &request->report;
}

void gw_stream_header(struct gw_stream *stream, struct base_str name, struct base_str value)
{
    struct gw_stream_work *work = stream->work;
    size_t bytes = name.size + value.size + GW_HEADER_FIELD_OVERHEAD;
    if (work->refuse_status != 0) {
        return;
    }
    if (work->header_bytes + bytes > stream->conn->worker->limits.header_list_bytes) {
        work->refuse_status = 431;
        return;
    }
    work->header_bytes += (uint32_t)bytes;
    if (name.data[0] == ':') {
        pseudo_header(stream, name, value);
        return;
    }
    if (stream->conn->hop && name.size == 15 && IS(name, "x-forwarded-for")) {
        work->client =
            gw_forwarded_client(&stream->conn->worker->trust.hops, &stream->conn->peer, value);
    }
    // nghttp2 has seen to it that the pseudo headers came first (RFC 9113, 8.3).
    note_field(work, name, value);
    struct base_str *place = place_of(&work->exchange.request, name);
    bool first = place == NULL || place->data == NULL;
    if (place != NULL && first) {
        *place = keep(work, value);
    } else if (place != NULL && (says_who(&work->exchange.request, place) ||
                                 contradicts(&work->exchange.request, place, value))) {
        work->refuse_status = 400;
    }
    if (work->forward && !is_ours(&work->exchange.request, place)) {
        forward(work, name, value);
    }
}
