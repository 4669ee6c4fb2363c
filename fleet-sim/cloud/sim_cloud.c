// The cloud of a simulation: models of a folder, run by the store that the fleet's devices share.
// Made by fleet_run.c for the fleet; its port is called by script VMs on their shard's thread. No
// clock is asked: a call takes as long as the options say and the calls before it make it wait, and
// one whose deadline is sooner is late and is not run. Half of the way lies before an instance and
// half behind it.
#include "cloud/sim_cloud.h"

#include "device/cloud.h"
#include "device/port.h"

#include "base/check.h"
#include "base/str.h"
#include "cloud/cloud_load.h"
#include "model/zero_pages.h"
#include "policy/ratelimit.h"
#include "wire/cloud/tensor_leaves.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES_MAX ((size_t)512 << 20) // of a model at work

struct model {
    char name[WIRE_TENSOR_MODEL_MAX + 1];
    uint64_t version;
    uint8_t *bytes;
    size_t size;
    struct wire_sha256 digest;
    struct sim_cloud_load load;
    struct sim_cloud_calendar *calendar; // NULL: nobody waits
};

struct sim_cloud {
    struct dev_model_store *store;
    uint32_t call_ms;
    struct pol_ratelimit_config quota; // burst 0: there is none
    pthread_mutex_t lock;              // of the calendars
    uint32_t count;
    struct model models[SIM_CLOUD_MODELS_MAX];
};

// ---- The folder

static enum base_status file_read(const char *path, struct model *model, struct base_error *error)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        if (file != NULL) {
            (void)fclose(file);
        }
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%.120s: cannot be read", path);
    }
    long size = ftell(file);
    rewind(file);
    if (size <= 0 || (size_t)size > SIM_CLOUD_FILE_MAX) {
        (void)fclose(file);
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.120s: empty, or over %zu bytes", path,
                              SIM_CLOUD_FILE_MAX);
    }
    model->size = (size_t)size;
    model->bytes = malloc(model->size);
    bool whole = model->bytes != NULL && fread(model->bytes, 1, model->size, file) == model->size;
    (void)fclose(file);
    if (!whole) {
        return base_error_set(error, BASE_ERR_IO, "%.120s: cannot be read", path);
    }
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, model->bytes, model->size);
    crypto->hash_end(crypto->ctx, &state, &model->digest);
    return BASE_OK;
}

// The highest number among the folder's entries; 0: there is none.
static uint64_t version_find(const char *path)
{
    uint64_t highest = 0;
    DIR *dir = opendir(path);
    struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        uint64_t version = 0;
        if (base_str_u64(base_str_of(entry->d_name), &version) == BASE_OK && version > highest) {
            highest = version;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return highest;
}

static enum base_status model_add(struct sim_cloud *cloud, const char *dir, const char *name,
                                  struct base_error *error)
{
    char path[1024];
    if (cloud->count == SIM_CLOUD_MODELS_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.120s: more than %d models", dir,
                              SIM_CLOUD_MODELS_MAX);
    }
    struct model *model = &cloud->models[cloud->count++];
    (void)snprintf(model->name, sizeof(model->name), "%s", name);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    model->version = version_find(path);
    if (model->version == 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%.120s: no folder of a version", path);
    }
    (void)snprintf(path, sizeof(path), "%s/%s/%llu/model.onnx", dir, name,
                   (unsigned long long)model->version);
    return file_read(path, model, error);
}

static enum base_status models_read(struct sim_cloud *cloud, const char *dir,
                                    struct base_error *error)
{
    DIR *folder = opendir(dir);
    struct dirent *entry = NULL;
    enum base_status status = BASE_OK;
    if (folder == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%.120s: no such folder", dir);
    }
    while (status == BASE_OK && (entry = readdir(folder)) != NULL) {
        if (wire_tensor_model_ok(base_str_of(entry->d_name))) {
            status = model_add(cloud, dir, entry->d_name, error);
        }
    }
    (void)closedir(folder);
    return status;
}

static const struct model *model_find(const struct sim_cloud *cloud, struct base_str name)
{
    for (uint32_t i = 0; i < cloud->count; i++) {
        if (base_str_equal(name, base_str_of(cloud->models[i].name))) {
            return &cloud->models[i];
        }
    }
    return NULL;
}

static bool knows(void *ctx, struct base_str model)
{
    return model_find(ctx, model) != NULL;
}

static enum base_status loads_read(struct sim_cloud *cloud, const char *words,
                                   struct base_error *error)
{
    const struct sim_cloud_names names = {cloud, knows};
    struct sim_cloud_load all;
    BASE_TRY(sim_cloud_load_read(words, BASE_STR(""), &names, &all, error));
    cloud->quota = (struct pol_ratelimit_config){all.per_min, all.per_min, 60000000};
    for (uint32_t i = 0; i < cloud->count; i++) {
        struct model *model = &cloud->models[i];
        BASE_TRY(sim_cloud_load_read(words, base_str_of(model->name), &names, &model->load, error));
        if (model->load.service_us > 0 &&
            sim_cloud_calendar_new(&model->load, &model->calendar) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    return BASE_OK;
}

enum base_status sim_cloud_new(const struct sim_cloud_options *options, struct sim_cloud **out,
                               struct base_error *error)
{
    struct sim_cloud *cloud = calloc(1, sizeof(*cloud));
    if (cloud == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    cloud->store = options->store;
    cloud->call_ms = options->call_ms;
    pthread_mutex_init(&cloud->lock, NULL);
    enum base_status status = models_read(cloud, options->dir, error);
    if (status == BASE_OK) {
        status = loads_read(cloud, options->load, error);
    }
    if (status != BASE_OK) {
        sim_cloud_free(cloud);
        return status;
    }
    *out = cloud;
    return BASE_OK;
}

void sim_cloud_free(struct sim_cloud *cloud)
{
    if (cloud == NULL) {
        return;
    }
    for (uint32_t i = 0; i < cloud->count; i++) {
        sim_cloud_calendar_free(cloud->models[i].calendar);
        free(cloud->models[i].bytes);
    }
    pthread_mutex_destroy(&cloud->lock);
    free(cloud);
}

enum base_status sim_cloud_side_init(struct sim_cloud_side *side, struct sim_cloud *cloud,
                                     uint32_t devices, struct sim_cloud_sums *sums)
{
    *side = (struct sim_cloud_side){.cloud = cloud, .devices = devices, .sums = sums};
    bool limited = cloud->quota.burst > 0;
    side->took_us = malloc(sizeof(*side->took_us));
    if (limited) { // pages that nobody writes to take no memory
        side->quotas = sim_pages_new(sizeof(*side->quotas) * devices);
    }
    if (side->took_us == NULL || (limited && side->quotas == NULL)) {
        sim_cloud_side_done(side);
        return BASE_ERR_NOMEM;
    }
    base_hist_init(side->took_us);
    return BASE_OK;
}

void sim_cloud_side_done(struct sim_cloud_side *side)
{
    sim_pages_free(side->quotas, sizeof(*side->quotas) * side->devices);
    free(side->took_us);
    *side = (struct sim_cloud_side){.cloud = NULL};
}

// ---- A call

struct outputs {
    struct wire_tensor_answer answer;
    uint8_t *blocks[WIRE_TENSORS_MAX];
    size_t bytes;
};

static enum base_status place(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                              struct base_error *error)
{
    struct outputs *outputs = ctx;
    struct wire_tensor *tensor = &outputs->answer.tensors[index];
    size_t bytes = eng_desc_bytes(desc);
    outputs->bytes += bytes;
    if (wire_tensor_element_bytes((uint8_t)desc->dtype) == 0 ||
        outputs->bytes > WIRE_TENSOR_ANSWER_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "the answer is over a limit");
    }
    outputs->blocks[index] = malloc(bytes > 0 ? bytes : 1);
    if (outputs->blocks[index] == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    tensor->dtype = (uint8_t)desc->dtype;
    tensor->rank = (uint8_t)desc->rank;
    for (uint32_t d = 0; d < desc->rank; d++) {
        tensor->dims[d] = (uint64_t)desc->dims[d];
    }
    tensor->data = outputs->blocks[index];
    tensor->bytes = bytes;
    *out_at = outputs->blocks[index];
    return BASE_OK;
}

// The tensor of this name, as the engine wants it. False: there is none.
static bool input_of(const struct wire_tensor_call *call, const char *name, struct eng_array *out)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wire_tensor *tensor = &call->tensors[i];
        if (!base_str_equal(tensor->name, base_str_of(name))) {
            continue;
        }
        *out = (struct eng_array){
            .desc = {.dtype = (enum eng_dtype)tensor->dtype, .rank = tensor->rank},
            .data = (void *)(uintptr_t)tensor->data};
        for (uint32_t d = 0; d < tensor->rank; d++) {
            out->desc.dims[d] = (int64_t)tensor->dims[d];
        }
        return true;
    }
    return false;
}

static enum base_status model_run(const struct dev_model_port *port, struct dev_model *model,
                                  const struct wire_tensor_call *call, struct outputs *outputs,
                                  struct base_error *error)
{
    struct eng_array inputs[WIRE_TENSORS_MAX];
    uint8_t wanted[WIRE_TENSORS_MAX];
    size_t input_count = port->port_count(model, true);
    size_t output_count = port->port_count(model, false);
    if (input_count != call->count || output_count > WIRE_TENSORS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "the model has %zu inputs", input_count);
    }
    for (size_t i = 0; i < input_count; i++) {
        if (!input_of(call, port->port(model, true, i)->name, &inputs[i])) {
            return base_error_set(error, BASE_ERR_INVALID, "input \"%s\" is not given",
                                  port->port(model, true, i)->name);
        }
    }
    for (size_t i = 0; i < output_count; i++) {
        wanted[i] = (uint8_t)i;
        outputs->answer.tensors[i].name = base_str_of(port->port(model, false, i)->name);
    }
    outputs->answer.count = (uint32_t)output_count;
    struct dev_model_call run = {.inputs = inputs,
                                 .input_count = input_count,
                                 .wanted = wanted,
                                 .wanted_count = output_count,
                                 .memory_bytes_max = MEMORY_BYTES_MAX,
                                 .place = {place, outputs}};
    return port->call(model, &run, error);
}

static enum base_status answer_write(struct sim_cloud_run *run, const struct outputs *outputs,
                                     struct dev_vm_cloud_end *out_end)
{
    struct base_writer writer;
    free(run->answer);
    run->answer = malloc(WIRE_TENSOR_ANSWER_MAX);
    if (run->answer == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_writer_init(&writer, run->answer, WIRE_TENSOR_ANSWER_MAX);
    wire_tensor_answer_write(&writer, &outputs->answer);
    out_end->answer = run->answer;
    out_end->size = base_writer_size(&writer);
    return writer.status;
}

static enum wire_cloud_why computed(struct sim_cloud_run *run, const struct model *model,
                                    const struct wire_tensor_call *call,
                                    struct dev_vm_cloud_end *out_end)
{
    const struct dev_model_port port = dev_model_store_port(run->side->cloud->store);
    const struct dev_model_file file = {&model->digest, model->bytes, model->size, NULL};
    struct outputs outputs = {.bytes = 0};
    struct base_error error = {.status = BASE_OK};
    struct dev_model *held = NULL;
    char version[24];
    (void)snprintf(version, sizeof(version), "%llu", (unsigned long long)model->version);
    outputs.answer.version = base_str_of(version);
    enum base_status status = port.get(port.ctx, &file, &held, &error);
    if (status == BASE_OK) {
        status = model_run(&port, held, call, &outputs, &error);
    }
    if (status == BASE_OK) {
        status = answer_write(run, &outputs, out_end);
    }
    for (uint32_t i = 0; i < WIRE_TENSORS_MAX; i++) {
        free(outputs.blocks[i]);
    }
    port.unref(held);
    (void)snprintf(out_end->detail, sizeof(out_end->detail), "%.150s", error.text);
    return status == BASE_OK              ? WIRE_CLOUD_ANSWERED
           : status == BASE_ERR_TOO_LARGE ? WIRE_CLOUD_TOO_LARGE
           : base_status_is_input(status) ? WIRE_CLOUD_REFUSED
                                          : WIRE_CLOUD_FAILED;
}

static struct dev_vm_cloud_state look(void *ctx, struct base_str model)
{
    const struct sim_cloud_run *run = ctx;
    struct dev_cloud_view view = {.why = WIRE_CLOUD_OFFLINE};
    if (run->runtime != NULL) {
        dev_cloud_look(run->runtime, model, &view);
    }
    return (struct dev_vm_cloud_state){view.why, run->side->cloud->call_ms * 1000};
}

// May it be sent at all?
static enum wire_cloud_why may_leave(struct sim_cloud_run *run,
                                     const struct dev_vm_cloud_call *call,
                                     struct wire_tensor_call *out_parsed,
                                     struct dev_vm_cloud_end *out_end)
{
    struct base_error error = {.status = BASE_OK};
    enum wire_cloud_why why = look(run, call->model).why;
    if (why != WIRE_CLOUD_ANSWERED) {
        return why;
    }
    if (wire_tensor_call_parse(call->bytes, call->size, out_parsed) != BASE_OK) {
        return WIRE_CLOUD_REFUSED;
    }
    if (wire_tensor_may_leave(run->declaration, call->model, out_parsed, &error) != BASE_OK) {
        (void)snprintf(out_end->detail, sizeof(out_end->detail), "%.150s", error.text);
        return WIRE_CLOUD_NOT_ALLOWED;
    }
    return WIRE_CLOUD_ANSWERED;
}

// The device's quota, as the gateway keeps it (gateway/infer/device_ledger.h).
static bool quota_take(struct sim_cloud_run *run, uint64_t now_us)
{
    const struct pol_ratelimit_config *config = &run->side->cloud->quota;
    if (config->burst == 0) {
        return true;
    }
    base_assert(run->device < run->side->devices);
    struct pol_ratelimit *quota = &run->side->quotas[run->device];
    if (quota->updated_us == 0) { // a page nobody wrote to
        pol_ratelimit_init(quota, config, now_us + 1);
    }
    return pol_ratelimit_take(quota, config, 1, now_us + 1);
}

// Takes an instance's time. False: the call is refused at once.
static bool instance_take(struct sim_cloud_run *run, const struct model *model, uint64_t at_us,
                          uint64_t most_us, uint64_t *out_wait_us)
{
    struct sim_cloud_side *side = run->side;
    *out_wait_us = 0;
    if (model->calendar == NULL) {
        return true;
    }
    if (side->in_order != NULL) {
        side->in_order(side->ctx);
    }
    pthread_mutex_lock(&side->cloud->lock);
    bool taken = sim_cloud_calendar_take(model->calendar, at_us, most_us, out_wait_us);
    pthread_mutex_unlock(&side->cloud->lock);
    side->sums->served_us += taken ? model->load.service_us : 0;
    side->sums->waited += taken && *out_wait_us > 0;
    return taken;
}

// A call that was sent, up to where it is run: how it ends, and how long that took.
static enum wire_cloud_why served(struct sim_cloud_run *run, const struct model *model,
                                  uint64_t most_us, uint64_t *out_took_us)
{
    uint64_t call_us = run->side->cloud->call_ms * UINT64_C(1000);
    uint64_t service_us = model != NULL ? model->load.service_us : 0;
    uint64_t way_us = call_us > service_us ? call_us - service_us : 0;
    uint64_t now_us = run->at_us + run->waited_us;
    uint64_t wait_us = 0;
    *out_took_us = way_us;
    if (!quota_take(run, now_us)) {
        return WIRE_CLOUD_QUOTA;
    }
    if (model == NULL) {
        return WIRE_CLOUD_NO_MODEL;
    }
    if (!instance_take(run, model, now_us + way_us / 2, most_us, &wait_us)) {
        return WIRE_CLOUD_BUSY;
    }
    *out_took_us = way_us + wait_us + service_us;
    return *out_took_us > most_us ? WIRE_CLOUD_LATE : WIRE_CLOUD_ANSWERED;
}

static void count(struct sim_cloud_side *side, enum wire_cloud_why why, uint64_t took_us)
{
    struct sim_cloud_sums *sums = side->sums;
    sums->sent++;
    sums->answered += why == WIRE_CLOUD_ANSWERED;
    sums->late += why == WIRE_CLOUD_LATE;
    sums->refused += why != WIRE_CLOUD_ANSWERED && why != WIRE_CLOUD_LATE;
    sums->over_quota += why == WIRE_CLOUD_QUOTA;
    sums->busy += why == WIRE_CLOUD_BUSY;
    if (why == WIRE_CLOUD_ANSWERED) {
        base_hist_add(side->took_us, took_us);
    }
}

static enum wire_cloud_why infer(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end)
{
    struct sim_cloud_run *run = ctx;
    struct wire_tensor_call parsed;
    const uint64_t most_us = call->deadline_ms * UINT64_C(1000);
    uint64_t took_us = 0;
    run->side->sums->asked++;
    enum wire_cloud_why why = may_leave(run, call, &parsed, out_end);
    if (why != WIRE_CLOUD_ANSWERED) {
        run->side->sums->kept++;
        return why;
    }
    const struct model *model = model_find(run->side->cloud, call->model);
    why = served(run, model, most_us, &took_us);
    if (why != WIRE_CLOUD_LATE && took_us > most_us) {
        why = WIRE_CLOUD_LATE; // a refusal, that comes too late as well
    }
    took_us = took_us < most_us ? took_us : most_us;
    run->waited_us += took_us;
    out_end->virtual_us = took_us > 0 ? took_us : 1;
    if (why == WIRE_CLOUD_ANSWERED) {
        why = computed(run, model, &parsed, out_end);
    }
    count(run->side, why, took_us);
    return why;
}

struct dev_vm_cloud_port sim_cloud_port(struct sim_cloud_run *run)
{
    return (struct dev_vm_cloud_port){.ctx = run, .infer = infer, .look = look};
}

void sim_cloud_run_done(struct sim_cloud_run *run)
{
    free(run->answer);
    run->answer = NULL;
}
