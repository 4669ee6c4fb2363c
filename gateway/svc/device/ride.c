// Rides: a proxied request that stands for a check-in and may bring a report. What it is told is
// what POST /v1/checkin would tell it, as far as a header holds that. Worker's thread.
// http/proxy_ride.c calls: for the report beside the request's way to the upstream, for the answer
// when the reply begins. The proxied request waits for neither: what could not be done is left out
// of the reply, and the device asks again.
#include "svc/device/checkin.h"
#include "wire/trust/meta.h"
#include "svc/device/report_intake.h"
#include "svc/reply.h"
#include "svc/core_worker.h"
#include "wire/ride_token.h"

#include <string.h>

#define FRAME_MAX 64 // of offers, besides envelopes and marks
#define MARKS_MAX (2 + WIRE_AGAIN_MAX * WIRE_AGAIN_BYTES)

_Static_assert(WIRE_OFFERS_HEADER_MAX > FRAME_MAX + MARKS_MAX + 2 * (WIRE_STATEMENT_BYTES_MAX + 4),
               "a header holds the director's answer and at least one statement");

bool gw_request_rides(const struct gw_request *request)
{
    struct base_str token;
    return wire_ride_token(request->ride, &token) == BASE_OK && request->device.size > 0 &&
           request->profile.size > 0;
}

// False: the arena is full.
static bool encode(struct base_arena *arena, const struct wire_offers *offers, struct base_str *out)
{
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    size_t size = 0;
    if (wire_offers_encode(offers, bytes, sizeof(bytes), &size) != BASE_OK) {
        return false;
    }
    char *text = base_arena_alloc(arena, BASE_B64_ENCODED(size));
    if (text == NULL) {
        return false;
    }
    *out = (struct base_str){text, base_b64_encode(bytes, size, text)};
    return true;
}

bool gw_worker_ride_answer(struct gw_worker *worker, struct base_arena *arena,
                           const struct gw_request *request, struct base_str *out_offer)
{
    struct gw_checkin checkin;
    struct wire_offers offers;
    uint8_t director[WIRE_STATEMENT_BYTES_MAX];
    const char *problem = NULL;
    struct base_str none = {0};
    gw_count(&worker->stats.checkins, 1);
    if (gw_checkin_read(worker, request, &checkin, &problem) != BASE_OK ||
        gw_checkin_ask(worker, request->nonce, &checkin, &problem) != BASE_OK) {
        gw_count(&worker->stats.checkins_bad, 1);
        return false;
    }
    size_t room = WIRE_OFFERS_HEADER_MAX - FRAME_MAX - MARKS_MAX -
                  (checkin.asked ? WIRE_STATEMENT_BYTES_MAX + 4 : 0);
    enum gw_checkin_says says = gw_checkin_decide(worker, &checkin, room, director, &offers);
    *out_offer = none;
    if (says == GW_CHECKIN_BUSY ||
        (says == GW_CHECKIN_OFFERS && !encode(arena, &offers, out_offer))) {
        return false;
    }
    gw_count(&worker->stats.rides, 1);
    return true;
}

void gw_worker_ride_report(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_request *request = &exchange->request;
    uint8_t *bytes = base_arena_alloc(exchange->arena, WIRE_REPORT_HEADER_MAX);
    size_t size = 0;
    if (bytes == NULL) {
        gw_reply_busy(exchange, worker->core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    if (base_b64_decode(request->report, bytes, WIRE_REPORT_HEADER_MAX, &size) != BASE_OK) {
        gw_count(&worker->stats.reports_bad, 1);
        gw_reply_problem(exchange, 400, "walle-report: base64url of at most 3072 bytes expected");
        gw_exchange_finish(exchange);
        return;
    }
    request->body = bytes;
    request->body_bytes = size;
    gw_report_handle(worker, exchange);
}
