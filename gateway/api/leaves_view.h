// What a version lets leave devices, as JSON.
#ifndef GW_LEAVES_VIEW_H
#define GW_LEAVES_VIEW_H

#include "svc/core.h"

#include "wire/digest.h"

#include <jansson.h>

// {"errors": "place", "uploads": {...}, "infer": {...}}; null: it does not say. In the words of
// task.json, but that fields are paths: {"item": {"type": "string", "max": 64}, "tags[]": ..}. Of a
// version whose content cannot be read, null, too. Control thread. The caller owns it.
json_t *gw_view_leaves(struct gw_core *core, const struct wire_sha256 *manifest);

#endif
