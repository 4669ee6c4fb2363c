// Handlers of SIGSEGV and SIGBUS for programs that run tasks on their threads. The handler runs on
// the thread that faulted, on its own stack: a VM's bounds of the C stack leave room for it. Of
// this file's state only the handlers that were there before are shared; they are written once,
// before ours can be called.
#include "posix/run/posix_guard.h"

#include "vm/vm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

enum { SEGV, BUS, SIGNALS };

static const int numbers[SIGNALS] = {[SEGV] = SIGSEGV, [BUS] = SIGBUS};
static struct sigaction before[SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum base_status raised;

// The one that was there. Where that is the system's own, it is put back: the access is tried
// again, and ends the process as it would have.
static void hand_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *action = &before[number == SIGBUS ? BUS : SEGV];
    if ((action->sa_flags & SA_SIGINFO) != 0) {
        action->sa_sigaction(number, info, context);
    } else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
        action->sa_handler(number);
    } else {
        (void)signal(number, SIG_DFL);
    }
}

static void faulted(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    if (info->si_code > 0) { // of the processor; a process that sends one says nothing of a place
        // Who wraps handlers may have blocked more than we asked for, and a run that is left does
        // not come back here.
        sigset_t blocked;
        const ucontext_t *was = context;
        (void)pthread_sigmask(SIG_SETMASK, &was->uc_sigmask, &blocked);
        dev_vm_fault(info->si_addr);
        (void)pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    }
    hand_on(number, info, context);
    errno = kept;
}

static void raise_once(void)
{
    struct sigaction action = {.sa_sigaction = faulted,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (unsigned i = 0; i < SIGNALS && raised == BASE_OK; i++) {
        if (sigaction(numbers[i], NULL, &before[i]) != 0 ||
            sigaction(numbers[i], &action, NULL) != 0) {
            raised = BASE_ERR_IO;
        }
    }
}

enum base_status posix_guard_raise(void)
{
    (void)pthread_once(&once, raise_once);
    return raised;
}
