// The rollout controller: what it looks at, and what it writes down. Control thread, every tick.
//
// A tick counts a rollout's open stage, asks the policy, and stores what the policy decided before
// anything follows from it. Counts that decided nothing are noted in the log when they moved the
// verdict or its reason, or when they grew enough: so the log alone tells how every decision came
// about, and grows with the logarithm of the fleet.
#include "svc/rollout/late_failures.h"
#include "svc/device/offer_gate.h"
#include "svc/rollout/rollout_figures.h"
#include "svc/rollout/rollout_state.h"
#include "svc/tally/silence.h"
#include "svc/rollout/simulation.h"
#include "svc/rollout/way_back.h"
#include "svc/device/devices_store.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/rollout/watch.h"
#include "svc/tally/tally.h"

#include <string.h>

static void simulated(const struct gw_rollout *rollout, struct gw_rollout_counts *out)
{
    memset(out, 0, sizeof(*out));
    const struct gw_simulation *simulation = &rollout->simulation;
    if (gw_simulation_counts(simulation)) {
        out->offered = simulation->completed;
        out->downloaded = simulation->completed;
        out->activated = simulation->completed;
        out->succeeded = simulation->completed - simulation->failed;
        out->failed = simulation->failed;
    }
}

static uint64_t left_to_roll_back(struct gw_core *core, const struct gw_rollout *rollout)
{
    // Devices that did not come back within the execution timeout cannot be reached now; they are
    // offered the way back whenever they come, also after the rollout is closed. Some are not
    // waited for so long (way_back.h).
    uint64_t limit_us = (uint64_t)rollout->release->execution_timeout_s * 1000000u;
    if (gw_core_sure_us(core) >= rollout->rollback_since_us + limit_us) {
        return 0;
    }
    struct gw_rollout_counts all;
    (void)gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                          gw_core_sure_s(core), &all);
    uint64_t spared = gw_way_back_spared(core, rollout, all.on_version);
    return all.on_version > spared ? all.on_version - spared : 0;
}

// What of the counts is judged.
static void judged(const struct gw_rollout *rollout, const struct gw_rollout_counts *seen,
                   struct pol_counts *out)
{
    gw_counts_judged(seen, out);
    if (seen->control == 0) { // what the stages before have taught about devices left alone
        out->control_hazard = rollout->control_hazard;
    }
}

static void held_now(const struct gw_rollout *rollout, struct pol_held *out)
{
    out->count = rollout->quarantine_count;
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        out->names[i] = rollout->quarantine[i].segment;
    }
}

void gw_rollout_look(const struct gw_core *core, const struct gw_rollout *rollout,
                     struct pol_held *held, struct gw_trial_look *out)
{
    uint32_t flushed_s = gw_flush_done_s(core->flush);
    uint32_t offers_s = flushed_s > GW_TRIAL_LAG_S ? flushed_s - GW_TRIAL_LAG_S : 0;
    held_now(rollout, held);
    *out = (struct gw_trial_look){
        .stage = rollout->state.stage_index,
        .heard_s = gw_trial_time_s(gw_core_heard_s(core), rollout->moved_s),
        .offers_s = gw_trial_time_s(offers_s, rollout->moved_s),
        .held = held,
    };
}

// With LOGRANK the trial is judged, and silence within it.
static void judge_trial(struct gw_core *core, const struct gw_rollout *rollout,
                        struct pol_counts *out)
{
    struct pol_held held;
    struct gw_trial_look look;
    struct pol_hazard hazards[POL_COHORT_COUNT];
    gw_rollout_look(core, rollout, &held, &look);
    if (gw_tally_trial(core->tally, rollout->release->id, &look, &out->trial, hazards)) {
        gw_silence_judged(rollout->release, look.stage, hazards, &rollout->control_hazard, out);
    }
}

static bool has_trial(const struct gw_rollout *rollout)
{
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    return stage->gate.rule == POL_GATE_LOGRANK && stage->kind != POL_STAGE_SIMULATE;
}

void gw_rollout_view_trial(struct gw_core *core, const struct gw_rollout *rollout,
                           struct gw_rollout_trial_view *out)
{
    struct pol_counts counts = {0};
    out->there = has_trial(rollout);
    out->windows_end_s = 0;
    if (out->there) {
        uint64_t end_s =
            gw_tally_trial_end_s(core->tally, rollout->release->id, rollout->state.stage_index);
        judge_trial(core, rollout, &counts);
        if (end_s > 0 && end_s <= UINT32_MAX) {
            out->windows_end_s = gw_trial_gateway_s((uint32_t)end_s, rollout->moved_s);
        }
    }
    out->trial = counts.trial;
}

// Nobody, once a later release is everybody's baseline: who would be offered this one gets that.
static uint64_t outstanding(struct gw_core *core, const struct gw_rollout *rollout)
{
    return gw_task_is_superseded(core, rollout->task, rollout)
               ? 0
               : gw_tally_outstanding(core->tally, rollout->release->id, rollout->state.stage_index,
                                      rollout->state.stage_since_us);
}

void gw_rollout_seen(struct gw_core *core, const struct gw_rollout *rollout,
                     struct gw_rollout_counts *out_seen, struct pol_counts *out_judged)
{
    const struct gw_release *release = rollout->release;
    uint32_t stage = rollout->state.stage_index;
    if (release->stages[stage].kind == POL_STAGE_SIMULATE) {
        simulated(rollout, out_seen);
    } else {
        (void)gw_tally_counts(core->tally, release->id, stage, gw_core_sure_s(core), out_seen);
    }
    judged(rollout, out_seen, out_judged);
    gw_rollout_quarantine_discount(core, rollout, out_judged);
    if (has_trial(rollout)) {
        judge_trial(core, rollout, out_judged);
    }
    if (rollout->state.state == POL_ROLLOUT_ROLLING_BACK) {
        out_judged->to_roll_back = left_to_roll_back(core, rollout);
    } else if (rollout->state.state == POL_ROLLOUT_GUARDING) {
        out_judged->outstanding = outstanding(core, rollout);
    }
}

bool gw_rollout_finds(struct gw_core *core, const struct gw_rollout *rollout,
                      struct pol_decision *out)
{
    const struct gw_release *release = rollout->release;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    if ((rollout->state.state != POL_ROLLOUT_RUNNING &&
         rollout->state.state != POL_ROLLOUT_GUARDING) ||
        rollout->state.before_first || rollout->halted) {
        return false;
    }
    gw_rollout_seen(core, rollout, &seen, &counts);
    *out = pol_rollout_tick(&rollout->state, release->stages, release->stage_count, &counts,
                            gw_core_sure_us(core));
    return out->action != POL_ACTION_REFUSE;
}

// ---- Observations

static uint64_t completed(const struct pol_counts *counts)
{
    return counts->succeeded + counts->failed + counts->timed_out + counts->silent +
           counts->control.trials;
}

static bool worth_a_line(const struct gw_rollout *rollout, const struct pol_counts *counts,
                         const struct pol_decision *decision, uint64_t now_us)
{
    if (rollout->observed_us == 0 || decision->verdict != rollout->observed_verdict ||
        decision->reason != rollout->observed_reason) {
        return true;
    }
    struct pol_counts before = rollout->observed;
    before.hazard.device_seconds = counts->hazard.device_seconds; // it only says that time passed
    before.control_hazard.device_seconds = counts->control_hazard.device_seconds;
    before.unproven = counts->unproven; // strangers do not make the log grow
    if (memcmp(&before, counts, sizeof(before)) == 0) {
        return false;
    }
    uint64_t then = completed(&before);
    uint64_t now = completed(counts);
    return now > then + then / GW_LOG_GROWTH ||
           now_us >= rollout->observed_us + (uint64_t)GW_LOG_LATEST_S * 1000000u;
}

// What a tick sees of a rollout.
struct sight {
    uint64_t now_us; // when
    struct gw_rollout_counts seen;
    struct pol_counts counts; // what the gate judges of it
};

static void observe(struct gw_core *core, struct gw_rollout *rollout, const struct sight *sight,
                    const struct pol_decision *decision)
{
    const struct pol_counts *counts = &sight->counts;
    rollout->reason = decision->reason;
    if (rollout->state.state != POL_ROLLOUT_ROLLING_BACK) { // then it is that of the cause
        rollout->verdict = decision->verdict;
        rollout->failure_ppm = decision->failure_ppm;
        rollout->shown = decision->shown;
    }
    if (!worth_a_line(rollout, counts, decision, sight->now_us)) {
        return;
    }
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_OBSERVATION, NULL, &change);
    struct pol_record *record = &change.line.record;
    record->kind = POL_RECORD_TICK;
    record->now_us = sight->now_us;
    record->counts = *counts;
    record->action = decision->action;
    record->verdict = decision->verdict;
    record->reason = decision->reason;
    record->after = decision->next;
    change.line.failure_ppm = decision->failure_ppm;
    change.line.rolled_back = sight->seen.rolled_back;
    change.line.revision = rollout->revision;
    rollout->log_seq = change.line.seq;
    rollout->observed = *counts;
    rollout->observed_us = sight->now_us;
    rollout->observed_verdict = decision->verdict;
    rollout->observed_reason = decision->reason;
    gw_rollout_note(core, rollout->release->id, &change.line);
}

// ---- Decisions

static bool follow(struct gw_core *core, struct gw_rollout *rollout, const struct sight *sight,
                   const struct pol_decision *decision)
{
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_DECISION, NULL, &change);
    change.line.record.kind = POL_RECORD_TICK;
    change.line.record.now_us = sight->now_us;
    change.line.rolled_back = sight->seen.rolled_back;
    gw_rollout_decide(core, &change, decision, &sight->counts);
    if (gw_rollout_commit(core, rollout, &change) != BASE_OK) {
        base_log_debug(core->log, "rollouts", "a decision could not be stored; it is taken again");
        // A full disk must not keep a bad version going: it is offered to nobody until then.
        if (decision->verdict == POL_VERDICT_FAIL && !rollout->halted) {
            rollout->halted = true;
            gw_core_publish(core);
        }
        return false;
    }
    atomic_fetch_add_explicit(&core->ends.decisions, 1, memory_order_relaxed);
    if (decision->page) {
        atomic_fetch_add_explicit(&core->ends.pages, 1, memory_order_relaxed);
    }
    return true;
}

// ---- Offers

static bool makes_offers(const struct gw_rollout *rollout)
{
    enum pol_rollout_state state = rollout->state.state;
    return (state == POL_ROLLOUT_RUNNING || state == POL_ROLLOUT_WAITING ||
            state == POL_ROLLOUT_GUARDING) &&
           !rollout->state.before_first && !rollout->halted;
}

// Devices that were offered the release and are not done. Offers reach the tally with the next
// flush: those on the way are known by the workers' own count.
static uint64_t in_flight(struct gw_rollout_pace *pace, const struct gw_offers *offers,
                          const struct gw_rollout_counts *all)
{
    uint64_t made = atomic_load_explicit(&offers->made, memory_order_relaxed);
    if (!pace->begun) {
        pace->begun = true;
        pace->made = made;
        pace->offered = all->offered;
    }
    uint64_t newly = made - pace->made;
    uint64_t counted = all->offered > pace->offered ? all->offered - pace->offered : 0;
    uint64_t offered = all->offered + (newly > counted ? newly - counted : 0);
    uint64_t done = gw_counts_done(all);
    return offered > done ? offered - done : 0;
}

static void set_left(struct gw_rollout *rollout, int64_t left)
{
    for (uint32_t i = 0; i < GW_STANDING_COUNT; i++) {
        atomic_store_explicit(&rollout->allowances[i].left, left, memory_order_relaxed);
    }
}

static void grant(struct gw_core *core, struct gw_rollout *rollout, enum gw_standing standing)
{
    const struct gw_release *release = rollout->release;
    struct gw_rollout_pace *pace = &rollout->paces[standing];
    struct gw_offers *offers = &rollout->allowances[standing];
    int64_t left = atomic_exchange_explicit(&offers->left, 0, memory_order_relaxed);
    uint64_t unused = left > 0 && left < GW_OFFERS_UNLIMITED ? (uint64_t)left : 0;
    uint32_t updated; // of so many offers in all, in a trial
    uint32_t all_offers;
    gw_offer_price(release, rollout->state.stage_index, &updated, &all_offers);
    uint64_t whole = unused * updated / all_offers;
    uint64_t rest = unused - (whole * all_offers + updated - 1) / updated;
    struct gw_rollout_counts all;
    (void)gw_tally_standing(core->tally, release->id, standing, gw_core_sure_s(core), &all);
    uint64_t granted =
        pol_pace_grant(&release->stages[rollout->state.stage_index].pace, &pace->state,
                       (struct pol_pace_counts){.unused = whole,
                                                .offered = all.offered,
                                                .succeeded = all.succeeded,
                                                .in_flight = in_flight(pace, offers, &all)},
                       gw_core_sure_us(core));
    granted = granted < INT32_MAX ? granted : INT32_MAX;
    // What alone devices took too much of is owed.
    int64_t owed = left < 0 ? left : 0;
    int64_t most = (int64_t)((granted * all_offers + updated - 1) / updated + rest);
    atomic_store_explicit(&offers->left, most + owed, memory_order_relaxed);
}

void gw_rollout_hand_out(struct gw_core *core, struct gw_rollout *rollout)
{
    const struct pol_pace *pace = &rollout->release->stages[rollout->state.stage_index].pace;
    if (rollout->state.state == POL_ROLLOUT_COMPLETED) {
        // Nothing holds the baseline back. Workers whose plan still has it as an open release would
        // otherwise send devices away whose hint is used up, until their next check-in.
        set_left(rollout, GW_OFFERS_UNLIMITED);
        return;
    }
    if (!makes_offers(rollout)) {
        set_left(rollout, 0);
        return;
    }
    if (pace->per_minute == 0 && pace->in_flight_max == 0) {
        set_left(rollout, GW_OFFERS_UNLIMITED);
        return;
    }
    grant(core, rollout, GW_STANDING_COUNTED);
    grant(core, rollout, GW_STANDING_UNPROVEN);
}

bool gw_rollout_tick_one(struct gw_core *core, struct gw_rollout *rollout)
{
    if (rollout->state.state == POL_ROLLOUT_DRAFT || gw_rollout_is_closed(rollout)) {
        return false;
    }
    struct sight sight = {.now_us = gw_core_sure_us(core)};
    (void)gw_rollout_quarantine_tick(core, rollout);
    gw_rollout_seen(core, rollout, &sight.seen, &sight.counts);
    struct pol_decision decision =
        pol_rollout_tick(&rollout->state, rollout->release->stages, rollout->release->stage_count,
                         &sight.counts, sight.now_us);
    if (decision.action == POL_ACTION_HOLD || decision.action == POL_ACTION_REFUSE) {
        observe(core, rollout, &sight, &decision);
        return false;
    }
    return follow(core, rollout, &sight, &decision);
}

bool gw_rollouts_tick(struct gw_core *core)
{
    bool changed = false;
    gw_tally_tick(core->tally, gw_core_sure_s(core));
    gw_watch_step(core->watch);
    gw_way_back_step(core->way_back);
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog->rollouts[i];
        changed = gw_rollout_tick_one(core, rollout) || changed;
        gw_rollout_hand_out(core, rollout);
    }
    gw_late_step(core);
    gw_rollout_figures_step(core);
    return changed;
}
