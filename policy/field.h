// A member of a document that people write: what it is called and what it may hold. The gateway
// checks what it is sent by it, and `walle` what it sends; both say what is wrong in the same
// words.
#ifndef POL_FIELD_H
#define POL_FIELD_H

#include <stdbool.h>

struct pol_field {
    const char *name;
    bool required;
    double min; // of a number
    double max; // of a number; of a text: bytes; of a list: items
};

#endif
