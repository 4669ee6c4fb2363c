// A page of a list, as every list of the core gives them: the caller says how many items it has
// room for and where the page begins, the list how many it wrote and whether there are more.
#ifndef GW_PAGE_H
#define GW_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#define GW_PAGE_MAX 500u // items of one page of any list

struct gw_page {
    uint32_t limit; // the caller's: at most so many items, and never more than GW_PAGE_MAX
    uint32_t count; // the list's: items written
    bool more;      // there are further ones behind the last
};

// How many items may be on it.
static inline uint32_t gw_page_room(const struct gw_page *page)
{
    return page->limit < GW_PAGE_MAX ? page->limit : GW_PAGE_MAX;
}

#endif
