// Globs over a whole text, case-sensitive, by characters of UTF-8:
//
//   *  any run, also none      ?  one character      [a-z_]  one of them      [!a-z_]  one other
//
// A `]` is itself as the first of a class, a `-` as the first or last. Everything else is itself, a
// backslash too; [*] is a star. Matching takes at most (text characters x pattern characters)
// steps and no memory. Any thread.
#ifndef POL_GLOB_H
#define POL_GLOB_H

#include <stdbool.h>
#include <stdint.h>

#define POL_GLOB_BYTES_MAX 256u

// Is the pattern well formed? Otherwise *out_at is the byte where it is not, and *out_message says
// why.
bool pol_glob_check(const char *pattern, uint32_t size, uint32_t *out_at, const char **out_message);
// `pattern` must be well formed.
bool pol_glob_match(const char *pattern, uint32_t pattern_size, const char *text,
                    uint32_t text_size);

#endif
