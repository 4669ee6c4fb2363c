// A fault of a task's VM becomes that task's failure, where tasks run on threads of this process:
// handlers of SIGSEGV and SIGBUS that ask dev_vm_fault (vm/vm.h) first and hand on what is none of
// its. In a task's own process there is nothing to do: it dies, and its agent reports it.
#ifndef POSIX_GUARD_H
#define POSIX_GUARD_H

#include "base/status.h"

// Puts the handlers up, for the whole process and for good; once is enough, again changes nothing.
// The handlers that were there get what is not a VM's. For a program that owns its signals, or an
// app that wants this: the posix port does not do it by itself. Any thread. IO: the system refuses.
BASE_NODISCARD enum base_status posix_guard_raise(void);

#endif
