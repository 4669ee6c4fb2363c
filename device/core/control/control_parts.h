// What the files of control share: device_control.c, check-ins and reports; device_ride.c, those
// that ride on requests of the app; device_hints.c, the hint stream; offer_header.c.
#ifndef DEV_CONTROL_PARTS_H
#define DEV_CONTROL_PARTS_H

#include "core/control/device_control.h"
#include "core/control/sse.h"
#include "core/offer/offers_stream.h"
#include "wire/trust/meta.h"

#define DEV_REPORT_LATEST_US  (60 * 1000000ull) // outcomes that wait for a run's end wait this long
#define DEV_HINTS_CATCH_UP_US (10 * 1000000ull) // spread of the check-ins after a stream came back

enum dev_control_kind {
    DEV_CONTROL_NONE,
    DEV_CONTROL_CHECKIN,
    DEV_CONTROL_REPORT,
    DEV_CONTROL_RIDE, // on a request of the app's: a check-in, and perhaps a report
};

// The check-in or report under way, and when the next ones are due.
struct dev_control {
    uint64_t checkin_due_us;
    uint64_t report_due_us;  // UINT64_MAX: nothing to report
    uint64_t not_before_us;  // back-off
    uint64_t quiet_until_us; // what is due waits for a ride until then
    uint64_t deadline_us;
    uint64_t reported_seq; // last number in the report under way
    uint32_t exchange;     // 0: none
    uint32_t retry_after_s;
    int status; // 0: no head yet
    uint8_t kind;
    bool pairs_sent;
    bool pairs_wanted;
    bool more_offers;   // check in again when the pulls are done
    bool ride_reports;  // the ride under way has a report
    bool checkin_first; // the last report failed: it must not keep the device from checking in
    // A check-in asked for while one was under way, so long after its end; UINT32_MAX: none.
    uint32_t again_ms;
    uint64_t ride_token; // the ride under way is answered under this
    struct dev_backoff backoff;
    struct dev_offers_stream offers;
};

struct dev_hints {
    uint64_t due_us;
    uint32_t exchange;
    bool accepted; // status 200
    bool missed;   // there was a stream before, so hints may have been missed
    struct dev_backoff backoff;
    struct dev_sse sse;
};

// ---- device_control.c
// A check-in at `due_us` or before. One under way may have been answered too early for what this is
// about: then it is another one.
void dev_checkin_by(struct dev_runtime *runtime, uint64_t due_us);
// As soon as may be; a ride that is expected is waited for.
void dev_checkin_soon(struct dev_runtime *runtime);
// The question of a check-in: `text` is empty on a device without a root.
struct dev_question {
    bool takes_metadata; // the answer has room for it
    char text[WIRE_ASK_TEXT_MAX + 1];
};
// Begins a check-in: its profile is in `text`, its question in `inout_question`, which says what
// it is to ask for. TOO_LARGE: nothing has begun.
BASE_NODISCARD enum base_status dev_checkin_begin(struct dev_runtime *runtime, char *text,
                                                  size_t capacity, size_t *out_size,
                                                  struct dev_question *inout_question);
// Encodes the oldest outcomes that fit `capacity`, and notes which. NOT_FOUND: there is none;
// TOO_LARGE; other codes: the oldest can never be sent.
BASE_NODISCARD enum base_status dev_report_encode(struct dev_runtime *runtime, uint8_t *out,
                                                  size_t capacity, size_t *out_size);
// The report that was encoded last is durable; or the gateway will never take it.
void dev_report_done(struct dev_runtime *runtime);
void dev_report_refused(struct dev_runtime *runtime);

// ---- device_ride.c
// From now on what is due waits for a ride, so long as settings say.
void dev_ride_expect(struct dev_runtime *runtime);
void dev_control_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
void dev_control_end(struct dev_runtime *runtime, enum base_status status);

#endif
