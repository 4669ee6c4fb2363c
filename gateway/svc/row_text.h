// Texts in rows of the store.
#ifndef GW_ROW_TEXT_H
#define GW_ROW_TEXT_H

#include "base/cursor.h"

// A text of at most `max` (255) bytes in a row: u8 size, bytes. Reading leaves `out` without a NUL
// of its own, and fails the reader when it is longer.
void gw_row_text_write(struct base_writer *writer, const char *text, size_t max);
void gw_row_text_read(struct base_reader *reader, char *out, size_t max);

#endif
