// Starts task processes, gives them their jobs, listens to them, and sees that they end. Two
// threads, see the header; the channel is the task worker's alone while a run lasts.
#include "posix/posix_child.h"

#include "posix/posix_memfd.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "model/model_store.h"
#include "runner/runner_frame.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    pid_t pid; // 0: none
    int fd;
};

struct posix_children {
    char *runner_path;
    pthread_mutex_t mutex; // guards the three
    struct child waiting;
    struct child running;
    struct child ended; // killed; reaped when nobody waits for a run
    struct posix_memfd_pool models;
    struct posix_child_end end;
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_FRAME_MAX];
};

// ---- Starting and ending

// What reaches the process of the agent's environment: the engine's choice of kernels, where
// libraries are, and what sanitizers are told.
static void environment_make(char *out[], size_t room)
{
    static const char *const names[] = {"WALLE_ENGINE_ISA=", "LD_LIBRARY_PATH=", "ASAN_OPTIONS=",
                                        "UBSAN_OPTIONS=", "TSAN_OPTIONS="};
    size_t count = 0;
    for (char **at = environ; *at != NULL && count + 1 < room; at++) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (strncmp(*at, names[i], strlen(names[i])) == 0) {
                out[count++] = *at;
                break;
            }
        }
    }
    out[count] = NULL;
}

// A group of its own: what a terminal tells the agent's group is not for it.
static int spawn_with(const char *path, int channel, pid_t *out_pid)
{
    char *arguments[] = {"walle-task-runner", NULL};
    char *environment[8];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigset_t none;
    environment_make(environment, sizeof(environment) / sizeof(environment[0]));
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    int result = posix_spawn_file_actions_init(&actions);
    if (result != 0) {
        return result;
    }
    result = posix_spawnattr_init(&attributes);
    if (result == 0) {
        (void)posix_spawnattr_setpgroup(&attributes, 0);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
        result = posix_spawn_file_actions_adddup2(&actions, channel, DEV_RUNNER_FD);
    }
    if (result == 0) {
        result = posix_spawn(out_pid, path, &actions, &attributes, arguments, environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return result;
}

// An errno; 0: started.
static int child_start(const char *path, struct child *out)
{
    int pair[2];
    pid_t pid = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return errno;
    }
    int result = spawn_with(path, pair[1], &pid);
    (void)close(pair[1]);
    if (result != 0) {
        (void)close(pair[0]);
        return result;
    }
    *out = (struct child){.pid = pid, .fd = pair[0]};
    return 0;
}

// Kills and reaps; gives what waitpid said, or -1 when somebody else took that.
static int child_end(struct child *child)
{
    int status = -1;
    if (child->pid == 0) {
        return status;
    }
    (void)kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0) {
        if (errno != EINTR) {
            status = -1;
            break;
        }
    }
    (void)close(child->fd);
    *child = (struct child){.pid = 0};
    return status;
}

// With the mutex held: one process waits, unless none can be started.
static int waiting_make(struct posix_children *children)
{
    struct child *waiting = &children->waiting;
    (void)child_end(&children->ended);
    if (waiting->pid != 0) {
        siginfo_t info = {.si_pid = 0};
        // One that somebody killed while it waited is replaced.
        if (waitid(P_PID, (id_t)waiting->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == 0) {
            return 0;
        }
        (void)child_end(waiting);
    }
    return child_start(children->runner_path, waiting);
}

enum base_status posix_child_ready(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    int result = waiting_make(children);
    pthread_mutex_unlock(&children->mutex);
    return result == 0 ? BASE_OK : BASE_ERR_LIMIT;
}

void posix_child_stop(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    if (children->running.pid != 0) {
        (void)kill(children->running.pid, SIGKILL);
    }
    pthread_mutex_unlock(&children->mutex);
}

// ---- Listening and talking, each within a deadline

// TIMEOUT, or OK when something can be read (or written), be it the end.
static enum base_status wait_for(int fd, short what, uint64_t until_us)
{
    for (;;) {
        uint64_t now_us = base_clock_mono_us();
        if (now_us >= until_us) {
            return BASE_ERR_TIMEOUT;
        }
        struct pollfd one = {.fd = fd, .events = what};
        int left_ms = (int)((until_us - now_us + 999) / 1000);
        if (poll(&one, 1, left_ms) > 0) {
            return BASE_OK;
        }
    }
}

// CLOSED: the process is gone.
static enum base_status all_receive(int fd, uint8_t *out, size_t size, uint64_t until_us)
{
    while (size > 0) {
        ssize_t got = recv(fd, out, size, MSG_DONTWAIT);
        if (got > 0) {
            out += got;
            size -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            BASE_TRY(wait_for(fd, POLLIN, until_us));
        } else if (got == 0 || errno != EINTR) {
            return BASE_ERR_CLOSED;
        }
    }
    return BASE_OK;
}

static enum base_status all_send(int fd, const uint8_t *bytes, size_t size, uint64_t until_us)
{
    while (size > 0) {
        ssize_t put = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        } else if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            BASE_TRY(wait_for(fd, POLLOUT, until_us));
        } else if (put == 0 || errno != EINTR) {
            return BASE_ERR_CLOSED;
        }
    }
    return BASE_OK;
}

// The next frame; its body is in children->frame. CLOSED, TIMEOUT, INVALID, TOO_LARGE.
static enum base_status frame_receive(struct posix_children *children, uint64_t until_us,
                                      uint32_t *out_kind, size_t *out_size)
{
    int fd = children->running.fd;
    uint8_t head[DEV_RUNNER_HEAD_BYTES];
    BASE_TRY(all_receive(fd, head, sizeof(head), until_us));
    BASE_TRY(dev_runner_head_parse(head, out_kind, out_size));
    return all_receive(fd, children->frame, *out_size, until_us);
}

// ---- Questions

struct rows {
    struct base_writer writer;
};

static bool row_add(void *ctx, struct base_str key, uint64_t time_ms, const uint8_t *value,
                    size_t value_size)
{
    struct base_writer *writer = &((struct rows *)ctx)->writer;
    struct base_writer before = *writer;
    base_writer_u32(writer, (uint32_t)key.size);
    base_writer_u32(writer, (uint32_t)value_size);
    base_writer_u64(writer, time_ms);
    base_writer_bytes(writer, key.data, key.size);
    base_writer_bytes(writer, value, value_size);
    if (writer->status != BASE_OK) {
        *writer = before;
        return false;
    }
    return true;
}

static enum base_status question_answer(struct posix_children *children,
                                        const struct dev_vm_data_port *port, size_t size,
                                        uint64_t until_us)
{
    struct dev_vm_query query;
    uint8_t question[DEV_RUNNER_QUERY_MAX];
    struct rows rows;
    memcpy(question, children->frame, size); // its texts are borrowed; the frame takes the rows
    BASE_TRY(posix_child_query_parse(question, size, &query));
    uint8_t *body = children->frame + DEV_RUNNER_HEAD_BYTES;
    base_writer_init(&rows.writer, body + sizeof(uint32_t), DEV_RUNNER_ROWS_MAX - sizeof(uint32_t));
    enum base_status status =
        port != NULL ? port->query(port->ctx, &query, row_add, &rows) : BASE_ERR_NOT_FOUND;
    size_t bytes = status == BASE_OK ? base_writer_size(&rows.writer) : 0;
    base_writer_init(&rows.writer, body, sizeof(uint32_t));
    base_writer_u32(&rows.writer, (uint32_t)(int32_t)status);
    bytes += sizeof(uint32_t);
    dev_runner_head_write(children->frame, DEV_RUNNER_ROWS, bytes);
    return all_send(children->running.fd, children->frame, DEV_RUNNER_HEAD_BYTES + bytes, until_us);
}

// ---- A run

static uint32_t time_ms_of(const struct dev_vm_job *vm)
{
    return vm->time_ms != 0 ? vm->time_ms : DEV_VM_TIME_MS_DEFAULT;
}

// What a job may need of address space: what it may use where there is no wall, and the program.
static uint64_t memory_bytes(const struct dev_runner_job *job, uint64_t job_bytes,
                             uint64_t models_bytes)
{
    const struct dev_vm_job *vm = job->vm;
    uint64_t heap_kib = job->heap_kib != 0 ? job->heap_kib : DEV_VM_HEAP_KIB_DEFAULT;
    uint64_t bytes = POSIX_CHILD_BASE_BYTES + heap_kib * 1024 + job_bytes + models_bytes;
    if (vm->model_count > 0) {
        uint64_t work = vm->model_memory_max != 0 ? vm->model_memory_max : DEV_VM_MODEL_MEMORY;
        bytes += DEV_MODEL_STORE_BYTES + 2 * work;
    }
    return bytes;
}

static enum base_status files_send(int channel, const int *files, size_t count,
                                   const struct dev_runner_bounds *bounds)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_JOB_BYTES];
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control));
    dev_runner_head_write(frame, DEV_RUNNER_JOB, DEV_RUNNER_JOB_BYTES);
    dev_runner_bounds_write(frame + DEV_RUNNER_HEAD_BYTES, bounds);
    struct iovec part = {.iov_base = frame, .iov_len = sizeof(frame)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), files, count * sizeof(int));
    // A new channel has room for it.
    ssize_t put = sendmsg(channel, &message, MSG_NOSIGNAL);
    return put == (ssize_t)sizeof(frame) ? BASE_OK : BASE_ERR_CLOSED;
}

static enum base_status job_send(struct posix_children *children, const struct dev_runner_job *job)
{
    struct dev_runner_bounds bounds = {.time_ms = time_ms_of(job->vm)};
    int files[2] = {-1, -1};
    BASE_TRY(posix_memfd_job(job, &files[0], &bounds.job_bytes));
    enum base_status status = BASE_OK;
    if (job->vm->model_count > 0) {
        status = posix_memfd_models(&children->models, job->vm, &files[1], &bounds.models_bytes);
    }
    if (status == BASE_OK) {
        bounds.memory_bytes = memory_bytes(job, bounds.job_bytes, bounds.models_bytes);
        status = files_send(children->running.fd, files, bounds.models_bytes > 0 ? 2 : 1, &bounds);
    }
    (void)close(files[0]);
    return status;
}

// OK: its wall is up. CLOSED: the process is gone; UNSUPPORTED: it says why not, in `text`.
static enum base_status started_wait(struct posix_children *children, char *text)
{
    uint32_t kind = 0;
    size_t size = 0;
    uint64_t until_us = base_clock_mono_us() + (uint64_t)POSIX_CHILD_START_MS * 1000;
    BASE_TRY(frame_receive(children, until_us, &kind, &size));
    if (kind == DEV_RUNNER_REFUSED) {
        size = size < POSIX_CHILD_TEXT_MAX ? size : POSIX_CHILD_TEXT_MAX - 1;
        memcpy(text, children->frame, size);
        text[size] = '\0';
        return BASE_ERR_UNSUPPORTED;
    }
    return kind == DEV_RUNNER_STARTED ? BASE_OK : BASE_ERR_INVALID;
}

// The clock here is what counts, and no heap is fuller than full.
static void end_bound(struct posix_children *children, const struct dev_runner_job *job,
                      uint64_t started_us)
{
    struct dev_vm_result *result = &children->end.result;
    uint64_t took_us = base_clock_mono_us() - started_us;
    uint64_t heap_kib = job->heap_kib != 0 ? job->heap_kib : DEV_VM_HEAP_KIB_DEFAULT;
    result->duration_us = result->duration_us < took_us ? result->duration_us : took_us;
    if (result->heap_peak_bytes > heap_kib * 1024) {
        result->heap_peak_bytes = (uint32_t)(heap_kib * 1024);
    }
}

// Listens until the end. OK: children->end has it.
static enum base_status end_wait(struct posix_children *children, const struct dev_runner_job *job)
{
    uint32_t kind = 0;
    size_t size = 0;
    uint64_t started_us = base_clock_mono_us();
    uint64_t until_us = started_us + ((uint64_t)time_ms_of(job->vm) + POSIX_CHILD_GRACE_MS) * 1000;
    for (;;) {
        BASE_TRY(frame_receive(children, until_us, &kind, &size));
        if (kind == DEV_RUNNER_END) {
            BASE_TRY(posix_child_end_parse(children->frame, size, &children->end));
            end_bound(children, job, started_us);
            return BASE_OK;
        }
        if (kind != DEV_RUNNER_QUERY) {
            return BASE_ERR_INVALID;
        }
        BASE_TRY(question_answer(children, job->vm->data, size, until_us));
    }
}

// The process that waits becomes the one that runs; where none waits, one is started.
static int child_take(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    int result = waiting_make(children);
    if (result == 0) {
        children->running = children->waiting;
        children->waiting = (struct child){.pid = 0};
    }
    pthread_mutex_unlock(&children->mutex);
    return result;
}

// Its end was told, so nothing hangs on how it goes: it is reaped when there is time.
static void running_drop(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    (void)child_end(&children->ended);
    (void)kill(children->running.pid, SIGKILL);
    children->ended = children->running;
    children->running = (struct child){.pid = 0};
    pthread_mutex_unlock(&children->mutex);
}

static int running_end(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    int status = child_end(&children->running);
    pthread_mutex_unlock(&children->mutex);
    return status;
}

static void death_tell(int status, char *text)
{
    int number = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const char *name = number != 0 ? sigabbrev_np(number) : NULL;
    if (number == SIGSYS) {
        (void)snprintf(text, POSIX_CHILD_TEXT_MAX,
                       "the task's process died of SIGSYS: a system call its wall forbids");
    } else if (name != NULL) {
        (void)snprintf(text, POSIX_CHILD_TEXT_MAX, "the task's process died of SIG%s", name);
    } else if (status >= 0 && WIFEXITED(status)) {
        (void)snprintf(text, POSIX_CHILD_TEXT_MAX,
                       "the task's process ended with status %d and no answer",
                       WEXITSTATUS(status));
    } else {
        (void)snprintf(text, POSIX_CHILD_TEXT_MAX, "the task's process died");
    }
}

// Waits for a process that has closed its channel to be gone by itself, so that its own signal is
// what is told; one that only closed it is killed.
static void death_wait(const struct child *child)
{
    siginfo_t info;
    uint64_t until_us = base_clock_mono_us() + (uint64_t)POSIX_CHILD_GRACE_MS * 1000;
    do {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != 0) {
            return;
        }
        (void)poll(NULL, 0, 1);
    } while (base_clock_mono_us() < until_us);
}

static void report_of(struct posix_children *children, enum base_status status,
                      struct posix_child_report *out)
{
    if (status == BASE_ERR_CLOSED) {
        death_wait(&children->running);
    }
    out->pid = (int)children->running.pid;
    if (status == BASE_OK) {
        running_drop(children);
        out->how = POSIX_CHILD_ENDED;
        out->end = &children->end;
        return;
    }
    int ended = running_end(children);
    if (status == BASE_ERR_TIMEOUT || (status == BASE_ERR_CLOSED && ended >= 0 &&
                                       WIFSIGNALED(ended) && WTERMSIG(ended) == SIGXCPU)) {
        out->how = POSIX_CHILD_SILENT;
    } else if (status == BASE_ERR_CLOSED) {
        out->how = POSIX_CHILD_DIED;
        death_tell(ended, out->text);
    } else {
        out->how = POSIX_CHILD_LIED;
        (void)snprintf(out->text, sizeof(out->text), "the task's process sent what no VM sends: %s",
                       base_status_text(status));
    }
}

// Gives the job to a process whose wall goes up. What ends before that is nobody's crash: no byte
// of the script was looked at.
static enum base_status run_begin(struct posix_children *children, const struct dev_runner_job *job,
                                  char *text)
{
    enum base_status status = BASE_ERR_CLOSED;
    for (uint32_t i = 0; i < POSIX_CHILD_TRIES && status == BASE_ERR_CLOSED; i++) {
        int number = child_take(children);
        if (number != 0) {
            (void)snprintf(text, POSIX_CHILD_TEXT_MAX, "no process for the task: %s",
                           strerror(number));
            return BASE_ERR_LIMIT;
        }
        status = job_send(children, job);
        if (status == BASE_OK) {
            status = started_wait(children, text);
        }
        if (status != BASE_OK) {
            death_wait(&children->running);
            int ended = running_end(children);
            if (text[0] == '\0') {
                death_tell(ended, text);
            }
        }
    }
    return status;
}

void posix_child_run(struct posix_children *children, const struct dev_runner_job *job,
                     struct posix_child_report *out)
{
    memset(out, 0, sizeof(*out));
    if (run_begin(children, job, out->text) != BASE_OK) {
        out->how = POSIX_CHILD_NONE;
        return;
    }
    out->text[0] = '\0';
    report_of(children, end_wait(children, job), out);
    posix_memfd_pool_trim(&children->models);
}

// ---- The pool

// A run of nothing: whether a wall can go up is known before a task is brought.
static enum base_status wall_try(struct posix_children *children, struct base_error *error)
{
    struct dev_vm_job vm = {.entry = BASE_STR("none")};
    const struct dev_runner_job job = {.vm = &vm};
    char text[POSIX_CHILD_TEXT_MAX] = "";
    enum base_status status = run_begin(children, &job, text);
    (void)running_end(children);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: %s", children->runner_path,
                              text[0] != '\0' ? text : base_status_text(status));
    }
    return BASE_OK;
}

enum base_status posix_children_new(const char *runner_path, struct posix_children **out,
                                    struct base_error *error)
{
    if (access(runner_path, X_OK) != 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%s: %s", runner_path, strerror(errno));
    }
    struct posix_children *children = calloc(1, sizeof(*children));
    if (children == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    pthread_mutex_init(&children->mutex, NULL);
    posix_memfd_pool_init(&children->models);
    children->runner_path = strdup(runner_path);
    enum base_status status = children->runner_path != NULL
                                  ? wall_try(children, error)
                                  : base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    if (status != BASE_OK) {
        posix_children_free(children);
        return status;
    }
    *out = children;
    return BASE_OK;
}

void posix_children_free(struct posix_children *children)
{
    if (children == NULL) {
        return;
    }
    (void)child_end(&children->ended);
    (void)child_end(&children->running);
    (void)child_end(&children->waiting);
    posix_memfd_pool_done(&children->models);
    pthread_mutex_destroy(&children->mutex);
    free(children->runner_path);
    free(children);
}
