// What of a run's end leaves with reports.
#ifndef DEV_RUN_TOLD_H
#define DEV_RUN_TOLD_H

#include "core/run/device_run.h"

struct dev_told {
    struct dev_task_end end;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
};

// The end as it is told: `end` itself, or, where the version lets only the place of a failure
// leave, a copy in `told` with no word of a script's making. Called while the run's manifest is
// mapped.
const struct dev_task_end *dev_run_told(struct dev_runtime *runtime, const struct dev_task_end *end,
                                        struct dev_told *told);
// Adds what the run decided to what its version has since it was activated.
void dev_run_count_cloud(struct dev_task *task, const struct dev_task_end *end);
// Is what was decided since then worth telling by itself? From 8 decisions on, and each time when
// they are twice as many as those told last.
bool dev_run_cloud_is_news(const struct dev_task *task);
// Of a run of `task`; what it decided is in it if anything was.
struct wire_figures dev_run_figures(const struct dev_runtime *runtime, const struct dev_task *task,
                                    const struct dev_task_end *end);

#endif
