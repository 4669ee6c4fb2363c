// What the files of the segment log share. Nobody else includes this.
#ifndef GW_SEGMENT_PRIVATE_H
#define GW_SEGMENT_PRIVATE_H

#include "store/bell.h"
#include "tunnel/segment/segment_cursor.h"
#include "tunnel/segment/segment_log.h"

#include <pthread.h>
#include <stdatomic.h>

#define GW_SEGMENT_NAME_MAX 32

struct gw_segment {
    uint64_t base;
    uint64_t size; // durable bytes of the file, head included
    uint64_t made_ms;
};

struct gw_segment_log {
    struct base_clock_port clock;
    const struct base_log *log;
    uint64_t segment_bytes;
    uint64_t queue_bytes_max;
    uint32_t commit_delay_us;
    int dir_fd;
    int lock_fd;
    int fd; // newest segment; the writer's
    pthread_t writer;
    bool writer_started;
    uint64_t laid; // bytes of the newest file that the disk has room for, zeros; the writer's
    bool has_tail; // bytes behind the durable end could not be cut yet; the writer's
    uint32_t last_group;
    struct gw_bell bell;

    pthread_mutex_t lock; // of what follows
    struct gw_segment *segments;
    uint32_t count;
    uint32_t capacity;
    struct gw_sink_batch *first;
    struct gw_sink_batch *last;
    uint64_t queue_bytes;
    uint64_t shut_until_us;
    enum base_status shut; // OK: open
    bool stopping;
    struct gw_segment_stats stats;
};

void gw_segment_name(uint64_t base, char out[GW_SEGMENT_NAME_MAX]);
// Makes an empty segment at `base`, durable; *out_fd is its file. FULL, IO, NOMEM.
enum base_status gw_segment_make(struct gw_segment_log *log, uint64_t base, int *out_fd);
// Reads the folder, repairs the newest segment, opens it for the writer.
enum base_status gw_segment_recover(struct gw_segment_log *log, struct base_error *error);
void *gw_segment_writer_main(void *arg);
enum base_status gw_segment_errno(int code);

#endif
