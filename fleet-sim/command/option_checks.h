// What the options of a run are held against before anything starts: the devices that they mean,
// and the keys and files of evidence. fleet_options.c asks, on the main thread.
#ifndef SIM_OPTION_CHECKS_H
#define SIM_OPTION_CHECKS_H

#include "model/sim_options.h"

// Words of the command line, for what is said of them; NULL: not there.
struct sim_words {
    const char *where;
    const char *root;
    const char *bad[SIM_BAD_RULES_MAX]; // rules, as many as there are
    const char *faults[SIM_FAULTS_MAX]; // likewise
};

// Would a gateway take the evidence that is asked for? It is of the target and of nothing narrower,
// a new file, and signed by a release key of the root. INVALID, EXISTS.
BASE_NODISCARD enum base_status sim_check_evidence(const struct sim_options *options,
                                                   const struct sim_words *words,
                                                   struct base_error *error);
// What there is in real time alone does not go with --virtual. INVALID.
BASE_NODISCARD enum base_status sim_check_virtual(struct sim_options *options,
                                                  struct base_error *error);
// Can the JUnit file be made? Said before the run and not after it: INVALID. One of before goes, so
// that nobody takes it for this run's.
BASE_NODISCARD enum base_status sim_check_junit(const struct sim_options *options,
                                                struct base_error *error);
// A run of devices that nobody is shows nothing: NOT_FOUND.
BASE_NODISCARD enum base_status sim_check_somebody(const struct sim_options *options,
                                                   const struct sim_words *words,
                                                   struct base_error *error);
// Nor does a rule that goes wrong on none of the devices: NOT_FOUND.
BASE_NODISCARD enum base_status sim_check_rules(const struct sim_options *options,
                                                const struct sim_words *words,
                                                struct base_error *error);
// Nor a fault that none of them can have: NOT_FOUND.
BASE_NODISCARD enum base_status sim_check_faults(const struct sim_options *options,
                                                 const struct sim_words *words,
                                                 struct base_error *error);

#endif
