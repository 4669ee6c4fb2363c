// `walle-fleet-sim fit`: a scenario whose curves are those of a rollout that really was.
//
// Given are two curves of one version: how many devices had been offered it by when, and how many
// had run it. They come from a coverage.csv, of the simulator or made of whatever somebody has, or
// from the records of a gateway's devices. Fitted are
//   arrivals  a line of a few points through the first curve: devices are there when they are
//             offered it, so the rollout has to have been to everybody, or what is fitted is how
//             its stages opened
//   delay     of each answer, as the fault network:delay draws it, so that the first curve, delayed
//             by what a device asks for between offer and first run, is the second one
// What each is off, at its worst second, stands in the scenario and on the terminal. With --check
// the scenario is played, and the curves of that run are held against those given.
//
// Everything is owned by the caller; one thread.
#ifndef SIM_FIT_H
#define SIM_FIT_H

#include "base/error.h"
#include "compare/compare.h"
#include "people/arrivals.h"

#include <stdio.h>

#define SIM_FIT_ROWS_MAX      4000000u
#define SIM_FIT_EXCHANGES_MAX 64
#define SIM_FIT_SHARES        5
#define SIM_FIT_BEFORE_S      0.002 // just before a moment, as points of a shape can say it

// Of the devices that ran it; their times are told.
extern const double sim_fit_shares[SIM_FIT_SHARES];

struct sim_fit {
    // Asked for.
    const char *from; // a file, or the data folder of a stopped gateway
    const char *manifest;
    const char *rollout; // of a folder; NULL: a file
    const char *out;
    const char *check; // data folder of a stopped gateway that the scenario is played on; NULL: no
    const char *root;
    uint32_t points;
    uint32_t exchanges; // that a device has between offer and first run
    double within;      // points of the fleet that the check may be off
    // Given.
    struct sim_steps came;
    struct sim_steps ran; // `count` 0: nobody says
    // Fitted.
    double knots_s[SIM_ARRIVAL_POINTS_MAX];
    double knots[SIM_ARRIVAL_POINTS_MAX];
    uint32_t knot_count;
    double arrivals_off; // points of the fleet
    double arrivals_off_s;
    bool delayed; // else a delay makes it no better
    uint32_t delay_ms;
    uint32_t delay_ppm;
    double plain_off; // points of the devices that ran it, without a delay
    double delay_off; // ... with the one that is fitted
    double given_s[SIM_FIT_SHARES];
    double fitted_s[SIM_FIT_SHARES];
    double checked_off; // of the run; negative: none was played
};

void sim_fit_done(struct sim_fit *fit);
// A straight line from the curve's end to there, as many small steps. False: no memory.
bool sim_fit_line(struct sim_steps *steps, double x, double y);
// How far `value_at` is from the curve at its step `at`: just before it and at it.
typedef double (*sim_fit_value_fn)(const void *ctx, double at_s);
double sim_fit_off(const struct sim_steps *steps, uint32_t at, sim_fit_value_fn value_at,
                   const void *ctx);
// A coverage.csv: lines MANIFEST,STAGE,SECOND,DEVICES, each a step; or SECOND,DEVICES of offers
// alone, points of a line. Of the version that `manifest` begins, or the one that most were
// offered. INVALID with the line, IO, NOT_FOUND, NOMEM.
BASE_NODISCARD enum base_status sim_fit_file(struct sim_fit *fit, struct base_error *error);
// The records of a folder's devices, a million of them at most, by whole seconds. What opening it
// gives, NOT_FOUND.
BASE_NODISCARD enum base_status sim_fit_folder(struct sim_fit *fit, struct base_error *error);
// Both curves have to make sense. INVALID.
BASE_NODISCARD enum base_status sim_fit_check(const struct sim_fit *fit, struct base_error *error);
// ---- The fit; pure.
void sim_fit_arrivals(struct sim_fit *fit);
void sim_fit_delay(struct sim_fit *fit);
// ---- The scenario.
BASE_NODISCARD enum base_status sim_fit_write(const struct sim_fit *fit, struct base_error *error);
// Plays it and measures how far its curves are from those given. IO, CONFLICT: it came to nothing.
BASE_NODISCARD enum base_status sim_fit_play(struct sim_fit *fit, FILE *log,
                                             struct base_error *error);
void sim_fit_tell(const struct sim_fit *fit, FILE *log);

// The exit status.
int sim_fit_main(int argc, char **argv, FILE *log);

#endif
