// Rides: a check-in, and a report where one waits, as headers of a request that the app makes
// anyway. To everything behind it a ride is a check-in; its answer comes in headers too.
//
// Called by the app around its request (dev_ride_start, dev_ride_end), and by the tick when the end
// of a ride was never told.
#include "core/control/control_parts.h"

#include "core/trust/device_lease.h"

#include "base/check.h"

#include "wire/ride_token.h"

#include <string.h>

_Static_assert(BASE_B64_ENCODED(WIRE_REPORT_HEADER_MAX) < DEV_RIDE_BYTES_MAX,
               "there is room for a profile beside a report");

static void header_add(struct dev_ride *ride, struct base_str name, struct base_str value)
{
    base_check(ride->header_count < DEV_RIDE_HEADERS_MAX);
    ride->headers[ride->header_count++] = (struct dev_ride_header){name, value};
}

// What the rest of the ride's room takes of the outcomes that wait.
static void report_add(struct dev_runtime *runtime, struct dev_ride *ride, size_t used)
{
    uint8_t bytes[WIRE_REPORT_HEADER_MAX];
    base_check(used <= sizeof(ride->text));
    size_t room = (sizeof(ride->text) - used) / 4 * 3;
    size_t size = 0;
    struct dev_control *control = runtime->control;
    enum base_status status =
        dev_report_encode(runtime, bytes, room < sizeof(bytes) ? room : sizeof(bytes), &size);
    uint64_t next_seq = runtime->outcomes.first_seq + runtime->outcomes.count;
    runtime->stats.rides_cut +=
        status == BASE_ERR_TOO_LARGE || (status == BASE_OK && control->reported_seq + 1 < next_seq);
    if (status != BASE_OK) {
        return; // what can never be sent is dropped by a request of its own
    }
    size = base_b64_encode(bytes, size, ride->text + used);
    header_add(ride, BASE_STR("walle-report"), (struct base_str){ride->text + used, size});
    control->ride_reports = true;
}

enum base_status dev_ride_start(struct dev_runtime *runtime, struct dev_ride *out_ride)
{
    struct dev_control *control = runtime->control;
    uint64_t now_us = dev_now_us(runtime);
    struct dev_question question = {.takes_metadata = false}; // the answer comes in a header
    size_t used = 0;
    bool told_to_wait = control->retry_after_s > 0 && now_us < control->not_before_us;
    if (!runtime->booted || control->exchange != 0 || told_to_wait) {
        return BASE_ERR_BUSY;
    }
    bool stored = dev_flush(runtime, now_us);
    enum base_status status = dev_checkin_begin(
        runtime, out_ride->text, sizeof(out_ride->text) - WIRE_ASK_TEXT, &used, &question);
    if (status != BASE_OK) {
        runtime->stats.rides_too_large++;
        return status;
    }
    control->exchange = dev_exchange_new(runtime);
    control->kind = DEV_CONTROL_RIDE;
    control->status = 0;
    control->retry_after_s = 0;
    control->ride_reports = false;
    control->deadline_us = now_us + runtime->settings.request_timeout_us;
    out_ride->number = control->exchange;
    out_ride->header_count = 0;
    control->ride_token = dev_random(runtime);
    wire_ride_text(control->ride_token, out_ride->token);
    header_add(out_ride, BASE_STR("walle-ride"), base_str_of(out_ride->token));
    header_add(out_ride, BASE_STR("walle-device"),
               (struct base_str){runtime->settings.device_hex, WIRE_DEVICE_HEX});
    header_add(out_ride, BASE_STR("walle-profile"), (struct base_str){out_ride->text, used});
    if (question.text[0] != '\0') {
        memcpy(out_ride->text + used, question.text, WIRE_ASK_TEXT);
        header_add(out_ride, BASE_STR("walle-nonce"),
                   (struct base_str){out_ride->text + used, WIRE_ASK_TEXT});
        used += WIRE_ASK_TEXT;
    }
    if (stored) {
        report_add(runtime, out_ride, used);
    }
    return BASE_OK;
}

void dev_ride_expect(struct dev_runtime *runtime)
{
    uint64_t until_us = dev_now_us(runtime) + runtime->settings.ride_wait_s * 1000000ull;
    uint64_t renew_us = dev_lease_renew_us(runtime); // a lease does not wait
    runtime->control->quiet_until_us = until_us < renew_us ? until_us : renew_us;
}

// As the answer to a check-in. What does not parse is one that failed.
static void checkin_answered(struct dev_runtime *runtime, struct base_str offer)
{
    struct dev_control *control = runtime->control;
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    size_t size = 0;
    enum base_status status = base_b64_decode(offer, bytes, sizeof(bytes), &size);
    uint64_t before = runtime->stats.checkins;
    control->kind = DEV_CONTROL_CHECKIN;
    control->status = offer.size > 0 ? 200 : 204;
    if (status == BASE_OK && size > 0) {
        dev_control_body(runtime, bytes, size);
    }
    dev_control_end(runtime, status);
    if (runtime->stats.checkins > before) {
        runtime->stats.rides++;
        control->not_before_us = 0;
        dev_ride_expect(runtime);
    }
}

void dev_ride_end(struct dev_runtime *runtime, uint32_t number, struct base_str taken,
                  struct base_str offer)
{
    struct dev_control *control = runtime->control;
    if (number == 0 || control->exchange != number || control->kind != DEV_CONTROL_RIDE) {
        return;
    }
    uint64_t token = control->ride_token;
    control->exchange = 0;
    if (control->ride_reports && wire_ride_says(taken, token, BASE_STR("report"))) {
        runtime->stats.ride_reports++;
        dev_report_done(runtime);
    } else if (control->ride_reports && wire_ride_says(taken, token, BASE_STR("refused"))) {
        dev_report_refused(runtime);
    }
    if (wire_ride_says(taken, token, BASE_STR("checkin"))) {
        checkin_answered(runtime, offer);
    } else {
        runtime->stats.rides_lost++;
        control->quiet_until_us = 0; // perhaps no gateway stands on the way: nothing waits for it
    }
    (void)dev_flush(runtime, dev_now_us(runtime));
}
