// Bounded JSON for the operator API: parsing with positions, checked fields.
//
// A parsed document belongs to the arena it was parsed into and dies with it; texts taken from it
// are borrowed as long. Errors name the field by its path ("stages[2].percent").
#ifndef GW_API_JSON_H
#define GW_API_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "policy/fields/field.h"

#include <jansson.h>

#define GW_API_WHERE_MAX 96u

// A place in a document: an object and how to name it in errors ("" for the root).
struct gw_json_at {
    const json_t *object;
    char path[GW_API_WHERE_MAX];
};

// TOO_LARGE (GW_API_BODY_MAX), INVALID with line and column in `error`, NOMEM. Doubled keys, depth
// beyond GW_API_DEPTH_MAX and a root that is no object are refused.
BASE_NODISCARD enum base_status gw_json_parse(const uint8_t *bytes, size_t size,
                                              struct base_arena *arena, struct gw_json_at *out_root,
                                              struct base_error *error);

// The object at `parent.key[index]`, a list that has so many, as a place. INVALID when it is none.
BASE_NODISCARD enum base_status gw_json_enter(const struct gw_json_at *parent, const char *key,
                                              size_t index, struct gw_json_at *out,
                                              struct base_error *error);
// The object at `parent.key` as a place; without one (or with null) out->object is NULL. INVALID.
BASE_NODISCARD enum base_status gw_json_inside(const struct gw_json_at *parent, const char *key,
                                               struct gw_json_at *out, struct base_error *error);
// Refuses keys that are not among `names` (NULL ends the list).
BASE_NODISCARD enum base_status gw_json_only(const struct gw_json_at *at, const char *const *names,
                                             struct base_error *error);

// What most fields are: a text of at most `max` bytes, a list of so many items, or a number from 0
// to `max`.
static inline struct pol_field gw_json_required(const char *name, double max)
{
    return (struct pol_field){.name = name, .required = true, .max = max};
}
static inline struct pol_field gw_json_optional(const char *name, double max)
{
    return (struct pol_field){.name = name, .max = max};
}

// Fields. One that is not required and absent (or null) leaves *out as it is. INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status gw_json_text(const struct gw_json_at *at, struct pol_field field,
                                             struct base_str *out, struct base_error *error);
// The text `reason`, why somebody does something: one of blanks alone is none.
BASE_NODISCARD enum base_status gw_json_reason(const struct gw_json_at *at, bool required,
                                               size_t max, struct base_str *out,
                                               struct base_error *error);
// A whole number from 0 on; field.max below 2^53.
BASE_NODISCARD enum base_status gw_json_u64(const struct gw_json_at *at, struct pol_field field,
                                            uint64_t *out, struct base_error *error);
BASE_NODISCARD enum base_status gw_json_real(const struct gw_json_at *at, struct pol_field field,
                                             double *out, struct base_error *error);
// A word, as its place among field.words.
BASE_NODISCARD enum base_status gw_json_word(const struct gw_json_at *at, struct pol_field field,
                                             unsigned *out, struct base_error *error);
BASE_NODISCARD enum base_status gw_json_bool(const struct gw_json_at *at, const char *key,
                                             bool *out, struct base_error *error);
// What is kept (policy/fields/field.h) of those among `count` fields that are numbers, flags and
// words, in their order; 0 of the others, which are not looked at.
BASE_NODISCARD enum base_status gw_json_fields(const struct gw_json_at *at,
                                               const struct pol_field *fields, unsigned count,
                                               uint64_t *out_kept, struct base_error *error);
// 16 lower-case hex digits as a number that is not 0.
BASE_NODISCARD enum base_status gw_json_id(const struct gw_json_at *at, const char *key,
                                           uint64_t *out, struct base_error *error);
// A list; absent (when not required) makes *out NULL.
BASE_NODISCARD enum base_status gw_json_array(const struct gw_json_at *at, struct pol_field field,
                                              const json_t **out, struct base_error *error);

// Text of a number the way ids are written; borrowed nowhere.
json_t *gw_json_hex(uint64_t id);

#endif
