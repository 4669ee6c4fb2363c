// Writing and reading checkpoints of the marks, and reading the log back behind one. keeper.c
// writes on its thread, while sessions go on; gw_tunnel.c reads on the main thread at start, before
// there are any. A checkpoint is a short cut and no truth: if the newest is damaged the one before
// is read, if both are the whole log is. Reading a batch twice changes nothing, so marks that were
// ahead of the position do no harm.
#include "tunnel/mark/checkpoint.h"

#include "tunnel/mark/mark_lane.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = {'W', 'A', 'L', 'L', 'E', 'C', 'K', 'P'};

#define HEAD_BYTES  32u
#define BLOCK_HEAD  12u
#define ENTRY_BYTES 33u
// Above the tenant's 24 bits:
#define UNPROVEN_SHIFT 24
#define PERIOD_SHIFT   25
#define PATH_BYTES     4096

static bool make_path(char *out, const char *dir, const char *name)
{
    int size = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return size > 0 && size < PATH_BYTES;
}

// ---- Writing

struct block {
    uint8_t *bytes;
    size_t capacity;
    uint32_t count;
    struct base_writer writer;
};

static void add_mark(void *ctx, uint64_t device, uint8_t class_id, const struct gw_mark *mark)
{
    struct block *block = ctx;
    base_writer_u64(&block->writer, device);
    base_writer_u64(&block->writer, mark->high_water);
    base_writer_u64(&block->writer, mark->hash);
    base_writer_u32(&block->writer, mark->epoch);
    base_writer_u32(&block->writer, mark->tenant | (uint32_t)mark->unproven << UNPROVEN_SHIFT |
                                        (uint32_t)mark->period << PERIOD_SHIFT);
    base_writer_u8(&block->writer, class_id);
    block->count++;
}

static bool reserve(struct block *block, size_t marks)
{
    size_t size = BLOCK_HEAD + marks * ENTRY_BYTES;
    if (size > block->capacity) {
        uint8_t *bytes = realloc(block->bytes, size);
        if (bytes == NULL) {
            return false;
        }
        block->bytes = bytes;
        block->capacity = size;
    }
    return true;
}

// Copies a shard's marks under its mutex. NOMEM.
static enum base_status collect(struct gw_marks *marks, uint32_t index, struct block *block)
{
    for (;;) {
        struct gw_mark_shard *shard = gw_marks_lock_index(marks, index);
        size_t wanted = (size_t)shard->count + shard->aside_count;
        bool fits = BLOCK_HEAD + wanted * ENTRY_BYTES <= block->capacity;
        if (fits) {
            block->count = 0;
            base_writer_init(&block->writer, block->bytes + BLOCK_HEAD,
                             block->capacity - BLOCK_HEAD);
            gw_mark_walk(shard, add_mark, block);
        }
        gw_marks_unlock(shard);
        if (fits) {
            return BASE_OK;
        }
        if (!reserve(block, wanted + wanted / 4 + 1)) { // it may grow meanwhile
            return BASE_ERR_NOMEM;
        }
    }
}

static enum base_status write_block(FILE *file, struct block *block)
{
    size_t body = (size_t)block->count * ENTRY_BYTES;
    struct base_writer head;
    base_writer_init(&head, block->bytes, BLOCK_HEAD);
    base_writer_u32(&head, block->count);
    base_writer_u64(&head, base_hash64_seed(block->bytes + BLOCK_HEAD, body, block->count));
    size_t size = BLOCK_HEAD + body;
    return fwrite(block->bytes, 1, size, file) == size ? BASE_OK : BASE_ERR_IO;
}

static enum base_status write_all(FILE *file, struct gw_marks *marks, uint64_t position)
{
    uint8_t head[HEAD_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, head, sizeof(head));
    base_writer_bytes(&writer, magic, sizeof(magic));
    base_writer_u32(&writer, GW_CHECKPOINT_VERSION);
    base_writer_u32(&writer, GW_MARK_SHARDS);
    base_writer_u64(&writer, position);
    base_writer_u64(&writer, base_hash64(head, HEAD_BYTES - 8));
    base_assert(base_writer_size(&writer) == HEAD_BYTES);
    if (fwrite(head, 1, sizeof(head), file) != sizeof(head)) {
        return BASE_ERR_IO;
    }
    struct block block = {0};
    enum base_status status = reserve(&block, 64) ? BASE_OK : BASE_ERR_NOMEM;
    for (uint32_t i = 0; i < GW_MARK_SHARDS && status == BASE_OK; i++) {
        status = collect(marks, i, &block);
        if (status == BASE_OK) {
            status = write_block(file, &block);
        }
    }
    free(block.bytes);
    if (status == BASE_OK && (fflush(file) != 0 || fsync(fileno(file)) != 0)) {
        status = BASE_ERR_IO;
    }
    return status;
}

static void sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

// A new file in the place of whatever a start that was cut off left there.
static FILE *make_file(const char *path)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, BASE_FILE_MODE);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL && fd >= 0) {
        close(fd);
    }
    return file;
}

enum base_status gw_checkpoint_write(const char *dir, struct gw_marks *marks, uint64_t position)
{
    base_assert(dir[0] != 0); // or it would be written to the root
    char fresh[PATH_BYTES];
    char path[PATH_BYTES];
    char old[PATH_BYTES];
    if (!make_path(fresh, dir, "checkpoint.new") || !make_path(path, dir, "checkpoint") ||
        !make_path(old, dir, "checkpoint.old")) {
        return BASE_ERR_TOO_LARGE;
    }
    FILE *file = make_file(fresh);
    if (file == NULL) {
        return BASE_ERR_IO;
    }
    enum base_status status = write_all(file, marks, position);
    if (fclose(file) != 0 && status == BASE_OK) {
        status = BASE_ERR_IO;
    }
    if (status != BASE_OK) {
        (void)unlink(fresh);
        return status;
    }
    (void)rename(path, old); // the first time there is none
    if (rename(fresh, path) != 0) {
        return BASE_ERR_IO;
    }
    sync_dir(dir);
    return BASE_OK;
}

// ---- Reading

static enum base_status load_entry(struct gw_marks *marks, struct base_reader *reader)
{
    _Static_assert(GW_MARK_TENANT_MAX >> UNPROVEN_SHIFT == 0 && UNPROVEN_SHIFT < PERIOD_SHIFT,
                   "tenant, flag and period lie side by side");
    uint64_t device = base_reader_u64(reader);
    struct gw_mark from = {.high_water = base_reader_u64(reader)};
    from.hash = base_reader_u64(reader);
    from.epoch = base_reader_u32(reader);
    uint32_t bits = base_reader_u32(reader);
    from.tenant = bits & GW_MARK_TENANT_MAX;
    uint8_t class_id = base_reader_u8(reader);
    if (reader->status != BASE_OK || class_id >= WIRE_TUNNEL_CLASSES) {
        return BASE_ERR_CORRUPT;
    }
    struct gw_mark *mark;
    struct gw_mark_shard *shard = gw_marks_lock(marks, device);
    enum base_status status = gw_mark_make(shard, device, class_id, from.epoch, &mark);
    if (status == BASE_OK && mark->high_water <= from.high_water) {
        mark->high_water = from.high_water;
        mark->hash = from.hash;
        mark->epoch = from.epoch;
        mark->tenant = from.tenant;
        gw_mark_restore(shard, mark, (bits >> UNPROVEN_SHIFT & 1u) != 0, bits >> PERIOD_SHIFT);
    }
    gw_marks_unlock(shard);
    return status;
}

static enum base_status load_block(FILE *file, struct gw_marks *marks)
{
    uint8_t head[BLOCK_HEAD];
    if (fread(head, 1, sizeof(head), file) != sizeof(head)) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader reader;
    base_reader_init(&reader, head, sizeof(head));
    uint32_t count = base_reader_u32(&reader);
    uint64_t check = base_reader_u64(&reader);
    if (count > GW_CHECKPOINT_BLOCK_MAX) {
        return BASE_ERR_CORRUPT;
    }
    size_t size = (size_t)count * ENTRY_BYTES;
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = BASE_OK;
    if (fread(bytes, 1, size, file) != size || base_hash64_seed(bytes, size, count) != check) {
        status = BASE_ERR_CORRUPT;
    }
    base_reader_init(&reader, bytes, size);
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        status = load_entry(marks, &reader);
    }
    base_assert(status != BASE_OK || base_reader_left(&reader) == 0);
    free(bytes);
    return status;
}

static enum base_status load_file(FILE *file, struct gw_marks *marks, uint64_t *out_position)
{
    uint8_t head[HEAD_BYTES];
    struct base_reader reader;
    if (fread(head, 1, sizeof(head), file) != sizeof(head)) {
        return BASE_ERR_CORRUPT;
    }
    base_reader_init(&reader, head, sizeof(head));
    const uint8_t *own = base_reader_bytes(&reader, sizeof(magic));
    uint32_t version = base_reader_u32(&reader);
    uint32_t blocks = base_reader_u32(&reader);
    uint64_t position = base_reader_u64(&reader);
    if (memcmp(own, magic, sizeof(magic)) != 0 ||
        base_reader_u64(&reader) != base_hash64(head, HEAD_BYTES - 8)) {
        return BASE_ERR_CORRUPT;
    }
    base_assert(base_reader_left(&reader) == 0);
    if (version != GW_CHECKPOINT_VERSION || blocks != GW_MARK_SHARDS) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < blocks; i++) {
        BASE_TRY(load_block(file, marks));
    }
    *out_position = position;
    return BASE_OK;
}

// NOT_FOUND: there is none. `error` says of every other status what is wrong with which file.
static enum base_status load(const char *dir, const char *name, struct gw_marks *marks,
                             uint64_t *out_position, struct base_error *error)
{
    char path[PATH_BYTES];
    int fd = -1;
    if (!make_path(path, dir, name)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", dir);
    }
    BASE_TRY(base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, error));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return base_error_set(error, BASE_ERR_NOMEM, "%s: no memory to read it", path);
    }
    enum base_status status = load_file(file, marks, out_position);
    (void)fclose(file);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s: %s", path, base_status_text(status));
}

struct replay {
    uint64_t batches;
    uint64_t gaps;
    uint64_t damaged;
};

static enum base_status replay_batch(struct gw_marks *marks, const struct gw_sink_batch *from,
                                     struct replay *replay)
{
    const struct wire_tunnel_batch *batch = &from->batch;
    const struct wire_tunnel_loss_frame *loss = &from->loss;
    bool is_loss = from->is_loss;
    const struct gw_batch_id id =
        is_loss ? (struct gw_batch_id){loss->number, loss->numbers, loss->prev_hash, loss->hash}
                : (struct gw_batch_id){batch->number, 1, batch->prev_hash, batch->hash};
    const struct gw_mark_key key = {
        .device = from->device,
        .class_id = is_loss ? loss->class_id : batch->class_id,
        .epoch = is_loss ? loss->epoch : batch->epoch,
    };
    uint64_t gap;
    struct gw_mark_shard *shard = gw_marks_lock(marks, from->device);
    enum base_status status = gw_mark_replay(shard, &key, from->tenant, &id, &gap);
    gw_marks_unlock(shard);
    replay->batches++;
    replay->gaps += gap;
    return status;
}

static enum base_status replay_log(struct gw_segment_log *log, struct gw_marks *marks,
                                   uint64_t from, struct replay *replay)
{
    struct gw_segment_reader *reader;
    BASE_TRY(gw_segment_reader_open(log, &reader));
    enum base_status status = BASE_OK;
    struct gw_segment_stats stats;
    gw_segment_log_stats(log, &stats);
    if (from > stats.first) {
        status = gw_segment_reader_seek(reader, from);
        if (status == BASE_ERR_NOT_FOUND) {
            status = from <= stats.end ? gw_segment_reader_seek(reader, stats.first) : status;
        }
    }
    while (status == BASE_OK) {
        struct gw_sink_batch batch;
        uint64_t position;
        uint64_t next;
        status = gw_segment_reader_next(reader, &batch, &position, &next);
        if (status == BASE_ERR_CORRUPT) {
            replay->damaged++;
            status = gw_segment_reader_seek(reader, next);
        } else if (status == BASE_OK) {
            base_assert(next > position); // or it would not end
            status = replay_batch(marks, &batch, replay);
        }
    }
    gw_segment_reader_close(reader);
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

enum base_status gw_checkpoint_recover(const struct gw_recovery *recovery, uint64_t *out_position,
                                       struct base_error *error)
{
    const struct base_log *log = recovery->log_port;
    uint64_t position = 0;
    struct base_error why = {0};
    enum base_status status = load(recovery->dir, "checkpoint", recovery->marks, &position, &why);
    if (status != BASE_OK) {
        if (status != BASE_ERR_NOT_FOUND) {
            base_log_warn(log, "tunnel", "the checkpoint is not read: %s; the one before is",
                          why.text);
        }
        status = load(recovery->dir, "checkpoint.old", recovery->marks, &position, &why);
        if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
            base_log_warn(log, "tunnel", "the one before is not read: %s; the log is", why.text);
        }
    }
    if (status == BASE_ERR_NOMEM || status == BASE_ERR_LIMIT) {
        return base_error_set(error, status, "%s: marks: %s", recovery->dir,
                              base_status_text(status));
    }
    base_assert(status == BASE_OK || position == 0); // without one all of the log is read
    struct replay replay = {0};
    status = replay_log(recovery->log, recovery->marks, position, &replay);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: reading the log back: %s", recovery->dir,
                              base_status_text(status));
    }
    base_log_info(log, "tunnel",
                  "%" PRIu64 " batches read back behind position %" PRIu64 ", %" PRIu64
                  " damaged places, %" PRIu64 " batches not in the log any more",
                  replay.batches, position, replay.damaged, replay.gaps);
    *out_position = position;
    return BASE_OK;
}
