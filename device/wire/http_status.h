// Status codes as texts: their titles (RFC 9110, section 15), their digits, and which of them HPACK
// knows by itself.
#ifndef WIRE_HTTP_STATUS_H
#define WIRE_HTTP_STATUS_H

#include "base/str.h"

#include <stdbool.h>

#define WIRE_STATUS_DIGITS 3

// Title of a status that the gateway answers with, "Error" of another. Static, never NULL.
const char *wire_status_title(int status);
// One that HPACK has by itself (RFC 7541, appendix A): a byte, and no place in the table.
bool wire_status_common(int status);
// Its digits, in `out`, without NUL.
struct base_str wire_status_digits(int status, char out[WIRE_STATUS_DIGITS]);

#endif
