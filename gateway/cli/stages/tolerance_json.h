// The "tolerance" of a shadow stage as its file says it, for the statement that is signed and for
// people.
#ifndef TOLERANCE_JSON_H
#define TOLERANCE_JSON_H

#include "wire/tolerance.h"

#include <jansson.h>

// False: *out_wrong says what is wrong with it (static text). An absent or null one is empty.
bool tolerance_json_read(const json_t *stage, struct wire_tolerances *out, const char **out_wrong);
// Behind a line about a shadow stage: "; numbers within 1e-06". Nothing without one.
void tolerance_json_print(const json_t *stage);

#endif
