// Our gate in the simulated rollout, from the parts of the gateway that ships: its tally counts
// what devices say and forms the blocks of the trial, its silence watches them, and policy/ judges
// and holds segments. What is left to this file is what the control thread does with them: a look
// when something is new, and a walk over all devices once in a while.
//
// Called by gate_sim.c and its unit test; one thread.
#include "gate_play.h"

#include "policy/bucket.h"
#include "policy/rollout.h"
#include "svc/plan/cohort.h"
#include "svc/device/offer_gate.h"
#include "svc/tally/segment_look.h"
#include "svc/tally/silence.h"
#include "svc/tally/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Slices are asked about every ten seconds, and whether time alone decides; silence once a minute.
#define SLOW_STEPS 5u
#define WALK_STEPS 30u
#define ROLLOUT    UINT64_C(0x33)
#define BEGIN_S    UINT32_C(1700000000) // Unix time of step 0
#define INTERVAL_S 300u                 // GATE_CHECKIN_S
#define ATTRS_MAX  64u

static const uint16_t buckets[GATE_STAGES] = {100, 500, 2000, POL_BUCKET_COUNT};

struct gate_ours gate_ours_standard(enum pol_gate_rule rule)
{
    // Alpha of 5 % for the rollout, half of it for the first stage, where large faults are found.
    // The rise is what a stage can rule out with its size: 3 points, 1, 0.5; the last stage is
    // everybody and has no control.
    bool compares = rule == POL_GATE_LOGRANK;
    return (struct gate_ours){.rule = rule,
                              .alpha_ppm = {25000, 10000, 10000, 5000},
                              .beta_ppm = POL_GATE_BETA_PPM,
                              .max_failure_ppm = 50000,
                              .max_rise_ppm = {30000, 10000, 5000, POL_TEST_NOT_ASKED},
                              .min_sample = 200,
                              .min_dwell_s = {2700, 2700, 1800, 1800},
                              .window_s = 1800,
                              .silence_s = compares ? 3 * INTERVAL_S : 0,
                              .max_silence_percent = compares ? POL_GATE_SILENCE_PERCENT : 0,
                              .control_ratio = compares ? 10 : 0};
}

// What the gateway's store would have of a device.
struct record {
    uint32_t offered_s;
    uint32_t answered_s;
    uint32_t failed_s;
    uint16_t bits;
    uint8_t stage;
};

struct attrs {
    uint64_t segment;
    uint32_t size;
    uint8_t bytes[ATTRS_MAX];
};

struct gate_ours_play {
    struct gate_world *world;
    struct gate_outcome *out;
    struct gw_release *release;
    struct gw_tally *tally;
    struct record *records; // by device
    uint32_t devices_max;
    struct attrs attrs[GATE_SLICES];
    struct gw_tally_segment segments[GW_TALLY_SEGMENTS_MAX];
    struct pol_slices slices;
    struct pol_rollout rollout;
    struct pol_held held;
    struct pol_hazard taught; // by control of the stages before
    double credit;
    uint64_t offered;       // in earlier stages
    uint64_t failed;        // heard of, of the open stage
    uint64_t failed_looked; // ... when slices were asked about last
    uint32_t news_step;
};

static void write_attrs(uint32_t slice, struct attrs *out)
{
    char model[8];
    struct wire_attrs attrs = {.count = 1};
    struct gw_attrs_view view;
    struct base_writer writer;
    (void)snprintf(model, sizeof(model), "m%u", slice % 1000);
    attrs.items[0] = (struct wire_attr){
        .name = BASE_STR("model"), .type = WIRE_ATTR_STRING, .text = base_str_of(model)};
    base_writer_init(&writer, out->bytes, sizeof(out->bytes));
    wire_attrs_write(&writer, &attrs);
    out->size = (uint32_t)base_writer_size(&writer);
    if (gw_attrs_view(out->bytes, out->size, &view) == BASE_OK) {
        out->segment = gw_segment_of(&view.attrs, NULL);
    }
}

struct gate_ours_play *gate_ours_new(uint32_t devices_max)
{
    struct gate_ours_play *play = calloc(1, sizeof(*play));
    if (play == NULL) {
        return NULL;
    }
    play->release = gw_release_blank();
    play->records = calloc(devices_max, sizeof(*play->records));
    play->devices_max = devices_max;
    if (play->release == NULL || play->records == NULL) {
        gate_ours_free(play);
        return NULL;
    }
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        write_attrs(i, &play->attrs[i]);
    }
    return play;
}

void gate_ours_free(struct gate_ours_play *play)
{
    if (play != NULL) {
        gw_tally_free(play->tally);
        gw_release_unref(play->release);
        free(play->records);
        free(play);
    }
}

static uint32_t now_s(const struct gate_ours_play *play)
{
    return BEGIN_S + play->world->step * GATE_STEP_S;
}

static const struct gate_stage_tally *open_stage(const struct gate_ours_play *play)
{
    return &play->world->stages[play->world->stage_count - 1];
}

// ---- What devices say ----

// From what the record said to what it says now.
static void apply(struct gate_ours_play *play, uint32_t device, const struct record *from,
                  const struct record *to)
{
    const struct record *there = to->bits != 0 ? to : from;
    const struct attrs *attrs = &play->attrs[play->world->fleet->devices[device].slice];
    const struct gw_tally_change change = {
        .rollout_id = ROLLOUT,
        .offered_s = there->offered_s,
        .old_bits = from->bits,
        .new_bits = to->bits,
        .stage = there->stage,
        .attrs = attrs->bytes,
        .attrs_size = attrs->size,
        .device_id = gate_device_id(play->world->fleet, device),
        .segment = attrs->segment,
        .old_answered_s = from->answered_s,
        .old_failed_s = from->failed_s,
        .answered_s = to->answered_s,
        .failed_s = to->failed_s,
    };
    gw_tally_apply(play->tally, &change, 1);
}

static struct record offered(const struct gate_ours_play *play, const struct gate_news *news)
{
    unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_PROVEN;
    if (play->release->stages[news->stage].gate.rule == POL_GATE_LOGRANK) {
        bits |= GW_OUTCOME_DRAWN;
        bits |= news->alone ? GW_OUTCOME_ALONE : 0;
        bits |= news->control ? GW_OUTCOME_CONTROL : 0;
    }
    return (struct record){
        .offered_s = now_s(play), .bits = (uint16_t)bits, .stage = (uint8_t)news->stage};
}

static void heard(void *ctx, const struct gate_news *news)
{
    static const struct record nothing = {.bits = 0};
    struct gate_ours_play *play = ctx;
    struct record *record = &play->records[news->device];
    struct record before = *record;
    play->news_step = play->world->step;
    if (news->what == GATE_OFFERED) {
        if (before.bits != 0) { // it was control of an earlier stage, and begins anew
            apply(play, news->device, &before, &nothing);
        }
        *record = offered(play, news);
        apply(play, news->device, &nothing, record);
        return;
    }
    record->bits |= GW_OUTCOME_ACTIVATED;
    record->bits |= news->what == GATE_FAILED ? GW_OUTCOME_FAILED : GW_OUTCOME_RAN;
    *(news->what == GATE_FAILED ? &record->failed_s : &record->answered_s) = now_s(play);
    play->failed += news->what == GATE_FAILED && news->stage == play->rollout.stage_index;
    apply(play, news->device, &before, record);
}

static void walk(struct gate_ours_play *play)
{
    const struct gw_silence_clock clock = {.now_s = now_s(play), .started_s = BEGIN_S};
    struct gw_tally_watch found = {.eligible = 0};
    uint32_t stage = play->rollout.stage_index;
    for (uint32_t i = 0; i < play->world->fleet->count; i++) {
        const struct record *record = &play->records[i];
        if ((record->bits & GW_OUTCOME_DRAWN) == 0 || record->stage != stage) {
            continue;
        }
        const struct gw_silence_device device = {
            .offered_s = record->offered_s,
            .last_seen_s = BEGIN_S + (uint32_t)gate_world_seen_s(play->world, i),
            .interval_s = INTERVAL_S,
            .bits = record->bits,
            .stage = record->stage};
        gw_silence_watch(&clock, play->release, &device, found.trial);
    }
    gw_tally_set_watch(play->tally, ROLLOUT, stage, &found);
}

// ---- Looks ----

// All that came before this step is in.
static struct gw_trial_look look_of(const struct gate_ours_play *play)
{
    return (struct gw_trial_look){.stage = play->rollout.stage_index,
                                  .heard_s = now_s(play) - 1,
                                  .offers_s = now_s(play) - GW_TRIAL_LAG_S,
                                  .held = &play->held};
}

static uint32_t segments_of(struct gate_ours_play *play)
{
    return gw_tally_segments(play->tally, ROLLOUT, play->rollout.stage_index, play->segments,
                             GW_TALLY_SEGMENTS_MAX);
}

static void see(struct gate_ours_play *play, struct pol_counts *out)
{
    struct gw_rollout_counts seen;
    struct pol_hazard hazards[POL_COHORT_COUNT];
    const struct gw_trial_look look = look_of(play);
    (void)gw_tally_counts(play->tally, ROLLOUT, look.stage, look.heard_s, &seen);
    gw_counts_judged(&seen, out);
    if (play->held.count > 0) {
        gw_segment_discount(play->segments, segments_of(play), &play->held, out);
    }
    if (gw_tally_trial(play->tally, ROLLOUT, &look, &out->trial, hazards)) {
        gw_silence_judged(play->release, look.stage, hazards, &play->taught, out);
    }
}

static void hold(struct gate_ours_play *play, const struct pol_held *found)
{
    struct gate_world *world = play->world;
    pol_held_add(&play->held, found);
    for (uint32_t i = 0; i < GATE_SLICES; i++) {
        if (pol_held_has(found, play->attrs[i].segment)) {
            world->held_slices[i] = true;
            play->out->quarantined++;
            play->out->found = play->out->found || i == GATE_BAD_SLICE;
            play->out->at_s =
                play->out->quarantined == 1 ? gate_world_now_s(world) : play->out->at_s;
        }
    }
}

static void judge_slices(struct gate_ours_play *play)
{
    static const struct pol_held nobody = {.count = 0};
    const struct gw_trial_look look = look_of(play);
    const struct pol_gate *gate = &play->release->stages[look.stage].gate;
    const struct pol_sample control = {0, 0};
    struct pol_held found;
    if (play->failed == play->failed_looked) {
        return;
    }
    play->failed_looked = play->failed;
    uint32_t count = segments_of(play);
    if (count < 2) {
        return;
    }
    if (gate->rule == POL_GATE_LOGRANK) {
        gw_tally_trial_slices(play->tally, ROLLOUT, &look, &nobody, &play->slices);
    } else {
        (void)gw_segment_look(play->segments, count, &play->held, &nobody, &play->slices);
    }
    pol_slices_judge(gate, &play->slices, &control, &found);
    hold(play, &found);
}

// ---- A rollout ----

static void open_next(struct gate_ours_play *play)
{
    struct gate_world *world = play->world;
    uint32_t stage = play->rollout.stage_index;
    uint32_t updated;
    uint32_t all;
    const struct gw_tally_phase phase = {.stage_now = stage, .open = true, .offers = true};
    uint64_t to = (uint64_t)world->fleet->count * buckets[stage] / POL_BUCKET_COUNT;
    gw_offer_price(play->release, stage, &updated, &all);
    gw_tally_set(play->tally, ROLLOUT, &phase);
    uint64_t control = (uint64_t)world->fleet->count * (all - updated) / POL_BUCKET_COUNT;
    gate_world_open(world, (uint32_t)to, all > updated ? (uint32_t)control : 0);
    world->alone_price = (all + updated - 1) / updated;
    play->failed = 0;
    play->failed_looked = 0;
}

// Asks the rollout machine about the open stage. True: the rollout is over.
static bool decide(struct gate_ours_play *play)
{
    struct pol_counts counts;
    bool slow = play->world->step % SLOW_STEPS == 0;
    if (slow) {
        judge_slices(play);
    }
    if (!slow && play->news_step + 1 < play->world->step) { // a look goes by the step before
        return false;
    }
    see(play, &counts);
    uint32_t stage = play->rollout.stage_index;
    struct pol_decision decision =
        pol_rollout_tick(&play->rollout, play->release->stages, GATE_STAGES, &counts,
                         (uint64_t)now_s(play) * 1000000);
    play->rollout = decision.next;
    if (decision.action == POL_ACTION_ROLL_BACK) {
        play->out->end = GATE_END_STOPPED;
        return true;
    }
    if (decision.action == POL_ACTION_COMPLETE) {
        play->out->end = GATE_END_COMPLETED;
        return true;
    }
    if (decision.action == POL_ACTION_ADVANCE) {
        gw_silence_keep(play->release, stage, &counts, &play->taught);
        play->offered += open_stage(play)->offered;
        open_next(play);
    }
    return false;
}

static void make_stages(const struct gate_ours *settings, struct pol_stage stages[GATE_STAGES])
{
    for (uint32_t i = 0; i < GATE_STAGES; i++) {
        bool full = i + 1 == GATE_STAGES;
        uint32_t size = buckets[i] - (i > 0 ? buckets[i - 1] : 0u);
        stages[i] = (struct pol_stage){
            .kind = full ? POL_STAGE_FULL : POL_STAGE_GRAY,
            .max_bucket = buckets[i],
            .control_buckets = full ? 0 : (uint16_t)(size * settings->control_ratio),
            .window_s = settings->window_s,
            .execution_timeout_s = settings->window_s,
            .silence_s = settings->silence_s,
            .gate = {.min_sample = settings->min_sample,
                     .max_failure_ppm = settings->max_failure_ppm,
                     .min_dwell_us = (uint64_t)settings->min_dwell_s[i] * 1000000,
                     .rule = settings->rule,
                     .max_rise_ppm = settings->max_rise_ppm[i],
                     .alpha_ppm = settings->alpha_ppm[i],
                     .beta_ppm = settings->beta_ppm,
                     .max_silence_percent = settings->max_silence_percent,
                     .min_answered_ppm = POL_GATE_MIN_ANSWERED_PPM,
                     .of_offered = true}};
    }
}

static bool prepare(struct gate_ours_play *play, const struct gate_ours *settings)
{
    static const struct base_hash_key key = {0};
    const struct pol_rollout draft = {.state = POL_ROLLOUT_DRAFT};
    struct gw_release *release = play->release;
    gw_tally_free(play->tally);
    play->tally = NULL;
    *release = (struct gw_release){.hold = release->hold};
    release->id = ROLLOUT;
    release->checkin_interval_s = INTERVAL_S;
    release->stage_count = GATE_STAGES;
    make_stages(settings, release->stages);
    memset(play->records, 0, play->devices_max * sizeof(*play->records));
    play->held.count = 0;
    play->taught = (struct pol_hazard){0, 0};
    play->credit = 0;
    play->offered = 0;
    play->news_step = 0;
    play->rollout = pol_rollout_command(&draft, release->stages, GATE_STAGES, POL_COMMAND_START,
                                        (uint64_t)now_s(play) * 1000000)
                        .next;
    return gw_tally_new(&key, &play->tally) == BASE_OK &&
           gw_tally_add(play->tally, release) == BASE_OK;
}

// Offers by the ramp are of updated devices; control comes with them.
static uint64_t offers_now(struct gate_ours_play *play)
{
    uint32_t updated;
    uint32_t all;
    gw_offer_price(play->release, play->rollout.stage_index, &updated, &all);
    uint64_t offers = gate_ramp_offers(&play->credit, play->offered + open_stage(play)->offered);
    return (offers * all + updated - 1) / updated;
}

bool gate_play_ours(struct gate_ours_play *play, struct gate_world *world,
                    const struct gate_fleet *fleet, const struct gate_ours *settings,
                    struct gate_outcome *out)
{
    const struct gate_settings how = {
        .timeout_s = (float)settings->window_s, .heard = heard, .ctx = play};
    *out = (struct gate_outcome){.end = GATE_END_HELD};
    play->world = world;
    play->out = out;
    gate_world_reset(world, fleet, &how);
    if (!prepare(play, settings)) {
        return false;
    }
    open_next(play);
    bool over = false;
    while (!over && world->step + 1 < GATE_STEPS) {
        gate_world_step(world, offers_now(play));
        gw_tally_tick(play->tally, now_s(play));
        if (settings->silence_s > 0 && world->step % WALK_STEPS == 0) {
            walk(play);
        }
        over = decide(play);
    }
    out->at_s = out->quarantined > 0 ? out->at_s : gate_world_now_s(world);
    if (out->end == GATE_END_COMPLETED) {
        gate_world_flood(world);
    }
    out->exposed = world->exposed;
    out->harmed = world->harmed;
    out->stage = world->stage_count - 1;
    return true;
}
