// Sessions of a person's day. run/fleet_device.c asks for the next one when a device goes to sleep;
// arrivals.c has the same day for a whole fleet. Whole numbers only: what is log-normal is a table,
// so that every machine draws the same.
#include "people/presence.h"

#include "base/check.h"
#include "people/sim_draw.h"

#define QUARTERS_A_DAY  96u
#define QUARTERS_BEHIND 3u // a session that began so long ago may last until now

// Few before six, a rise at noon, most in the evening.
const uint16_t sim_day_hours[SIM_DAY_HOURS] = {24, 14, 9,  7,  7,  12, 26, 40, 45, 44, 43, 45,
                                               54, 50, 44, 43, 44, 48, 56, 66, 78, 85, 72, 44};

// Tenths of a session a day, of 16 equally frequent sorts of people.
static const uint16_t sessions_a_day[16] = {2,  3,  6,  10, 15,  20,  30,  40,
                                            50, 60, 80, 90, 110, 140, 190, 280};

// Seconds, of 32 equally likely sessions: log-normal, median three minutes, sigma 1.2.
static const uint16_t session_s[32] = {14,  24,  33,  41,  49,  58,  66,  75,  85,   95,  106,
                                       117, 129, 142, 156, 172, 189, 207, 228, 251,  277, 307,
                                       341, 382, 429, 488, 561, 656, 787, 987, 1345, 2387};

static uint64_t quarter_draw(const struct sim_person *person, uint64_t quarter)
{
    uint64_t index = person->index * UINT64_C(0x9e3779b97f4a7c15) ^ quarter;
    return sim_draw(person->seed, index, SIM_STREAM_ONLINE);
}

// Does a session begin in this quarter of an hour? When, and until when.
static bool session_in(const struct sim_person *person, uint64_t quarter, uint64_t *out_from_ms,
                       uint64_t *out_until_ms)
{
    uint64_t draw = quarter_draw(person, quarter);
    uint32_t sort = sim_draw(person->seed, person->index, SIM_STREAM_ONLINE) % 16;
    uint32_t hour = (uint32_t)((quarter / 4 + person->from_hour + person->zone) % SIM_DAY_HOURS);
    // Tenths a day, thousandths of a day in this hour, four quarters in it.
    uint32_t ppm = (uint32_t)sessions_a_day[sort] * sim_day_hours[hour] * 100 / 4;
    if (!sim_chance(draw, ppm)) {
        return false;
    }
    uint64_t more = base_mix64(draw);
    *out_from_ms = quarter * SIM_QUARTER_MS + sim_below(more, SIM_QUARTER_MS);
    *out_until_ms = *out_from_ms + session_s[more % 32] * UINT64_C(1000);
    return true;
}

uint64_t sim_presence_next_ms(const struct sim_person *person, uint64_t ms)
{
    base_assert(person->zone < SIM_DAY_HOURS && person->from_hour < SIM_DAY_HOURS);
    uint64_t quarter = ms / SIM_QUARTER_MS;
    uint64_t last = quarter + SIM_PRESENCE_DAYS * QUARTERS_A_DAY;
    quarter = quarter > QUARTERS_BEHIND ? quarter - QUARTERS_BEHIND : 0;
    for (; quarter < last; quarter++) {
        uint64_t from_ms = 0;
        uint64_t until_ms = 0;
        if (session_in(person, quarter, &from_ms, &until_ms) && until_ms > ms) {
            return from_ms > ms ? from_ms : ms;
        }
    }
    return last * SIM_QUARTER_MS;
}
