// See ipv_book.h. Called by ipv_worker for every event of a device; no allocation, no clock.
#include "ipv_book.h"

#include <string.h>

void ipv_book_init(struct ipv_book *book)
{
    memset(book, 0, sizeof(*book));
}

static struct ipv_book_visit *slot_for(struct ipv_book *book, const struct dev_event *enter)
{
    struct ipv_book_visit *oldest = &book->visits[0];
    for (uint32_t i = 0; i < IPV_BOOK_VISITS; i++) {
        struct ipv_book_visit *slot = &book->visits[i];
        if (slot->visit != 0 && slot->instance == enter->instance) {
            return slot; // entered again: the visit before has ended without an exit
        }
        if (slot->visit < oldest->visit) {
            oldest = slot;
        }
    }
    book->given_up += oldest->visit != 0;
    return oldest;
}

static struct ipv_book_visit *find(struct ipv_book *book, uint32_t visit)
{
    for (uint32_t i = 0; i < IPV_BOOK_VISITS && visit != 0; i++) {
        if (book->visits[i].visit == visit) {
            return &book->visits[i];
        }
    }
    return NULL;
}

const struct ipv_feature *ipv_book_event(struct ipv_book *book, const struct dev_event *event)
{
    if (!base_str_equal(event->page, BASE_STR(IPV_PAGE))) {
        return NULL;
    }
    if (event->kind == DEV_EVENT_ENTER) {
        struct ipv_book_visit *slot = slot_for(book, event);
        slot->visit = event->visit;
        slot->instance = event->instance;
        ipv_feature_begin(&slot->feature, event);
        return NULL;
    }
    struct ipv_book_visit *slot = find(book, event->visit);
    if (slot == NULL) {
        return NULL;
    }
    ipv_feature_add(&slot->feature, event);
    if (event->kind != DEV_EVENT_EXIT) {
        return NULL;
    }
    slot->visit = 0;
    return &slot->feature;
}
