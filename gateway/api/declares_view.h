// What a version's manifest says of how it runs, as JSON.
#ifndef GW_DECLARES_VIEW_H
#define GW_DECLARES_VIEW_H

#include "svc/core.h"

#include "wire/digest.h"

#include <jansson.h>

// {"entry": "ipv", "heap_kib": 64, "triggers": [...], "store": {...}, ...}: the words of task.json,
// of which those that stand for nothing said are left out. "leaves" is apart (leaves_view.h), and
// "config" and the schemas of uploads are not shown. Null: its content cannot be read. Control
// thread. The caller owns it.
json_t *gw_view_declares(struct gw_core *core, const struct wire_sha256 *manifest);

#endif
