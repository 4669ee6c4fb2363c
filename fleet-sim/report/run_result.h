// Everything the reports are written from, gathered by the coordinator after the shards ended.
#ifndef SIM_RUN_RESULT_H
#define SIM_RUN_RESULT_H

#include "behaviour/behaviour_tally.h"
#include "bytes/bytes_tally.h"
#include "failing/failing_devices.h"
#include "model/end_states.h"
#include "model/budget.h"
#include "model/law_sums.h"
#include "model/rollouts_seen.h"
#include "model/sim_options.h"
#include "ports/saved_states.h"
#include "report/latencies.h"
#include "report/run_about.h"
#include "report/slice_mining.h"
#include "report/timeline.h"
#include "report/trust_report.h"
#include "wire/report.h"

#define SIM_CAUSE_MAX         512
#define SIM_GATEWAY_TEXT_MAX  (SIM_TEXT_MAX + 64)
#define SIM_RELEASE_TEXT_MAX  (WIRE_TASK_NAME_MAX + SIM_LABEL_MAX + 2)
#define SIM_ROLLOUTS_TOLD_MAX 32
#define SIM_ROLLOUT_TEXT_MAX  512
#define SIM_FOR_REAL_TEXT_MAX 448
#define SIM_FIDELITY_TEXT_MAX 1024
#define SIM_OUTCOMES          32u // above any enum wire_outcome_kind

// What a run came to.
enum sim_outcome {
    SIM_OUTCOME_PASSED,
    SIM_OUTCOME_FAILED,        // an invariant broke, the release failed, or a goal was missed
    SIM_OUTCOME_INTERRUPTED,   // by a signal: neither passed nor failed
    SIM_OUTCOME_NO_GATEWAY,    // nothing answered
    SIM_OUTCOME_NOBODY_ONLINE, // no device came so far that it was answered what to do
    SIM_OUTCOME_REFUSED,       // a part of them never came online: another run enrolled it
    SIM_OUTCOME_UNREACHED,     // no release reached a device
    SIM_OUTCOME_NO_RELEASE,    // there was none, and none was asked for: nothing to judge
    SIM_OUTCOME_UNCOUNTED,     // its gate counts none of the devices that it reached
    SIM_OUTCOME_NO_ROOM,       // in virtual time: the gateway's copy could not be written to
    SIM_OUTCOME_THRESHOLD,     // all else passed, and a threshold does not hold
    SIM_OUTCOME_COUNT
};

// A rollout that the run saw, and how it stood in the end.
struct sim_rollout_told {
    struct sim_rollout_seen seen;
    uint8_t version; // SIM_VERSION_NONE: these devices met none of it
    bool wrong;      // it went back, though nobody called its version bad
    bool meant;      // it went back, as --bad-version wants
};

struct sim_run_result {
    const struct sim_options *options;
    struct sim_budget budget;
    struct sim_counters counters;
    struct sim_latencies latencies;
    struct base_hist offer_to_run_us;
    struct base_hist cloud_us; // calls of models in the cloud that were answered
    struct sim_versions *versions;
    uint32_t version_count;           // including number 0
    bool uncounted[SIM_VERSIONS_MAX]; // of a task that the run does not follow
    struct sim_rollout_told rollouts[SIM_ROLLOUTS_TOLD_MAX]; // of the task followed, oldest first
    uint32_t rollout_count;
    uint32_t rollouts_left_out;
    uint8_t decided; // version of the rollout that decided; SIM_VERSION_NONE: none did
    const struct sim_timeline *timeline;
    const struct sim_ledger *ledgers[SIM_SHARDS_MAX]; // of the shards, as long as these
    uint32_t ledger_count;
    struct sim_verdict verdict;
    struct sim_ends ends; // of a run whose faults end
    bool rested;          // that was so for a while, and the run ended (--until-rest)
    double changed_s;     // when the rollout watched last went on, stopped or ended
    uint64_t faults[SIM_FAULT_KIND_COUNT]; // that happened
    uint8_t focus; // the version that failures are explained of; SIM_VERSION_NONE: no version ran
    struct sim_mining *mining; // of the focus version; NULL: none
    struct sim_slice slice;
    struct sim_failing failing[SIM_OUTCOMES]; // devices the focus version failed on, by how first
    struct sim_failing failing_slice;         // those of them that are in the slice
    // Devices of each system (SIM_TRAIT_OS) among so many of the fleet.
    uint32_t systems[SIM_TRAIT_VALUES_MAX];
    uint32_t systems_of;
    struct sim_tally *tally;      // of behaviour; NULL: nobody behaved
    struct sim_law law;           // likewise
    struct sim_bytes_tally bytes; // of the devices that speak them (--byte-devices)
    struct sim_trust_result trust;
    double duration_s;
    double arrivals_from_s; // when the first devices began to come
    double took_s;          // on this machine; in real time as long
    uint64_t unwritten;     // answers of a core whose store had no room, in virtual time
    char digest[33]; // of a run in virtual time: equal runs have equal ones; empty in real time
    double rate;     // devices a second from offer to first run, see sim_result_rate
    uint8_t rate_version;    // the version it is of
    uint64_t peak_rss_bytes; // in virtual time with the gateway's folder, which lies in memory
    uint64_t folder_bytes;   // of that folder at the end
    struct sim_states_stats states;
    double dormant_bytes; // what a device takes that sleeps, in virtual time: of all of it
    uint64_t store_bytes;
    uint64_t completed; // devices that ran the version of the simulate stage, well or not
    uint64_t failed;
    uint64_t failed_as[SIM_OUTCOMES]; // of those, by how each failed first
    // By version: devices that were offered it last and have not come to an end with it.
    uint64_t undecided[SIM_VERSIONS_MAX];
    bool gateway_denied;               // it shows its rollouts to operators only
    uint64_t refused_as[SIM_OUTCOMES]; // devices that did not run it, by why; 0: none said why
    struct sim_failures failures;      // what devices refused for is of no version
    bool whole;                        // a simulation came to its end
    char ended[160];                   // why the run ended
    char cause[SIM_CAUSE_MAX];         // why it did not pass, where that is no oracle's
    struct sim_about about;
    struct sim_threshold_result thresholds[SIM_THRESHOLDS_MAX]; // of those of the options
    enum sim_outcome outcome;
    bool interrupted; // by a signal, before its end
};

// "passed", "no gateway": as run.json has it.
const char *sim_outcome_name(enum sim_outcome outcome);
// A sentence about it, in which an interrupted run is neither passed nor failed.
const char *sim_outcome_text(enum sim_outcome outcome);

// What devices were that came up: "online", or no more than that where no check-in was answered.
const char *sim_result_online(const struct sim_run_result *result);
// How many were so: those that the gateway gave no credential never came so far.
uint64_t sim_result_online_count(const struct sim_run_result *result);

// Devices a second between the moments 5 % and 95 % of the devices that ran a version had run it.
double sim_result_rate(const struct sim_timeline *timeline, uint8_t version);

// A device as which most of them failed first; NULL: the focus version failed on none.
const struct sim_failing_device *sim_result_failing(const struct sim_run_result *result);
// The command that looks at it: the run once more, or what the gateway knows. False, and empty:
// there is none, for the run was neither in virtual time nor against a gateway, or none failed.
#define SIM_LOOK_TEXT_MAX (SIM_TEXT_MAX + WIRE_TASK_NAME_MAX + 128)
bool sim_look_text(const struct sim_run_result *result, char out[SIM_LOOK_TEXT_MAX]);

// Writes run.json, timeline.csv, latency.csv, coverage.csv, repro.txt and report.html into
// options->out, which must exist, and the JUnit file that the options name; where a device failed
// its attributes as well. IO with what and where in `error`.
BASE_NODISCARD enum base_status sim_result_write(const struct sim_run_result *result,
                                                 struct base_error *error);
// One each; IO, NOMEM.
BASE_NODISCARD enum base_status sim_run_json_write(const struct sim_run_result *result, FILE *file);
BASE_NODISCARD enum base_status sim_coverage_write(const struct sim_run_result *result, FILE *file);
BASE_NODISCARD enum base_status sim_report_html_write(const struct sim_run_result *result,
                                                      FILE *file);
// "8 devices did all of it for real (--real-every 10000): 96 hashes, signatures, checks of
// bytecode and runs made both ways, 0 disagreed; of all signatures 21 were verified, 8000 were the
// same bytes as one of these; of 1000 runs 0 were those of another device with the same files".
void sim_for_real_text(const struct sim_run_result *result, char out[SIM_FOR_REAL_TEXT_MAX]);
// How truly devices were played: each tier with how many devices it had.
struct sim_fidelity {
    uint64_t release_path;   // came online: all that a release asks of a device
    uint64_t behaviour;      // had a user: triggers, tasks and, towards a gateway, the tunnel
    uint64_t unshared;       // did everything themselves (--real-every)
    uint64_t own_connection; // had a connection to themselves (--dedicated)
    uint64_t byte_exact;     // in virtual time: spoke real HTTP/2 and TLS (--byte-devices)
    bool http2;              // messages are HTTP/2 on sockets; else they are handed over
    bool tls;                // ... of all devices, TLS under it
    bool own_tls;            // ... of those with a connection to themselves
};
struct sim_fidelity sim_fidelity_of(const struct sim_run_result *result);
// "the release path on 2000 devices; users, triggers, tasks and tunnel on none; ...": what the
// outcome does not rest on is said, too.
void sim_fidelity_text(const struct sim_run_result *result, char out[SIM_FIDELITY_TEXT_MAX]);
// Why latencies say nothing of the gateway, "... late"; false and empty: the generator kept its
// time.
#define SIM_LAG_TEXT_MAX 384
bool sim_lag_text(const struct sim_run_result *result, char out[SIM_LAG_TEXT_MAX]);
// One case for each invariant (skipped: it compared nothing), each threshold, and the goal.
BASE_NODISCARD enum base_status sim_junit_write(const struct sim_run_result *result, FILE *file);
// "2.0.0", or the first digits of the hash where the label is not known.
void sim_version_text(const struct sim_run_result *result, uint8_t version,
                      char out[SIM_LABEL_MAX]);
// "gateway 127.0.0.1:8443 by TLS"
void sim_gateway_text(const struct sim_options *options, char out[SIM_GATEWAY_TEXT_MAX]);
// How a rollout stood in the end, in words: "rolled back: a person; not as --bad-version wants".
void sim_rollout_text(const struct sim_rollout_told *rollout, char out[SIM_ROLLOUT_TEXT_MAX]);
// "shop/score 2.0.0": the task with it.
void sim_release_text(const struct sim_run_result *result, uint8_t version,
                      char out[SIM_RELEASE_TEXT_MAX]);

#endif
