// The manifest codec and the rules every manifest obeys.
//
// The build command encodes, gateway and device parse (a device only after the hash was verified).
// One check function serves both directions, so nothing can be written that would not be read.
// Nothing is allocated; parsed names are borrowed from the input.
#include "wire/manifest.h"

#include "base/check.h"
#include "base/os/path_part.h"
#include "wire/declaration.h"
#include "wire/wiretext.h"

#include <string.h>

#define MAGIC         "WLM2"
#define MAGIC_SIZE    4
#define SCRIPT_SUFFIX BASE_STR(".mpy")
#define DECLARES      0x10u // in the byte that says `exclusive`: a declaration follows the config

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '/' || c == '-';
}

// A relative path of parts that could be files, though no device makes any of them.
const char *wire_file_name_fault(struct base_str name)
{
    if (name.size == 0 || name.size > WIRE_FILE_NAME_MAX) {
        return "is not 1 to 96 bytes long";
    }
    for (size_t i = 0; i < name.size; i++) {
        if (!is_name_char(name.data[i])) {
            return "has a character that is none of a-z A-Z 0-9 . _ / -";
        }
    }
    return base_path_fault(name) == NULL ? NULL
                                         : "has a part, between slashes, that is empty, '.', '..' "
                                           "or '.git'";
}
_Static_assert(WIRE_FILE_NAME_MAX == 96, "the text above says so");

static bool file_name_ok(struct base_str name)
{
    return wire_file_name_fault(name) == NULL;
}

static bool version_text_ok(struct base_str version)
{
    if (version.size == 0 || version.size > WIRE_VERSION_TEXT_MAX) {
        return false;
    }
    for (size_t i = 0; i < version.size; i++) {
        char c = version.data[i];
        if (c != '+' && (!is_name_char(c) || c == '/' || c == '_')) {
            return false;
        }
    }
    return true;
}

// Does the file called `name` import as `module`?
static bool imports_as(struct base_str name, struct base_str module)
{
    if (name.size != module.size + SCRIPT_SUFFIX.size) {
        return false;
    }
    struct base_str stem = {name.data, module.size};
    struct base_str suffix = {name.data + module.size, SCRIPT_SUFFIX.size};
    return base_str_equal(stem, module) && base_str_equal(suffix, SCRIPT_SUFFIX);
}

static bool ends_as_script(struct base_str name)
{
    if (name.size <= SCRIPT_SUFFIX.size) {
        return false;
    }
    struct base_str stem = {name.data, name.size - SCRIPT_SUFFIX.size};
    return imports_as(name, stem);
}

bool wire_manifest_file_ok(const struct wire_manifest_file *file)
{
    if (file->kind < WIRE_FILE_SCRIPT || file->kind > WIRE_FILE_DATA) {
        return false;
    }
    if (!file_name_ok(file->name) || file->bytes > WIRE_FILE_BYTES_MAX) {
        return false;
    }
    return file->kind != WIRE_FILE_SCRIPT || ends_as_script(file->name);
}

static bool files_ok(const struct wire_manifest *manifest)
{
    base_assert(manifest->file_count <= WIRE_MANIFEST_FILES_MAX);
    bool entry_found = false;
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct wire_manifest_file *file = &manifest->files[i];
        if (!wire_manifest_file_ok(file)) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (base_str_equal(manifest->files[j].name, file->name)) {
                return false;
            }
        }
        entry_found |= file->kind == WIRE_FILE_SCRIPT && imports_as(file->name, manifest->entry);
    }
    return entry_found;
}

static enum base_status manifest_check(const struct wire_manifest *manifest)
{
    base_assert(manifest != NULL);
    if (manifest->file_count > WIRE_MANIFEST_FILES_MAX ||
        manifest->config.size > WIRE_MANIFEST_CONFIG_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (manifest->exclusive >= WIRE_EXCLUSIVE_COUNT ||
        (manifest->exclusive == WIRE_EXCLUSIVE_NONE) !=
            wire_sha256_is_zero(&manifest->exclusive_root)) {
        return BASE_ERR_INVALID;
    }
    struct wire_declaration declaration;
    if (manifest->declaration.size > 0) {
        BASE_TRY(wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                        manifest->declaration.size, &declaration));
        uint32_t deadline_ms = declaration.runs.deadline_ms;
        if (deadline_ms > 0 && manifest->time_ms > deadline_ms) { // no run could keep it
            return BASE_ERR_INVALID;
        }
    }
    bool head_ok = wire_task_name_ok(manifest->task_name) && version_text_ok(manifest->version) &&
                   file_name_ok(manifest->entry);
    return head_ok && files_ok(manifest) ? BASE_OK : BASE_ERR_INVALID;
}

static void write_head(struct base_writer *writer, const struct wire_manifest *manifest)
{
    _Static_assert(WIRE_EXCLUSIVE_COUNT <= DECLARES, "they share a byte");
    base_writer_bytes(writer, MAGIC, MAGIC_SIZE);
    wire_text_write(writer, manifest->task_name, WIRE_TASK_NAME_MAX);
    wire_text_write(writer, manifest->version, WIRE_VERSION_TEXT_MAX);
    base_writer_u16(writer, manifest->runtime_abi);
    wire_text_write(writer, manifest->entry, WIRE_FILE_NAME_MAX);
    base_writer_u32(writer, manifest->heap_kib);
    base_writer_u32(writer, manifest->time_ms);
    base_writer_u32(writer, manifest->every_s);
    base_writer_u8(writer, (uint8_t)((unsigned)manifest->exclusive |
                                     (manifest->declaration.size > 0 ? DECLARES : 0)));
    if (manifest->exclusive != WIRE_EXCLUSIVE_NONE) {
        base_writer_bytes(writer, manifest->exclusive_root.bytes, WIRE_SHA256_BYTES);
    }
    base_writer_varint(writer, manifest->config.size);
    base_writer_bytes(writer, manifest->config.data, manifest->config.size);
    if (manifest->declaration.size > 0) {
        base_writer_varint(writer, manifest->declaration.size);
        base_writer_bytes(writer, manifest->declaration.data, manifest->declaration.size);
    }
    base_writer_varint(writer, manifest->file_count);
}

void wire_manifest_file_write(struct base_writer *writer, const struct wire_manifest_file *file)
{
    base_writer_u8(writer, (uint8_t)file->kind);
    wire_text_write(writer, file->name, WIRE_FILE_NAME_MAX);
    base_writer_varint(writer, file->bytes);
    base_writer_bytes(writer, file->digest.bytes, WIRE_SHA256_BYTES);
}

enum base_status wire_manifest_encode(const struct wire_manifest *manifest, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    BASE_TRY(manifest_check(manifest));
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_MANIFEST_BYTES_MAX ? capacity : WIRE_MANIFEST_BYTES_MAX);
    write_head(&writer, manifest);
    base_assert(manifest->file_count > 0); // the entry is one of them
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        wire_manifest_file_write(&writer, &manifest->files[i]);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static struct base_str read_long(struct base_reader *reader, size_t max)
{
    uint64_t size = base_reader_varint(reader);
    if (size > max) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
    }
    const uint8_t *bytes = base_reader_bytes(reader, (size_t)size);
    if (bytes == NULL) {
        return (struct base_str){NULL, 0};
    }
    return (struct base_str){(const char *)bytes, (size_t)size};
}

static void read_head(struct base_reader *reader, struct wire_manifest *out)
{
    out->task_name = wire_text_read(reader, WIRE_TASK_NAME_MAX);
    out->version = wire_text_read(reader, WIRE_VERSION_TEXT_MAX);
    out->runtime_abi = base_reader_u16(reader);
    out->entry = wire_text_read(reader, WIRE_FILE_NAME_MAX);
    out->heap_kib = base_reader_u32(reader);
    out->time_ms = base_reader_u32(reader);
    out->every_s = base_reader_u32(reader);
    uint8_t extras = base_reader_u8(reader);
    out->exclusive = (enum wire_exclusive)(extras & ~DECLARES);
    memset(&out->exclusive_root, 0, sizeof(out->exclusive_root));
    if (out->exclusive != WIRE_EXCLUSIVE_NONE) {
        base_reader_copy(reader, out->exclusive_root.bytes, WIRE_SHA256_BYTES);
    }
    out->config = read_long(reader, WIRE_MANIFEST_CONFIG_MAX);
    out->declaration = (struct base_str){NULL, 0};
    if ((extras & DECLARES) != 0) {
        out->declaration = read_long(reader, WIRE_DECLARATION_BYTES_MAX);
        if (out->declaration.size == 0) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
    uint64_t file_count = base_reader_varint(reader);
    if (file_count > WIRE_MANIFEST_FILES_MAX) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        file_count = 0;
    }
    out->file_count = (uint32_t)file_count;
    base_assert(out->config.size <= WIRE_MANIFEST_CONFIG_MAX);
}

void wire_manifest_file_read(struct base_reader *reader, struct wire_manifest_file *file)
{
    file->kind = (enum wire_file_kind)base_reader_u8(reader);
    file->name = wire_text_read(reader, WIRE_FILE_NAME_MAX);
    file->bytes = base_reader_varint(reader);
    base_reader_copy(reader, file->digest.bytes, WIRE_SHA256_BYTES);
}

static enum base_status parse_into(struct base_reader *reader, struct wire_manifest *out)
{
    const uint8_t *magic = base_reader_bytes(reader, MAGIC_SIZE);
    BASE_TRY(reader->status);
    if (memcmp(magic, MAGIC, MAGIC_SIZE) != 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    read_head(reader, out);
    for (uint32_t i = 0; i < out->file_count && reader->status == BASE_OK; i++) {
        wire_manifest_file_read(reader, &out->files[i]);
    }
    return base_reader_finish(reader);
}

enum base_status wire_manifest_again(const uint8_t *bytes, size_t size, struct wire_manifest *out)
{
    out->file_count = 0;
    if (size > WIRE_MANIFEST_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    enum base_status status = parse_into(&reader, out);
    if (status != BASE_OK) {
        out->file_count = 0; // the structure is too large to parse aside and copy
    }
    return status;
}

enum base_status wire_manifest_parse(const uint8_t *bytes, size_t size, struct wire_manifest *out)
{
    BASE_TRY(wire_manifest_again(bytes, size, out));
    enum base_status status = manifest_check(out);
    if (status != BASE_OK) {
        out->file_count = 0;
    }
    return status;
}
