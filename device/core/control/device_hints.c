// The hint stream: a long-lived response on which the gateway says "check in soon". Losing it costs
// nothing but time, for check-ins go on by the clock; and when it comes back the device checks in,
// for it may have missed something. The first stream is asked for before the first check-in, so
// that nothing falls between them.
//
// Called by the tick and by the transport.
#include "core/control/control_parts.h"

#include "base/check.h"

static void ended(struct dev_runtime *runtime)
{
    struct dev_hints *hints = runtime->hints;
    base_assert(hints->exchange != 0);
    hints->exchange = 0;
    hints->missed = true;
    hints->due_us =
        dev_now_us(runtime) + dev_backoff_next(&hints->backoff, dev_random(runtime), 0) * 1000ull;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_hints *hints = runtime->hints;
    const struct dev_http_port *http = &runtime->ports->http;
    if (!runtime->settings.hints || hints->exchange != 0 || now_us < hints->due_us) {
        return;
    }
    char text[WIRE_PROFILE_TEXT_MAX / 2];
    size_t size = 0;
    if (dev_profile_header(runtime, text, sizeof(text), &size) != BASE_OK) {
        size = 0;
    }
    struct dev_request request = {
        .method = DEV_METHOD_GET,
        .path = BASE_STR("/v1/push"),
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
        .profile = {text, size},
        .stream = true,
    };
    base_assert(runtime->booted);
    hints->exchange = dev_exchange_new(runtime);
    hints->accepted = false;
    dev_sse_init(&hints->sse);
    if (http->start(http->ctx, hints->exchange, &request) != BASE_OK) {
        ended(runtime);
    }
}

static void stop(struct dev_runtime *runtime)
{
    const struct dev_http_port *http = &runtime->ports->http;
    if (runtime->hints->exchange != 0) {
        http->cancel(http->ctx, runtime->hints->exchange);
        runtime->hints->exchange = 0;
    }
}

// At a moment drawn from the span that begins `after_us` from now.
static void checkin_within(struct dev_runtime *runtime, uint64_t after_us, uint64_t span_us)
{
    uint64_t at_us = dev_now_us(runtime) + after_us + dev_random_below_us(runtime, span_us);
    dev_tell_at(runtime, DEV_PART_EVENT_CHECKIN, at_us);
}

static void head_came(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    struct dev_hints *hints = runtime->hints;
    hints->accepted = head->status == 200;
    if (hints->accepted && hints->missed) {
        hints->missed = false;
        checkin_within(runtime, 0, DEV_HINTS_CATCH_UP_US);
    }
}

static void body_came(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_hints *hints = runtime->hints;
    if (!hints->accepted) {
        return;
    }
    dev_backoff_reset(&hints->backoff); // the gateway really serves the stream
    for (size_t at = 0; at < size;) {
        bool hint = false;
        uint32_t spread_ms = 0;
        at += dev_sse_feed(&hints->sse, bytes + at, size - at, &hint, &spread_ms);
        if (hint) {
            checkin_within(runtime, hints->sse.after_ms * 1000ull, spread_ms * 1000ull);
        }
    }
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    struct dev_hints *hints = runtime->hints;
    hints->exchange = 0;
    hints->missed = false;
    hints->due_us = first_us;
    dev_backoff_init(&hints->backoff, runtime->settings.backoff_base_ms,
                     runtime->settings.backoff_cap_ms);
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    bool asks = runtime->settings.hints && runtime->hints->exchange == 0;
    return asks ? runtime->hints->due_us : UINT64_MAX;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_STOPPED) {
        stop(runtime);
    }
    if (event->exchange == 0 || event->exchange != runtime->hints->exchange) {
        return false;
    }
    if (event->kind == DEV_PART_EVENT_HEAD) {
        head_came(runtime, event->head);
    } else if (event->kind == DEV_PART_EVENT_BODY) {
        body_came(runtime, event->body.data, event->body.size);
    } else {
        ended(runtime);
    }
    return true;
}

const struct dev_part dev_hints_part = {.name = "hints",
                                        .init = init,
                                        .step = step,
                                        .due_us = due_us_of,
                                        .on_event = on_event,
                                        .hears = DEV_PART_HEARS(STOPPED) | DEV_PART_HEARS_EXCHANGE};
