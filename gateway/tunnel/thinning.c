// The ladder of thinning.h: at how many bytes of memory a step begins, and what share of a class is
// kept in it. Pure; session_output.c asks on a worker's thread, each worker with a step of its own,
// and gw_tunnel.c lays out the ladder at start. A step is left only at three quarters of where it
// began, so that it does not flutter.
#include "tunnel/thinning.h"

#include "base/check.h"
#include "wire/tunnel_frame.h"

// Kept of a class in each step, in millionths.
static const uint32_t kept[GW_THIN_STEPS + 1][WIRE_TUNNEL_CLASSES] = {
    {WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL,
     WIRE_TUNNEL_SAMPLE_ALL},
    {WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL,
     WIRE_TUNNEL_SAMPLE_ALL / 4},
    {WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL / 2,
     WIRE_TUNNEL_SAMPLE_ALL / 16},
    {WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL, WIRE_TUNNEL_SAMPLE_ALL / 4,
     WIRE_TUNNEL_SAMPLE_ALL / 64},
};

void gw_thin_init(struct gw_thin *thin, uint64_t memory_max, uint32_t percent)
{
    percent = percent == 0 ? GW_THIN_PERCENT : percent;
    percent = percent > 100 ? 100 : percent;
    thin->enter[0] = 0;
    thin->enter[1] = memory_max / 100 * percent;
    thin->enter[2] = thin->enter[1] + (memory_max - thin->enter[1]) / 2;
    thin->enter[3] = memory_max;
    base_assert(thin->enter[1] <= thin->enter[2]);
    base_assert(thin->enter[2] <= thin->enter[3]);
}

uint32_t gw_thin_next(const struct gw_thin *thin, uint32_t step, uint64_t bytes)
{
    uint32_t next = step > GW_THIN_STEPS ? GW_THIN_STEPS : step;
    while (next < GW_THIN_STEPS && bytes > thin->enter[next + 1]) {
        next++;
    }
    while (next > 0 && bytes <= thin->enter[next] / 4 * 3) {
        next--;
    }
    base_assert(next <= GW_THIN_STEPS);
    return next;
}

uint32_t gw_thin_ppm(uint32_t step, uint8_t class_id)
{
    return step <= GW_THIN_STEPS && class_id < WIRE_TUNNEL_CLASSES ? kept[step][class_id]
                                                                   : WIRE_TUNNEL_SAMPLE_ALL;
}
