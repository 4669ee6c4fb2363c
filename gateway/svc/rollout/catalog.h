// The catalog: tasks, their versions, and which blobs are there.
//
// Called on the control thread only (svc/control.h). Every change is on disk before the function
// returns. Views are copies, owned by the caller.
#ifndef GW_CATALOG_H
#define GW_CATALOG_H

#include "base/error.h"
#include "base/str.h"
#include "store/store.h"
#include "svc/page.h"
#include "svc/plan/release_spec.h"
#include "wire/digest.h"
#include "wire/manifest.h"

#include <stdint.h>

#define GW_TASKS_MAX        10000u // of all tenants, by shares
#define GW_TASK_BASES_MAX   64u    // completed rollouts of a task that are remembered as baselines
#define GW_VERSION_TEXT_MAX 48u

struct gw_core;

struct gw_task_view {
    char name[WIRE_TASK_NAME_MAX + 1];
    uint64_t task_id;
    uint16_t tenant;
    uint64_t release_counter; // highest used by a rollout; 0: none yet
    uint64_t created_s;       // Unix seconds
    uint64_t open_rollout;    // the one of the highest priority; 0: none
    uint32_t open_count;
    uint64_t open_rollouts[GW_TASK_OPEN_MAX]; // in the order in which a device asks them
    uint64_t baseline_rollout;                // of the completed, the one approved last; 0: none
    struct wire_sha256 baseline_manifest;
    char baseline_version[GW_VERSION_TEXT_MAX + 1]; // empty without a baseline
};

struct gw_version_view {
    struct wire_sha256 manifest;
    uint64_t version_id;
    uint64_t manifest_bytes;
    uint64_t created_s;
    uint32_t file_count;
    uint64_t files_bytes;
    uint32_t subjects; // devices and users with exclusive files
    char version[GW_VERSION_TEXT_MAX + 1];
};

// OK also when the task exists (*out_created false). INVALID name; CONFLICT: it is another
// tenant's, or the tenant has its share of tasks; LIMIT, FULL, IO.
BASE_NODISCARD enum base_status gw_catalog_task_create(struct gw_core *core, uint16_t tenant,
                                                       struct base_str name, bool *out_created,
                                                       struct base_error *error);
BASE_NODISCARD enum base_status gw_catalog_task_get(struct gw_core *core, struct base_str name,
                                                    struct gw_task_view *out);
// Whose a task is, without the rest. False: there is none.
bool gw_catalog_task_owner(struct gw_core *core, struct base_str name, uint16_t *out_tenant);
// Task and tenant of a rollout; the name is borrowed until the next change. False: there is none.
bool gw_catalog_rollout_owner(struct gw_core *core, uint64_t id, uint16_t *out_tenant,
                              const char **out_task);
// By task id; ids order the list. `after_id` 0 begins; the next page follows after the last item's
// task_id.
void gw_catalog_task_list(struct gw_core *core, uint64_t after_id, struct gw_task_view *out,
                          struct gw_page *page);

struct gw_version_new {
    struct base_str task;
    struct wire_sha256 manifest;
    struct wire_sha256 exclusive; // list of exclusive files (svc/content/exclusive.h); zero: none
    struct wire_sha256 *missing;
    uint32_t missing_capacity;
    uint32_t missing_count; // result
};

// Registers a manifest, whose blob and files must have been put before. CONFLICT: blobs are
// missing, named in `missing` (at most `missing_capacity`; the manifest itself may be one). What
// came as exclusive alone is missing among what everybody gets: naming a hash makes nothing public;
// NOT_FOUND: no such task; INVALID: the blob is no manifest or names another task, or what is wrong
// with its exclusive files or its tunnel dictionary (svc/content/tunnel_dicts.h). OK also when it
// was registered before (*out_created false).
BASE_NODISCARD enum base_status gw_catalog_version_add(struct gw_core *core,
                                                       struct gw_version_new *wish,
                                                       struct gw_version_view *out,
                                                       bool *out_created, struct base_error *error);
// In the order of manifest hashes; `after` NULL begins. NOT_FOUND: no such task.
BASE_NODISCARD enum base_status gw_catalog_version_list(struct gw_core *core, struct base_str task,
                                                        const struct wire_sha256 *after,
                                                        struct gw_version_view *out,
                                                        struct gw_page *page);
BASE_NODISCARD enum base_status gw_catalog_version_get(struct gw_core *core, struct base_str task,
                                                       const struct wire_sha256 *manifest,
                                                       struct gw_version_view *out);
// The bytes of a version's manifest, as they are signed. NOT_FOUND; IO, NOMEM. The caller releases
// them (gw_store_bytes_done).
BASE_NODISCARD enum base_status gw_catalog_manifest_load(struct gw_core *core,
                                                         const struct wire_sha256 *manifest,
                                                         struct gw_store_bytes *out);

#endif
