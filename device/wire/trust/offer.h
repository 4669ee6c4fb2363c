// Offers: the gateway's answer to a check-in (body, application/octet-stream) and, in base64url,
// the response header `walle-offer` on ordinary business responses.
//
//   offers := u8 version(1), u8 flags, varint next_checkin_s, varint count,
//             count x { varint size, envelope }, [flags & AGAIN: marks (wire/trust/again.h)],
//             [flags & METADATA: varint size, next (wire/trust/meta.h)]
//
// Marks come only in the answer to a check-in, and only to devices whose profile says that they
// know them. Metadata comes only behind a director's answer, to devices whose question asks for it.
#ifndef WIRE_OFFER_H
#define WIRE_OFFER_H

#include "base/cursor.h"
#include "base/span.h"
#include "wire/trust/again.h"
#include "wire/trust/statement.h"

#define WIRE_OFFER_VERSION        1
#define WIRE_OFFER_FLAG_ASK_PAIRS 0x01u // send the pairs at the next check-in, now
#define WIRE_OFFER_FLAG_MORE      0x02u // more than fits here: check in
#define WIRE_OFFER_FLAG_RETRY     0x04u // a version offered here may be tried again where it failed
#define WIRE_OFFER_FLAG_SHADOWS   0x08u // shadows that this answer does not offer are over
#define WIRE_OFFER_FLAG_INTERVAL  0x10u // next_checkin_s is the interval from now on
#define WIRE_OFFER_FLAG_AGAIN     0x20u // marks follow the offers
#define WIRE_OFFER_FLAG_METADATA  0x40u // what the device would ask for next comes last
#define WIRE_OFFER_FLAGS_KNOWN                                                                     \
    (WIRE_OFFER_FLAG_ASK_PAIRS | WIRE_OFFER_FLAG_MORE | WIRE_OFFER_FLAG_RETRY |                    \
     WIRE_OFFER_FLAG_SHADOWS | WIRE_OFFER_FLAG_INTERVAL | WIRE_OFFER_FLAG_AGAIN |                  \
     WIRE_OFFER_FLAG_METADATA)
#define WIRE_OFFERS_MAX        32
#define WIRE_OFFERS_BYTES_MAX  (32 * 1024)
#define WIRE_OFFERS_HEADER_MAX 3072 // bytes before base64 in a header
#define WIRE_OFFERS_META_MAX   8192 // bytes of metadata in one answer

struct wire_offers {
    uint8_t flags;
    uint32_t next_checkin_s; // 0: after the device's interval
    uint32_t count;
    struct {
        const uint8_t *envelope; // borrowed
        size_t envelope_bytes;
    } items[WIRE_OFFERS_MAX];
    uint32_t again_count;
    struct wire_again again[WIRE_AGAIN_MAX]; // by task id
    struct base_span metadata;               // borrowed; size 0: none
};

// The flags AGAIN and METADATA are set when there are marks, or metadata. INVALID: one is set
// without, unknown flags, an empty envelope, marks out of order. TOO_LARGE.
BASE_NODISCARD enum base_status wire_offers_encode(const struct wire_offers *offers, uint8_t *out,
                                                   size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status wire_offers_parse(const uint8_t *bytes, size_t size,
                                                  struct wire_offers *out);

#endif
