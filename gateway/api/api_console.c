// The web console: one page, compiled into the program, served at `/`. Called by the core on
// the worker's thread; nothing of the core is touched. The headers that keep a browser from loading
// or sending anything elsewhere are set here: the page needs its inline script and this gateway,
// and gets no more.
#include "api/api_call.h"
#include "api/console_page.h"

#include "svc/reply.h"

void gw_api_console(struct gw_exchange *exchange)
{
    gw_reply_body(exchange, 200, BASE_STR("text/html; charset=utf-8"), gw_console_page,
                  gw_console_page_bytes);
    // Everything the page needs is in it; it talks to this gateway alone.
    gw_reply_header(&exchange->reply, BASE_STR("content-security-policy"),
                    BASE_STR("default-src 'none'; script-src 'unsafe-inline'; style-src "
                             "'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'"));
    gw_reply_header(&exchange->reply, BASE_STR("x-content-type-options"), BASE_STR("nosniff"));
    gw_reply_header(&exchange->reply, BASE_STR("referrer-policy"), BASE_STR("no-referrer"));
    gw_reply_header(&exchange->reply, BASE_STR("cache-control"), BASE_STR("no-cache"));
}
