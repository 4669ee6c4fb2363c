// UTF-8 checks and copies for names, messages and output (RFC 3629: no overlong forms, no
// surrogates). Called by the script VM wherever text leaves it, by its verifier, and by the posix
// port for what a task's process says (posix_child_parse.c, posix_task.c); pure, any thread.
// Scripts can make strings of any bytes: what is shown gets a '?' for each that is no character,
// what is checked is refused.
#include "vm/mpy/vm_text.h"

#include "base/text/str_cut.h"

#include <string.h>

// Bytes of the character at the start of `text`; 0: there is none.
static size_t character_size(const uint8_t *text, size_t left)
{
    uint8_t lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || more >= left) {
        return 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool wrong = (lead == 0xE0 && text[1] < 0xA0) || (lead == 0xED && text[1] > 0x9F) ||
                 (lead == 0xF0 && text[1] < 0x90) || (lead == 0xF4 && text[1] > 0x8F);
    return wrong ? 0 : more + 1;
}

#define ASCII_STEP sizeof(uint64_t)

// Are so many bytes there, and all of them characters of their own?
static bool ascii_step(const uint8_t *text, size_t left)
{
    uint64_t word = 0;
    if (left < ASCII_STEP) {
        return false;
    }
    memcpy(&word, text, sizeof(word));
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

bool dev_text_valid(const uint8_t *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        if (ascii_step(text + at, size - at)) {
            at += ASCII_STEP;
            continue;
        }
        size_t step = character_size(text + at, size - at);
        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}

void dev_text_clean(char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t step = character_size((const uint8_t *)text + at, size - at);
        if (step == 0) {
            text[at] = '?';
            step = 1;
        }
        at += step;
    }
}

void dev_text_set(char *field, size_t capacity, struct base_str text)
{
    size_t size = base_str_fit(text, capacity - 1);
    if (size > 0) {
        memcpy(field, text.data, size);
    }
    field[size] = '\0';
    dev_text_clean(field, size);
}

void dev_text_show(char *field, size_t capacity, struct base_str text)
{
    static const char mark[] = "...";
    if (text.size < capacity) {
        dev_text_set(field, capacity, text);
        return;
    }
    dev_text_set(field, capacity - sizeof(mark) + 1, text);
    memcpy(field + strlen(field), mark, sizeof(mark));
}
