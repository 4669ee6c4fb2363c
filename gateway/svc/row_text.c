// Texts in rows of the store: of kills, rollouts and lines of their logs. Any thread; pure. A size
// in a byte, then the text; read back it has to fit the reader's array, or the row is damaged.
// kills.c and rollout_state.c call it.
#include "svc/row_text.h"

#include <string.h>

void gw_row_text_write(struct base_writer *writer, const char *text, size_t max)
{
    size_t size = strnlen(text, max);
    base_writer_u8(writer, (uint8_t)size);
    base_writer_bytes(writer, text, size);
}

void gw_row_text_read(struct base_reader *reader, char *out, size_t max)
{
    size_t size = base_reader_u8(reader);
    if (size > max) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    base_reader_copy(reader, out, size);
}
