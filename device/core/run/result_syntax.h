// JSON as results have it: is it well formed, and where do its values end? For result_compare.c.
#ifndef DEV_RESULT_SYNTAX_H
#define DEV_RESULT_SYNTAX_H

#include "base/str.h"

#include <stdint.h>

// One value and white space, by RFC 8259, nested at most `depth_max` (up to 1,024) deep. UTF-8 is
// not looked at.
bool dev_json_ok(struct base_str text, uint32_t depth_max);

// Of a text that is ok: positions never leave it.
size_t dev_json_space_end(struct base_str text, size_t at);
// The end of the text, number or word that begins at `at`.
size_t dev_json_token_end(struct base_str text, size_t at);
// The end of the value that begins at `at`, whatever it is.
size_t dev_json_value_end(struct base_str text, size_t at);

// Do two numbers lie within max(absolute, relative * the larger magnitude)?
bool dev_number_within(struct base_str a, struct base_str b, double absolute, double relative);

#endif
