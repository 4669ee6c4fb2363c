// `walle-fleet-sim certify`: how many devices a bad release harms before the gate stops it. Plays a
// rollout of a stopped gateway's folder many times in virtual time, healthy and with each rule of a
// pack of bad releases, each time with another population and other draws, and says what came of
// it: devices harmed, time until the gate acted, healthy releases it stopped.
#ifndef SIM_CERTIFY_H
#define SIM_CERTIFY_H

#include "base/error.h"
#include "model/rollouts_seen.h"
#include "model/sim_options.h"
#include "report/run_about.h"

#include <jansson.h>
#include <stdio.h>

#define SIM_CERTIFY_RULES_MAX  16
#define SIM_CERTIFY_SEEDS_MAX  1000
#define SIM_CERTIFY_JOBS_MAX   64
#define SIM_CERTIFY_NAME_MAX   32
#define SIM_CERTIFY_RULE_MAX   256
#define SIM_CERTIFY_BROKEN_MAX 24
// Far from the seeds of fleets, which begin with 1: devices of theirs may be in the folder.
#define SIM_CERTIFY_SEED_FIRST 1000001u

// One way for a release to be bad. The first of a pack is none: `rule` is empty.
struct sim_certify_case {
    char name[SIM_CERTIFY_NAME_MAX + 1];
    char rule[SIM_CERTIFY_RULE_MAX + 1];
};

struct sim_certify_pack {
    struct sim_certify_case cases[1 + SIM_CERTIFY_RULES_MAX];
    uint32_t count;
};

struct sim_certify_options {
    char virtual_dir[SIM_TEXT_MAX];
    char root[SIM_TEXT_MAX];
    char rollout[17];
    char version[SIM_TEXT_MAX];
    char pack[SIM_TEXT_MAX]; // empty: the pack of the product
    char out[SIM_TEXT_MAX];
    uint32_t devices;
    uint32_t seeds;
    uint32_t jobs;
    uint32_t horizon_s; // of virtual time, of one run
    uint32_t checkin_interval_s;
    double arrival_rate;
};

// What came of one run.
struct sim_certify_run {
    bool good;        // it ended by itself, and no invariant broke
    bool stopped;     // the gate did
    bool completed;   // all its stages passed
    uint64_t harmed;  // devices that ever ran the version
    double stopped_s; // since the run began
    double ended_s;
    char state[SIM_ROLLOUT_STATE_MAX];   // the rollout's, at the end
    char broken[SIM_CERTIFY_BROKEN_MAX]; // the first invariant that did not hold; else empty
};

// What was certified, where and when, as the first run says it.
struct sim_certify_about {
    struct sim_about run; // its end is that of the first run
    char stages[SIM_ROLLOUT_STAGES_MAX];
};

struct sim_certify_result {
    const struct sim_certify_options *options;
    const struct sim_certify_pack *pack;
    struct sim_certify_run *runs; // case by case, `seeds` of each
    struct sim_certify_about about;
    double took_s;
};

// The pack of a file (lines "NAME: RULE", '#' for comments), behind the healthy case; without a
// path that of the product. INVALID with the line, IO, LIMIT.
BASE_NODISCARD enum base_status
sim_certify_pack_read(const char *path, struct sim_certify_pack *out, struct base_error *error);
// Plays every case with every seed, `jobs` at once, each in a process of its own. INTERRUPTED is
// CLOSED; IO: a run could not be started or read, `error` says which.
BASE_NODISCARD enum base_status sim_certify_play(struct sim_certify_result *result,
                                                 const volatile int *interrupted, FILE *log,
                                                 struct base_error *error);
// What a run's run.json says of the rollout of the options. INVALID: it is not there, it was over
// before the run, or it releases another version; then there is nothing to certify.
BASE_NODISCARD enum base_status sim_certify_run_read(const json_t *report,
                                                     const struct sim_certify_options *options,
                                                     bool healthy, struct sim_certify_run *out,
                                                     struct base_error *error);
// OUT/certificate.json and OUT/certificate.html, and a table to `log`.
BASE_NODISCARD enum base_status sim_certify_report(const struct sim_certify_result *result,
                                                   FILE *log, struct base_error *error);
// The share of such runs that harm no more than the worst of `count` did, with 95 % confidence
// that `statements` of this kind hold together: (0.05 / statements)^(1/count), since the largest of
// a sample bounds that share of what it is from, and by Bonferroni each statement has its part of
// what may go wrong, however they hang together.
double sim_certify_share(uint32_t count, uint32_t statements);
// The largest rate of an event that was seen `seen` times in `count` runs, likewise (Clopper and
// Pearson, one-sided).
double sim_certify_rate_bound(uint32_t seen, uint32_t count, uint32_t statements);

int sim_certify_main(int argc, char **argv, FILE *log);

#endif
