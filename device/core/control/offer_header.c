// Offers that came without a check-in: in the header of an answer to a request of the app's own, by
// a gateway that proxies it. They answer no question of the device's, so what leads back or stops
// only makes it check in, and on a device with a root everything does.
//
// Called by the app, on the runtime's thread.
#include "core/control/control_parts.h"

#include "core/offer/device_again.h"
#include "core/offer/device_offer.h"
#include "core/trust/device_trust.h"

// Walks through a whole answer; with `take` every envelope is judged.
static enum base_status offers_walk(struct dev_runtime *runtime, struct dev_offers_stream *stream,
                                    const uint8_t *bytes, size_t size, bool take)
{
    dev_offers_start(stream);
    for (size_t at = 0; at < size;) {
        bool ready = false;
        at += dev_offers_feed(stream, bytes + at, size - at, &ready);
        if (ready && take) {
            dev_offer_take(runtime, stream->bytes, stream->size, stream->flags, false);
        }
    }
    return dev_offers_complete(stream) ? BASE_OK : BASE_ERR_INVALID;
}

enum base_status dev_on_offer_header(struct dev_runtime *runtime, struct base_str text)
{
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    struct dev_offers_stream stream;
    size_t size = 0;
    if (base_b64_decode(text, bytes, sizeof(bytes), &size) != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(offers_walk(runtime, &stream, bytes, size, false));
    if (dev_trust_is_rooted(runtime)) { // it answers no question of ours: ask
        dev_checkin_soon(runtime);
        return BASE_OK;
    }
    BASE_TRY(offers_walk(runtime, &stream, bytes, size, true));
    if ((stream.flags & WIRE_OFFER_FLAG_ASK_PAIRS) != 0) {
        runtime->control->pairs_wanted = true;
    }
    struct wire_again marks[WIRE_AGAIN_MAX];
    bool again = dev_again_news(runtime, marks, dev_offers_again(&stream, marks));
    if (again || (stream.flags & (WIRE_OFFER_FLAG_ASK_PAIRS | WIRE_OFFER_FLAG_MORE |
                                  WIRE_OFFER_FLAG_SHADOWS)) != 0) {
        dev_checkin_soon(runtime);
    }
    (void)dev_flush(runtime, dev_now_us(runtime));
    return BASE_OK;
}
