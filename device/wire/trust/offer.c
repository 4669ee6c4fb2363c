// The offers codec: the gateway's answer to a check-in.
//
// The gateway encodes on its workers, the device parses in its loop. Envelopes and metadata are
// carried as they are and borrowed from the input; nothing is allocated.
#include "wire/trust/offer.h"

#include "base/check.h"

enum base_status wire_offers_encode(const struct wire_offers *offers, uint8_t *out, size_t capacity,
                                    size_t *out_size)
{
    if (offers->count > WIRE_OFFERS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    bool again = offers->again_count > 0;
    bool metadata = offers->metadata.size > 0;
    if ((offers->flags & ~WIRE_OFFER_FLAGS_KNOWN) != 0 ||
        ((offers->flags & WIRE_OFFER_FLAG_AGAIN) != 0 && !again) ||
        ((offers->flags & WIRE_OFFER_FLAG_METADATA) != 0 && !metadata)) {
        return BASE_ERR_INVALID;
    }
    if (offers->metadata.size > WIRE_OFFERS_META_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    _Static_assert(WIRE_OFFER_FLAGS_KNOWN <= UINT8_MAX, "the flags are a byte");
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_OFFERS_BYTES_MAX ? capacity : WIRE_OFFERS_BYTES_MAX);
    base_writer_u8(&writer, WIRE_OFFER_VERSION);
    base_writer_u8(&writer, (uint8_t)(offers->flags | (again ? WIRE_OFFER_FLAG_AGAIN : 0) |
                                      (metadata ? WIRE_OFFER_FLAG_METADATA : 0)));
    base_writer_varint(&writer, offers->next_checkin_s);
    base_writer_varint(&writer, offers->count);
    for (uint32_t i = 0; i < offers->count; i++) {
        size_t bytes = offers->items[i].envelope_bytes;
        if (bytes == 0) {
            return BASE_ERR_INVALID;
        }
        if (bytes > WIRE_ANSWER_BYTES_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        base_writer_varint(&writer, bytes);
        base_writer_bytes(&writer, offers->items[i].envelope, bytes);
    }
    if (again) {
        wire_again_write(&writer, offers->again, offers->again_count);
    }
    if (metadata) {
        base_writer_varint(&writer, offers->metadata.size);
        base_writer_bytes(&writer, offers->metadata.data, offers->metadata.size);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static enum base_status parse_items(struct base_reader *reader, struct wire_offers *offers)
{
    base_assert(offers->count <= WIRE_OFFERS_MAX);
    for (uint32_t i = 0; i < offers->count; i++) {
        uint64_t bytes = base_reader_varint(reader);
        BASE_TRY(reader->status);
        if (bytes == 0) {
            return BASE_ERR_INVALID;
        }
        if (bytes > WIRE_ANSWER_BYTES_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        offers->items[i].envelope_bytes = (size_t)bytes;
        offers->items[i].envelope = base_reader_bytes(reader, (size_t)bytes);
        BASE_TRY(reader->status);
    }
    return reader->status;
}

static enum base_status parse_metadata(struct base_reader *reader, struct base_span *out)
{
    uint64_t bytes = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (bytes == 0) {
        return BASE_ERR_INVALID;
    }
    if (bytes > WIRE_OFFERS_META_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    out->data = base_reader_bytes(reader, (size_t)bytes);
    out->size = (size_t)bytes;
    return reader->status;
}

enum base_status wire_offers_parse(const uint8_t *bytes, size_t size, struct wire_offers *out)
{
    _Static_assert(sizeof(out->again) / sizeof(out->again[0]) >= WIRE_AGAIN_MAX,
                   "room for all that is read");
    *out = (struct wire_offers){0};
    if (size > WIRE_OFFERS_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    uint8_t flags = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (version != WIRE_OFFER_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    if ((flags & ~WIRE_OFFER_FLAGS_KNOWN) != 0) {
        return BASE_ERR_INVALID;
    }
    uint32_t next_checkin_s = (uint32_t)base_reader_varint_max(&reader, UINT32_MAX);
    uint64_t count = base_reader_varint(&reader);
    BASE_TRY(reader.status);
    if (count > WIRE_OFFERS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct wire_offers offers = {
        .flags = flags, .next_checkin_s = next_checkin_s, .count = (uint32_t)count};
    BASE_TRY(parse_items(&reader, &offers));
    if ((flags & WIRE_OFFER_FLAG_AGAIN) != 0) {
        wire_again_read(&reader, offers.again, &offers.again_count);
    }
    if ((flags & WIRE_OFFER_FLAG_METADATA) != 0 && reader.status == BASE_OK) {
        BASE_TRY(parse_metadata(&reader, &offers.metadata));
    }
    BASE_TRY(base_reader_finish(&reader));
    *out = offers;
    return BASE_OK;
}
