// Starts task processes, gives them their jobs, listens to them, and sees that they end. Called by
// posix_task.c on two threads, see the header: a run is the task worker's, getting the next process
// ready and stopping are the loop's too. One mutex guards which process waits and which runs, and
// the templates; the channel is the task worker's alone while a run lasts.
//
// What a process says is parsed in posix_child_parse.c. Every wait has a deadline, and every end is
// a kill and a wait for it: the process's own death is looked for first only to tell its signal.
#include "posix/run/posix_child.h"

#include "posix/run/posix_memfd.h"
#include "posix/run/posix_process.h"
#include "posix/run/posix_template.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "model/model_store.h"
#include "runner/runner_cloud.h"
#include "runner/runner_frame.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct posix_children {
    char *runner_path;
    pthread_mutex_t mutex; // guards the three, and the templates
    struct posix_process waiting;
    struct posix_process running;
    struct posix_process ended; // killed; reaped when nobody waits for a run
    struct posix_templates templates;
    struct posix_memfd_pool models;
    uint64_t given_us; // when the process that runs was given its job
    struct posix_child_end end;
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_FRAME_MAX];
};

// ---- Starting and ending

// With the mutex held: one process waits, unless none can be started.
static int waiting_make(struct posix_children *children)
{
    struct posix_process *waiting = &children->waiting;
    (void)posix_process_end(&children->ended);
    if (posix_process_lives(waiting)) {
        return 0;
    }
    (void)posix_process_end(waiting); // somebody killed it while it waited
    return posix_process_start(children->runner_path, waiting);
}

enum base_status posix_child_ready(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    int result = waiting_make(children);
    if (children->running.pid == 0) {
        posix_template_ready(&children->templates, children->runner_path);
    }
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

static enum base_status all_send(int fd, const uint8_t *bytes, size_t size, uint64_t until_us)
{
    while (size > 0) {
        ssize_t put = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        } else if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            BASE_TRY(posix_process_wait(fd, POLLOUT, until_us));
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
    BASE_TRY(posix_process_read(fd, head, sizeof(head), until_us));
    BASE_TRY(dev_runner_head_parse(head, out_kind, out_size));
    return posix_process_read(fd, children->frame, *out_size, until_us);
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

// ---- Calls of models in the cloud

static enum base_status cloud_send(struct posix_children *children, uint32_t kind,
                                   const struct base_writer *body, uint64_t until_us)
{
    BASE_TRY(body->status);
    size_t size = base_writer_size(body);
    dev_runner_head_write(children->frame, kind, size);
    return all_send(children->running.fd, children->frame, DEV_RUNNER_HEAD_BYTES + size, until_us);
}

// What the process says of its deadline is not believed beyond the run's own.
static enum base_status infer_answer(struct posix_children *children,
                                     const struct dev_vm_cloud_port *port, size_t size,
                                     uint64_t until_us)
{
    struct dev_vm_cloud_call call;
    struct dev_vm_cloud_end end = {.size = 0};
    struct base_writer writer;
    BASE_TRY(posix_child_infer_parse(children->frame, size, &call));
    uint64_t now_us = base_clock_mono_us();
    uint64_t left_ms = now_us < until_us ? (until_us - now_us) / 1000 : 0;
    left_ms = left_ms > 0 ? left_ms : 1;
    call.deadline_ms = call.deadline_ms < left_ms ? call.deadline_ms : (uint32_t)left_ms;
    enum wire_cloud_why why =
        port != NULL ? port->infer(port->ctx, &call, &end) : WIRE_CLOUD_NOT_ALLOWED;
    base_writer_init(&writer, children->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_ANSWER_MAX);
    dev_runner_answer_write(&writer, why, &end);
    return cloud_send(children, DEV_RUNNER_ANSWER, &writer, until_us);
}

static enum base_status look_answer(struct posix_children *children,
                                    const struct dev_vm_cloud_port *port, size_t size,
                                    uint64_t until_us)
{
    struct base_str model;
    struct dev_vm_cloud_state state = {.why = WIRE_CLOUD_NOT_ALLOWED};
    struct base_writer writer;
    BASE_TRY(posix_child_look_parse(children->frame, size, &model));
    if (port != NULL) {
        state = port->look(port->ctx, model);
    }
    base_writer_init(&writer, children->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_SEEN_BYTES);
    dev_runner_seen_write(&writer, &state);
    return cloud_send(children, DEV_RUNNER_SEEN, &writer, until_us);
}

// ---- A run

// A question of the process, in children->frame.
static enum base_status asked_answer(struct posix_children *children, const struct dev_vm_job *vm,
                                     uint32_t kind, size_t size, uint64_t until_us)
{
    switch (kind) {
    case DEV_RUNNER_QUERY:
        return question_answer(children, vm->data, size, until_us);
    case DEV_RUNNER_INFER:
        return infer_answer(children, vm->cloud, size, until_us);
    case DEV_RUNNER_LOOK:
        return look_answer(children, vm->cloud, size, until_us);
    default:
        return BASE_ERR_INVALID;
    }
}

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

// What a run's process is given.
struct gift {
    struct dev_runner_bounds bounds;
    int job_fd;
    int models_fd; // borrowed from the pool; -1: none
};

static enum base_status gift_make(struct posix_children *children, const struct dev_runner_job *job,
                                  struct gift *out, uint32_t *out_damaged)
{
    struct dev_runner_bounds *bounds = &out->bounds;
    *out = (struct gift){.bounds.time_ms = time_ms_of(job->vm), .job_fd = -1, .models_fd = -1};
    BASE_TRY(posix_memfd_job(job, &out->job_fd, &bounds->job_bytes));
    if (job->vm->model_count > 0) {
        BASE_TRY(posix_memfd_models(&children->models, job->vm, &out->models_fd,
                                    &bounds->models_bytes, out_damaged));
    }
    bounds->memory_bytes = memory_bytes(job, bounds->job_bytes, bounds->models_bytes);
    return BASE_OK;
}

static void gift_done(struct gift *gift)
{
    if (gift->job_fd >= 0) {
        (void)close(gift->job_fd);
    }
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

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// The clock here is what counts, and no heap is fuller than full. It counts from when the job was
// given: who hears late that it has begun must not cut what it took.
static void end_bound(struct posix_children *children, const struct dev_runner_job *job)
{
    struct dev_vm_result *result = &children->end.result;
    uint64_t took_us = base_clock_mono_us() - children->given_us;
    uint64_t heap_kib = job->heap_kib != 0 ? job->heap_kib : DEV_VM_HEAP_KIB_DEFAULT;
    result->duration_us = least(result->duration_us, took_us);
    result->prepare_us = least(result->prepare_us, result->duration_us);
    result->model_us = least(result->model_us, result->duration_us - result->prepare_us);
    if (result->heap_peak_bytes > heap_kib * 1024) {
        result->heap_peak_bytes = (uint32_t)(heap_kib * 1024);
    }
}

// Listens until the end. OK: children->end has it.
static enum base_status end_wait(struct posix_children *children, const struct dev_runner_job *job)
{
    uint32_t kind = 0;
    size_t size = 0;
    uint64_t until_us =
        base_clock_mono_us() + ((uint64_t)time_ms_of(job->vm) + POSIX_CHILD_GRACE_MS) * 1000;
    for (;;) {
        BASE_TRY(frame_receive(children, until_us, &kind, &size));
        if (kind == DEV_RUNNER_END) {
            BASE_TRY(posix_child_end_parse(children->frame, size, &children->end));
            end_bound(children, job);
            return BASE_OK;
        }
        BASE_TRY(asked_answer(children, job->vm, kind, size, until_us));
    }
}

// The process that waits becomes the one that runs, one of a template where there is one; where
// none waits, one is started. An errno.
static int child_take(struct posix_children *children, const struct dev_runner_job *job,
                      const struct dev_runner_bounds *bounds, bool *out_of_template)
{
    int result = 0;
    pthread_mutex_lock(&children->mutex);
    (void)posix_process_end(&children->ended);
    *out_of_template = posix_template_take(&children->templates, job, bounds, &children->running);
    if (!*out_of_template) {
        result = waiting_make(children);
        if (result == 0) {
            children->running = children->waiting;
            children->waiting = (struct posix_process){.pid = 0};
        }
    }
    pthread_mutex_unlock(&children->mutex);
    return result;
}

// Its end was told, so nothing hangs on how it goes: it is reaped when there is time.
static void running_drop(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    (void)posix_process_end(&children->ended);
    (void)kill(children->running.pid, SIGKILL);
    children->ended = children->running;
    children->running = (struct posix_process){.pid = 0};
    pthread_mutex_unlock(&children->mutex);
}

static int running_end(struct posix_children *children)
{
    pthread_mutex_lock(&children->mutex);
    int status = posix_process_end(&children->running);
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
static void death_wait(const struct posix_process *child)
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

// The process that was given the job ended before its run: nobody's crash, for no byte of the
// script was looked at.
static void begin_failed(struct posix_children *children, const struct dev_runner_job *job,
                         bool of_template, char *text)
{
    death_wait(&children->running);
    int ended = running_end(children);
    if (text[0] == '\0') {
        death_tell(ended, text);
    }
    if (of_template) {
        pthread_mutex_lock(&children->mutex);
        posix_template_blame(&children->templates, job);
        pthread_mutex_unlock(&children->mutex);
    }
}

// Gives the job to a process whose wall goes up.
static enum base_status run_begin(struct posix_children *children, const struct dev_runner_job *job,
                                  const struct gift *gift, char *text)
{
    const int files[2] = {gift->job_fd, gift->models_fd};
    enum base_status status = BASE_ERR_CLOSED;
    for (uint32_t i = 0; i < POSIX_CHILD_TRIES && status == BASE_ERR_CLOSED; i++) {
        bool of_template = false;
        int number = child_take(children, job, &gift->bounds, &of_template);
        if (number != 0) {
            (void)snprintf(text, POSIX_CHILD_TEXT_MAX, "no process for the task: %s",
                           strerror(number));
            return BASE_ERR_LIMIT;
        }
        children->given_us = base_clock_mono_us();
        status = posix_process_job(children->running.fd, DEV_RUNNER_JOB, &gift->bounds, files,
                                   gift->models_fd >= 0 ? 2 : 1);
        if (status == BASE_OK) {
            status = started_wait(children, text);
        }
        if (status != BASE_OK) {
            begin_failed(children, job, of_template, text);
            status = of_template ? BASE_ERR_CLOSED : status;
        }
    }
    return status;
}

static void models_note(struct posix_children *children, const struct dev_runner_job *job,
                        const struct gift *gift)
{
    pthread_mutex_lock(&children->mutex);
    posix_template_note(&children->templates, job, &gift->bounds, gift->models_fd);
    pthread_mutex_unlock(&children->mutex);
}

void posix_child_run(struct posix_children *children, const struct dev_runner_job *job,
                     struct posix_child_report *out)
{
    struct gift gift;
    uint32_t damaged = 0;
    memset(out, 0, sizeof(*out));
    enum base_status status = gift_make(children, job, &gift, &damaged);
    if (status == BASE_OK) {
        status = run_begin(children, job, &gift, out->text);
    } else if (status == BASE_ERR_HASH) {
        const struct base_str *name = &job->vm->models[damaged].name;
        (void)snprintf(out->text, sizeof(out->text), "%.*s", (int)name->size, name->data);
    } else {
        (void)snprintf(out->text, sizeof(out->text), "no memory for the task's files: %s",
                       base_status_text(status));
    }
    if (status == BASE_OK) {
        out->text[0] = '\0';
        report_of(children, end_wait(children, job), out);
    } else {
        out->how = status == BASE_ERR_HASH ? POSIX_CHILD_DAMAGED : POSIX_CHILD_NONE;
    }
    if (out->how == POSIX_CHILD_ENDED && gift.models_fd >= 0) {
        models_note(children, job, &gift);
    }
    gift_done(&gift);
    posix_memfd_pool_trim(&children->models);
}

// ---- The pool

// A run of nothing: whether a wall can go up is known before a task is brought.
static enum base_status wall_try(struct posix_children *children, struct base_error *error)
{
    struct dev_vm_job vm = {.entry = BASE_STR("none")};
    const struct dev_runner_job job = {.vm = &vm};
    char text[POSIX_CHILD_TEXT_MAX] = "";
    struct gift gift;
    uint32_t damaged = 0;
    enum base_status status = gift_make(children, &job, &gift, &damaged);
    if (status == BASE_OK) {
        status = run_begin(children, &job, &gift, text);
    }
    (void)running_end(children);
    gift_done(&gift);
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
    posix_templates_init(&children->templates);
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
    (void)posix_process_end(&children->ended);
    (void)posix_process_end(&children->running);
    (void)posix_process_end(&children->waiting);
    posix_templates_done(&children->templates);
    posix_memfd_pool_done(&children->models);
    pthread_mutex_destroy(&children->mutex);
    free(children->runner_path);
    free(children);
}
