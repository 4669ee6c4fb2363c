// Short texts inside messages: a size byte and the bytes. For the files of this folder only.
#ifndef WIRE_WIRETEXT_H
#define WIRE_WIRETEXT_H

#include "base/cursor.h"
#include "base/str.h"

// u8 size, bytes. Sizes over `max` fail the cursor with TOO_LARGE. The text is borrowed.
struct base_str wire_text_read(struct base_reader *reader, size_t max);
void wire_text_write(struct base_writer *writer, struct base_str text, size_t max);

// Well-formed UTF-8 (no overlong forms, surrogates or values past U+10FFFF) without control
// characters.
bool wire_text_printable(struct base_str text);
// Well-formed UTF-8, control characters included.
bool wire_text_utf8(struct base_str text);

#endif
