// Deltas of saved states. Called by saved_states.c on the shard's thread. Two blocks are compared
// eight bytes at a time, since almost all of them are equal; an equal byte or two between
// differences cost less inside a run than a new run would.
#include "ports/state_delta.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/hash.h"

#include <string.h>

#define EQUAL_ENDS_RUN 3u // equal bytes after a run that make it end

// How many bytes are equal from `at` on.
static size_t equal_bytes(const uint8_t *a, const uint8_t *b, size_t size)
{
    size_t at = 0;
    uint64_t x;
    uint64_t y;
    while (at + sizeof(x) <= size) {
        memcpy(&x, a + at, sizeof(x));
        memcpy(&y, b + at, sizeof(y));
        if (x != y) {
            return at + (size_t)__builtin_ctzll(x ^ y) / 8;
        }
        at += sizeof(x);
    }
    while (at < size && a[at] == b[at]) {
        at++;
    }
    return at;
}

// A run begins at the start of both: where it ends.
static size_t run_bytes(const uint8_t *a, const uint8_t *b, size_t size)
{
    size_t end = 1; // behind the last byte that differs
    for (size_t at = 1; at < size && at - end < EQUAL_ENDS_RUN; at++) {
        end = a[at] != b[at] ? at + 1 : end;
    }
    return end;
}

size_t sim_delta_find(const uint8_t *base, const uint8_t *bytes, size_t size, uint8_t *out,
                      size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    size_t at = 0;
    while (writer.status == BASE_OK) {
        size_t equal = equal_bytes(base + at, bytes + at, size - at);
        if (at + equal == size) {
            break;
        }
        at += equal;
        size_t count = run_bytes(base + at, bytes + at, size - at);
        base_writer_varint(&writer, equal);
        base_writer_varint(&writer, count);
        base_writer_bytes(&writer, bytes + at, count);
        at += count;
    }
    base_assert(at <= size);
    return writer.status == BASE_OK ? base_writer_size(&writer) : SIZE_MAX;
}

// The next run that a reader over a delta comes to, which begins at *io_at or behind it: moves
// *io_at behind the run. Its bytes, *out_count of them, valid as long as the delta; NULL: it ended,
// or it is no delta of a block of this size, and the reader's status says which.
static const uint8_t *run_next(struct base_reader *reader, size_t size, size_t *io_at,
                               size_t *out_count)
{
    if (base_reader_left(reader) == 0) {
        return NULL;
    }
    size_t at = *io_at + base_reader_varint_max(reader, size - *io_at);
    size_t count = base_reader_varint_max(reader, size - at);
    const uint8_t *bytes = base_reader_bytes(reader, count);
    if (reader->status != BASE_OK) {
        return NULL;
    }
    *io_at = at + count;
    *out_count = count;
    return bytes;
}

bool sim_delta_apply(const uint8_t *delta, size_t delta_bytes, uint8_t *bytes, size_t size)
{
    struct base_reader reader;
    base_reader_init(&reader, delta, delta_bytes);
    size_t at = 0;
    size_t count = 0;
    const uint8_t *run;
    while ((run = run_next(&reader, size, &at, &count)) != NULL) {
        memcpy(bytes + at - count, run, count);
    }
    base_assert(at <= size);
    return reader.status == BASE_OK;
}

bool sim_shape_of(const uint8_t *delta, size_t delta_bytes, struct sim_delta_shape *out)
{
    struct base_reader reader;
    base_reader_init(&reader, delta, delta_bytes);
    uint64_t at = 0;
    *out = (struct sim_delta_shape){0};
    while (base_reader_left(&reader) > 0) {
        at += base_reader_varint_max(&reader, UINT16_MAX);
        const uint64_t count = base_reader_varint_max(&reader, SIM_SHAPE_BYTES_MAX - out->bytes);
        (void)base_reader_bytes(&reader, count);
        if (reader.status != BASE_OK || out->run_count == SIM_SHAPE_RUNS_MAX ||
            at + count > UINT16_MAX) {
            return false;
        }
        out->runs[out->run_count].at = (uint16_t)at;
        out->runs[out->run_count++].count = (uint16_t)count;
        out->bytes = (uint16_t)(out->bytes + count);
        at += count;
    }
    return true;
}

bool sim_shape_covers(const struct sim_delta_shape *shape, const struct sim_delta_shape *other)
{
    uint32_t i = 0;
    bool covered = true;
    for (uint32_t k = 0; k < other->run_count && covered; k++) {
        const uint32_t end = other->runs[k].at + other->runs[k].count;
        while (i < shape->run_count && shape->runs[i].at + shape->runs[i].count < end) {
            i++;
        }
        covered = i < shape->run_count && shape->runs[i].at <= other->runs[k].at;
    }
    return covered;
}

void sim_shape_take(const struct sim_delta_shape *shape, const uint8_t *block, uint8_t *out)
{
    for (uint32_t i = 0; i < shape->run_count; i++) {
        memcpy(out, block + shape->runs[i].at, shape->runs[i].count);
        out += shape->runs[i].count;
    }
}

void sim_shape_put(const struct sim_delta_shape *shape, const uint8_t *bytes, uint8_t *block)
{
    for (uint32_t i = 0; i < shape->run_count; i++) {
        memcpy(block + shape->runs[i].at, bytes, shape->runs[i].count);
        bytes += shape->runs[i].count;
    }
}

bool sim_state_is_sealed(const uint8_t *bytes, size_t size)
{
    if (size < SIM_STATE_SEAL_BYTES) {
        return false;
    }
    uint8_t seal[SIM_STATE_SEAL_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, seal, sizeof(seal));
    base_writer_u64(&writer, base_hash64(bytes, size - sizeof(seal)));
    return memcmp(bytes + size - sizeof(seal), seal, sizeof(seal)) == 0;
}

void sim_state_seal(uint8_t *bytes, size_t size)
{
    struct base_writer writer;
    base_check(size >= SIM_STATE_SEAL_BYTES);
    base_writer_init(&writer, bytes + size - SIM_STATE_SEAL_BYTES, SIM_STATE_SEAL_BYTES);
    base_writer_u64(&writer, base_hash64(bytes, size - SIM_STATE_SEAL_BYTES));
}
