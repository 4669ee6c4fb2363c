// walle.cloud for `walle task run`: a gateway that --gateway names answers the script's calls, as
// it answers a device's, and counts them to the device that --device names. Without one the script
// hears that it is offline, as a device without a way to its gateway would. One thread.
#ifndef TASK_CLOUD_H
#define TASK_CLOUD_H

#include "cli/base/cli_http.h"
#include "vm/vm.h"

struct task_cloud {
    const struct cli *cli;
    uint64_t device_id;
    bool declared;            // the version says what may leave; without that nothing does
    struct cli_answer answer; // of the last call
};

// `cloud` stays where it is until _done, and its first three members are filled before a run.
struct dev_vm_cloud_port task_cloud_port(struct task_cloud *cloud);
void task_cloud_done(struct task_cloud *cloud);

#endif
