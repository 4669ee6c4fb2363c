// Faults of the world around devices: what goes wrong, on which devices, how often.
//
//   fault := family ":" kind [ amount ] [ "@" probability ] [ "where" predicate ]
//   family := network | gateway | storage | process | clock | device
//   probability := 0..1 or 0..100 %, of what the kind counts by: an exchange, a call, a wake, a
//                  device, or a window of time
// A draw depends on the seed, the kind, how many of that kind stand before it, the device and the
// count, and on nothing else: taking one fault away, or another family, shifts no other's draws.
// Faults that begin later are numbered apart, from the last number down: they shift none of those
// that are there from the start, wherever they stand among them.
#ifndef SIM_FAULT_RULE_H
#define SIM_FAULT_RULE_H

#include "model/population.h"
#include "model/predicate.h"

#define SIM_FAULTS_MAX 16

enum sim_fault_family {
    SIM_FAULT_NETWORK,
    SIM_FAULT_GATEWAY,
    SIM_FAULT_STORAGE,
    SIM_FAULT_PROCESS,
    SIM_FAULT_CLOCK,
    SIM_FAULT_DEVICE,
    SIM_FAULT_FAMILY_COUNT
};

enum sim_fault_kind {
    SIM_FAULT_LOSS,      // the request or its answer is lost, and nobody says so
    SIM_FAULT_RESET,     // the connection ends in place of an answer
    SIM_FAULT_DELAY,     // the answer comes later
    SIM_FAULT_DUPLICATE, // the request arrives twice
    SIM_FAULT_TRUNCATE,  // half of the body is missing
    SIM_FAULT_CORRUPT,   // a byte of the body is another
    SIM_FAULT_PORTAL,    // a captive portal answers in the gateway's place
    SIM_FAULT_HALF_OPEN, // requests are taken, and nothing comes back, for a while
    SIM_FAULT_HANDOVER,  // whatever else is under way on the device ends
    SIM_FAULT_OUTAGE,    // nobody is reached, for a while
    SIM_FAULT_STORM,     // everybody wakes at once
    SIM_FAULT_UNAVAILABLE,
    SIM_FAULT_BUSY,
    SIM_FAULT_DOWN,  // 503 for everybody, for a while
    SIM_FAULT_SLOW,  // the gateway takes longer
    SIM_FAULT_AGAIN, // the answer comes twice
    SIM_FAULT_STALE, // an answer of before comes instead
    SIM_FAULT_ERROR, // a write fails
    SIM_FAULT_FULL,  // from one write on every one fails: the disk is full
    SIM_FAULT_READONLY,
    SIM_FAULT_TORN,    // after a kill the end of what was being written is noise
    SIM_FAULT_FLIP,    // a bit is read as another
    SIM_FAULT_BACKUP,  // what the device stored is what it was some wakes ago
    SIM_FAULT_CLEAR,   // it is gone
    SIM_FAULT_KILL,    // the process dies within a call of a port
    SIM_FAULT_LOOP,    // it dies soon after each start, some times
    SIM_FAULT_OFFSET,  // the wall clock is wrong
    SIM_FAULT_STEP,    // ... and differently at each wake
    SIM_FAULT_UNSET,   // ... and says 1970
    SIM_FAULT_DRIFT,   // ... and goes too fast or too slow
    SIM_FAULT_CPU,     // runs take longer
    SIM_FAULT_DISK,    // little room for content
    SIM_FAULT_RESTART, // the gateway is killed, and started again on what its store has
    // What came later: a kind's place is part of its draws.
    SIM_FAULT_DNS,      // the gateway's name is not found, for a while: nobody connects anew
    SIM_FAULT_MTU,      // what is larger does not arrive
    SIM_FAULT_REPLAY,   // the request arrives once more, later
    SIM_FAULT_THROTTLE, // hot: scripts are slower, for a while
    SIM_FAULT_MEMORY,   // a script that asks for more memory gets none
    SIM_FAULT_KILLER,   // the process dies while a script runs: memory is low
    SIM_FAULT_SAVER,    // the battery is saved: no requests, no wakes, slower
    SIM_FAULT_DOZE,     // timers wait for the next maintenance
    SIM_FAULT_ONE_WAY,  // requests arrive, and nothing comes back, for a while
    SIM_FAULT_KIND_COUNT
};

struct sim_fault_rule {
    enum sim_fault_kind kind;
    uint32_t nth; // among those of its kind; no two have the same
    uint32_t amount;
    uint32_t probability_ppm;
    uint32_t from_s; // before this second of the run it does not happen; 0: always
    bool picky;      // `where` says on which devices
    struct sim_predicate where;
};

struct sim_fault_plan {
    struct sim_fault_rule rules[SIM_FAULTS_MAX];
    uint32_t rule_count;
    uint32_t until_s; // from then on nothing goes wrong any more; 0: always
};

// What a kind is, for help, documents and whoever draws plans.
struct sim_fault_about {
    const char *name;
    enum sim_fault_family family;
    const char *each;   // what its probability is of
    const char *amount; // what its amount is; NULL: it has none
    uint32_t usual;     // the amount that is not given
    uint32_t most;
};

const struct sim_fault_about *sim_fault_about(enum sim_fault_kind kind);
const char *sim_fault_family_name(enum sim_fault_family family);
// Adds one to the plan. INVALID with the column in `error`, LIMIT.
BASE_NODISCARD enum base_status sim_fault_add(struct sim_fault_plan *plan, struct base_str text,
                                              struct base_error *error);
// The same of one that begins at second `from_s` of the run, above 0.
BASE_NODISCARD enum base_status sim_fault_add_later(struct sim_fault_plan *plan, uint32_t from_s,
                                                    struct base_str text, struct base_error *error);
// Is there one of this kind? One that kills processes in the middle of what they do?
bool sim_fault_plan_has(const struct sim_fault_plan *plan, enum sim_fault_kind kind);
bool sim_fault_plan_kills(const struct sim_fault_plan *plan);
// All kinds, a line each, for the program's help.
void sim_faults_help(char *out, size_t size);
// 64 bits for a rule; `subject` is a device's index in the population, or 0 for the world.
uint64_t sim_fault_draw(uint64_t seed, const struct sim_fault_rule *rule, uint64_t subject,
                        uint64_t count);
// Is a device like this among those that it may hit?
bool sim_fault_means(const struct sim_fault_rule *rule, const struct sim_traits *traits);
// Has the run come to the second from which on it happens?
static inline bool sim_fault_begun(const struct sim_fault_rule *rule, uint64_t ran_us)
{
    return ran_us >= rule->from_s * UINT64_C(1000000);
}
// Is it so by this draw? The low bits stay for whatever else has to be drawn.
bool sim_fault_hits(const struct sim_fault_rule *rule, uint64_t draw);

#endif
