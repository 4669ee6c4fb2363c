// A streaming JSON reader (RFC 8259): tokens out of bytes, without allocation or recursion. It
// checks all of the grammar: commas and colons, numbers, escapes, UTF-8 and surrogates, depth.
// Doubled keys are let through; who cares about them sees them.
//
// Used where records are checked as they come; the operator API has its own library. Pure.
#ifndef GW_JSON_SCAN_H
#define GW_JSON_SCAN_H

#include "base/status.h"
#include "base/str.h"

#define GW_JSON_DEPTH_MAX 32u

enum gw_json_token {
    GW_JSON_OBJECT,
    GW_JSON_OBJECT_END,
    GW_JSON_LIST,
    GW_JSON_LIST_END,
    GW_JSON_KEY,
    GW_JSON_STRING,
    GW_JSON_INTEGER, // a number without fraction and exponent
    GW_JSON_NUMBER,
    GW_JSON_TRUE,
    GW_JSON_FALSE,
    GW_JSON_NULL,
    GW_JSON_END, // of the input
    GW_JSON_TOKEN_COUNT
};

struct gw_json_scan {
    const char *start;
    const char *at;
    const char *end;
    uint64_t objects;     // bit i: level i is an object
    uint32_t depth;       // open objects and lists
    unsigned expect;      // private
    struct base_str text; // of KEY and STRING without quotes, escapes as they stand; of numbers
    bool escaped;         // the text has escapes
};

void gw_scan_init(struct gw_json_scan *scan, struct base_str text);
// INVALID (scan->at is where), TOO_LARGE: too deep. After an error or END it is not called again.
BASE_NODISCARD enum base_status gw_scan_next(struct gw_json_scan *scan, enum gw_json_token *out);
// Is this well-formed as a whole?
BASE_NODISCARD enum base_status gw_scan_check(struct base_str text);
// The value of a number's text.
double gw_scan_real(struct base_str number);

#endif
