// The member "leaves" of task.json: what may leave the device, and what it becomes
// (wire/leaves/leaves.h).
//
//   "leaves": {
//     "uploads": {"spent": {"fields": {"item": {"type": "string", "max": 64}, "cents": "integer",
//                                      "tags": {"type": "list", "max": 8, "items": ...}},
//                           "max_bytes": 512, "per_day": 200}},
//     "infer": {"ranker": {"inputs": {"x": {"dtype": "FP32", "max_elements": 64}}}},
//     "errors": "place" }
//
// Types are those of schemas (tunnel/schema/schema.h), but for "any" and without "extra": all that
// leaves has a name, and each text and list a maximum.
#ifndef TASK_LEAVES_H
#define TASK_LEAVES_H

#include "base/error.h"
#include "wire/leaves/leaves.h"

#include <jansson.h>

// *out_size 0: the document has no "leaves". The bytes do not depend on the order of keys. INVALID,
// TOO_LARGE, NOMEM; `error` says the path within task.json and what is wrong there.
BASE_NODISCARD enum base_status task_leaves(const json_t *document,
                                            uint8_t out[WIRE_LEAVES_BYTES_MAX], size_t *out_size,
                                            struct base_error *error);

#endif
