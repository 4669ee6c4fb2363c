// Schemas of uploads: what a task says its records look like, in a compact form of JSON, and the
// check of a record against it while it is read once.
//
//   type   := "any" | "null" | "boolean" | "integer" | "number" | "string" | "list" | "object"
//           | {"type": one of these, ...}
//   integer, number   "min", "max": bounds, themselves allowed
//   string            "max": bytes of the text as it stands in the JSON
//   list              "items": type of each, "max": how many
//   object            "fields": {name: type, ...}; a name that ends in '?' need not be there;
//                     "extra": true lets fields by other names through. Each field once.
//
// A schema is a type. "any" lets every JSON value through; a record must be well-formed all the
// same. A schema is immutable once it is made; any thread may check with it.
#ifndef GW_SCHEMA_H
#define GW_SCHEMA_H

#include "base/error.h"
#include "base/str.h"

#define GW_SCHEMA_BYTES_MAX  4096u // of its text
#define GW_SCHEMA_NODES_MAX  256u  // types in it
#define GW_SCHEMA_FIELDS_MAX 64u   // of one object
#define GW_SCHEMA_DEPTH_MAX  8u    // objects and lists in each other

struct gw_schema;

// INVALID, TOO_LARGE (with what and where in `error`), NOMEM.
BASE_NODISCARD enum base_status gw_schema_parse(struct base_str text, struct gw_schema **out,
                                                struct base_error *error);
void gw_schema_free(struct gw_schema *schema); // accepts NULL
// INVALID: not JSON, or not as the schema says; TOO_LARGE: over one of its limits, or too deep.
BASE_NODISCARD enum base_status gw_schema_check(const struct gw_schema *schema,
                                                struct base_str record);
#define GW_SCHEMA_WHY_MAX 159u // bytes of an explanation
// Why _check refuses a record: "price is no number", "items[3] lacks \"id\""; empty: it does not.
// Keys are the record's, cut: not for a terminal as they are.
void gw_schema_explain(const struct gw_schema *schema, struct base_str record,
                       char out[GW_SCHEMA_WHY_MAX + 1]);

#endif
