// Events into a run: blocks as the pipeline encodes them (wire/event_block.h) become the list that
// the script's VM walks. Called where that VM is: on the agent's task worker (posix_task.c), in the
// task's process (task_runner.c), in the simulator and in `walle task run`. Two passes, one to
// count and one to take, so that memory is asked for once; at most DEV_VM_EVENTS_MAX events. Texts
// are borrowed from the blocks' bytes, attributes are copied.
#include "runner/runner_events.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/span.h"
#include "wire/event_block.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_HEAD_MAX 10 // a varint

typedef enum base_status (*event_fn)(struct dev_runner_events *out, const struct wire_event *event,
                                     uint32_t boot, size_t *attrs_at);

static enum base_status count_one(struct dev_runner_events *out, const struct wire_event *event,
                                  uint32_t boot, size_t *attrs_at)
{
    (void)boot;
    out->count++;
    *attrs_at += event->attrs_bytes;
    return out->count <= DEV_VM_EVENTS_MAX ? BASE_OK : BASE_ERR_TOO_LARGE;
}

static enum base_status take_one(struct dev_runner_events *out, const struct wire_event *event,
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

static enum base_status walk(struct base_span blocks, struct wire_event_block *block, event_fn fn,
                             struct dev_runner_events *out, size_t *attrs_at)
{
    struct base_reader reader;
    base_reader_init(&reader, blocks.data, blocks.size);
    while (base_reader_left(&reader) > 0) {
        uint64_t block_size = base_reader_varint_max(&reader, WIRE_EVENT_BLOCK_BYTES_MAX);
        if (block_size == 0) {
            uint32_t missing = (uint32_t)base_reader_varint_max(&reader, UINT32_MAX);
            BASE_TRY(reader.status);
            out->missing = missing > 0 ? missing : out->missing;
            out->timed_out = out->timed_out || missing == 0;
            continue;
        }
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
                             struct dev_runner_events *out)
{
    size_t attrs_bytes = 0;
    const struct base_span blocks = {bytes, size};
    BASE_TRY(walk(blocks, block, count_one, out, &attrs_bytes));
    uint32_t count = out->count;
    out->events = calloc(count + 1, sizeof(*out->events));
    out->attrs = malloc(attrs_bytes + 1);
    if (out->events == NULL || out->attrs == NULL) {
        return BASE_ERR_NOMEM;
    }
    out->count = 0;
    attrs_bytes = 0;
    return walk(blocks, block, take_one, out, &attrs_bytes);
}

enum base_status dev_runner_events_make(const uint8_t *bytes, size_t size,
                                        struct dev_runner_events *out)
{
    struct wire_event_block *block = malloc(sizeof(*block));
    enum base_status status = block != NULL ? make(bytes, size, block, out) : BASE_ERR_NOMEM;
    free(block);
    if (status != BASE_OK) {
        dev_runner_events_done(out);
    }
    return status;
}

void dev_runner_events_done(struct dev_runner_events *events)
{
    free(events->events);
    free(events->attrs);
    *events = (struct dev_runner_events){0};
}

// ---- Events into an input

// One block of the first `*count` events, or of as many fewer as fit one.
static enum base_status block_write(const struct dev_event *events, uint32_t *count, uint8_t *block,
                                    size_t *out_size)
{
    struct wire_event list[WIRE_EVENT_BLOCK_EVENTS_MAX];
    base_assert(*count > 0 && *count <= WIRE_EVENT_BLOCK_EVENTS_MAX);
    for (uint32_t i = 0; i < *count; i++) {
        dev_event_wire(&events[i], &list[i]);
    }
    for (;; *count /= 2) {
        const struct wire_event_list some = {list, *count, events[0].boot};
        enum base_status status =
            wire_event_block_encode(&some, block, WIRE_EVENT_BLOCK_BYTES_MAX, out_size);
        if (status != BASE_ERR_TOO_LARGE || *count == 1) {
            return status;
        }
    }
}

// What *bytes holds grows by a size and the block behind it.
static enum base_status block_add(uint8_t **bytes, size_t *at, const uint8_t *block, size_t size)
{
    uint8_t head[BLOCK_HEAD_MAX];
    struct base_writer writer;
    base_writer_init(&writer, head, sizeof(head));
    base_writer_varint(&writer, size);
    size_t head_size = base_writer_size(&writer);
    uint8_t *grown = realloc(*bytes, *at + head_size + size);
    if (grown == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(grown + *at, head, head_size);
    memcpy(grown + *at + head_size, block, size);
    *bytes = grown;
    *at += head_size + size;
    return BASE_OK;
}

enum base_status dev_runner_events_write(const struct dev_event *events, uint32_t count,
                                         uint8_t **out_bytes, size_t *out_size)
{
    uint8_t *block = malloc(WIRE_EVENT_BLOCK_BYTES_MAX);
    uint8_t *bytes = NULL;
    size_t at = 0;
    enum base_status status = block != NULL ? BASE_OK : BASE_ERR_NOMEM;
    for (uint32_t done = 0; done < count && status == BASE_OK;) {
        uint32_t some =
            count - done < WIRE_EVENT_BLOCK_EVENTS_MAX ? count - done : WIRE_EVENT_BLOCK_EVENTS_MAX;
        size_t size = 0;
        status = block_write(events + done, &some, block, &size);
        status = status == BASE_OK ? block_add(&bytes, &at, block, size) : status;
        done += some;
    }
    free(block);
    if (status != BASE_OK) {
        free(bytes);
        return status;
    }
    *out_bytes = bytes;
    *out_size = at;
    return BASE_OK;
}
