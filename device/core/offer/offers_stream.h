// Reads an answer to a check-in piece by piece (device/wire/trust/offer.h has the format), holding
// one envelope at a time instead of the whole answer, and nothing of its metadata. It is complete
// when wire_offers_parse takes it, and never otherwise.
#ifndef DEV_OFFERS_STREAM_H
#define DEV_OFFERS_STREAM_H

#include "wire/trust/offer.h"

#define DEV_OFFERS_ENVELOPE_MAX WIRE_ANSWER_BYTES_MAX

enum dev_offers_phase {
    DEV_OFFERS_VERSION,
    DEV_OFFERS_FLAGS,
    DEV_OFFERS_NEXT_CHECKIN,
    DEV_OFFERS_COUNT,
    DEV_OFFERS_SIZE,
    DEV_OFFERS_ENVELOPE,
    DEV_OFFERS_AGAIN_COUNT,
    DEV_OFFERS_AGAIN,
    DEV_OFFERS_META_SIZE,
    DEV_OFFERS_META,
    DEV_OFFERS_DONE,
    DEV_OFFERS_BROKEN, // damaged or over a limit: nothing more is taken
};

struct dev_offers_stream {
    uint64_t number; // varint under way
    uint32_t left;   // envelopes still to come, then bytes of metadata
    uint32_t next_checkin_s;
    uint16_t size; // of the envelope under way, or of the marks
    uint16_t fill;
    uint16_t total; // bytes of the answer
    uint8_t shift;
    uint8_t flags;
    uint8_t phase;
    uint8_t again_count;
    uint8_t bytes[DEV_OFFERS_ENVELOPE_MAX];
};

void dev_offers_start(struct dev_offers_stream *stream);
// Takes bytes up to the end of the next envelope and returns how many. *out_ready: `bytes` and
// `size` of the stream are that envelope until the next call. Call again with what is left.
size_t dev_offers_feed(struct dev_offers_stream *stream, const uint8_t *bytes, size_t size,
                       bool *out_ready);
// The bytes that the next call takes, and does not keep, are metadata: all of them, unless the
// stream is broken behind it.
bool dev_offers_is_metadata(const struct dev_offers_stream *stream);
// The whole answer came, and nothing behind it.
bool dev_offers_complete(const struct dev_offers_stream *stream);
// The marks of a complete answer: how many.
uint32_t dev_offers_again(const struct dev_offers_stream *stream,
                          struct wire_again out[WIRE_AGAIN_MAX]);

#endif
