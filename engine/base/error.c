// Rich errors for borders: config, JSON, command lines, packages.
//
// The text is formatted into storage of the caller and cut, so that setting an error cannot fail.
// Called from any thread; there is no state.
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

enum base_status base_error_set(struct base_error *error, enum base_status status,
                                const char *format, ...)
{
    if (error == NULL) {
        return status;
    }
    *error = (struct base_error){.status = status};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}
