// The app's own requests to its service, through the gateway, on the connection of the runtime's:
// what the runtime has to say rides on them (core/control/device_ride.c). Made by posix_port.c for
// posix_business, driven by posix_http.c, on the thread of the event base. An errand lives from the
// request to the one call of on_answer, whatever ends it: the answer, a lost connection, a body
// above POSIX_BUSINESS_BODY_MAX, or its own timer; only when the port is freed under it, nobody is
// told. The ride ends with the head, since the offer is in it.
#include "posix/posix_errand.h"

#include "posix/posix_http.h"

#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX (DEV_RIDE_HEADERS_MAX + 2)

struct posix_errand {
    struct posix_errand_place place;
    struct posix_business request; // its texts and body are gone
    struct event *timer;
    uint32_t ride; // 0: nothing rides
    int status;
    uint8_t *body;
    size_t body_bytes;
    bool failed; // out of memory, or the body is too long
};

static void errand_free(struct posix_errand *errand)
{
    if (errand->timer != NULL) {
        event_free(errand->timer);
    }
    free(errand->body);
    free(errand);
}

void posix_errand_head(struct posix_errand *errand, const struct h2_head *head)
{
    errand->status = head->status;
    dev_ride_end(errand->place.runtime, errand->ride, head->ride, head->offer);
    errand->place.woke(errand->place.ctx);
}

void posix_errand_body(struct posix_errand *errand, const uint8_t *bytes, size_t size)
{
    if (errand->failed || size > POSIX_BUSINESS_BODY_MAX - errand->body_bytes) {
        errand->failed = true;
        return;
    }
    uint8_t *longer = realloc(errand->body, errand->body_bytes + size + 1);
    if (longer == NULL) {
        errand->failed = true;
        return;
    }
    errand->body = longer;
    memcpy(errand->body + errand->body_bytes, bytes, size);
    errand->body_bytes += size;
}

void posix_errand_end(struct posix_errand *errand, enum base_status status, bool tell)
{
    const struct base_str none = {0};
    bool whole = status == BASE_OK && !errand->failed;
    if (tell) {
        dev_ride_end(errand->place.runtime, errand->ride, none, none); // if no head came
        errand->place.woke(errand->place.ctx);
        errand->request.on_answer(errand->request.app, whole ? errand->status : 0,
                                  whole ? errand->body : NULL, whole ? errand->body_bytes : 0);
    }
    errand_free(errand);
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    struct posix_errand *errand = ctx;
    (void)fd;
    (void)what;
    posix_http_errand_cancel(errand->place.http, errand);
    posix_errand_end(errand, BASE_ERR_TIMEOUT, true);
}

// Makes the request with what rides on it.
static enum base_status errand_send(struct posix_errand *errand,
                                    const struct posix_business *request)
{
    struct dev_ride ride = {.number = 0, .header_count = 0};
    struct h2_header headers[HEADERS_MAX];
    uint32_t count = 0;
    if (dev_ride_start(errand->place.runtime, &ride) != BASE_OK) {
        headers[count++] = (struct h2_header){BASE_STR("walle-device"), errand->place.device};
        ride.header_count = 0;
        ride.number = 0;
    }
    errand->ride = ride.number;
    for (uint32_t i = 0; i < ride.header_count; i++) {
        headers[count++] = (struct h2_header){ride.headers[i].name, ride.headers[i].value};
    }
    if (errand->place.credential.size > 0) {
        headers[count++] =
            (struct h2_header){BASE_STR("walle-credential"), errand->place.credential};
    }
    if (request->content_type.size > 0) {
        headers[count++] = (struct h2_header){BASE_STR("content-type"), request->content_type};
    }
    const struct h2_request out = {
        .method = request->method.size > 0 ? request->method : BASE_STR("GET"),
        .path = request->path,
        .headers = headers,
        .header_count = count,
        .body = request->body,
        .body_bytes = request->body_bytes,
    };
    enum base_status status = posix_http_errand(errand->place.http, errand, &out);
    if (status != BASE_OK) {
        const struct base_str none = {0};
        dev_ride_end(errand->place.runtime, errand->ride, none, none);
    }
    return status;
}

enum base_status posix_errand_new(const struct posix_errand_place *place, struct event_base *base,
                                  const struct posix_business *request)
{
    static const struct timeval late = {.tv_sec = POSIX_BUSINESS_TIMEOUT_S};
    struct posix_errand *errand = calloc(1, sizeof(*errand));
    if (errand == NULL) {
        return BASE_ERR_NOMEM;
    }
    errand->place = *place;
    errand->request = *request;
    errand->timer = evtimer_new(base, on_late, errand);
    enum base_status status = errand->timer != NULL && evtimer_add(errand->timer, &late) == 0
                                  ? errand_send(errand, request)
                                  : BASE_ERR_NOMEM;
    if (status != BASE_OK) {
        errand_free(errand);
    }
    return status;
}
