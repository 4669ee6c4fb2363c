// Delay over ideal: how much later devices had the version than with a gateway that loses no time.
//
// With such a gateway every device has it the moment it comes online, so its curve is that of the
// arrivals, from when the version was there. What lies between the two curves is what the way of
// the release added: its stages, the waits between check-ins, the network and the gateway.
#ifndef SIM_DELAY_IDEAL_H
#define SIM_DELAY_IDEAL_H

#include "report/run_result.h"

#include <jansson.h>

#define SIM_IDEAL_SHARES 4

// Compared at a share of the fleet, or at a point that the shape of the arrivals names.
struct sim_ideal_row {
    double share;     // of the fleet
    double devices;   // that the ideal has then
    double ideal_s;   // when it has them
    double reached_s; // when so many had run it; negative: never
    double ran;       // how many had run it when the ideal had `devices`
};

struct sim_ideal {
    uint8_t version;   // SIM_VERSION_NONE: none ran, nothing is compared
    double released_s; // when the version was there: devices that came before had to ask again
    struct sim_ideal_row shares[SIM_IDEAL_SHARES]; // 50, 90, 99 and 100 %
    struct sim_ideal_row points[SIM_ARRIVAL_POINTS_MAX];
    uint32_t point_count;
};

void sim_ideal_compare(const struct sim_run_result *result, struct sim_ideal *out);
// Null where nothing is compared. NULL: no memory.
json_t *sim_ideal_json(const struct sim_run_result *result);
// A section of report.html; nothing where nothing is compared.
void sim_ideal_section(const struct sim_run_result *result, FILE *file);
// A line of the summary, likewise.
void sim_ideal_print(const struct sim_run_result *result, FILE *file);

#endif
