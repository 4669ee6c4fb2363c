// The process's side of the channel to the agent: blocking, because the process has nothing else to
// do. CLOSED: the agent is gone, and so may the process.
#ifndef DEV_RUNNER_CHANNEL_H
#define DEV_RUNNER_CHANNEL_H

#include "runner/runner_frame.h"

// What came with JOB or TEMPLATE, mapped read-only.
struct dev_runner_files {
    bool is_template;
    struct dev_runner_bounds bounds;
    const uint8_t *job;
    const uint8_t *models; // NULL: none
};

// Waits for JOB or TEMPLATE and maps its files, whose descriptors are closed. Before the wall is
// up. CLOSED, INVALID (another frame, or a file that could still change), NOMEM.
BASE_NODISCARD enum base_status dev_runner_job_receive(struct dev_runner_files *out);
void dev_runner_files_done(struct dev_runner_files *files); // unmaps
// Waits for FORK and gives the channel that came with it. CLOSED, INVALID.
BASE_NODISCARD enum base_status dev_runner_fork_receive(int *out_channel);
// Sends a frame whose body is `size` bytes behind the first DEV_RUNNER_HEAD_BYTES of `frame`, which
// are overwritten. CLOSED.
BASE_NODISCARD enum base_status dev_runner_frame_send(uint8_t *frame, uint32_t kind, size_t size);
// Waits for a frame of `kind`. CLOSED, INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status dev_runner_frame_receive(uint32_t kind, uint8_t *out,
                                                         size_t capacity, size_t *out_size);

#endif
