// Makes a process for each run: waits for the agent's FORK, clones itself, and tells the agent the
// new process's id. Called by task_runner.c when it is to be a template, on its one thread, so that
// no lock can be held while it clones; returns in each new process only, which then does a run as
// any other. The agent is made the parent, and reaps them all; the template ends with its channel.
#include "runner/runner_template.h"

#include "runner/runner_channel.h"

#include "base/cursor.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

// The agent reaps it, not the template: fork() would not have that. One thread, so there is nobody
// whose locks it could inherit.
static pid_t process_make(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
}

static enum base_status forked_say(uint8_t *frame, pid_t pid)
{
    struct base_writer writer;
    base_writer_init(&writer, frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_FORKED_BYTES);
    base_writer_u32(&writer, (uint32_t)pid);
    return dev_runner_frame_send(frame, DEV_RUNNER_FORKED, DEV_RUNNER_FORKED_BYTES);
}

enum base_status dev_template_serve(uint8_t *frame)
{
    for (;;) {
        int channel = -1;
        BASE_TRY(dev_runner_fork_receive(&channel));
        pid_t pid = process_make();
        if (pid == 0) {
            bool moved = dup3(channel, DEV_RUNNER_FD, 0) >= 0;
            (void)close(channel);
            return moved ? BASE_OK : BASE_ERR_INVALID;
        }
        (void)close(channel);
        if (pid < 0) {
            return BASE_ERR_NOMEM;
        }
        BASE_TRY(forked_say(frame, pid));
    }
}
