// A request's body on its way in: counted in the budget of whoever sends it, gathered in memory or
// in a file (body_spool.h), refused when it is over a limit. Called by nghttp2's callbacks
// (h2_events.c), on the worker's thread.
#include "http/stream.h"

#include "base/check.h"
#include "http/config/http_limits.h"
#include "http/conn.h"
#include "http/lasting_streams.h"
#include "http/loop/figure.h"
#include "http/proxy.h"
#include "http/worker.h"
#include "svc/route.h"

// What is counted at once of memory: about as it comes. A report is small and comes in one piece:
// it takes the budget's mutex once, and a fleet that reports together fits.
#define MEMORY_STEP UINT64_C(512)
_Static_assert(GW_BUDGET_MEMORY_MIN >= GW_SPOOL_MEMORY_MAX + 2 * GW_PROXY_BUFFER_BYTES,
               "with the least budget one body and its answer fit");

// Of a place whose limit is for all together: whoever it is, nobody has more than half of it.
static struct gw_budget_limits half_for_one(uint64_t total)
{
    return (struct gw_budget_limits){total, total / 2 * GW_BUDGET_STRANGER_PART, total / 2};
}

void gw_stream_budget_limits(const struct gw_http_worker *worker, enum gw_budget_place place,
                             struct gw_budget_limits *out)
{
    const struct gw_limits *limits = &worker->limits;
    switch (place) {
    case GW_BUDGET_MEMORY:
        *out = (struct gw_budget_limits){limits->body_bytes_total, limits->body_bytes_strangers,
                                         limits->body_bytes_actor};
        break;
    case GW_BUDGET_CALLS:
        *out = half_for_one(limits->infer_memory_bytes);
        break;
    case GW_BUDGET_ANSWERS:
        *out = half_for_one(limits->infer_answer_bytes);
        break;
    default:
        *out = (struct gw_budget_limits){limits->spool_bytes_total, limits->spool_bytes_strangers,
                                         limits->spool_bytes_actor};
        break;
    }
}

static void give_back(struct gw_stream_work *work, enum gw_budget_place place)
{
    if (work->reserved[place] > 0) {
        gw_body_budget_give(work->worker->budget, &work->actor, place, work->reserved[place]);
        work->reserved[place] = 0;
    }
}

void gw_stream_body_release(struct gw_stream_work *work)
{
    struct gw_http_worker *worker = work->worker;
    for (uint32_t place = 0; place < GW_BUDGET_PLACE_COUNT; place++) {
        give_back(work, (enum gw_budget_place)place);
    }
    base_check(worker->body_bytes >= work->spool.bytes);
    worker->body_bytes -= work->spool.bytes;
    gw_body_spool_done(&work->spool);
}

// The body is not wanted any more: what still comes is thrown away.
static void refuse_body(struct gw_stream *stream, int status, const char *detail)
{
    gw_stat_add(&stream->conn->worker->stats->rejected_total, 1);
    gw_stream_body_release(stream->work);
    gw_stream_problem(stream, status, detail);
}

// How much is to be counted so that `needed` bytes are.
static uint64_t reservation(enum gw_budget_place place, uint64_t needed)
{
    uint64_t step = place == GW_BUDGET_FILES   ? GW_BUDGET_FILES_STEP
                    : place == GW_BUDGET_CALLS ? GW_BUDGET_CALLS_STEP
                                               : MEMORY_STEP;
    return (needed + step - 1) / step * step;
}

// So that `needed` bytes are counted in this place.
static enum base_status count_in(struct gw_stream_work *work, enum gw_budget_place place,
                                 uint64_t needed)
{
    struct gw_http_worker *worker = work->worker;
    struct gw_budget_limits limits;
    if (needed <= work->reserved[place]) {
        return BASE_OK;
    }
    uint64_t wanted = reservation(place, needed) - work->reserved[place];
    gw_stream_budget_limits(worker, place, &limits);
    BASE_TRY(gw_body_budget_take(worker->budget, &work->actor, place, &limits, wanted));
    work->reserved[place] += wanted;
    return BASE_OK;
}

// A call's body goes on in memory while there is room for those; then it goes to a file, as others
// do at once.
static void stay_or_spill(struct gw_stream_work *work, uint64_t needed)
{
    work->spool.stays = needed > GW_SPOOL_MEMORY_MAX && work->spool.fd < 0 &&
                        gw_route_has(&work->exchange, GW_ROUTE_INFER) &&
                        count_in(work, GW_BUDGET_CALLS, needed - GW_SPOOL_MEMORY_MAX) == BASE_OK;
}

static enum base_status reserve(struct gw_stream_work *work, uint64_t size)
{
    struct gw_http_worker *worker = work->worker;
    uint64_t needed = work->spool.bytes + size;
    stay_or_spill(work, needed);
    if (worker->spool_dir != NULL && gw_body_spool_spills(&work->spool, size)) {
        return count_in(work, GW_BUDGET_FILES, needed);
    }
    return count_in(work, GW_BUDGET_MEMORY, work->spool.stays ? GW_SPOOL_MEMORY_MAX : needed);
}

// It is in a file now, and its memory somebody else's.
static void give_memory_back(struct gw_stream_work *work)
{
    if (work->spool.fd >= 0) {
        give_back(work, GW_BUDGET_MEMORY);
        give_back(work, GW_BUDGET_CALLS);
    }
}

enum base_status gw_stream_hold(struct gw_stream_work *work, enum gw_budget_place place,
                                uint64_t bytes)
{
    uint64_t wanted = reservation(place, bytes);
    if (wanted < work->reserved[place]) {
        gw_body_budget_give(work->worker->budget, &work->actor, place,
                            work->reserved[place] - wanted);
        work->reserved[place] = wanted;
    }
    return count_in(work, place, bytes);
}

bool gw_stream_count_answer(struct gw_stream_work *work)
{
    uint64_t bytes = work->exchange.reply.body_bytes;
    return bytes <= GW_STREAM_ANSWER_FREE_BYTES ||
           count_in(work, GW_BUDGET_ANSWERS, bytes) == BASE_OK;
}

static void refuse_for(struct gw_stream *stream, enum base_status status)
{
    switch (status) {
    case BASE_ERR_LIMIT:
        refuse_body(stream, 429, "you have too many request bodies under way");
        break;
    case BASE_ERR_BUSY:
        refuse_body(stream, 503, "too many request bodies at once");
        break;
    case BASE_ERR_FULL:
        refuse_body(stream, 507, "no room for the request body on the gateway's disk");
        break;
    case BASE_ERR_NOMEM:
        refuse_body(stream, 503, "out of memory");
        break;
    default:
        refuse_body(stream, 503, "the request body could not be kept");
        break;
    }
}

// A body whose beginning decides is not read to its end. What is in a file is past its beginning.
static void look(struct gw_stream *stream)
{
    struct gw_stream_work *work = stream->work;
    const struct base_buffer *memory = &work->spool.memory;
    struct base_str piece = {(const char *)memory->data, memory->size};
    enum gw_early early = GW_EARLY_GO_ON;
    if (work->spool.fd < 0 && piece.size < work->look_at) {
        return;
    }
    if (work->spool.fd < 0) {
        early = gw_core_early(stream->conn->worker->svc, &work->exchange, piece, &work->look_at);
    }
    work->looks = early == GW_EARLY_MORE;
    if (early == GW_EARLY_REFUSED) {
        gw_stat_add(&stream->conn->worker->stats->rejected_total, 1);
        stream->unwanted_left = GW_STREAM_UNWANTED_BYTES_MAX;
        gw_stream_body_release(work);
        gw_stream_commit(stream);
    }
}

static void keep(struct gw_stream *stream, const uint8_t *bytes, size_t size)
{
    struct gw_stream_work *work = stream->work;
    struct gw_http_worker *worker = work->worker;
    if (size > work->body_max || work->spool.bytes > work->body_max - size) {
        refuse_body(stream, 413, "request body is over the limit");
        return;
    }
    enum base_status status = reserve(work, size);
    if (status != BASE_OK) {
        refuse_for(stream, status);
        return;
    }
    status = gw_body_spool_add(&work->spool, worker->spool_dir, bytes, size);
    if (status != BASE_OK) {
        refuse_for(stream, status == BASE_ERR_LIMIT ? BASE_ERR_IO : status);
        return;
    }
    worker->body_bytes += size;
    give_memory_back(work);
    if (work->looks) {
        look(stream);
    }
}

void gw_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size)
{
    base_assert(stream->tunnel == NULL); // its bytes are the session's
    if (stream->state == GW_STREAM_OPEN) {
        gw_open_stream_body(stream, bytes, size);
        return;
    }
    if (stream->lingers && size > stream->unwanted_left) {
        return; // its window is not given back
    }
    stream->unwanted_left -= stream->lingers ? (uint32_t)size : 0;
    (void)nghttp2_session_consume_stream(stream->conn->session, stream->id, size);
    if (stream->state == GW_STREAM_BODY && size > 0) {
        keep(stream, bytes, size);
    } // else: answered already
}

enum base_status gw_stream_body_whole(struct gw_stream_work *work)
{
    struct gw_request *request = &work->exchange.request;
    BASE_TRY(gw_body_spool_bytes(&work->spool, &request->body));
    request->body_bytes = (size_t)work->spool.bytes;
    return BASE_OK;
}
