// What a run is to do: everything the command line says. Filled by command/fleet_options.c, read by
// all.
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "model/fault_rule.h"
#include "model/bad_release.h"
#include "model/population.h"
#include "model/predicate.h"
#include "model/run_act.h"
#include "model/repro_line.h"
#include "model/threshold.h"
#include "people/arrivals.h"
#include "wire/digest.h"
#include "wire/trust/run_evidence.h"

#define SIM_PANEL_ALL 1000000u // every device behaves, where any does

#define SIM_DEVICES_MAX      30000000u
#define SIM_SHARDS_MAX       64  // of a run in virtual time; in real time a thread has one
#define SIM_SHARD_DEVICES    100 // in virtual time, if there are several
#define SIM_AWAKE_DEFAULT    4096
#define SIM_AWAKE_VIRTUAL    10000 // likewise in virtual time, where shards share it
#define SIM_BYTE_DEVICES_MAX 256   // that speak real bytes, of one run
#define SIM_BAD_VERSIONS_MAX 8
#define SIM_TEXT_MAX         256
#define SIM_SHAPE_MAX        1024 // of arrivals, in words
#define SIM_TOKEN_TEXT_MAX   256  // of a token
#define SIM_ADDRESS_MAX      46   // INET6_ADDRSTRLEN

struct sim_options {
    uint32_t devices;
    uint32_t first_device; // index in the population of the fleet's first
    uint64_t seed;
    uint64_t installation; // of `run`, drawn: its devices begin without what the last run's had
    uint32_t threads;
    uint32_t real_every;
    uint32_t awake_max;   // devices in memory at once, with hints at work, over all threads
    uint32_t tasks;       // that a device holds at most
    uint32_t runs;        // ... and runs at once; 0: one
    uint32_t content_mib; // of all that devices pull, as the preflight counts it
    double arrival_rate;  // devices a second that come online
    char arrivals_shape[SIM_SHAPE_MAX];
    struct sim_arrivals *arrivals; // of that shape; sim_options_done frees it; NULL: arrival_rate
    uint32_t beta_per_10000;
    char population[SIM_TEXT_MAX]; // file; empty: the built-in one
    struct sim_people *people;     // of that file; sim_options_done frees it
    uint32_t zombie_ppm;           // devices that come once and never again
    uint32_t clone_ppm;            // devices that have the id of another
    uint32_t reinstall_ppm;        // devices that are installed anew once
    uint32_t panel_ppm;            // devices that behave, where any does
    bool presence;                 // devices wake when people have the app open
    uint32_t presence_hour;        // ... of UTC at which the run begins
    struct sim_predicate where;    // the fleet is drawn from devices like this
    const struct pol_expr *target; // ... and from this one; NULL: everybody. In target_program
    uint8_t *target_program;       // heap; sim_options_done frees it
    char target_text[WIRE_EVIDENCE_TARGET_MAX + 1]; // canonical; empty: everybody
    uint32_t kill_ppm;                              // wakes that end in a kill at some moment
    uint32_t wrong_clock_ppm;                       // devices whose wall clock is wrong
    uint32_t clock_off_days;                        // ... by up to so much, either way
    bool hints;
    double business_rate;   // requests of each device's app a minute; 0: none
    uint16_t upstream_port; // they are answered here; 0: by the gateway's own upstream
    // Gateway.
    char host[SIM_TEXT_MAX];
    uint16_t port;
    bool tls;
    char own_host[SIM_TEXT_MAX]; // for dedicated connections; empty: as above
    uint16_t own_port;
    bool own_tls;
    uint32_t dedicated;
    uint32_t per_carrier;
    uint8_t trusted_key[WIRE_PUBLIC_KEY_BYTES];
    bool has_key;
    uint8_t root[WIRE_META_BYTES_MAX];    // the root devices are born with, the same bytes for all
    uint32_t root_bytes;                  // 0: none, trusted_key is pinned
    uint32_t request_timeout_ms;          // 0: the runtime's default
    uint32_t retry_base_ms;               // 0: the runtime's default
    uint32_t checkin_interval_s;          // 0: the runtime's default
    char enrol_token[SIM_TOKEN_TEXT_MAX]; // real time; empty: nobody enrols
    char token[SIM_TOKEN_TEXT_MAX];       // of an operator, to watch the rollout with; empty: none
    char credentials[SIM_TEXT_MAX];       // file; empty: nobody has one
    bool network_links;    // in virtual time: by class of network; else all are equally far
    uint32_t byte_devices; // ... devices whose HTTP/2 and TLS are real; 0: none
    char virtual_dir[SIM_TEXT_MAX]; // data folder of the gateway in virtual time; empty: real time
    bool own_signatures;            // ... there, what the core signs is known to be signed
    bool strangers;                 // ... there, devices show no credential
    bool enrols;                    // devices without a credential get one first
    // When to stop.
    uint32_t duration_s;          // 0: no limit
    uint32_t coverage_ppm;        // 0: not asked
    char version[SIM_TEXT_MAX];   // hash (or its start) or label the coverage is of
    uint64_t until_rollout;       // 0: not asked
    bool until_stopped;           // a signal is the end of the run, and no interruption
    bool until_rest;              // in virtual time: the end too is when all is where it should be
    uint64_t rollout;             // shown; 0: the newest one
    struct sim_fault_plan faults; // of the world around the devices
    struct sim_acts acts;         // in virtual time: an operator's words
    bool acted;                   // something is done at a second: that is for virtual time
    // Bad releases.
    struct sim_bad_release bad;
    char bad_versions[SIM_BAD_VERSIONS_MAX][SIM_TEXT_MAX];
    uint32_t bad_version_count;
    uint32_t max_exposed_ppm; // UINT32_MAX: no limit
    char task[SIM_TEXT_MAX];  // followed; empty: the first one offered
    // Behaviour.
    char behaviour[SIM_TEXT_MAX]; // as for sim_sessions_load
    uint32_t sessions;            // of each device; 0: as long as the run lasts
    uint32_t session_every_s;     // mean time between two
    uint32_t active_max;          // devices in a session at once, over all threads
    char give[SIM_TEXT_MAX];      // what apps hand to tasks, as for sim_given_new; empty: nothing
    // Models in the cloud.
    char cloud_models[SIM_TEXT_MAX]; // folder; empty: there are none
    uint32_t cloud_ms;               // that a call takes
    char cloud_load[SIM_TEXT_MAX];   // words of cloud/cloud_load.h
    // Simulate stage.
    bool local;
    char manifest[SIM_TEXT_MAX];
    char blobs[SIM_TEXT_MAX];
    uint32_t max_failure_ppm;
    char evidence[SIM_TEXT_MAX];     // file for signed evidence; empty: none
    char evidence_key[SIM_TEXT_MAX]; // private key that signs it
    uint32_t exclusive_ppm;          // share of devices that belong to a user with exclusive files
    // What has to hold of its measures, beside the invariants.
    struct sim_threshold thresholds[SIM_THRESHOLDS_MAX];
    uint32_t threshold_count;
    // Output.
    char out[SIM_TEXT_MAX];
    char again[SIM_TEXT_MAX]; // in place of `out`, and nothing is written elsewhere; empty: the
                              // first time
    uint32_t again_to_s;      // ... then it ends at this second, whatever else it was to come to;
                              // 0: as the first time
    char junit[SIM_TEXT_MAX]; // file; empty: none
    char metrics_address[SIM_ADDRESS_MAX]; // live metrics are served there; empty: nowhere
    uint16_t metrics_port;                 // 0: one that is free
    bool live;
    char command[1024];              // as a person reads it
    char repro[SIM_REPRO_BYTES_MAX]; // to repeat the run; empty: it is too long to be kept
    bool traced; // in virtual time: the events of one second of a shard are written down
    uint32_t trace_line;
    uint32_t trace_second;
    bool tells; // likewise: what one device does and is told, as run/device_story.h has it
    bool told_by_id;
    uint64_t told; // its index in the population, or its id
};

// The task that the command line names; 0: none.
static inline uint64_t sim_options_task_id(const struct sim_options *options)
{
    return options->task[0] != '\0' ? wire_task_id(base_str_of(options->task)) : 0;
}

// Shards of the run: one a thread; in virtual time as many as its number of devices says.
uint32_t sim_options_shards(const struct sim_options *options);
// Who the devices are.
static inline struct sim_population sim_options_population(const struct sim_options *options)
{
    return (struct sim_population){.seed = options->seed,
                                   .beta_per_10000 = options->beta_per_10000,
                                   .people = options->people,
                                   .clone_ppm = options->clone_ppm,
                                   .reinstall_ppm = options->reinstall_ppm};
}

// Devices in memory at once, as the options have it.
uint32_t sim_options_slots(const struct sim_options *options);
// Index in the population of the fleet's device `number`: that, or the first one of its own series
// that `where` holds for. A predicate that nobody meets is given up: `want` tells.
uint64_t sim_options_index(const struct sim_options *options,
                           const struct sim_population *population, uint64_t number);
// Do `where` and `target` hold for the device with this index?
bool sim_options_want(const struct sim_options *options, const struct sim_population *population,
                      uint64_t index);
// Is a device of the fleet like this? Draws them all where none is.
bool sim_options_meet(const struct sim_options *options, const struct sim_predicate *predicate);

#endif
