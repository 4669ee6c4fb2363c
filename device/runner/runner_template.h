// A template: a task's process that has read and planned a version's models and then makes
// processes for runs. It never sees a script, a job's input or what a run left behind: each run is
// a new process of it, which puts up the whole wall before it looks at its job (runner_wall.h).
//
// The models are a stranger's, too: the template reads them behind a wall (dev_wall_template) that
// leaves it the calls to make such processes and nothing of files, network or programs.
#ifndef DEV_RUNNER_TEMPLATE_H
#define DEV_RUNNER_TEMPLATE_H

#include "runner/runner_frame.h"

// Makes a process for each FORK and says its id. Returns OK in such a process alone: the channel
// that came with FORK is its DEV_RUNNER_FD, and its parent is the template's (so it is reaped where
// the template is). CLOSED: the agent is gone; INVALID; NOMEM: no process could be made. `frame`
// has room for FORKED.
BASE_NODISCARD enum base_status dev_template_serve(uint8_t *frame);

#endif
