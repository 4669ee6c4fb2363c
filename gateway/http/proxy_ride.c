// What rides on a proxied request: its report goes to the core beside the request's way to the
// upstream, and the reply says what was taken by the time it begins. Nobody waits for the disk: a
// report that is not durable then comes again with the device's next request, and is known.
// Called by proxy.c and stream.c on the worker's thread.
#include "http/proxy_ride.h"

#include "base/check.h"
#include "http/stream.h"
#include "http/worker.h"
#include "wire/ride_token.h"

struct gw_proxy_ride {
    struct gw_exchange exchange; // of the report
    struct gw_stream_work *work;
    bool pending; // the core has it
};

static void finish(struct gw_exchange *exchange)
{
    struct gw_proxy_ride *ride = exchange->owner;
    struct gw_stream_work *work = ride->work;
    base_check(work->worker->unfinished > 0);
    work->worker->unfinished--;
    ride->pending = false;
    if (exchange->abandoned) {
        work->ride = NULL;
        gw_stream_work_release(work);
    }
}

void gw_proxy_ride_start(struct gw_stream_work *work)
{
    const struct gw_request *request = &work->exchange.request;
    if (!gw_request_rides(request) || request->report.size == 0) {
        return;
    }
    struct gw_proxy_ride *ride = base_arena_zalloc(&work->arena, sizeof(*ride));
    if (ride == NULL) {
        return; // it comes again
    }
    ride->work = work;
    ride->pending = true;
    ride->exchange.arena = &work->arena;
    ride->exchange.request = *request;
    ride->exchange.owner = ride;
    ride->exchange.finish = finish;
    work->ride = ride;
    work->worker->unfinished++;
    gw_worker_ride_report(work->worker->svc, &ride->exchange);
}

bool gw_proxy_ride_abandon(struct gw_stream_work *work)
{
    if (work->ride == NULL || !work->ride->pending) {
        work->ride = NULL;
        return false;
    }
    work->ride->exchange.abandoned = true;
    return true;
}

// What became of the report: -1 it will never be taken, 0 nothing yet, 1 it is durable.
static int reported(const struct gw_proxy_ride *ride)
{
    if (ride == NULL || ride->pending) {
        return 0;
    }
    int status = ride->exchange.reply.status;
    return status == 204 ? 1 : status == 400 || status == 413 || status == 422 ? -1 : 0;
}

// The words behind the ride's token; empty: none, or no memory, and the device asks again.
static struct base_str answer(struct gw_stream_work *work, struct base_str words)
{
    struct base_str token;
    char *text = base_arena_alloc(&work->arena, WIRE_RIDE_ANSWER_MAX);
    if (text == NULL || words.size == 0 ||
        wire_ride_token(work->exchange.request.ride, &token) != BASE_OK) {
        return (struct base_str){0};
    }
    return (struct base_str){text, wire_ride_answer(token, words, text)};
}

struct gw_proxy_said gw_proxy_ride_reply(struct gw_stream_work *work)
{
    static const struct base_str words[2][3] = {
        {{"refused", 7}, {0}, {"report", 6}},
        {{"checkin, refused", 16}, {"checkin", 7}, {"checkin, report", 15}},
    };
    struct gw_worker *svc = work->worker->svc;
    const struct gw_request *request = &work->exchange.request;
    struct gw_proxy_said said = {{0}, {0}};
    if (gw_request_rides(request)) {
        bool checkin = gw_worker_ride_answer(svc, &work->arena, request, &said.offer);
        said.ride = answer(work, words[checkin][reported(work->ride) + 1]);
    } else if (request->device.size > 0 && request->profile.size > 0) {
        said.offer = gw_worker_offer_header(svc, &work->arena, request);
    }
    return said;
}

void gw_proxy_ride_problem(struct gw_stream_work *work)
{
    struct gw_reply *reply = &work->exchange.reply;
    if (!gw_request_rides(&work->exchange.request)) {
        return;
    }
    const struct gw_proxy_said said = gw_proxy_ride_reply(work);
    base_check(reply->header_count + 2 <= GW_REPLY_HEADERS_MAX);
    if (said.offer.size > 0) {
        reply->headers[reply->header_count++] =
            (struct gw_header){BASE_STR("walle-offer"), said.offer};
    }
    if (said.ride.size > 0) {
        reply->headers[reply->header_count++] =
            (struct gw_header){BASE_STR("walle-ride"), said.ride};
    }
}
