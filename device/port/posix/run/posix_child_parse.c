// Parsers of what a task's process sends: the end of its run, its questions for stored features and
// its calls of models in the cloud. Called by posix_child.c on the task worker's thread; pure. In a
// file of its own because it is the border to bytes that an attacker may have made, and is fuzzed
// as such: it reads with the cursor alone, copies nothing, and knows neither processes nor
// channels.
#include "posix/run/posix_child_parse.h"

#include "base/cursor.h"
#include "core/run/result_syntax.h"
#include "vm/mpy/vm_text.h"
#include "wire/store/store_image.h"

#include <string.h>

// A text of one size byte, at most `most` long.
static struct base_str short_text(struct base_reader *reader, size_t most)
{
    size_t size = base_reader_u8(reader);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (reader->status == BASE_OK && size > most) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return reader->status == BASE_OK ? (struct base_str){(const char *)bytes, size}
                                     : (struct base_str){NULL, 0};
}

static void need(struct base_reader *reader, bool holds)
{
    if (!holds) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static bool text_ok(struct base_str text)
{
    return text.size == 0 || (dev_text_valid((const uint8_t *)text.data, text.size) &&
                              memchr(text.data, '\0', text.size) == NULL);
}

static bool json_ok(struct base_str text)
{
    return text.size > 0 && dev_text_valid((const uint8_t *)text.data, text.size) &&
           dev_json_ok(text, POSIX_CHILD_JSON_DEPTH_MAX);
}

// As walle.data takes names.
static bool name_ok(struct base_str name, char separator)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool good = (c >= 'a' && c <= 'z') ||
                    (i > 0 && ((c >= '0' && c <= '9') || c == '_' || c == separator));
        if (!good) {
            return false;
        }
    }
    return name.size > 0 && name.size <= DEV_VM_FEATURE_NAME_MAX;
}

// Text into a fixed field with its NUL.
static void field_read(struct base_reader *reader, char *field, size_t capacity)
{
    struct base_str text = short_text(reader, capacity - 1);
    need(reader, text_ok(text));
    if (reader->status == BASE_OK) {
        dev_text_set(field, capacity, text);
    }
}

static struct base_str block_read(struct base_reader *reader, size_t most)
{
    size_t size = base_reader_u32(reader);
    need(reader, size <= most);
    const uint8_t *bytes = reader->status == BASE_OK ? base_reader_bytes(reader, size) : NULL;
    return reader->status == BASE_OK ? (struct base_str){(const char *)bytes, size}
                                     : (struct base_str){NULL, 0};
}

// The store as the run left it. The image is looked at, not changed.
static void save_read(struct base_reader *reader, struct dev_vm_effect *out)
{
    struct wire_store store;
    struct base_str bytes = block_read(reader, WIRE_STORE_IMAGE_MAX);
    if (reader->status != BASE_OK) {
        return;
    }
    need(reader, wire_store_parse((uint8_t *)(uintptr_t)bytes.data, bytes.size, &store) == BASE_OK);
    *out = (struct dev_vm_effect){.kind = DEV_VM_EFFECT_SAVE,
                                  .format = WIRE_RECORD_BYTES,
                                  .bytes = (const uint8_t *)bytes.data,
                                  .size = (uint32_t)bytes.size};
}

static void effect_read(struct base_reader *reader, size_t *left, struct dev_vm_effect *out)
{
    uint8_t kind = base_reader_u8(reader);
    if (kind == DEV_VM_EFFECT_SAVE) {
        save_read(reader, out);
        return;
    }
    uint8_t format = base_reader_u8(reader);
    uint64_t time_ms = base_reader_u64(reader);
    struct base_str name = short_text(reader, DEV_VM_FEATURE_NAME_MAX);
    struct base_str key = short_text(reader, DEV_VM_FEATURE_KEY_MAX);
    struct base_str bytes = block_read(reader, DEV_VM_EFFECT_BYTES);
    bool store = kind == DEV_VM_EFFECT_STORE;
    size_t used = name.size + key.size + bytes.size;
    need(reader, store || kind == DEV_VM_EFFECT_UPLOAD);
    need(reader, format == WIRE_RECORD_JSON || (!store && format == WIRE_RECORD_BYTES));
    need(reader, used <= *left);
    if (reader->status != BASE_OK) {
        return;
    }
    need(reader, name_ok(name, store ? '.' : '-'));
    need(reader, store ? bytes.size <= DEV_VM_STORE_MAX && time_ms <= INT64_MAX
                       : key.size == 0 && time_ms == 0);
    need(reader, format != WIRE_RECORD_JSON || json_ok(bytes));
    *left -= used;
    *out = (struct dev_vm_effect){
        .kind = (enum dev_vm_effect_kind)kind,
        .name = name,
        .key = key,
        .time_ms = time_ms,
        .format = (enum wire_record_format)format,
        .bytes = (const uint8_t *)bytes.data,
        .size = (uint32_t)bytes.size,
    };
}

static void effects_read(struct base_reader *reader, struct posix_child_end *out)
{
    size_t left = DEV_VM_EFFECT_BYTES;
    uint32_t count = base_reader_u8(reader);
    need(reader, count <= DEV_VM_EFFECTS_ALL);
    need(reader, count == 0 || out->result.end == DEV_VM_FINISHED);
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        effect_read(reader, &left, &out->effects[i]);
        // One at most, at the end; so there are no more of the others than there may be.
        need(reader, (out->effects[i].kind == DEV_VM_EFFECT_SAVE || i < DEV_VM_EFFECTS_MAX) &&
                         (out->effects[i].kind != DEV_VM_EFFECT_SAVE || i + 1 == count));
    }
    out->result.effects = out->effects;
    out->result.effect_count = count;
}

static void cloud_read(struct base_reader *reader, struct wire_cloud_counts *out)
{
    out->asked = base_reader_u16(reader);
    out->sent = base_reader_u16(reader);
    out->answered = base_reader_u16(reader);
    out->differed = base_reader_u16(reader);
    for (uint32_t i = 0; i < WIRE_CLOUD_TIMES; i++) {
        out->times[i] = base_reader_u16(reader);
    }
    need(reader, wire_cloud_counts_ok(out));
}

static void result_read(struct base_reader *reader, struct posix_child_end *out)
{
    struct dev_vm_result *result = &out->result;
    uint8_t end = base_reader_u8(reader);
    need(reader, end < DEV_VM_END_COUNT);
    result->end = (enum dev_vm_end)end;
    field_read(reader, result->type, sizeof(result->type));
    field_read(reader, result->message, sizeof(result->message));
    field_read(reader, result->file, sizeof(result->file));
    result->line = base_reader_u32(reader);
    struct base_str stack = block_read(reader, sizeof(result->stack) - 1);
    need(reader, text_ok(stack));
    if (reader->status == BASE_OK) {
        dev_text_set(result->stack, sizeof(result->stack), stack);
    }
    result->instructions = base_reader_u64(reader);
    result->duration_us = base_reader_u64(reader);
    result->prepare_us = base_reader_u64(reader);
    result->model_us = base_reader_u64(reader);
    result->heap_peak_bytes = base_reader_u32(reader);
    result->stack_peak_bytes = base_reader_u32(reader);
    need(reader, result->stack_peak_bytes <= DEV_VM_STACK_KIB * 1024);
    result->left_out.late = base_reader_u64(reader);
    result->left_out.evicted = base_reader_u64(reader);
    result->left_out.dropped = base_reader_u64(reader);
    result->refused = base_reader_u32(reader);
    cloud_read(reader, &result->cloud);
    result->result = block_read(reader, DEV_VM_RESULT_MAX);
    need(reader, result->result.size == 0 || json_ok(result->result));
    effects_read(reader, out);
}

enum base_status posix_child_end_parse(const uint8_t *bytes, size_t size,
                                       struct posix_child_end *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    int32_t status = (int32_t)base_reader_u32(&reader);
    need(&reader, status <= 0 && status > -1000);
    out->status = (enum base_status)status;
    if (reader.status == BASE_OK && status == 0) {
        result_read(&reader, out);
    }
    return base_reader_finish(&reader);
}

enum base_status posix_child_query_parse(const uint8_t *bytes, size_t size,
                                         struct dev_vm_query *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t every = base_reader_u8(&reader);
    struct dev_vm_query query = {
        .feature = short_text(&reader, DEV_VM_FEATURE_NAME_MAX),
        .key = short_text(&reader, DEV_VM_FEATURE_KEY_MAX),
        .every_key = every == 1,
        .from_ms = base_reader_u64(&reader),
        .to_ms = base_reader_u64(&reader),
        .newest = base_reader_u32(&reader),
    };
    BASE_TRY(base_reader_finish(&reader));
    bool own = query.feature.size == 0 && query.key.size == 0; // walle.store
    if (every > 1 || !(own || name_ok(query.feature, '.')) || (every == 1 && query.key.size > 0)) {
        return BASE_ERR_INVALID;
    }
    *out = query;
    return BASE_OK;
}

static struct base_str model_read(struct base_reader *reader)
{
    struct base_str model = short_text(reader, WIRE_TENSOR_MODEL_MAX);
    need(reader, wire_tensor_model_ok(model));
    return model;
}

enum base_status posix_child_infer_parse(const uint8_t *bytes, size_t size,
                                         struct dev_vm_cloud_call *out)
{
    struct base_reader reader;
    struct wire_tensor_call parsed;
    base_reader_init(&reader, bytes, size);
    struct dev_vm_cloud_call call = {.model = model_read(&reader)};
    call.size = base_reader_left(&reader);
    call.bytes = base_reader_bytes(&reader, call.size);
    BASE_TRY(base_reader_finish(&reader));
    BASE_TRY(wire_tensor_call_parse(call.bytes, call.size, &parsed));
    call.priority = parsed.priority;
    call.deadline_ms = parsed.deadline_ms;
    *out = call;
    return BASE_OK;
}

enum base_status posix_child_look_parse(const uint8_t *bytes, size_t size,
                                        struct base_str *out_model)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    struct base_str model = model_read(&reader);
    BASE_TRY(base_reader_finish(&reader));
    *out_model = model;
    return BASE_OK;
}
