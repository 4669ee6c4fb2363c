// A task's store as one run of bytes: parsed, gone through, changed in place. Called by the script
// VM (vm/vm_store.c), on its thread, and by who takes an image over: the agent's reader of what a
// task's process says (posix/run/posix_child_parse.c) and collective storage
// (pipeline/storage/task_store.c). A store is small, so a key is looked for from the first on.
#include "wire/store/store_image.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

static int order(struct base_str a, struct base_str b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    int by_bytes = memcmp(a.data, b.data, shared);
    return by_bytes != 0 ? by_bytes : (a.size > b.size) - (a.size < b.size);
}

void wire_store_init(struct wire_store *store, uint8_t *bytes, uint64_t tag)
{
    struct base_writer writer;
    base_writer_init(&writer, bytes, WIRE_STORE_HEAD_BYTES);
    base_writer_u8(&writer, WIRE_STORE_VERSION);
    base_writer_u64(&writer, tag);
    base_check(writer.status == BASE_OK);
    *store = (struct wire_store){.bytes = bytes, .size = WIRE_STORE_HEAD_BYTES, .tag = tag};
}

static void entry_read(struct base_reader *reader, struct wire_store_entry *out)
{
    size_t key_size = base_reader_u8(reader);
    const uint8_t *key = base_reader_bytes(reader, key_size);
    size_t size = (size_t)base_reader_varint_max(reader, WIRE_STORE_QUOTA_KIB_MAX * 1024);
    const uint8_t *value = base_reader_bytes(reader, size);
    if (key_size == 0 || key_size > WIRE_STORE_KEY_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    out->key = (struct base_str){(const char *)key, key_size};
    out->value = (struct base_span){value, size};
}

enum base_status wire_store_parse(uint8_t *bytes, size_t size, struct wire_store *out)
{
    struct base_reader reader;
    struct base_str before = {NULL, 0};
    struct wire_store store = {.bytes = bytes, .size = size};
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    store.tag = base_reader_u64(&reader);
    if (reader.status == BASE_OK && version != WIRE_STORE_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        struct wire_store_entry entry;
        entry_read(&reader, &entry);
        BASE_TRY(reader.status);
        if (before.size > 0 && order(before, entry.key) >= 0) {
            return BASE_ERR_INVALID;
        }
        before = entry.key;
        store.keys++;
        store.used += entry.key.size + entry.value.size;
    }
    BASE_TRY(base_reader_finish(&reader));
    if (store.keys > WIRE_STORE_KEYS_MAX || store.used > WIRE_STORE_QUOTA_KIB_MAX * 1024) {
        return BASE_ERR_TOO_LARGE;
    }
    *out = store;
    return BASE_OK;
}

void wire_store_tag(uint8_t *bytes, size_t size, uint64_t tag)
{
    struct base_writer writer;
    if (size >= WIRE_STORE_HEAD_BYTES) {
        base_writer_init(&writer, bytes + 1, WIRE_STORE_HEAD_BYTES - 1);
        base_writer_u64(&writer, tag);
        base_check(writer.status == BASE_OK);
    }
}

bool wire_store_next(const struct wire_store *store, size_t *at, struct wire_store_entry *out)
{
    struct base_reader reader;
    size_t from = *at > 0 ? *at : WIRE_STORE_HEAD_BYTES;
    base_check(from <= store->size);
    if (from == store->size) {
        return false;
    }
    base_reader_init(&reader, store->bytes + from, store->size - from);
    entry_read(&reader, out);
    base_check(reader.status == BASE_OK); // it was parsed, or made here
    *at = from + base_reader_offset(&reader);
    return true;
}

// Where the entry of `key` is, or would be; true: it is there.
static bool locate(const struct wire_store *store, struct base_str key, size_t *out_from,
                   struct wire_store_entry *out)
{
    size_t at = 0;
    *out_from = WIRE_STORE_HEAD_BYTES;
    while (wire_store_next(store, &at, out)) {
        int which = order(out->key, key);
        if (which >= 0) {
            return which == 0;
        }
        *out_from = at;
    }
    return false;
}

enum base_status wire_store_find(const struct wire_store *store, struct base_str key,
                                 struct base_span *out_value)
{
    struct wire_store_entry entry;
    size_t from = 0;
    if (!locate(store, key, &from, &entry)) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_value = entry.value;
    return BASE_OK;
}

bool wire_store_remove(struct wire_store *store, struct base_str key)
{
    struct wire_store_entry entry;
    size_t from = 0;
    if (!locate(store, key, &from, &entry)) {
        return false;
    }
    const uint8_t *end = (const uint8_t *)entry.value.data + entry.value.size;
    size_t behind = (size_t)(store->bytes + store->size - end);
    store->keys--;
    store->used -= entry.key.size + entry.value.size;
    memmove(store->bytes + from, end, behind);
    store->size = from + behind;
    return true;
}

enum base_status wire_store_put(struct wire_store *store, struct base_str key,
                                struct base_span value, size_t quota_bytes)
{
    struct wire_store_entry old;
    struct base_writer writer;
    uint8_t head[WIRE_STORE_ENTRY_BYTES + WIRE_STORE_KEY_MAX];
    size_t from = 0;
    if (key.size == 0 || key.size > WIRE_STORE_KEY_MAX) {
        return BASE_ERR_INVALID;
    }
    bool there = locate(store, key, &from, &old);
    size_t others = store->used - (there ? old.key.size + old.value.size : 0);
    base_check(quota_bytes <= WIRE_STORE_QUOTA_KIB_MAX * 1024);
    if (!there && store->keys == WIRE_STORE_KEYS_MAX) {
        return BASE_ERR_LIMIT;
    }
    if (others + key.size > quota_bytes || value.size > quota_bytes - others - key.size) {
        return BASE_ERR_FULL;
    }
    base_writer_init(&writer, head, sizeof(head));
    base_writer_u8(&writer, (uint8_t)key.size);
    base_writer_bytes(&writer, key.data, key.size);
    base_writer_varint(&writer, value.size);
    size_t head_size = base_writer_size(&writer);
    base_check(writer.status == BASE_OK);
    if (there) {
        (void)wire_store_remove(store, key);
    }
    uint8_t *at = store->bytes + from;
    memmove(at + head_size + value.size, at, store->size - from);
    memcpy(at, head, head_size);
    if (value.size > 0) {
        memcpy(at + head_size, value.data, value.size);
    }
    store->size += head_size + value.size;
    store->keys++;
    store->used = others + key.size + value.size;
    base_check(store->size <= WIRE_STORE_IMAGE_MAX);
    return BASE_OK;
}
