// Templates: from the third run of the same models on, a run's process comes with the models read,
// and everything else of it is as it was. What a hostile model could make of a template neither
// gets out nor keeps runs from ending.
#include "nn_models.h"

#include "model/model_store.h"
#include "posix/run/posix_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES_MAX 200 // runs until a template has read its models

static struct posix_children *children;
static struct nn_model file;
static struct dev_vm_model listed;
static struct dev_vm_module module;
static const char script[] = "import walle\n"
                             "from walle import nn\n"
                             "m = nn.load('m.onnx')\n"
                             "walle.result(m([[walle.input, 2, 3]]).tolist())\n";

static void start(const char *program)
{
    struct base_error error = {0};
    if (posix_children_new(program, &children, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static int teardown(void **state)
{
    (void)state;
    posix_children_free(children);
    children = NULL;
    free((void *)(uintptr_t)module.mpy);
    module = (struct dev_vm_module){.mpy = NULL};
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no zombie, no process left
    return 0;
}

static void model_list(void)
{
    listed = (struct dev_vm_model){BASE_STR("m.onnx"), file.bytes, file.size, file.digest};
}

// A model file of these words, for the process that stands in for the shipped one.
static void words(const char *text)
{
    memset(&file, 0, sizeof(file));
    file.size = strlen(text);
    memcpy(file.bytes, text, file.size);
    nn_model_digest(&file);
    model_list();
}

static struct posix_child_report run(const char *input)
{
    const struct dev_vm_job vm = {.modules = &module,
                                  .module_count = module.mpy != NULL ? 1 : 0,
                                  .entry = BASE_STR("main"),
                                  .input = base_str_of(input),
                                  .models = &listed,
                                  .model_count = 1,
                                  .time_ms = 20000};
    const struct dev_runner_job job = {.vm = &vm};
    struct posix_child_report report;
    posix_child_run(children, &job, &report);
    if (report.how != POSIX_CHILD_ENDED) {
        fail_msg("how %d, '%s'", report.how, report.text);
    }
    return report;
}

// Of a run whose process was not reaped yet. What a template made is of the template's group.
static bool of_template(const struct posix_child_report *report)
{
    pid_t group = getpgid(report->pid);
    assert_int_not_equal(group, -1);
    return group != report->pid;
}

static void ready(void)
{
    assert_int_equal(posix_child_ready(children), BASE_OK);
}

// Runs until one is a template's. False: none is.
static bool reached(uint32_t tries, pid_t *out_template)
{
    for (uint32_t i = 0; i < tries; i++) {
        struct posix_child_report report = run("1");
        if (of_template(&report)) {
            *out_template = getpgid(report.pid);
            ready();
            return true;
        }
        ready();
        usleep(5000); // it reads its models meanwhile
    }
    return false;
}

static void compile(void)
{
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error = {0};
    if (dev_vm_compile(base_str_of(script), BASE_STR("main.py"), &mpy, &size, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    module = (struct dev_vm_module){BASE_STR("main"), mpy, size};
}

static int setup_shipped(void **state)
{
    (void)state;
    start(WALLE_TASK_RUNNER);
    nn_add_relu(&file, 0);
    model_list();
    compile();
    return 0;
}

static int setup_breaker(void **state)
{
    (void)state;
    start(WALLE_WALL_BREAKER);
    return 0;
}

static void result_is(const struct posix_child_report *report, const char *want)
{
    const struct dev_vm_result *result = &report->end->result;
    if (result->end != DEV_VM_FINISHED) {
        fail_msg("%s: %s", result->type, result->message);
    }
    assert_int_equal(result->result.size, strlen(want));
    assert_memory_equal(result->result.data, want, strlen(want));
}

static void test_a_run_has_its_models_read(void **state)
{
    (void)state;
    pid_t first = 0;
    pid_t second = 0;
    assert_true(reached(TRIES_MAX, &first));
    struct posix_child_report report = run("5");
    assert_true(of_template(&report));
    result_is(&report, "[[6.0,0.0,6.0]]");
    int before = report.pid;
    ready();
    report = run("-9");
    assert_true(of_template(&report));
    result_is(&report, "[[0.0,0.0,6.0]]");
    assert_int_not_equal(report.pid, before); // one run, one process
    assert_int_equal(kill(before, 0), -1);
    ready();
    assert_true(reached(1, &second));
    assert_int_equal(first, second); // and one template for them all
}

static void test_two_models_have_two_templates(void **state)
{
    (void)state;
    pid_t first = 0;
    pid_t second = 0;
    pid_t third = 0;
    assert_true(reached(TRIES_MAX, &first));
    nn_add_relu(&file, 1);
    model_list();
    assert_true(reached(TRIES_MAX, &second));
    assert_int_not_equal(first, second);
    struct posix_child_report report = run("5");
    result_is(&report, "[[7.0,1.0,7.0]]");
    ready();
    nn_add_relu(&file, 2); // takes the place of the first, which is gone then
    model_list();
    assert_true(reached(TRIES_MAX, &third));
    assert_int_equal(kill(-first, 0), -1);
    assert_int_equal(kill(second, 0), 0);
}

static void test_a_killed_template_is_done_without(void **state)
{
    (void)state;
    pid_t template = 0;
    assert_true(reached(TRIES_MAX, &template));
    assert_int_equal(kill(-template, SIGKILL), 0);
    for (int i = 0; i < 3; i++) {
        struct posix_child_report report = run("5");
        assert_false(of_template(&report));
        result_is(&report, "[[6.0,0.0,6.0]]");
        ready();
    }
}

static void test_a_damaged_model_is_said_to_the_script(void **state)
{
    (void)state;
    pid_t template = 0;
    file.size -= 20;
    nn_model_digest(&file);
    model_list();
    assert_true(reached(TRIES_MAX, &template)); // it has no model, and says nothing
    struct posix_child_report report = run("5");
    assert_true(of_template(&report));
    assert_string_equal(report.end->result.type, "ValueError");
}

// ---- Hostile models

static bool deed(const char *mark, const char *name)
{
    char text[64];
    pid_t template = 0;
    snprintf(text, sizeof(text), "%s:%s;", mark, name);
    words(text);
    return reached(12, &template);
}

static void test_a_template_cannot_get_out(void **state)
{
    (void)state;
    static const char *const deeds[] = {
        "open",     "create", "stat",  "socket",   "connect", "execve",  "fork",
        "thread",   "ptrace", "kill",  "tgkill",   "dup",     "sendmsg", "exec_map",
        "mprotect", "prctl",  "memfd", "io_uring", "seccomp",
    };
    assert_true(deed("deed", "nothing"));
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        if (!deed("bare", deeds[i])) {
            fail_msg("%s does not go through without a wall", deeds[i]);
        }
        if (deed("deed", deeds[i])) {
            fail_msg("%s went through", deeds[i]);
        }
    }
}

static void claim(const char *what)
{
    char text[64];
    snprintf(text, sizeof(text), "claim:%s;", what);
    words(text);
    for (int i = 0; i < 12; i++) {
        struct posix_child_report report = run("1");
        assert_false(of_template(&report));
        assert_string_equal(report.end->result.message, "walked out"); // no process of a template
        ready();
        usleep(5000); // it reads its models meanwhile
    }
}

// Nor itself, nor what it made for itself: of that the agent would never hear the end.
static void test_a_template_cannot_name_its_own(void **state)
{
    (void)state;
    claim("self");
    claim("child");
}

// What it names is neither given a job nor killed.
static void test_a_template_cannot_name_others(void **state)
{
    (void)state;
    pid_t other = fork(); // a child of this process, of a group of its own
    if (other == 0) {
        (void)setpgid(0, 0);
        for (;;) {
            pause();
        }
    }
    const pid_t named[] = {other, getpid(), 1, 0, -1, INT32_MAX};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        char number[16];
        snprintf(number, sizeof(number), "%u", (unsigned)named[i]);
        claim(number);
    }
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0); // it lives
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

int main(void)
{
#define SHIPPED(name) cmocka_unit_test_setup_teardown(name, setup_shipped, teardown)
#define BREAKER(name) cmocka_unit_test_setup_teardown(name, setup_breaker, teardown)
    const struct CMUnitTest tests[] = {
        SHIPPED(test_a_run_has_its_models_read),
        SHIPPED(test_two_models_have_two_templates),
        SHIPPED(test_a_killed_template_is_done_without),
        SHIPPED(test_a_damaged_model_is_said_to_the_script),
        BREAKER(test_a_template_cannot_get_out),
        BREAKER(test_a_template_cannot_name_others),
        BREAKER(test_a_template_cannot_name_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
