// The device's part of the worked example: takes a device's events in their order, keeps one
// feature per open visit of an item's page, and gives the finished row when its EXIT comes. A
// visit entered again, or pushed out by IPV_BOOK_VISITS later ones, gives none.
#ifndef IPV_BOOK_H
#define IPV_BOOK_H

#include "ipv_feature.h"

#define IPV_BOOK_VISITS 8 // open at once; the longest open is given up for a ninth

struct ipv_book_visit {
    uint32_t visit; // 0: free
    uint32_t instance;
    struct ipv_feature feature;
};

struct ipv_book {
    struct ipv_book_visit visits[IPV_BOOK_VISITS];
    uint64_t given_up;
};

void ipv_book_init(struct ipv_book *book);
// The feature that `event` completes, valid until the next call; NULL: none.
const struct ipv_feature *ipv_book_event(struct ipv_book *book, const struct dev_event *event);

#endif
