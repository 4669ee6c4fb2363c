// What a caller lets one run of a session do: until when, until whom, and how much. Looked at
// between commands, while folding and while packing, so that no run goes on for longer than its
// longest command.
//
// Lifetime: one run; it lies in the session (or with the caller of eng_exec_run). The session's
// thread; `stop` may be set by any.
#ifndef ENG_BACKEND_RUN_WATCH_H
#define ENG_BACKEND_RUN_WATCH_H

#include "base/error.h"
#include "program/program.h"

#include <stdint.h>

struct eng_watch {
    uint64_t deadline_us;      // 0: none
    const _Atomic(bool) *stop; // NULL: none
    uint64_t work_max;         // 0: no limit
    uint64_t work;             // done so far
};

// TIMEOUT: the deadline passed or the run was stopped. `watch` NULL: nothing is asked.
BASE_NODISCARD enum base_status eng_watch_look(const struct eng_watch *watch,
                                               struct base_error *error);
// The same before `work` is done, which is counted. TIMEOUT also when it would be over the limit:
// nothing is counted then.
BASE_NODISCARD enum base_status eng_watch_spend(struct eng_watch *watch, uint64_t work,
                                                struct base_error *error);

// The work of a command: for products the multiplications, for all others the elements read and
// written, an expression's once for each of its operations; at least 1. The same on every machine:
// it hangs on the command alone, not on who runs it.
uint64_t eng_command_work(const struct eng_program *program, const struct eng_command *command);

#endif
