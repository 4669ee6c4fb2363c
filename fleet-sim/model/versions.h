// The versions a run has seen, numbered small so that the ledger keeps a byte instead of a hash.
//
// Shared by the shards: adding and authorising take a lock, and both happen a handful of times in a
// run; the shards keep what they looked up in caches of their own.
#ifndef SIM_VERSIONS_H
#define SIM_VERSIONS_H

#include "base/status.h"
#include "wire/digest.h"
#include "wire/trust/statement.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_VERSIONS_MAX 64 // number 0 means none
#define SIM_VERSION_NONE 0
#define SIM_GRANTS_MAX   256
#define SIM_LABEL_MAX    32

// A signed permission that verified: what a device may run is what one of these says.
struct sim_grant {
    uint8_t version;
    bool beta_only; // only so many signed it that it is for the beta channel
    uint16_t max_bucket;
    uint64_t salt;
    uint64_t rollout_id;
};

struct sim_version {
    struct wire_sha256 manifest;
    uint64_t task_id;
    char task[WIRE_TASK_NAME_MAX + 1];
    char label[SIM_LABEL_MAX]; // semantic version from the manifest; empty until it was run
    bool bad;                  // declared bad on the command line
};

struct sim_versions {
    pthread_mutex_t lock;
    struct sim_version items[SIM_VERSIONS_MAX];
    uint32_t count; // including number 0
    struct sim_grant grants[SIM_GRANTS_MAX];
    uint32_t grant_count;
    uint64_t brought[SIM_GRANTS_MAX]; // rollouts that offered a device a version it did not have
    uint32_t brought_count;           // more than there is place for: nothing is known of others
    _Atomic uint64_t followed;        // the task that the run is of; 0: none was offered yet
};

void sim_versions_init(struct sim_versions *versions);
void sim_versions_done(struct sim_versions *versions);
// The task that the run is of: this one, if it is the first that any shard was offered.
uint64_t sim_versions_follow(struct sim_versions *versions, uint64_t task_id);
// Number of a version, given one when it is new; SIM_VERSION_NONE when the table is full or the
// manifest is zero.
uint8_t sim_versions_intern(struct sim_versions *versions, const struct wire_sha256 *manifest);
// Number of the version whose hash starts with `text` (hex, at least 4 digits) or whose label it
// is, of this task (0: of any); SIM_VERSION_NONE when there is none.
uint8_t sim_versions_find(struct sim_versions *versions, uint64_t task_id, struct base_str text);
// The one met last, of this task (0: of any); SIM_VERSION_NONE when there is none.
uint8_t sim_versions_newest(struct sim_versions *versions, uint64_t task_id);
// The task's name, where a version of it was met. False: none was.
bool sim_versions_task_name(struct sim_versions *versions, uint64_t task_id,
                            char out[WIRE_TASK_NAME_MAX + 1]);
// Declares a version bad (by hash). False when the table is full.
bool sim_versions_mark_bad(struct sim_versions *versions, const struct wire_sha256 *manifest);
// Names from the manifest, known once the version runs somewhere.
void sim_versions_describe(struct sim_versions *versions, uint8_t version, struct base_str task,
                           struct base_str label);
// Records a verified release, for everybody or for the beta channel alone; returns its version.
uint8_t sim_versions_grant(struct sim_versions *versions, const struct wire_release *release,
                           bool beta_only);
// A device was offered a version that it does not run, by this rollout.
void sim_versions_bring(struct sim_versions *versions, uint64_t rollout_id);
// Was any? True also where there was no place to keep it.
bool sim_versions_brought(struct sim_versions *versions, uint64_t rollout_id);
// Does a verified statement allow this version on this device?
bool sim_versions_allowed(struct sim_versions *versions, uint8_t version, uint64_t device_id,
                          bool beta_device);
// Copy for reading without the lock.
struct sim_version sim_versions_get(struct sim_versions *versions, uint8_t version);
uint32_t sim_versions_count(struct sim_versions *versions);
// What to call a version: its label, or the start of its hash while no device has run it.
void sim_version_name(const struct sim_version *version, char out[SIM_LABEL_MAX]);

#endif
