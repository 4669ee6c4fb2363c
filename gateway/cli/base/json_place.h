// Where something of a JSON file stands in it: the library keeps no lines. Pure; for errors, which
// are rare, so the text is gone through again each time.
#ifndef CLI_JSON_PLACE_H
#define CLI_JSON_PLACE_H

#include "base/str.h"

#include <jansson.h>
#include <stdint.h>

#define JSON_PLACE_DEPTH_MAX 64u // of objects and lists in one another that are looked into

// Line of `key` of `object`, which is `root` or lies below it; `text` is what root was read from,
// without doubled keys. 0: not there, too deep, or written with escapes.
uint32_t json_place_line(struct base_str text, const json_t *root, const json_t *object,
                         const char *key);
// The same in a file, read for it. 0 also for a file that cannot be read.
uint32_t json_place_line_of(const char *path, const json_t *root, const json_t *object,
                            const char *key);

#endif
