// What a task's process and the agent say to each other about calls of models in the cloud: bodies
// of INFER, ANSWER, LOOK and SEEN (runner_frame.h). What the process says is parsed with
// posix/run/posix_child_parse.h.
#ifndef DEV_RUNNER_CLOUD_H
#define DEV_RUNNER_CLOUD_H

#include "base/cursor.h"
#include "runner/runner_frame.h"

// In the process.
void dev_runner_infer_write(struct base_writer *writer, const struct dev_vm_cloud_call *call);
void dev_runner_look_write(struct base_writer *writer, struct base_str model);
// The answer is borrowed. INVALID, TRUNCATED.
BASE_NODISCARD enum base_status dev_runner_answer_parse(const uint8_t *bytes, size_t size,
                                                        enum wire_cloud_why *out_why,
                                                        struct dev_vm_cloud_end *out_end);
BASE_NODISCARD enum base_status dev_runner_seen_parse(const uint8_t *bytes, size_t size,
                                                      struct dev_vm_cloud_state *out);

// In the agent.
void dev_runner_answer_write(struct base_writer *writer, enum wire_cloud_why why,
                             const struct dev_vm_cloud_end *end);
void dev_runner_seen_write(struct base_writer *writer, const struct dev_vm_cloud_state *state);

#endif
