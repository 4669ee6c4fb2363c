// `pol_assert`: a programmer error, in debug builds alone, as `base_assert` is elsewhere; policy
// uses nothing, so it ends the process by itself and says nothing. Never for input, which has a
// reason code.
#ifndef POL_ASSERT_H
#define POL_ASSERT_H

#ifdef BASE_DEBUG
#define pol_assert(expression)                                                                     \
    do {                                                                                           \
        if (__builtin_expect(!(expression), 0)) {                                                  \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)
#else
#define pol_assert(expression) ((void)sizeof((expression) ? 1 : 0))
#endif

#endif
