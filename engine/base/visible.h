// Text from outside made fit to be shown: nothing in it moves a cursor, colours a screen, turns the
// direction of a line or hides.
//
// What has an effect instead of a shape, or none that is seen, is written out as \uXXXX (past
// U+FFFF as two): control characters (C0, DEL, C1), marks and overrides of direction (U+061C,
// U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), separators of lines (U+2028, U+2029), what
// has no width (U+200B to U+200D, U+2060 to U+2064, U+FEFF, the soft hyphen, joiners, fillers,
// selectors of variants, tags). Bytes that are no UTF-8 are \xNN. Within a JSON string \uXXXX is
// the same character, so JSON stays JSON and says the same.
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include "base/str.h"

#define BASE_VISIBLE_MAX 12u // bytes that one step writes at most

enum base_visible {
    BASE_VISIBLE_TEXT,  // a text within a line: line feeds and tabs are written out, too
    BASE_VISIBLE_LINES, // whole output: line feeds and tabs pass
};

// One step: shows the character at the start of `bytes` (size > 0) and returns how many of them it
// took, 1 to 4. 0: they end within a character; more bytes may complete it.
size_t base_visible_step(const uint8_t *bytes, size_t size, enum base_visible mode,
                         char out[BASE_VISIBLE_MAX], size_t *out_size);
// Shows a whole text, with a NUL behind it, cut at a character where `capacity` (> 0) ends.
// Returns the bytes written, without the NUL.
size_t base_visible_text(struct base_str text, char *out, size_t capacity);
// Whether base_visible_text would change nothing.
bool base_visible_is(struct base_str text);

#endif
