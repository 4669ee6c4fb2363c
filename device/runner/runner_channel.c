// Reads and writes of a task's process. Behind the wall only read and write are left, and only on
// the channel. Called by task_runner.c and runner_template.c in that process, on its one thread;
// the agent's side is posix/run/posix_process.c. Everything blocks, because the process has nothing
// else to do; files come with the first frame alone and are mapped only when their seals say that
// nobody can change them.
#include "runner/runner_channel.h"

#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES_MAX 2
#define SEALS     (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static enum base_status all_read(uint8_t *out, size_t size)
{
    while (size > 0) {
        ssize_t got = read(DEV_RUNNER_FD, out, size);
        if (got <= 0) {
            if (got < 0 && errno == EINTR) {
                continue;
            }
            return BASE_ERR_CLOSED;
        }
        out += got;
        size -= (size_t)got;
    }
    return BASE_OK;
}

enum base_status dev_runner_frame_send(uint8_t *frame, uint32_t kind, size_t size)
{
    dev_runner_head_write(frame, kind, size);
    size += DEV_RUNNER_HEAD_BYTES;
    return base_write_all(DEV_RUNNER_FD, frame, size) == BASE_OK ? BASE_OK : BASE_ERR_CLOSED;
}

enum base_status dev_runner_frame_receive(uint32_t kind, uint8_t *out, size_t capacity,
                                          size_t *out_size)
{
    uint8_t head[DEV_RUNNER_HEAD_BYTES];
    uint32_t got = 0;
    size_t size = 0;
    BASE_TRY(all_read(head, sizeof(head)));
    BASE_TRY(dev_runner_head_parse(head, &got, &size));
    if (got != kind) {
        return BASE_ERR_INVALID;
    }
    if (size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    BASE_TRY(all_read(out, size));
    *out_size = size;
    return BASE_OK;
}

// ---- JOB

// The agent sends the whole frame in one piece, with the files.
static enum base_status message_receive(uint8_t *out, size_t size, int files[FILES_MAX],
                                        size_t *out_count)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = out, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = 0;
    do {
        got = recvmsg(DEV_RUNNER_FD, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return BASE_ERR_CLOSED;
    }
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if ((size_t)got != size || (message.msg_flags & MSG_CTRUNC) != 0 || head == NULL ||
        head->cmsg_type != SCM_RIGHTS) {
        return BASE_ERR_INVALID;
    }
    *out_count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(files, CMSG_DATA(head), *out_count * sizeof(int));
    return BASE_OK;
}

// A file that nobody can change any more.
static enum base_status file_map(int fd, uint64_t size, int flags, const uint8_t **out)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (size == 0 || seals < 0 || (seals & SEALS) != SEALS ||
        lseek(fd, 0, SEEK_END) != (off_t)size) {
        return BASE_ERR_INVALID;
    }
    void *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | flags, fd, 0);
    if (bytes == MAP_FAILED) {
        return BASE_ERR_NOMEM;
    }
    *out = bytes;
    return BASE_OK;
}

static enum base_status job_head_parse(const uint8_t *frame, struct dev_runner_files *out)
{
    uint32_t kind = 0;
    size_t size = 0;
    BASE_TRY(dev_runner_head_parse(frame, &kind, &size));
    if ((kind != DEV_RUNNER_JOB && kind != DEV_RUNNER_TEMPLATE) || size != DEV_RUNNER_JOB_BYTES) {
        return BASE_ERR_INVALID;
    }
    out->is_template = kind == DEV_RUNNER_TEMPLATE;
    return dev_runner_bounds_parse(frame + DEV_RUNNER_HEAD_BYTES, size, &out->bounds);
}

enum base_status dev_runner_job_receive(struct dev_runner_files *out)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_JOB_BYTES];
    int files[FILES_MAX];
    size_t count = 0;
    memset(out, 0, sizeof(*out));
    BASE_TRY(message_receive(frame, sizeof(frame), files, &count));
    enum base_status status = job_head_parse(frame, out);
    if (status == BASE_OK && count != (out->bounds.models_bytes > 0 ? 2u : 1u)) {
        status = BASE_ERR_INVALID;
    }
    if (status == BASE_OK) {
        status = file_map(files[0], out->bounds.job_bytes, MAP_POPULATE, &out->job);
    }
    if (status == BASE_OK && count == FILES_MAX) {
        status = file_map(files[1], out->bounds.models_bytes, 0, &out->models);
    }
    for (size_t i = 0; i < count; i++) {
        (void)close(files[i]);
    }
    return status;
}

void dev_runner_files_done(struct dev_runner_files *files)
{
    if (files->job != NULL) {
        (void)munmap((void *)(uintptr_t)files->job, (size_t)files->bounds.job_bytes);
    }
    if (files->models != NULL) {
        (void)munmap((void *)(uintptr_t)files->models, (size_t)files->bounds.models_bytes);
    }
    files->job = NULL;
    files->models = NULL;
}

enum base_status dev_runner_fork_receive(int *out_channel)
{
    uint8_t head[DEV_RUNNER_HEAD_BYTES];
    int files[FILES_MAX];
    size_t count = 0;
    uint32_t kind = 0;
    size_t size = 0;
    BASE_TRY(message_receive(head, sizeof(head), files, &count));
    BASE_TRY(dev_runner_head_parse(head, &kind, &size));
    if (kind != DEV_RUNNER_FORK || count != 1) {
        return BASE_ERR_INVALID;
    }
    *out_channel = files[0];
    return BASE_OK;
}
