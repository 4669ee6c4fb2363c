// Results to protobuf, for the gRPC door, on a worker's thread: a small head for each output, and
// behind the heads the raw elements, copied once, into memory whose size was counted before. Typed
// contents are never written: every client reads raw ones, and most read them faster.
#include "infer/codec/oip_proto.h"

#include "base/check.h"
#include "infer/codec/oip_tensor.h"
#include "infer/codec/pb_out.h"

#include <string.h>

#define OUTPUT_BYTES 128u // of an output's head, beside its name

// Fields of ModelInferResponse.
enum response_field { MODEL_NAME = 1, MODEL_VERSION = 2, ID = 3, OUTPUTS = 5, RAW_CONTENTS = 6 };
// Fields of InferOutputTensor.
enum output_field { NAME = 1, DATATYPE = 2, SHAPE = 3 };

// Fields of ModelStreamInferResponse.
enum streamed_field { ERROR_MESSAGE = 1, INFER_RESPONSE = 2 };

static enum base_status put_result(struct gw_pb_out *out, struct base_arena *arena,
                                   const struct gw_infer_call *call,
                                   const struct gw_infer_result *result)
{
    struct gw_infer_tensor *outputs = NULL;
    size_t expected = result->model.size + result->version.size + result->id.size;
    BASE_TRY(gw_oip_outputs(arena, call, result, &outputs));
    for (size_t i = 0; i < result->output_count; i++) {
        expected += OUTPUT_BYTES + outputs[i].name.size + gw_oip_raw_size(&outputs[i]);
    }
    gw_pb_out_init(out, arena, expected);
    gw_pb_text(out, MODEL_NAME, result->model);
    gw_pb_text(out, MODEL_VERSION, result->version);
    gw_pb_text(out, ID, result->id);
    for (size_t i = 0; i < result->output_count; i++) {
        size_t mark = gw_pb_begin(out, OUTPUTS);
        gw_pb_text(out, NAME, outputs[i].name);
        gw_pb_text(out, DATATYPE, gw_oip_dtype_name(outputs[i].desc.dtype));
        gw_pb_packed(out, SHAPE, outputs[i].desc.dims, outputs[i].desc.rank);
        gw_pb_end(out, mark);
    }
    for (size_t i = 0; i < result->output_count; i++) {
        uint8_t *room = gw_pb_bytes(out, RAW_CONTENTS, gw_oip_raw_size(&outputs[i]));
        if (room != NULL) {
            (void)gw_oip_raw_write(&outputs[i], room);
        }
    }
    return BASE_OK;
}

enum base_status gw_oip_proto_write(struct base_arena *arena, const struct gw_infer_call *call,
                                    const struct gw_infer_result *result,
                                    struct base_str *out_frame)
{
    struct gw_pb_out out;
    BASE_TRY(put_result(&out, arena, call, result));
    return gw_pb_out_frame(&out, out_frame);
}

enum base_status gw_oip_proto_write_streamed(struct base_arena *arena,
                                             const struct gw_infer_call *call,
                                             const struct gw_infer_result *result,
                                             struct base_str *out_frame)
{
    struct gw_pb_out out;
    BASE_TRY(put_result(&out, arena, call, result));
    return gw_pb_out_frame_of(&out, INFER_RESPONSE, out_frame);
}

enum base_status gw_oip_proto_write_refusal(struct base_arena *arena, struct base_str id,
                                            const char *text, struct base_str *out_frame)
{
    struct gw_pb_out out;
    size_t size = strlen(text);
    gw_pb_out_init(&out, arena, size + id.size);
    uint8_t *room = gw_pb_bytes(&out, ERROR_MESSAGE, size);
    for (size_t i = 0; room != NULL && i < size; i++) {
        room[i] = text[i] >= ' ' && text[i] <= '~' ? (uint8_t)text[i] : '?';
    }
    size_t mark = gw_pb_begin(&out, INFER_RESPONSE);
    gw_pb_text(&out, ID, id);
    gw_pb_end(&out, mark);
    return gw_pb_out_frame(&out, out_frame);
}
