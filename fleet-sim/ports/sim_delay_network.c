// Delays by class of network. run/fleet_virtual.c hands the port to the gateway's core in virtual
// time, which asks it for each message on its way. Whole numbers only: a logarithm is a table, so
// that every machine draws the same.
#include "ports/sim_delay_network.h"

#include "base/check.h"

#define LN2_Q16      45426u
#define JITTER_LOGS  22u // of 2: the least likely draw
#define OF_DEVICE(m) ((m)->device * UINT64_C(0x9e3779b97f4a7c15))

#define WINDOW_BYTES 14600u // that a connection may have on its way first: RFC 6928
#define OPENS_TRIPS  2u     // there and back: TCP's handshake, and that of TLS 1.3 (RFC 8446)

// log2(1 + i / 16) << 16
static const uint32_t log2_q16[17] = {0,     5732,  11136, 16248, 21098, 25711, 30109, 34312, 38336,
                                      42196, 45904, 49472, 52911, 56229, 59434, 62534, 65536};

// -ln(u) << 16 of a uniform number in (0, 1]: exponential, of mean 1 << 16.
static uint64_t exponential_q16(uint64_t random)
{
    uint32_t u = (uint32_t)(random >> 32) | 1u;
    uint32_t zeros = (uint32_t)__builtin_clz(u);
    uint32_t rest = (u << zeros) & 0x7fffffffu; // behind the first one
    uint32_t place = rest >> 27;
    uint64_t part = rest & 0x7ffffffu;
    uint64_t log = log2_q16[place] + ((log2_q16[place + 1] - log2_q16[place]) * part >> 27);
    uint64_t minus = ((uint64_t)(zeros + 1) << 16) - log;
    minus = minus < ((uint64_t)JITTER_LOGS << 16) ? minus : (uint64_t)JITTER_LOGS << 16;
    return minus * LN2_Q16 >> 16;
}

// Is this stretch of the device's time one of those that `ppm` of it is?
static bool in_stretch(const struct sim_population *population, const struct sim_message *message,
                       uint32_t stream, uint64_t stretch, uint32_t ppm)
{
    uint64_t index = OF_DEVICE(message) ^ stretch;
    return ppm > 0 && sim_chance(sim_draw(population->seed, index, stream), ppm);
}

// How long until the device is online: to the end of the stretches without a link.
static uint64_t offline_us(const struct sim_population *population,
                           const struct sim_message *message, const struct sim_network *network)
{
    uint64_t first = message->at_us / SIM_DELAY_OFFLINE_US;
    uint64_t stretch = first;
    while (stretch - first < SIM_DELAY_AWAY_MAX &&
           in_stretch(population, message, SIM_STREAM_OFFLINE, stretch, network->offline_ppm)) {
        stretch++;
    }
    return stretch > first ? stretch * SIM_DELAY_OFFLINE_US - message->at_us : 0;
}

// Waits for what is lost and sent again.
static uint64_t lost_us(const struct sim_population *population, const struct sim_message *message,
                        const struct sim_network *network)
{
    uint64_t burst = message->at_us / SIM_DELAY_BURST_US;
    bool bad = in_stretch(population, message, SIM_STREAM_BURST, burst, network->bad_ppm);
    uint32_t ppm = bad ? network->bad_loss_ppm : network->loss_ppm;
    uint64_t number = OF_DEVICE(message) + ((uint64_t)message->count << 1 | message->up);
    uint64_t us = 0;
    for (uint32_t i = 0; ppm > 0 && i < SIM_DELAY_LOST_MAX; i++) {
        uint64_t draw = sim_draw(population->seed + i, number, SIM_STREAM_LOSS);
        if (!sim_chance(draw, ppm)) {
            break;
        }
        us += (uint64_t)SIM_DELAY_AGAIN_US << i;
    }
    return us;
}

static uint64_t sent_us(uint64_t bytes, uint32_t kbps)
{
    return kbps > 0 ? bytes * 8000 / kbps : 0;
}

// How long the sender of so many bytes pauses until the first of them are acknowledged: slow start
// (RFC 5681), from the first window on, which doubles with each round trip until the link is full.
static uint64_t pauses_us(const struct sim_network *network, uint32_t kbps, uint64_t bytes)
{
    uint64_t trip_us = 2 * (uint64_t)network->delay_us;
    uint64_t us = 0;
    uint64_t window = WINDOW_BYTES;
    for (uint64_t sent = window; sent < bytes && sent_us(window, kbps) < trip_us; sent += window) {
        us += trip_us - sent_us(window, kbps);
        window *= 2;
    }
    return us;
}

static struct sim_delay network_delay(void *ctx, const struct sim_message *message)
{
    const struct sim_population *population = ctx;
    const struct sim_network *network = sim_population_network(population, message->device);
    uint64_t number = OF_DEVICE(message) + ((uint64_t)message->count << 1 | message->up);
    uint64_t draw = sim_draw(population->seed, number, SIM_STREAM_DELAY);
    uint32_t kbps = message->up ? network->up_kbps : network->down_kbps;
    base_assert(network->delay_us < UINT32_MAX);
    uint64_t us = network->delay_us + (exponential_q16(draw) * network->jitter_us >> 16);
    us += lost_us(population, message, network) + offline_us(population, message, network);
    us += message->opens ? 2 * OPENS_TRIPS * (uint64_t)network->delay_us : 0;
    uint64_t end = (uint64_t)message->behind + message->bytes;
    return (struct sim_delay){
        .link_us = sent_us(message->bytes, kbps),
        .wait_us = pauses_us(network, kbps, end) - pauses_us(network, kbps, message->behind),
        .way_us = us,
    };
}

struct sim_delay_port sim_delay_network(const struct sim_population *population)
{
    return (struct sim_delay_port){
        .ctx = (void *)(uintptr_t)population, .least_us = SIM_DELAY_LEAST_US, .of = network_delay};
}
