// Rich errors, used only at borders (config, JSON, model, package, command line): a code, where,
// and a text.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/status.h"

#include <stdint.h>

BASE_C_BEGIN

#define BASE_ERROR_TEXT_MAX 160

struct base_error {
    enum base_status status;
    uint32_t line;   // 1-based; 0: not known
    uint32_t column; // 1-based; 0: not known
    char text[BASE_ERROR_TEXT_MAX];
};

// Fills `error` (NULL allowed) with printf text cut at BASE_ERROR_TEXT_MAX - 1 bytes, and returns
// `status`.
enum base_status base_error_set(struct base_error *error, enum base_status status,
                                const char *format, ...) BASE_PRINTF(3, 4);

BASE_C_END

#endif
