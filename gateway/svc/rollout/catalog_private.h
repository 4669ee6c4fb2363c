// The catalog in memory: tasks and rollouts by id, and what a task is on. The control thread's.
#ifndef GW_CATALOG_PRIVATE_H
#define GW_CATALOG_PRIVATE_H

#include "svc/plan/plan.h"
#include "svc/rollout/rollout_private.h"

struct gw_task {
    uint64_t task_id;
    uint32_t slot;        // in plans: the number of slots there were when it came
    uint32_t shadow_slot; // ... of its shadows; 0: it never had one
    char name[WIRE_TASK_NAME_MAX + 1];
    uint16_t tenant;
    uint64_t created_s;
    uint64_t release_counter;
    uint32_t base_count;
    struct gw_rollout *bases[GW_TASK_BASES_MAX]; // completed; approved last first
    struct gw_rollout *taken_back;               // of those, the one approved last; NULL: none
    uint32_t open_count;
    struct gw_rollout *open[GW_PLAN_OPEN_MAX]; // not closed; highest priority first, then the older
};

// Both arrays by ascending id.
struct gw_catalog {
    struct gw_task **tasks;
    uint32_t task_count;
    uint32_t task_capacity;
    uint32_t slot_count; // of plans
    struct gw_rollout **rollouts;
    uint32_t rollout_count;
    uint32_t rollout_capacity;
};

BASE_NODISCARD enum base_status gw_catalog_new(struct gw_catalog **out_catalog);
void gw_catalog_free(struct gw_catalog *catalog); // accepts NULL
enum base_status gw_catalog_load(struct gw_core *core, struct base_error *error);
struct gw_task *gw_catalog_find_task(struct gw_core *core, uint64_t task_id);
struct gw_rollout *gw_catalog_find_rollout(struct gw_core *core, uint64_t id);
enum base_status gw_catalog_insert_rollout(struct gw_core *core, struct gw_rollout *rollout);
void gw_catalog_remove_rollout(struct gw_core *core, struct gw_rollout *rollout);
// Among its completed and guarded rollouts; of more than fit, those approved last stay.
void gw_task_base(struct gw_task *task, struct gw_rollout *rollout);
// Those that may be what a device should be on: approved last first, without the killed, down to
// the fourth version that is for everybody. Returns how many.
uint32_t gw_task_live_bases(const struct gw_core *core, const struct gw_task *task,
                            struct gw_rollout *out[GW_PLAN_BASES_MAX]);
// Is a base that was approved later everybody's, so that nobody is offered this one any more?
bool gw_task_is_superseded(const struct gw_core *core, const struct gw_task *task,
                           const struct gw_rollout *base);
// The completed rollout that was approved last, of a killed version too; NULL: none.
struct gw_rollout *gw_task_completed_last(const struct gw_task *task);
// Of those whose version is not killed; NULL: none.
struct gw_rollout *gw_task_baseline(const struct gw_core *core, const struct gw_task *task);
// Was a rollout of it started, or ended?
bool gw_task_is_begun(const struct gw_task *task);
// In its place among the open ones; false when there are GW_PLAN_OPEN_MAX that do not go back.
bool gw_task_open(struct gw_task *task, struct gw_rollout *rollout);
size_t gw_task_encode(const struct gw_task *task, uint8_t *out, size_t capacity);
// What a version declares to upload is said to the tunnel, if there is one.
BASE_NODISCARD enum base_status gw_catalog_declare(struct gw_core *core,
                                                   const struct wire_manifest *manifest,
                                                   struct base_error *error);

#endif
