// A program that runs on a device: where its tensors lie there, and which copies it needs.
//
// A command without a kernel of the device runs on the host. As the order of commands is fixed, so
// are the copies between both memories: they are planned once. Outputs of the program end in the
// host's memory, at the places they have without a device.
//
// Lifetime: the exec's; the arena of its plan holds the lists.
#ifndef ENG_SESSION_EXEC_DEVICE_H
#define ENG_SESSION_EXEC_DEVICE_H

#include "session/exec.h"

struct eng_exec_device;

// After everything else of `exec` is made. NOMEM, IO.
BASE_NODISCARD enum base_status eng_exec_device_init(struct eng_exec *exec,
                                                     const struct eng_prepare *ctx);
void eng_exec_device_done(struct eng_exec_device *device); // accepts NULL
// As eng_exec_run; `host`: the run as steps of the host see it.
BASE_NODISCARD enum base_status eng_exec_device_run(const struct eng_exec *exec,
                                                    const struct eng_exec_run *run,
                                                    const struct eng_run *host);
// Bytes of the device that the plan holds beside the model's weights, commands left to the host,
// and runs that were one replay of what was recorded. NULL: 0.
size_t eng_exec_device_bytes(const struct eng_exec_device *device);
uint32_t eng_exec_device_left(const struct eng_exec_device *device);
uint64_t eng_exec_device_replays(const struct eng_exec_device *device);

#endif
