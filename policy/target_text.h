// A target as one text of the targeting language, the same for every way to write it down: a list
// of conditions becomes tests joined by &&, and one space stands between tokens. What two sides
// must agree on is compared as this text.
#ifndef POL_TARGET_TEXT_H
#define POL_TARGET_TEXT_H

#include "policy/target.h"

#include <stddef.h>

// Writes the text and its NUL; empty for a target that everybody belongs to. False: it does not fit
// in `capacity`, or a condition's text holds bytes that the language cannot spell (control
// characters but newline and tab).
bool pol_target_text(const struct pol_target *target, char *out, size_t capacity, size_t *out_size);

#endif
