// The declaration of a stream as bytes, which is how it travels and is stored once task.json was
// read. Called when versions are published and activated, on any thread; pure.
#include "pipeline/event_stream.h"

#include "base/cursor.h"

#include <string.h>

static void text8(struct base_writer *writer, struct base_str text)
{
    if (text.size > UINT8_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return;
    }
    base_writer_u8(writer, (uint8_t)text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static void text16(struct base_writer *writer, struct base_str text)
{
    if (text.size > UINT16_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return;
    }
    base_writer_u16(writer, (uint16_t)text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static void window_encode(struct base_writer *writer, const struct dev_window_spec *window)
{
    base_writer_u8(writer, (uint8_t)window->kind);
    base_writer_varint(writer, window->size_ms);
    base_writer_varint(writer, window->hop_ms);
    base_writer_varint(writer, window->gap_ms);
    base_writer_varint(writer, window->count);
    base_writer_varint(writer, window->hop_count);
    base_writer_varint(writer, window->lateness_ms);
    base_writer_varint(writer, window->allowed_ms);
    base_writer_varint(writer, window->idle_ms);
}

static void aggregate_encode(struct base_writer *writer, const struct dev_aggregate_spec *spec)
{
    text8(writer, spec->name);
    base_writer_u8(writer, (uint8_t)spec->kind);
    text16(writer, spec->value);
    base_writer_varint(writer, spec->size);
    if (spec->kind == DEV_AGGREGATE_HISTOGRAM) {
        dev_real_encode(writer, spec->low);
        dev_real_encode(writer, spec->high);
    }
}

enum base_status dev_stream_spec_encode(const struct dev_stream_spec *spec, uint8_t *out,
                                        size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    if (spec->aggregate_count > DEV_STREAM_AGGREGATES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    base_writer_init(&writer, out,
                     capacity < DEV_STREAM_SPEC_BYTES_MAX ? capacity : DEV_STREAM_SPEC_BYTES_MAX);
    base_writer_u8(&writer, DEV_STREAM_SPEC_VERSION);
    text8(&writer, spec->name);
    text16(&writer, spec->filter);
    text16(&writer, spec->key);
    base_writer_u8(&writer, spec->join.on);
    if (spec->join.on) {
        text16(&writer, spec->join.filter);
        text16(&writer, spec->join.key);
        text16(&writer, spec->join.where);
        base_writer_varint(&writer, spec->join.within_ms);
        base_writer_varint(&writer, spec->join.buffer_bytes);
    }
    window_encode(&writer, &spec->window);
    base_writer_varint(&writer, spec->keys_max);
    base_writer_varint(&writer, spec->nodes_max);
    base_writer_u8(&writer, (uint8_t)spec->aggregate_count);
    for (uint32_t i = 0; i < spec->aggregate_count; i++) {
        aggregate_encode(&writer, &spec->aggregates[i]);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static struct base_str text_of(struct base_reader *reader, size_t size)
{
    const uint8_t *bytes = base_reader_bytes(reader, size);
    return bytes != NULL && size > 0 ? (struct base_str){(const char *)bytes, size}
                                     : (struct base_str){NULL, 0};
}

static struct base_str read8(struct base_reader *reader)
{
    return text_of(reader, base_reader_u8(reader));
}

static struct base_str read16(struct base_reader *reader)
{
    return text_of(reader, base_reader_u16(reader));
}

static uint32_t read_u32(struct base_reader *reader)
{
    return (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
}

static uint8_t read_below(struct base_reader *reader, uint8_t end)
{
    uint8_t value = base_reader_u8(reader);
    if (value >= end) {
        base_reader_fail(reader, BASE_ERR_UNSUPPORTED);
        return 0;
    }
    return value;
}

static void window_parse(struct base_reader *reader, struct dev_window_spec *window)
{
    window->kind = (enum dev_window_kind)read_below(reader, DEV_WINDOW_KIND_COUNT);
    window->size_ms = base_reader_varint(reader);
    window->hop_ms = base_reader_varint(reader);
    window->gap_ms = base_reader_varint(reader);
    window->count = read_u32(reader);
    window->hop_count = read_u32(reader);
    window->lateness_ms = base_reader_varint(reader);
    window->allowed_ms = base_reader_varint(reader);
    window->idle_ms = base_reader_varint(reader);
}

static void aggregate_parse(struct base_reader *reader, struct dev_aggregate_spec *spec)
{
    *spec = (struct dev_aggregate_spec){.name = read8(reader)};
    spec->kind = (enum dev_aggregate_kind)read_below(reader, DEV_AGGREGATE_KIND_COUNT);
    spec->value = read16(reader);
    spec->size = read_u32(reader);
    if (spec->kind == DEV_AGGREGATE_HISTOGRAM) {
        spec->low = dev_real_decode(reader);
        spec->high = dev_real_decode(reader);
    }
}

enum base_status
dev_stream_spec_parse(const uint8_t *bytes, size_t size, struct dev_stream_spec *out,
                      struct dev_aggregate_spec aggregates[DEV_STREAM_AGGREGATES_MAX])
{
    struct base_reader reader;
    struct dev_stream_spec spec = {.aggregates = aggregates};
    if (size > DEV_STREAM_SPEC_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    base_reader_init(&reader, bytes, size);
    if (base_reader_u8(&reader) != DEV_STREAM_SPEC_VERSION) {
        return reader.status != BASE_OK ? reader.status : BASE_ERR_UNSUPPORTED;
    }
    spec.name = read8(&reader);
    spec.filter = read16(&reader);
    spec.key = read16(&reader);
    spec.join.on = read_below(&reader, 2) != 0;
    if (spec.join.on) {
        spec.join.filter = read16(&reader);
        spec.join.key = read16(&reader);
        spec.join.where = read16(&reader);
        spec.join.within_ms = base_reader_varint(&reader);
        spec.join.buffer_bytes = read_u32(&reader);
    }
    window_parse(&reader, &spec.window);
    spec.keys_max = read_u32(&reader);
    spec.nodes_max = read_u32(&reader);
    spec.aggregate_count = read_below(&reader, DEV_STREAM_AGGREGATES_MAX + 1);
    for (uint32_t i = 0; i < spec.aggregate_count; i++) {
        aggregate_parse(&reader, &aggregates[i]);
    }
    BASE_TRY(base_reader_finish(&reader));
    *out = spec;
    return BASE_OK;
}
