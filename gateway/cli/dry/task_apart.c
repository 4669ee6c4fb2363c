// Task processes for a build's dry run, see the header; called by task_dry_run.c on the command's
// one thread. The processes are posix/run/posix_child.h's, as the agent's are: what a run says of
// itself is parsed as an attacker's would be, and its time is bounded from outside.
#include "cli/dry/task_apart.h"

#include "posix/run/posix_child.h"

#include "base/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNNER_NAME "walle-task-runner"

struct task_apart {
    struct posix_children *children; // NULL: `vm`
    struct dev_vm *vm;
    uint32_t heap_kib;
    struct dev_vm_result result;
};

// The runner beside this program; false: it cannot be told where that lies.
static bool runner_beside(char out[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", out, PATH_MAX - sizeof(RUNNER_NAME));
    const char *slash = size > 0 ? memrchr(out, '/', (size_t)size) : NULL;
    if (slash == NULL) {
        return false;
    }
    memcpy(out + (slash - out) + 1, RUNNER_NAME, sizeof(RUNNER_NAME));
    return true;
}

enum base_status task_apart_new(uint32_t heap_kib, struct task_apart **out,
                                struct base_error *out_why)
{
    char path[PATH_MAX];
    struct task_apart *apart = calloc(1, sizeof(*apart));
    if (apart == NULL) {
        return BASE_ERR_NOMEM;
    }
    apart->heap_kib = heap_kib;
    *out_why = (struct base_error){.status = BASE_OK};
    enum base_status status = BASE_OK;
    if (!runner_beside(path)) {
        (void)base_error_set(out_why, BASE_ERR_NOT_FOUND, "no /proc/self/exe");
    } else if (posix_children_new(path, &apart->children, out_why) == BASE_OK) {
        out_why->text[0] = '\0';
    }
    if (apart->children == NULL) {
        status = dev_vm_new(heap_kib, &apart->vm);
    }
    if (status != BASE_OK) {
        task_apart_free(apart);
        return status;
    }
    *out = apart;
    return BASE_OK;
}

void task_apart_free(struct task_apart *apart)
{
    if (apart != NULL) {
        posix_children_free(apart->children);
        dev_vm_free(apart->vm);
        free(apart);
    }
}

bool task_apart_has_processes(const struct task_apart *apart)
{
    base_assert((apart->children == NULL) != (apart->vm == NULL));
    return apart->children != NULL;
}

static void result_set(struct dev_vm_result *result, enum dev_vm_end end, const char *type,
                       const char *message)
{
    *result = (struct dev_vm_result){.end = end};
    (void)snprintf(result->type, sizeof(result->type), "%s", type);
    (void)snprintf(result->message, sizeof(result->message), "%.*s", DEV_VM_MESSAGE_MAX - 1,
                   message);
}

static enum base_status child_run(struct task_apart *apart, const struct dev_vm_job *job,
                                  struct base_str input, struct base_error *error)
{
    struct posix_child_report report;
    const struct dev_runner_job there = {.vm = job,
                                         .heap_kib = apart->heap_kib,
                                         .input = (const uint8_t *)input.data,
                                         .input_bytes = input.size};
    posix_child_run(apart->children, &there, &report);
    enum base_status ready = posix_child_ready(apart->children);
    (void)ready; // where no process can be started now, the next run tries again
    switch (report.how) {
    case POSIX_CHILD_ENDED:
        apart->result = report.end->result;
        return report.end->status == BASE_OK
                   ? BASE_OK
                   : base_error_set(error, BASE_ERR_INVALID, "the VM refuses the job: %s",
                                    base_status_text(report.end->status));
    case POSIX_CHILD_DIED:
    case POSIX_CHILD_LIED:
        result_set(&apart->result, DEV_VM_FAULT, "FaultError", report.text);
        return BASE_OK;
    case POSIX_CHILD_SILENT:
        result_set(&apart->result, DEV_VM_BUDGET, "BudgetError",
                   "no end within the run's time: the task's process was killed");
        return BASE_OK;
    case POSIX_CHILD_NONE:
        return base_error_set(error, BASE_ERR_IO, "no task process: %.100s", report.text);
    case POSIX_CHILD_DAMAGED:
        break;
    }
    return base_error_set(error, BASE_ERR_HASH, "%.80s is not what its digest says", report.text);
}

enum base_status task_apart_run(struct task_apart *apart, const struct dev_vm_job *job,
                                struct base_str input, const struct dev_vm_result **out,
                                struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (task_apart_has_processes(apart)) {
        status = child_run(apart, job, input, error);
    } else {
        status = dev_vm_run(apart->vm, job, &apart->result);
        if (status != BASE_OK) {
            (void)base_error_set(error, status, "the VM refuses the job: %s",
                                 base_status_text(status));
        }
    }
    *out = &apart->result;
    return status;
}
