// Business requests: when each device makes one, what rides on it, and what the answer brings.
// Called from a device's turns and by its transport, on the shard's thread. That is fleet_device.c.
// A device has one such request open at a time: its user waits for it. The gap to the next one is
// drawn from seed, device and number, half to one and a half of the mean. Whether a request is
// served is counted here by status, below 500 or not.
#include "run/fleet_business.h"

#include "run/fleet_enrol.h"

#define MINUTE_MS   60000.0
#define GAPS_WAITED 4 // a runtime waits for a ride so many mean gaps long
#define WAIT_S_MIN  60

static double mean_ms(const struct sim_options *options)
{
    return MINUTE_MS / options->business_rate;
}

uint32_t sim_business_wait_s(const struct sim_options *options)
{
    if (!(options->business_rate > 0)) {
        return 0;
    }
    double wait_s = GAPS_WAITED * mean_ms(options) / 1000;
    return wait_s < WAIT_S_MIN            ? WAIT_S_MIN
           : wait_s > DEV_RIDE_WAIT_MAX_S ? DEV_RIDE_WAIT_MAX_S
                                          : (uint32_t)wait_s;
}

uint32_t sim_business_next_ms(const struct sim_shard *shard, uint32_t device)
{
    return shard->business != NULL ? shard->business[device].due_ms : SIM_WHEEL_NONE;
}

// Half to one and a half of the mean.
static uint32_t gap_ms(struct sim_shard *shard, const struct sim_awake *awake)
{
    uint64_t draw = sim_draw(shard->options->seed + shard->business[awake->device].count++,
                             sim_shard_index(shard, awake->device), SIM_STREAM_BUSINESS);
    double share = 0.5 + (double)(draw >> 32) / 4294967296.0;
    return 1 + (uint32_t)(mean_ms(shard->options) * share);
}

static struct sim_exchange *free_exchange(struct sim_awake *awake)
{
    struct sim_exchange *found = NULL;
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX; i++) {
        struct sim_exchange *exchange = &awake->exchanges[i];
        if (exchange->open && exchange->kind == SIM_EXCHANGE_BUSINESS) {
            return NULL; // its user waits for that one
        }
        found = exchange->open ? found : exchange;
    }
    return found;
}

void sim_business_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    uint32_t now_ms = sim_shard_ms(shard, now_us);
    if (now_ms < sim_business_next_ms(shard, awake->device)) {
        return;
    }
    shard->business[awake->device].due_ms = now_ms + gap_ms(shard, awake);
    struct sim_exchange *exchange = free_exchange(awake);
    if (exchange == NULL) {
        return;
    }
    char hex[WIRE_DEVICE_HEX + 1];
    wire_device_hex(awake->id, hex);
    bool rides = dev_ride_start(awake->runtime, &shard->ride) == BASE_OK;
    *exchange = (struct sim_exchange){
        .owner = awake,
        .device = awake->device,
        .id = rides ? shard->ride.number : 0,
        .started_us = now_us,
        .kind = SIM_EXCHANGE_BUSINESS,
        .credential = sim_awake_credential(awake),
        .ride = rides ? &shard->ride : NULL,
    };
    const struct dev_request request = {.method = DEV_METHOD_GET,
                                        .path = BASE_STR(SIM_BUSINESS_PATH),
                                        .device = {hex, WIRE_DEVICE_HEX}};
    enum base_status status = shard->transport.start(shard->transport.ctx, exchange, &request);
    exchange->ride = NULL;
    exchange->open = status == BASE_OK;
    sim_counters_request(&shard->ledger.counters, SIM_EXCHANGE_BUSINESS);
    shard->ledger.counters.business++;
    shard->ledger.counters.request_errors += status != BASE_OK;
    if (status != BASE_OK) {
        sim_business_end(exchange);
    }
}

void sim_business_head(struct sim_exchange *exchange, int status, uint64_t now_us)
{
    struct sim_awake *awake = exchange->owner;
    struct sim_shard *shard = awake->shard;
    struct dev_stats before;
    struct dev_stats after;
    shard->ledger.counters.business_failed += status >= 500;
    shard->ledger.counters.business_served += status < 500;
    dev_stats(awake->runtime, &before);
    dev_ride_end(awake->runtime, exchange->id, exchange->answer_ride, exchange->answer_offer);
    dev_stats(awake->runtime, &after);
    if (after.rides > before.rides) {
        shard->ledger.counters.rides++;
        sim_device_checked_in(shard, awake, exchange->started_us, now_us);
    }
    shard->ledger.counters.ride_reports += after.ride_reports - before.ride_reports;
}

// To the runtime it is nothing, where the head has come before.
void sim_business_end(struct sim_exchange *exchange)
{
    const struct base_str none = {0};
    struct sim_awake *awake = exchange->owner;
    awake->shard->ledger.counters.business_failed += !exchange->answered;
    dev_ride_end(awake->runtime, exchange->id, none, none);
}
