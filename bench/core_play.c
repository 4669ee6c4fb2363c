// Scripted devices on a core: see core_play.h. A device takes what it is offered, and the run ends
// in an error where that is not what its bucket says.
#include "core_play.h"

#include "core_home.h"

#include "base/alloc.h"
#include "policy/bucket.h"
#include "svc/rollout/rollout_state.h"
#include "svc/rollout/catalog_private.h"
#include "wire/trust/offer.h"
#include "wire/profile.h"
#include "wire/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_ID UINT64_C(0x11)
#define EPOCH   7u

struct pending {
    struct gw_exchange exchange; // first
    struct base_arena arena;
    struct core_play *play;
    uint8_t body[256];
};

struct core_play {
    char folder[100];
    uint32_t open; // exchanges
    struct core_home home;
    struct trial_script *script;
    struct pol_held held; // at the last tick
    struct wire_sha256 old_version;
    struct wire_sha256 new_version;
    struct pending **pending; // reports of a second
    uint32_t pending_max;
};

struct core_play *core_play_new(const char *folder, uint32_t devices_max)
{
    struct core_play *play = calloc(1, sizeof(*play));
    if (play == NULL) {
        return NULL;
    }
    (void)snprintf(play->folder, sizeof(play->folder), "%s", folder);
    play->pending_max = devices_max;
    play->pending = calloc(devices_max, sizeof(play->pending[0]));
    if (play->pending == NULL) {
        core_play_free(play);
        return NULL;
    }
    return play;
}

void core_play_free(struct core_play *play)
{
    if (play != NULL) {
        free(play->pending);
        free(play);
    }
}

static void die(const char *what)
{
    (void)fprintf(stderr, "core_play: %s\n", what);
    exit(1);
}

// ---- Exchanges

static void finish(struct gw_exchange *exchange)
{
    struct pending *pending = (struct pending *)exchange;
    pending->play->open--;
}

static struct pending *begin(struct core_play *play, const char *path)
{
    struct pending *pending = calloc(1, sizeof(*pending));
    if (pending == NULL) {
        die("no memory");
    }
    base_arena_init(&pending->arena, base_alloc_heap(), 0, 0);
    pending->play = play;
    pending->exchange.arena = &pending->arena;
    pending->exchange.finish = finish;
    pending->exchange.request.method = GW_METHOD_POST;
    pending->exchange.request.path = base_str_of(path);
    play->open++;
    return pending;
}

static void end(struct pending *pending, int first, int second)
{
    int status = pending->exchange.reply.status;
    if (status != first && status != second) {
        die("an answer that should not be");
    }
    base_arena_done(&pending->arena);
    free(pending);
}

// ---- Devices

static size_t write_attrs(const struct trial_device *device, uint8_t *out, size_t capacity)
{
    char model[TRIAL_SCRIPT_MODEL_MAX];
    struct wire_attrs attrs = {.count = 1};
    struct base_writer writer;
    trial_script_model(device->model, model);
    attrs.items[0] = (struct wire_attr){
        .name = BASE_STR("model"), .type = WIRE_ATTR_STRING, .text = base_str_of(model)};
    base_writer_init(&writer, out, capacity);
    wire_attrs_write(&writer, &attrs);
    return base_writer_size(&writer);
}

static struct base_str write_profile(const struct core_play *play,
                                     const struct trial_device *device, char *text)
{
    uint8_t attrs[64];
    uint8_t bytes[256];
    size_t size = 0;
    const struct wire_profile_pair pair = {.task_id = wire_task_id(BASE_STR(CORE_HOME_TASK)),
                                           .version_id = wire_version_id(&play->old_version)};
    struct wire_profile profile = {.flags = WIRE_PROFILE_FLAG_PAIRS | WIRE_PROFILE_FLAG_AGAIN,
                                   .tasks_max = 32,
                                   .interval_s = TRIAL_SCRIPT_INTERVAL_S,
                                   .task_count = 1,
                                   .attrs = attrs,
                                   .attrs_bytes = write_attrs(device, attrs, sizeof(attrs))};
    profile.digest = wire_profile_term(pair.task_id, pair.version_id, 0);
    if (wire_profile_encode(&profile, &pair, bytes, sizeof(bytes), &size) != BASE_OK) {
        die("a profile");
    }
    return (struct base_str){text, base_b64_encode(bytes, size, text)};
}

// A device comes, and is drawn, unless its segment is held.
static void come(struct core_play *play, struct trial_device *device)
{
    char hex[WIRE_DEVICE_HEX + 1];
    char text[BASE_B64_ENCODED(256)];
    struct wire_offers offers = {.count = 0};
    struct pending *pending = begin(play, "/v1/checkin");
    wire_device_hex(device->id, hex);
    pending->exchange.request.device = base_str_of(hex);
    pending->exchange.request.profile = write_profile(play, device, text);
    gw_core_handle(play->home.worker, &pending->exchange);
    const struct gw_reply *reply = &pending->exchange.reply;
    if (reply->status == 200 &&
        wire_offers_parse(reply->body, reply->body_bytes, &offers) != BASE_OK) {
        die("offers");
    }
    device->drawn = !pol_held_has(&play->held, play->script->segments[device->model]);
    if (offers.count != (device->drawn && device->updated) ||
        offers.again_count != (device->drawn && !device->updated)) {
        die("a draw that is not by the bucket");
    }
    end(pending, 200, 204);
}

static struct pending *tell(struct core_play *play, const struct trial_device *device)
{
    struct pending *pending = begin(play, "/v1/report");
    struct wire_report report = {
        .device_id = device->id, .epoch = EPOCH, .first_seq = 1, .count = 2};
    size_t size = 0;
    for (uint32_t i = 0; i < report.count; i++) {
        enum wire_outcome_kind last =
            device->fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN;
        report.outcomes[i] = (struct wire_outcome){
            .kind = i == 0 ? WIRE_OUTCOME_ACTIVATED : last,
            .task_id = wire_task_id(BASE_STR(CORE_HOME_TASK)),
            .version_id =
                wire_version_id(device->updated ? &play->new_version : &play->old_version),
            .rollout_id = TRIAL_SCRIPT_ID,
            .fingerprint = i == 1 && device->fails ? 4711 : 0,
        };
    }
    if (wire_report_encode(&report, pending->body, sizeof(pending->body), &size) != BASE_OK) {
        die("a report");
    }
    pending->exchange.request.body = pending->body;
    pending->exchange.request.body_bytes = size;
    gw_core_handle(play->home.worker, &pending->exchange);
    return pending;
}

// Reports of one second wait for the disk together.
static void all_report(struct core_play *play, uint32_t step)
{
    const struct trial_device *devices = play->script->devices;
    uint32_t sent = 0;
    for (uint32_t at = play->script->reports[step]; at != TRIAL_SCRIPT_NONE;
         at = devices[at].next_to_report) {
        if (devices[at].drawn) {
            play->pending[sent++] = tell(play, &devices[at]);
        }
    }
    core_home_write(&play->home);
    if (play->open > 0) {
        die("a report without an answer");
    }
    for (uint32_t i = 0; i < sent; i++) {
        end(play->pending[i], 204, 204);
    }
}

static void all_come(struct core_play *play, uint32_t step)
{
    struct trial_device *devices = play->script->devices;
    for (uint32_t at = play->script->comes[step]; at != TRIAL_SCRIPT_NONE;
         at = devices[at].next_to_come) {
        come(play, &devices[at]);
    }
}

// ---- A run

static void open_rollouts(struct core_play *play, const struct pol_gate *gate)
{
    struct core_home *home = &play->home;
    const struct pol_stage all = {
        .kind = POL_STAGE_FULL, .max_bucket = POL_BUCKET_COUNT, .gate = {.min_sample = 1}};
    struct pol_stage stages[2];
    trial_script_stages(gate, stages);
    core_home_version(home, "1.0.0", &play->old_version);
    core_home_version(home, "2.0.0", &play->new_version);
    core_home_rollout(home, BASE_ID, &play->old_version, &all, 1);
    core_home_command(home, BASE_ID, POL_COMMAND_PROMOTE);
    core_home_rollout(home, TRIAL_SCRIPT_ID, &play->new_version, stages, 2);
}

static bool look(struct core_play *play, struct trial_seen *out)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(play->home.core, TRIAL_SCRIPT_ID);
    out->stopped = rollout->state.stage_failed;
    out->passed = rollout->state.state == POL_ROLLOUT_WAITING;
    out->reason = rollout->reason;
    out->held = play->held.count = rollout->quarantine_count;
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        play->held.names[i] = rollout->quarantine[i].segment;
    }
    return out->stopped || out->passed;
}

void core_play_run(struct core_play *play, struct trial_script *script, const struct pol_gate *gate,
                   struct trial_seen *out)
{
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    if (script->count > play->pending_max) {
        die("too many devices");
    }
    *out = (struct trial_seen){.stopped = false};
    play->script = script;
    play->held.count = 0;
    play->open = 0;
    core_home_open(&play->home, play->folder, TRIAL_SCRIPT_INTERVAL_S);
    open_rollouts(play, gate);
    bool over = false;
    for (; out->steps < TRIAL_SCRIPT_STEPS && !over; out->steps++) {
        play->home.now_us += 1000000;
        all_report(play, out->steps);
        all_come(play, out->steps);
        if (trial_script_is_due(script, out->steps)) {
            core_home_tick(&play->home);
            over = look(play, out);
        }
    }
    gw_rollout_seen(play->home.core, gw_catalog_find_rollout(play->home.core, TRIAL_SCRIPT_ID),
                    &seen, &counts);
    out->trial = counts.trial;
    core_home_close(&play->home);
}
