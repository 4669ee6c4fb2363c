// Processes of walle-task-runner: starting them, giving them files, reading what they say, seeing
// that they end. Called by posix_child.c and posix_template.c, which own them.
#ifndef POSIX_PROCESS_H
#define POSIX_PROCESS_H

#include "runner/runner_frame.h"

#include <sys/types.h>

struct posix_process {
    pid_t pid; // 0: none
    int fd;    // the channel to it
};

// Starts the program at `path`, in a process group of its own. Gives an errno; 0: started.
int posix_process_start(const char *path, struct posix_process *out);
// Kills and reaps; gives what waitpid said, or -1 when there was none, or somebody else took it.
int posix_process_end(struct posix_process *process);
// True while it has not ended; looks without reaping.
bool posix_process_lives(const struct posix_process *process);

// Sends a whole frame with up to two files attached. CLOSED: the process is gone, or has not read.
BASE_NODISCARD enum base_status posix_process_give(int channel, const uint8_t *frame, size_t size,
                                                   const int *files, size_t count);
// The same of JOB or TEMPLATE: its bounds and files.
BASE_NODISCARD enum base_status posix_process_job(int channel, uint32_t kind,
                                                  const struct dev_runner_bounds *bounds,
                                                  const int *files, size_t count);

// Waits for `what` (poll's events) until a time of the monotonic clock. TIMEOUT.
BASE_NODISCARD enum base_status posix_process_wait(int fd, short what, uint64_t until_us);
// `size` bytes from the process. CLOSED: it is gone; TIMEOUT.
BASE_NODISCARD enum base_status posix_process_read(int fd, uint8_t *out, size_t size,
                                                   uint64_t until_us);

#endif
