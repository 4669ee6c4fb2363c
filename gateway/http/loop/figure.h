// Figures that one worker counts (struct gw_transport_stats) and other threads read at any time:
// each has a single writer, so a plain sum stored at once is enough.
#ifndef GW_HTTP_FIGURE_H
#define GW_HTTP_FIGURE_H

#include <stdint.h>

static inline void gw_stat_add(uint64_t *figure, uint64_t amount)
{
    __atomic_store_n(figure, *figure + amount, __ATOMIC_RELAXED);
}

static inline void gw_stat_set(uint64_t *figure, uint64_t value)
{
    __atomic_store_n(figure, value, __ATOMIC_RELAXED);
}

static inline void gw_stat_sub(uint64_t *figure, uint64_t amount)
{
    __atomic_store_n(figure, *figure - amount, __ATOMIC_RELAXED);
}

#endif
