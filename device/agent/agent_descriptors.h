// How many descriptors the agent may have open: with too few it would check in, pull, and then be
// unable to start a task, or wait for a connection that it cannot make.
#ifndef AGENT_DESCRIPTORS_H
#define AGENT_DESCRIPTORS_H

#include "base/error.h"

#define AGENT_DESCRIPTORS_MIN 64u // stores, connections, mirrors, and the pipes of a task's process

// Sees that there are that many, raising the process's own limit where the system allows it. Main
// thread, before anything is opened. LIMIT: there are fewer, and `error` says so.
BASE_NODISCARD enum base_status agent_descriptors_ready(struct base_error *error);

#endif
