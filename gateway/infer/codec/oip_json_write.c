// Results to JSON, with the binary tensors behind it, for the inference service's HTTP routes, on a
// worker's thread. The bound of the whole is counted first, so that one piece of the arena holds it
// and nothing is moved.
#include "infer/codec/oip_json.h"

#include "base/check.h"
#include "infer/codec/json_number.h"
#include "infer/codec/oip_json_data.h"
#include "infer/codec/oip_tensor.h"

#define FRAME_BYTES  64u  // of names and punctuation of the whole
#define OUTPUT_BYTES 128u // ... of an output, beside what it says
#define PUT(out, literal)                                                                          \
    (memcpy((out), (literal), sizeof(literal) - 1), (out) + sizeof(literal) - 1)

static size_t bound_of(const struct gw_infer_result *result, const struct gw_infer_tensor *outputs)
{
    size_t bound = FRAME_BYTES + GW_JSON_TEXT_BOUND(result->model.size) +
                   GW_JSON_TEXT_BOUND(result->version.size) + GW_JSON_TEXT_BOUND(result->id.size);
    for (size_t i = 0; i < result->output_count; i++) {
        bound += OUTPUT_BYTES + GW_JSON_TEXT_BOUND(outputs[i].name.size) +
                 outputs[i].desc.rank * GW_JSON_NUMBER_TEXT_MAX;
        bound +=
            outputs[i].binary ? gw_oip_raw_size(&outputs[i]) : gw_oip_json_data_bound(&outputs[i]);
    }
    return bound;
}

static char *write_output(const struct gw_infer_tensor *output, char *out)
{
    struct base_str type = gw_oip_dtype_name(output->desc.dtype);
    base_check(type.size > 0);
    out = PUT(out, "{\"name\":");
    out = gw_oip_json_text_write(output->name, out);
    out = PUT(out, ",\"datatype\":\"");
    memcpy(out, type.data, type.size);
    out = PUT(out + type.size, "\",\"shape\":[");
    for (uint32_t i = 0; i < output->desc.rank; i++) {
        out = i > 0 ? PUT(out, ",") : out;
        out += gw_json_integer_text(false, (uint64_t)output->desc.dims[i], out);
    }
    out = PUT(out, "]");
    if (output->binary) {
        out = PUT(out, ",\"parameters\":{\"binary_data_size\":");
        out += gw_json_integer_text(false, gw_oip_raw_size(output), out);
        return PUT(out, "}}");
    }
    out = PUT(out, ",\"data\":");
    out = gw_oip_json_data_write(output, out);
    return PUT(out, "}");
}

static char *write_json(const struct gw_infer_result *result, const struct gw_infer_tensor *outputs,
                        char *out)
{
    out = PUT(out, "{\"model_name\":");
    out = gw_oip_json_text_write(result->model, out);
    out = PUT(out, ",\"model_version\":");
    out = gw_oip_json_text_write(result->version, out);
    if (result->id.size > 0) {
        out = PUT(out, ",\"id\":");
        out = gw_oip_json_text_write(result->id, out);
    }
    out = PUT(out, ",\"outputs\":[");
    for (size_t i = 0; i < result->output_count; i++) {
        out = i > 0 ? PUT(out, ",") : out;
        out = write_output(&outputs[i], out);
    }
    return PUT(out, "]}");
}

enum base_status gw_oip_json_write(struct base_arena *arena, const struct gw_infer_call *call,
                                   const struct gw_infer_result *result, struct base_str *out_body,
                                   size_t *out_json_bytes)
{
    struct gw_infer_tensor *outputs = NULL;
    bool binary = false;
    BASE_TRY(gw_oip_outputs(arena, call, result, &outputs));
    size_t bound = bound_of(result, outputs);
    char *body = base_arena_alloc(arena, bound);
    if (body == NULL) {
        return BASE_ERR_NOMEM;
    }
    char *end = write_json(result, outputs, body);
    size_t json_bytes = (size_t)(end - body);
    for (size_t i = 0; i < result->output_count; i++) {
        if (outputs[i].binary) {
            end = (char *)gw_oip_raw_write(&outputs[i], (uint8_t *)end);
            binary = true;
        }
    }
    base_check((size_t)(end - body) <= bound);
    *out_body = (struct base_str){body, (size_t)(end - body)};
    *out_json_bytes = binary ? json_bytes : 0;
    return BASE_OK;
}

struct base_str gw_oip_json_error(struct base_arena *arena, struct base_str text)
{
    char *body = base_arena_alloc(arena, FRAME_BYTES + GW_JSON_TEXT_BOUND(text.size));
    if (body == NULL) {
        return (struct base_str){"", 0};
    }
    char *end = PUT(body, "{\"error\":");
    end = gw_oip_json_text_write(text, end);
    end = PUT(end, "}");
    return (struct base_str){body, (size_t)(end - body)};
}
