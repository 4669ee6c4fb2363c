// Byte cursors: bounds are checked here and in the header's short functions and nowhere else, so
// parsers above have no pointer maths.
//
// A cursor is a value of its caller; nothing is shared and nothing allocated. Once failed, a cursor
// stays at its place, reads give zeros and writes do nothing.
#include "base/cursor.h"

#include "base/check.h"

#include <string.h>

#define VARINT_BYTES_MAX 10

void base_reader_init(struct base_reader *reader, const void *bytes, size_t size)
{
    static const uint8_t nothing[1] = {0};
    const uint8_t *start = bytes != NULL ? bytes : nothing;
    *reader = (struct base_reader){
        .start = start,
        .at = start,
        .end = start + (bytes != NULL ? size : 0),
        .status = BASE_OK,
    };
}

void base_reader_fail(struct base_reader *reader, enum base_status status)
{
    base_assert(status != BASE_OK);
    if (reader->status == BASE_OK) {
        reader->status = status;
    }
}

uint16_t base_reader_u16(struct base_reader *reader)
{
    const uint8_t *b = base_reader_bytes(reader, 2);
    if (b == NULL) {
        return 0;
    }
    return (uint16_t)((unsigned)b[0] | (unsigned)b[1] << 8);
}

static uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint32_t base_reader_u32(struct base_reader *reader)
{
    const uint8_t *b = base_reader_bytes(reader, 4);
    return b != NULL ? load_u32(b) : 0;
}

uint64_t base_reader_u64(struct base_reader *reader)
{
    const uint8_t *b = base_reader_bytes(reader, 8);
    return b != NULL ? (uint64_t)load_u32(b) | (uint64_t)load_u32(b + 4) << 32 : 0;
}

uint64_t base_reader_varint(struct base_reader *reader)
{
    base_assert(reader->start <= reader->at);
    base_assert(reader->at <= reader->end);
    // Most are small, and check-ins are full of them.
    const uint8_t *at = reader->at;
    if (reader->status == BASE_OK && reader->end - at >= 2) {
        if (at[0] < 0x80) {
            reader->at = at + 1;
            return at[0];
        }
        if (at[1] != 0 && at[1] < 0x80) {
            reader->at = at + 2;
            return (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        }
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
        uint8_t byte = base_reader_u8(reader);
        if (reader->status != BASE_OK) {
            return 0;
        }
        // The tenth byte holds the single bit that is left of 64.
        bool too_big = i == VARINT_BYTES_MAX - 1 && byte > 1;
        bool too_long = i > 0 && byte == 0;
        if (too_big || too_long) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    base_reader_fail(reader, BASE_ERR_INVALID);
    return 0;
}

uint64_t base_reader_varint_max(struct base_reader *reader, uint64_t max)
{
    uint64_t value = base_reader_varint(reader);
    if (value > max) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return 0;
    }
    return value;
}

int64_t base_reader_zigzag(struct base_reader *reader)
{
    uint64_t value = base_reader_varint(reader);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

void base_reader_copy(struct base_reader *reader, void *out, size_t size)
{
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (size == 0) {
        return;
    }
    if (bytes == NULL) {
        memset(out, 0, size);
        return;
    }
    memcpy(out, bytes, size);
}

enum base_status base_reader_finish(struct base_reader *reader)
{
    if (reader->at != reader->end) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return reader->status;
}

void base_writer_init(struct base_writer *writer, void *buffer, size_t capacity)
{
    static uint8_t nothing[1]; // never written: its capacity is zero
    uint8_t *start = buffer != NULL ? buffer : nothing;
    *writer = (struct base_writer){
        .start = start,
        .at = start,
        .end = start + (buffer != NULL ? capacity : 0),
        .status = BASE_OK,
    };
}

void base_writer_fail(struct base_writer *writer, enum base_status status)
{
    base_assert(status != BASE_OK);
    if (writer->status == BASE_OK) {
        writer->status = status;
    }
}

static void write_little_endian(struct base_writer *writer, uint64_t value, size_t size)
{
    uint8_t *room = base_writer_room(writer, size);
    base_assert(size <= sizeof(value));
    for (size_t i = 0; room != NULL && i < size; i++) {
        room[i] = (uint8_t)(value >> (8 * i));
    }
}

void base_writer_u16(struct base_writer *writer, uint16_t value)
{
    write_little_endian(writer, value, 2);
}

void base_writer_u32(struct base_writer *writer, uint32_t value)
{
    write_little_endian(writer, value, 4);
}

void base_writer_u64(struct base_writer *writer, uint64_t value)
{
    write_little_endian(writer, value, 8);
}

void base_writer_varint(struct base_writer *writer, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    if (value < 0x80) { // as most are
        base_writer_u8(writer, (uint8_t)value);
        return;
    }
    size_t size = 0;
    while (value >= 0x80) {
        bytes[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[size++] = (uint8_t)value;
    base_writer_bytes(writer, bytes, size);
}

void base_writer_zigzag(struct base_writer *writer, int64_t value)
{
    uint64_t bits = (uint64_t)value;
    base_writer_varint(writer, bits << 1 ^ (value < 0 ? UINT64_MAX : 0));
}
