// Runs beside each other: `walle-fleet-sim conform` asks how far the same run in virtual time and
// over real sockets are apart, `walle-fleet-sim verify` whether a run comes again as it was.
//
// Compared is what two runs left in their --out: run.json, coverage.csv, latency.csv. Runs are of
// the same seed and as many devices, else nothing is compared. Everything is owned by the caller;
// one thread.
#ifndef SIM_COMPARE_H
#define SIM_COMPARE_H

#include "base/error.h"
#include "model/versions.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define SIM_CURVES_MAX    (4 * SIM_VERSIONS_MAX) // of a run: stages of versions
#define SIM_LATENCIES_MAX 16                     // of a run
#define SIM_NAME_MAX      128                    // of a curve or a latency

#define SIM_CURVE_SECONDS_MAX 100000.0 // a curve is compared at each of its seconds

// A step function over time: before x[0] it is 0, from x[i] on it is y[i].
struct sim_steps {
    char name[SIM_NAME_MAX];
    double *x;
    double *y; // never falls
    uint32_t count;
    uint32_t capacity;
};
// One more step. False: no memory.
bool sim_steps_add(struct sim_steps *steps, double x, double y);

// What a run left.
struct sim_run_files {
    json_t *json;
    double devices;
    struct sim_steps curves[SIM_CURVES_MAX]; // seconds; devices that had come so far
    uint32_t curve_count;
    struct sim_steps latencies[SIM_LATENCIES_MAX]; // microseconds; measured at most so long
    uint32_t latency_count;
};

// Reads the files of a folder. IO, NOMEM, INVALID, with the file in `error`.
BASE_NODISCARD enum base_status sim_run_files_read(const char *folder, struct sim_run_files *out,
                                                   struct base_error *error);
void sim_run_files_done(struct sim_run_files *files);
// NULL: there is none of this name.
const struct sim_steps *sim_steps_find(const struct sim_steps *all, uint32_t count,
                                       const char *name);
// What had come by `x`.
double sim_steps_at(const struct sim_steps *steps, double x);

// ---- Distances

struct sim_shift {
    double lag_s;    // the first run is so much later than the second one
    double distance; // points between the curves after that, at the worst second of all curves
};
// The lag of at most `lag_max_s`, either way, that brings all curves closest together. Each is
// measured by its own end, so that a version few devices get counts as one that all get.
struct sim_shift sim_shift_best(const struct sim_run_files *left, const struct sim_run_files *right,
                                double lag_max_s);
// The curves of both runs, side by side: all of the first run, then those that only the second one
// has; NULL for the one that a run has not. Its name; NULL: there is none at this number.
const char *sim_curves_at(const struct sim_run_files *const runs[2], uint32_t at,
                          const struct sim_steps *out[2]);
// The greatest distance of one curve at any second, in points of `of` devices, `left` moved by the
// lag; where that is in the second run, in *out_at_s.
double sim_curve_distance(const struct sim_steps *left, const struct sim_steps *right, double of,
                          double lag_s, double *out_at_s);
// Devices that had come in the end, of the run where more had; at least 1.
double sim_curves_end(const struct sim_steps *left, const struct sim_steps *right);
// Greatest difference of two distributions, 0..1 (Kolmogorov and Smirnov).
double sim_ks_distance(const struct sim_steps *left, const struct sim_steps *right);

// Facts that have to be equal: "ipv 1.0.0: failed"; what only one run has is a fact too, and is not
// equal. As many, and as many unequal, in either order of the runs. False: there is none at this
// number.
struct sim_fact {
    char name[SIM_NAME_MAX];
    char left[48];
    char right[48];
    bool equal;
};
bool sim_fact_at(const struct sim_run_files *left, const struct sim_run_files *right, uint32_t at,
                 struct sim_fact *out);

// ---- Commands

// walle-fleet-sim verify. The exit status.
int sim_verify_main(int argc, char **argv, FILE *log);
// walle-fleet-sim conform. The exit status.
int sim_conform_main(int argc, char **argv, FILE *out);

#endif
