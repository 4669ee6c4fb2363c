// Limits and the system-call filter of a task's process. Called by task_runner.c in that process
// alone, while it has one thread. In a file of its own because it is the one that includes
// seccomp.h (tests/tidy), and the one to read for what a script can reach: the filter names what is
// left, and everything else ends the process. Loading comes last, after descriptors are closed and
// limits set, since the calls for those are not left either.
#include "runner/runner_wall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RUNNER_SANITIZED
#define RUNNER_SANITIZED 0
#endif

#define FD_MAX   65536 // closed one by one where the kernel has no close_range
#define MAP_KIND 0xfu  // MAP_PRIVATE or MAP_SHARED

static enum base_status failed(struct base_error *error, const char *what, int number)
{
    return base_error_set(error, number == ENOMEM ? BASE_ERR_NOMEM : BASE_ERR_UNSUPPORTED, "%s: %s",
                          what, strerror(number));
}

// ---- The filter: what is not named here ends the process

struct rule {
    int call;
    unsigned count;
    struct scmp_arg_cmp args[3];
};

#define EQUALS(at, value) SCMP_CMP64((at), SCMP_CMP_EQ, (uint64_t)(value))
#define MASKED(at, mask, value)                                                                    \
    SCMP_CMP64((at), SCMP_CMP_MASKED_EQ, (uint64_t)(mask), (uint64_t)(value))

static enum base_status rules_add(scmp_filter_ctx filter, uint32_t action, const struct rule *rules,
                                  size_t count, struct base_error *error)
{
    for (size_t i = 0; i < count; i++) {
        int result =
            seccomp_rule_add_array(filter, action, rules[i].call, rules[i].count, rules[i].args);
        if (result != 0) {
            return failed(error, "seccomp: a rule of the filter", -result);
        }
    }
    return BASE_OK;
}

// The channel, memory that cannot be executed, clock and entropy, and the ways to end.
static enum base_status needed_add(scmp_filter_ctx filter, struct base_error *error)
{
    const struct rule rules[] = {
        {SCMP_SYS(read), 1, {EQUALS(0, DEV_RUNNER_FD)}},
        {SCMP_SYS(write), 1, {EQUALS(0, DEV_RUNNER_FD)}},
        {SCMP_SYS(munmap), 0, {{0}}},
        {SCMP_SYS(mremap), 0, {{0}}},
        {SCMP_SYS(brk), 0, {{0}}},
        {SCMP_SYS(madvise), 1, {EQUALS(2, MADV_DONTNEED)}},
        {SCMP_SYS(madvise), 1, {EQUALS(2, MADV_FREE)}},
        {SCMP_SYS(futex), 1, {MASKED(1, FUTEX_CMD_MASK, FUTEX_WAIT)}},
        {SCMP_SYS(futex), 1, {MASKED(1, FUTEX_CMD_MASK, FUTEX_WAKE)}},
        {SCMP_SYS(clock_gettime), 0, {{0}}},
        {SCMP_SYS(getrandom), 0, {{0}}}, // seeds of the tensor engine's tables
        {SCMP_SYS(restart_syscall), 0, {{0}}},
        {SCMP_SYS(rt_sigreturn), 0, {{0}}},
        {SCMP_SYS(exit_group), 0, {{0}}},
        {SCMP_SYS(rt_sigprocmask), 0, {{0}}},
        {SCMP_SYS(getpid), 0, {{0}}},
        {SCMP_SYS(gettid), 0, {{0}}},
    };
    return rules_add(filter, SCMP_ACT_ALLOW, rules, sizeof(rules) / sizeof(rules[0]), error);
}

// A run's own: memory of no file; abort(), so that a failed check is told from a forbidden call.
static enum base_status run_add(scmp_filter_ctx filter, struct base_error *error)
{
    const struct rule rules[] = {
        {SCMP_SYS(mmap),
         2,
         {MASKED(2, PROT_EXEC, 0),
          MASKED(3, MAP_ANONYMOUS | MAP_KIND, MAP_ANONYMOUS | MAP_PRIVATE)}},
        {SCMP_SYS(tgkill), 2, {EQUALS(0, getpid()), EQUALS(2, SIGABRT)}},
    };
    if (RUNNER_SANITIZED) { // the sanitizer asks for the stack's; a template's processes set theirs
        const struct rule refused = {SCMP_SYS(prlimit64), 0, {{0}}};
        BASE_TRY(rules_add(filter, SCMP_ACT_ERRNO(EACCES), &refused, 1, error));
    }
    return rules_add(filter, SCMP_ACT_ALLOW, rules, sizeof(rules) / sizeof(rules[0]), error);
}

// A template's own: to make a process that its parent reaps, and what that one does until its wall
// is up. All descriptors it can have were given to it by the agent.
static enum base_status template_add(scmp_filter_ctx filter, struct base_error *error)
{
    const struct rule rules[] = {
        {SCMP_SYS(mmap), 2, {MASKED(2, PROT_EXEC, 0), MASKED(3, MAP_KIND, MAP_PRIVATE)}},
        {SCMP_SYS(clone), 1, {EQUALS(0, CLONE_PARENT | SIGCHLD)}},
        {SCMP_SYS(recvmsg), 1, {EQUALS(0, DEV_RUNNER_FD)}},
        {SCMP_SYS(dup3), 1, {EQUALS(1, DEV_RUNNER_FD)}},
        {SCMP_SYS(close), 0, {{0}}},
        {SCMP_SYS(close_range), 0, {{0}}},
        {SCMP_SYS(fcntl), 1, {EQUALS(1, F_GET_SEALS)}},
        {SCMP_SYS(lseek), 0, {{0}}},
        {SCMP_SYS(prctl), 2, {EQUALS(0, PR_SET_PDEATHSIG), EQUALS(1, SIGKILL)}},
        {SCMP_SYS(prctl), 2, {EQUALS(0, PR_SET_DUMPABLE), EQUALS(1, 0)}},
        {SCMP_SYS(prctl), 2, {EQUALS(0, PR_SET_NO_NEW_PRIVS), EQUALS(1, 1)}},
        {SCMP_SYS(prlimit64), 1, {EQUALS(0, 0)}}, // of itself
        {SCMP_SYS(setrlimit), 0, {{0}}},
        {SCMP_SYS(seccomp), 1, {EQUALS(0, SECCOMP_SET_MODE_FILTER)}},
    };
    return rules_add(filter, SCMP_ACT_ALLOW, rules, sizeof(rules) / sizeof(rules[0]), error);
}

#if RUNNER_SANITIZED
static enum base_status sanitizer_add(scmp_filter_ctx filter, struct base_error *error)
{
    const struct rule allowed[] = {
        {SCMP_SYS(write), 1, {EQUALS(0, STDERR_FILENO)}},
        {SCMP_SYS(mmap), 2, {MASKED(2, PROT_EXEC, 0), MASKED(3, MAP_ANONYMOUS, MAP_ANONYMOUS)}},
        {SCMP_SYS(mprotect), 1, {MASKED(2, PROT_EXEC, 0)}},
        {SCMP_SYS(madvise), 1, {EQUALS(2, MADV_NOHUGEPAGE)}},
        {SCMP_SYS(madvise), 1, {EQUALS(2, MADV_DONTDUMP)}},
        {SCMP_SYS(sigaltstack), 0, {{0}}},
        {SCMP_SYS(sched_yield), 0, {{0}}},
        {SCMP_SYS(nanosleep), 0, {{0}}},
        {SCMP_SYS(clock_nanosleep), 0, {{0}}},
        {SCMP_SYS(gettimeofday), 0, {{0}}},
        {SCMP_SYS(getrusage), 0, {{0}}},
        {SCMP_SYS(rt_sigaction), 0, {{0}}},
        {SCMP_SYS(exit), 0, {{0}}},
    };
    const struct rule refused[] = {
        {SCMP_SYS(openat), 0, {{0}}},
        {SCMP_SYS(readlinkat), 0, {{0}}},
        {SCMP_SYS(newfstatat), 0, {{0}}},
        {SCMP_SYS(faccessat), 0, {{0}}},
        {SCMP_SYS(ioctl), 0, {{0}}},
        {SCMP_SYS(sched_getaffinity), 0, {{0}}},
#if defined(__x86_64__)
        {SCMP_SYS(open), 0, {{0}}},
        {SCMP_SYS(readlink), 0, {{0}}},
        {SCMP_SYS(stat), 0, {{0}}},
        {SCMP_SYS(access), 0, {{0}}},
#endif
    };
    BASE_TRY(
        rules_add(filter, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(allowed[0]), error));
    return rules_add(filter, SCMP_ACT_ERRNO(EACCES), refused, sizeof(refused) / sizeof(refused[0]),
                     error);
}
#else
static enum base_status sanitizer_add(scmp_filter_ctx filter, struct base_error *error)
{
    (void)filter;
    (void)error;
    return BASE_OK;
}
#endif

typedef enum base_status (*add_fn)(scmp_filter_ctx filter, struct base_error *error);

// What every process here needs, and what `own` adds.
static enum base_status filter_make(add_fn own, scmp_filter_ctx *out_filter,
                                    struct base_error *error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (filter == NULL) {
        return failed(error, "seccomp", ENOMEM);
    }
    // Calls of another architecture end the process too, and threads there are (a sanitizer's own)
    // get the filter as well.
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (result == 0) {
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    }
    enum base_status status =
        result == 0 ? needed_add(filter, error) : failed(error, "seccomp", -result);
    if (status == BASE_OK) {
        status = own(filter, error);
    }
    if (status == BASE_OK) {
        status = sanitizer_add(filter, error);
    }
    if (status != BASE_OK) {
        seccomp_release(filter);
        return status;
    }
    *out_filter = filter;
    return BASE_OK;
}

// ---- What was inherited

// A sanitizer's report goes where the agent's messages go.
static void descriptors_close(void)
{
    for (int fd = 0; fd < (RUNNER_SANITIZED ? STDERR_FILENO : DEV_RUNNER_FD); fd++) {
        (void)close(fd);
    }
#ifdef SYS_close_range
    if (syscall(SYS_close_range, DEV_RUNNER_FD + 1, ~0u, 0) == 0) {
        return;
    }
#endif
    for (int fd = DEV_RUNNER_FD + 1; fd < FD_MAX; fd++) {
        (void)close(fd);
    }
}

enum base_status dev_wall_prepare(struct dev_wall *out, struct base_error *error)
{
    // When the agent is gone before this call, the channel ends.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0) {
        return failed(error, "prctl", errno);
    }
    descriptors_close();
    scmp_filter_ctx filter = NULL;
    BASE_TRY(filter_make(run_add, &filter, error));
    out->filter = filter;
    return BASE_OK;
}

// ---- Limits

// Never more than the process was born with: what is lower already is the better wall.
static enum base_status limit(int which, const char *name, uint64_t most, struct base_error *error)
{
    struct rlimit value;
    if (getrlimit((__rlimit_resource_t)which, &value) != 0) {
        return failed(error, name, errno);
    }
    if (value.rlim_max == RLIM_INFINITY || value.rlim_max > (rlim_t)most) {
        value.rlim_max = (rlim_t)most;
    }
    value.rlim_cur = value.rlim_max;
    return setrlimit((__rlimit_resource_t)which, &value) == 0 ? BASE_OK
                                                              : failed(error, name, errno);
}

// What a template bounds, too, for itself and for what it makes.
static enum base_status limits_first(const struct dev_runner_bounds *bounds,
                                     struct base_error *error)
{
    if (!RUNNER_SANITIZED) {
        BASE_TRY(limit(RLIMIT_AS, "RLIMIT_AS", bounds->memory_bytes, error));
        BASE_TRY(limit(RLIMIT_STACK, "RLIMIT_STACK", DEV_WALL_STACK_BYTES, error));
    }
    uint64_t cpu_s = (bounds->time_ms + 999) / 1000 + DEV_WALL_CPU_GRACE_S;
    BASE_TRY(limit(RLIMIT_CPU, "RLIMIT_CPU", cpu_s, error));
    BASE_TRY(limit(RLIMIT_FSIZE, "RLIMIT_FSIZE", 0, error));
    BASE_TRY(limit(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", 0, error));
    BASE_TRY(limit(RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE", 0, error));
    return limit(RLIMIT_CORE, "RLIMIT_CORE", 0, error);
}

static enum base_status limits_set(const struct dev_runner_bounds *bounds, struct base_error *error)
{
    BASE_TRY(limits_first(bounds, error));
    if (!RUNNER_SANITIZED) {
        BASE_TRY(limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", 0, error));
    }
    return limit(RLIMIT_NPROC, "RLIMIT_NPROC", 0, error);
}

static enum base_status filter_load(scmp_filter_ctx filter, struct base_error *error)
{
    int result = seccomp_load(filter); // sets no_new_privs first
    if (result != 0) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "the kernel refuses seccomp: %s",
                              strerror(-result));
    }
    return BASE_OK;
}

enum base_status dev_wall_raise(struct dev_wall *wall, const struct dev_runner_bounds *bounds,
                                struct base_error *error)
{
    BASE_TRY(limits_set(bounds, error));
    return filter_load(wall->filter, error);
}

enum base_status dev_wall_template(const struct dev_runner_bounds *bounds, struct base_error *error)
{
    scmp_filter_ctx filter = NULL;
    BASE_TRY(limits_first(bounds, error));
    BASE_TRY(filter_make(template_add, &filter, error));
    enum base_status status = filter_load(filter, error);
    seccomp_release(filter);
    return status;
}
