// Two tiers of assertion. `base_assert`: programmer error, debug builds only. `base_check`: a cheap
// memory-safety invariant, on in every build. Neither is for input: input is validated.
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stdnoreturn.h>

noreturn void base_check_failed(const char *file, int line, const char *expression);

#define base_check(expression)                                                                     \
    do {                                                                                           \
        if (__builtin_expect(!(expression), 0)) {                                                  \
            base_check_failed(__FILE__, __LINE__, #expression);                                    \
        }                                                                                          \
    } while (0)

#ifdef BASE_DEBUG
#define base_assert(expression) base_check(expression)
#else
#define base_assert(expression) ((void)sizeof((expression) ? 1 : 0))
#endif

#endif
