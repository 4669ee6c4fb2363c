// Protobuf's wire format, field by field, behind onnx_scan.c, tensor_proto.c and tensor_pb.c; on
// the loading thread. Written over the byte cursor and not generated, since these three read fields
// where they lie and copy nothing. Groups, wire types that are none and varints of more than ten
// bytes are faults; a field's bytes are always within the input.
#include "model/pb_wire.h"

#include "base/check.h"

#define VARINT_BYTES_MAX 10

uint64_t eng_wire_varint(struct base_reader *reader)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < VARINT_BYTES_MAX; i++) {
        uint64_t byte = base_reader_u8(reader);
        value |= (byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    base_reader_fail(reader, BASE_ERR_INVALID);
    return 0;
}

bool eng_wire_next(struct base_reader *reader, struct eng_wire_field *out)
{
    if (reader->status != BASE_OK || base_reader_left(reader) == 0) {
        return false;
    }
    *out = (struct eng_wire_field){.start = reader->at};
    uint64_t key = eng_wire_varint(reader);
    uint64_t number = key >> 3;
    if (number == 0 || number > UINT32_MAX >> 3) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return false;
    }
    out->number = (uint32_t)number;
    switch (key & 7) {
    case ENG_WIRE_VARINT:
        out->type = ENG_WIRE_VARINT;
        out->value = eng_wire_varint(reader);
        break;
    case ENG_WIRE_FIXED64:
        out->type = ENG_WIRE_FIXED64;
        out->value = base_reader_u64(reader);
        break;
    case ENG_WIRE_BYTES: {
        out->type = ENG_WIRE_BYTES;
        uint64_t size = eng_wire_varint(reader);
        if (size > base_reader_left(reader)) {
            base_reader_fail(reader, BASE_ERR_TRUNCATED);
            return false;
        }
        out->size = (size_t)size;
        out->bytes = base_reader_bytes(reader, out->size);
        break;
    }
    case ENG_WIRE_FIXED32:
        out->type = ENG_WIRE_FIXED32;
        out->value = base_reader_u32(reader);
        break;
    default:
        base_reader_fail(reader, BASE_ERR_INVALID);
        return false;
    }
    out->end = reader->at;
    base_assert(out->end >= out->start);
    base_assert(out->bytes == NULL || out->bytes + out->size == out->end);
    return reader->status == BASE_OK;
}
