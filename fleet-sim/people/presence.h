// When people have the app open: sessions through their day, where they live.
//
// A day has more sessions at some hours than at others; a session begins by chance, as often as
// this person takes up the phone: some many times a day, some once in days, so the gaps between
// sessions have a long tail. How long one lasts is log-normal. All of it is drawn from seed, device
// and the quarter of an hour, so nothing is stored, and any thread may ask.
#ifndef SIM_PRESENCE_H
#define SIM_PRESENCE_H

#include <stdint.h>

#define SIM_DAY_HOURS     24u
#define SIM_PRESENCE_DAYS 40u     // nobody stays away longer
#define SIM_QUARTER_MS    900000u // in which at most one session begins

// Shares of a day's sessions by hour of local time, in parts per thousand.
extern const uint16_t sim_day_hours[SIM_DAY_HOURS];

struct sim_person {
    uint64_t seed;
    uint64_t index;     // of the device
    uint32_t zone;      // hours later than UTC, 0 to 23
    uint32_t from_hour; // of UTC at which the run began
};

// The first moment from `ms` on (since the run began) at which the app is open.
uint64_t sim_presence_next_ms(const struct sim_person *person, uint64_t ms);

#endif
