// The segment log: life, queue, the writer thread, retention. submit and stats on any thread; the
// functions below "Writer" on the writer's. gw_tunnel.c opens and closes it and hands sessions its
// port; keeper.c lets old segments go. A batch's `done` is called by the writer after the sync.
// When a group cannot be written the log shuts: it fails what it has, cuts what it wrote in part
// and opens again when that works, so no torn record stands in the middle.
#include "tunnel/segment/segment_log.h"

#include "tunnel/segment/segment_private.h"

#include "base/check.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

// ---- Life

static enum base_status open_dir(struct gw_segment_log *log, const char *dir,
                                 struct base_error *error)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return base_error_set(error, gw_segment_errno(errno), "%s: %s", dir, strerror(errno));
    }
    log->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (log->dir_fd < 0) {
        return base_error_set(error, gw_segment_errno(errno), "%s: %s", dir, strerror(errno));
    }
    struct base_error why = {0};
    enum base_status status = base_regular_openat(
        log->dir_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, &log->lock_fd, &why);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.140s/%s", dir, why.text);
    }
    if (flock(log->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return base_error_set(error, BASE_ERR_BUSY, "%s: another process has it", dir);
    }
    return BASE_OK;
}

static void take_options(struct gw_segment_log *log, const struct gw_segment_options *options)
{
    log->clock = options->clock;
    log->log = options->log;
    log->segment_bytes = options->segment_bytes != 0 ? options->segment_bytes : GW_SEGMENT_BYTES;
    if (log->segment_bytes < GW_SEGMENT_BYTES_MIN) {
        log->segment_bytes = GW_SEGMENT_BYTES_MIN;
    }
    log->queue_bytes_max =
        options->queue_bytes != 0 ? options->queue_bytes : GW_SEGMENT_QUEUE_BYTES;
    log->commit_delay_us =
        options->commit_delay_us != 0 ? options->commit_delay_us : GW_SEGMENT_DELAY_US;
    if (log->commit_delay_us > GW_SEGMENT_DELAY_MAX) {
        log->commit_delay_us = GW_SEGMENT_DELAY_MAX;
    }
}

enum base_status gw_segment_log_open(const struct gw_segment_options *options,
                                     struct gw_segment_log **out, struct base_error *error)
{
    struct gw_segment_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the segment log");
    }
    log->dir_fd = log->lock_fd = log->fd = -1;
    take_options(log, options);
    pthread_mutex_init(&log->lock, NULL);
    gw_bell_init(&log->bell);
    enum base_status status = open_dir(log, options->dir, error);
    if (status == BASE_OK) {
        struct base_error why = {0};
        status = gw_segment_recover(log, &why);
        if (status != BASE_OK) {
            (void)base_error_set(error, status, "%s: %s", options->dir,
                                 why.text[0] != '\0' ? why.text : base_status_text(status));
        }
    }
    if (status == BASE_OK) {
        base_assert(log->count > 0 && log->fd >= 0); // recovery makes one when there is none
        const struct gw_segment *last = &log->segments[log->count - 1];
        log->stats.end = log->stats.landed = last->base + last->size;
        if (pthread_create(&log->writer, NULL, gw_segment_writer_main, log) != 0) {
            status = base_error_set(error, BASE_ERR_NOMEM, "no thread for the segment log");
        } else {
            log->writer_started = true;
        }
    }
    if (status != BASE_OK) {
        gw_segment_log_close(log);
        return status;
    }
    *out = log;
    return BASE_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void gw_segment_log_close(struct gw_segment_log *log)
{
    if (log == NULL) {
        return;
    }
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    pthread_mutex_unlock(&log->lock);
    gw_bell_ring(&log->bell);
    if (log->writer_started) {
        pthread_join(log->writer, NULL);
    }
    base_assert(log->first == NULL && log->queue_bytes == 0); // all that came is answered
    if (log->fd >= 0 && log->count > 0) { // without the zeros ahead, if it can be
        (void)ftruncate(log->fd, (off_t)log->segments[log->count - 1].size);
    }
    close_fd(log->fd);
    close_fd(log->lock_fd);
    close_fd(log->dir_fd);
    free(log->segments);
    gw_bell_done(&log->bell);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

// ---- Queue

static uint32_t size_of(const struct gw_sink_batch *batch)
{
    return GW_SEGMENT_RECORD_HEAD + (batch->is_loss ? 0 : batch->batch.sent_bytes);
}

static enum base_status submit(void *ctx, struct gw_sink_batch *batch)
{
    struct gw_segment_log *log = ctx;
    uint32_t size = size_of(batch);
    enum base_status status = BASE_OK;
    bool ring = false;
    pthread_mutex_lock(&log->lock);
    base_assert(log->queue_bytes <= log->queue_bytes_max);
    if (log->stopping) {
        status = BASE_ERR_CLOSED;
    } else if (log->shut != BASE_OK && log->clock.mono_us(log->clock.ctx) < log->shut_until_us) {
        status = log->shut;
    } else if (log->queue_bytes + size > log->queue_bytes_max) {
        status = BASE_ERR_BUSY;
    }
    if (status == BASE_OK) {
        batch->next = NULL;
        ring = log->first == NULL;
        if (ring) {
            log->first = batch;
        } else {
            log->last->next = batch;
        }
        log->last = batch;
        log->queue_bytes += size;
    }
    pthread_mutex_unlock(&log->lock);
    if (ring) {
        gw_bell_ring(&log->bell);
    }
    return status;
}

struct gw_sink_port gw_segment_log_port(struct gw_segment_log *log)
{
    return (struct gw_sink_port){.ctx = log, .submit = submit};
}

void gw_segment_log_stats(struct gw_segment_log *log, struct gw_segment_stats *out)
{
    pthread_mutex_lock(&log->lock);
    *out = log->stats;
    out->first = log->segments[0].base;
    out->segments = log->count;
    out->queue_bytes = log->queue_bytes;
    out->shut = log->shut != BASE_OK;
    pthread_mutex_unlock(&log->lock);
}

uint32_t gw_segment_log_retain(struct gw_segment_log *log, uint64_t retain_bytes, uint64_t below)
{
    uint32_t removed = 0;
    for (;;) {
        pthread_mutex_lock(&log->lock);
        base_assert(log->count > 0);
        const struct gw_segment oldest = log->segments[0];
        bool goes = log->count > 1 && oldest.base + oldest.size <= below &&
                    log->stats.end - oldest.base > retain_bytes;
        if (goes) {
            log->count--;
            memmove(&log->segments[0], &log->segments[1], log->count * sizeof(log->segments[0]));
            base_assert(log->segments[0].base > oldest.base);
        }
        pthread_mutex_unlock(&log->lock);
        if (!goes) {
            break;
        }
        char name[GW_SEGMENT_NAME_MAX];
        gw_segment_name(oldest.base, name);
        (void)unlinkat(log->dir_fd, name, 0);
        removed++;
    }
    return removed;
}

// ---- Writer

// A group on its way: batches in order, and their bytes for writev.
struct group {
    struct gw_sink_batch *batches[GW_SEGMENT_GROUP_MAX];
    uint8_t heads[GW_SEGMENT_GROUP_MAX][GW_SEGMENT_RECORD_HEAD];
    struct iovec parts[2 * GW_SEGMENT_GROUP_MAX];
    uint32_t count;
    uint32_t part_count;
    uint64_t bytes;
};

static void take_group(struct gw_segment_log *log, struct group *group)
{
    group->count = 0;
    group->bytes = 0;
    pthread_mutex_lock(&log->lock);
    while (log->first != NULL && group->count < GW_SEGMENT_GROUP_MAX &&
           group->bytes < GW_SEGMENT_GROUP_BYTES) {
        struct gw_sink_batch *batch = log->first;
        log->first = batch->next;
        group->batches[group->count++] = batch;
        group->bytes += size_of(batch);
        log->queue_bytes -= size_of(batch);
    }
    pthread_mutex_unlock(&log->lock);
}

static enum base_status write_parts(int fd, struct iovec *parts, uint32_t count, uint64_t at)
{
    while (count > 0) {
        int now = count < IOV_MAX ? (int)count : IOV_MAX;
        ssize_t wrote = pwritev(fd, parts, now, (off_t)at);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return wrote < 0 ? gw_segment_errno(errno) : BASE_ERR_FULL;
        }
        at += (uint64_t)wrote;
        size_t left = (size_t)wrote;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        base_assert(count > 0 || left == 0); // no more is written than was asked for
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return BASE_OK;
}

static struct gw_segment newest(struct gw_segment_log *log)
{
    pthread_mutex_lock(&log->lock);
    struct gw_segment segment = log->segments[log->count - 1];
    pthread_mutex_unlock(&log->lock);
    return segment;
}

// Makes the newest segment's file end at `size`.
static enum base_status cut_behind(struct gw_segment_log *log, uint64_t size)
{
    if (ftruncate(log->fd, (off_t)size) != 0) {
        return gw_segment_errno(errno);
    }
    log->laid = size;
    log->has_tail = false;
    return BASE_OK;
}

// The newest segment with room for `bytes`: this one, or a new one behind it.
static enum base_status make_room(struct gw_segment_log *log, uint64_t bytes, uint64_t *out_size)
{
    const struct gw_segment last = newest(log);
    if (log->has_tail) {
        BASE_TRY(cut_behind(log, last.size));
        if (fdatasync(log->fd) != 0) {
            return gw_segment_errno(errno);
        }
    }
    base_assert(last.size >= GW_SEGMENT_HEAD);
    if (last.size + bytes <= log->segment_bytes || last.size == GW_SEGMENT_HEAD) {
        *out_size = last.size;
        return BASE_OK;
    }
    int fd;
    BASE_TRY(gw_segment_make(log, last.base + last.size, &fd));
    (void)ftruncate(log->fd, (off_t)last.size); // what lies ahead is not looked at any more
    close(log->fd);
    log->fd = fd;
    log->laid = GW_SEGMENT_HEAD;
    *out_size = GW_SEGMENT_HEAD;
    pthread_mutex_lock(&log->lock);
    log->stats.end = last.base + last.size + GW_SEGMENT_HEAD;
    pthread_mutex_unlock(&log->lock);
    return BASE_OK;
}

// The group was written at `size` of the newest segment: it is made durable, and counted.
static enum base_status sync_group(struct gw_segment_log *log, const struct group *group,
                                   uint64_t size)
{
    base_assert(log->has_tail && size >= GW_SEGMENT_HEAD);
    uint64_t before_us = log->clock.mono_us(log->clock.ctx);
    if (fdatasync(log->fd) != 0) {
        return gw_segment_errno(errno);
    }
    uint64_t took_us = log->clock.mono_us(log->clock.ctx) - before_us;
    log->has_tail = false;
    log->laid = size + group->bytes > log->laid ? size + group->bytes : log->laid;
    pthread_mutex_lock(&log->lock);
    struct gw_segment *last = &log->segments[log->count - 1];
    struct gw_segment_stats *stats = &log->stats;
    last->size = size + group->bytes;
    stats->end = last->base + last->size;
    stats->batches += group->count;
    stats->bytes += group->bytes;
    stats->syncs++;
    stats->sync_us += took_us;
    stats->sync_us_max = took_us > stats->sync_us_max ? took_us : stats->sync_us_max;
    stats->group_max = group->count > stats->group_max ? group->count : stats->group_max;
    pthread_mutex_unlock(&log->lock);
    return BASE_OK;
}

// After a failure the log is shut for a while, and what waits fails too: later batches of a device
// may not be written when an earlier one was not. Returns those.
static struct gw_sink_batch *shut_log(struct gw_segment_log *log, enum base_status status)
{
    pthread_mutex_lock(&log->lock);
    bool was_open = log->shut == BASE_OK;
    log->shut = status == BASE_ERR_FULL ? BASE_ERR_FULL : BASE_ERR_BUSY;
    log->shut_until_us = UINT64_MAX; // until all who wait know
    log->stats.failures++;
    struct gw_sink_batch *waiting = log->first;
    log->first = NULL;
    log->queue_bytes = 0;
    pthread_mutex_unlock(&log->lock);
    if (was_open) {
        base_log_error(log->log, "tunnel", "segment log cannot be written: %s; batches are refused",
                       base_status_text(status));
    }
    return waiting;
}

static void reopen_log(struct gw_segment_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool was_shut = log->shut != BASE_OK;
    log->shut = BASE_OK;
    pthread_mutex_unlock(&log->lock);
    if (was_shut) {
        base_log_info(log->log, "tunnel", "segment log is written again");
    }
}

static void fail_group(struct gw_segment_log *log, struct group *group, enum base_status status)
{
    struct gw_sink_batch *waiting = shut_log(log, status);
    if (log->has_tail) {
        (void)cut_behind(log, newest(log).size);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        group->batches[i]->done(group->batches[i], status);
    }
    while (waiting != NULL) {
        struct gw_sink_batch *next = waiting->next;
        waiting->done(waiting, status);
        waiting = next;
    }
    pthread_mutex_lock(&log->lock);
    log->shut_until_us = log->clock.mono_us(log->clock.ctx) + GW_SEGMENT_RETRY_US;
    pthread_mutex_unlock(&log->lock);
}

static void commit_group(struct gw_segment_log *log, struct group *group)
{
    uint64_t size = 0;
    group->part_count = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct gw_sink_batch *batch = group->batches[i];
        (void)gw_segment_record_encode(batch, group->heads[i]);
        group->parts[group->part_count++] = (struct iovec){group->heads[i], GW_SEGMENT_RECORD_HEAD};
        if (!batch->is_loss && batch->batch.sent_bytes > 0) {
            group->parts[group->part_count++] =
                (struct iovec){(void *)(uintptr_t)batch->batch.bytes, batch->batch.sent_bytes};
        }
    }
    base_assert(group->count > 0 && group->part_count <= 2 * group->count);
    enum base_status status = make_room(log, group->bytes, &size);
    if (status == BASE_OK) {
        log->has_tail = true; // until it is known to be durable
        status = write_parts(log->fd, group->parts, group->part_count, size);
    }
    status = status == BASE_OK ? sync_group(log, group, size) : status;
    if (status != BASE_OK) {
        fail_group(log, group, status);
        return;
    }
    reopen_log(log);
    for (uint32_t i = 0; i < group->count; i++) {
        group->batches[i]->done(group->batches[i], BASE_OK);
    }
    pthread_mutex_lock(&log->lock);
    log->stats.landed = log->stats.end;
    pthread_mutex_unlock(&log->lock);
    log->last_group = group->count;
}

// Nobody waits: the next records get zeros to lie on, when less than half of them are left. What
// fails here fails again where it matters, or the records are appended.
static void lay_ahead(struct gw_segment_log *log)
{
    static const uint8_t zeros[64 * 1024];
    uint64_t size = newest(log).size;
    uint64_t end =
        size + GW_SEGMENT_AHEAD < log->segment_bytes ? size + GW_SEGMENT_AHEAD : log->segment_bytes;
    if (log->has_tail || end <= log->laid || log->laid - size >= GW_SEGMENT_AHEAD / 2) {
        return;
    }
    base_assert(log->laid >= size);
    uint64_t from = log->laid;
    while (from < end) {
        uint64_t want = end - from < sizeof(zeros) ? end - from : sizeof(zeros);
        ssize_t wrote = pwrite(log->fd, zeros, (size_t)want, (off_t)from);
        if (wrote <= 0) {
            break;
        }
        from += (uint64_t)wrote;
    }
    if (from == end && fdatasync(log->fd) == 0) {
        log->laid = end;
    } else {
        (void)cut_behind(log, size);
    }
}

void *gw_segment_writer_main(void *arg)
{
    struct gw_segment_log *log = arg;
    struct group *group = NULL;
    for (;;) {
        pthread_mutex_lock(&log->lock);
        bool empty = log->first == NULL;
        bool stop = log->stopping;
        bool gather = log->queue_bytes < GW_SEGMENT_GROUP_BYTES;
        pthread_mutex_unlock(&log->lock);
        if (empty && stop) {
            break;
        }
        if (empty) {
            lay_ahead(log);
            (void)gw_bell_wait(&log->bell, UINT64_MAX);
            continue;
        }
        if (group == NULL && (group = malloc(sizeof(*group))) == NULL) {
            (void)gw_bell_wait(&log->bell, GW_SEGMENT_RETRY_US);
            continue;
        }
        if (gather && !stop && log->last_group >= GW_SEGMENT_CROWD) {
            (void)gw_bell_wait(&log->bell, log->commit_delay_us);
        }
        take_group(log, group);
        if (group->count > 0) {
            commit_group(log, group);
        }
    }
    base_assert(log->first == NULL && log->queue_bytes == 0);
    free(group);
    return NULL;
}
