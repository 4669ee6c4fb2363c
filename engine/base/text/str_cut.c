// Trimming and copying of borrowed text. Called by the gateway where a line is taken apart
// (http/config/http_config.c, http/guard/address_set.c, http/secret/evidence_keys.c,
// api/api_trust.c) or a text is kept in a field of fixed size (gateway/svc), and by the simulator;
// any thread, no state. A copy is cut at a byte, not at a character, and always ends with a NUL.
#include "base/text/str_cut.h"

#include <string.h>

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

struct base_str base_str_trim(struct base_str text)
{
    while (text.size > 0 && is_blank(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_blank(text.data[text.size - 1])) {
        text.size--;
    }
    return text;
}

size_t base_str_fit(struct base_str text, size_t room)
{
    if (text.size <= room) {
        return text.size;
    }
    size_t size = room;
    while (size > 0 && ((uint8_t)text.data[size] & 0xc0) == 0x80) {
        size--;
    }
    return size;
}

void base_str_copy(struct base_str text, char *out, size_t capacity)
{
    size_t size = text.size < capacity ? text.size : capacity - 1;
    if (size > 0) {
        memcpy(out, text.data, size);
    }
    out[size] = '\0';
}
