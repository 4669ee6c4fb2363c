// The console page's bytes, written by the build from gateway/console/index.html.
#ifndef GW_CONSOLE_PAGE_H
#define GW_CONSOLE_PAGE_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t gw_console_page[];
extern const size_t gw_console_page_bytes;

#endif
