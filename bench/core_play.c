// Scripted devices on a core: see core_play.h.
//
// Half of the fleet is the stage's share and half its control band, so that the stage is as large
// as the cell says. Every device has the old version and comes once in the first COME_S seconds; it
// takes what it gets, and says what became of it when the cell's delay is over, unless that report
// is lost.
#include "core_play.h"

#include "core_home.h"

#include "base/alloc.h"
#include "policy/bucket.h"
#include "svc/rollout_state.h"
#include "wire/offer.h"
#include "wire/profile.h"
#include "wire/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_S 60u // told to devices: blocks are a tenth of it
#define COME_S     120u
#define WINDOW_S   180u
#define STEPS      (COME_S + WINDOW_S + INTERVAL_S / 10 + 5)
#define IDLE_TICKS 5u // seconds between two looks while nothing happens
#define BASE_ID    UINT64_C(0x11)
#define ID         UINT64_C(0x22)
#define NONE       UINT32_MAX
#define MODELS     8u
#define EPOCH      7u

struct device {
    uint64_t id;
    uint32_t next; // of those that come, or report, in the same second
    uint8_t model;
    bool updated;
    bool fails;
};

struct pending {
    struct gw_exchange exchange; // first
    struct base_arena arena;
    struct core_play *play;
    uint8_t body[256];
};

struct core_play {
    char folder[100];
    uint32_t capacity;
    uint32_t count;
    struct device *devices;
    uint32_t comes[STEPS];
    uint32_t reports[STEPS];
    uint32_t open; // exchanges
    struct core_home home;
    struct base_prng prng;
    const struct verdict_cell *cell;
    struct wire_sha256 old_version;
    struct wire_sha256 new_version;
};

struct core_play *core_play_new(const char *folder, uint32_t devices_max)
{
    struct core_play *play = calloc(1, sizeof(*play));
    if (play == NULL) {
        return NULL;
    }
    (void)snprintf(play->folder, sizeof(play->folder), "%s", folder);
    play->capacity = devices_max;
    play->devices = calloc(devices_max, sizeof(play->devices[0]));
    if (play->devices == NULL) {
        core_play_free(play);
        return NULL;
    }
    return play;
}

void core_play_free(struct core_play *play)
{
    if (play != NULL) {
        free(play->devices);
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

static void put(struct core_play *play, uint32_t *heads, uint32_t step, uint32_t index)
{
    if (step < STEPS) {
        play->devices[index].next = heads[step];
        heads[step] = index;
    }
}

static size_t write_attrs(const struct device *device, uint8_t *out, size_t capacity)
{
    char model[8];
    struct wire_attrs attrs = {.count = 1};
    struct base_writer writer;
    int size = snprintf(model, sizeof(model), "m%u", device->model);
    attrs.items[0] = (struct wire_attr){
        .name = BASE_STR("model"), .type = WIRE_ATTR_STRING, .text = {model, (size_t)size}};
    base_writer_init(&writer, out, capacity);
    wire_attrs_write(&writer, &attrs);
    return base_writer_size(&writer);
}

static struct base_str write_profile(const struct core_play *play, const struct device *device,
                                     char *text)
{
    uint8_t attrs[64];
    uint8_t bytes[256];
    size_t size = 0;
    const struct wire_profile_pair pair = {.task_id = wire_task_id(BASE_STR(CORE_HOME_TASK)),
                                           .version_id = wire_version_id(&play->old_version)};
    struct wire_profile profile = {.flags = WIRE_PROFILE_FLAG_PAIRS | WIRE_PROFILE_FLAG_AGAIN,
                                   .tasks_max = 32,
                                   .interval_s = INTERVAL_S,
                                   .task_count = 1,
                                   .attrs = attrs,
                                   .attrs_bytes = write_attrs(device, attrs, sizeof(attrs))};
    profile.digest = wire_profile_term(pair.task_id, pair.version_id, 0);
    if (wire_profile_encode(&profile, &pair, bytes, sizeof(bytes), &size) != BASE_OK) {
        die("a profile");
    }
    return (struct base_str){text, base_b64_encode(bytes, size, text)};
}

// A device comes, and is drawn; when it will be heard of is known then.
static void come(struct core_play *play, uint32_t index, uint32_t step)
{
    struct device *device = &play->devices[index];
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
    device->updated = offers.count > 0;
    bool drawn = offers.count + offers.again_count > 0;
    end(pending, 200, 204);
    double rise = device->updated ? play->cell->rise : 0;
    device->fails = base_prng_unit(&play->prng) < play->cell->base + rise;
    double seconds = verdict_delay_s(play->cell, device->fails, &play->prng);
    bool lost = base_prng_unit(&play->prng) < play->cell->loss;
    if (drawn && !lost && seconds < STEPS) {
        put(play, play->reports, step + 1 + (uint32_t)seconds, index);
    }
}

static struct pending *tell(struct core_play *play, const struct device *device)
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
            .rollout_id = ID,
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
static bool all_report(struct core_play *play, uint32_t step)
{
    uint32_t count = 0;
    for (uint32_t at = play->reports[step]; at != NONE; at = play->devices[at].next) {
        count++;
    }
    struct pending **pending = count > 0 ? calloc(count, sizeof(*pending)) : NULL;
    uint32_t sent = 0;
    if (count > 0 && pending == NULL) {
        die("no memory");
    }
    for (uint32_t at = play->reports[step]; at != NONE; at = play->devices[at].next) {
        pending[sent++] = tell(play, &play->devices[at]);
    }
    while (play->open > 0) {
        core_home_pump(&play->home, true);
    }
    for (uint32_t i = 0; i < sent; i++) {
        end(pending[i], 204, 204);
    }
    free(pending);
    return count > 0;
}

static bool all_come(struct core_play *play, uint32_t step)
{
    uint32_t next;
    bool any = false;
    for (uint32_t at = play->comes[step]; at != NONE; at = next) {
        next = play->devices[at].next;
        come(play, at, step);
        any = true;
    }
    return any;
}

// ---- A run

static void make_fleet(struct core_play *play, uint64_t seed)
{
    play->count = play->cell->devices * 2;
    if (play->count > play->capacity) {
        die("too many devices");
    }
    memset(play->comes, 0xff, sizeof(play->comes));
    memset(play->reports, 0xff, sizeof(play->reports));
    for (uint32_t i = 0; i < play->count; i++) {
        play->devices[i] = (struct device){.id = base_mix64(seed * UINT64_C(0x1000003) + i),
                                           .model = (uint8_t)base_prng_below(&play->prng, MODELS)};
        put(play, play->comes, (uint32_t)base_prng_below(&play->prng, COME_S), i);
    }
}

static void open_rollouts(struct core_play *play, const struct pol_gate *gate)
{
    struct core_home *home = &play->home;
    const struct pol_stage all = {
        .kind = POL_STAGE_FULL, .max_bucket = POL_BUCKET_COUNT, .gate = {.min_sample = 1}};
    struct pol_stage stages[2] = {{.kind = POL_STAGE_GRAY,
                                   .max_bucket = POL_BUCKET_COUNT / 2,
                                   .control_buckets = POL_BUCKET_COUNT / 2,
                                   .gate = *gate,
                                   .window_s = WINDOW_S,
                                   .execution_timeout_s = WINDOW_S},
                                  all};
    stages[1].approval = true;
    core_home_version(home, "1.0.0", &play->old_version);
    core_home_version(home, "2.0.0", &play->new_version);
    core_home_rollout(home, BASE_ID, &play->old_version, &all, 1);
    core_home_command(home, BASE_ID, POL_COMMAND_PROMOTE);
    core_home_rollout(home, ID, &play->new_version, stages, 2);
}

static void look(struct core_play *play, struct core_play_seen *out)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(play->home.core, ID);
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    gw_rollout_seen(play->home.core, rollout, &seen, &counts);
    out->stopped = rollout->state.stage_failed;
    out->passed = rollout->state.state == POL_ROLLOUT_WAITING;
    out->reason = rollout->reason;
    out->held = rollout->quarantine_count;
    out->offered = counts.trial.all[POL_COHORT_UPDATED].offered;
    out->compared = counts.trial.compared;
    out->control = counts.trial.all[POL_COHORT_CONTROL].offered;
}

void core_play_run(struct core_play *play, const struct verdict_cell *cell,
                   const struct pol_gate *gate, uint64_t seed, struct core_play_seen *out)
{
    struct pol_gate asked = *gate;
    asked.rule = POL_GATE_LOGRANK;
    base_prng_seed(&play->prng, seed);
    play->cell = cell;
    play->open = 0;
    core_home_open(&play->home, play->folder, INTERVAL_S);
    make_fleet(play, seed);
    open_rollouts(play, &asked);
    *out = (struct core_play_seen){.stopped = false};
    bool any = false;
    for (uint32_t step = 0; step < STEPS && !out->stopped && !out->passed; step++) {
        play->home.now_us += 1000000;
        bool before = any; // what a second brought is judged in the next one
        any = all_report(play, step);
        any = all_come(play, step) || any;
        if (any || before || step % IDLE_TICKS == 0) {
            core_home_tick(&play->home);
            look(play, out);
        }
    }
    core_home_close(&play->home);
}
