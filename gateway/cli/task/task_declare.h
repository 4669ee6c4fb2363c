// The part of task.json that speaks of behaviour, and the declaration it becomes
// (wire/declaration.h).
//
//   "triggers": ["enter(item) * exit(item) page"],                    what starts the task
//   "events": {"take": "visit", "most": 200, "seconds": 600,          what the run gets: matched,
//   visit, time
//              "attributes": ["price", "depth"]},                     what is recorded; "*": all
//   "uploads": [{"name": "ipv", "class": "realtime",                  what may leave the device
//                "version": 1, "schema": {"fields": {"item": "string"}}}],
//   "result": "ipv",                                                  the upload that takes
//   walle.result
//   "priority": 0, "deadline_ms": 500,                                how it runs beside others:
//   "at_once": 2                                                      docs/DEVICE.md
//   "leaves": {...}                                                   task_leaves.h
//
// Classes by name: control, realtime, behaviour, debug.
#ifndef TASK_DECLARE_H
#define TASK_DECLARE_H

#include "base/error.h"
#include "wire/declaration.h"

#include <jansson.h>

// Reads those members of `document`, checks the meaning of triggers, and encodes. *out_size 0:
// nothing is declared. INVALID, TOO_LARGE, NOMEM; `error` says the field, the position in a
// pattern, and what is wrong.
BASE_NODISCARD enum base_status task_declare(const json_t *document,
                                             uint8_t out[WIRE_DECLARATION_BYTES_MAX],
                                             size_t *out_size, struct base_error *error);

#endif
