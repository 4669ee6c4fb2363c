// Borrowed text cut to size: without what stands around it, or as far as there is room.
#ifndef BASE_STR_CUT_H
#define BASE_STR_CUT_H

#include "base/str.h"

struct base_str base_str_trim(struct base_str text); // without blanks, tabs and CR at both ends
// How many bytes of `text` to take where there is room for `room`: never part of a UTF-8 character.
size_t base_str_fit(struct base_str text, size_t room);
// As text with a NUL behind it, cut at `capacity` (> 0).
void base_str_copy(struct base_str text, char *out, size_t capacity);

#endif
