// Heads of frames and the body of JOB. Called by the agent (posix_child.c, posix_template.c,
// posix_process.c) and by the task's process (runner_channel.c); pure. One file for both sides of
// the channel, so that writer and parser of these few bytes cannot drift apart. A parser refuses a
// head whose kind is unknown or whose body is above that kind's most before anything of the body is
// read.
#include "runner/runner_frame.h"

#include "base/cursor.h"

bool dev_runner_frame_max(uint32_t kind, size_t *out_max)
{
    static const size_t most[] = {
        [DEV_RUNNER_JOB] = DEV_RUNNER_JOB_BYTES,       [DEV_RUNNER_STARTED] = 0,
        [DEV_RUNNER_REFUSED] = DEV_RUNNER_TEXT_MAX,    [DEV_RUNNER_QUERY] = DEV_RUNNER_QUERY_MAX,
        [DEV_RUNNER_ROWS] = DEV_RUNNER_ROWS_MAX,       [DEV_RUNNER_END] = DEV_RUNNER_END_MAX,
        [DEV_RUNNER_TEMPLATE] = DEV_RUNNER_JOB_BYTES,  [DEV_RUNNER_FORK] = 0,
        [DEV_RUNNER_FORKED] = DEV_RUNNER_FORKED_BYTES, [DEV_RUNNER_INFER] = DEV_RUNNER_INFER_MAX,
        [DEV_RUNNER_ANSWER] = DEV_RUNNER_ANSWER_MAX,   [DEV_RUNNER_LOOK] = DEV_RUNNER_LOOK_MAX,
        [DEV_RUNNER_SEEN] = DEV_RUNNER_SEEN_BYTES,
    };
    if (kind < DEV_RUNNER_JOB || kind > DEV_RUNNER_SEEN) {
        return false;
    }
    *out_max = most[kind];
    return true;
}

void dev_runner_head_write(uint8_t out[DEV_RUNNER_HEAD_BYTES], uint32_t kind, size_t size)
{
    struct base_writer writer;
    base_writer_init(&writer, out, DEV_RUNNER_HEAD_BYTES);
    base_writer_u32(&writer, kind);
    base_writer_u32(&writer, (uint32_t)size);
}

enum base_status dev_runner_head_parse(const uint8_t bytes[DEV_RUNNER_HEAD_BYTES],
                                       uint32_t *out_kind, size_t *out_size)
{
    struct base_reader reader;
    size_t most = 0;
    base_reader_init(&reader, bytes, DEV_RUNNER_HEAD_BYTES);
    uint32_t kind = base_reader_u32(&reader);
    uint32_t size = base_reader_u32(&reader);
    if (!dev_runner_frame_max(kind, &most)) {
        return BASE_ERR_INVALID;
    }
    if (size > most) {
        return BASE_ERR_TOO_LARGE;
    }
    *out_kind = kind;
    *out_size = size;
    return BASE_OK;
}

void dev_runner_bounds_write(uint8_t out[DEV_RUNNER_JOB_BYTES],
                             const struct dev_runner_bounds *bounds)
{
    struct base_writer writer;
    base_writer_init(&writer, out, DEV_RUNNER_JOB_BYTES);
    base_writer_u64(&writer, bounds->memory_bytes);
    base_writer_u64(&writer, bounds->job_bytes);
    base_writer_u64(&writer, bounds->models_bytes);
    base_writer_u32(&writer, bounds->time_ms);
}

enum base_status dev_runner_bounds_parse(const uint8_t *bytes, size_t size,
                                         struct dev_runner_bounds *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    struct dev_runner_bounds bounds = {
        .memory_bytes = base_reader_u64(&reader),
        .job_bytes = base_reader_u64(&reader),
        .models_bytes = base_reader_u64(&reader),
        .time_ms = base_reader_u32(&reader),
    };
    BASE_TRY(base_reader_finish(&reader));
    *out = bounds;
    return BASE_OK;
}
