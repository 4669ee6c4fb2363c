// Behaviour events as JSON lines, for `walle-device --events` and `walle-fleet-sim --behaviour`:
// what an app says by dev_record, one object a line.
//
//   {"kind":"exposure","page":"item","item":"i-1041","t":1767225600000,"attrs":{"position":3,"price":12.5,"ad":true}}
//
// kind: enter scroll exposure click exit, or custom with a "name". "page" is needed; "item",
// "instance" (a whole number), "t" (milliseconds since 1970; the time it is read when absent) and
// "attrs" (texts, numbers, true, false) are not.
#ifndef EVENT_LINES_H
#define EVENT_LINES_H

#include "base/error.h"
#include "pipeline/record/recorder.h"

#define EVENT_LINE_MAX (16 * 1024) // bytes of a line

struct event_line; // the parsed line, which a recording's texts point into

// INVALID, TOO_LARGE, NOMEM; `error` says the column or the field. *out_recording is valid until
// event_line_free.
BASE_NODISCARD enum base_status event_line_parse(struct base_str line, struct event_line **out_line,
                                                 struct dev_recording *out_recording,
                                                 struct base_error *error);
void event_line_free(struct event_line *line); // accepts NULL

#endif
