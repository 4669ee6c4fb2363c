// Runs of a version on this machine as devices do them: each in a process of walle-task-runner,
// which lies beside this program, with the manifest's limits. Where such a process cannot be had
// (no program, a kernel that puts up no wall), in the same VM in this process. One thread.
#ifndef TASK_APART_H
#define TASK_APART_H

#include "base/error.h"
#include "vm/vm.h"

struct task_apart;

// `heap_kib`: as the manifest has it. *out_why: why runs are in this process; empty: they are not.
// NOMEM.
BASE_NODISCARD enum base_status task_apart_new(uint32_t heap_kib, struct task_apart **out,
                                               struct base_error *out_why);
void task_apart_free(struct task_apart *apart); // accepts NULL
bool task_apart_has_processes(const struct task_apart *apart);
// Does a run; what it gives is valid until the next. `input`: its events as a process takes them
// (task_play_input); the job has them as the VM does. A process that dies is a result, too: FAULT.
// IO: none could be had; INVALID: the VM refuses the job; NOMEM, HASH; `error` says what.
BASE_NODISCARD enum base_status task_apart_run(struct task_apart *apart,
                                               const struct dev_vm_job *job, struct base_str input,
                                               const struct dev_vm_result **out,
                                               struct base_error *error);

#endif
