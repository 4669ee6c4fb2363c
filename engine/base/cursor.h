// Byte cursors: the only way parsers touch raw memory.
//
// A reader that runs out or meets a bad value becomes `failed` and stays so; further reads give
// zeros. So a parser reads a whole structure and asks once at the end. A writer behaves the same
// when its buffer is full. All integers are little-endian. Varints are LEB128, at most 10 bytes,
// shortest form only.
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

BASE_C_BEGIN

struct base_reader {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    enum base_status status; // first failure: TRUNCATED or INVALID
};

struct base_writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    enum base_status status; // first failure: TOO_LARGE, or what the caller set
};

void base_reader_init(struct base_reader *reader, const void *bytes, size_t size);

static inline size_t base_reader_left(const struct base_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline size_t base_reader_offset(const struct base_reader *reader)
{
    return (size_t)(reader->at - reader->start);
}

// Borrowed pointer to the next `size` bytes, NULL when they are not there. Valid as long as the
// input.
static inline const uint8_t *base_reader_bytes(struct base_reader *reader, size_t size)
{
    if (reader->status != BASE_OK) {
        return NULL;
    }
    if (size > base_reader_left(reader)) {
        reader->status = BASE_ERR_TRUNCATED;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += size;
    return bytes;
}

static inline uint8_t base_reader_u8(struct base_reader *reader)
{
    const uint8_t *byte = base_reader_bytes(reader, 1);
    return byte != NULL ? byte[0] : 0;
}

uint16_t base_reader_u16(struct base_reader *reader);
uint32_t base_reader_u32(struct base_reader *reader);
uint64_t base_reader_u64(struct base_reader *reader);
uint64_t base_reader_varint(struct base_reader *reader);
// A varint that must be at most `max`, else the reader fails with INVALID and 0 is returned.
uint64_t base_reader_varint_max(struct base_reader *reader, uint64_t max);
int64_t base_reader_zigzag(struct base_reader *reader);
void base_reader_copy(struct base_reader *reader, void *out, size_t size);
// Marks the reader failed with `status` unless it already is.
void base_reader_fail(struct base_reader *reader, enum base_status status);
// status, or INVALID when bytes are left over: call it once at the end of a parse.
BASE_NODISCARD enum base_status base_reader_finish(struct base_reader *reader);

void base_writer_init(struct base_writer *writer, void *buffer, size_t capacity);

static inline size_t base_writer_size(const struct base_writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

// The next `size` bytes, which the caller fills; NULL: the writer has failed.
static inline uint8_t *base_writer_room(struct base_writer *writer, size_t size)
{
    if (writer->status != BASE_OK) {
        return NULL;
    }
    if (size > (size_t)(writer->end - writer->at)) {
        writer->status = BASE_ERR_TOO_LARGE;
        return NULL;
    }
    uint8_t *room = writer->at;
    writer->at += size;
    return room;
}

static inline void base_writer_u8(struct base_writer *writer, uint8_t value)
{
    uint8_t *room = base_writer_room(writer, 1);
    if (room != NULL) {
        room[0] = value;
    }
}

static inline void base_writer_bytes(struct base_writer *writer, const void *bytes, size_t size)
{
    uint8_t *room = base_writer_room(writer, size);
    if (room != NULL && size > 0) {
        memcpy(room, bytes, size);
    }
}

// Marks the writer failed with `status` unless it already is.
void base_writer_fail(struct base_writer *writer, enum base_status status);
void base_writer_u16(struct base_writer *writer, uint16_t value);
void base_writer_u32(struct base_writer *writer, uint32_t value);
void base_writer_u64(struct base_writer *writer, uint64_t value);
void base_writer_varint(struct base_writer *writer, uint64_t value);
void base_writer_zigzag(struct base_writer *writer, int64_t value);

BASE_C_END

#endif
