// The real clocks. This file is the only place that asks the kernel for the time.
//
// Programs and ports call it from any thread; cores never do.
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t which)
{
    struct timespec now = {0, 0};
    if (clock_gettime(which, &now) != 0 || now.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t base_clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t base_clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

static uint64_t port_mono(void *ctx)
{
    (void)ctx;
    return base_clock_mono_us();
}

static uint64_t port_wall(void *ctx)
{
    (void)ctx;
    return base_clock_wall_us();
}

const struct base_clock_port *base_clock_real(void)
{
    static const struct base_clock_port real = {
        .ctx = NULL, .mono_us = port_mono, .wall_us = port_wall};
    return &real;
}

static uint64_t port_through_sleep(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_BOOTTIME);
}

const struct base_clock_port *base_clock_through_sleep(void)
{
    static const struct base_clock_port port = {
        .ctx = NULL, .mono_us = port_through_sleep, .wall_us = port_wall};
    return &port;
}
