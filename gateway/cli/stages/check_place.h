// A place in a document that people wrote, and checks of its members: of type, range and words,
// each said with its path as the gateway says it ("stages[0].alpha: not a number from 0 to 1"). All
// are USAGE where they refuse.
#ifndef CHECK_PLACE_H
#define CHECK_PLACE_H

#include "cli/base/cli.h"
#include "policy/fields/field.h"

#include <jansson.h>

#define CHECK_PATH_MAX 96u

// An object and how errors name it: "" for the root, else with a dot at its end.
struct check_place {
    const json_t *object;
    char path[CHECK_PATH_MAX];
};

enum cli_exit check_refuse(const struct check_place *at, const char *name, const char *why);
// Every member is among `names` (NULL ends them).
enum cli_exit check_only(const struct check_place *at, const char *const *names);
// Those that are numbers, flags, texts and words, in their order; what an option may fill may be
// missing.
enum cli_exit check_fields(const struct check_place *at, const struct pol_field *fields,
                           size_t count);
// The object at `key`; without one, out->object is NULL.
enum cli_exit check_enter(const struct check_place *at, const char *key, struct check_place *out);
// The list at `key`, of at most `max`; without one, *out is NULL.
enum cli_exit check_list(const struct check_place *at, const char *key, size_t max,
                         const json_t **out);
// An item of the list at `key`, which has to be an object.
enum cli_exit check_item(const struct check_place *at, const char *key, size_t index,
                         const json_t *item, struct check_place *out);

#endif
