// Who goes: one walk over the worker's connections keeps the GW_SHED_TICK_MAX that come first, by
// class, then by what they hold; they are closed until enough is free. Only while the overload
// manager says so.
#include "http/shed.h"

#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/memory/overload.h"
#include "http/stream.h"
#include "http/worker.h"

#include <string.h>

#define CONN_BYTES 8192u // of a connection by itself
#define TLS_BYTES  16384u

struct candidate {
    struct gw_conn *conn;
    enum gw_overload_class kind;
    uint64_t held_bytes;
};

uint64_t gw_shed_held(const struct gw_conn *conn)
{
    uint64_t bytes = conn->sending.held_bytes + CONN_BYTES + (conn->ssl != NULL ? TLS_BYTES : 0);
    if (conn->rest != NULL) {
        bytes += conn->rest_bytes;
    }
    if (conn->lease.parked != NULL) {
        bytes += GW_H2_FRAME_BUFFER_BYTES;
    }
    for (const struct gw_stream *stream = conn->active; stream != NULL; stream = stream->next) {
        bytes += sizeof(*stream);
        if (stream->work != NULL) {
            bytes += sizeof(*stream->work) + stream->work->reserved[GW_BUDGET_MEMORY] +
                     stream->work->reserved[GW_BUDGET_CALLS] +
                     stream->work->reserved[GW_BUDGET_ANSWERS];
        }
    }
    return bytes;
}

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
    return a->kind != b->kind ? a->kind < b->kind : a->held_bytes > b->held_bytes;
}

// Keeps the first ones, in order.
static uint32_t insert(struct candidate *first, uint32_t count, const struct candidate *one)
{
    uint32_t at = count;
    while (at > 0 && goes_before(one, &first[at - 1])) {
        at--;
    }
    if (at == GW_SHED_TICK_MAX) {
        return count;
    }
    uint32_t last = count < GW_SHED_TICK_MAX ? count : GW_SHED_TICK_MAX - 1;
    memmove(&first[at + 1], &first[at], (last - at) * sizeof(*first));
    first[at] = *one;
    return last + 1;
}

static uint32_t choose(struct gw_http_worker *worker, enum gw_overload_level level,
                       struct candidate *first)
{
    uint32_t count = 0;
    for (struct gw_conn *conn = worker->conns; conn != NULL; conn = conn->next) {
        uint64_t held = gw_shed_held(conn);
        // What every connection holds does not make one a stranger that holds something.
        uint64_t own = held - CONN_BYTES - (conn->ssl != NULL ? TLS_BYTES : 0);
        const struct candidate one = {
            conn, gw_overload_class_of(conn->proven, conn->stream_count == 0, own), held};
        if (gw_overload_sheds(level, one.kind) && !conn->failed) {
            count = insert(first, count, &one);
        }
    }
    return count;
}

void gw_shed_tick(struct gw_http_worker *worker)
{
    struct candidate first[GW_SHED_TICK_MAX];
    enum gw_overload_level level = gw_overload_now(worker->overload);
    uint64_t need = gw_overload_too_much(worker->overload) / worker->worker_count;
    if (level == GW_OVERLOAD_CALM || need == 0 || worker->now_ms < worker->shed_ms) {
        return;
    }
    // What goes now is seen in the next measure but one.
    worker->shed_ms = worker->now_ms + GW_WORKER_SHED_MS;
    uint32_t count = choose(worker, level, first);
    uint64_t freed = 0;
    for (uint32_t i = 0; i < count && freed < need; i++) {
        struct gw_conn *conn = first[i].conn;
        freed += first[i].held_bytes;
        gw_stat_add(first[i].kind == GW_SHED_IDLE ? &worker->stats->shed_idle
                                                  : &worker->stats->shed_strangers,
                    1);
        gw_send_guard_abort(conn);
        conn->failed = true;
        gw_conn_mark(conn);
    }
}
