// Codecs of exclusive files: exclusive manifests, leaves and their proofs, lists of them.
//
// The build command and the gateway write, devices and the gateway parse. Pure; any thread.
#include "wire/trust/exclusive_files.h"

#include "wire/wiretext.h"

#include "base/check.h"

#include <string.h>

#define EXCLUSIVE_MAGIC "WLX1"
#define LIST_MAGIC      "WLXL"
#define MAGIC_SIZE      4
#define LEAF_MARK       0x00

// ---- Subjects

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool wire_user_ok(struct base_str name)
{
    if (name.size == 0 || name.size > WIRE_SUBJECT_MAX || !is_plain(name.data[0])) {
        return false;
    }
    for (size_t i = 1; i < name.size; i++) {
        char c = name.data[i];
        if (!is_plain(c) && c != '.' && c != '_' && c != '@' && c != '+' && c != '-') {
            return false;
        }
    }
    return true;
}

bool wire_subject_ok(enum wire_subject_kind kind, struct base_str subject)
{
    uint64_t id;
    return kind == WIRE_SUBJECT_DEVICE ? wire_device_parse(subject, &id) == BASE_OK
                                       : kind == WIRE_SUBJECT_USER && wire_user_ok(subject);
}

// ---- Exclusive manifests

static int text_order(struct base_str a, struct base_str b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    return order != 0 ? order : a.size < b.size ? -1 : a.size > b.size;
}

static enum base_status exclusive_check(const struct wire_exclusive_files *exclusive)
{
    if (exclusive->file_count > WIRE_EXCLUSIVE_FILES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < exclusive->file_count; i++) {
        const struct wire_manifest_file *file = &exclusive->files[i];
        if (!wire_manifest_file_ok(file) ||
            (i > 0 && text_order(exclusive->files[i - 1].name, file->name) >= 0)) {
            return BASE_ERR_INVALID;
        }
    }
    return exclusive->file_count > 0 ? BASE_OK : BASE_ERR_INVALID;
}

enum base_status wire_exclusive_encode(const struct wire_exclusive_files *exclusive, uint8_t *out,
                                       size_t capacity, size_t *out_size)
{
    BASE_TRY(exclusive_check(exclusive));
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_EXCLUSIVE_BYTES_MAX ? capacity : WIRE_EXCLUSIVE_BYTES_MAX);
    base_writer_bytes(&writer, EXCLUSIVE_MAGIC, MAGIC_SIZE);
    base_writer_varint(&writer, exclusive->file_count);
    for (uint32_t i = 0; i < exclusive->file_count; i++) {
        wire_manifest_file_write(&writer, &exclusive->files[i]);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static enum base_status magic_check(struct base_reader *reader, const char *magic)
{
    const uint8_t *bytes = base_reader_bytes(reader, MAGIC_SIZE);
    BASE_TRY(reader->status);
    return memcmp(bytes, magic, MAGIC_SIZE) == 0 ? BASE_OK : BASE_ERR_UNSUPPORTED;
}

static enum base_status exclusive_read(struct base_reader *reader, struct wire_exclusive_files *out)
{
    BASE_TRY(magic_check(reader, EXCLUSIVE_MAGIC));
    uint64_t count = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (count > WIRE_EXCLUSIVE_FILES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    out->file_count = (uint32_t)count;
    for (uint32_t i = 0; i < out->file_count && reader->status == BASE_OK; i++) {
        wire_manifest_file_read(reader, &out->files[i]);
    }
    BASE_TRY(base_reader_finish(reader));
    return exclusive_check(out);
}

enum base_status wire_exclusive_parse(const uint8_t *bytes, size_t size,
                                      struct wire_exclusive_files *out)
{
    struct base_reader reader;
    out->file_count = 0;
    if (size > WIRE_EXCLUSIVE_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    base_reader_init(&reader, bytes, size);
    enum base_status status = exclusive_read(&reader, out);
    if (status != BASE_OK) {
        out->file_count = 0;
    }
    return status;
}

const struct wire_manifest_file *wire_exclusive_clash(const struct wire_exclusive_files *exclusive,
                                                      const struct wire_manifest *manifest)
{
    base_assert(exclusive->file_count <= WIRE_EXCLUSIVE_FILES_MAX);
    for (uint32_t i = 0; i < exclusive->file_count; i++) {
        for (uint32_t j = 0; j < manifest->file_count; j++) {
            if (base_str_equal(exclusive->files[i].name, manifest->files[j].name)) {
                return &exclusive->files[i];
            }
        }
    }
    return NULL;
}

// ---- Leaves

static bool entry_ok(const struct wire_entry *entry)
{
    return wire_subject_ok(entry->kind, entry->subject) && entry->bytes > 0 &&
           entry->bytes <= WIRE_EXCLUSIVE_BYTES_MAX;
}

void wire_entry_write(struct base_writer *writer, const struct wire_entry *entry)
{
    if (!entry_ok(entry)) {
        base_writer_fail(writer, BASE_ERR_INVALID);
        return;
    }
    base_writer_u8(writer, (uint8_t)entry->kind);
    wire_text_write(writer, entry->subject, WIRE_SUBJECT_MAX);
    base_writer_bytes(writer, entry->exclusive.bytes, WIRE_SHA256_BYTES);
    base_writer_u32(writer, entry->bytes);
}

void wire_entry_read(struct base_reader *reader, struct wire_entry *out)
{
    out->kind = (enum wire_subject_kind)base_reader_u8(reader);
    out->subject = wire_text_read(reader, WIRE_SUBJECT_MAX);
    base_reader_copy(reader, out->exclusive.bytes, WIRE_SHA256_BYTES);
    out->bytes = base_reader_u32(reader);
    if (reader->status == BASE_OK && !entry_ok(out)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

void wire_entry_leaf(const struct wire_hasher *hasher, const struct wire_entry *entry,
                     struct wire_sha256 *out)
{
    uint8_t bytes[1 + WIRE_ENTRY_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u8(&writer, LEAF_MARK);
    wire_entry_write(&writer, entry);
    base_assert(writer.status == BASE_OK); // entries were checked where they came in
    hasher->sha256(hasher->ctx, bytes, base_writer_size(&writer), out);
}

int wire_entry_order(const struct wire_entry *a, const struct wire_entry *b)
{
    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : text_order(a->subject, b->subject);
}

// ---- Proofs

static enum base_status proof_check(const struct wire_proof *proof)
{
    if (proof->leaf_count == 0 || proof->leaf_count > WIRE_SUBJECTS_MAX ||
        proof->index >= proof->leaf_count ||
        proof->path_count != wire_tree_path(NULL, proof->leaf_count, proof->index, NULL)) {
        return BASE_ERR_INVALID;
    }
    return entry_ok(&proof->entry) ? BASE_OK : BASE_ERR_INVALID;
}

enum base_status wire_proof_encode(const struct wire_proof *proof, uint8_t *out, size_t capacity,
                                   size_t *out_size)
{
    BASE_TRY(proof_check(proof));
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, WIRE_PROOF_VERSION);
    wire_entry_write(&writer, &proof->entry);
    base_writer_varint(&writer, proof->leaf_count);
    base_writer_varint(&writer, proof->index);
    base_writer_u8(&writer, (uint8_t)proof->path_count);
    for (uint32_t i = 0; i < proof->path_count; i++) {
        base_writer_bytes(&writer, proof->path[i].bytes, WIRE_SHA256_BYTES);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

enum base_status wire_proof_parse(const uint8_t *bytes, size_t size, struct wire_proof *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (version != WIRE_PROOF_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    wire_entry_read(&reader, &out->entry);
    out->leaf_count = (uint32_t)base_reader_varint_max(&reader, WIRE_SUBJECTS_MAX);
    out->index = (uint32_t)base_reader_varint_max(&reader, WIRE_SUBJECTS_MAX);
    out->path_count = base_reader_u8(&reader);
    if (out->path_count > WIRE_TREE_PATH_MAX) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    for (uint32_t i = 0; reader.status == BASE_OK && i < out->path_count; i++) {
        base_reader_copy(&reader, out->path[i].bytes, WIRE_SHA256_BYTES);
    }
    BASE_TRY(base_reader_finish(&reader));
    return proof_check(out);
}

enum base_status wire_proof_verify(const struct wire_proof *proof, const struct wire_hasher *hasher,
                                   const struct wire_sha256 *root)
{
    struct wire_sha256 leaf;
    BASE_TRY(proof_check(proof));
    wire_entry_leaf(hasher, &proof->entry, &leaf);
    return wire_tree_verify(
        hasher, &leaf,
        &(struct wire_tree_way){proof->leaf_count, proof->index, proof->path, proof->path_count},
        root);
}

// ---- Lists

void wire_entry_list_head(struct base_writer *writer, uint32_t count)
{
    base_writer_bytes(writer, LIST_MAGIC, MAGIC_SIZE);
    base_writer_varint(writer, count);
}

enum base_status wire_entry_list_open(const uint8_t *bytes, size_t size,
                                      struct wire_entry_list *out)
{
    base_reader_init(&out->reader, bytes, size);
    BASE_TRY(magic_check(&out->reader, LIST_MAGIC));
    uint64_t count = base_reader_varint(&out->reader);
    BASE_TRY(out->reader.status);
    if (count > WIRE_SUBJECTS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    out->count = (uint32_t)count;
    out->last = (struct wire_entry){.kind = 0};
    return count > 0 ? BASE_OK : BASE_ERR_INVALID;
}

enum base_status wire_entry_list_next(struct wire_entry_list *list, struct wire_entry *out)
{
    struct wire_entry entry;
    if (list->count == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    wire_entry_read(&list->reader, &entry);
    BASE_TRY(list->reader.status);
    if (wire_entry_order(&list->last, &entry) >= 0) {
        return BASE_ERR_INVALID;
    }
    list->count--;
    if (list->count == 0) {
        BASE_TRY(base_reader_finish(&list->reader));
    }
    list->last = entry;
    *out = entry;
    return BASE_OK;
}
