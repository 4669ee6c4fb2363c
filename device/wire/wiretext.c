// Short texts inside messages, and the check that a text may be shown to people.
//
// Called by the codecs of this folder, on any thread.
#include "wire/wiretext.h"

struct base_str wire_text_read(struct base_reader *reader, size_t max)
{
    size_t size = base_reader_u8(reader);
    if (size > max) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
    }
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (bytes == NULL) {
        return (struct base_str){NULL, 0};
    }
    return (struct base_str){(const char *)bytes, size};
}

void wire_text_write(struct base_writer *writer, struct base_str text, size_t max)
{
    if (text.size > max || text.size > UINT8_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return;
    }
    base_writer_u8(writer, (uint8_t)text.size);
    base_writer_bytes(writer, text.data, text.size);
}

// Size of the UTF-8 sequence at `at` (its first byte is above 0x7f), 0 when it is malformed.
static size_t utf8_sequence(const uint8_t *at, size_t left)
{
    // The smallest value each length may encode, so that every character has one spelling.
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc0 || at[0] > 0xf4 || left < size) {
        return 0;
    }
    uint32_t value = at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (at[i] & 0x3fu);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return value < smallest[size] || value > 0x10ffff || surrogate ? 0 : size;
}

static bool well_formed(struct base_str text, bool controls)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    size_t at = 0;
    while (at < text.size) {
        if (!controls && (bytes[at] < 0x20 || bytes[at] == 0x7f)) {
            return false;
        }
        if (bytes[at] < 0x80) {
            at++;
            continue;
        }
        size_t size = utf8_sequence(bytes + at, text.size - at);
        bool control = size == 2 && bytes[at] == 0xc2 && bytes[at + 1] < 0xa0;
        if (size == 0 || (control && !controls)) {
            return false;
        }
        at += size;
    }
    return true;
}

bool wire_text_printable(struct base_str text)
{
    return well_formed(text, false);
}

bool wire_text_utf8(struct base_str text)
{
    return well_formed(text, true);
}
