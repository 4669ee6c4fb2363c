// A task's process that does what a script out of its VM would try. It stands in for
// walle-task-runner in tests and puts up the same wall, of the same source, built as it ships (no
// sanitizer). Its job holds "deed:NAME;" somewhere, or "bare:NAME;" to do the deed without a wall.
//
// As a template it finds the same in its models, and does the deed behind the template's wall; or
// "claim:NUMBER;", and says that number when it is asked for a process; or "claim:self;", or
// "claim:child;", and says its own number or that of a child of its own.
//
// After the deed it says END with "walked out" as its message: the deed went through.
#include "runner/runner_channel.h"
#include "runner/runner_end.h"
#include "runner/runner_template.h"
#include "runner/runner_wall.h"

#include "base/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_MAX_BYTES 32
#define BLOCK_BYTES    ((size_t)1 << 20)
#define BLOCKS_MAX     4096

static uint8_t frame[DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_FRAME_MAX];

static void walked_out(const char *text)
{
    static struct dev_vm_result result = {.end = DEV_VM_EXCEPTION};
    struct base_writer writer;
    (void)snprintf(result.message, sizeof(result.message), "%s", text);
    base_writer_init(&writer, frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_END_MAX);
    dev_runner_end_write(&writer, BASE_OK, &result);
    if (dev_runner_frame_send(frame, DEV_RUNNER_END, base_writer_size(&writer)) != BASE_OK) {
        _exit(3);
    }
}

// ---- Deeds: true when what was tried worked

static bool deed_open(void)
{
    return open("/etc/passwd", O_RDONLY) >= 0;
}

static bool deed_create(void)
{
    int fd = open("/tmp/walle-wall-breaker", O_CREAT | O_RDWR, 0600);
    (void)unlink("/tmp/walle-wall-breaker");
    return fd >= 0;
}

static bool deed_stat(void)
{
    return access("/", R_OK) == 0;
}

static bool deed_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}

static bool deed_connect(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(1)};
    return connect(0, (const struct sockaddr *)&address, sizeof(address)) < 0; // it got to the call
}

static bool deed_execve(void)
{
    char *const none[] = {NULL};
    return execve("/nonexistent", none, none) < 0; // "
}

static bool deed_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    return pid > 0;
}

static bool deed_ptrace(void)
{
    return ptrace(PTRACE_ATTACH, 0, NULL, NULL) < 0; // "
}

static bool deed_kill(void)
{
    return kill((pid_t)syscall(SYS_getppid), 0) == 0;
}

static bool deed_tgkill(void)
{
    return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0) == 0;
}

static bool deed_executable(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) != MAP_FAILED;
}

static bool deed_mprotect(void)
{
    uintptr_t at = (uintptr_t)frame & ~(uintptr_t)4095;
    return mprotect((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

static bool deed_memory(void)
{
    size_t count = 0;
    while (count < BLOCKS_MAX && mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        count++;
    }
    return count == BLOCKS_MAX; // 4 GiB
}

static bool deed_brk(void)
{
    char *end = sbrk(0);
    return brk(end + (size_t)BLOCKS_MAX * BLOCK_BYTES) == 0;
}

static bool deed_setrlimit(void)
{
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    return setrlimit(RLIMIT_CORE, &none) == 0 || errno != 0;
}

static bool deed_prctl(void)
{
    return prctl(PR_SET_DUMPABLE, 1) == 0;
}

static bool deed_descriptor(void)
{
    return dup(DEV_RUNNER_FD) >= 0;
}

static bool deed_inherited(void)
{
    for (int fd = 0; fd < 256; fd++) { // more than the agent has open
        if (fd != DEV_RUNNER_FD && fcntl(fd, F_GETFD) >= 0) {
            return true;
        }
    }
    return false;
}

static bool deed_sendmsg(void)
{
    struct msghdr message = {.msg_iov = NULL};
    return sendmsg(DEV_RUNNER_FD, &message, MSG_NOSIGNAL) >= 0;
}

static bool deed_memfd(void)
{
    return memfd_create("x", 0) >= 0;
}

static bool deed_io_uring(void)
{
    char parameters[256] = {0};
    return syscall(SYS_io_uring_setup, 1, parameters) >= 0 || errno != 0;
}

static bool deed_seccomp(void)
{
    unsigned int action = SECCOMP_RET_KILL_PROCESS;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static bool deed_compat(void)
{
#if defined(__x86_64__)
    long result = 20; // getpid of the 32-bit table
    __asm__ volatile("int $0x80" : "+a"(result)::"memory");
    return result > 0;
#else
    return socket(AF_INET, SOCK_STREAM, 0) >= 0;
#endif
}

static bool deed_thread(void)
{
    return syscall(SYS_clone3, NULL, 0) < 0; // it got to the call
}

static _Noreturn void spin(void)
{
    for (volatile uint64_t i = 0;; i++) {
    }
}

static bool deed_busy(void)
{
    spin();
}

static bool deed_silent(void)
{
    uint8_t byte;
    while (read(DEV_RUNNER_FD, &byte, 1) > 0) {
    }
    return true;
}

static bool deed_exit(void)
{
    _exit(0);
}

static bool deed_crash(void)
{
    (void)raise(SIGABRT);
    return true;
}

static bool deed_segv(void)
{
    *(volatile char *)8 = 1;
    return true;
}

static void raw_write(const void *bytes, size_t size)
{
    if (write(DEV_RUNNER_FD, bytes, size) < 0) {
        _exit(3);
    }
}

static bool deed_garbage(void)
{
    memset(frame, 0xa5, sizeof(frame));
    raw_write(frame, 4096);
    return deed_silent();
}

static bool deed_huge(void) // a size no frame has
{
    static const uint8_t head[DEV_RUNNER_HEAD_BYTES] = {DEV_RUNNER_END, 0,    0,    0,
                                                        0xff,           0xff, 0xff, 0x7f};
    raw_write(head, sizeof(head));
    return deed_silent();
}

static bool deed_half(void) // a frame that never ends
{
    dev_runner_head_write(frame, DEV_RUNNER_END, 1000);
    raw_write(frame, 100);
    return deed_silent();
}

static bool deed_again(void) // STARTED once more
{
    dev_runner_head_write(frame, DEV_RUNNER_STARTED, 0);
    raw_write(frame, DEV_RUNNER_HEAD_BYTES);
    return deed_silent();
}

static bool deed_end(void) // END of random bytes
{
    dev_runner_head_write(frame, DEV_RUNNER_END, 600);
    memset(frame + DEV_RUNNER_HEAD_BYTES, 0x7f, 600);
    raw_write(frame, DEV_RUNNER_HEAD_BYTES + 600);
    return deed_silent();
}

static bool deed_query(void) // a question with a name no script can write
{
    struct base_writer writer;
    base_writer_init(&writer, frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_QUERY_MAX);
    base_writer_u8(&writer, 0);
    base_writer_u8(&writer, 5);
    base_writer_bytes(&writer, "../up", 5);
    base_writer_u8(&writer, 0);
    base_writer_u64(&writer, 0);
    base_writer_u64(&writer, 0);
    base_writer_u32(&writer, 0);
    dev_runner_head_write(frame, DEV_RUNNER_QUERY, base_writer_size(&writer));
    raw_write(frame, DEV_RUNNER_HEAD_BYTES + base_writer_size(&writer));
    return deed_silent();
}

static bool deed_nothing(void)
{
    return true;
}

static const struct {
    const char *name;
    bool (*act)(void);
} deeds[] = {
    {"nothing", deed_nothing},
    {"open", deed_open},
    {"create", deed_create},
    {"stat", deed_stat},
    {"socket", deed_socket},
    {"connect", deed_connect},
    {"execve", deed_execve},
    {"fork", deed_fork},
    {"thread", deed_thread},
    {"ptrace", deed_ptrace},
    {"kill", deed_kill},
    {"tgkill", deed_tgkill},
    {"exec_map", deed_executable},
    {"mprotect", deed_mprotect},
    {"memory", deed_memory},
    {"brk", deed_brk},
    {"setrlimit", deed_setrlimit},
    {"prctl", deed_prctl},
    {"dup", deed_descriptor},
    {"inherited", deed_inherited},
    {"sendmsg", deed_sendmsg},
    {"memfd", deed_memfd},
    {"io_uring", deed_io_uring},
    {"seccomp", deed_seccomp},
    {"compat", deed_compat},
    {"busy", deed_busy},
    {"silent", deed_silent},
    {"exit", deed_exit},
    {"abort", deed_crash},
    {"segv", deed_segv},
    {"garbage", deed_garbage},
    {"huge", deed_huge},
    {"half", deed_half},
    {"again", deed_again},
    {"end", deed_end},
    {"query", deed_query},
};

static bool (*deed_find(const uint8_t *job, size_t size, const char *mark))(void)
{
    const uint8_t *at = memmem(job, size, mark, strlen(mark));
    if (at == NULL) {
        return NULL;
    }
    at += strlen(mark);
    const uint8_t *end = memchr(at, ';', NAME_MAX_BYTES);
    for (size_t i = 0; end != NULL && i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        size_t length = strlen(deeds[i].name);
        if (length == (size_t)(end - at) && memcmp(at, deeds[i].name, length) == 0) {
            return deeds[i].act;
        }
    }
    return NULL;
}

// ---- As a template

// Says that the process it was asked for is one that it did not make, or not for the agent. Returns
// what is to be said of the job that a child of its own, or itself, would take.
static const char *claim(const char *what)
{
    int channel = -1;
    struct base_writer writer;
    dev_runner_head_write(frame, DEV_RUNNER_STARTED, 0);
    raw_write(frame, DEV_RUNNER_HEAD_BYTES);
    if (dev_runner_fork_receive(&channel) != BASE_OK) {
        _exit(3);
    }
    uint32_t pid = (uint32_t)strtoul(what, NULL, 10);
    bool self = strncmp(what, "self;", 5) == 0;
    if (self) {
        pid = (uint32_t)getpid();
    } else if (strncmp(what, "child;", 6) == 0) {
        pid = (uint32_t)fork();
        if (pid == 0) {
            (void)dup3(channel, DEV_RUNNER_FD, 0);
            return "a template's child";
        }
    }
    base_writer_init(&writer, frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_FORKED_BYTES);
    base_writer_u32(&writer, pid);
    dev_runner_head_write(frame, DEV_RUNNER_FORKED, DEV_RUNNER_FORKED_BYTES);
    raw_write(frame, DEV_RUNNER_HEAD_BYTES + DEV_RUNNER_FORKED_BYTES);
    if (self) {
        (void)dup3(channel, DEV_RUNNER_FD, 0);
        return "a template";
    }
    for (;;) {
        (void)deed_silent();
    }
}

// Returns what is to be said of a job, in a process of the template when the deed was done, and in
// none when it was not.
static const char *template_be(struct dev_runner_files *files)
{
    struct base_error error = {0};
    size_t size = (size_t)files->bounds.models_bytes;
    const uint8_t *found = memmem(files->models, size, "claim:", 6);
    if (found != NULL) {
        return claim((const char *)found + 6);
    }
    bool (*act)(void) = deed_find(files->models, size, "bare:");
    if (act == NULL) {
        act = deed_find(files->models, size, "deed:");
        if (dev_wall_template(&files->bounds, &error) != BASE_OK) {
            _exit(3);
        }
    }
    errno = 0;
    bool done = act == NULL || act();
    dev_runner_head_write(frame, DEV_RUNNER_STARTED, 0);
    raw_write(frame, DEV_RUNNER_HEAD_BYTES);
    if (!done || dev_template_serve(frame) != BASE_OK) {
        _exit(0);
    }
    return "walked out";
}

int main(void)
{
    struct dev_runner_files files;
    struct dev_wall wall;
    struct base_error error = {0};
    if (dev_wall_prepare(&wall, &error) != BASE_OK || dev_runner_job_receive(&files) != BASE_OK) {
        return 3;
    }
    const char *text = "walked out";
    if (files.is_template) {
        text = template_be(&files);
        if (dev_wall_prepare(&wall, &error) != BASE_OK ||
            dev_runner_job_receive(&files) != BASE_OK) {
            return 3;
        }
    }
    size_t size = (size_t)files.bounds.job_bytes;
    bool (*act)(void) = deed_find(files.job, size, "bare:");
    if (act == NULL) {
        act = deed_find(files.job, size, "deed:");
        if (dev_wall_raise(&wall, &files.bounds, &error) != BASE_OK) {
            return 3;
        }
    }
    if (dev_runner_frame_send(frame, DEV_RUNNER_STARTED, 0) != BASE_OK) {
        return 3;
    }
    errno = 0;
    walked_out(act == NULL || act() ? text : "held");
    for (;;) { // until the agent ends it
        (void)deed_silent();
    }
}
