// Mailbox of a worker's loop. Posted to by the core's control and writer threads and by the main
// thread; run by the worker. The head is the only shared word: a push releases the message's
// content, the owner's exchange acquires it.
#include "http/loop/mailbox.h"

#include "base/check.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum base_status gw_mailbox_init(struct gw_mailbox *mailbox)
{
    atomic_init(&mailbox->head, NULL);
    mailbox->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mailbox->wake_fd >= 0 ? BASE_OK : BASE_ERR_IO;
}

void gw_mailbox_done(struct gw_mailbox *mailbox)
{
    base_assert(atomic_load(&mailbox->head) == NULL);
    if (mailbox->wake_fd >= 0) {
        close(mailbox->wake_fd);
        mailbox->wake_fd = -1;
    }
}

void gw_mailbox_post(struct gw_mailbox *mailbox, struct gw_message *message)
{
    struct gw_message *head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);
    do {
        message->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, message,
                                                    memory_order_release, memory_order_relaxed));
    if (head != NULL) {
        return; // whoever pushed the first one has woken the owner
    }
    uint64_t one = 1;
    ssize_t written;
    do {
        written = write(mailbox->wake_fd, &one, sizeof(one));
    } while (written < 0 && errno == EINTR);
    // EAGAIN means the counter is at its top: the descriptor is readable, which is all we want.
}

uint32_t gw_mailbox_run(struct gw_mailbox *mailbox)
{
    uint64_t ignored;
    ssize_t got = read(mailbox->wake_fd, &ignored, sizeof(ignored));
    (void)got; // EAGAIN: woken for nothing
    struct gw_message *newest =
        atomic_exchange_explicit(&mailbox->head, NULL, memory_order_acquire);
    struct gw_message *oldest = NULL;
    while (newest != NULL) {
        struct gw_message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    uint32_t count = 0;
    while (oldest != NULL) {
        struct gw_message *next = oldest->next;
        oldest->run(oldest);
        oldest = next;
        count++;
    }
    return count;
}
