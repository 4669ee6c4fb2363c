// Short texts inside messages, and the check that a text may be shown to people.
//
// Called by the codecs of this folder, on any thread.
#include "wire/wiretext.h"

#include <string.h>

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

// ---- Eight bytes at a time, because nearly every text is ASCII

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

// Not 0: one of the bytes is below `limit`, which is at most 0x80.
static uint64_t any_below(uint64_t word, uint8_t limit)
{
    return (word - EACH(limit)) & ~word & EACH(0x80u);
}

// Is there a byte that has to be looked at by itself?
static bool is_special(uint64_t word, bool controls)
{
    uint64_t special = word & EACH(0x80u);
    if (!controls) {
        special |= any_below(word, 0x20) | any_below(word ^ EACH(0x7fu), 1);
    }
    return special != 0;
}

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

// The last four to seven bytes of a short text, or one to three of them, filled up with letters.
static uint64_t short_word(const uint8_t *bytes, size_t size)
{
    uint32_t halves[2];
    if (size >= 4) {
        memcpy(&halves[0], bytes, 4);
        memcpy(&halves[1], bytes + size - 4, 4);
        return halves[0] | (uint64_t)halves[1] << 32;
    }
    return size == 0 ? EACH('a')
                     : EACH('a') << 24 | (uint64_t)bytes[0] << 16 | (uint64_t)bytes[size / 2] << 8 |
                           bytes[size - 1];
}

static bool all_plain(struct base_str text, bool controls)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    size_t size = text.size;
    size_t at = 0;
    if (size < sizeof(uint64_t)) {
        return !is_special(short_word(bytes, size), controls);
    }
    while (at + sizeof(uint64_t) < size && !is_special(word_at(bytes + at), controls)) {
        at += sizeof(uint64_t);
    }
    // The last word may begin in the one before.
    return at + sizeof(uint64_t) >= size &&
           !is_special(word_at(bytes + size - sizeof(uint64_t)), controls);
}

// ---- Character by character

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
    return all_plain(text, false) || well_formed(text, false);
}

bool wire_text_utf8(struct base_str text)
{
    return all_plain(text, true) || well_formed(text, true);
}
