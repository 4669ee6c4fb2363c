// What a snapshot lists. Control thread.
#ifndef GW_RELEASE_LIST_H
#define GW_RELEASE_LIST_H

#include "base/status.h"

struct gw_core;
struct gw_listing;

// The entries of all scenarios, sorted; `out->items` is to free(). NOMEM.
BASE_NODISCARD enum base_status gw_release_list(struct gw_core *core, struct gw_listing *out);

#endif
