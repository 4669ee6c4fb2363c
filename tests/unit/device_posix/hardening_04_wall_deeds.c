// What a task's process tries when a script has got out of its VM, and how the wall and the agent's
// side of the channel end it. Each deed goes through where there is no wall, so the cases can fail.
#include "base/clock.h"
#include "posix/run/posix_child.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TIME_MS 100

static struct posix_children *children;

static int setup(void **state)
{
    (void)state;
    struct base_error error = {0};
    if (posix_children_new(WALLE_WALL_BREAKER, &children, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    posix_children_free(children);
    children = NULL;
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no zombie, no process left
    return 0;
}

static struct posix_child_report run(const char *mark, const char *deed)
{
    char config[64];
    snprintf(config, sizeof(config), "%s:%s;", mark, deed);
    const struct dev_vm_job vm = {
        .entry = BASE_STR("main"), .config = base_str_of(config), .time_ms = TIME_MS};
    const struct dev_runner_job job = {.vm = &vm};
    struct posix_child_report report;
    posix_child_run(children, &job, &report);
    assert_int_equal(posix_child_ready(children), BASE_OK); // as the task worker does
    return report;
}

static void died_of(const char *deed, const char *signal_name)
{
    struct posix_child_report report = run("deed", deed);
    if (report.how != POSIX_CHILD_DIED || strstr(report.text, signal_name) == NULL) {
        fail_msg("%s: how %d, '%s' %s", deed, report.how, report.text,
                 report.how == POSIX_CHILD_ENDED ? report.end->result.message : "");
    }
}

static void walks_out_without_a_wall(const char *deed)
{
    struct posix_child_report report = run("bare", deed);
    if (report.how != POSIX_CHILD_ENDED || strcmp(report.end->result.message, "walked out") != 0) {
        fail_msg("%s without a wall: how %d, '%s'", deed, report.how, report.text);
    }
}

static void test_forbidden_calls_end_the_process(void **state)
{
    (void)state;
    static const char *const deeds[] = {
        "open",     "create",    "stat",  "socket", "connect",  "execve",  "fork",
        "thread",   "ptrace",    "kill",  "tgkill", "dup",      "sendmsg", "exec_map",
        "mprotect", "setrlimit", "prctl", "memfd",  "io_uring", "seccomp",
    };
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        walks_out_without_a_wall(deeds[i]);
        died_of(deeds[i], "SIGSYS");
    }
    died_of("compat", "SIG"); // the 32-bit table; a kernel without it says SIGSEGV
}

static void test_the_process_of_a_good_run_ends_too(void **state)
{
    (void)state;
    struct posix_child_report report = run("deed", "nothing");
    assert_int_equal(report.how, POSIX_CHILD_ENDED);
    assert_string_equal(report.end->result.message, "walked out");
    assert_int_equal(kill(report.pid, 0), -1);
    struct posix_child_report next = run("deed", "nothing");
    assert_int_not_equal(report.pid, next.pid);
}

static void test_memory_has_a_limit(void **state)
{
    (void)state;
    walks_out_without_a_wall("memory");
    static const char *const deeds[] = {"memory", "brk"};
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        struct posix_child_report report = run("deed", deeds[i]);
        assert_int_equal(report.how, POSIX_CHILD_ENDED);
        assert_string_equal(report.end->result.message, "held");
    }
}

static void test_nothing_is_inherited(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(pipe(pair), 0); // not marked close-on-exec, as an embedding app's may be
    posix_children_free(children);
    assert_int_equal(setup(NULL), 0);
    struct posix_child_report report = run("bare", "inherited");
    assert_int_equal(report.how, POSIX_CHILD_ENDED);
    assert_string_equal(report.end->result.message, "held");
    close(pair[0]);
    close(pair[1]);
}

static void test_silence_ends_at_the_deadline(void **state)
{
    (void)state;
    static const char *const deeds[] = {"busy", "silent", "half"};
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        assert_int_equal(run("deed", deeds[i]).how, POSIX_CHILD_SILENT);
    }
}

static void test_lies_are_seen(void **state)
{
    (void)state;
    static const char *const deeds[] = {"garbage", "huge", "again", "end", "query"};
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        struct posix_child_report report = run("deed", deeds[i]);
        if (report.how != POSIX_CHILD_LIED) {
            fail_msg("%s: how %d, '%s'", deeds[i], report.how, report.text);
        }
        assert_non_null(strstr(report.text, "what no VM sends"));
    }
}

static void test_deaths_are_told_by_their_signal(void **state)
{
    (void)state;
    died_of("abort", "SIGABRT");
    died_of("segv", "SIGSEGV");
    died_of("exit", "status 0");
}

static void test_a_killed_standby_is_replaced(void **state)
{
    (void)state;
    struct posix_child_report report = run("deed", "nothing");
    // The next process waits already.
    siginfo_t info = {.si_pid = 0};
    for (int pid = report.pid + 1; pid < report.pid + 2000; pid++) {
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
            break;
        }
    }
    assert_int_not_equal(info.si_pid, 0);
    report = run("deed", "nothing");
    assert_int_equal(report.how, POSIX_CHILD_ENDED);
    assert_int_not_equal(report.pid, info.si_pid);
}

static void test_no_program_is_said(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct posix_children *none = NULL;
    assert_int_equal(posix_children_new("/nonexistent/runner", &none, &error), BASE_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nonexistent/runner"));
    assert_int_not_equal(posix_children_new("/bin/true", &none, &error), BASE_OK);
    assert_non_null(strstr(error.text, "/bin/true"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_forbidden_calls_end_the_process),
        CASE(test_the_process_of_a_good_run_ends_too),
        CASE(test_memory_has_a_limit),
        CASE(test_nothing_is_inherited),
        CASE(test_silence_ends_at_the_deadline),
        CASE(test_lies_are_seen),
        CASE(test_deaths_are_told_by_their_signal),
        CASE(test_a_killed_standby_is_replaced),
        CASE(test_no_program_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
