// One case of a swarm: a run in virtual time with its devices, faults and times, as the command
// line that repeats it. `swarm` draws cases, `shrink` makes a failing one smaller; both play them
// as child runs.
#ifndef SIM_CASE_H
#define SIM_CASE_H

#include "model/fault_rule.h"
#include "swarm/child_run.h"

#include <argp.h>

#define SIM_CASE_FIXED_MAX 32
#define SIM_CASE_FAULT_MAX 256
#define SIM_CASE_WORDS_MAX 96
#define SIM_CASE_TEXT_MAX  4096
#define SIM_CASE_END_MAX   32

struct sim_case {
    const char *fixed[SIM_CASE_FIXED_MAX]; // words that stay as they are; the caller's
    uint32_t fixed_count;
    char faults[SIM_FAULTS_MAX][SIM_CASE_FAULT_MAX];
    uint32_t fault_count;
    uint64_t seed;
    uint32_t devices;
    uint32_t first_device;
    uint32_t duration_s;
    uint32_t until_s; // of faults; 0: they do not end
};

// What a case came to.
struct sim_case_end {
    char broken[SIM_CASE_END_MAX]; // an invariant, by name; "died": no way for a run to end; or
                                   // empty
    char device[SIM_CASE_END_MAX]; // index of one that broke it; empty: none is named
    int exit;                      // its status; -1: a signal ended it
    bool could_not;                // it could not be played: wrong words, files, memory
    bool nothing;                  // it was played, and no release reached devices to be judged
    uint32_t compared;             // invariants that compared something, as bits
    char said[SIM_CHILD_SAID_MAX]; // its last words
};

// Words of a case, kept in it; the last is NULL.
struct sim_case_words {
    const char *words[SIM_CASE_WORDS_MAX];
    char numbers[5][24];
};

void sim_case_spell(const struct sim_case *at, const char *folder, struct sim_case_words *out);
// One line for a shell, with no --out.
void sim_case_text(const struct sim_case *at, char out[SIM_CASE_TEXT_MAX]);
// The family of a fault as it is written; FAMILY_COUNT: none.
enum sim_fault_family sim_case_family(const char *fault);
// Families of the faults, as bits.
uint32_t sim_case_families(const struct sim_case *at);
BASE_NODISCARD enum base_status sim_case_begin(const struct sim_case *at, struct sim_child *child,
                                               struct base_error *error);
// After its process ended with this status of waitpid.
void sim_case_read(const struct sim_child *child, int status, struct sim_case_end *out);

// ---- swarm_draw.c
// The faults of a seed: some families, some of their kinds, at some rates.
void sim_swarm_draw(uint64_t seed, struct sim_case *out);

// ---- The programs
int sim_swarm_main(int argc, char **argv, FILE *log);
// `options`: of `run`, whose line it takes.
int sim_shrink_main(int argc, char **argv, const struct argp_option *options, FILE *log);

#endif
