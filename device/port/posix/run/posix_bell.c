// The bell of the workers (posix_bell.h). Who rings leaves word (`news`) and then wakes the loop,
// unless somebody did (`awake`). The loop takes the word, looks, and looks again while there is
// new word; then it says that it will be asleep, and looks for word once more: who rang in between
// saw it awake. Called by posix_tasks.c, and rung by the workers' threads (posix_task.c).
#include "posix/run/posix_bell.h"

#include "base/check.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define LOOKS_MAX 8u // in a row: the loop has others to serve, too

static void wake(struct posix_bell *bell)
{
    uint64_t one = 1;
    if (!atomic_exchange(&bell->awake, true)) {
        ssize_t written = write(bell->fd, &one, sizeof(one));
        (void)written; // an eventfd with this counter cannot be full
    }
}

void posix_bell_ring(struct posix_bell *bell)
{
    atomic_store(&bell->news, true);
    wake(bell);
}

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct posix_bell *bell = arg;
    uint64_t count = 0;
    ssize_t taken = read((int)fd, &count, sizeof(count));
    (void)taken; // what there is to do is said by `news`
    for (unsigned looks = 0; looks < LOOKS_MAX && atomic_exchange(&bell->news, false); looks++) {
        bell->serve(bell->ctx);
    }
    atomic_store(&bell->awake, false);
    if (atomic_load(&bell->news)) {
        wake(bell);
    }
}

enum base_status posix_bell_open(struct posix_bell *bell, struct event_base *base,
                                 void (*serve)(void *ctx), void *ctx)
{
    base_assert(serve != NULL);
    bell->ctx = ctx;
    bell->serve = serve;
    atomic_init(&bell->awake, false);
    atomic_init(&bell->news, false);
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bell->event =
        bell->fd >= 0 ? event_new(base, bell->fd, EV_READ | EV_PERSIST, on_ring, bell) : NULL;
    if (bell->event == NULL || event_add(bell->event, NULL) != 0) {
        posix_bell_close(bell);
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

void posix_bell_close(struct posix_bell *bell)
{
    if (bell->serve == NULL) {
        return;
    }
    if (bell->event != NULL) {
        event_free(bell->event);
    }
    if (bell->fd >= 0) {
        (void)close(bell->fd);
    }
    *bell = (struct posix_bell){.fd = -1};
}
