// The end of the road for a broken invariant: say which one, and abort.
//
// Called by base_check and base_assert from any thread. It uses only what is safe when memory may
// already be damaged: no allocation, one write.
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

noreturn void base_check_failed(const char *file, int line, const char *expression)
{
    char text[512];
    int size = snprintf(text, sizeof text, "%s:%d: check failed: %s\n", file, line, expression);
    if (size > 0) {
        size_t bytes = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
        ssize_t ignored = write(STDERR_FILENO, text, bytes);
        (void)ignored;
    }
    abort();
}
