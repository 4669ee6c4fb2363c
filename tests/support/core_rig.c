// The rig of core_rig.h. Test code, one thread unless the test starts more.
#include "core_rig.h"

#include "base/alloc.h"
#include "base/prng.h"
#include "policy/bucket.h"
#include "policy/expr.h"
#include "svc/device/device_record.h"
#include "svc/device/past_outcomes.h"
#include "svc/rollout/catalog_private.h"
#include "svc/tally/tally.h"
#include "svc/core_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SALT_OF(id) base_mix64(id)

static uint64_t rig_mono(void *ctx)
{
    return ((struct rig *)ctx)->mono_us;
}

static uint64_t rig_wall(void *ctx)
{
    return ((struct rig *)ctx)->wall_us;
}

void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    snprintf(rig->dir, sizeof(rig->dir), "/tmp/walle-core-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    rig->mono_us = 5000000;
    rig->wall_us = UINT64_C(1700000000000000);
    rig->commit_delay_us = 1;
    base_prng_seed(&rig->prng, 0xc0de);
}

void rig_start(struct rig *rig)
{
    struct gw_core_options options = {
        .dir = rig->dir,
        .map_bytes_max = rig->map_bytes_max,
        .commit_delay_us = rig->commit_delay_us,
        .hint_spread_ms = rig->hint_spread_ms,
        .hint_rate_per_s = rig->hint_rate_per_s,
        .control_thread = rig->control_thread,
        .signer = rig->signer,
        .clock = {rig, rig_mono, rig_wall},
        .device_auth_required = rig->device_auth_required,
        .enroll_rate_per_s = rig->enroll_rate_per_s,
        .unproven_records = rig->unproven_records,
        .unproven_per_address = rig->unproven_per_address,
        .random = base_prng_port(&rig->prng),
    };
    struct base_error error = {0};
    enum base_status status = gw_core_new(&options, &rig->core, &error);
    if (status != BASE_OK) {
        print_error("gw_core_new: %s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    rig_worker_start(&rig->worker, rig->core);
}

void rig_stop(struct rig *rig)
{
    if (rig->core != NULL) {
        rig_worker_stop(&rig->worker);
        gw_core_free(rig->core);
        rig->core = NULL;
    }
}

void rig_done(struct rig *rig)
{
    rig_stop(rig);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", rig->dir);
    if (!rig->keep_dir) {
        assert_int_equal(system(command), 0);
    }
}

void rig_advance_s(struct rig *rig, uint64_t seconds)
{
    rig->mono_us += seconds * 1000000u;
    rig->wall_us += seconds * 1000000u;
}

// ---- The worker

static void rig_post(void *ctx, struct gw_message *message)
{
    struct rig_worker *worker = ctx;
    message->next = NULL;
    pthread_mutex_lock(&worker->lock);
    if (worker->last != NULL) {
        worker->last->next = message;
    } else {
        worker->first = message;
    }
    worker->last = message;
    pthread_mutex_unlock(&worker->lock);
}

void rig_worker_start(struct rig_worker *worker, struct gw_core *core)
{
    memset(worker, 0, sizeof(*worker));
    pthread_mutex_init(&worker->lock, NULL);
    assert_int_equal(gw_worker_new(core, worker, rig_post, &worker->worker), BASE_OK);
}

void rig_worker_stop(struct rig_worker *worker)
{
    while (rig_worker_pump(worker)) {
    }
    gw_worker_free(worker->worker);
    while (rig_worker_pump(worker)) {
    }
    pthread_mutex_destroy(&worker->lock);
}

bool rig_worker_pump(struct rig_worker *worker)
{
    bool ran = false;
    for (;;) {
        pthread_mutex_lock(&worker->lock);
        struct gw_message *message = worker->first;
        if (message != NULL) {
            worker->first = message->next;
            worker->last = worker->first == NULL ? NULL : worker->last;
        }
        pthread_mutex_unlock(&worker->lock);
        if (message == NULL) {
            return ran;
        }
        ran = true;
        message->run(message);
    }
}

bool rig_pump(struct rig *rig)
{
    return rig_worker_pump(&rig->worker);
}

void rig_settle(struct rig *rig)
{
    for (int i = 0; i < 100; i++) {
        (void)rig_pump(rig);
        bool changed = gw_core_tick(rig->core);
        bool ran = rig_pump(rig);
        if (!changed && !ran) {
            return;
        }
    }
}

// ---- Exchanges

static void rig_finish(struct gw_exchange *exchange)
{
    struct rig_exchange *self = (struct rig_exchange *)exchange;
    assert_false(self->finished);
    self->finished = true;
}

void rig_exchange_init(struct rig_exchange *exchange, enum gw_method method, const char *path)
{
    memset(exchange, 0, sizeof(*exchange));
    base_arena_init(&exchange->arena, base_alloc_heap(), 0, 0);
    exchange->exchange.arena = &exchange->arena;
    exchange->exchange.finish = rig_finish;
    exchange->exchange.request.method = method;
    exchange->exchange.request.path = base_str_of(path);
    exchange->exchange.request.loopback = true;
}

void rig_exchange_done(struct rig_exchange *exchange)
{
    gw_blob_release(exchange->exchange.reply.blob);
    base_arena_done(&exchange->arena);
}

void rig_run(struct rig *rig, struct rig_exchange *exchange)
{
    gw_core_handle(rig->worker.worker, &exchange->exchange);
    while (!exchange->finished) {
        if (!rig_pump(rig)) {
            if (!rig->control_thread) {
                (void)gw_core_tick(rig->core);
            }
            usleep(20); // the writer or control thread is at work
        }
    }
}

struct base_str rig_header(const struct rig_exchange *exchange, const char *name)
{
    const struct gw_reply *reply = &exchange->exchange.reply;
    for (uint32_t i = 0; i < reply->header_count; i++) {
        if (base_str_equal(reply->headers[i].name, base_str_of(name))) {
            return reply->headers[i].value;
        }
    }
    return (struct base_str){NULL, 0};
}

// ---- Devices

void rig_device_init(struct rig_device *device, uint64_t id)
{
    memset(device, 0, sizeof(*device));
    device->id = id;
    device->epoch = 77;
    device->seq = 1;
}

void rig_device_attr(struct rig_device *device, const char *name, const char *text)
{
    device->attrs.items[device->attrs.count++] = (struct wire_attr){
        .name = base_str_of(name), .type = WIRE_ATTR_STRING, .text = base_str_of(text)};
}

struct wire_profile_pair *rig_device_task(struct rig_device *device, const char *task)
{
    uint64_t task_id = wire_task_id(base_str_of(task));
    for (uint32_t i = 0; i < device->pair_count; i++) {
        if (device->pairs[i].task_id == task_id) {
            return &device->pairs[i];
        }
    }
    assert_true(device->pair_count < 40);
    device->pairs[device->pair_count] = (struct wire_profile_pair){.task_id = task_id};
    return &device->pairs[device->pair_count++];
}

uint64_t rig_device_digest(const struct rig_device *device)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < device->pair_count; i++) {
        const struct wire_profile_pair *pair = &device->pairs[i];
        if (pair->version_id != 0 || pair->blocked_version_id != 0) {
            digest += wire_profile_term(pair->task_id, pair->version_id, pair->blocked_version_id);
        }
    }
    for (uint32_t i = 0; i < device->refused_count; i++) {
        digest += wire_profile_refused_term(device->refused[i]);
    }
    return digest;
}

struct base_str rig_device_profile(const struct rig_device *device, bool pairs, char *text)
{
    uint8_t attrs[WIRE_ATTRS_BYTES_MAX];
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    struct wire_attrs copy = device->attrs;
    struct base_writer writer;
    base_writer_init(&writer, attrs, sizeof(attrs));
    wire_attrs_write(&writer, &copy);
    assert_int_equal(writer.status, BASE_OK);
    size_t attrs_bytes = base_writer_size(&writer);
    bool with = pairs && (device->pair_count > 0 || device->refused_count > 0);
    uint8_t refused[sizeof(device->refused)];
    base_writer_init(&writer, refused, sizeof(refused));
    for (uint32_t i = 0; i < device->refused_count; i++) {
        base_writer_u64(&writer, device->refused[i]);
    }
    struct wire_profile profile = {
        .flags = (uint8_t)((with ? WIRE_PROFILE_FLAG_PAIRS : 0) |
                           (device->own_pace ? WIRE_PROFILE_FLAG_OWN_PACE : 0) |
                           (device->marks ? WIRE_PROFILE_FLAG_AGAIN : 0)),
        .tasks_max = device->tasks_max,
        .interval_s = device->interval_s,
        .refused = refused,
        .refused_count = device->refused_count,
        .task_count = device->pair_count,
        .digest = rig_device_digest(device),
        .attrs = attrs,
        .attrs_bytes = attrs_bytes,
    };
    size_t size = 0;
    assert_int_equal(
        wire_profile_encode(&profile, with ? device->pairs : NULL, bytes, sizeof(bytes), &size),
        BASE_OK);
    return (struct base_str){text, base_b64_encode(bytes, size, text)};
}

int rig_checkin(struct rig *rig, const struct rig_device *device, bool pairs,
                struct rig_exchange *exchange, struct wire_offers *out)
{
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    wire_device_hex(device->id, hex);
    rig_exchange_init(exchange, GW_METHOD_POST, "/v1/checkin");
    exchange->exchange.request.device = base_str_of(hex);
    exchange->exchange.request.credential = base_str_of(rig->credential);
    exchange->exchange.request.has_certificate = rig->certified;
    exchange->exchange.request.certificate_device = device->id;
    exchange->exchange.request.profile = rig_device_profile(device, pairs, text);
    exchange->exchange.request.nonce = base_str_of(rig->nonce);
    rig_run(rig, exchange);
    const struct gw_reply *reply = &exchange->exchange.reply;
    memset(out, 0, sizeof(*out));
    if (reply->status == 200) {
        assert_int_equal(wire_offers_parse(reply->body, reply->body_bytes, out), BASE_OK);
    }
    return reply->status;
}

void rig_offer_release(const struct wire_offers *offers, uint32_t i, struct wire_release *out)
{
    struct wire_envelope envelope;
    assert_true(i < offers->count);
    assert_int_equal(
        wire_envelope_parse(offers->items[i].envelope, offers->items[i].envelope_bytes, &envelope),
        BASE_OK);
    assert_int_equal(wire_release_parse(envelope.payload, envelope.payload_bytes, out), BASE_OK);
}

bool rig_offer_stops(const struct wire_offers *offers, uint32_t i, uint64_t *out_task_id)
{
    struct wire_envelope envelope;
    assert_true(i < offers->count);
    assert_int_equal(
        wire_envelope_parse(offers->items[i].envelope, offers->items[i].envelope_bytes, &envelope),
        BASE_OK);
    return envelope.type == WIRE_ENVELOPE_TYPE_STOP &&
           wire_stop_parse(envelope.payload, envelope.payload_bytes, out_task_id) == BASE_OK;
}

static void take_stop(struct rig_device *device, uint64_t task_id)
{
    for (uint32_t i = 0; i < device->pair_count; i++) {
        if (device->pairs[i].task_id == task_id) {
            device->pairs[i].version_id = 0;
            device->pairs[i].approved = 0;
        }
    }
}

uint32_t rig_device_take(struct rig_device *device, const struct wire_offers *offers)
{
    for (uint32_t i = 0; i < offers->count; i++) {
        struct wire_release release;
        uint64_t task_id = 0;
        if (rig_offer_stops(offers, i, &task_id)) {
            take_stop(device, task_id);
            continue;
        }
        char name[WIRE_TASK_NAME_MAX + 1] = {0};
        rig_offer_release(offers, i, &release);
        memcpy(name, release.task_name.data, release.task_name.size);
        struct wire_profile_pair *pair = rig_device_task(device, name);
        assert_true(pol_bucket(device->id, release.salt) < release.max_bucket);
        const struct pol_arm arm = {release.arm_salt, release.arm_from, release.arm_to};
        assert_true(pol_arm_has(&arm, device->id));
        assert_true(release.release_counter >= pair->floor);
        pair->floor = release.floor > pair->floor ? release.floor : pair->floor;
        pair->version_id = wire_version_id(&release.manifest);
        pair->approved = release.release_counter;
    }
    return offers->count;
}

int rig_send_report(struct rig *rig, const struct wire_report *report)
{
    uint8_t body[WIRE_REPORT_BYTES_MAX];
    size_t size = 0;
    assert_int_equal(wire_report_encode(report, body, sizeof(body), &size), BASE_OK);
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/report");
    exchange.exchange.request.body = body;
    exchange.exchange.request.body_bytes = size;
    exchange.exchange.request.credential = base_str_of(rig->credential);
    exchange.exchange.request.peer = rig->peer;
    exchange.exchange.request.has_certificate = rig->certified;
    exchange.exchange.request.certificate_device = report->device_id;
    rig_run(rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

int rig_report(struct rig *rig, struct rig_device *device, const struct gw_rollout_view *rollout,
               const enum wire_outcome_kind *kinds, uint32_t count)
{
    struct wire_report report = {
        .device_id = device->id, .epoch = device->epoch, .first_seq = device->seq, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        report.outcomes[i] = (struct wire_outcome){
            .kind = kinds[i],
            .task_id = wire_task_id(base_str_of(rollout->task)),
            .version_id = rollout->version_id,
            .rollout_id = rollout->id,
            .duration_us = 1000,
            .fingerprint = wire_outcome_is_failure(kinds[i]) ? 4711 : 0,
            .figures = {.heap_peak_bytes = kinds[i] == WIRE_OUTCOME_RAN ? 8192 : 0},
        };
        if (wire_outcome_is_failure(kinds[i])) {
            report.outcomes[i].detail = BASE_STR("ValueError: bad");
        }
    }
    int status = rig_send_report(rig, &report);
    if (status == 204) {
        device->seq += count;
    }
    return status;
}

// ---- Operators

void rig_version(struct rig *rig, const char *task, const char *version, struct wire_sha256 *out)
{
    bool created;
    struct base_error error = {0};
    assert_int_equal(
        gw_catalog_task_create(rig->core, rig->tenant, base_str_of(task), &created, &error),
        BASE_OK);
    char script[128];
    int script_size = snprintf(script, sizeof(script), "script of %s %s", task, version);
    struct wire_sha256 digest;
    gw_sha256(script, (size_t)script_size, &digest);
    assert_int_equal(
        gw_blob_put(rig->core,
                    &(struct gw_store_item){digest, (const uint8_t *)script, (size_t)script_size},
                    &created, &error),
        BASE_OK);
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    assert_non_null(manifest);
    manifest->task_name = base_str_of(task);
    manifest->version = base_str_of(version);
    manifest->runtime_abi = WIRE_RUNTIME_ABI;
    manifest->entry = BASE_STR("run");
    manifest->file_count = 1;
    manifest->files[0] = (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("run.mpy"),
                                                     (uint64_t)script_size, digest};
    manifest->declaration = rig->declaration;
    static uint8_t bytes[16 * 1024];
    size_t size = 0;
    assert_int_equal(wire_manifest_encode(manifest, bytes, sizeof(bytes), &size), BASE_OK);
    free(manifest);
    gw_sha256(bytes, size, out);
    assert_int_equal(
        gw_blob_put(rig->core, &(struct gw_store_item){*out, bytes, size}, &created, &error),
        BASE_OK);
    struct gw_version_view version_view;
    struct gw_version_new wish = {.task = base_str_of(task), .manifest = *out};
    assert_int_equal(gw_catalog_version_add(rig->core, &wish, &version_view, &created, &error),
                     BASE_OK);
}

static size_t make_statement(uint8_t *out, size_t capacity, const struct wire_release *release)
{
    uint8_t payload[512];
    size_t size = 0;
    assert_int_equal(wire_release_encode(release, payload, sizeof(payload), &size), BASE_OK);
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE,
                                     .payload = payload,
                                     .payload_bytes = size,
                                     .signature_count = 1};
    memset(envelope.signatures[0].key_id, 7, WIRE_SHA256_BYTES);
    size_t written = 0;
    assert_int_equal(wire_envelope_encode(&envelope, out, capacity, &written), BASE_OK);
    return written;
}

// attr == value; without a value `attr` is a text of the targeting language, compiled into memory
// that the next target of the same `slot` takes over.
struct rig_target {
    struct pol_value value;
    struct pol_cond cond;
    _Alignas(8) uint8_t program[4096];
};

static struct pol_target make_target(uint32_t slot, const char *attr, const char *value)
{
    static struct rig_target targets[POL_STAGES_MAX + 1];
    struct rig_target *target = &targets[slot];
    uint32_t size = (uint32_t)strlen(attr);
    if (value == NULL) {
        struct pol_target out = {0};
        struct pol_expr_error error = {0};
        size_t bytes;
        if (!pol_expr_compile((struct pol_text){attr, size},
                              (struct pol_expr_space){target->program, sizeof(target->program)},
                              &out.expr, &bytes, &error)) {
            fail_msg("%s: %s", attr, error.message);
        }
        return out;
    }
    target->value = (struct pol_value){.type = POL_TYPE_STRING};
    target->value.text = (struct pol_text){value, (uint32_t)strlen(value)};
    target->cond = (struct pol_cond){{attr, size}, POL_OP_EQ, &target->value, 1};
    return (struct pol_target){.conds = &target->cond, .cond_count = 1};
}

static void fill_stage(const struct rig *rig, const struct rig_stage *from, uint32_t index,
                       struct gw_stage_spec *out)
{
    out->name = base_str_of(from->name);
    out->stage.kind = from->kind;
    out->stage.max_bucket = from->max_bucket;
    out->stage.gate = (struct pol_gate){.min_sample = from->min_sample,
                                        .max_failure_ppm = from->max_failure_ppm,
                                        .min_dwell_us = from->min_dwell_us};
    if (rig->conduct != NULL) {
        rig->conduct(&out->stage, index);
    }
    if (from->attr != NULL) {
        out->stage.audience = make_target(index, from->attr, from->value);
    }
}

enum base_status rig_rollout(struct rig *rig, uint64_t id, const char *task,
                             const struct wire_sha256 *manifest, const char *target_attr,
                             const char *target_value, const struct rig_stage *stages,
                             uint32_t stage_count, struct gw_rollout_view *out,
                             struct base_error *error)
{
    static uint8_t statements[POL_STAGES_MAX][WIRE_STATEMENT_BYTES_MAX];
    struct gw_stage_spec specs[POL_STAGES_MAX];
    struct gw_task_view view;
    struct gw_version_view version; // 100 bytes when it is not registered
    assert_int_equal(gw_catalog_task_get(rig->core, base_str_of(task), &view), BASE_OK);
    if (gw_catalog_version_get(rig->core, base_str_of(task), manifest, &version) != BASE_OK) {
        version.manifest_bytes = 100;
    }
    struct wire_release release = {
        .task_name = base_str_of(task),
        .release_counter = rig->counter != 0 ? rig->counter : view.release_counter + 1,
        .manifest = *manifest,
        .manifest_bytes = version.manifest_bytes + rig->more_bytes,
        .rollout_id = id,
        .salt = SALT_OF(id),
        .issued_s = rig->issued_s > 0 ? rig->issued_s : 1,
        .expires_s = rig->expires_s > 0 ? rig->expires_s : UINT64_C(9999999999),
        .arm_salt = rig->arm.salt,
        .arm_from = rig->arm.from,
        .arm_to = rig->arm.to,
    };
    memset(specs, 0, sizeof(specs));
    for (uint32_t i = 0; i < stage_count; i++) {
        fill_stage(rig, &stages[i], i, &specs[i]);
        if (stages[i].kind != POL_STAGE_SIMULATE) {
            release.max_bucket = stages[i].max_bucket;
            release.stage_kind = (uint8_t)stages[i].kind;
            release.floor = rig->floors != NULL ? rig->floors[i] : 0;
            specs[i].statement = statements[i];
            specs[i].statement_bytes =
                make_statement(statements[i], sizeof(statements[i]), &release);
        }
    }
    struct gw_rollout_spec spec = {
        .id = id,
        .task = base_str_of(task),
        .manifest = *manifest,
        .salt = SALT_OF(id),
        .release_counter = release.release_counter,
        .stages = specs,
        .stage_count = stage_count,
        .priority = rig->priority,
        .arm = rig->arm,
        .accept_empty = !rig->only_reaching,
        .accept_cost = rig->accept_cost,
        .trust_unproven = !rig->only_proven,
    };
    if (target_attr != NULL) {
        spec.target = make_target(POL_STAGES_MAX, target_attr, target_value);
    }
    struct gw_rollout_who who = {.by = BASE_STR("rig"), .comment = BASE_STR("test")};
    return gw_rollout_create(rig->core, &spec, &who, out, error);
}

void rig_command(struct rig *rig, uint64_t id, enum pol_command command,
                 struct gw_rollout_view *out)
{
    struct base_error error = {0};
    enum base_status status = gw_rollout_command(rig->core, id, command, NULL, &error);
    if (status != BASE_OK) {
        print_error("%s: %s\n", pol_command_name(command), error.text);
    }
    assert_int_equal(status, BASE_OK);
    if (out != NULL) {
        rig_view(rig, id, out);
    }
    (void)rig_pump(rig);
}

void rig_override(struct rig *rig, uint64_t id, uint64_t completed, uint64_t failed)
{
    struct base_error error = {0};
    const struct gw_rollout_who typist = {.by = BASE_STR("ana"), .comment = BASE_STR("a test")};
    const struct gw_rollout_who second = {.by = BASE_STR("bo")};
    assert_int_equal(
        gw_rollout_override(rig->core, id, (struct pol_sample){completed, failed}, &typist, &error),
        BASE_OK);
    assert_int_equal(gw_rollout_command(rig->core, id, POL_COMMAND_APPROVE, &second, &error),
                     BASE_OK);
    (void)rig_pump(rig);
}

void rig_view(struct rig *rig, uint64_t id, struct gw_rollout_view *out)
{
    assert_int_equal(gw_rollout_get(rig->core, id, out), BASE_OK);
}

void rig_baseline(struct rig *rig, const char *task, uint64_t id, const char *target_attr,
                  const char *target_value, struct wire_sha256 *out_manifest)
{
    static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0};
    struct gw_rollout_view view;
    struct base_error error = {0};
    char version[16];
    snprintf(version, sizeof(version), "1.0.%u", (unsigned)(id % 100000));
    rig_version(rig, task, version, out_manifest);
    enum base_status status = rig_rollout(rig, id, task, out_manifest, target_attr, target_value,
                                          &full, 1, &view, &error);
    if (status != BASE_OK) {
        print_error("rollout: %s\n", error.text);
    }
    assert_int_equal(status, BASE_OK);
    rig_command(rig, id, POL_COMMAND_START, NULL);
    rig_command(rig, id, POL_COMMAND_PROMOTE, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
}

// ---- The truth on disk

struct recount {
    struct rig *rig;
    uint64_t rollout_id;
    const struct gw_release *release;
    uint64_t unproven;
    struct gw_rollout_counts counts;
};

static void recount_outcome(struct recount *recount, const struct gw_record_outcome *outcome)
{
    struct gw_rollout_counts one;
    if (gw_release_standing(recount->release, outcome->bits) != GW_STANDING_COUNTED) {
        recount->unproven += (outcome->bits & GW_OUTCOME_CONTROL) == 0;
        return;
    }
    gw_tally_contribution(outcome->bits, &one);
    recount->counts.offered += one.offered;
    recount->counts.activated += one.activated;
    recount->counts.succeeded += one.succeeded;
    recount->counts.failed += one.failed;
    recount->counts.rolled_back += one.rolled_back;
}

static bool recount_device(void *ctx, struct base_span key, struct base_span value)
{
    struct recount *recount = ctx;
    struct gw_device_record record;
    (void)key;
    assert_int_equal(gw_device_record_decode(value.data, value.size, &record), BASE_OK);
    const uint64_t keys[2] = {recount->rollout_id, gw_shadow_key(recount->rollout_id)};
    for (int i = 0; i < 2; i++) {
        const struct gw_record_outcome *outcome = gw_device_record_find(&record, keys[i]);
        if (outcome != NULL) {
            recount_outcome(recount, outcome);
        }
    }
    return true;
}

static bool recount_past(void *ctx, struct base_span key, struct base_span value)
{
    struct recount *recount = ctx;
    struct gw_record_outcome outcome;
    uint64_t device_id;
    assert_int_equal(gw_past_decode(key, value, &device_id, &outcome), BASE_OK);
    if (outcome.rollout_id == recount->rollout_id ||
        outcome.rollout_id == gw_shadow_key(recount->rollout_id)) {
        recount_outcome(recount, &outcome);
    }
    return true;
}

uint64_t rig_past_rows(struct rig *rig)
{
    struct gw_store_read *read;
    assert_int_equal(gw_store_read_begin(rig->core->store, &read), BASE_OK);
    uint64_t count = gw_store_read_count(read, GW_TABLE_PAST);
    gw_store_read_end(read);
    return count;
}

void rig_expect_counts_from_disk(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->core->catalog->rollout_count; i++) {
        struct recount recount = {.rig = rig,
                                  .release = rig->core->catalog->rollouts[i]->release,
                                  .rollout_id = rig->core->catalog->rollouts[i]->release->id};
        struct gw_store_read *read;
        struct gw_key from = gw_key_u64(0);
        assert_int_equal(gw_store_read_begin(rig->core->store, &read), BASE_OK);
        assert_int_equal(
            gw_store_read_scan(read, GW_TABLE_DEVICES, &from, recount_device, &recount), BASE_OK);
        assert_int_equal(gw_store_read_scan(read, GW_TABLE_PAST, &from, recount_past, &recount),
                         BASE_OK);
        gw_store_read_end(read);
        struct gw_rollout_counts told;
        assert_true(gw_tally_counts(rig->core->tally, recount.rollout_id, GW_TALLY_STAGE_ALL,
                                    gw_core_now_s(rig->core), &told));
        assert_int_equal(told.offered, recount.counts.offered);
        assert_int_equal(told.activated, recount.counts.activated);
        assert_int_equal(told.succeeded, recount.counts.succeeded);
        assert_int_equal(told.failed, recount.counts.failed);
        assert_int_equal(told.rolled_back, recount.counts.rolled_back);
        assert_int_equal(told.unproven, recount.unproven);
    }
}

void rig_subscribe(struct rig *rig, const struct rig_device *device, struct gw_hint *hint)
{
    rig_subscribe_at(rig, rig->worker.worker, device, hint);
}

void rig_subscribe_at(struct rig *rig, struct gw_worker *worker, const struct rig_device *device,
                      struct gw_hint *hint)
{
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    wire_device_hex(device->id, hex);
    rig_exchange_init(&exchange, GW_METHOD_GET, "/v1/push");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.profile = rig_device_profile(device, true, text);
    rig_run(rig, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    assert_int_equal(exchange.exchange.reply.kind, GW_REPLY_STREAM);
    struct base_str first = {(const char *)exchange.exchange.reply.body,
                             exchange.exchange.reply.body_bytes};
    assert_true(base_str_starts(first, BASE_STR("event: hello\n")));
    gw_worker_subscribe(worker, &exchange.exchange, hint);
    rig_exchange_done(&exchange);
}
