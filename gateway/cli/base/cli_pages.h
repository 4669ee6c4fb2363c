// Lists that are read to their end, page by page: each page has to lead on. A gateway whose `next`
// comes twice would keep a command at it for ever.
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli/base/cli.h"

#include <jansson.h>

#define CLI_PLACE_MAX 80 // bytes of a `next` that is a text, with its NUL

// The list that is being read; zeroed, it begins.
struct cli_pages {
    char mark[CLI_PLACE_MAX]; // a `next` from before
    uint64_t count;
};

// `next` of a page leads on, unless it came before. REFUSED, said.
enum cli_exit cli_pages_next(const struct cli *cli, struct cli_pages *pages, const char *next);
// For lists by number, which only rise: *after moves on to the page's `next`, *out_more tells
// whether there is one. REFUSED, said.
enum cli_exit cli_pages_after(const struct cli *cli, const json_t *page, uint64_t *after,
                              bool *out_more);

#endif
