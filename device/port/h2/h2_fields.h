// Which header fields of requests go into a connection's compression table (HPACK, RFC 7541).
//
// What is there is said again in a byte or two, and a name that is there need not be spelled. But
// the table is small, and both ends keep it as long as the connection lasts. So a connection puts
// nothing there before it carried H2_FIELDS_BUSY requests; then of each name the first value alone,
// until another one comes: from there on the values of this name go beside the table, as on a
// connection that many devices share. What proves who asks is never put there, nor are long values.
//
// One owner, one thread. No allocation.
#ifndef H2_FIELDS_H
#define H2_FIELDS_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define H2_FIELDS_BUSY      32  // requests from which on a connection carries many
#define H2_FIELDS_NAMES_MAX 12  // remembered; others go beside the table
#define H2_FIELDS_VALUE_MAX 160 // bytes

// Hashes are enough: when two are alike a value lies in the table for nothing, and no more.
struct h2_field_seen {
    uint32_t name;
    uint32_t value; // of the one in the table
};

// All zeros are a connection without requests.
struct h2_fields {
    uint32_t requests; // counts up to H2_FIELDS_BUSY
    uint32_t count;
    uint32_t varies; // bit i: name i had another value
    struct h2_field_seen seen[H2_FIELDS_NAMES_MAX];
};

// Another request begins.
void h2_fields_request(struct h2_fields *fields);
// Is this field of it for the table?
bool h2_fields_index(struct h2_fields *fields, struct base_str name, struct base_str value);

#endif
