// Rollouts of a killed version. Called by the director and by the API's handlers, on the control
// thread; see kill_rollouts.h. They are api_trust.c, rollouts.c and director_trust.c. The kill
// itself is on disk before anything here is done, and a start goes through the list again: a
// rollout that was not reached before a crash is ended then.
#include "svc/rollout/kill_rollouts.h"

#include "svc/core_private.h"
#include "svc/rollout/rollout_state.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/tally/tally.h"
#include "svc/rollout/kill_commands.h"

#include "base/text/str_cut.h"

#include <stdio.h>
#include <string.h>

static bool is_of(const struct gw_rollout *rollout, const struct wire_sha256 *manifest)
{
    return wire_sha256_equal(&rollout->release->manifest, manifest);
}

static bool goes_back(const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_ROLLING_BACK ||
           rollout->state.state == POL_ROLLOUT_ROLLED_BACK;
}

void gw_kill_by(const struct gw_rollout_who *who, char out[GW_TRUST_BY_MAX + 1])
{
    struct base_str person = gw_rollout_person(who);
    base_str_copy(person, out, GW_TRUST_BY_MAX + 1);
    size_t size = strlen(out);
    // A name that would be cut is left out: half of one is somebody else's.
    bool fits = size + who->by.size + sizeof(" ()") - 1 <= GW_TRUST_BY_MAX;
    if (who->by.size > 0 && fits && !base_str_equal(who->by, person)) {
        (void)snprintf(out + size, GW_TRUST_BY_MAX + 1 - size, " (%.*s)", (int)who->by.size,
                       who->by.data);
    }
}

enum base_status gw_kill_put(struct gw_core *core, const struct wire_sha256 *manifest,
                             const struct gw_rollout_who *who, bool *out_created,
                             struct base_error *error)
{
    const struct gw_rollout_who nobody = {0};
    char by[GW_TRUST_BY_MAX + 1];
    who = who != NULL ? who : &nobody;
    gw_kill_by(who, by);
    const struct gw_kill_order order = {manifest, base_str_of(by), who->comment};
    return gw_trust_list(core, &order, out_created, error);
}

// The line decides nothing: the rollout is what it was. False: it is not on disk.
static bool note(struct gw_core *core, struct gw_rollout *rollout, enum pol_action action,
                 const struct gw_rollout_who *who)
{
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_KILL, who, &change);
    change.line.record.kind = POL_RECORD_NOTE;
    change.line.record.action = action;
    if (action == POL_ACTION_KILL) {
        change.line.record.verdict = POL_VERDICT_NO_DATA;
        change.line.record.reason = POL_REASON_KILLED;
    }
    if (gw_rollout_commit(core, rollout, &change) != BASE_OK) {
        base_log_error(core->log, "rollouts", "%s: the log of rollout %016llx lacks a kill",
                       rollout->release->task, (unsigned long long)rollout->release->id);
        return false;
    }
    return true;
}

static bool is_noted(struct gw_core *core, const struct gw_rollout *rollout, enum pol_action action,
                     uint64_t since_us)
{
    struct gw_log_wish wish = {GW_LOG_KILL, action, since_us};
    return gw_rollout_log_has(core, rollout->release->id, &wish);
}

static void note_all(struct gw_core *core, const struct wire_sha256 *manifest,
                     const struct gw_rollout_who *who)
{
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog->rollouts[i];
        if (is_of(rollout, manifest) && !goes_back(rollout)) {
            (void)note(core, rollout, POL_ACTION_KILL, who);
        }
    }
}

static bool is_ended(const struct gw_rollout *rollout)
{
    return gw_rollout_is_closed(rollout) || goes_back(rollout);
}

static void end_one(struct gw_core *core, struct gw_rollout *open, const struct gw_rollout_who *who)
{
    struct base_error ignored = {0};
    if (gw_rollout_end_killed(core, open, who, &ignored) != BASE_OK) {
        base_log_debug(core->log, "director", "a killed rollout does not go back: %s",
                       ignored.text);
    }
}

static void end_open(struct gw_core *core, const struct wire_sha256 *manifest,
                     const struct gw_rollout_who *who)
{
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *open = core->catalog->rollouts[i];
        if (!is_ended(open) && is_of(open, manifest)) {
            end_one(core, open, who);
        }
    }
}

void gw_kill_rollouts(struct gw_core *core, const struct wire_sha256 *manifest, bool is_news,
                      const struct gw_rollout_who *who)
{
    if (is_news) {
        note_all(core, manifest, who);
    }
    end_open(core, manifest, who); // also of a kill that was cut off before
    gw_core_publish(core);
}

void gw_kill_finish(struct gw_core *core, struct gw_rollout *rollout, const struct gw_kill *kill)
{
    const struct gw_rollout_who killer = {.by = base_str_of(kill->by),
                                          .comment = base_str_of(kill->reason)};
    const struct gw_rollout_who gateway = {
        .by = BASE_STR("gateway"), .comment = BASE_STR("finished at start: it was cut off")};
    if (!goes_back(rollout) && !is_noted(core, rollout, POL_ACTION_KILL, kill->time_us)) {
        (void)note(core, rollout, POL_ACTION_KILL, &killer);
    }
    if (!is_ended(rollout)) {
        end_one(core, rollout, &gateway);
    }
}

static bool comes_back(const struct gw_core *core, const struct gw_rollout *rollout,
                       const struct wire_sha256 *manifest)
{
    return is_of(rollout, manifest) && rollout->state.state == POL_ROLLOUT_COMPLETED &&
           !gw_task_is_superseded(core, rollout->task, rollout);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Of its `had` devices those that a later release's floor keeps from it. Releases that reached the
// same devices are not counted twice: of all it is the one that ran well on the most.
static uint64_t count_floored(struct gw_core *core, const struct gw_rollout *rollout, uint64_t had)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        const struct gw_rollout *later = core->catalog->rollouts[i];
        struct gw_rollout_counts counts;
        if (later->task == rollout->task &&
            later->release->floor > rollout->release->release_counter &&
            gw_tally_counts(core->tally, later->release->id, GW_TALLY_STAGE_ALL,
                            gw_core_sure_s(core), &counts) &&
            counts.ran > most) {
            most = counts.ran;
        }
    }
    return smaller(most, had);
}

void gw_kill_back(struct gw_core *core, const struct wire_sha256 *manifest,
                  struct gw_kill_back *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        const struct gw_rollout *rollout = core->catalog->rollouts[i];
        struct gw_rollout_counts all;
        if (!comes_back(core, rollout, manifest)) {
            continue;
        }
        if (out->rollout_count < GW_KILL_ROLLOUTS_MAX) {
            out->rollouts[out->rollout_count] = rollout->release->id;
        }
        out->rollout_count++;
        (void)gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                              gw_core_sure_s(core), &all);
        // Who failed on it refuses it.
        uint64_t floored = count_floored(core, rollout, all.succeeded);
        out->floored += floored;
        out->devices += all.succeeded - floored;
    }
}

// In the logs that do not say it since then.
static void note_end(struct gw_core *core, const struct wire_sha256 *manifest, uint64_t since_us,
                     const struct gw_rollout_who *who)
{
    bool said = true;
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog->rollouts[i];
        if (comes_back(core, rollout, manifest) &&
            !is_noted(core, rollout, POL_ACTION_HOLD, since_us)) {
            said = note(core, rollout, POL_ACTION_HOLD, who) && said;
        }
    }
    if (said) {
        gw_trust_unkill_said(core, manifest);
    }
}

void gw_kill_note_end(struct gw_core *core, const struct wire_sha256 *manifest,
                      const struct gw_rollout_who *who)
{
    note_end(core, manifest, UINT64_MAX, who); // no line is of later
}

void gw_kill_finish_end(struct gw_core *core, const struct gw_kill *end)
{
    const struct gw_rollout_who who = {.by = base_str_of(end->by),
                                       .comment = base_str_of(end->reason)};
    if (gw_director_kills(core, &end->manifest)) { // again
        gw_trust_unkill_said(core, &end->manifest);
    } else {
        note_end(core, &end->manifest, end->time_us, &who);
    }
}
