// When devices come online: a curve of how many have come by when, and its inverse.
//
// A shape is one of
//   steady:R        R devices a second
//   ramp:A:B:S      from A a second to B a second within S seconds, then B
//   spike:R:N:S     R a second, and N more within the second that begins at S
//   points:S=N,...  so many have come by second S, a straight line between; the last N is the fleet
//   trace:FILE      the same from a file, a line "S N" each
//   diurnal:H       a day of people in their zones, from hour H of UTC
// Times in seconds, up to six digits after the point. Points and traces are scaled to the fleet, so
// one shape fits any number of devices.
//
// A place in the order of arrival has one time, whatever else is asked: whole numbers only, no
// state, so any thread may ask and every machine gives the same answer. Memory is a few knots of
// the curve.
#ifndef SIM_ARRIVALS_H
#define SIM_ARRIVALS_H

#include "base/error.h"
#include "base/str.h"
#include "people/presence.h"

#include <stdint.h>

#define SIM_ARRIVAL_KNOTS_MAX  65536u
#define SIM_ARRIVAL_POINTS_MAX 16u // of a curve that the report compares at each of its points
#define SIM_ARRIVAL_SECONDS    1000000u
#define SIM_ARRIVAL_RATE_MAX   10000000u

struct sim_arrivals;

// Whose curve it is.
struct sim_arrival_fleet {
    uint32_t devices;
    // How many people live where it is so many hours later than UTC; all 0: everybody at 0.
    uint32_t zone_weights[SIM_DAY_HOURS];
};

// INVALID: the shape is none, and `error` says what is wrong; NOT_FOUND, IO: the trace; NOMEM.
BASE_NODISCARD enum base_status sim_arrivals_new(const char *shape,
                                                 const struct sim_arrival_fleet *fleet,
                                                 struct sim_arrivals **out_arrivals,
                                                 struct base_error *error);
// The points of a trace in `text`, which `name` is the file of.
BASE_NODISCARD enum base_status sim_arrivals_trace(const char *name, struct base_str text,
                                                   const struct sim_arrival_fleet *fleet,
                                                   struct sim_arrivals **out_arrivals,
                                                   struct base_error *error);
void sim_arrivals_free(struct sim_arrivals *arrivals); // accepts NULL

// One of `count` devices which together follow the whole curve, the `number`th of them to come.
struct sim_arrival {
    uint32_t number;
    uint32_t count;
    uint64_t draw; // 64 random bits: where in the gap before the next one
};
// When it comes, in us since the arrivals began. Never less for a greater number.
uint64_t sim_arrivals_us(const struct sim_arrivals *arrivals, const struct sim_arrival *arrival);
// How many of the fleet have come by then, and when so many have.
double sim_arrivals_by(const struct sim_arrivals *arrivals, double seconds);
double sim_arrivals_when(const struct sim_arrivals *arrivals, double devices);
// When the last one has come, in seconds.
double sim_arrivals_span(const struct sim_arrivals *arrivals);
// The points that a `points` shape names, at most SIM_ARRIVAL_POINTS_MAX: how many there are (0: it
// names none, or more), and the second of each.
uint32_t sim_arrivals_points(const struct sim_arrivals *arrivals,
                             double out_seconds[SIM_ARRIVAL_POINTS_MAX]);

#endif
