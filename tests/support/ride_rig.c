// Rides (device_rig.h): what the gateway's proxy does with the headers of an app's request, and
// says in those of the answer. Called by tests.
#include "device_rig.h"

#include "wire/ride_token.h"

#include <stdlib.h>
#include <string.h>

struct base_str rig_ride_header(const struct dev_ride *ride, const char *name)
{
    for (uint32_t i = 0; i < ride->header_count; i++) {
        if (base_str_equal(ride->headers[i].name, base_str_of(name))) {
            return ride->headers[i].value;
        }
    }
    return (struct base_str){0};
}

void rig_ride_end(struct rig *rig, const struct dev_ride *ride, const char *words,
                  struct base_str offer)
{
    char said[WIRE_RIDE_ANSWER_MAX];
    struct base_str token;
    if (wire_ride_token(rig_ride_header(ride, "walle-ride"), &token) != BASE_OK) {
        abort();
    }
    size_t size = wire_ride_answer(token, base_str_of(words), said);
    dev_ride_end(rig->runtime, ride->number, (struct base_str){said, size}, offer);
}

void rig_ride_answer(struct rig *rig, const struct dev_ride *ride)
{
    struct mem_exchange exchange = {.nonce = ""};
    struct base_str nonce = rig_ride_header(ride, "walle-nonce");
    struct base_str report = rig_ride_header(ride, "walle-report");
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    char text[BASE_B64_ENCODED(WIRE_OFFERS_HEADER_MAX)];
    size_t size = 0;
    if (report.size > 0 && rig->report_status == 0) {
        uint8_t body[WIRE_REPORT_HEADER_MAX];
        if (base_b64_decode(report, body, sizeof(body), &size) != BASE_OK) {
            abort();
        }
        rig_report_take(rig, body, size);
    }
    if (nonce.size > 0) {
        memcpy(exchange.nonce, nonce.data, nonce.size);
    }
    size = rig_offers_encode(rig, &exchange, bytes, sizeof(bytes));
    struct base_str offer = {text, size > 0 ? base_b64_encode(bytes, size, text) : 0};
    bool taken = report.size > 0 && rig->report_status == 0;
    bool refused = report.size > 0 && rig->report_status == 400;
    rig_ride_end(rig, ride,
                 taken     ? "checkin, report"
                 : refused ? "checkin, refused"
                           : "checkin",
                 offer);
}
