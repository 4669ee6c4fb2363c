// Starts templates, asks them for processes and sees that they and what they made end. Called by
// posix_child.c with its mutex held, on the task worker's thread or the loop's; so nothing here
// waits for a template: what is not there yet is TIMEOUT, and the run takes a process of the plain
// kind. A process is believed to be a template's only when it is a child of this one, in the
// template's group: what the template says about it is an attacker's word.
#include "posix/run/posix_template.h"

#include "posix/run/posix_memfd.h"

#include "base/clock.h"
#include "base/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- Places

static void files_close(struct posix_template *place)
{
    for (size_t i = 0; i < 2; i++) {
        if (place->files[i] >= 0) {
            (void)close(place->files[i]);
            place->files[i] = -1;
        }
    }
}

// The template and whatever it made: all are its group's, and all are children of this process.
static void processes_end(struct posix_template *place)
{
    if (place->next.fd >= 0) {
        (void)close(place->next.fd);
    }
    if (place->self.pid != 0) {
        pid_t group = place->self.pid;
        (void)kill(-group, SIGKILL);
        while (waitpid(-group, NULL, 0) > 0 || errno == EINTR) {
        }
        (void)close(place->self.fd);
    }
    place->self = (struct posix_process){.pid = 0, .fd = -1};
    place->next = place->self;
    place->ready = false;
}

static void place_clear(struct posix_template *place)
{
    processes_end(place);
    files_close(place);
    free(place->digests);
    *place = (struct posix_template){.files = {-1, -1}, .self = {.fd = -1}, .next = {.fd = -1}};
}

static void give_up(struct posix_template *place)
{
    processes_end(place);
    files_close(place);
    place->failed = true;
}

void posix_templates_init(struct posix_templates *templates)
{
    *templates = (struct posix_templates){.clock = 0};
    for (uint32_t i = 0; i < POSIX_TEMPLATES_MAX; i++) {
        templates->places[i] =
            (struct posix_template){.files = {-1, -1}, .self = {.fd = -1}, .next = {.fd = -1}};
    }
}

void posix_templates_done(struct posix_templates *templates)
{
    for (uint32_t i = 0; i < POSIX_TEMPLATES_MAX; i++) {
        place_clear(&templates->places[i]);
    }
}

// The same models in the same order, and the same memory for them.
static bool is_of(const struct posix_template *place, const struct dev_runner_job *job)
{
    const struct dev_vm_job *vm = job->vm;
    if (place->digests == NULL || place->count != vm->model_count ||
        place->model_memory_max != vm->model_memory_max) {
        return false;
    }
    for (uint32_t i = 0; i < place->count; i++) {
        if (!wire_sha256_equal(&place->digests[i], &vm->models[i].digest)) {
            return false;
        }
    }
    return true;
}

static struct posix_template *find(struct posix_templates *templates,
                                   const struct dev_runner_job *job)
{
    for (uint32_t i = 0; i < POSIX_TEMPLATES_MAX; i++) {
        if (is_of(&templates->places[i], job)) {
            return &templates->places[i];
        }
    }
    return NULL;
}

// A free place, or the one used longest ago, emptied.
static struct posix_template *place_make(struct posix_templates *templates)
{
    struct posix_template *found = &templates->places[0];
    for (uint32_t i = 1; i < POSIX_TEMPLATES_MAX; i++) {
        struct posix_template *place = &templates->places[i];
        if (found->digests != NULL && (place->digests == NULL || place->used < found->used)) {
            found = place;
        }
    }
    place_clear(found);
    return found;
}

// ---- Talking

// The next frame, if it is there: templates write theirs at once. TIMEOUT: not yet; CLOSED,
// INVALID.
static enum base_status frame_take(const struct posix_template *place, uint32_t kind,
                                   uint8_t *frame, size_t body_size)
{
    uint32_t got_kind = 0;
    size_t size = 0;
    ssize_t got = recv(place->self.fd, frame, DEV_RUNNER_HEAD_BYTES + body_size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return BASE_ERR_TIMEOUT;
    }
    if (got != (ssize_t)(DEV_RUNNER_HEAD_BYTES + body_size)) {
        return BASE_ERR_CLOSED;
    }
    BASE_TRY(dev_runner_head_parse(frame, &got_kind, &size));
    return got_kind == kind && size == body_size ? BASE_OK : BASE_ERR_INVALID;
}

// TIMEOUT: it still reads its models.
static enum base_status models_wait(struct posix_template *place)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES];
    if (!place->ready) {
        BASE_TRY(frame_take(place, DEV_RUNNER_STARTED, frame, 0));
        place->ready = true;
    }
    return BASE_OK;
}

// A child of this process that the template made; nobody else can have put it into that group.
static bool is_made_by(const struct posix_template *place, pid_t pid)
{
    const struct posix_process process = {.pid = pid};
    return pid > 0 && pid != place->self.pid && posix_process_lives(&process) &&
           getpgid(pid) == place->self.pid;
}

// The process that was asked for. TIMEOUT, CLOSED, INVALID.
static enum base_status next_take(struct posix_template *place, struct posix_process *out)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_FORKED_BYTES];
    struct base_reader reader;
    uint64_t until_us = base_clock_mono_us() + (uint64_t)POSIX_TEMPLATE_FORK_MS * 1000;
    BASE_TRY(posix_process_wait(place->self.fd, POLLIN, until_us));
    BASE_TRY(frame_take(place, DEV_RUNNER_FORKED, frame, DEV_RUNNER_FORKED_BYTES));
    base_reader_init(&reader, frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_FORKED_BYTES);
    pid_t pid = (pid_t)base_reader_u32(&reader);
    if (!is_made_by(place, pid)) {
        return BASE_ERR_INVALID;
    }
    *out = (struct posix_process){.pid = pid, .fd = place->next.fd};
    place->next = (struct posix_process){.pid = 0, .fd = -1};
    return BASE_OK;
}

static bool next_ask(struct posix_template *place)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    dev_runner_head_write(frame, DEV_RUNNER_FORK, 0);
    bool sent = posix_process_give(place->self.fd, frame, sizeof(frame), &pair[1], 1) == BASE_OK;
    (void)close(pair[1]);
    if (!sent) {
        (void)close(pair[0]);
        return false;
    }
    place->next.fd = pair[0];
    return true;
}

// ---- Runs

static bool fits(const struct dev_runner_bounds *run, const struct dev_runner_bounds *most)
{
    return run->memory_bytes <= most->memory_bytes && run->time_ms <= most->time_ms;
}

bool posix_template_take(struct posix_templates *templates, const struct dev_runner_job *job,
                         const struct dev_runner_bounds *bounds, struct posix_process *out)
{
    struct posix_template *place = find(templates, job);
    if (place == NULL || place->next.fd < 0 || !fits(bounds, &place->bounds)) {
        return false;
    }
    enum base_status status = models_wait(place);
    bool reads = status == BASE_ERR_TIMEOUT;
    if (status == BASE_OK) {
        status = next_take(place, out);
    }
    if (status != BASE_OK && !reads) {
        give_up(place);
    }
    return status == BASE_OK;
}

void posix_template_blame(struct posix_templates *templates, const struct dev_runner_job *job)
{
    struct posix_template *place = find(templates, job);
    if (place != NULL) {
        give_up(place);
    }
}

// Its own job: the models alone.
static enum base_status place_fill(struct posix_template *place, const struct dev_runner_job *job,
                                   const struct dev_runner_bounds *bounds)
{
    const struct dev_vm_job vm = {.models = job->vm->models,
                                  .model_count = job->vm->model_count,
                                  .model_memory_max = job->vm->model_memory_max};
    place->digests = calloc(vm.model_count, sizeof(*place->digests));
    if (place->digests == NULL) {
        return BASE_ERR_NOMEM;
    }
    place->count = vm.model_count;
    place->model_memory_max = vm.model_memory_max;
    for (uint32_t i = 0; i < vm.model_count; i++) {
        place->digests[i] = vm.models[i].digest;
    }
    place->bounds = *bounds;
    place->bounds.memory_bytes += POSIX_TEMPLATE_MORE_BYTES;
    if (place->bounds.time_ms < POSIX_TEMPLATE_CPU_MS) {
        place->bounds.time_ms = POSIX_TEMPLATE_CPU_MS;
    }
    return posix_memfd_job(&(struct dev_runner_job){.vm = &vm}, &place->files[0],
                           &place->bounds.job_bytes);
}

void posix_template_note(struct posix_templates *templates, const struct dev_runner_job *job,
                         const struct dev_runner_bounds *bounds, int models_fd)
{
    struct posix_template *place = find(templates, job);
    if (bounds->models_bytes > POSIX_TEMPLATE_BYTES) {
        return;
    }
    if (place == NULL) {
        place = place_make(templates);
        if (place_fill(place, job, bounds) != BASE_OK) {
            place_clear(place);
            return;
        }
        place->files[1] = fcntl(models_fd, F_DUPFD_CLOEXEC, 0);
    }
    place->runs++;
    place->used = ++templates->clock;
}

static void place_ready(struct posix_template *place, const char *runner_path)
{
    if (place->digests == NULL || place->failed || place->runs < POSIX_TEMPLATE_AFTER) {
        return;
    }
    bool going = true;
    if (place->self.pid == 0) {
        going = place->files[1] >= 0 && posix_process_start(runner_path, &place->self) == 0 &&
                posix_process_job(place->self.fd, DEV_RUNNER_TEMPLATE, &place->bounds, place->files,
                                  2) == BASE_OK;
        files_close(place);
    }
    if (going && place->next.fd < 0) {
        going = next_ask(place);
    }
    if (!going) {
        give_up(place);
    }
}

void posix_template_ready(struct posix_templates *templates, const char *runner_path)
{
    for (uint32_t i = 0; i < POSIX_TEMPLATES_MAX; i++) {
        place_ready(&templates->places[i], runner_path);
    }
}
