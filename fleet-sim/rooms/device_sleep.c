// Whether an awake device that has nothing to do sleeps, and until when: what its app, its system
// and a person's day make of the time at which its runtime is due. Called by fleet_device.c on the
// shard's thread.
#include "run/fleet.h"

#include "run/fleet_behaviour.h"
#include "run/fleet_business.h"

#define SLEEP_MS_DEFAULT 300000
#define FAILED_WAKES_MAX 9 // 2^8 seconds, half of them more or less
#define FAILED_MS        1000

// When a device that has nothing to do wakes again: when it is due, or when somebody has its app
// open after that; a zombie never.
static uint64_t wakes_ms(const struct sim_shard *shard, const struct sim_awake *awake,
                         uint64_t due_ms)
{
    const struct sim_options *options = shard->options;
    uint64_t fate = sim_draw(options->seed, awake->index, SIM_STREAM_ZOMBIE);
    if (sim_chance(fate, options->zombie_ppm)) {
        return SIM_WHEEL_NONE - 1;
    }
    if (!options->presence) {
        return due_ms;
    }
    const struct sim_person person = {options->seed, awake->index, sim_traits_zone(&awake->traits),
                                      options->presence_hour};
    return sim_presence_next_ms(&person, due_ms);
}

// A device whose requests fail keeps what it knows of that in memory while there is room, as an app
// in use does. Otherwise its system starts it later and later.
bool sim_device_stays(const struct sim_shard *shard, const struct sim_awake *awake)
{
    return awake->failing && shard->awake_count <= shard->awake_max / 2;
}

static uint64_t failed_due_ms(struct sim_shard *shard, const struct sim_awake *awake,
                              uint64_t now_us)
{
    struct sim_device *device = &shard->devices[awake->device];
    if (!awake->failing) {
        device->failed_wakes = 0;
        return 0;
    }
    uint32_t failed = device->failed_wakes;
    device->failed_wakes = (failed < FAILED_WAKES_MAX ? failed + 1 : failed) & 15u;
    uint64_t mean_ms = (uint64_t)FAILED_MS << (device->failed_wakes - 1);
    uint64_t draw = sim_draw(shard->options->seed + device->wakes,
                             sim_shard_index(shard, awake->device), SIM_STREAM_REBOOT);
    return sim_shard_ms(shard, now_us) + mean_ms / 2 + draw % mean_ms;
}

// When the system starts a device that asked it to at `due_ms`, or later where it may not yet.
static uint64_t alarm_ms(const struct sim_shard *shard, struct sim_awake *awake, uint64_t due_ms)
{
    uint64_t due_us = shard->start_us + due_ms * 1000;
    return (sim_faults_timer_us(&awake->faulty, due_us, true) - shard->start_us) / 1000;
}

// When a device that goes to sleep wakes: `next_us` is when its runtime has something to do.
uint32_t sim_device_sleeps_until_ms(struct sim_shard *shard, struct sim_awake *awake,
                                    uint64_t next_us)
{
    uint64_t now_us = sim_shard_now(shard);
    uint64_t due_ms = next_us == UINT64_MAX
                          ? (uint64_t)sim_shard_ms(shard, now_us) + SLEEP_MS_DEFAULT
                          : (next_us - shard->start_us) / 1000;
    due_ms = alarm_ms(shard, awake, due_ms);
    uint32_t session_ms = sim_behaving_next_ms(shard, awake->device);
    due_ms = session_ms < due_ms ? session_ms : due_ms;
    uint32_t business_ms = sim_business_next_ms(shard, awake->device);
    due_ms = business_ms < due_ms ? business_ms : due_ms;
    due_ms = wakes_ms(shard, awake, due_ms);
    uint64_t failed_ms = alarm_ms(shard, awake, failed_due_ms(shard, awake, now_us));
    due_ms = failed_ms > due_ms ? failed_ms : due_ms;
    return due_ms < SIM_WHEEL_NONE ? (uint32_t)due_ms : SIM_WHEEL_NONE - 1;
}
