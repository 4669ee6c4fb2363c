// The simulator with one thing wrong in the product under it, for e2e/test_fleet_oracles.py: each
// mutant is to break the invariant that is there for it, and no other test's. WALLE_SIM_MUTANT
// names it; without it the program is walle-fleet-sim. The functions are put in the way of the
// product's by the linker (--wrap), so nothing of this is in what ships.
#include "base/check.h"
#include "core/base/runtime.h"
#include "core/offer/device_again.h"
#include "core/pull/device_pull.h"
#include "core/pull/pull_state.h"
#include "core/record_save.h"
#include "core/slots/device_content.h"
#include "core/slots/device_slots.h"
#include "model/versions.h"
#include "policy/bucket.h"
#include "policy/gate.h"
#include "ports/sim_storage.h"
#include "posix/posix_request.h"
#include "svc/plan/cohort.h"
#include "tunnel/tunnel.h"
#include "virtual/core_link.h"
#include "vm/vm.h"

#include "device/port.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is(const char *name)
{
    const char *mutant = getenv("WALLE_SIM_MUTANT");
    return mutant != NULL && strcmp(mutant, name) == 0;
}

// ---- A header of a request is not sent

uint32_t __real_posix_request_headers(const struct dev_request *request,
                                      struct posix_request_text *text, struct h2_header *out);
uint32_t __wrap_posix_request_headers(const struct dev_request *request,
                                      struct posix_request_text *text, struct h2_header *out);
uint32_t __wrap_posix_request_headers(const struct dev_request *request,
                                      struct posix_request_text *text, struct h2_header *out)
{
    uint32_t count = __real_posix_request_headers(request, text, out);
    return is("unsent-header") && count > 0 ? count - 1 : count;
}

// ---- Signatures are not looked at

enum base_status __real_dev_trust_signatures(struct dev_runtime *runtime,
                                             const struct wire_envelope *envelope,
                                             const struct wire_release *release);
enum base_status __wrap_dev_trust_signatures(struct dev_runtime *runtime,
                                             const struct wire_envelope *envelope,
                                             const struct wire_release *release);
enum base_status __wrap_dev_trust_signatures(struct dev_runtime *runtime,
                                             const struct wire_envelope *envelope,
                                             const struct wire_release *release)
{
    return is("skipped-signature") ? BASE_OK
                                   : __real_dev_trust_signatures(runtime, envelope, release);
}

// ---- What was read from storage is used whatever it is

enum base_status __real_dev_content_open(struct dev_runtime *runtime,
                                         const struct wire_sha256 *name, uint64_t bytes_max,
                                         const uint8_t **out_bytes, size_t *out_size);
enum base_status __wrap_dev_content_open(struct dev_runtime *runtime,
                                         const struct wire_sha256 *name, uint64_t bytes_max,
                                         const uint8_t **out_bytes, size_t *out_size);
enum base_status __wrap_dev_content_open(struct dev_runtime *runtime,
                                         const struct wire_sha256 *name, uint64_t bytes_max,
                                         const uint8_t **out_bytes, size_t *out_size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    if (!is("unchecked-content")) {
        return __real_dev_content_open(runtime, name, bytes_max, out_bytes, out_size);
    }
    return storage->blob_map(storage->ctx, name, out_bytes, out_size);
}

// ---- What came is not held against its name

static _Thread_local const struct wire_sha256 *hoped;

static void as_hoped(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out_digest)
{
    (void)ctx, (void)state;
    *out_digest = *hoped;
}

void __real_dev_pull_sealed(struct dev_runtime *runtime);
void __wrap_dev_pull_sealed(struct dev_runtime *runtime);
void __wrap_dev_pull_sealed(struct dev_runtime *runtime)
{
    const struct dev_ports *ports = runtime->ports;
    struct dev_ports believing = *ports;
    if (is("unhashed-content")) {
        hoped = &runtime->pull->blob;
        believing.crypto.hash_end = as_hoped;
        runtime->ports = &believing;
    }
    __real_dev_pull_sealed(runtime);
    runtime->ports = ports;
}

// ---- A script looked at its device, and nobody says so

enum base_status __real_dev_vm_run(struct dev_vm *vm, const struct dev_vm_job *job,
                                   struct dev_vm_result *out);
enum base_status __wrap_dev_vm_run(struct dev_vm *vm, const struct dev_vm_job *job,
                                   struct dev_vm_result *out);
enum base_status __wrap_dev_vm_run(struct dev_vm *vm, const struct dev_vm_job *job,
                                   struct dev_vm_result *out)
{
    enum base_status status = __real_dev_vm_run(vm, job, out);
    out->looked = out->looked && !is("untold-look");
    return status;
}

// ---- What a device had stored it does not start from

#define LOST_BOOTS 7u

enum base_status __real_dev_record_restore(struct dev_runtime *runtime);
enum base_status __wrap_dev_record_restore(struct dev_runtime *runtime);
enum base_status __wrap_dev_record_restore(struct dev_runtime *runtime)
{
    static uint32_t boots;
    BASE_TRY(__real_dev_record_restore(runtime));
    bool lost = is("lost-recovery") && runtime->task_count > 0 && ++boots % LOST_BOOTS == 0;
    return lost ? BASE_ERR_CORRUPT : BASE_OK;
}

// ---- Nothing is wrong, and the first shards are slow to hear what they are told first

#define SLOW_US    20000u
#define SLOW_TIMES 50u

static _Thread_local const struct sim_core_link *hearing;

void __real_sim_core_link_deliver(struct sim_core_link *link);
void __wrap_sim_core_link_deliver(struct sim_core_link *link);
void __wrap_sim_core_link_deliver(struct sim_core_link *link)
{
    static uint32_t times[2];
    uint32_t shard = link->options.shard;
    const struct base_clock_port *clock = &link->options.clock;
    bool news = sim_core_link_due_us(link) <= clock->mono_us(clock->ctx);
    if (is("slow-shards") && shard < 2 && news && ++times[shard] <= SLOW_TIMES) {
        (void)usleep(SLOW_US);
    }
    hearing = link;
    __real_sim_core_link_deliver(link);
    hearing = NULL;
}

// Whatever else they do, shards come to what they share in their order.
uint8_t __real_sim_versions_intern(struct sim_versions *versions,
                                   const struct wire_sha256 *manifest);
uint8_t __wrap_sim_versions_intern(struct sim_versions *versions,
                                   const struct wire_sha256 *manifest);
uint8_t __wrap_sim_versions_intern(struct sim_versions *versions,
                                   const struct wire_sha256 *manifest)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t last_us;
    static uint32_t last; // shard
    uint8_t number = __real_sim_versions_intern(versions, manifest);
    if (is("slow-shards") && hearing != NULL) {
        (void)pthread_mutex_lock(&lock);
        uint64_t now_us = hearing->options.clock.mono_us(hearing->options.clock.ctx);
        base_check(now_us > last_us || hearing->options.shard >= last);
        last_us = now_us;
        last = hearing->options.shard;
        (void)pthread_mutex_unlock(&lock);
    }
    return number;
}

// ---- What was said to be durable is gone after a kill

void __real_sim_storage_kill(struct sim_storage *storage, uint64_t draw);
void __wrap_sim_storage_kill(struct sim_storage *storage, uint64_t draw);
void __wrap_sim_storage_kill(struct sim_storage *storage, uint64_t draw)
{
    __real_sim_storage_kill(storage, draw);
    if (is("lost-fsync")) {
        sim_states_drop(sim_store_states(storage->store), &storage->disk->state);
    }
}

// ---- What was said to be durable never was, though nobody was killed

static struct dev_storage_port under;

static enum base_status lost_save(void *ctx, const uint8_t *bytes, size_t size)
{
    static uint32_t calls;
    return ++calls % 3 == 0 ? BASE_OK : under.state_save(ctx, bytes, size);
}

struct dev_storage_port __real_sim_storage_port(struct sim_storage *storage);
struct dev_storage_port __wrap_sim_storage_port(struct sim_storage *storage);
struct dev_storage_port __wrap_sim_storage_port(struct sim_storage *storage)
{
    struct dev_storage_port port = __real_sim_storage_port(storage);
    under = port;
    port.state_save = is("lost-save") ? lost_save : port.state_save;
    return port;
}

// ---- A version is activated twice

void __real_dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                              const struct wire_manifest *manifest);
void __wrap_dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                              const struct wire_manifest *manifest);
void __wrap_dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                              const struct wire_manifest *manifest)
{
    uint8_t state = task->slots.state;
    __real_dev_slot_activate(runtime, task, manifest);
    if (is("double-activation")) {
        task->slots.state = state;
        __real_dev_slot_activate(runtime, task, manifest);
    }
}

// ---- A stage has more devices than its statement says

static _Thread_local bool oracle; // the simulator's own judgement stays

uint16_t __real_pol_bucket(uint64_t device, uint64_t salt);
uint16_t __wrap_pol_bucket(uint64_t device, uint64_t salt);
uint16_t __wrap_pol_bucket(uint64_t device, uint64_t salt)
{
    return is("stage-leak") && !oracle ? 0 : __real_pol_bucket(device, salt);
}

// The short way, on which the gateway sees that a device has what it should, is not taken.
uint64_t __real_gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id);
uint64_t __wrap_gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id);
uint64_t __wrap_gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id)
{
    return __real_gw_cohort_expected(cohort, device_id) ^ (is("stage-leak") ? 1 : 0);
}

bool __real_sim_versions_allowed(struct sim_versions *versions, uint8_t version, uint64_t device,
                                 bool beta);
bool __wrap_sim_versions_allowed(struct sim_versions *versions, uint8_t version, uint64_t device,
                                 bool beta);
bool __wrap_sim_versions_allowed(struct sim_versions *versions, uint8_t version, uint64_t device,
                                 bool beta)
{
    oracle = true;
    bool allowed = __real_sim_versions_allowed(versions, version, device, beta);
    oracle = false;
    return allowed;
}

// ---- What failed is tried again at once

uint32_t __real_dev_backoff_next(struct dev_backoff *backoff, uint64_t random,
                                 uint32_t retry_after_s);
uint32_t __wrap_dev_backoff_next(struct dev_backoff *backoff, uint64_t random,
                                 uint32_t retry_after_s);
uint32_t __wrap_dev_backoff_next(struct dev_backoff *backoff, uint64_t random,
                                 uint32_t retry_after_s)
{
    return is("retry-storm") ? 20 : __real_dev_backoff_next(backoff, random, retry_after_s);
}

// ---- The way back is not gone

bool __real_dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task);
bool __wrap_dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task);
bool __wrap_dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task)
{
    return is("unfinished-rollback") || __real_dev_slot_fall_back(runtime, task);
}

void __real_dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task);
void __wrap_dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task);
void __wrap_dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task)
{
    if (!is("unfinished-rollback")) {
        __real_dev_slot_remove(runtime, task);
    }
}

void __real_dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task);
void __wrap_dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task);
void __wrap_dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task)
{
    if (!is("unfinished-rollback")) {
        __real_dev_slot_revert(runtime, task);
    }
}

// ---- A control whose run fails gives up what it had. "control-fails" is the failure alone

void __real_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end);
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end);
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end)
{
    struct dev_task_end failed = *end;
    if (is("control-fails") || is("control-gives-up")) {
        for (uint32_t i = 0; i < runtime->task_count; i++) {
            failed.outcome =
                runtime->tasks[i].slots.placebo ? WIRE_OUTCOME_FAIL_EXCEPTION : failed.outcome;
        }
    }
    __real_dev_on_task_end(runtime, run, &failed);
}

bool __real_dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task);
bool __wrap_dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task);
bool __wrap_dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task)
{
    if (is("control-gives-up")) {
        dev_slot_give_up(runtime, task);
        return false;
    }
    return __real_dev_slot_failed(runtime, task);
}

// ---- A stage ends well whatever happened in it

void __real_pol_gate_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                           uint64_t in_stage_us, struct pol_judgement *out);
void __wrap_pol_gate_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                           uint64_t in_stage_us, struct pol_judgement *out);
void __wrap_pol_gate_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                           uint64_t in_stage_us, struct pol_judgement *out)
{
    __real_pol_gate_judge(gate, counts, in_stage_us, out);
    if (is("blind-gate")) {
        *out =
            (struct pol_judgement){.verdict = POL_VERDICT_PASS, .reason = POL_REASON_STAGE_PASSED};
    }
}

// ---- A record goes, and nobody counts it

#define LOST_EVERY 97u

enum base_status __real_dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                         const struct wire_upload_record *record,
                                         uint64_t *out_seq);
enum base_status __wrap_dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                         const struct wire_upload_record *record,
                                         uint64_t *out_seq);
enum base_status __wrap_dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                         const struct wire_upload_record *record, uint64_t *out_seq)
{
    static uint32_t offered;
    if (is("uncounted-loss") && ++offered % LOST_EVERY == 0) {
        return BASE_OK;
    }
    return __real_dev_tunnel_offer(tunnel, now_us, record, out_seq);
}

// ---- A control brings content

void __real_dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks,
                           uint32_t count, bool all);
void __wrap_dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks,
                           uint32_t count, bool all);
void __wrap_dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks,
                           uint32_t count, bool all)
{
    if (is("placebo-downloads") && dev_again_news(runtime, marks, count)) {
        const struct dev_request request = {
            .method = DEV_METHOD_GET,
            .path = BASE_STR("/v1/blob/00000000000000000000000000000000"
                             "00000000000000000000000000000000"),
        };
        (void)runtime->ports->http.start(runtime->ports->http.ctx, UINT32_MAX, &request);
    }
    __real_dev_again_take(runtime, marks, count, all);
}
