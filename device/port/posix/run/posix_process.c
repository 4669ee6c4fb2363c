// Processes of walle-task-runner: started with a group, an environment and descriptors of their
// own, given files, read with deadlines, reaped. Called by posix_child.c and posix_template.c,
// which own them, on their threads; no state but the caller's struct. Channels are stream sockets;
// a new one has room for any frame that is given here, so that giving never blocks on a process
// that does not read.
#include "posix/run/posix_process.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX 2

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

int posix_process_start(const char *path, struct posix_process *out)
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
    *out = (struct posix_process){.pid = pid, .fd = pair[0]};
    return 0;
}

int posix_process_end(struct posix_process *process)
{
    int status = -1;
    if (process->pid == 0) {
        return status;
    }
    (void)kill(process->pid, SIGKILL);
    while (waitpid(process->pid, &status, 0) < 0) {
        if (errno != EINTR) {
            status = -1;
            break;
        }
    }
    (void)close(process->fd);
    *process = (struct posix_process){.pid = 0};
    return status;
}

bool posix_process_lives(const struct posix_process *process)
{
    siginfo_t info = {.si_pid = 0};
    return process->pid != 0 &&
           waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

// ---- Talking

enum base_status posix_process_wait(int fd, short what, uint64_t until_us)
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

enum base_status posix_process_read(int fd, uint8_t *out, size_t size, uint64_t until_us)
{
    while (size > 0) {
        ssize_t got = recv(fd, out, size, MSG_DONTWAIT);
        if (got > 0) {
            out += got;
            size -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            BASE_TRY(posix_process_wait(fd, POLLIN, until_us));
        } else if (got == 0 || errno != EINTR) {
            return BASE_ERR_CLOSED;
        }
    }
    return BASE_OK;
}

enum base_status posix_process_give(int channel, const uint8_t *frame, size_t size,
                                    const int *files, size_t count)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
    } control;
    base_check(count <= FILES_MAX);
    memset(&control, 0, sizeof(control));
    struct iovec part = {.iov_base = (void *)(uintptr_t)frame, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), files, count * sizeof(int));
    ssize_t put = sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return put == (ssize_t)size ? BASE_OK : BASE_ERR_CLOSED;
}

enum base_status posix_process_job(int channel, uint32_t kind,
                                   const struct dev_runner_bounds *bounds, const int *files,
                                   size_t count)
{
    uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_JOB_BYTES];
    dev_runner_head_write(frame, kind, DEV_RUNNER_JOB_BYTES);
    dev_runner_bounds_write(frame + DEV_RUNNER_HEAD_BYTES, bounds);
    return posix_process_give(channel, frame, sizeof(frame), files, count);
}
