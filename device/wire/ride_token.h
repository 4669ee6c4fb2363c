// The word by which a ride and its answer know each other: header `walle-ride` of a business
// request and of its answer (docs/PROTOCOL.md, "Push, then pull").
//
//   request  "1 " token        token: 16 lower-case hex digits, drawn anew for each ride
//   answer   token " " words   words: "checkin", "report", "refused"; several with ", " between
//   them
#ifndef WIRE_RIDE_TOKEN_H
#define WIRE_RIDE_TOKEN_H

#include "base/status.h"
#include "base/str.h"

#include <stddef.h>

#define WIRE_RIDE_TOKEN      16
#define WIRE_RIDE_TEXT       (2 + WIRE_RIDE_TOKEN)
#define WIRE_RIDE_ANSWER_MAX (WIRE_RIDE_TOKEN + 1 + 16) // "checkin, refused"

// A request's header, with a NUL behind it.
void wire_ride_text(uint64_t token, char out[WIRE_RIDE_TEXT + 1]);
// The token in a request's header, borrowed. INVALID: it is of no ride, or of another version.
BASE_NODISCARD enum base_status wire_ride_token(struct base_str text, struct base_str *out_token);
// The answer's header to a ride with that token; returns its size. `words` has at most 16 bytes.
size_t wire_ride_answer(struct base_str token, struct base_str words,
                        char out[WIRE_RIDE_ANSWER_MAX]);
// Does an answer to the ride with that token say `word`? False too of another ride's.
bool wire_ride_says(struct base_str answer, uint64_t token, struct base_str word);

#endif
