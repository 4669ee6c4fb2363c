// A bell on the loop that workers ring: the loop's thread is woken once for all who rang since it
// last looked, and not at all while it looks. Rung on any thread; all else on the loop's.
#ifndef POSIX_BELL_H
#define POSIX_BELL_H

#include "base/status.h"

#include <event2/event.h>
#include <stdatomic.h>

struct posix_bell {
    int fd; // an eventfd; -1: closed
    struct event *event;
    void *ctx;
    void (*serve)(void *ctx); // looks at all who may have rung
    atomic_bool awake;        // the loop was woken, and will look
    atomic_bool news;         // somebody rang since it looked last
};

// The bell is the caller's, and stays where it is. NOMEM: the system has no more descriptors.
BASE_NODISCARD enum base_status posix_bell_open(struct posix_bell *bell, struct event_base *base,
                                                void (*serve)(void *ctx), void *ctx);
// Nobody rings any more. A bell that was zero-initialised, or could not be opened, too.
void posix_bell_close(struct posix_bell *bell);
// What the caller wrote before is seen by `serve`.
void posix_bell_ring(struct posix_bell *bell);

#endif
