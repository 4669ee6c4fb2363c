// Requests in JSON to calls, for the inference service's HTTP routes, on a worker's thread. One
// pass over the text: an input's data is read in place when its shape and type came before it, as
// all known clients send them, else it is passed over and read afterwards.
#include "infer/codec/oip_json.h"

#include "base/check.h"
#include "base/cursor.h"
#include "infer/codec/json_in.h"
#include "infer/codec/oip_json_data.h"
#include "infer/codec/oip_tensor.h"

#define UNSET 2 // beside false and true

struct request_in {
    struct gw_json_in json;
    struct base_reader binary; // what follows the JSON; empty: nothing
    struct gw_infer_call *call;
    uint8_t wish_binary[GW_INFER_TENSORS_MAX]; // false, true or UNSET
    uint32_t seen;                             // members and parameters, a bit of each
};

enum known {
    KNOWN_ID,
    KNOWN_INPUTS,
    KNOWN_OUTPUTS,
    KNOWN_PARAMETERS,
    KNOWN_PRIORITY,
    KNOWN_TIMEOUT,
    KNOWN_BINARY_OUTPUT,
    KNOWN_NAME,
    KNOWN_SHAPE,
    KNOWN_DATATYPE,
    KNOWN_DATA,
    KNOWN_BINARY_SIZE,
    KNOWN_BINARY,
    KNOWN_CLASSES,
    KNOWN_COUNT
};

struct known_name {
    struct base_str name;
    enum known as;
};

// Which of these the name is; KNOWN_COUNT: none. A second one of a kind is a fault.
static enum known know(struct gw_json_in *json, const struct known_name *names,
                       struct base_str name, uint32_t *seen)
{
    for (; names->name.size > 0; names++) {
        if (base_str_equal(names->name, name)) {
            if ((*seen >> names->as & 1) != 0) {
                (void)gw_json_fail(json, BASE_ERR_INVALID, "\"%.*s\" comes twice", (int)name.size,
                                   name.data);
            }
            *seen |= 1u << names->as;
            return names->as;
        }
    }
    return KNOWN_COUNT;
}

static bool read_name(struct gw_json_in *json, size_t most, struct base_str *out)
{
    if (!gw_json_in_text(json, out)) {
        return false;
    }
    return out->size <= most ||
           gw_json_fail(json, BASE_ERR_TOO_LARGE, "a name of over %zu bytes", most);
}

// ---- One input

struct input_in {
    struct gw_infer_tensor tensor;
    const char *data; // passed over, to be read; NULL: not so
    uint64_t binary_size;
    uint32_t seen;
};

#define HAS(in, what) (((in)->seen >> (what)&1) != 0)

static bool read_shape(struct gw_json_in *json, struct eng_desc *desc)
{
    bool first = true;
    uint64_t size = 0;
    if (!gw_json_expect(json, '[')) {
        return false;
    }
    for (desc->rank = 0; gw_json_element(json, &first); desc->rank++) {
        if (desc->rank == ENG_RANK_MAX) {
            return gw_json_fail(json, BASE_ERR_TOO_LARGE, "shape: over %d dimensions",
                                ENG_RANK_MAX);
        }
        if (!gw_json_in_u64(json, "shape", (uint64_t)ENG_ELEMENTS_MAX, &size)) {
            return false;
        }
        desc->dims[desc->rank] = (int64_t)size;
    }
    return json->status == BASE_OK;
}

static bool read_datatype(struct gw_json_in *json, struct eng_desc *desc)
{
    struct base_str name;
    if (!gw_json_in_text(json, &name)) {
        return false;
    }
    desc->dtype = gw_oip_dtype(name);
    return desc->dtype != ENG_UNDEFINED ||
           gw_json_fail(json, BASE_ERR_UNSUPPORTED, "datatype \"%.*s\" is not known",
                        (int)(name.size < 32 ? name.size : 32), name.data);
}

static bool read_data(struct gw_json_in *json, struct input_in *input)
{
    if (HAS(input, KNOWN_SHAPE) && HAS(input, KNOWN_DATATYPE)) {
        return gw_oip_json_data(json, &input->tensor);
    }
    input->data = json->at;
    return gw_json_skip(json);
}

static bool read_input_parameters(struct gw_json_in *json, struct input_in *input)
{
    static const struct known_name names[] = {{{"binary_data_size", 16}, KNOWN_BINARY_SIZE},
                                              {{NULL, 0}, KNOWN_COUNT}};
    struct base_str name;
    bool first = true;
    if (!gw_json_expect(json, '{')) {
        return false;
    }
    while (gw_json_member(json, &first, &name)) {
        if (know(json, names, name, &input->seen) == KNOWN_BINARY_SIZE
                ? !gw_json_in_u64(json, "parameter \"binary_data_size\"", GW_INFER_TENSOR_BYTES_MAX,
                                  &input->binary_size)
                : !gw_json_skip(json)) {
            return false;
        }
    }
    return json->status == BASE_OK;
}

static bool read_input_member(struct gw_json_in *json, struct base_str name, struct input_in *input)
{
    static const struct known_name names[] = {{{"name", 4}, KNOWN_NAME},
                                              {{"shape", 5}, KNOWN_SHAPE},
                                              {{"datatype", 8}, KNOWN_DATATYPE},
                                              {{"data", 4}, KNOWN_DATA},
                                              {{"parameters", 10}, KNOWN_PARAMETERS},
                                              {{NULL, 0}, KNOWN_COUNT}};
    switch (know(json, names, name, &input->seen)) {
    case KNOWN_NAME:
        return read_name(json, GW_INFER_NAME_BYTES_MAX, &input->tensor.name);
    case KNOWN_SHAPE:
        return read_shape(json, &input->tensor.desc);
    case KNOWN_DATATYPE:
        return read_datatype(json, &input->tensor.desc);
    case KNOWN_DATA:
        return read_data(json, input);
    case KNOWN_PARAMETERS:
        return read_input_parameters(json, input);
    default:
        return gw_json_skip(json);
    }
}

// Where the data is not in the JSON, or came before what says how to read it.
static bool read_late_data(struct request_in *in, struct input_in *input)
{
    struct gw_json_in *json = &in->json;
    struct gw_infer_tensor *tensor = &input->tensor;
    struct base_error error = {0};
    if (!HAS(input, KNOWN_NAME) || !HAS(input, KNOWN_SHAPE) || !HAS(input, KNOWN_DATATYPE)) {
        return gw_json_fail(json, BASE_ERR_INVALID, "an input without name, shape or datatype");
    }
    if (HAS(input, KNOWN_DATA) == HAS(input, KNOWN_BINARY_SIZE)) {
        return gw_json_fail(json, BASE_ERR_INVALID,
                            "input \"%.*s\" has neither or both of data and binary_data_size",
                            (int)tensor->name.size, tensor->name.data);
    }
    if (input->data != NULL) {
        const char *behind = json->at;
        json->at = input->data;
        if (!gw_oip_json_data(json, tensor)) {
            return false;
        }
        json->at = behind;
    }
    if (HAS(input, KNOWN_DATA)) {
        return true;
    }
    size_t size = (size_t)input->binary_size;
    struct base_str raw = {(const char *)base_reader_bytes(&in->binary, size), size};
    if (in->binary.status != BASE_OK) {
        return gw_json_fail(json, BASE_ERR_TRUNCATED,
                            "input \"%.*s\": its %zu binary bytes are not all there",
                            (int)tensor->name.size, tensor->name.data, size);
    }
    enum base_status status = gw_oip_raw_read(json->arena, raw, tensor, &error);
    return status == BASE_OK || gw_json_fail(json, status, "%s", error.text);
}

static bool read_inputs(struct request_in *in)
{
    struct gw_json_in *json = &in->json;
    struct gw_infer_call *call = in->call;
    bool first = true;
    call->inputs = base_arena_alloc(json->arena, GW_INFER_TENSORS_MAX * sizeof(*call->inputs));
    if (call->inputs == NULL) {
        return gw_json_fail(json, BASE_ERR_NOMEM, "out of memory");
    }
    if (!gw_json_expect(json, '[')) {
        return false;
    }
    while (gw_json_element(json, &first)) {
        struct input_in input = {0};
        struct base_str name;
        bool first_member = true;
        if (call->input_count == GW_INFER_TENSORS_MAX) {
            return gw_json_fail(json, BASE_ERR_TOO_LARGE, "over %u inputs", GW_INFER_TENSORS_MAX);
        }
        if (!gw_json_expect(json, '{')) {
            return false;
        }
        while (gw_json_member(json, &first_member, &name)) {
            if (!read_input_member(json, name, &input)) {
                return false;
            }
        }
        if (!read_late_data(in, &input)) {
            return false;
        }
        call->inputs[call->input_count++] = input.tensor;
    }
    return json->status == BASE_OK;
}

// ---- Outputs and parameters

static bool read_wish_parameters(struct gw_json_in *json, struct gw_infer_wish *wish,
                                 uint8_t *out_binary)
{
    static const struct known_name names[] = {{{"binary_data", 11}, KNOWN_BINARY},
                                              {{"classification", 14}, KNOWN_CLASSES},
                                              {{NULL, 0}, KNOWN_COUNT}};
    struct base_str name;
    uint32_t seen = 0;
    bool first = true;
    if (!gw_json_expect(json, '{')) {
        return false;
    }
    while (gw_json_member(json, &first, &name)) {
        bool binary = false;
        uint64_t classes = 0;
        switch (know(json, names, name, &seen)) {
        case KNOWN_BINARY:
            if (!gw_json_in_bool(json, &binary)) {
                return false;
            }
            *out_binary = binary;
            break;
        case KNOWN_CLASSES:
            if (!gw_json_in_u64(json, "parameter \"classification\"", GW_INFER_CLASSES_MAX,
                                &classes)) {
                return false;
            }
            wish->classes = (uint32_t)classes;
            break;
        default:
            if (!gw_json_skip(json)) {
                return false;
            }
        }
    }
    return json->status == BASE_OK;
}

static bool read_wish(struct gw_json_in *json, struct gw_infer_wish *wish, uint8_t *out_binary)
{
    static const struct known_name names[] = {{{"name", 4}, KNOWN_NAME},
                                              {{"parameters", 10}, KNOWN_PARAMETERS},
                                              {{NULL, 0}, KNOWN_COUNT}};
    struct base_str name;
    uint32_t seen = 0;
    bool first = true;
    if (!gw_json_expect(json, '{')) {
        return false;
    }
    while (gw_json_member(json, &first, &name)) {
        enum known what = know(json, names, name, &seen);
        if (what == KNOWN_NAME         ? !read_name(json, GW_INFER_NAME_BYTES_MAX, &wish->name)
            : what == KNOWN_PARAMETERS ? !read_wish_parameters(json, wish, out_binary)
                                       : !gw_json_skip(json)) {
            return false;
        }
    }
    return wish->name.size > 0 || gw_json_fail(json, BASE_ERR_INVALID, "an output without name");
}

static bool read_wishes(struct request_in *in)
{
    struct gw_json_in *json = &in->json;
    struct gw_infer_call *call = in->call;
    bool first = true;
    call->wishes = base_arena_alloc(json->arena, GW_INFER_TENSORS_MAX * sizeof(*call->wishes));
    if (call->wishes == NULL) {
        return gw_json_fail(json, BASE_ERR_NOMEM, "out of memory");
    }
    if (!gw_json_expect(json, '[')) {
        return false;
    }
    while (gw_json_element(json, &first)) {
        size_t i = call->wish_count;
        if (i == GW_INFER_TENSORS_MAX) {
            return gw_json_fail(json, BASE_ERR_TOO_LARGE, "over %u outputs", GW_INFER_TENSORS_MAX);
        }
        call->wishes[i] = (struct gw_infer_wish){0};
        in->wish_binary[i] = UNSET;
        if (!read_wish(json, &call->wishes[i], &in->wish_binary[i])) {
            return false;
        }
        call->wish_count++;
    }
    return json->status == BASE_OK;
}

static bool read_parameter(struct request_in *in, struct base_str name)
{
    static const struct known_name names[] = {{{"priority", 8}, KNOWN_PRIORITY},
                                              {{"timeout", 7}, KNOWN_TIMEOUT},
                                              {{"binary_data_output", 18}, KNOWN_BINARY_OUTPUT},
                                              {{NULL, 0}, KNOWN_COUNT}};
    uint64_t priority = 0;
    switch (know(&in->json, names, name, &in->seen)) {
    case KNOWN_PRIORITY:
        if (!gw_json_in_u64(&in->json, "parameter \"priority\"", GW_INFER_PRIORITIES - 1,
                            &priority)) {
            return false;
        }
        in->call->priority = (uint32_t)priority;
        return true;
    case KNOWN_TIMEOUT:
        return gw_json_in_u64(&in->json, "parameter \"timeout\"", GW_INFER_TIMEOUT_US_MAX,
                              &in->call->timeout_us);
    case KNOWN_BINARY_OUTPUT:
        return gw_json_in_bool(&in->json, &in->call->binary_all);
    default:
        return gw_json_skip(&in->json);
    }
}

static bool read_parameters(struct request_in *in)
{
    struct base_str name;
    bool first = true;
    if (!gw_json_expect(&in->json, '{')) {
        return false;
    }
    while (gw_json_member(&in->json, &first, &name)) {
        if (!read_parameter(in, name)) {
            return false;
        }
    }
    return in->json.status == BASE_OK;
}

// ---- The whole

static bool read_member(struct request_in *in, struct base_str name)
{
    static const struct known_name names[] = {{{"id", 2}, KNOWN_ID},
                                              {{"inputs", 6}, KNOWN_INPUTS},
                                              {{"outputs", 7}, KNOWN_OUTPUTS},
                                              {{"parameters", 10}, KNOWN_PARAMETERS},
                                              {{NULL, 0}, KNOWN_COUNT}};
    switch (know(&in->json, names, name, &in->seen)) {
    case KNOWN_ID:
        return read_name(&in->json, GW_INFER_ID_BYTES_MAX, &in->call->id);
    case KNOWN_INPUTS:
        return read_inputs(in);
    case KNOWN_OUTPUTS:
        return read_wishes(in);
    case KNOWN_PARAMETERS:
        return read_parameters(in);
    default:
        return gw_json_skip(&in->json);
    }
}

// What only the whole can tell.
static bool check_whole(struct request_in *in)
{
    struct base_error error = {0};
    struct gw_infer_call *call = in->call;
    if (!HAS(in, KNOWN_INPUTS)) {
        return gw_json_fail(&in->json, BASE_ERR_INVALID, "a request without inputs");
    }
    if (base_reader_finish(&in->binary) != BASE_OK) {
        return gw_json_fail(&in->json, BASE_ERR_INVALID, "%zu binary bytes that no input names",
                            base_reader_left(&in->binary));
    }
    for (size_t i = 0; i < call->wish_count; i++) {
        call->wishes[i].binary =
            in->wish_binary[i] == UNSET ? call->binary_all : in->wish_binary[i] != 0;
    }
    enum base_status status = gw_oip_check_names(call, &error);
    return status == BASE_OK || gw_json_fail(&in->json, status, "%s", error.text);
}

enum base_status gw_oip_json_read(struct base_arena *arena, struct base_str body, size_t json_bytes,
                                  struct gw_infer_call *out, struct base_error *error)
{
    struct gw_infer_call call = {
        .model = out->model, .version = out->version, .priority = GW_INFER_PRIORITY_USUAL};
    struct request_in in = {.call = &call};
    size_t text_bytes = json_bytes > 0 ? json_bytes : body.size;
    struct base_str name;
    bool first = true;
    if (text_bytes > body.size) {
        return base_error_set(error, BASE_ERR_TRUNCATED,
                              "the JSON should have %zu bytes, the body has %zu", text_bytes,
                              body.size);
    }
    gw_json_in_init(&in.json, arena, (struct base_str){body.data, text_bytes}, error);
    base_reader_init(&in.binary, in.json.end, body.size - text_bytes);
    if (gw_json_expect(&in.json, '{')) {
        while (gw_json_member(&in.json, &first, &name) && read_member(&in, name)) {
        }
    }
    if (!gw_json_finish(&in.json) || !check_whole(&in)) {
        base_assert(in.json.status != BASE_OK);
        return in.json.status;
    }
    *out = call;
    return BASE_OK;
}

enum base_status gw_oip_json_early(struct base_arena *arena, struct base_str json,
                                   struct gw_infer_call *call)
{
    struct request_in in = {.call = call};
    struct base_str name;
    bool first = true;
    gw_json_in_init(&in.json, arena, json, NULL);
    if (gw_json_expect(&in.json, '{')) {
        while (gw_json_member(&in.json, &first, &name) &&
               (base_str_equal(name, BASE_STR("parameters")) ? read_parameters(&in)
                                                             : gw_json_skip(&in.json))) {
        }
    }
    return gw_json_finish(&in.json) ? BASE_OK : in.json.status;
}
