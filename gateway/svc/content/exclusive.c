// Trees of exclusive files: checked and stored with their version on the control thread, looked up
// by workers out of mapped bytes.
//
//   row   := u8 version(1), list[32], index[32]                 by tenant and root
//   index := "WLXI", u32 count, count x u32 offset, nodes x sha256[32]
//            (offsets of the entries in the list; nodes as wire_tree_build leaves them)
#include "svc/content/exclusive.h"

#include "svc/content/blob.h"
#include "svc/core_private.h"
#include "svc/access/device_user.h"
#include "svc/access/audit.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION 1
#define ROW_BYTES   (1 + 2 * WIRE_SHA256_BYTES)
#define INDEX_MAGIC "WLXI"
#define INDEX_HEAD  8u

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    gw_sha256(bytes, size, out);
}

static const struct wire_hasher hasher = {.sha256 = hash};

// ---- Packs

static enum base_status read_pack(struct base_span pack, struct gw_store_item *items,
                                  uint32_t *out_count, struct base_error *error)
{
    struct base_reader reader;
    uint32_t count = 0;
    base_reader_init(&reader, pack.data, pack.size);
    while (base_reader_left(&reader) > 0) {
        if (count == GW_BLOB_PACK_MAX) {
            return base_error_set(error, BASE_ERR_INVALID, "pack: more than %u blobs",
                                  GW_BLOB_PACK_MAX);
        }
        struct gw_store_item *item = &items[count];
        item->size = base_reader_u32(&reader);
        item->bytes = base_reader_bytes(&reader, item->size);
        if (reader.status != BASE_OK) {
            return base_error_set(error, BASE_ERR_INVALID, "pack: blob %u is cut off", count);
        }
        gw_sha256(item->bytes, item->size, &item->digest);
        count++;
    }
    *out_count = count;
    return count > 0 ? BASE_OK : base_error_set(error, BASE_ERR_INVALID, "pack: empty");
}

enum base_status gw_blobs_put_exclusive(struct gw_core *core, uint16_t tenant,
                                        struct base_span pack, struct gw_blob_pack *out,
                                        struct base_error *error)
{
    struct gw_store_item *items = calloc(GW_BLOB_PACK_MAX, sizeof(*items));
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = read_pack(pack, items, &out->count, error);
    if (status == BASE_OK) {
        status =
            gw_store_blobs_put_exclusive(core->store, tenant, items, out->count, &out->created);
        if (status != BASE_OK) {
            (void)base_error_set(error, status, "pack: its %u blobs were not stored: %s",
                                 out->count, base_status_text(status));
        }
    }
    free(items);
    return status;
}

// ---- Checking a list

static enum base_status miss(struct gw_exclusive_new *wish, const struct wire_sha256 *digest)
{
    if (wish->missing_count == wish->missing_capacity) {
        return BASE_ERR_LIMIT;
    }
    wish->missing[wish->missing_count++] = *digest;
    return BASE_OK;
}

#define SUBJECT_FORMAT "exclusive: %s %.*s: "
#define SUBJECT_ARGS(entry)                                                                        \
    (entry)->kind == WIRE_SUBJECT_DEVICE ? "device" : "user", (int)(entry)->subject.size,          \
        (entry)->subject.data

// Loads what the tenant may name: what it brought, or what is for everybody. NOT_FOUND for the
// rest, so that knowing a hash makes nothing one's own.
static enum base_status load_held(struct gw_core *core, const struct gw_exclusive_new *wish,
                                  const struct wire_sha256 *digest, struct gw_store_bytes *out)
{
    uint64_t size;
    BASE_TRY(gw_store_blob_held(core->store, wish->tenant, digest, &size));
    return gw_store_blob_load(core->store, digest, out);
}

static enum base_status check_files(struct gw_core *core, struct gw_exclusive_new *wish,
                                    const struct wire_entry *entry,
                                    const struct wire_exclusive_files *exclusive,
                                    struct base_error *error)
{
    const struct wire_manifest_file *clash = wire_exclusive_clash(exclusive, wish->manifest);
    if (clash != NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              SUBJECT_FORMAT "file %.*s is one of the version's, too",
                              SUBJECT_ARGS(entry), (int)clash->name.size, clash->name.data);
    }
    for (uint32_t i = 0; i < exclusive->file_count; i++) {
        const struct wire_manifest_file *file = &exclusive->files[i];
        uint64_t size = 0;
        enum base_status status =
            gw_store_blob_held(core->store, wish->tenant, &file->digest, &size);
        if (status == BASE_ERR_NOT_FOUND) {
            status = miss(wish, &file->digest);
        } else if (status == BASE_OK && size != file->bytes) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  SUBJECT_FORMAT "file %.*s has %llu bytes, not %llu",
                                  SUBJECT_ARGS(entry), (int)file->name.size, file->name.data,
                                  (unsigned long long)size, (unsigned long long)file->bytes);
        }
        BASE_TRY(status);
    }
    return BASE_OK;
}

// The exclusive manifest of one subject, and its files. LIMIT: no more missing blobs can be named.
static enum base_status check_entry(struct gw_core *core, struct gw_exclusive_new *wish,
                                    const struct wire_entry *entry, struct base_error *error)
{
    struct gw_store_bytes bytes;
    enum base_status status = load_held(core, wish, &entry->exclusive, &bytes);
    if (status == BASE_ERR_NOT_FOUND) {
        return miss(wish, &entry->exclusive);
    }
    BASE_TRY(status);
    struct wire_exclusive_files exclusive;
    if (bytes.size != entry->bytes ||
        wire_exclusive_parse(bytes.data, bytes.size, &exclusive) != BASE_OK) {
        status = base_error_set(error, BASE_ERR_INVALID,
                                SUBJECT_FORMAT "what the list names is no exclusive manifest",
                                SUBJECT_ARGS(entry));
    } else {
        status = check_files(core, wish, entry, &exclusive, error);
    }
    gw_store_bytes_done(&bytes);
    return status;
}

// ---- The index

struct index_maker {
    uint8_t *bytes;
    size_t size;
    uint32_t *offsets; // inside `bytes`, which malloc aligned
    struct wire_sha256 *nodes;
    uint32_t count;
};

static bool index_alloc(struct index_maker *index, uint32_t count)
{
    size_t nodes = wire_tree_nodes(count);
    index->size = INDEX_HEAD + count * sizeof(uint32_t) + nodes * WIRE_SHA256_BYTES;
    index->bytes = calloc(1, index->size);
    if (index->bytes == NULL) {
        return false;
    }
    index->count = count;
    index->offsets = (uint32_t *)(void *)(index->bytes + INDEX_HEAD);
    index->nodes =
        (struct wire_sha256 *)(void *)(index->bytes + INDEX_HEAD + count * sizeof(uint32_t));
    memcpy(index->bytes, INDEX_MAGIC, 4);
    memcpy(index->bytes + 4, &count, sizeof(count)); // the store is of one machine
    return true;
}

// Every entry: in order, its leaf, and what it needs.
static enum base_status check_list(struct gw_core *core, struct gw_exclusive_new *wish,
                                   const struct gw_store_bytes *list, struct index_maker *index,
                                   struct base_error *error)
{
    struct wire_entry_list entries;
    struct wire_entry entry;
    enum base_status status = wire_entry_list_open(list->data, list->size, &entries);
    if (status != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "exclusive: the blob is no list: %s",
                              base_status_text(status));
    }
    if (!index_alloc(index, entries.count)) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < index->count; i++) {
        index->offsets[i] = (uint32_t)(list->size - base_reader_left(&entries.reader));
        status = wire_entry_list_next(&entries, &entry);
        if (status != BASE_OK) {
            return base_error_set(error, BASE_ERR_INVALID, "exclusive: entry %u of the list: %s", i,
                                  base_status_text(status));
        }
        wire_entry_leaf(&hasher, &entry, &index->nodes[i]);
        status = check_entry(core, wish, &entry, error);
        if (status == BASE_ERR_LIMIT) {
            break; // enough to bring for now
        }
        BASE_TRY(status);
    }
    return wish->missing_count == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_CONFLICT, "blobs of exclusive files are missing");
}

struct row_op {
    struct gw_store_op op;
    struct gw_key key;
    uint8_t row[ROW_BYTES];
};

static enum base_status row_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct row_op *row = (struct row_op *)self;
    return gw_store_txn_put(txn, GW_TABLE_EXCLUSIVE, &row->key, row->row, sizeof(row->row));
}

static enum base_status keep(struct gw_core *core, const struct gw_exclusive_new *wish,
                             const struct index_maker *index)
{
    struct wire_sha256 name;
    bool created;
    struct row_op row = {.key = gw_key_u64_sha(wish->tenant, &wish->manifest->exclusive_root)};
    gw_sha256(index->bytes, index->size, &name);
    const struct gw_store_item item = {name, index->bytes, index->size};
    BASE_TRY(gw_store_blob_put_exclusive(core->store, wish->tenant, &item, &created));
    row.row[0] = ROW_VERSION;
    memcpy(row.row + 1, wish->list.bytes, WIRE_SHA256_BYTES);
    memcpy(row.row + 1 + WIRE_SHA256_BYTES, name.bytes, WIRE_SHA256_BYTES);
    row.op.apply = row_apply;
    return gw_audit_submit_wait(core, &row.op);
}

static enum base_status add_list(struct gw_core *core, struct gw_exclusive_new *wish,
                                 const struct gw_store_bytes *list, struct index_maker *index,
                                 struct base_error *error)
{
    BASE_TRY(check_list(core, wish, list, index, error));
    wire_tree_build(&hasher, index->nodes, index->count);
    const struct wire_sha256 *root = &index->nodes[wire_tree_nodes(index->count) - 1];
    if (!wire_sha256_equal(root, &wish->manifest->exclusive_root)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "exclusive: the list is not the one whose root the manifest names");
    }
    wish->subjects = index->count;
    return keep(core, wish, index);
}

enum base_status gw_exclusive_add(struct gw_core *core, struct gw_exclusive_new *wish,
                                  struct base_error *error)
{
    struct gw_store_bytes list;
    struct index_maker index = {0};
    if (wire_sha256_is_zero(&wish->list)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "exclusive: the manifest names a tree of exclusive files; the "
                              "SHA-256 of its list is needed");
    }
    enum base_status status = load_held(core, wish, &wish->list, &list);
    if (status == BASE_ERR_NOT_FOUND) {
        BASE_TRY(miss(wish, &wish->list));
        return base_error_set(error, BASE_ERR_CONFLICT, "the list of exclusive files is missing");
    }
    BASE_TRY(status);
    status = add_list(core, wish, &list, &index, error);
    free(index.bytes);
    gw_store_bytes_done(&list);
    return status;
}

// ---- Looking up

struct tree {
    struct gw_blob *list;
    struct gw_blob *index;
    const uint8_t *list_bytes;
    size_t list_size;
    const uint8_t *offsets;
    const uint8_t *nodes;
    uint32_t count;
};

static void tree_done(struct tree *tree)
{
    gw_blob_release(tree->list);
    gw_blob_release(tree->index);
}

static enum base_status row_get(struct gw_core *core, uint16_t tenant,
                                const struct wire_sha256 *root, struct wire_sha256 *out_list,
                                struct wire_sha256 *out_index)
{
    struct gw_key key = gw_key_u64_sha(tenant, root);
    struct gw_store_read *read;
    struct base_span row;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_EXCLUSIVE, &key, &row);
    if (status == BASE_OK && (row.size != ROW_BYTES || row.data[0] != ROW_VERSION)) {
        status = BASE_ERR_CORRUPT;
    }
    if (status == BASE_OK) {
        memcpy(out_list->bytes, row.data + 1, WIRE_SHA256_BYTES);
        memcpy(out_index->bytes, row.data + 1 + WIRE_SHA256_BYTES, WIRE_SHA256_BYTES);
    }
    gw_store_read_end(read);
    return status;
}

// What the index says of itself must fit its size: the rest is then inside.
static enum base_status tree_check(struct tree *tree)
{
    size_t size = 0;
    const uint8_t *bytes = gw_blob_bytes(tree->index, 0, &size);
    tree->list_bytes = gw_blob_bytes(tree->list, 0, &tree->list_size);
    if (size < INDEX_HEAD || memcmp(bytes, INDEX_MAGIC, 4) != 0) {
        return BASE_ERR_CORRUPT;
    }
    memcpy(&tree->count, bytes + 4, sizeof(tree->count));
    if (tree->count == 0 || tree->count > WIRE_SUBJECTS_MAX ||
        size != INDEX_HEAD + tree->count * sizeof(uint32_t) +
                    wire_tree_nodes(tree->count) * WIRE_SHA256_BYTES) {
        return BASE_ERR_CORRUPT;
    }
    tree->offsets = bytes + INDEX_HEAD;
    tree->nodes = tree->offsets + tree->count * sizeof(uint32_t);
    return BASE_OK;
}

static enum base_status tree_open(struct gw_core *core, uint16_t tenant,
                                  const struct wire_sha256 *root, struct tree *out)
{
    struct wire_sha256 list;
    struct wire_sha256 index;
    BASE_TRY(row_get(core, tenant, root, &list, &index));
    enum base_status status = gw_blob_open(core, &list, &out->list);
    if (status == BASE_OK) {
        status = gw_blob_open(core, &index, &out->index);
    }
    if (status == BASE_OK) {
        status = tree_check(out);
    }
    return status == BASE_ERR_NOT_FOUND ? BASE_ERR_CORRUPT : status;
}

static enum base_status entry_at(const struct tree *tree, uint32_t at, struct wire_entry *out)
{
    uint32_t offset;
    struct base_reader reader;
    memcpy(&offset, tree->offsets + at * sizeof(offset), sizeof(offset));
    if (offset > tree->list_size) {
        return BASE_ERR_CORRUPT;
    }
    base_reader_init(&reader, tree->list_bytes + offset, tree->list_size - offset);
    wire_entry_read(&reader, out);
    return reader.status == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

static enum base_status search(const struct tree *tree, const struct wire_entry *wanted,
                               uint32_t *out_index, struct wire_entry *out)
{
    uint32_t low = 0;
    uint32_t high = tree->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        BASE_TRY(entry_at(tree, middle, out));
        int order = wire_entry_order(out, wanted);
        if (order == 0) {
            *out_index = middle;
            return BASE_OK;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return BASE_ERR_NOT_FOUND;
}

// A device's own leaf goes before its user's.
static enum base_status search_device(struct gw_core *core, const struct tree *tree,
                                      uint16_t tenant, uint64_t device_id, struct wire_proof *out)
{
    char hex[WIRE_DEVICE_HEX + 1];
    char user[WIRE_SUBJECT_MAX + 1];
    wire_device_hex(device_id, hex);
    struct wire_entry wanted = {.kind = WIRE_SUBJECT_DEVICE, .subject = base_str_of(hex)};
    enum base_status status = search(tree, &wanted, &out->index, &out->entry);
    if (status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    BASE_TRY(gw_device_user_get(core, tenant, device_id, user));
    wanted = (struct wire_entry){.kind = WIRE_SUBJECT_USER, .subject = base_str_of(user)};
    return search(tree, &wanted, &out->index, &out->entry);
}

// wire_tree_path over nodes that lie unaligned.
static void fill_path(const struct tree *tree, struct wire_proof *proof)
{
    const struct wire_sha256 *nodes = (const struct wire_sha256 *)tree->nodes; // bytes only
    proof->path_count = wire_tree_path(nodes, tree->count, proof->index, proof->path);
}
_Static_assert(_Alignof(struct wire_sha256) == 1, "may lie anywhere");

enum base_status gw_exclusive_find(struct gw_core *core, uint16_t tenant,
                                   const struct wire_sha256 *root, uint64_t device_id,
                                   struct gw_exclusive_leaf *out)
{
    struct tree tree = {0};
    struct wire_proof *proof = &out->proof;
    enum base_status status = tree_open(core, tenant, root, &tree);
    if (status == BASE_OK) {
        status = search_device(core, &tree, tenant, device_id, proof);
    }
    if (status != BASE_OK) {
        tree_done(&tree);
        return status;
    }
    proof->leaf_count = tree.count;
    fill_path(&tree, proof);
    out->list = gw_blob_ref(tree.list);
    tree_done(&tree);
    return BASE_OK;
}

void gw_exclusive_leaf_done(struct gw_exclusive_leaf *leaf)
{
    gw_blob_release(leaf->list);
    leaf->list = NULL;
}
