// Sums of phases by task. Called by agent_summary.c on the agent's main thread, for each run that
// ended and when the agent ends. Runs whose phases nobody knows, as those that never began, are
// left out, and so are those of tasks beyond AGENT_PHASES_MAX.
#include "agent_phases.h"

#include <string.h>

static struct agent_phases_task *task_of(struct agent_phases *phases, struct base_str name)
{
    for (uint32_t i = 0; i < phases->count; i++) {
        if (base_str_equal(base_str_of(phases->tasks[i].name), name)) {
            return &phases->tasks[i];
        }
    }
    if (phases->count == AGENT_PHASES_MAX || name.size >= sizeof(phases->tasks[0].name)) {
        return NULL;
    }
    struct agent_phases_task *task = &phases->tasks[phases->count++];
    memcpy(task->name, name.data, name.size);
    task->name[name.size] = '\0';
    return task;
}

void agent_phases_add(struct agent_phases *phases, const struct base_log *log, struct base_str task,
                      const struct dev_task_end *end)
{
    const struct dev_task_phases *of = &end->phases;
    bool known = of->prepare_us > 0 || of->model_us > 0 || of->finish_us > 0;
    struct agent_phases_task *row = known ? task_of(phases, task) : NULL;
    if (known) {
        base_log_debug(log, "runs",
                       "task %.*s: %llu us to prepare, %llu us with models, %llu us to finish",
                       (int)task.size, task.data, (unsigned long long)of->prepare_us,
                       (unsigned long long)of->model_us, (unsigned long long)of->finish_us);
    }
    if (row != NULL) {
        row->runs++;
        row->sum.prepare_us += of->prepare_us;
        row->sum.model_us += of->model_us;
        row->sum.finish_us += of->finish_us;
    }
}

void agent_phases_print(const struct agent_phases *phases, const struct base_log *log)
{
    for (uint32_t i = 0; i < phases->count; i++) {
        const struct agent_phases_task *task = &phases->tasks[i];
        base_log_info(log, "runs",
                      "task %s: %llu runs, on average %llu us to prepare, %llu us with models, "
                      "%llu us to finish",
                      task->name, (unsigned long long)task->runs,
                      (unsigned long long)(task->sum.prepare_us / task->runs),
                      (unsigned long long)(task->sum.model_us / task->runs),
                      (unsigned long long)(task->sum.finish_us / task->runs));
    }
}
