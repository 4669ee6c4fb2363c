// Whether the pages of a list lead on. Called by the commands that read a list to its end
// (rollout explain and replay, tunnel export and tail, the search for versions); one thread. What
// a gateway answers is a stranger's here: it must not keep a command for ever.
#include "cli/base/cli_pages.h"

#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"

#include <stdio.h>
#include <string.h>

static enum cli_exit endless(const struct cli *cli, const char *next)
{
    return cli_fail(
        CLI_EXIT_REFUSED,
        "%s never ends this list: its \"next\" %s does not lead on from the page before",
        cli_http_gateway(cli), cli_shown(next));
}

// The mark moves to every page whose number is a power of two, so that however long a circle is,
// and wherever it begins, one mark lies in it until it comes round (Brent).
enum cli_exit cli_pages_next(const struct cli *cli, struct cli_pages *pages, const char *next)
{
    if (pages->count > 0 && strncmp(next, pages->mark, sizeof(pages->mark) - 1) == 0) {
        return endless(cli, next);
    }
    pages->count++;
    if ((pages->count & (pages->count - 1)) == 0) {
        (void)snprintf(pages->mark, sizeof(pages->mark), "%s", next);
    }
    return CLI_EXIT_OK;
}

enum cli_exit cli_pages_after(const struct cli *cli, const json_t *page, uint64_t *after,
                              bool *out_more)
{
    const json_t *next = json_object_get(page, "next");
    char text[32];

    *out_more = json_is_integer(next);
    if (*out_more && cli_json_u64(page, "next") <= *after) {
        (void)snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(next));
        return endless(cli, text);
    }
    *after = cli_json_u64(page, "next");
    return CLI_EXIT_OK;
}
