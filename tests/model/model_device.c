// A device of the model. One thread.
#include "model_device.h"

#include "model_seal.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "svc/content/blob.h"
#include "wire/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS_MAX    400
#define WAIT_MAX_US  (UINT64_C(900) * 1000000u) // a visit waits so long for what is due
#define RUN_US       1500u
#define CERTIFIED_OF 4u // all but one in so many show a certificate

// ---- Content

static void make_content(uint64_t seed, uint32_t devices, int task, int version,
                         struct model_content *out)
{
    char name[16];
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    base_check(manifest != NULL);
    (void)snprintf(name, sizeof(name), "%d.0.0", version + 1);
    out->script_size = (size_t)snprintf(out->script_text, sizeof(out->script_text),
                                        "script of %s %s", model_task_name(task), name);
    out->script = model_sha256(out->script_text, out->script_size);
    out->every_s = version % 3 == 2 ? 3600 : 0;
    manifest->task_name = base_str_of(model_task_name(task));
    manifest->version = base_str_of(name);
    manifest->runtime_abi = WIRE_RUNTIME_ABI;
    manifest->entry = BASE_STR("run");
    manifest->every_s = out->every_s;
    manifest->file_count = 1;
    manifest->files[0] = (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("run.mpy"),
                                                     out->script_size, out->script};
    manifest->exclusive = model_exclusive_of(version);
    if (manifest->exclusive != WIRE_EXCLUSIVE_NONE) {
        out->exclusive = model_exclusive_new(seed, devices, manifest);
    }
    base_check(wire_manifest_encode(manifest, out->manifest_bytes, sizeof(out->manifest_bytes),
                                    &out->manifest_size) == BASE_OK);
    out->manifest = model_sha256(out->manifest_bytes, out->manifest_size);
    free(manifest);
}

void model_ground_init(struct model_ground *ground, uint32_t devices)
{
    for (int task = 0; task < (int)MODEL_TASKS; task++) {
        for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
            make_content(ground->seed, devices, task, version, &ground->content[task][version]);
        }
    }
}

void model_ground_done(struct model_ground *ground)
{
    for (int task = 0; task < (int)MODEL_TASKS; task++) {
        for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
            model_exclusive_free(ground->content[task][version].exclusive);
        }
    }
}

bool model_content_find(const struct model_ground *ground, uint64_t version_id, int *out_task,
                        int *out_version)
{
    for (int task = 0; task < (int)MODEL_TASKS; task++) {
        for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
            if (wire_version_id(&ground->content[task][version].manifest) == version_id) {
                *out_task = task;
                *out_version = version;
                return true;
            }
        }
    }
    return false;
}

// ---- Ports that count

static bool alive(struct model_device *device)
{
    if (device->calls_left > 0 && --device->calls_left == 0) {
        device->killed = true;
    }
    return !device->killed;
}

static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct model_device *device = ctx;
    return alive(device) ? device->under.state_save(device->under.ctx, bytes, size) : BASE_ERR_IO;
}

static enum base_status blob_append(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size)
{
    struct model_device *device = ctx;
    return alive(device) ? device->under.blob_append(device->under.ctx, name, offset, bytes, size)
                         : BASE_ERR_IO;
}

static enum base_status blob_seal(void *ctx, const struct wire_sha256 *name)
{
    struct model_device *device = ctx;
    return alive(device) ? device->under.blob_seal(device->under.ctx, name) : BASE_ERR_IO;
}

static enum base_status blob_delete(void *ctx, const struct wire_sha256 *name)
{
    struct model_device *device = ctx;
    return alive(device) ? device->under.blob_delete(device->under.ctx, name) : BASE_ERR_IO;
}

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    const struct dev_storage_port *under = &((struct model_device *)ctx)->under;
    return under->state_load(under->ctx, out, capacity, out_size);
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    const struct dev_storage_port *under = &((struct model_device *)ctx)->under;
    return under->blob_stat(under->ctx, name, out_bytes, out_sealed);
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    const struct dev_storage_port *under = &((struct model_device *)ctx)->under;
    return under->blob_map(under->ctx, name, out_bytes, out_size);
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    const struct dev_storage_port *under = &((struct model_device *)ctx)->under;
    under->blob_unmap(under->ctx, name, bytes, size);
}

static enum base_status blob_each(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx)
{
    const struct dev_storage_port *under = &((struct model_device *)ctx)->under;
    return under->blob_each(under->ctx, visit, visit_ctx);
}

// ---- The line

static bool is_cut(struct model_device *device, enum model_cut where)
{
    return device->cut == where && device->cut_after == 1;
}

static void request_fill(struct model_device *device, const struct dev_request *request,
                         char *range, size_t range_size, struct gw_request *out)
{
    out->method = request->method == DEV_METHOD_POST ? GW_METHOD_POST : GW_METHOD_GET;
    out->path = request->path;
    out->device = request->device;
    out->profile = request->profile;
    out->nonce = request->nonce;
    out->body = request->body;
    out->body_bytes = request->body_bytes;
    out->has_certificate = device->certified;
    out->certificate_device = device->id;
    out->secure = true;
    out->peer = 0x7f000000u + (device->id & 0xff);
    if (request->range_from > 0) {
        int size =
            snprintf(range, range_size, "bytes=%llu-", (unsigned long long)request->range_from);
        out->range = (struct base_str){range, (size_t)size};
    }
}

static enum base_status http_start(void *ctx, uint32_t id, const struct dev_request *request)
{
    struct model_device *device = ctx;
    struct model_pending *slot = NULL;
    char range[40];
    if (!alive(device)) {
        return BASE_ERR_IO;
    }
    for (uint32_t i = 0; i < MODEL_EXCHANGES && slot == NULL; i++) {
        slot = device->pending[i].used ? NULL : &device->pending[i];
    }
    if (slot == NULL) {
        return BASE_ERR_LIMIT;
    }
    slot->used = true;
    slot->id = id;
    slot->lost = is_cut(device, MODEL_CUT_REQUEST) || is_cut(device, MODEL_CUT_ANSWER);
    bool sent = !is_cut(device, MODEL_CUT_REQUEST);
    device->cut_after -= device->cut_after > 0 ? 1 : 0;
    model_exchange_init(&slot->exchange);
    if (sent) { // what the request points to is not there any more when the answer comes
        request_fill(device, request, range, sizeof(range), &slot->exchange.exchange.request);
        model_gateway_send(device->ground->gateway, &slot->exchange);
        device->ground->heard(device->ground->heard_ctx, device, &slot->exchange.exchange);
    }
    return BASE_OK;
}

static void pending_free(struct model_pending *slot)
{
    model_exchange_done(&slot->exchange);
    slot->used = false;
}

static void http_cancel(void *ctx, uint32_t id)
{
    struct model_device *device = ctx;
    for (uint32_t i = 0; i < MODEL_EXCHANGES; i++) {
        if (device->pending[i].used && device->pending[i].id == id) {
            pending_free(&device->pending[i]);
        }
    }
}

static bool is_open(const struct model_pending *slot, uint32_t id)
{
    return slot->used && slot->id == id;
}

// The runtime may cancel from inside a callback; then nothing more follows.
static void deliver(struct model_device *device, struct model_pending *slot)
{
    const struct gw_reply *reply = &slot->exchange.exchange.reply;
    uint32_t id = slot->id;
    bool lost = slot->lost;
    struct dev_response_head head = {
        .status = reply->status,
        .content_bytes = reply->kind == GW_REPLY_BLOB ? reply->blob_bytes : reply->body_bytes,
        .range_from = reply->kind == GW_REPLY_BLOB && reply->status == 206 ? reply->blob_from : 0,
    };
    if (!lost) {
        dev_on_head(device->runtime, id, &head);
    }
    uint64_t at = 0;
    while (!lost && is_open(slot, id) && at < head.content_bytes) {
        size_t size = (size_t)(head.content_bytes - at);
        const uint8_t *bytes = reply->body;
        if (reply->kind == GW_REPLY_BLOB) {
            bytes = gw_blob_bytes(reply->blob, reply->blob_from + at, &size);
        }
        size = size < head.content_bytes - at ? size : (size_t)(head.content_bytes - at);
        dev_on_body(device->runtime, id, bytes, size);
        at += size;
    }
    if (is_open(slot, id)) {
        pending_free(slot);
        dev_on_end(device->runtime, id, lost ? BASE_ERR_CLOSED : BASE_OK);
    }
}

// ---- Runs

static bool has_bytes(const struct dev_task_job *job, uint32_t file, const char *text, size_t size)
{
    return file < job->file_count && job->files[file].size == size &&
           memcmp(job->files[file].bytes, text, size) == 0;
}

// The version's script, and what of it is this device's alone. What that is, a gateway does not
// tell those that do not show who they are, and a copy may not know.
static bool is_proven(const struct model_device *device, const struct model_content *content,
                      const struct dev_task_job *job)
{
    const struct model_exclusive_leaf *own =
        content->exclusive != NULL && device->certified
            ? model_exclusive_leaf(content->exclusive, device->id)
            : NULL;
    bool alone = job->file_count == 1 && (own == NULL || device->ground->restored);
    return has_bytes(job, 0, content->script_text, content->script_size) &&
           (alone ||
            (own != NULL && job->file_count == 2 && has_bytes(job, 1, own->text, own->text_size)));
}

static enum base_status task_start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    struct model_device *device = ctx;
    struct model_ground *ground = device->ground;
    if (!alive(device)) {
        return BASE_ERR_BUSY;
    }
    device->run = run;
    bool known = model_content_find(ground, wire_version_id(&job->version), &device->run_task,
                                    &device->run_version);
    const struct model_content *content =
        &ground->content[known ? device->run_task : 0][known ? device->run_version : 0];
    ground->unproven_runs += known && is_proven(device, content, job) ? 0 : 1;
    return BASE_OK;
}

static void task_cancel(void *ctx, uint32_t run)
{
    struct model_device *device = ctx;
    device->run = device->run == run ? 0 : device->run;
}

static void end_run(struct model_device *device)
{
    bool fails = device->fails[device->run_task][device->run_version];
    uint32_t run = device->run;
    struct dev_task_end end = {
        .outcome = fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN,
        .duration_us = RUN_US,
        .fingerprint = fails ? 4711 : 0,
        .detail = fails ? BASE_STR("ValueError: bad") : (struct base_str){NULL, 0},
    };
    device->run = 0;
    dev_on_task_end(device->runtime, run, &end);
}

// ---- Life

uint64_t model_device_id(uint64_t seed, uint32_t number)
{
    return base_mix64(seed ^ (number + 1)) | 1u;
}

void model_device_init(struct model_device *device, struct model_ground *ground, uint32_t number,
                       bool rooted)
{
    memset(device, 0, sizeof(*device));
    device->ground = ground;
    device->id = model_device_id(ground->seed, number);
    wire_device_hex(device->id, device->hex);
    device->attrs = (struct model_attrs){(int)(number % 3), (int)(number / 3 % 4), number % 5 == 0};
    device->certified = number % CERTIFIED_OF != CERTIFIED_OF - 1;
    device->rooted = rooted;
    for (int task = 0; task < (int)MODEL_TASKS; task++) { // it refuses what is not for it
        for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
            bool needs = model_exclusive_of(version) == WIRE_EXCLUSIVE_REQUIRED;
            device->failed[task] |=
                needs && !model_exclusive_has(number) ? UINT32_C(1) << version : 0;
        }
    }
    device->storage = (struct sim_storage){
        .store = ground->store, .disk = &device->disk, .alloc = base_alloc_heap()};
    device->under = sim_storage_port(&device->storage);
    model_device_boot(device);
}

static uint64_t own_mono_us(void *ctx)
{
    const struct base_clock_port *clock = &((const struct model_device *)ctx)->ground->clock;
    return clock->mono_us(clock->ctx);
}

static uint64_t own_wall_us(void *ctx)
{
    const struct model_device *device = ctx;
    const struct base_clock_port *clock = &device->ground->clock;
    return clock->wall_us(clock->ctx) + (uint64_t)(device->skew_s * 1000000);
}

static void make_ports(struct model_device *device)
{
    device->clock = (struct base_clock_port){device, own_mono_us, own_wall_us};
    base_prng_seed(&device->prng, base_mix64(device->id + device->boots));
    device->ports = (struct dev_ports){
        .clock = device->clock,
        .random = base_prng_port(&device->prng),
        .http = {device, http_start, http_cancel},
        .storage = {.ctx = device,
                    .steady = true,
                    .state_load = state_load,
                    .state_save = state_save,
                    .blob_stat = blob_stat,
                    .blob_append = blob_append,
                    .blob_seal = blob_seal,
                    .blob_map = blob_map,
                    .blob_unmap = blob_unmap,
                    .blob_delete = blob_delete,
                    .blob_each = blob_each},
        .crypto = model_seal_crypto(),
        .task = {.ctx = device, .start = task_start, .cancel = task_cancel},
    };
}

static void make_config(const struct model_device *device, struct dev_config *out)
{
    static const char *const systems[] = {"a", "b", "c"};
    *out = (struct dev_config){
        .device_id = device->id, .trusted_key_count = 1, .tasks_max = 8, .outcomes_max = 64};
    model_key_public(MODEL_KEY_RELEASE, out->trusted_keys[0]);
    if (device->rooted) {
        out->root = device->ground->root;
        out->root_bytes = device->ground->root_bytes;
    }
    out->attrs.count = device->attrs.beta ? 3 : 2;
    out->attrs.items[0] = (struct wire_attr){.name = BASE_STR("os"),
                                             .type = WIRE_ATTR_STRING,
                                             .text = base_str_of(systems[device->attrs.os])};
    out->attrs.items[1] = (struct wire_attr){
        .name = BASE_STR("ring"), .type = WIRE_ATTR_INTEGER, .integer = device->attrs.ring};
    out->attrs.items[2] = (struct wire_attr){
        .name = BASE_STR("channel"), .type = WIRE_ATTR_STRING, .text = BASE_STR("beta")};
}

static void forget_process(struct model_device *device)
{
    for (uint32_t i = 0; i < MODEL_EXCHANGES; i++) {
        if (device->pending[i].used) {
            pending_free(&device->pending[i]);
        }
    }
    device->run = 0;
    device->runtime = NULL;
    device->killed = false;
    device->calls_left = 0;
}

void model_device_boot(struct model_device *device)
{
    struct dev_config config;
    forget_process(device);
    device->boots++;
    make_ports(device);
    make_config(device, &config);
    size_t size = dev_runtime_bytes(&config);
    size = (size + 15) / 16 * 16;
    if (size > device->memory_bytes) {
        free(device->memory);
        device->memory = aligned_alloc(16, size);
        device->memory_bytes = size;
        base_check(device->memory != NULL);
    }
    base_check(dev_init(device->memory, device->memory_bytes, &config, &device->ports,
                        &device->runtime) == BASE_OK);
    base_check(dev_boot(device->runtime) == BASE_OK);
}

void model_device_done(struct model_device *device)
{
    forget_process(device);
    free(device->memory);
    free(device->saved.state);
    sim_disk_done(&device->disk, device->storage.store, base_alloc_heap());
}

void model_device_kill(struct model_device *device)
{
    sim_storage_kill(&device->storage, base_mix64(device->id ^ device->boots));
    model_device_boot(device);
}

void model_device_save(struct model_device *device)
{
    struct model_saved *saved = &device->saved;
    free(saved->state);
    saved->state_bytes = 0;
    saved->image = sim_disk_image(&device->disk, device->storage.store);
    saved->state = malloc(SIM_STATE_BYTES_MAX);
    base_check(saved->state != NULL);
    size_t size = 0;
    if (device->under.state_load(device->under.ctx, saved->state, SIM_STATE_BYTES_MAX, &size) ==
        BASE_OK) {
        saved->state_bytes = (uint16_t)size;
    }
}

void model_device_return(struct model_device *device)
{
    const struct model_saved *saved = &device->saved;
    if (saved->state != NULL && saved->state_bytes > 0) {
        device->returned = true;
        base_check(device->under.state_save(device->under.ctx, saved->state, saved->state_bytes) ==
                   BASE_OK);
        sim_disk_set_image(&device->disk, device->storage.store, saved->image);
        model_device_boot(device);
    }
}

// ---- A visit

// Answers and ends of runs that wait. False: there were none.
static bool turn(struct model_device *device)
{
    bool any = false;
    for (uint32_t i = 0; i < MODEL_EXCHANGES && !device->killed; i++) {
        if (device->pending[i].used) {
            deliver(device, &device->pending[i]);
            any = true;
        }
    }
    if (device->run != 0 && !device->killed) {
        end_run(device);
        any = true;
    }
    return any;
}

void model_device_visit(struct model_device *device, void (*advance)(void *ctx, uint64_t us),
                        void *ctx)
{
    const struct base_clock_port *clock = &device->ground->clock;
    uint64_t begun_us = clock->mono_us(clock->ctx);
    dev_checkin_now(device->runtime);
    for (uint32_t i = 0; i < TURNS_MAX; i++) {
        uint64_t now_us = clock->mono_us(clock->ctx);
        uint64_t next_us = dev_tick(device->runtime, now_us);
        bool any = !device->killed && turn(device);
        if (device->killed) {
            model_device_kill(device);
            return;
        }
        if (any || next_us <= now_us) {
            continue;
        }
        if (dev_is_idle(device->runtime) || next_us - begun_us > WAIT_MAX_US) {
            return;
        }
        advance(ctx, next_us - now_us);
    }
}

// ---- Views

// What a device tells of itself, and of one task: the version that failed last, and before.
struct said {
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    struct wire_profile profile;
};

static bool pair_of(const struct model_device *device, uint64_t task_id, struct said *said,
                    struct wire_profile_pair *out)
{
    char text[WIRE_PROFILE_TEXT_MAX];
    uint8_t *bytes = said->bytes;
    size_t size = 0;
    struct wire_profile profile;
    struct base_reader reader;
    *out = (struct wire_profile_pair){.task_id = task_id};
    if (dev_profile_header(device->runtime, text, sizeof(text), &size) != BASE_OK ||
        base_b64_decode((struct base_str){text, size}, bytes, sizeof(said->bytes), &size) !=
            BASE_OK ||
        wire_profile_parse(bytes, size, &profile) != BASE_OK) {
        return false;
    }
    said->profile = profile;
    base_reader_init(&reader, profile.pairs, profile.pairs_bytes);
    for (uint32_t i = 0; i < profile.task_count && profile.pairs != NULL; i++) {
        struct wire_profile_pair pair;
        if (wire_profile_pair_next(&profile, &reader, &pair) != BASE_OK) {
            return false;
        }
        if (pair.task_id == task_id) {
            *out = pair;
        }
    }
    return profile.task_count == 0 || profile.pairs != NULL;
}

bool model_device_facts(const struct model_device *device, int task, struct model_facts *out)
{
    struct wire_profile_pair pair;
    struct said said = {.profile = {0}};
    struct dev_task_view view;
    uint64_t task_id = wire_task_id(base_str_of(model_task_name(task)));
    uint64_t runs = 0;
    int of_task = task;
    *out = (struct model_facts){
        .device_id = device->id, .attrs = device->attrs, .have = -1, .refused = -1};
    for (uint32_t i = 0; dev_task_view(device->runtime, i, &view) == BASE_OK; i++) {
        if (!view.shadow && wire_task_id(view.name) == task_id &&
            !wire_sha256_is_zero(&view.active)) {
            runs = wire_version_id(&view.active);
        }
    }
    bool told = pair_of(device, task_id, &said, &pair) && pair.version_id == runs;
    told = told && (runs == 0 || model_content_find(device->ground, runs, &of_task, &out->have)) &&
           of_task == task;
    told = told &&
           (pair.blocked_version_id == 0 ||
            model_content_find(device->ground, pair.blocked_version_id, &of_task, &out->refused)) &&
           of_task == task;
    for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
        uint64_t id = wire_version_id(&device->ground->content[task][version].manifest);
        uint64_t mark = wire_profile_version_mark(task_id, id);
        out->before[version] = wire_profile_refuses(&said.profile, mark);
    }
    out->approved = pair.approved;
    out->floor = dev_floor(device->runtime, base_str_of(model_task_name(task)));
    return told && (pair.version_id == 0 || pair.floor == out->floor);
}

static uint32_t bit_of(const struct model_ground *ground, const struct wire_sha256 *manifest)
{
    int task = 0;
    int version = -1;
    if (!wire_sha256_is_zero(manifest)) {
        (void)model_content_find(ground, wire_version_id(manifest), &task, &version);
    }
    return UINT32_C(1) << (version + 1);
}

void model_device_note(struct model_device *device)
{
    struct dev_task_view view;
    bool met[MODEL_TASKS] = {false};
    for (uint32_t i = 0; dev_task_view(device->runtime, i, &view) == BASE_OK; i++) {
        for (int task = 0; task < (int)MODEL_TASKS && !view.shadow; task++) {
            if (base_str_equal(view.name, base_str_of(model_task_name(task)))) {
                met[task] = true;
                device->lawful[task] |= bit_of(device->ground, &view.active);
                device->lawful[task] |= bit_of(device->ground, &view.previous);
            }
        }
    }
    for (int task = 0; task < (int)MODEL_TASKS; task++) {
        device->lawful[task] |= met[task] ? 0 : 1;
    }
}

uint64_t model_device_mark(const struct model_device *device)
{
    uint64_t mark = device->boots;
    struct dev_task_view view;
    for (uint32_t i = 0; dev_task_view(device->runtime, i, &view) == BASE_OK; i++) {
        uint64_t words[4] = {wire_version_id(&view.active), wire_version_id(&view.previous),
                             view.blocked_version_id, view.release_counter};
        mark = base_hash64_seed(words, sizeof(words), mark + i);
    }
    return mark;
}
