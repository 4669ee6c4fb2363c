// The codec of a version's declaration to the data pipeline.
//
// The build command encodes, gateway and device parse. One check function serves both directions.
// Nothing is allocated; parsed texts are borrowed from the input.
#include "wire/declaration.h"

#include "base/check.h"
#include "wire/tunnel_frame.h"
#include "wire/wiretext.h"

#include <string.h>

bool wire_upload_name_ok(struct base_str name)
{
    if (name.size == 0 || name.size > WIRE_UPLOAD_NAME_MAX || name.data[0] < 'a' ||
        name.data[0] > 'z') {
        return false;
    }
    for (size_t i = 1; i < name.size; i++) {
        char c = name.data[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!ok) {
            return false;
        }
    }
    return true;
}

static bool before(struct base_str a, struct base_str b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.data, b.data, shared);
    return order < 0 || (order == 0 && a.size < b.size);
}

static bool attributes_ok(const struct wire_declaration *declaration)
{
    base_assert(declaration->attribute_count <= WIRE_DECLARATION_ATTRIBUTES_MAX);
    for (uint32_t i = 0; i < declaration->attribute_count; i++) {
        struct base_str name = declaration->attributes[i];
        if (name.size == 0 || !wire_text_printable(name) ||
            (base_str_equal(name, BASE_STR("*")) && declaration->attribute_count > 1) ||
            (i > 0 && !before(declaration->attributes[i - 1], name))) {
            return false;
        }
    }
    return true;
}

static bool uploads_ok(const struct wire_declaration *declaration)
{
    base_assert(declaration->upload_count <= WIRE_DECLARATION_UPLOADS_MAX);
    for (uint32_t i = 0; i < declaration->upload_count; i++) {
        const struct wire_upload *upload = &declaration->uploads[i];
        if (!wire_upload_name_ok(upload->name) || upload->class_id >= WIRE_TUNNEL_CLASSES) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (base_str_equal(declaration->uploads[j].name, upload->name)) {
                return false;
            }
        }
    }
    return declaration->result_upload == WIRE_DECLARATION_NO_UPLOAD ||
           declaration->result_upload < declaration->upload_count;
}

bool wire_declared_runs_any(const struct wire_declared_runs *runs)
{
    return runs->priority > 0 || runs->deadline_ms > 0 || runs->at_once > 0;
}

// Two runs of a task would overwrite what the other keeps in its store.
static bool runs_ok(const struct wire_declaration *declaration)
{
    const struct wire_declared_runs *runs = &declaration->runs;
    return runs->priority <= WIRE_RUN_PRIORITY_MAX + 1 &&
           runs->deadline_ms <= WIRE_RUN_DEADLINE_MS_MAX && runs->at_once != 1 &&
           runs->at_once <= WIRE_RUN_AT_ONCE_MAX &&
           (runs->at_once == 0 || declaration->store_kib == 0);
}

static enum base_status declaration_check(const struct wire_declaration *declaration)
{
    base_assert(declaration != NULL);
    if (declaration->trigger_count > WIRE_DECLARATION_TRIGGERS_MAX ||
        declaration->attribute_count > WIRE_DECLARATION_ATTRIBUTES_MAX ||
        declaration->upload_count > WIRE_DECLARATION_UPLOADS_MAX ||
        declaration->events_max > WIRE_DECLARATION_EVENTS_MAX ||
        declaration->events_s > WIRE_DECLARATION_EVENTS_S_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (declaration->store_kib > WIRE_STORE_QUOTA_KIB_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (declaration->events >= WIRE_EVENTS_END || declaration->store_keep >= WIRE_STORE_KEEP_END ||
        (declaration->store_kib == 0 && declaration->store_keep != WIRE_STORE_VERSIONS) ||
        (declaration->events == WIRE_EVENTS_TIME) != (declaration->events_s > 0)) {
        return BASE_ERR_INVALID;
    }
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        if (declaration->triggers[i].size == 0 || !wire_text_printable(declaration->triggers[i])) {
            return BASE_ERR_INVALID;
        }
    }
    return attributes_ok(declaration) && uploads_ok(declaration) && runs_ok(declaration)
               ? BASE_OK
               : BASE_ERR_INVALID;
}

// ---- Sized texts

static void write_long(struct base_writer *writer, struct base_str text, size_t max)
{
    if (text.size > max) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
    }
    base_writer_varint(writer, text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static struct base_str read_long(struct base_reader *reader, size_t max)
{
    uint64_t size = base_reader_varint_max(reader, max);
    const uint8_t *bytes = base_reader_bytes(reader, (size_t)size);
    return bytes != NULL ? (struct base_str){(const char *)bytes, (size_t)size}
                         : (struct base_str){NULL, 0};
}

static uint32_t read_count(struct base_reader *reader, uint32_t max)
{
    uint64_t count = base_reader_varint_max(reader, max);
    return reader->status == BASE_OK ? (uint32_t)count : 0;
}

// ---- Encode

static void write_uploads(struct base_writer *writer, const struct wire_declaration *declaration)
{
    base_writer_varint(writer, declaration->upload_count);
    for (uint32_t i = 0; i < declaration->upload_count; i++) {
        const struct wire_upload *upload = &declaration->uploads[i];
        wire_text_write(writer, upload->name, WIRE_UPLOAD_NAME_MAX);
        base_writer_u8(writer, upload->class_id);
        base_writer_u16(writer, upload->schema_version);
        write_long(writer, upload->schema, WIRE_DECLARATION_SCHEMA_MAX);
    }
    base_writer_u8(writer, declaration->result_upload);
}

// What came to the form later, and only where it is used: a version without it has the bytes that
// it had before.
static uint8_t version_of(const struct wire_declaration *declaration)
{
    if (wire_declared_runs_any(&declaration->runs)) {
        return WIRE_DECLARATION_RUNS;
    }
    if (declaration->store_kib > 0) {
        return WIRE_DECLARATION_STORE;
    }
    return declaration->leaves.size > 0 ? WIRE_DECLARATION_LEAVES : WIRE_DECLARATION_VERSION;
}

static void write_later(struct base_writer *writer, const struct wire_declaration *declaration)
{
    const struct wire_declared_runs *runs = &declaration->runs;
    uint8_t version = version_of(declaration);
    if (version >= WIRE_DECLARATION_LEAVES) {
        write_long(writer, declaration->leaves, WIRE_DECLARATION_LEAVES_MAX);
    }
    if (version >= WIRE_DECLARATION_STORE) {
        base_writer_varint(writer, declaration->store_kib);
        base_writer_u8(writer, (uint8_t)declaration->store_keep);
    }
    if (version >= WIRE_DECLARATION_RUNS) {
        base_writer_u8(writer, runs->priority);
        base_writer_varint(writer, runs->deadline_ms);
        base_writer_u8(writer, runs->at_once);
    }
}

enum base_status wire_declaration_encode(const struct wire_declaration *declaration, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    BASE_TRY(declaration_check(declaration));
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_DECLARATION_BYTES_MAX ? capacity : WIRE_DECLARATION_BYTES_MAX);
    base_writer_u8(&writer, version_of(declaration));
    base_writer_varint(&writer, declaration->trigger_count);
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        write_long(&writer, declaration->triggers[i], WIRE_DECLARATION_PATTERN_MAX);
    }
    base_writer_u8(&writer, (uint8_t)declaration->events);
    base_writer_varint(&writer, declaration->events_max);
    base_writer_varint(&writer, declaration->events_s);
    base_writer_varint(&writer, declaration->attribute_count);
    for (uint32_t i = 0; i < declaration->attribute_count; i++) {
        wire_text_write(&writer, declaration->attributes[i], UINT8_MAX);
    }
    write_uploads(&writer, declaration);
    write_later(&writer, declaration);
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    base_assert(*out_size <= capacity && *out_size <= WIRE_DECLARATION_BYTES_MAX);
    return BASE_OK;
}

// ---- Parse

static void read_triggers(struct base_reader *reader, struct wire_declaration *out)
{
    out->trigger_count = read_count(reader, WIRE_DECLARATION_TRIGGERS_MAX);
    for (uint32_t i = 0; i < out->trigger_count; i++) {
        out->triggers[i] = read_long(reader, WIRE_DECLARATION_PATTERN_MAX);
    }
    out->events = (enum wire_declared_events)base_reader_u8(reader);
    out->events_max = (uint32_t)base_reader_varint_max(reader, WIRE_DECLARATION_EVENTS_MAX);
    out->events_s = (uint32_t)base_reader_varint_max(reader, WIRE_DECLARATION_EVENTS_S_MAX);
}

static void read_uploads(struct base_reader *reader, struct wire_declaration *out)
{
    out->upload_count = read_count(reader, WIRE_DECLARATION_UPLOADS_MAX);
    for (uint32_t i = 0; i < out->upload_count; i++) {
        struct wire_upload *upload = &out->uploads[i];
        upload->name = wire_text_read(reader, WIRE_UPLOAD_NAME_MAX);
        upload->class_id = base_reader_u8(reader);
        upload->schema_version = base_reader_u16(reader);
        upload->schema = read_long(reader, WIRE_DECLARATION_SCHEMA_MAX);
    }
    out->result_upload = base_reader_u8(reader);
}

static void read_later(struct base_reader *reader, uint8_t version, struct wire_declaration *out)
{
    base_assert(version <= WIRE_DECLARATION_RUNS); // 0: there was none to read
    out->leaves = version >= WIRE_DECLARATION_LEAVES
                      ? read_long(reader, WIRE_DECLARATION_LEAVES_MAX)
                      : (struct base_str){NULL, 0};
    out->store_kib = 0;
    out->store_keep = WIRE_STORE_VERSIONS;
    out->runs = (struct wire_declared_runs){.priority = 0};
    if (version >= WIRE_DECLARATION_STORE) {
        out->store_kib = (uint32_t)base_reader_varint_max(reader, WIRE_STORE_QUOTA_KIB_MAX);
        out->store_keep = (enum wire_store_keep)base_reader_u8(reader);
    }
    if (version >= WIRE_DECLARATION_RUNS) {
        out->runs.priority = base_reader_u8(reader);
        out->runs.deadline_ms = (uint32_t)base_reader_varint_max(reader, WIRE_RUN_DEADLINE_MS_MAX);
        out->runs.at_once = base_reader_u8(reader);
    }
    if ((version == WIRE_DECLARATION_LEAVES && out->leaves.size == 0) ||
        (version == WIRE_DECLARATION_STORE && out->store_kib == 0) ||
        (version == WIRE_DECLARATION_RUNS && !wire_declared_runs_any(&out->runs))) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

enum base_status wire_declaration_parse(const uint8_t *bytes, size_t size,
                                        struct wire_declaration *out)
{
    if (size > WIRE_DECLARATION_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    if (reader.status == BASE_OK &&
        (version < WIRE_DECLARATION_VERSION || version > WIRE_DECLARATION_RUNS)) {
        return BASE_ERR_UNSUPPORTED;
    }
    read_triggers(&reader, out);
    out->attribute_count = read_count(&reader, WIRE_DECLARATION_ATTRIBUTES_MAX);
    for (uint32_t i = 0; i < out->attribute_count; i++) {
        out->attributes[i] = wire_text_read(&reader, UINT8_MAX);
    }
    read_uploads(&reader, out);
    read_later(&reader, version, out);
    base_assert(out->trigger_count <= WIRE_DECLARATION_TRIGGERS_MAX);
    BASE_TRY(base_reader_finish(&reader));
    return declaration_check(out);
}

const struct wire_upload *wire_declaration_upload(const struct wire_declaration *declaration,
                                                  struct base_str name)
{
    for (uint32_t i = 0; i < declaration->upload_count; i++) {
        if (base_str_equal(declaration->uploads[i].name, name)) {
            return &declaration->uploads[i];
        }
    }
    return NULL;
}
