// What a run of the agent came to: lines of results and tasks on standard output, figures in the
// log.
#ifndef AGENT_SUMMARY_H
#define AGENT_SUMMARY_H

#include "agent_phases.h"
#include "event_source.h"
#include "posix/posix_port.h"

// One line on standard output: the task, its active version, how it ended, how long it took.
void agent_summary_result(struct posix_port *port, struct agent_phases *phases,
                          const struct base_log *log, struct base_str task,
                          const struct dev_task_end *end);
// `events` NULL: it recorded none.
void agent_summary_print(struct posix_port *port, const struct agent_phases *phases,
                         const struct event_source *events, const struct base_log *log);
// Changes whenever a start or an upload gets on: see agent_once.h.
uint64_t agent_summary_moved(struct posix_pipeline *pipeline);
// Warns of what --once did not wait for.
void agent_summary_left(struct posix_pipeline *pipeline, const struct base_log *log);

#endif
