// Which of two compilations of a loop is called: the one for every processor, or the one for those
// with AVX2 and FMA, where the build has it. Asked each time a loop is looked up, which is once an
// operation; the processor was asked when the program started. On any thread.
#include "vm/np/np_wide.h"

#include "vm/np/np_fold.h"
#include "vm/np/np_loops.h"
#include "vm/np/np_product.h"

#if defined(__x86_64__)
#define CHOSEN(name, ...) (dev_np_is_wide() ? name##_wide(__VA_ARGS__) : name##_plain(__VA_ARGS__))

bool dev_np_is_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool dev_np_is_wider(void)
{
    return dev_np_is_wide() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#else
#define CHOSEN(name, ...) name##_plain(__VA_ARGS__)

bool dev_np_is_wide(void)
{
    return false;
}

bool dev_np_is_wider(void)
{
    return false;
}
#endif

np_loop *dev_np_binary_loop(enum np_binary function, enum np_type type)
{
    return CHOSEN(dev_np_binary, function, type);
}

np_loop *dev_np_unary_loop(enum np_unary function, enum np_type type)
{
#if defined(__x86_64__)
    if (dev_np_is_wider()) {
        return dev_np_unary_wider(function, type);
    }
#endif
    return CHOSEN(dev_np_unary, function, type);
}

np_loop *dev_np_choose_loop(enum np_type type)
{
    return CHOSEN(dev_np_choose, type);
}

np_loop *dev_np_cast_loop(enum np_type to, enum np_type from)
{
    return CHOSEN(dev_np_casting, to, from);
}

np_loop *dev_np_fold_loop(enum np_fold fold, enum np_type type)
{
    return CHOSEN(dev_np_fold, fold, type);
}

np_place *dev_np_place(bool is_largest, enum np_type type)
{
    return CHOSEN(dev_np_places, is_largest, type);
}

np_axpy *dev_np_axpy_loop(enum np_type type)
{
    return CHOSEN(dev_np_axpy, type);
}

np_dot *dev_np_dot_loop(enum np_type type)
{
    return CHOSEN(dev_np_dot, type);
}

np_tiles *dev_np_tiles_loop(enum np_type type)
{
    return CHOSEN(dev_np_tiles, type);
}
