// Task runs on the shard's VM. Called by the shard between ticks of the runtime, never from inside
// one. Callers: fleet_device.c for a run and its end, fleet_shard.c for the runner's life. The VM,
// its budget and its models are those of a phone (device/vm, device/runner), so an outcome here is
// one that a phone would report. A shard keeps SIM_VMS_MAX VMs, one for each heap size it met.
#include "ports/sim_task.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "runner/runner_events.h"
#include "vm/vm_features.h"

#include <stdio.h>
#include <string.h>

#define UNITS_A_MS 10000u
#define STUCK_MS   600000u

void sim_runner_init(struct sim_runner *runner, struct sim_store *store)
{
    memset(runner, 0, sizeof(*runner));
    runner->checks.store = store;
    runner->vms = &runner->own;
    sim_runs_init(&runner->runs, base_alloc_heap());
}

void sim_vms_done(struct sim_vms *vms)
{
    for (uint32_t i = 0; i < vms->count; i++) {
        dev_vm_free(vms->vm[i]);
    }
    *vms = (struct sim_vms){.count = 0};
}

void sim_runner_done(struct sim_runner *runner)
{
    sim_cloud_side_done(&runner->cloud);
    sim_vms_done(&runner->own);
    posix_run_effects_done(&runner->effects);
    sim_runs_done(&runner->runs);
    memset(runner, 0, sizeof(*runner));
}

// The VM for this heap size; the last slot is reused when there are more sizes than slots.
static struct dev_vm *vm_for(struct sim_vms *vms, uint32_t heap_kib)
{
    for (uint32_t i = 0; i < vms->count; i++) {
        if (vms->heap_kib[i] == heap_kib) {
            return vms->vm[i];
        }
    }
    if (vms->count == SIM_VMS_MAX) {
        dev_vm_free(vms->vm[--vms->count]);
    }
    struct dev_vm *vm = NULL;
    if (dev_vm_new(heap_kib, &vm) != BASE_OK) {
        return NULL;
    }
    vms->vm[vms->count] = vm;
    vms->heap_kib[vms->count++] = heap_kib;
    return vm;
}

void sim_task_end_set(struct sim_task_end *out, enum wire_outcome_kind outcome,
                      uint64_t duration_us, const char *detail)
{
    memset(&out->end, 0, sizeof(out->end));
    (void)snprintf(out->detail, sizeof(out->detail), "%s", detail);
    out->end.outcome = outcome;
    out->end.duration_us = duration_us;
    out->end.detail = base_str_of(out->detail);
    out->end.place.of_port = true;
    if (wire_outcome_is_failure(outcome)) {
        out->end.fingerprint = base_hash64(out->detail, strlen(out->detail));
    }
}

static struct base_str without_suffix(struct base_str name)
{
    struct base_str suffix = BASE_STR(".mpy");
    if (name.size > suffix.size &&
        memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size) == 0) {
        name.size -= suffix.size;
    }
    return name;
}

static void end_from_result(const struct dev_vm_result *result, struct sim_task_end *out)
{
    char detail[SIM_TASK_DETAIL_MAX + 1] = "";
    if (result->end != DEV_VM_FINISHED) {
        (void)snprintf(detail, sizeof(detail), "%.40s: %.64s (%.40s:%u)",
                       result->type[0] != 0 ? result->type : dev_vm_end_name(result->end),
                       result->message, result->file, result->line);
    }
    sim_task_end_set(out, dev_vm_end_outcome(result->end), result->duration_us, detail);
    if (result->end != DEV_VM_FINISHED) {
        // The message may hold values; type and place are what failures have in common.
        char place[DEV_VM_TYPE_MAX + DEV_VM_FILE_MAX + 16];
        int size =
            snprintf(place, sizeof(place), "%s %s:%u", result->type, result->file, result->line);
        out->end.fingerprint = base_hash64(place, size > 0 ? (size_t)size : 0);
    }
    out->end.result = result->result;
    out->end.phases = posix_run_phases(result);
    out->end.heap_peak_bytes = result->heap_peak_bytes;
    out->end.left_out = dev_vm_left_out_sum(&result->left_out);
    out->end.refused = result->refused;
    out->end.cloud = result->cloud;
    posix_run_place(result, &out->end.place);
}

static enum base_status run(struct sim_runner *runner, struct dev_vm *vm, struct dev_vm_job *job,
                            const struct dev_run_input *input, struct dev_vm_result *out)
{
    struct dev_runner_events events = {0};
    enum base_status status = BASE_OK;
    posix_run_effects_done(&runner->effects);
    if (input != NULL) {
        status = dev_runner_events_make(input->events, input->events_bytes, &events);
        job->events = events.events;
        job->event_count = events.count;
        job->events_missing = events.missing;
        job->events_timed_out = events.timed_out;
    }
    if (status == BASE_OK) {
        status = dev_vm_run(vm, job, out);
    }
    dev_runner_events_done(&events);
    return status == BASE_OK ? posix_run_effects_copy(out, &runner->effects) : status;
}

// What a run may take is counted in units of work in place of time, about as many as this VM does:
// where the machine is busy with other things, a script is no slower for it. The clock still ends
// one that counts nothing. A device that is slower gets less done in its time.
static void limit_time(struct dev_vm_job *job, const struct sim_run_data *data)
{
    uint32_t time_ms = job->time_ms != 0 ? job->time_ms : DEV_VM_TIME_MS_DEFAULT;
    uint32_t slower = data->slower > 0 ? data->slower : 1;
    base_assert(job->instruction_max == 0);
    if (data->virtual_time) {
        uint64_t units = (uint64_t)time_ms * UNITS_A_MS / slower;
        job->instruction_max = units > 0 ? units : 1;
        job->time_ms = STUCK_MS;
    } else if (slower > 1) {
        job->time_ms = time_ms > slower ? time_ms / slower : 1;
    }
}

// The scripts of the job, as modules; their count.
static uint32_t modules_take(struct sim_runner *runner, const struct dev_task_job *job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->file_count && count < DEV_VM_MODULES_MAX; i++) {
        if (job->files[i].kind == WIRE_FILE_SCRIPT) {
            runner->modules[count++] = (struct dev_vm_module){
                without_suffix(job->files[i].name), job->files[i].bytes, job->files[i].size};
        }
    }
    return count;
}

// Returns whether all that it did follows from the version's files.
static bool run_made(struct sim_runner *runner, const struct dev_task_job *job,
                     const struct sim_run_data *data, struct sim_task_end *out)
{
    struct dev_vm *vm = vm_for(runner->vms, job->manifest->heap_kib);
    if (vm == NULL) {
        sim_task_end_set(out, WIRE_OUTCOME_FAIL_MEMORY, 0, "no memory for the VM");
        return false;
    }
    const uint32_t count = modules_take(runner, job);
    uint32_t model_count = 0;
    if (posix_run_models(job->files, job->file_count, runner->models, &model_count) != BASE_OK) {
        sim_task_end_set(out, WIRE_OUTCOME_FAIL_LOAD, 0, "too many models");
        return false;
    }
    uint32_t file_count = 0;
    if (posix_run_files(job->files, job->file_count, runner->files, &file_count) != BASE_OK) {
        sim_task_end_set(out, WIRE_OUTCOME_FAIL_LOAD, 0, "too many data files");
        return false;
    }
    const struct dev_model_port models = dev_model_store_port(runner->model_store);
    struct dev_vm_features features = {
        .store = data->features,
        .now_us = data->now_us,
        .of =
            dev_task_store_of(job->manifest->task_name, job->manifest->declaration, &job->version)};
    const struct dev_vm_data_port port = dev_vm_features_port(&features);
    const struct dev_vm_check_port checks = sim_checks_port(&runner->checks, job, data->real);
    struct sim_cloud_run cloud = {.side = &runner->cloud,
                                  .device = data->device,
                                  .at_us = data->at_us,
                                  .runtime = data->runtime,
                                  .declaration = job->manifest->declaration};
    const struct dev_vm_cloud_port cloud_port = sim_cloud_port(&cloud);
    struct dev_vm_job vm_job = {
        .data = &port,
        .cloud = runner->cloud.cloud != NULL ? &cloud_port : NULL,
        .checks = &checks,
        .modules = runner->modules,
        .module_count = count,
        .models = runner->models,
        .model_count = model_count,
        .model_port = runner->model_store != NULL ? &models : NULL,
        .files = runner->files,
        .file_count = file_count,
        .blobs = runner->blobs,
        .blob_count = posix_run_blobs(job->blobs, runner->blobs),
        .entry = job->manifest->entry,
        .config = job->manifest->config,
        .declaration = job->manifest->declaration,
        .device_id = job->device_id,
        .attrs = job->attrs,
        .time_ms = job->manifest->time_ms,
    };
    vm_job.input = posix_run_input(vm_job.blobs, vm_job.blob_count);
    limit_time(&vm_job, data);
    struct dev_vm_result result;
    memset(&result, 0, sizeof(result));
    enum base_status status = run(runner, vm, &vm_job, job->input, &result);
    sim_cloud_run_done(&cloud);
    if (status != BASE_OK) {
        sim_task_end_set(out, WIRE_OUTCOME_FAIL_LOAD, 0, base_status_text(status));
        return false;
    }
    runner->vm_us += result.duration_us;
    end_from_result(&result, out);
    out->waited_us = cloud.waited_us;
    out->end.effects = runner->effects.effects;
    out->end.effect_count = runner->effects.count;
    return !result.looked;
}

void sim_runner_run(struct sim_runner *runner, const struct dev_task_job *job,
                    const struct sim_run_data *data, struct sim_task_end *out)
{
    // Files behind the manifest's are this device's, and so are the events of an input.
    bool shares =
        data->shares && job->input == NULL && job->file_count == job->manifest->file_count;
    if (shares && !data->real && sim_runs_share(&runner->runs, &job->version, out)) {
        return;
    }
    bool same_for_all = run_made(runner, job, data, out);
    if (shares && data->real) {
        sim_runs_compare(&runner->runs, &job->version, out);
    } else if (shares && same_for_all) {
        sim_runs_keep(&runner->runs, &job->version, out);
    }
}

bool sim_task_verified(struct sim_store *store, const struct dev_task_job *job)
{
    if (sim_store_find(store, &job->version) == NULL ||
        job->manifest->file_count > job->file_count) {
        return false;
    }
    for (uint32_t i = 0; i < job->file_count; i++) {
        const struct dev_task_file *file = &job->files[i];
        const struct wire_sha256 *name =
            i < job->manifest->file_count ? &job->manifest->files[i].digest : &file->digest;
        const struct sim_blob *blob = sim_store_find(store, name);
        if (blob == NULL || blob->size != file->size ||
            (blob->bytes != file->bytes && memcmp(blob->bytes, file->bytes, file->size) != 0)) {
            return false;
        }
    }
    return true;
}
