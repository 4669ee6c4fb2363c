// Where the time of a task's runs went, by its phases (device/port.h), for the agent's last words.
// Of the main thread.
#ifndef AGENT_PHASES_H
#define AGENT_PHASES_H

#include "base/log.h"
#include "device/device.h"
#include "device/port.h"

#define AGENT_PHASES_MAX DEV_TASKS_MAX // tasks that are counted apart; runs of others are not

// Zero-initialise.
struct agent_phases_task {
    char name[WIRE_TASK_NAME_MAX + 1];
    uint64_t runs;
    struct dev_task_phases sum;
};

struct agent_phases {
    struct agent_phases_task tasks[AGENT_PHASES_MAX];
    uint32_t count;
};

// A run ended: its phases are added, and said in the log where that says all (--verbose).
void agent_phases_add(struct agent_phases *phases, const struct base_log *log, struct base_str task,
                      const struct dev_task_end *end);
// A line in the log for each task that ran: how many times, and the mean of each phase.
void agent_phases_print(const struct agent_phases *phases, const struct base_log *log);

#endif
