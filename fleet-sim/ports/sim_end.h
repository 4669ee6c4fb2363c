// How a task's run ended, as the simulator tells a device.
#ifndef SIM_SIM_END_H
#define SIM_SIM_END_H

#include "device/port.h"
#include "wire/report.h"

#define SIM_TASK_DETAIL_MAX WIRE_REPORT_DETAIL_MAX

// With storage for its text: valid until the next run for `result` and `effects`.
struct sim_task_end {
    struct dev_task_end end;
    char detail[SIM_TASK_DETAIL_MAX + 1];
    uint64_t waited_us; // for models in the cloud
};

#endif
