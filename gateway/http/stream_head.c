// What is decided when a request's headers are complete: whether it may be for this gateway, who is
// asking, whether a body is wanted and how much of one. Whoever is refused is refused here, before
// a byte of the body is kept. Called by h2_events.c, on the worker's thread.
#include "http/stream.h"

#include "base/check.h"
#include "http/conn.h"
#include "http/guard/host_list.h"
#include "http/loop/figure.h"
#include "http/tls/tls_identity.h"
#include "http/worker.h"
#include "svc/route.h"

#include <string.h>

// The 32 bits of an IPv4 address behind 0000ffff, which begins no network of IPv6, or the first 64
// of an IPv6 one: who has one address of a network has them all.
static uint64_t peer_number(const struct gw_peer_address *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
    uint64_t number = v4 ? 0xffff : 0;
    for (uint32_t i = v4 ? 12 : 0; i < (v4 ? 16 : 8); i++) {
        number = number << 8 | address->bytes[i];
    }
    return number;
}

// What the connection says of who is asking.
static void note_peer(struct gw_stream *stream, struct gw_request *request)
{
    const struct gw_conn *conn = stream->conn;
    const struct gw_tls_identity *identity = conn->identity;
    request->loopback = conn->loopback;
    request->secure = conn->ssl != NULL;
    request->hop = conn->hop;
    request->proven = &stream->work->exchange.proven;
    request->peer = peer_number(&stream->work->client);
    if (identity != NULL) {
        request->has_certificate = true;
        request->certificate_device = identity->device_id;
        request->certificate_tenant = (struct base_str){identity->tenant, identity->tenant_bytes};
    }
}

// Who answers for what the request holds: as far as it is proven, else its address.
static void note_actor(struct gw_stream_work *work, const struct gw_head *head)
{
    struct gw_actor_key *actor = &work->actor;
    memset(actor, 0, sizeof(*actor));
    if (head->proof == GW_PROOF_NONE) {
        const struct gw_peer_address network = gw_peer_network(&work->client);
        actor->kind = GW_ACTOR_STRANGER;
        memcpy(actor->bytes, network.bytes, sizeof(network.bytes));
        return;
    }
    actor->kind = head->proof == GW_PROOF_TOKEN ? GW_ACTOR_OPERATOR : GW_ACTOR_DEVICE;
    memcpy(actor->bytes, &head->id, sizeof(head->id));
}

// Most requests of a worker are for the same authority: that is asked once.
static bool is_for_us(struct gw_http_worker *worker, struct base_str authority)
{
    struct base_str last = {worker->authority, worker->authority_bytes};
    if (worker->hosts == NULL || (last.size > 0 && base_str_equal(authority, last))) {
        return true;
    }
    if (!gw_host_list_allows(worker->hosts, authority)) {
        return false;
    }
    if (authority.size <= sizeof(worker->authority)) {
        memcpy(worker->authority, authority.data, authority.size);
        worker->authority_bytes = (uint32_t)authority.size;
    }
    return true;
}

static const char *refusal_text(int status)
{
    switch (status) {
    case 400:
        return "host differs from :authority; origin, sec-fetch-site or "
               "inference-header-content-length has two values; "
               "walle-device, walle-credential, walle-enroll-key or authorization is there twice; "
               "or a length is no number";
    case 501:
        return "the method is none of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS";
    default:
        return "request headers are over a limit";
    }
}

// 0: goes on; else what it is refused with.
static int refused(struct gw_stream *stream, const char **out_detail)
{
    const struct gw_stream_work *work = stream->work;
    struct gw_http_worker *worker = stream->conn->worker;
    if (work->refuse_status != 0) {
        *out_detail = refusal_text(work->refuse_status);
        return work->refuse_status;
    }
    if (!is_for_us(worker, work->authority)) {
        *out_detail = "the authority is no name of this gateway: see listen.hosts";
        return 421;
    }
    if (work->forward && worker->proxy == NULL) {
        *out_detail = base_str_starts(work->exchange.request.path, BASE_STR("/v2/"))
                          ? "the inference service is off: set infer.models"
                          : "no such resource, and no upstream is configured";
        return 404;
    }
    if (stream->conn->early && !gw_route_has(&work->exchange, GW_ROUTE_EARLY)) {
        *out_detail = "not before the TLS handshake is complete";
        return 425;
    }
    return 0;
}

static uint64_t body_max(const struct gw_http_worker *worker, const struct gw_stream_work *work,
                         enum gw_body_size size)
{
    if (work->forward) {
        return worker->proxy_body_bytes;
    }
    switch (size) {
    case GW_BODY_SMALL:
        return GW_BODY_SMALL_BYTES < worker->limits.body_bytes ? GW_BODY_SMALL_BYTES
                                                               : worker->limits.body_bytes;
    case GW_BODY_UPLOAD:
        return worker->limits.upload_bytes;
    case GW_BODY_INFER:
        return worker->limits.infer_bytes;
    case GW_BODY_PLAIN:
    case GW_BODY_SIZE_COUNT:
        break;
    }
    return worker->limits.body_bytes;
}

// The body is still to come.
static void await_body(struct gw_stream *stream, const struct gw_head *head)
{
    struct gw_stream_work *work = stream->work;
    struct gw_http_worker *worker = stream->conn->worker;
    work->body_max = body_max(worker, work, head->size);
    work->looks = head->looks && (!work->has_length || work->length > GW_EARLY_BODY_MIN);
    if (work->has_length && work->length > work->body_max) {
        gw_stat_add(&worker->stats->rejected_total, 1);
        gw_stream_problem(stream, 413, "request body: content-length is over the limit");
        return;
    }
    gw_stream_set_state(stream, GW_STREAM_BODY);
}

void gw_stream_headers_done(struct gw_stream *stream)
{
    struct gw_stream_work *work = stream->work;
    struct gw_http_worker *worker = stream->conn->worker;
    struct gw_exchange *exchange = &work->exchange;
    const char *detail = NULL;
    base_assert(stream->state == GW_STREAM_HEADERS);
    gw_stat_add(&worker->stats->requests_total, 1);
    int status = refused(stream, &detail);
    if (status != 0) {
        if (status != 404 && status != 425) {
            gw_stat_add(&worker->stats->rejected_total, 1);
        }
        gw_stream_problem(stream, status, detail);
        return;
    }
    note_peer(stream, &exchange->request);
    if (gw_route_has(exchange, GW_ROUTE_DUPLEX)) {
        gw_stream_hand_over(stream); // the body is what follows the answer
        base_check(stream->state != GW_STREAM_HANDLING);
        return;
    }
    struct gw_head head = {0};
    if (gw_route_has(exchange, GW_ROUTE_OPEN)) {
        if (gw_core_head(worker->svc, exchange, &head)) { // else it is refused
            note_actor(work, &head);
            work->body_max = body_max(worker, work, head.size);
        }
        gw_stream_hand_over(stream);
        return;
    }
    if (work->forward && !gw_core_prove(worker->svc, exchange, &work->head)) {
        gw_stream_commit(stream);
        return;
    }
    if (work->forward) {
        head = work->head;
    } else if (stream->request_done) {
        return; // nothing is to come: the answer is for gw_stream_request_done
    } else if (!gw_core_head(worker->svc, exchange, &head)) {
        gw_stream_hand_over(stream); // refused, or the body says nothing
        return;
    }
    note_actor(work, &head);
    if (!stream->request_done) {
        await_body(stream, &head);
    }
}
