// Borrowed bytes with a length: of a file, or of what is put into one. What base_str is for texts.
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

struct base_span {
    const uint8_t *data;
    size_t size;
};

#endif
