// .npz: a zip archive of .npy files, entries stored without compression. The central directory at
// the end of the archive is believed, never the sizes in front of each entry (numpy leaves them
// open). Called by tensor_file.c; no state.
#include "model/npy_file.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/cursor.h"
#include "base/span.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define LOCAL_MAGIC      0x04034b50u
#define CENTRAL_MAGIC    0x02014b50u
#define END_MAGIC        0x06054b50u
#define END_BYTES        22u
#define COMMENT_MAX      65535u
#define METHOD_STORED    0
#define ENTRY_NAME_MAX   1024u
#define ARCHIVE_SIZE_MAX 0xffffffffu

static enum base_status fail(struct base_error *error, enum base_status status, const char *text)
{
    return base_error_set(error, status, "npz: %s", text);
}

// The end record, searched backwards: a comment may follow it.
static bool find_end(const uint8_t *bytes, size_t size, size_t *out_at)
{
    if (size < END_BYTES) {
        return false;
    }
    size_t lowest = size > END_BYTES + COMMENT_MAX ? size - END_BYTES - COMMENT_MAX : 0;
    for (size_t at = size - END_BYTES + 1; at > lowest; at--) {
        if (memcmp(bytes + at - 1, "PK\5\6", 4) == 0) {
            *out_at = at - 1;
            return true;
        }
    }
    return false;
}

struct entry {
    struct base_str name;
    uint32_t method, stored_size, size, offset;
};

static enum base_status read_entry(struct base_reader *reader, struct entry *out)
{
    uint32_t found = base_reader_u32(reader);
    (void)base_reader_bytes(reader, 6); // versions, flags
    out->method = base_reader_u16(reader);
    (void)base_reader_bytes(reader, 8); // time, checksum
    out->stored_size = base_reader_u32(reader);
    out->size = base_reader_u32(reader);
    uint16_t name_size = base_reader_u16(reader);
    uint16_t extra_size = base_reader_u16(reader);
    uint16_t comment_size = base_reader_u16(reader);
    (void)base_reader_bytes(reader, 8); // disk, attributes
    out->offset = base_reader_u32(reader);
    out->name = (struct base_str){(const char *)base_reader_bytes(reader, name_size), name_size};
    (void)base_reader_bytes(reader, (size_t)extra_size + comment_size);
    return found == CENTRAL_MAGIC ? reader->status : BASE_ERR_INVALID;
}

// Where the bytes of a stored entry lie.
static enum base_status locate(struct base_span archive, const struct entry *entry,
                               const uint8_t **out, struct base_error *error)
{
    if (entry->method != METHOD_STORED) {
        return fail(error, BASE_ERR_UNSUPPORTED,
                    "compressed archives are not supported (write it with numpy.savez)");
    }
    if (entry->size == ARCHIVE_SIZE_MAX || entry->offset == ARCHIVE_SIZE_MAX ||
        entry->size != entry->stored_size || entry->name.size > ENTRY_NAME_MAX) {
        return fail(error, BASE_ERR_UNSUPPORTED, "an entry that is too large");
    }
    struct base_reader reader;
    base_reader_init(&reader, archive.data, archive.size);
    (void)base_reader_bytes(&reader, entry->offset);
    uint32_t found = base_reader_u32(&reader);
    (void)base_reader_bytes(&reader, 22);
    uint16_t name_size = base_reader_u16(&reader);
    uint16_t extra_size = base_reader_u16(&reader);
    (void)base_reader_bytes(&reader, (size_t)name_size + extra_size);
    *out = base_reader_bytes(&reader, entry->size);
    if (reader.status != BASE_OK || found != LOCAL_MAGIC) {
        return fail(error, BASE_ERR_INVALID, "an entry lies outside of the archive");
    }
    base_assert((size_t)(*out - archive.data) + entry->size <= archive.size);
    return BASE_OK;
}

static enum base_status take_entry(struct base_span archive, const struct entry *entry,
                                   struct base_arena *arena, struct eng_tensor_list *list,
                                   struct base_error *error)
{
    const uint8_t *data = NULL;
    BASE_TRY(locate(archive, entry, &data, error));
    BASE_TRY(eng_npy_read(data, entry->size, arena, &list->arrays[list->count], error));
    size_t name_size = entry->name.size;
    if (name_size > 4 && memcmp(entry->name.data + name_size - 4, ".npy", 4) == 0) {
        name_size -= 4;
    }
    const char *name = base_arena_text(arena, name_size > 0 ? entry->name.data : "", name_size);
    if (name == NULL) {
        return BASE_ERR_NOMEM;
    }
    list->names[list->count++] = name;
    return BASE_OK;
}

enum base_status eng_npz_read(const uint8_t *bytes, size_t size, struct base_arena *arena,
                              struct eng_tensor_list *out_list, struct base_error *error)
{
    size_t end_at;
    if (!find_end(bytes, size, &end_at)) {
        return fail(error, BASE_ERR_INVALID, "not an archive");
    }
    base_assert(end_at + END_BYTES <= size); // so reading the end record cannot fail
    struct base_reader end;
    base_reader_init(&end, bytes + end_at, size - end_at);
    (void)base_reader_bytes(&end, 10);
    uint32_t count = base_reader_u16(&end);
    (void)base_reader_u32(&end);
    uint32_t directory = base_reader_u32(&end);
    if (directory > end_at) {
        return fail(error, BASE_ERR_INVALID, "its directory lies outside of it");
    }
    struct eng_tensor_list list = {.kind = ENG_VALUE_SEQUENCE};
    list.arrays = base_arena_alloc(arena, count * sizeof(*list.arrays));
    list.names = base_arena_alloc(arena, count * sizeof(*list.names));
    if (list.arrays == NULL || list.names == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes + directory, end_at - directory);
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct entry entry;
        if (read_entry(&reader, &entry) != BASE_OK) {
            return fail(error, BASE_ERR_INVALID, "unreadable directory");
        }
        total += entry.size;
        if (total > size) { // or a small file could ask for any amount of memory
            return fail(error, BASE_ERR_INVALID, "its entries overlap");
        }
        base_assert(list.count == i);
        BASE_TRY(take_entry((struct base_span){bytes, size}, &entry, arena, &list, error));
    }
    *out_list = list;
    return BASE_OK;
}

// CRC-32 of zip (reflected polynomial 0xedb88320), four bits at a time.
static uint32_t checksum(const uint8_t *bytes, size_t size)
{
    uint32_t table[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t value = i;
        for (uint32_t bit = 0; bit < 4; bit++) {
            value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
        }
        table[i] = value;
    }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc = crc >> 4 ^ table[(crc ^ bytes[i]) & 15];
        crc = crc >> 4 ^ table[(crc ^ (uint32_t)bytes[i] >> 4) & 15];
    }
    return ~crc;
}

#define LOCAL_BYTES   30u
#define CENTRAL_BYTES 46u

struct written {
    uint32_t crc, size, offset;
    char name[ENTRY_NAME_MAX + 8];
};

// What the local header and the directory say alike, from the version needed to the name's size.
static void put_common(struct base_writer *writer, const struct written *entry)
{
    base_assert(strlen(entry->name) <= UINT16_MAX);
    base_writer_u16(writer, 20);
    base_writer_u16(writer, 0);
    base_writer_u16(writer, METHOD_STORED);
    base_writer_u16(writer, 0);
    base_writer_u16(writer, 0x21); // 1 January 1980: archives of equal content are equal
    base_writer_u32(writer, entry->crc);
    base_writer_u32(writer, entry->size);
    base_writer_u32(writer, entry->size);
    base_writer_u16(writer, (uint16_t)strlen(entry->name));
    base_writer_u16(writer, 0);
}

static void name_entry(const struct eng_tensor_list *list, uint32_t item, struct written *entry)
{
    const char *name = list->names != NULL && list->names[item] != NULL ? list->names[item] : "";
    if (name[0] != '\0') {
        (void)snprintf(entry->name, sizeof(entry->name), "%.*s.npy", (int)ENTRY_NAME_MAX, name);
    } else {
        (void)snprintf(entry->name, sizeof(entry->name), "arr_%u.npy", item);
    }
}

// The header and bytes of an entry that has its name; fills in the rest of it.
static enum base_status add_local(struct base_buffer *out, size_t begin,
                                  const struct eng_array *array, struct written *entry,
                                  struct base_error *error)
{
    base_assert(begin <= out->size && out->size - begin < ARCHIVE_SIZE_MAX);
    entry->offset = (uint32_t)(out->size - begin);
    uint8_t head[LOCAL_BYTES] = {0};
    BASE_TRY(base_buffer_add(out, head, sizeof(head)));
    BASE_TRY(base_buffer_add(out, entry->name, strlen(entry->name)));
    size_t data_at = out->size;
    BASE_TRY(eng_npy_write(out, array, error));
    if (out->size - begin >= ARCHIVE_SIZE_MAX) {
        return fail(error, BASE_ERR_TOO_LARGE, "over 4 GiB");
    }
    entry->size = (uint32_t)(out->size - data_at);
    entry->crc = checksum(out->data + data_at, entry->size);
    struct base_writer writer;
    base_writer_init(&writer, out->data + begin + entry->offset, LOCAL_BYTES);
    base_writer_u32(&writer, LOCAL_MAGIC);
    put_common(&writer, entry);
    return writer.status;
}

static enum base_status add_central(struct base_buffer *out, const struct written *entry)
{
    uint8_t head[CENTRAL_BYTES] = {0};
    struct base_writer writer;
    base_writer_init(&writer, head, sizeof(head));
    base_writer_u32(&writer, CENTRAL_MAGIC);
    base_writer_u16(&writer, 20);
    put_common(&writer, entry);
    base_writer_u16(&writer, 0); // comment
    base_writer_u16(&writer, 0); // disk
    base_writer_u16(&writer, 0);
    base_writer_u32(&writer, 0); // attributes
    base_writer_u32(&writer, entry->offset);
    BASE_TRY(writer.status);
    BASE_TRY(base_buffer_add(out, head, sizeof(head)));
    return base_buffer_add(out, entry->name, strlen(entry->name));
}

enum base_status eng_npz_write(struct base_buffer *out, const struct eng_tensor_list *list,
                               struct base_error *error)
{
    if (list->count > UINT16_MAX) {
        return fail(error, BASE_ERR_TOO_LARGE, "too many arrays");
    }
    size_t begin = out->size;
    struct base_buffer directory; // written once the entries' places are known
    base_buffer_init(&directory, base_alloc_heap(), 0);
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; status == BASE_OK && i < list->count; i++) {
        struct written entry;
        name_entry(list, i, &entry);
        status = add_local(out, begin, &list->arrays[i], &entry, error);
        if (status == BASE_OK) {
            status = add_central(&directory, &entry);
        }
    }
    size_t directory_at = out->size - begin;
    base_assert(status != BASE_OK || directory_at < ARCHIVE_SIZE_MAX); // add_local stops before
    if (status == BASE_OK && directory.size > 0) {
        status = base_buffer_add(out, directory.data, directory.size);
    }
    uint8_t end[END_BYTES] = {0};
    struct base_writer writer;
    base_writer_init(&writer, end, sizeof(end));
    base_writer_u32(&writer, END_MAGIC);
    base_writer_u32(&writer, 0);
    base_writer_u16(&writer, (uint16_t)list->count);
    base_writer_u16(&writer, (uint16_t)list->count);
    base_writer_u32(&writer, (uint32_t)directory.size);
    base_writer_u32(&writer, (uint32_t)directory_at);
    base_buffer_done(&directory);
    BASE_TRY(status);
    return base_buffer_add(out, end, sizeof(end));
}
