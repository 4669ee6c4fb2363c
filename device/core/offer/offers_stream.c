// The streaming reader of check-in answers, by the rules of wire_offers_parse: what that refuses is
// never complete here. Called by the runtime for each chunk of a response and
// for offers in headers; pure.
#include "core/offer/offers_stream.h"

#include "base/check.h"

#include <string.h>

_Static_assert(WIRE_AGAIN_MAX *WIRE_AGAIN_BYTES <= DEV_OFFERS_ENVELOPE_MAX, "marks fit the buffer");

void dev_offers_start(struct dev_offers_stream *stream)
{
    stream->number = 0;
    stream->left = 0;
    stream->next_checkin_s = 0;
    stream->size = 0;
    stream->fill = 0;
    stream->total = 0;
    stream->shift = 0;
    stream->flags = 0;
    stream->again_count = 0;
    stream->phase = DEV_OFFERS_VERSION;
}

static void phase_set(struct dev_offers_stream *stream, enum dev_offers_phase phase)
{
    stream->phase = (uint8_t)phase;
}

// What follows the marks, or the last envelope.
static enum dev_offers_phase phase_last(const struct dev_offers_stream *stream)
{
    bool metadata = (stream->flags & WIRE_OFFER_FLAG_METADATA) != 0;
    return metadata ? DEV_OFFERS_META_SIZE : DEV_OFFERS_DONE;
}

// What follows an envelope, or the count of none.
static enum dev_offers_phase phase_next(const struct dev_offers_stream *stream)
{
    bool again = (stream->flags & WIRE_OFFER_FLAG_AGAIN) != 0;
    if (stream->left > 0) {
        return DEV_OFFERS_SIZE;
    }
    return again ? DEV_OFFERS_AGAIN_COUNT : phase_last(stream);
}

// One byte of a LEB128 number of at most 32 bits; true when it is complete.
static bool number_take(struct dev_offers_stream *stream, uint8_t byte)
{
    if (stream->shift > 28 || (byte == 0 && stream->shift > 0)) { // too long, or not the shortest
        phase_set(stream, DEV_OFFERS_BROKEN);
        return false;
    }
    stream->number |= (uint64_t)(byte & 0x7f) << stream->shift;
    stream->shift = (uint8_t)(stream->shift + 7);
    return (byte & 0x80) == 0;
}

static void number_done(struct dev_offers_stream *stream)
{
    uint64_t number = stream->number;
    stream->number = 0;
    stream->shift = 0;
    switch ((enum dev_offers_phase)stream->phase) {
    case DEV_OFFERS_NEXT_CHECKIN:
        stream->next_checkin_s = (uint32_t)number;
        phase_set(stream, number > UINT32_MAX ? DEV_OFFERS_BROKEN : DEV_OFFERS_COUNT);
        break;
    case DEV_OFFERS_COUNT:
        stream->left = (uint32_t)number;
        phase_set(stream, number > WIRE_OFFERS_MAX ? DEV_OFFERS_BROKEN : phase_next(stream));
        break;
    case DEV_OFFERS_AGAIN_COUNT:
        stream->again_count = (uint8_t)number;
        stream->size = (uint16_t)(number * WIRE_AGAIN_BYTES);
        stream->fill = 0;
        phase_set(stream,
                  number == 0 || number > WIRE_AGAIN_MAX ? DEV_OFFERS_BROKEN : DEV_OFFERS_AGAIN);
        break;
    case DEV_OFFERS_META_SIZE:
        stream->left = (uint32_t)number;
        phase_set(stream, number == 0 || number > WIRE_OFFERS_META_MAX ? DEV_OFFERS_BROKEN
                                                                       : DEV_OFFERS_META);
        break;
    default: // DEV_OFFERS_SIZE
        stream->size = (uint16_t)number;
        stream->fill = 0;
        phase_set(stream, number == 0 || number > DEV_OFFERS_ENVELOPE_MAX ? DEV_OFFERS_BROKEN
                                                                          : DEV_OFFERS_ENVELOPE);
        break;
    }
}

static void byte_take(struct dev_offers_stream *stream, uint8_t byte)
{
    switch ((enum dev_offers_phase)stream->phase) {
    case DEV_OFFERS_VERSION:
        phase_set(stream, byte == WIRE_OFFER_VERSION ? DEV_OFFERS_FLAGS : DEV_OFFERS_BROKEN);
        break;
    case DEV_OFFERS_FLAGS:
        stream->flags = byte;
        phase_set(stream, (byte & ~WIRE_OFFER_FLAGS_KNOWN) != 0 ? DEV_OFFERS_BROKEN
                                                                : DEV_OFFERS_NEXT_CHECKIN);
        break;
    case DEV_OFFERS_DONE: // trailing bytes
        phase_set(stream, DEV_OFFERS_BROKEN);
        break;
    default:
        if (number_take(stream, byte)) {
            number_done(stream);
        }
        break;
    }
}

// `bytes` are full: an envelope to be taken, or the marks. False: go on.
static bool filled(struct dev_offers_stream *stream)
{
    struct wire_again marks[WIRE_AGAIN_MAX];
    if (stream->phase == DEV_OFFERS_ENVELOPE) {
        stream->left--;
        phase_set(stream, phase_next(stream));
        return true;
    }
    phase_set(stream, DEV_OFFERS_DONE);
    bool good = dev_offers_again(stream, marks) > 0;
    phase_set(stream, good ? phase_last(stream) : DEV_OFFERS_BROKEN);
    return false;
}

static void metadata_pass(struct dev_offers_stream *stream, size_t size)
{
    base_check(size <= stream->left);
    stream->left -= (uint32_t)size;
    phase_set(stream, stream->left > 0 ? DEV_OFFERS_META : DEV_OFFERS_DONE);
}

// Takes bytes of an answer that is not too long yet, up to the end of the next envelope, up to
// metadata, or of that alone.
static size_t feed(struct dev_offers_stream *stream, const uint8_t *bytes, size_t size,
                   bool *out_ready)
{
    size_t at = 0;
    if (stream->phase == DEV_OFFERS_META) {
        at = stream->left < size ? stream->left : size;
        metadata_pass(stream, at);
        return at;
    }
    while (at < size && stream->phase != DEV_OFFERS_BROKEN && stream->phase != DEV_OFFERS_META &&
           !*out_ready) {
        if (stream->phase != DEV_OFFERS_ENVELOPE && stream->phase != DEV_OFFERS_AGAIN) {
            byte_take(stream, bytes[at++]);
            continue;
        }
        size_t want = (size_t)(stream->size - stream->fill);
        size_t take = want < size - at ? want : size - at;
        memcpy(stream->bytes + stream->fill, bytes + at, take);
        stream->fill = (uint16_t)(stream->fill + take);
        at += take;
        *out_ready = stream->fill == stream->size && filled(stream);
    }
    return at;
}

size_t dev_offers_feed(struct dev_offers_stream *stream, const uint8_t *bytes, size_t size,
                       bool *out_ready)
{
    base_check(stream->total <= WIRE_OFFERS_BYTES_MAX);
    base_check(stream->fill <= DEV_OFFERS_ENVELOPE_MAX);
    size_t room = (size_t)(WIRE_OFFERS_BYTES_MAX - stream->total);
    *out_ready = false;
    size_t at = feed(stream, bytes, size < room ? size : room, out_ready);
    stream->total = (uint16_t)(stream->total + at);
    if (at == room && size > room) { // there is more than an answer has
        phase_set(stream, DEV_OFFERS_BROKEN);
    }
    return stream->phase == DEV_OFFERS_BROKEN && !*out_ready ? size : at;
}

bool dev_offers_is_metadata(const struct dev_offers_stream *stream)
{
    return stream->phase == DEV_OFFERS_META;
}

bool dev_offers_complete(const struct dev_offers_stream *stream)
{
    return stream->phase == DEV_OFFERS_DONE;
}

uint32_t dev_offers_again(const struct dev_offers_stream *stream,
                          struct wire_again out[WIRE_AGAIN_MAX])
{
    struct base_reader reader;
    if (stream->phase != DEV_OFFERS_DONE) {
        return 0;
    }
    base_reader_init(&reader, stream->bytes, (size_t)stream->again_count * WIRE_AGAIN_BYTES);
    wire_again_read_items(&reader, out, stream->again_count);
    return reader.status == BASE_OK ? stream->again_count : 0;
}
