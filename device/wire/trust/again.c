// The codec of marks. Offers carry them for every device (offer.c, read piece by piece by the
// device's offers_stream.c), the director's answer for devices with a root (meta.c); all use this
// one. Pure, any thread. Marks that are out of order, doubled or of no rollout are INVALID when
// written and when read, so a set of marks has one encoding only.
#include "wire/trust/again.h"

#include "base/check.h"

// One task has one mark, and a mark is of a rollout.
static bool marks_ok(const struct wire_again *marks, uint32_t count)
{
    base_assert(count <= WIRE_AGAIN_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i].rollout_id == 0 || (i > 0 && marks[i - 1].task_id >= marks[i].task_id)) {
            return false;
        }
    }
    return count > 0;
}

void wire_again_write(struct base_writer *writer, const struct wire_again *marks, uint32_t count)
{
    if (count > WIRE_AGAIN_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return;
    }
    if (!marks_ok(marks, count)) {
        base_writer_fail(writer, BASE_ERR_INVALID);
        return;
    }
    base_writer_varint(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        base_writer_u64(writer, marks[i].task_id);
        base_writer_u64(writer, marks[i].rollout_id);
        base_writer_u8(writer, marks[i].attempt);
    }
}

void wire_again_read_items(struct base_reader *reader, struct wire_again *out, uint32_t count)
{
    if (count > WIRE_AGAIN_MAX) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i].task_id = base_reader_u64(reader);
        out[i].rollout_id = base_reader_u64(reader);
        out[i].attempt = base_reader_u8(reader);
    }
    if (reader->status == BASE_OK && !marks_ok(out, count)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

void wire_again_read(struct base_reader *reader, struct wire_again *out, uint32_t *out_count)
{
    uint64_t count = base_reader_varint(reader);
    *out_count = 0;
    if (count > WIRE_AGAIN_MAX) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        return;
    }
    wire_again_read_items(reader, out, (uint32_t)count);
    *out_count = reader->status == BASE_OK ? (uint32_t)count : 0;
}
