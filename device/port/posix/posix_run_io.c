// Events into a run, effects out of it. Called by the task worker's thread; effects are freed by
// the loop.
#include "posix/posix_run_io.h"

#include "base/cursor.h"
#include "device/port.h"
#include "wire/event_block.h"

#include <stdlib.h>
#include <string.h>

// ---- Events

typedef enum base_status (*event_fn)(struct posix_run_events *out, const struct wire_event *event,
                                     uint32_t boot, size_t *attrs_at);

static enum base_status count_one(struct posix_run_events *out, const struct wire_event *event,
                                  uint32_t boot, size_t *attrs_at)
{
    (void)boot;
    out->count++;
    *attrs_at += event->attrs_bytes;
    return out->count <= DEV_VM_EVENTS_MAX ? BASE_OK : BASE_ERR_TOO_LARGE;
}

static enum base_status take_one(struct posix_run_events *out, const struct wire_event *event,
                                 uint32_t boot, size_t *attrs_at)
{
    uint8_t *attrs = out->attrs + *attrs_at;
    if (event->attrs_bytes > 0) {
        memcpy(attrs, event->attrs, event->attrs_bytes);
    }
    *attrs_at += event->attrs_bytes;
    out->events[out->count++] = (struct dev_event){
        .seq = event->seq,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .boot = boot,
        .visit = event->visit,
        .instance = event->instance,
        .kind = (enum dev_event_kind)event->kind,
        .name = event->name,
        .page = event->page,
        .item = event->item,
        .attrs = attrs,
        .attrs_bytes = event->attrs_bytes,
        .attr_count = event->attr_count,
    };
    return BASE_OK;
}

static enum base_status walk(const uint8_t *bytes, size_t size, struct wire_event_block *block,
                             event_fn fn, struct posix_run_events *out, size_t *attrs_at)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    while (base_reader_left(&reader) > 0) {
        uint64_t block_size = base_reader_varint_max(&reader, WIRE_EVENT_BLOCK_BYTES_MAX);
        const uint8_t *at = base_reader_bytes(&reader, (size_t)block_size);
        struct wire_event event;
        BASE_TRY(reader.status);
        BASE_TRY(wire_event_block_parse(at, (size_t)block_size, block));
        while (wire_event_block_next(block, &event)) {
            BASE_TRY(fn(out, &event, block->boot, attrs_at));
        }
    }
    return BASE_OK;
}

static enum base_status make(const uint8_t *bytes, size_t size, struct wire_event_block *block,
                             struct posix_run_events *out)
{
    size_t attrs_bytes = 0;
    BASE_TRY(walk(bytes, size, block, count_one, out, &attrs_bytes));
    uint32_t count = out->count;
    out->events = calloc(count + 1, sizeof(*out->events));
    out->attrs = malloc(attrs_bytes + 1);
    if (out->events == NULL || out->attrs == NULL) {
        return BASE_ERR_NOMEM;
    }
    out->count = 0;
    attrs_bytes = 0;
    return walk(bytes, size, block, take_one, out, &attrs_bytes);
}

enum base_status posix_run_events_make(const uint8_t *bytes, size_t size,
                                       struct posix_run_events *out)
{
    struct wire_event_block *block = malloc(sizeof(*block));
    enum base_status status = block != NULL ? make(bytes, size, block, out) : BASE_ERR_NOMEM;
    free(block);
    if (status != BASE_OK) {
        posix_run_events_done(out);
    }
    return status;
}

void posix_run_events_done(struct posix_run_events *events)
{
    free(events->events);
    free(events->attrs);
    *events = (struct posix_run_events){0};
}

// ---- Models

enum base_status posix_run_models(const struct dev_task_file *files, uint32_t file_count,
                                  struct dev_vm_model *out, uint32_t *out_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file_count; i++) {
        if (files[i].kind != WIRE_FILE_MODEL) {
            continue;
        }
        if (count == DEV_VM_MODELS_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        out[count++] = (struct dev_vm_model){.name = files[i].name,
                                             .bytes = files[i].bytes,
                                             .size = files[i].size,
                                             .digest = files[i].digest};
    }
    *out_count = count;
    return BASE_OK;
}

// ---- Effects

static struct base_str text_copy(uint8_t **at, struct base_str text)
{
    struct base_str copy = {(const char *)*at, text.size};
    if (text.size > 0) {
        memcpy(*at, text.data, text.size);
    }
    *at += text.size;
    return copy;
}

enum base_status posix_run_effects_copy(const struct dev_vm_result *result,
                                        struct posix_run_effects *out)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *effect = &result->effects[i];
        bytes += effect->name.size + effect->key.size + effect->size;
    }
    if (result->effect_count == 0) {
        return BASE_OK;
    }
    out->effects = calloc(result->effect_count, sizeof(*out->effects));
    out->bytes = malloc(bytes + 1);
    if (out->effects == NULL || out->bytes == NULL) {
        posix_run_effects_done(out);
        return BASE_ERR_NOMEM;
    }
    uint8_t *at = out->bytes;
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *from = &result->effects[i];
        struct dev_effect *effect = &out->effects[out->count++];
        effect->kind = from->kind == DEV_VM_EFFECT_STORE ? DEV_EFFECT_FEATURE : DEV_EFFECT_UPLOAD;
        effect->name = text_copy(&at, from->name);
        effect->key = text_copy(&at, from->key);
        effect->time_ms = from->time_ms;
        effect->format = from->format;
        effect->size = from->size;
        effect->bytes = (const uint8_t *)text_copy(
                            &at, (struct base_str){(const char *)from->bytes, from->size})
                            .data;
    }
    return BASE_OK;
}

void posix_run_effects_done(struct posix_run_effects *effects)
{
    free(effects->effects);
    free(effects->bytes);
    *effects = (struct posix_run_effects){0};
}
