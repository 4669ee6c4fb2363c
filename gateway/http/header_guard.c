// Counting of decoded header fields, and the end of blocks that decode to too much. Called by
// h2_events.c for every field and by conn.c around nghttp2, on the worker's thread. nghttp2 is
// paused by the callback's return value and never called from inside one, so the work of a stop
// (gw_header_guard_stop) is conn.c's to ask for, after nghttp2 returned.
#include "http/header_guard.h"

#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/stream.h"
#include "http/worker.h"

static const struct pol_ratelimit_config refusals_config = {
    .burst = GW_HEADER_REFUSALS, .refill = 1, .interval_us = 1000000};

void gw_header_guard_init(struct gw_header_guard *guard, uint64_t now_us)
{
    *guard = (struct gw_header_guard){0};
    pol_ratelimit_init(&guard->refusals, &refusals_config, now_us);
}

void gw_header_guard_begin(struct gw_conn *conn, int32_t stream)
{
    struct gw_header_guard *guard = &conn->headers;
    guard->block_bytes = 0;
    guard->block_limit = (uint32_t)conn->worker->limits.header_list_bytes;
    guard->stream = stream;
    guard->refused = false;
    guard->stopped = false;
    guard->dropped = false;
}

// Counts refused blocks; ends the connection when there are too many.
static void refuse(struct gw_conn *conn, uint64_t count)
{
    if (!pol_ratelimit_take(&conn->headers.refusals, &refusals_config, count,
                            conn->worker->now_us)) {
        gw_stat_add(&conn->worker->stats->rejected_total, 1);
        gw_conn_terminate(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

enum gw_header_verdict gw_header_guard_field(struct gw_conn *conn, size_t name_bytes,
                                             size_t value_bytes)
{
    struct gw_header_guard *guard = &conn->headers;
    size_t bytes = name_bytes + value_bytes;
    uint64_t limit = guard->block_limit;
    if (guard->stopped) {
        return guard->dropped ? GW_HEADER_DROP : GW_HEADER_SKIP;
    }
    guard->block_bytes += (uint32_t)bytes + GW_HEADER_FIELD_OVERHEAD;
    if (bytes > GW_HEADER_FIELD_FREE) {
        guard->unpaid += (uint32_t)bytes;
    }
    if (guard->block_bytes <= limit) {
        return GW_HEADER_TAKE;
    }
    if (guard->block_bytes > GW_HEADER_STOP_FACTOR * limit) {
        guard->stopped = true;
        guard->paused = true;
        return GW_HEADER_STOP;
    }
    if (!guard->refused) {
        guard->refused = true;
        refuse(conn, 1);
    }
    return GW_HEADER_TAKE; // the stream counts for itself, and refuses
}

void gw_header_guard_stop(struct gw_conn *conn)
{
    struct gw_header_guard *guard = &conn->headers;
    gw_stat_add(&conn->worker->stats->header_blocks_stopped, 1);
    refuse(conn, GW_HEADER_STOP_REFUSALS - 1);
    struct gw_stream *stream = nghttp2_session_get_stream_user_data(conn->session, guard->stream);
    if (stream != NULL && !stream->committed &&
        (stream->state == GW_STREAM_HEADERS || stream->state == GW_STREAM_BODY)) {
        gw_stat_add(&conn->worker->stats->rejected_total, 1);
        gw_stream_problem(stream, 431, "request headers are over a limit");
    }
    gw_conn_write_now(conn);
    if (nghttp2_session_find_stream(conn->session, guard->stream) != NULL) {
        // The peer does not read, or the stream is a trailer's whose answer is under way.
        (void)nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, guard->stream,
                                        NGHTTP2_ENHANCE_YOUR_CALM);
        guard->dropped = true;
    }
}

uint64_t gw_header_guard_pay(struct gw_conn *conn)
{
    struct gw_header_guard *guard = &conn->headers;
    struct gw_http_worker *worker = conn->worker;
    guard->heavy = true;
    const struct gw_peer_use use = {
        .rate = GW_PEER_HEADER_BYTES,
        .limit = {worker->limits.header_bytes_per_s, worker->limits.header_bytes_per_s},
        .count = guard->unpaid,
    };
    uint64_t wait_us = gw_peer_rates_spend(worker->rates, &conn->peer, &use, worker->now_us);
    guard->unpaid = 0;
    uint64_t wait_ms = (wait_us + 999) / 1000;
    if (wait_ms > 0) {
        gw_stat_add(&worker->stats->header_pauses, 1);
    }
    return wait_ms < GW_HEADER_PAUSE_MS_MAX ? wait_ms : GW_HEADER_PAUSE_MS_MAX;
}
