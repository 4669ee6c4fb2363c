// Blobs: small ones are rows of the blobs table, large ones files named by their hash, written to
// tmp/, synced and renamed before their row is committed. So a row always has its bytes; a file
// without a row is left over from an interrupted put and harmless. Dropping takes the row first,
// then the file, then who held it, with no put meanwhile. Readers from any thread.
//
//   row := u8 version(2), u8 place (0: bytes follow, 1: file), u8 exclusive (0, 1), u64 size,
//   [bytes]
//
// Who brought exclusive content holds it: a row of its own in the table of exclusive trees, by
// HELD | holder and the digest, with one byte. Holders are 32 bits, as trees' tenants are.
#include "store/store_private.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/os/regular_file.h"
#include "base/os/write_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROW_VERSION    2
#define ROW_HEAD_BYTES 11
#define ROW_EXCLUSIVE  2 // where that byte is
#define PLACE_ROW      0
#define PLACE_FILE     1
#define HELD           (UINT64_C(1) << 32)

struct blob_row {
    uint8_t place;
    bool exclusive;
    uint64_t size;
    const uint8_t *bytes;
};

static enum base_status parse_row(struct base_span row, struct blob_row *out)
{
    struct base_reader reader;
    base_reader_init(&reader, row.data, row.size);
    uint8_t version = base_reader_u8(&reader);
    out->place = base_reader_u8(&reader);
    uint8_t exclusive = base_reader_u8(&reader);
    out->size = base_reader_u64(&reader);
    out->exclusive = exclusive != 0;
    out->bytes = NULL;
    if (version != ROW_VERSION || out->place > PLACE_FILE || exclusive > 1) {
        return BASE_ERR_CORRUPT;
    }
    if (out->place == PLACE_ROW) {
        if (out->size > GW_STORE_BLOB_INLINE) {
            return BASE_ERR_CORRUPT;
        }
        out->bytes = base_reader_bytes(&reader, (size_t)out->size);
    }
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

static bool file_path(const struct gw_store *store, const struct wire_sha256 *digest, char *out,
                      size_t capacity)
{
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(digest, hex);
    return gw_store_path(store, out, capacity, "blobs/%.2s/%s", hex, hex);
}

// What a process before this one left. Never where a link leads: those are somebody else's files.
static enum base_status empty_tmp(const char *path, struct base_error *error)
{
    BASE_TRY(base_folder_look(AT_FDCWD, path, error));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int number = errno;
        if (fd >= 0) {
            close(fd);
        }
        return base_error_set(error, gw_store_status(number), "cannot read %.100s: %s", path,
                              strerror(number));
    }
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    closedir(dir);
    return BASE_OK;
}

enum base_status gw_store_files_open(struct gw_store *store, struct base_error *error)
{
    char path[GW_STORE_PATH_MAX];
    static const char *const folders[] = {"blobs", "tmp"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (!gw_store_path(store, path, sizeof(path), "%s", folders[i]) ||
            (mkdir(path, 0700) != 0 && errno != EEXIST)) {
            return base_error_set(error, gw_store_status(errno), "cannot make %.100s: %s", path,
                                  strerror(errno));
        }
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
            return base_error_set(error, gw_store_status(errno), "%.140s: %s", path,
                                  strerror(errno));
        }
        close(fd);
    }
    return empty_tmp(path, error);
}

static enum base_status write_durably(int fd, const uint8_t *bytes, size_t size)
{
    bool durable = base_write_all(fd, bytes, size) == BASE_OK && fsync(fd) == 0;
    return durable ? BASE_OK : gw_store_status(errno);
}

static enum base_status sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return gw_store_status(errno);
    }
    int rc = fsync(fd);
    int saved = errno;
    close(fd);
    return rc == 0 ? BASE_OK : gw_store_status(saved);
}

// The file under its final name, durable.
static enum base_status write_file(struct gw_store *store, const struct wire_sha256 *digest,
                                   const uint8_t *bytes, size_t size)
{
    base_assert(size > GW_STORE_BLOB_INLINE); // else its row has it
    char temp[GW_STORE_PATH_MAX];
    char path[GW_STORE_PATH_MAX];
    char folder[GW_STORE_PATH_MAX];
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(digest, hex);
    unsigned long number =
        (unsigned long)atomic_fetch_add_explicit(&store->temp_counter, 1, memory_order_relaxed);
    if (!gw_store_path(store, temp, sizeof(temp), "tmp/%s.%lu", hex, number) ||
        !gw_store_path(store, folder, sizeof(folder), "blobs/%.2s", hex) ||
        !file_path(store, digest, path, sizeof(path))) {
        return BASE_ERR_TOO_LARGE;
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return gw_store_status(errno);
    }
    (void)unlink(temp); // of a process before this one
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return gw_store_status(errno);
    }
    enum base_status status = write_durably(fd, bytes, size);
    close(fd);
    if (status == BASE_OK && rename(temp, path) != 0) {
        status = gw_store_status(errno);
    }
    if (status != BASE_OK) {
        (void)unlink(temp);
        return status;
    }
    BASE_TRY(sync_dir(folder));
    char blobs[GW_STORE_PATH_MAX];
    return gw_store_path(store, blobs, sizeof(blobs), "blobs") ? sync_dir(blobs)
                                                               : BASE_ERR_TOO_LARGE;
}

// ---- Who holds what

static enum base_status put_held(struct gw_store_txn *txn, uint32_t holder,
                                 const struct wire_sha256 *digest)
{
    static const uint8_t row = 1;
    struct gw_key key = gw_key_u64_sha(HELD | holder, digest);
    return gw_store_txn_put(txn, GW_TABLE_EXCLUSIVE, &key, &row, sizeof(row));
}

enum base_status gw_store_blob_held(struct gw_store *store, uint32_t holder,
                                    const struct wire_sha256 *digest, uint64_t *out_size)
{
    struct gw_store_read *read;
    struct gw_key key = gw_key_sha(digest);
    struct gw_key held = gw_key_u64_sha(HELD | holder, digest);
    struct base_span value;
    struct blob_row row;
    BASE_TRY(gw_store_read_begin(store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_BLOBS, &key, &value);
    if (status == BASE_OK) {
        status = parse_row(value, &row);
    }
    if (status == BASE_OK && row.exclusive) {
        status = gw_store_read_get(read, GW_TABLE_EXCLUSIVE, &held, &value);
    }
    gw_store_read_end(read);
    if (status == BASE_OK) {
        *out_size = row.size;
    }
    return status;
}

// ---- Putting

struct put_op {
    struct gw_store_op op;
    const struct wire_sha256 *digest;
    const uint8_t *row; // NULL: it is there
    size_t row_bytes;
    const uint32_t *holder; // NULL: for everybody
};

static enum base_status put_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct put_op *put = (struct put_op *)self;
    base_assert(put->row != NULL || put->holder != NULL); // else there is nothing to put
    struct gw_key key = gw_key_sha(put->digest);
    if (put->row != NULL) {
        BASE_TRY(gw_store_txn_put(txn, GW_TABLE_BLOBS, &key, put->row, put->row_bytes));
    }
    return put->holder != NULL ? put_held(txn, *put->holder, put->digest) : BASE_OK;
}

_Static_assert(ROW_HEAD_BYTES == 3 + sizeof(uint64_t), "as row_head writes it");

// What a row says of content, without the bytes.
static void row_head(struct base_writer *writer, size_t size, bool exclusive)
{
    base_writer_u8(writer, ROW_VERSION);
    base_writer_u8(writer, size <= GW_STORE_BLOB_INLINE ? PLACE_ROW : PLACE_FILE);
    base_writer_u8(writer, exclusive ? 1 : 0);
    base_writer_u64(writer, size);
}

static enum base_status put_new(struct gw_store *store, const struct wire_sha256 *digest,
                                const uint8_t *bytes, size_t size, const uint32_t *holder)
{
    bool in_row = size <= GW_STORE_BLOB_INLINE;
    size_t capacity = ROW_HEAD_BYTES + (in_row ? size : 0);
    uint8_t *row = malloc(capacity);
    if (row == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_writer writer;
    base_writer_init(&writer, row, capacity);
    row_head(&writer, size, holder != NULL);
    enum base_status status = BASE_OK;
    if (in_row) {
        base_writer_bytes(&writer, bytes, size);
    } else {
        status = write_file(store, digest, bytes, size);
    }
    base_assert(base_writer_size(&writer) == capacity);
    if (status == BASE_OK) {
        struct put_op put = {
            .digest = digest, .row = row, .row_bytes = base_writer_size(&writer), .holder = holder};
        put.op.apply = put_apply;
        status = gw_store_submit_wait(store, &put.op);
    }
    free(row);
    return status;
}

static enum base_status read_row(struct gw_store *store, const struct wire_sha256 *digest,
                                 struct blob_row *out, struct gw_store_bytes *out_bytes);

enum base_status gw_store_blob_put(struct gw_store *store, const struct wire_sha256 *digest,
                                   const uint8_t *bytes, size_t size, bool *out_created)
{
    struct blob_row known;
    pthread_rwlock_rdlock(&store->content_gate);
    enum base_status status = read_row(store, digest, &known, NULL);
    bool created = status != BASE_OK || known.exclusive;
    status = status != BASE_OK ? put_new(store, digest, bytes, size, NULL)
             : created         ? gw_store_blob_publish(store, digest)
                               : BASE_OK;
    pthread_rwlock_unlock(&store->content_gate);
    if (status == BASE_OK) {
        *out_created = created;
    }
    return status;
}

enum base_status gw_store_blob_put_exclusive(struct gw_store *store, uint32_t holder,
                                             const struct gw_store_item *item, bool *out_created)
{
    struct blob_row known;
    uint64_t known_size = 0;
    struct put_op held = {.digest = &item->digest, .holder = &holder};
    held.op.apply = put_apply;
    pthread_rwlock_rdlock(&store->content_gate);
    bool created = gw_store_blob_held(store, holder, &item->digest, &known_size) != BASE_OK;
    bool stored = !created || read_row(store, &item->digest, &known, NULL) == BASE_OK;
    enum base_status status = !stored
                                  ? put_new(store, &item->digest, item->bytes, item->size, &holder)
                              : created ? gw_store_submit_wait(store, &held.op)
                                        : BASE_OK;
    pthread_rwlock_unlock(&store->content_gate);
    if (status == BASE_OK) {
        *out_created = created;
    }
    return status;
}

struct put_many_op {
    struct gw_store_op op;
    const struct gw_store_item *items;
    uint32_t count;
    uint32_t holder;
    uint8_t *row; // room for the largest
    uint32_t created;
};

static enum base_status put_one_of_many(struct gw_store_txn *txn, struct put_many_op *put,
                                        const struct gw_store_item *item)
{
    base_assert(item->size <= GW_STORE_BLOB_INLINE); // put->row has no room for more
    struct gw_key key = gw_key_sha(&item->digest);
    struct gw_key held = gw_key_u64_sha(HELD | put->holder, &item->digest);
    struct base_span value;
    struct blob_row row;
    struct base_writer writer;
    if (gw_store_txn_get(txn, GW_TABLE_BLOBS, &key, &value) != BASE_OK) {
        base_writer_init(&writer, put->row, ROW_HEAD_BYTES + GW_STORE_BLOB_INLINE);
        row_head(&writer, item->size, true);
        base_writer_bytes(&writer, item->bytes, item->size);
        BASE_TRY(gw_store_txn_put(txn, GW_TABLE_BLOBS, &key, put->row, base_writer_size(&writer)));
    } else if ((parse_row(value, &row) == BASE_OK && !row.exclusive) ||
               gw_store_txn_get(txn, GW_TABLE_EXCLUSIVE, &held, &value) == BASE_OK) {
        return BASE_OK;
    }
    put->created++;
    return put_held(txn, put->holder, &item->digest);
}

static enum base_status put_many_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct put_many_op *put = (struct put_many_op *)self;
    put->created = 0;
    for (uint32_t i = 0; i < put->count; i++) {
        if (put->items[i].size <= GW_STORE_BLOB_INLINE) {
            BASE_TRY(put_one_of_many(txn, put, &put->items[i]));
        }
    }
    return BASE_OK;
}

enum base_status gw_store_blobs_put_exclusive(struct gw_store *store, uint32_t holder,
                                              const struct gw_store_item *items, uint32_t count,
                                              uint32_t *out_created)
{
    uint32_t large = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool created = false;
        if (items[i].size > GW_STORE_BLOB_INLINE) {
            BASE_TRY(gw_store_blob_put_exclusive(store, holder, &items[i], &created));
        }
        large += created ? 1 : 0;
    }
    struct put_many_op put = {.items = items,
                              .count = count,
                              .holder = holder,
                              .row = malloc(ROW_HEAD_BYTES + GW_STORE_BLOB_INLINE)};
    if (put.row == NULL) {
        return BASE_ERR_NOMEM;
    }
    put.op.apply = put_many_apply;
    enum base_status status = gw_store_submit_wait(store, &put.op);
    free(put.row);
    if (status == BASE_OK) {
        base_assert(large + put.created <= count);
        *out_created = large + put.created;
    }
    return status;
}

struct publish_op {
    struct gw_store_op op;
    const struct wire_sha256 *digest;
};

static enum base_status publish_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct publish_op *publish = (struct publish_op *)self;
    struct gw_key key = gw_key_sha(publish->digest);
    struct base_span value;
    struct blob_row row;
    BASE_TRY(gw_store_txn_get(txn, GW_TABLE_BLOBS, &key, &value));
    BASE_TRY(parse_row(value, &row));
    if (!row.exclusive) {
        return BASE_OK;
    }
    uint8_t *copy = malloc(value.size);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(value.size >= ROW_HEAD_BYTES); // it was parsed
    memcpy(copy, value.data, value.size);
    copy[ROW_EXCLUSIVE] = 0;
    enum base_status status = gw_store_txn_put(txn, GW_TABLE_BLOBS, &key, copy, value.size);
    free(copy);
    return status;
}

enum base_status gw_store_blob_publish(struct gw_store *store, const struct wire_sha256 *digest)
{
    struct publish_op publish = {.digest = digest};
    publish.op.apply = publish_apply;
    return gw_store_submit_wait(store, &publish.op);
}

// ---- Dropping

// The first row of who holds what, from `from` on.
struct held_seek {
    uint64_t owner; // HELD | holder
    struct wire_sha256 digest;
    bool found;
};

static bool read_held(struct base_span key, struct held_seek *out)
{
    out->found = gw_key_read_u64(key.data, key.size, 0, &out->owner) &&
                 out->owner >> 32 == HELD >> 32 && key.size > sizeof(out->digest.bytes);
    if (out->found) {
        memcpy(out->digest.bytes, key.data + key.size - sizeof(out->digest.bytes),
               sizeof(out->digest.bytes));
    }
    return out->found;
}

static bool first_held(void *ctx, struct base_span key, struct base_span value)
{
    (void)value;
    (void)read_held(key, ctx);
    return false;
}

// Goes from holder to holder, since there is no list by content.
static enum base_status other_holds(struct gw_store_txn *txn, uint32_t holder,
                                    const struct wire_sha256 *digest, bool *out)
{
    struct held_seek seek = {.owner = HELD, .found = true};
    uint64_t owner = HELD;
    *out = false;
    while (!*out && owner >> 32 == HELD >> 32) {
        struct gw_key from = gw_key_u64_sha(owner, digest);
        seek.found = false;
        BASE_TRY(gw_store_txn_scan(txn, GW_TABLE_EXCLUSIVE, &from, first_held, &seek));
        if (!seek.found) {
            return BASE_OK;
        }
        base_check(seek.owner >= owner);
        *out = seek.owner != (HELD | holder) &&
               memcmp(seek.digest.bytes, digest->bytes, sizeof(digest->bytes)) == 0;
        owner = seek.owner > owner ? seek.owner : owner + 1;
    }
    return BASE_OK;
}

struct drop_op {
    struct gw_store_op op;
    const struct wire_sha256 *digest;
    uint32_t holder;
    bool last; // nobody else has it: its row is gone, the file is to go
};

static enum base_status drop_row_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct drop_op *drop = (struct drop_op *)self;
    struct gw_key key = gw_key_sha(drop->digest);
    struct gw_key held = gw_key_u64_sha(HELD | drop->holder, drop->digest);
    struct base_span value;
    struct blob_row row;
    bool other = false;
    drop->last = false;
    BASE_TRY(gw_store_txn_get(txn, GW_TABLE_EXCLUSIVE, &held, &value));
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_BLOBS, &key, &value);
    if (status == BASE_ERR_NOT_FOUND && !gw_store_txn_left_out(txn, GW_TABLE_BLOBS, &key)) {
        drop->last = true; // a drop that was interrupted
        return BASE_OK;
    }
    BASE_TRY(status == BASE_ERR_NOT_FOUND ? BASE_ERR_CORRUPT : status);
    BASE_TRY(parse_row(value, &row));
    BASE_TRY(other_holds(txn, drop->holder, drop->digest, &other));
    drop->last = row.exclusive && !other;
    return drop->last ? gw_store_txn_delete(txn, GW_TABLE_BLOBS, &key) : BASE_OK;
}

static enum base_status drop_held_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct drop_op *drop = (struct drop_op *)self;
    struct gw_key held = gw_key_u64_sha(HELD | drop->holder, drop->digest);
    return gw_store_txn_delete(txn, GW_TABLE_EXCLUSIVE, &held);
}

static enum base_status drop_file(struct gw_store *store, const struct wire_sha256 *digest)
{
    char path[GW_STORE_PATH_MAX];
    if (!file_path(store, digest, path, sizeof(path))) {
        return BASE_ERR_TOO_LARGE;
    }
    return unlink(path) == 0 || errno == ENOENT ? BASE_OK : gw_store_status(errno);
}

enum base_status gw_store_blob_drop(struct gw_store *store, uint32_t holder,
                                    const struct wire_sha256 *digest)
{
    struct drop_op row = {.digest = digest, .holder = holder};
    struct drop_op held = {.digest = digest, .holder = holder};
    row.op.apply = drop_row_apply;
    held.op.apply = drop_held_apply;
    pthread_rwlock_wrlock(&store->content_gate);
    enum base_status status = gw_store_submit_wait(store, &row.op);
    if (status == BASE_OK && row.last) {
        status = drop_file(store, digest);
    }
    if (status == BASE_OK) {
        status = gw_store_submit_wait(store, &held.op);
    }
    pthread_rwlock_unlock(&store->content_gate);
    return status;
}

struct held_walk {
    uint64_t owner;
    bool (*visit)(void *ctx, const struct wire_sha256 *digest);
    void *ctx;
};

static bool visit_held(void *ctx, struct base_span key, struct base_span value)
{
    const struct held_walk *walk = ctx;
    struct held_seek seek;
    (void)value;
    return read_held(key, &seek) && seek.owner == walk->owner &&
           walk->visit(walk->ctx, &seek.digest);
}

enum base_status gw_store_blobs_held(struct gw_store *store, uint32_t holder,
                                     bool (*visit)(void *ctx, const struct wire_sha256 *digest),
                                     void *ctx)
{
    static const struct wire_sha256 none;
    struct gw_key from = gw_key_u64_sha(HELD | holder, &none);
    struct held_walk walk = {HELD | holder, visit, ctx};
    struct gw_store_read *read = NULL;
    BASE_TRY(gw_store_read_begin(store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_EXCLUSIVE, &from, visit_held, &walk);
    gw_store_read_end(read);
    return status;
}

bool gw_store_blob_exclusive(struct gw_store *store, const struct wire_sha256 *digest)
{
    struct blob_row row;
    return read_row(store, digest, &row, NULL) == BASE_OK && row.exclusive;
}

static enum base_status map_file(struct gw_store *store, const struct wire_sha256 *digest,
                                 uint64_t size, struct gw_store_bytes *out)
{
    _Static_assert(sizeof(size_t) >= sizeof(size), "a file is mapped whole");
    char path[GW_STORE_PATH_MAX];
    if (!file_path(store, digest, path, sizeof(path))) {
        return BASE_ERR_TOO_LARGE;
    }
    int fd = -1;
    enum base_status status = base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, NULL);
    if (status != BASE_OK) {
        bool lost = status == BASE_ERR_NOT_FOUND || status == BASE_ERR_INVALID;
        return lost ? BASE_ERR_CORRUPT : status;
    }
    struct stat stat;
    if (fstat(fd, &stat) != 0 || stat.st_size < 0 || (uint64_t)stat.st_size != size) {
        status = BASE_ERR_CORRUPT;
    } else {
        void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            status = gw_store_status(errno);
        } else {
            *out = (struct gw_store_bytes){.data = map, .size = (size_t)size, .map = map};
        }
    }
    close(fd);
    return status;
}

static enum base_status read_row(struct gw_store *store, const struct wire_sha256 *digest,
                                 struct blob_row *out, struct gw_store_bytes *out_bytes)
{
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(store, &read));
    struct gw_key key = gw_key_sha(digest);
    struct base_span row;
    enum base_status status = gw_store_read_get(read, GW_TABLE_BLOBS, &key, &row);
    if (status == BASE_OK) {
        status = parse_row(row, out);
    }
    if (status == BASE_OK && out_bytes != NULL && out->place == PLACE_ROW) {
        base_assert(out->size <= GW_STORE_BLOB_INLINE); // as parse_row promises
        uint8_t *copy = malloc(out->size > 0 ? (size_t)out->size : 1);
        if (copy == NULL) {
            status = BASE_ERR_NOMEM;
        } else {
            memcpy(copy, out->bytes, (size_t)out->size);
            *out_bytes =
                (struct gw_store_bytes){.data = copy, .size = (size_t)out->size, .heap = copy};
        }
    }
    out->bytes = NULL;
    gw_store_read_end(read);
    return status;
}

enum base_status gw_store_blob_load(struct gw_store *store, const struct wire_sha256 *digest,
                                    struct gw_store_bytes *out)
{
    struct blob_row row;
    struct gw_store_bytes bytes = {0};
    BASE_TRY(read_row(store, digest, &row, &bytes));
    if (row.place == PLACE_FILE) {
        BASE_TRY(map_file(store, digest, row.size, &bytes));
    }
    bytes.exclusive = row.exclusive;
    *out = bytes;
    return BASE_OK;
}

enum base_status gw_store_blob_stat(struct gw_store *store, const struct wire_sha256 *digest,
                                    uint64_t *out_size)
{
    struct blob_row row;
    BASE_TRY(read_row(store, digest, &row, NULL));
    *out_size = row.size;
    return BASE_OK;
}

void gw_store_bytes_done(struct gw_store_bytes *bytes)
{
    base_assert(bytes->map == NULL || bytes->heap == NULL);
    if (bytes->map != NULL) {
        munmap(bytes->map, bytes->size);
    }
    free(bytes->heap);
    *bytes = (struct gw_store_bytes){0};
}
