// What a run of the agent came to: a line a task on standard output, figures in the log.
#ifndef AGENT_SUMMARY_H
#define AGENT_SUMMARY_H

#include "event_source.h"
#include "posix/posix_port.h"

// `events` NULL: it recorded none.
void agent_summary_print(struct posix_port *port, const struct event_source *events,
                         const struct base_log *log);

#endif
