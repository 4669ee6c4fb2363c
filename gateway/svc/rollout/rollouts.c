// Rollouts: creation, commands, the controller. Control thread; see rollouts.h.
//
// Every change goes the same way: the policy decides, the change and its log line are written in
// one transaction, and only then memory follows and the workers get a new plan. A crash in between
// loses nothing: the next start reads the new state.
#include "svc/rollout/rollouts.h"

#include "svc/trust/director.h"
#include "svc/rollout/kill_rollouts.h"
#include "svc/rollout/late_failures.h"
#include "svc/access/operators.h"
#include "svc/device/reach.h"
#include "svc/rollout/rollout_state.h"
#include "svc/tally/silence.h"
#include "svc/rollout/simulation.h"
#include "svc/rollout/statement_check.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/rollout/set_cost.h"
#include "svc/tally/tally.h"

#include "base/alloc.h"
#include "base/text/str_cut.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum base_status gw_rollout_get(struct gw_core *core, uint64_t id, struct gw_rollout_view *out)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    gw_rollout_view_of(core, rollout, out);
    return BASE_OK;
}

// ---- Changes

void gw_rollout_begin(struct gw_core *core, const struct gw_rollout *rollout, enum gw_log_kind kind,
                      const struct gw_rollout_who *who, struct gw_rollout_change *change)
{
    memset(change, 0, sizeof(*change));
    change->next = *rollout;
    change->next.log_seq++;
    change->next.halted = false;
    change->task_counter = rollout->task->release_counter;
    struct gw_rollout_log_view *line = &change->line;
    line->seq = change->next.log_seq;
    line->wall_us = gw_core_now_us(core);
    line->kind = kind;
    line->record.now_us = line->wall_us;
    line->record.reason = rollout->reason;
    line->record.verdict = rollout->verdict;
    if (who != NULL) {
        base_str_copy(who->by, line->by, sizeof(line->by));
        base_str_copy(who->comment, line->comment, sizeof(line->comment));
    }
}

// Why it went back or was paused: what is found later is told beside it.
static void keep_cause(enum pol_rollout_state before, const struct pol_decision *decision,
                       struct gw_rollout *next)
{
    enum pol_rollout_state after = decision->next.state;
    bool ends = after == POL_ROLLOUT_ROLLING_BACK || after == POL_ROLLOUT_PAUSED;
    if (ends && (after != before || decision->action == POL_ACTION_PAUSE)) {
        next->cause = decision->reason;
    } else if (!ends && after != POL_ROLLOUT_ROLLED_BACK) {
        next->cause = POL_REASON_NONE;
    }
}

void gw_rollout_decide(struct gw_core *core, struct gw_rollout_change *change,
                       const struct pol_decision *decision, const struct pol_counts *counts)
{
    struct gw_rollout *next = &change->next;
    change->line.record.counts = *counts;
    if (next->state.stage_index != decision->next.stage_index) {
        gw_silence_keep(next->release, next->state.stage_index, counts, &next->control_hazard);
        next->lifted.count = 0;
    }
    enum pol_rollout_state before = next->state.state;
    enum pol_rollout_state after = decision->next.state;
    change->line.record.action = decision->action;
    change->line.record.verdict = decision->verdict;
    change->line.record.reason = decision->reason;
    next->revision++;
    next->state = decision->next;
    next->reason = decision->reason;
    if (decision->action != POL_ACTION_FINISH_ROLL_BACK) { // the verdict is that of the cause
        next->verdict = decision->verdict;
        next->failure_ppm = decision->failure_ppm;
        next->shown = decision->shown;
    }
    if (decision->action ==
        POL_ACTION_ADVANCE) { // that was the stage before; nobody is in this one
        next->verdict = POL_VERDICT_NO_DATA;
        next->reason = POL_REASON_NO_COMPLETIONS;
        next->failure_ppm = 0;
        next->shown = (struct pol_test_report){0};
    }
    keep_cause(before, decision, next);
    next->observed_us = 0; // what comes next is news
    next->segments_asked = (struct gw_segments_asked){0};
    next->segments_logged = 0;
    for (uint32_t i = 0; i < GW_STANDING_COUNT; i++) {
        next->paces[i].state = (struct pol_pace_state){0};
    }
    if (after == POL_ROLLOUT_ROLLING_BACK && before != after) {
        next->rollback_since_us = gw_core_now_us(core);
        next->closed_us = 0;
    }
    if ((after == POL_ROLLOUT_COMPLETED || after == POL_ROLLOUT_ROLLED_BACK) && before != after) {
        next->closed_us = gw_core_now_us(core);
    }
}

bool gw_rollout_is_closed(const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_COMPLETED ||
           rollout->state.state == POL_ROLLOUT_ROLLED_BACK;
}

static void take_back(struct gw_task *task, struct gw_rollout *rollout)
{
    if (task->taken_back == NULL ||
        task->taken_back->release->release_counter < rollout->release->release_counter) {
        task->taken_back = rollout;
    }
}

void gw_rollout_tell_tally(struct gw_core *core, struct gw_rollout *rollout)
{
    const struct gw_tally_phase phase = {.stage_now = rollout->state.stage_index,
                                         .open = !gw_rollout_is_closed(rollout),
                                         .offers = gw_rollout_offers_unmarked(core, rollout),
                                         .moved_s = rollout->moved_s};
    gw_tally_set(core->tally, rollout->release->id, &phase);
}

static bool is_base(const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_COMPLETED || rollout->state.guarding;
}

// Where a rollout stands for its task: a baseline, an open one, or nothing any more.
static void link_rollout(struct gw_rollout *rollout)
{
    struct gw_task *task = rollout->task;
    if (is_base(rollout)) {
        gw_task_base(task, rollout);
        return;
    }
    switch (rollout->state.state) {
    case POL_ROLLOUT_ROLLED_BACK:
        take_back(task, rollout);
        break;
    case POL_ROLLOUT_ROLLING_BACK:
        take_back(task, rollout);
        (void)gw_task_open(task, rollout); // one that was undone may be one too many
        break;
    default:
        (void)gw_task_open(task, rollout); // no more than fit were let in
        break;
    }
}

// After a rollout ended, or began to go back after its end: all links of its task anew.
static void relink_task(struct gw_core *core, struct gw_task *task)
{
    task->open_count = 0;
    task->base_count = 0;
    task->taken_back = NULL;
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        if (core->catalog->rollouts[i]->task == task) {
            link_rollout(core->catalog->rollouts[i]);
        }
    }
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

// What ends, or waits for a person, is a figure.
static void count_end(struct gw_core *core, const struct gw_rollout *before,
                      const struct gw_rollout_change *change)
{
    const struct pol_rollout *after = &change->next.state;
    if (after->state == before->state.state) {
        return;
    }
    if (after->state == POL_ROLLOUT_COMPLETED) {
        count(&core->ends.completed);
        if (change->line.record.reason == POL_REASON_GUARD_OVER) {
            count(&core->ends.guards_over);
        }
    } else if (after->state == POL_ROLLOUT_ROLLING_BACK) {
        count(&core->ends.rolled_back);
    } else if (after->state == POL_ROLLOUT_PAUSED && after->stage_failed) {
        count(&core->ends.held);
    }
}

// Every decision is a line of the gateway's log, once. What people do is one already (api), and
// what was only looked at is in the rollout's own log.
static void log_decision(struct gw_core *core, const struct gw_rollout *before,
                         const struct gw_rollout_change *change)
{
    const struct gw_release *release = before->release;
    const struct pol_record *record = &change->line.record;
    enum gw_log_kind kind = change->line.kind;
    if (kind != GW_LOG_DECISION && kind != GW_LOG_KILL && kind != GW_LOG_CLOCK &&
        kind != GW_LOG_QUARANTINE) {
        return;
    }
    // What a person took back had passed a gate before: that is not why it goes.
    bool back = record->after.killed || record->after.state == POL_ROLLOUT_ROLLING_BACK ||
                record->after.state == POL_ROLLOUT_ROLLED_BACK;
    char stage[2 * GW_STAGE_NAME_MAX + 1];
    base_log_info(
        core->log, "rollouts",
        "%s: rollout %016llx is %s: %s; action=%s stage=\"%s\" verdict=%s reason=%s "
        "failure_ratio=%.6f held=%u",
        release->task, (unsigned long long)release->id, pol_rollout_state_name(record->after.state),
        pol_reason_text(record->reason),
        kind == GW_LOG_QUARANTINE ? "quarantine" : pol_action_name(record->action),
        base_log_quoted(release->stage_names[record->after.stage_index], stage, sizeof(stage)),
        pol_verdict_name(back && record->verdict == POL_VERDICT_PASS ? POL_VERDICT_NO_DATA
                                                                     : record->verdict),
        pol_reason_name(record->reason), change->line.failure_ppm / 1e6,
        change->next.quarantine_count);
}

enum base_status gw_rollout_commit(struct gw_core *core, struct gw_rollout *rollout,
                                   struct gw_rollout_change *change)
{
    struct gw_task *task = rollout->task;
    struct gw_rollout_log_view *line = &change->line;
    line->revision = change->next.revision;
    line->failure_ppm = change->next.failure_ppm;
    line->record.after = change->next.state;
    BASE_TRY(gw_rollout_store(core, task, change));
    bool was_closed = gw_rollout_is_closed(rollout);
    bool was_base = is_base(rollout);
    count_end(core, rollout, change);
    log_decision(core, rollout, change);
    *rollout = change->next;
    task->release_counter = change->task_counter;
    gw_rollout_tell_tally(core, rollout);
    if (gw_rollout_is_closed(rollout) != was_closed || is_base(rollout) != was_base) {
        relink_task(core, task);
    }
    gw_rollout_hand_out(core, rollout);
    gw_rollout_quarantine_tell(rollout);
    gw_core_publish(core);
    return BASE_OK;
}

struct base_str gw_rollout_person(const struct gw_rollout_who *who)
{
    return who->person.size > 0 ? who->person : who->by;
}

// ---- Creation

static enum base_status place_for_rollout(struct gw_core *core, uint16_t tenant,
                                          struct base_error *error)
{
    const struct gw_catalog *catalog = core->catalog;
    struct gw_tenant_holding holding = {.tenant = tenant,
                                        .what = "rollouts",
                                        .max = GW_ROLLOUTS_MAX,
                                        .all = catalog->rollout_count};
    for (uint32_t i = 0; i < catalog->rollout_count; i++) {
        holding.own += catalog->rollouts[i]->task->tenant == tenant;
    }
    return gw_tenant_may_add(&holding, error);
}

static enum base_status check_new(struct gw_core *core, const struct gw_release *release,
                                  struct base_error *error)
{
    const struct gw_task *task = gw_catalog_find_task(core, release->task_id);
    struct gw_version_view version;
    if (task == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "task %s: no such task", release->task);
    }
    if (gw_director_kills(core, &release->manifest)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "manifest: the version is on the kill list (walle release unkill "
                              "takes it off)");
    }
    if (gw_catalog_find_rollout(core, release->id) != NULL) {
        return base_error_set(error, BASE_ERR_EXISTS, "id: a rollout has it already");
    }
    if (gw_catalog_version_get(core, base_str_of(release->task), &release->manifest, &version) !=
        BASE_OK) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "manifest: not a registered version of task %s", release->task);
    }
    if (task->open_count == GW_TASK_OPEN_MAX) {
        return base_error_set(
            error, BASE_ERR_CONFLICT,
            "task %s has %u open rollouts, the most there may be; rollout %016llx "
            "is one",
            release->task, GW_TASK_OPEN_MAX, (unsigned long long)task->open[0]->release->id);
    }
    BASE_TRY(gw_statement_counter(release, task->release_counter, error));
    BASE_TRY(place_for_rollout(core, task->tenant, error));
    return gw_statement_check(core, release, 0, error);
}

// What a phone could not hold is refused here, where somebody can still choose.
static enum base_status check_cost(struct gw_core *core, const struct gw_release *release,
                                   struct base_error *error)
{
    const struct gw_set_cost_spec spec = {.task = base_str_of(release->task),
                                          .manifest = release->manifest,
                                          .target = release->target};
    struct gw_set_cost *cost = malloc(sizeof(*cost));
    if (cost == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = gw_set_cost_find(core, &spec, cost, error);
    if (status == BASE_OK && !cost->fits) {
        char text[BASE_ERROR_TEXT_MAX];
        gw_set_cost_text(cost, text);
        status = base_error_set(error, BASE_ERR_CONFLICT, "cost: %s", text);
    }
    free(cost);
    return status;
}

// A target that reaches nobody, mostly because of a typing error, is refused likewise.
static enum base_status check_reach(struct gw_core *core, const struct gw_release *release,
                                    uint16_t tenant, struct base_error *error)
{
    const struct gw_reach_spec ask = {.tenant = tenant,
                                      .target = release->target,
                                      .stages = release->stages,
                                      .stage_count = release->stage_count,
                                      .trust_unproven = release->trust_unproven};
    return gw_reach_check(core, &ask, error);
}

// The log says by itself which devices its verdicts were found from, and what was accepted.
static void say_first(const char *text, struct gw_rollout_log_view *line)
{
    char reason[GW_LOG_REASON_MAX + 1];
    memcpy(reason, line->comment, sizeof(reason));
    snprintf(line->comment, sizeof(line->comment), "%s%s%.150s", text,
             reason[0] != '\0' ? ": " : "", reason);
}

static enum base_status add_rollout(struct gw_core *core, const struct gw_release *release,
                                    bool accept_empty, const struct gw_rollout_who *who,
                                    struct base_error *error)
{
    struct gw_task *task = gw_catalog_find_task(core, release->task_id); // check_new saw it
    struct gw_rollout *rollout = calloc(1, sizeof(*rollout));
    if (rollout == NULL) {
        return BASE_ERR_NOMEM;
    }
    rollout->release = release;
    rollout->task = task;
    rollout->created_us = gw_core_now_us(core);
    rollout->state.state = POL_ROLLOUT_DRAFT;
    rollout->state.stage_since_us = rollout->created_us;
    rollout->reason = POL_REASON_ROLLOUT_NOT_STARTED;
    rollout->accept_empty = accept_empty;
    base_str_copy(gw_rollout_person(who), rollout->created_by, sizeof(rollout->created_by));
    enum base_status status = gw_catalog_insert_rollout(core, rollout);
    if (status == BASE_OK) {
        status = gw_tally_add(core->tally, release);
        if (status == BASE_OK) {
            struct gw_rollout_change change;
            rollout->allowances = gw_tally_allowances(core->tally, release->id);
            rollout->kept_off = gw_tally_kept_off(core->tally, release->id);
            gw_tally_own(core->tally, release->id, task->tenant);
            gw_rollout_begin(core, rollout, GW_LOG_CREATED, who, &change);
            if (accept_empty) {
                say_first("may reach no known device", &change.line);
            }
            if (release->trust_unproven) {
                say_first("unproven devices count", &change.line);
            }
            change.next.revision = 1;
            change.task_counter = release->release_counter;
            status = gw_rollout_commit(core, rollout, &change);
        }
        if (status != BASE_OK) {
            gw_catalog_remove_rollout(core, rollout);
        }
    }
    if (status != BASE_OK) {
        free(rollout);
        return base_error_set(error, status, "the rollout could not be stored: %s",
                              base_status_text(status));
    }
    (void)gw_task_open(task, rollout); // check_new saw that there is room
    gw_release_ref(release);
    return BASE_OK;
}

// All that a rollout is held against before it is made. The caller releases *out_release.
static enum base_status check_create(struct gw_core *core, const struct gw_rollout_spec *spec,
                                     const struct gw_release **out_release,
                                     struct base_error *error)
{
    struct base_buffer bytes;
    const struct gw_release *release = NULL;
    BASE_TRY(gw_clock_check(core, "a new rollout", error));
    base_buffer_init(&bytes, base_alloc_heap(), GW_ROLLOUT_SPEC_BYTES_MAX);
    enum base_status status =
        gw_release_encode(spec, gw_core_checkin_interval_s(core), &bytes, error);
    if (status == BASE_OK) {
        status = gw_release_new(bytes.data, bytes.size, &release, error);
    }
    base_buffer_done(&bytes);
    if (status == BASE_OK) {
        status = check_new(core, release, error);
    }
    if (status == BASE_OK) {
        status = gw_scenario_room(core, release, error);
    }
    if (status == BASE_OK) {
        status = gw_director_check(core, release, error);
    }
    if (status == BASE_OK && !spec->accept_empty) {
        uint16_t tenant = gw_catalog_find_task(core, release->task_id)->tenant; // check_new saw it
        status = check_reach(core, release, tenant, error);
    }
    if (status == BASE_OK && !spec->accept_cost) {
        status = check_cost(core, release, error);
    }
    if (status != BASE_OK) {
        gw_release_unref(release);
        return status;
    }
    *out_release = release;
    return BASE_OK;
}

enum base_status gw_rollout_create(struct gw_core *core, const struct gw_rollout_spec *spec,
                                   const struct gw_rollout_who *who, struct gw_rollout_view *out,
                                   struct base_error *error)
{
    const struct gw_release *release = NULL;
    BASE_TRY(check_create(core, spec, &release, error));
    enum base_status status = add_rollout(core, release, spec->accept_empty, who, error);
    gw_release_unref(release);
    return status == BASE_OK ? gw_rollout_get(core, spec->id, out) : status;
}

// Evidence is for a stage that a start opens.
static enum base_status check_evidence(struct gw_core *core, const struct gw_release *release,
                                       struct base_span envelope, struct base_error *error)
{
    struct wire_evidence evidence;
    if (release->stages[0].kind != POL_STAGE_SIMULATE) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: the first stage is %s, no simulate stage",
                              release->stage_names[0]);
    }
    return gw_evidence_open(core, release, envelope, &evidence, error);
}

enum base_status gw_rollout_check(struct gw_core *core, const struct gw_rollout_spec *spec,
                                  struct base_span evidence, struct base_error *error)
{
    const struct pol_rollout fresh = {.state = POL_ROLLOUT_DRAFT};
    const struct gw_release *release = NULL;
    BASE_TRY(check_create(core, spec, &release, error));
    struct pol_decision decision = pol_rollout_command(
        &fresh, release->stages, release->stage_count, POL_COMMAND_START, gw_core_now_us(core));
    enum base_status status = BASE_OK;
    if (decision.action == POL_ACTION_REFUSE) {
        status =
            base_error_set(error, BASE_ERR_CONFLICT, "start: %s", pol_reason_text(decision.reason));
    }
    if (status == BASE_OK && evidence.data != NULL) {
        status = check_evidence(core, release, evidence, error);
    }
    gw_release_unref(release);
    return status;
}

// ---- Commands

static enum base_status check_who(const struct gw_rollout *rollout, enum pol_command command,
                                  const struct gw_rollout_who *who, struct base_error *error)
{
    if (who != NULL && who->if_revision != 0 && who->if_revision != rollout->revision) {
        return base_error_set(error, BASE_ERR_CONFLICT, "if_revision: the rollout is at %llu",
                              (unsigned long long)rollout->revision);
    }
    if (command == POL_COMMAND_APPROVE) {
        if (who == NULL || gw_rollout_person(who).size == 0) {
            return base_error_set(error, BASE_ERR_INVALID, "by: an approval needs a name");
        }
        if (gw_same_person(gw_rollout_person(who), base_str_of(rollout->created_by))) {
            bool waits =
                rollout->state.state == POL_ROLLOUT_WAITING || gw_simulation_is_pending(rollout);
            return base_error_set(
                error, BASE_ERR_CONFLICT,
                waits ? "approve: %s made the rollout; another person has to approve"
                      : "approve: nothing of it waits for an approval, which would be another "
                        "person's than %s, who made it",
                rollout->created_by);
        }
    }
    return BASE_OK;
}

// What stops a version, or leads back, waits for no clock.
static bool leads_on(enum pol_command command)
{
    return command == POL_COMMAND_START || command == POL_COMMAND_RESUME ||
           command == POL_COMMAND_RESUME_ACCEPT_RISK || command == POL_COMMAND_PROMOTE ||
           command == POL_COMMAND_APPROVE;
}

// Those of the stage that opens with a start or an approval, and of those behind it.
static enum base_status check_statements(struct gw_core *core, const struct gw_rollout *rollout,
                                         enum pol_command command, struct base_error *error)
{
    const struct pol_rollout *state = &rollout->state;
    bool starts = command == POL_COMMAND_START;
    bool opens = starts || (command == POL_COMMAND_APPROVE && state->state == POL_ROLLOUT_WAITING);
    uint32_t first = starts || state->before_first ? 0 : state->stage_index + 1u;
    return opens ? gw_statement_check(core, rollout->release, first, error) : BASE_OK;
}

// The root may have changed since the rollout was made, and devices may have gone.
static enum base_status check_lead(struct gw_core *core, const struct gw_rollout *rollout,
                                   enum pol_command command, const struct gw_rollout_who *who,
                                   struct base_error *error)
{
    bool accepted = rollout->accept_empty || (who != NULL && who->accept_empty);
    BASE_TRY(gw_clock_check(core, pol_command_name(command), error));
    BASE_TRY(gw_scenario_room(core, rollout->release, error));
    BASE_TRY(gw_director_check(core, rollout->release, error));
    BASE_TRY(check_statements(core, rollout, command, error));
    if (command == POL_COMMAND_PROMOTE && gw_simulation_is_missing(rollout)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "promote: the simulate stage has no result: bring evidence, or "
                              "numbers (override) that another person approves");
    }
    return command == POL_COMMAND_START && !accepted
               ? check_reach(core, rollout->release, rollout->task->tenant, error)
               : BASE_OK;
}

static enum base_status refused(const struct gw_rollout *rollout, enum pol_command command,
                                enum pol_reason reason, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_CONFLICT, "%s: %s (the rollout is %s)",
                          pol_command_name(command), pol_reason_text(reason),
                          pol_rollout_state_name(rollout->state.state));
}

enum base_status gw_rollout_check_start(struct gw_core *core, uint64_t id, bool accept_empty,
                                        struct base_span evidence, struct base_error *error)
{
    const struct gw_rollout_who who = {.accept_empty = accept_empty};
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    struct pol_decision decision =
        pol_rollout_command(&rollout->state, rollout->release->stages,
                            rollout->release->stage_count, POL_COMMAND_START, gw_core_now_us(core));
    if (decision.action == POL_ACTION_REFUSE) {
        return refused(rollout, POL_COMMAND_START, decision.reason, error);
    }
    BASE_TRY(check_lead(core, rollout, POL_COMMAND_START, &who, error));
    return evidence.data != NULL ? check_evidence(core, rollout->release, evidence, error)
                                 : BASE_OK;
}

// What the policy makes of the command, stored.
static enum base_status obey(struct gw_core *core, struct gw_rollout *rollout,
                             enum pol_command command, const struct gw_rollout_who *who,
                             struct base_error *error)
{
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_COMMAND, who, &change);
    struct pol_decision decision =
        pol_rollout_command(&rollout->state, rollout->release->stages,
                            rollout->release->stage_count, command, change.line.record.now_us);
    if (decision.action == POL_ACTION_REFUSE) {
        return refused(rollout, command, decision.reason, error);
    }
    if (leads_on(command)) {
        BASE_TRY(check_lead(core, rollout, command, who, error));
    }
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    gw_rollout_seen(core, rollout, &seen, &counts);
    change.line.record.kind = POL_RECORD_COMMAND;
    change.line.record.command = command;
    change.line.rolled_back = seen.rolled_back;
    gw_rollout_decide(core, &change, &decision, &counts);
    enum base_status status = gw_rollout_commit(core, rollout, &change);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "the command could not be stored: %s",
                                              base_status_text(status));
}

enum base_status gw_rollout_end_killed(struct gw_core *core, struct gw_rollout *rollout,
                                       const struct gw_rollout_who *who, struct base_error *error)
{
    return obey(core, rollout, POL_COMMAND_KILL, who, error);
}

// Killed in one, it is killed in all: the list comes first. Of one that a kill ended before, it
// alone may have something to do: its version may have been taken off since.
static enum base_status kill_it(struct gw_core *core, struct gw_rollout *rollout,
                                const struct gw_rollout_who *who, struct base_error *error)
{
    bool created = false;
    BASE_TRY(gw_kill_put(core, &rollout->release->manifest, who, &created, error));
    if (!rollout->state.killed) {
        BASE_TRY(obey(core, rollout, POL_COMMAND_KILL, who, error));
    }
    gw_kill_rollouts(core, &rollout->release->manifest, created, who);
    return BASE_OK;
}

enum base_status gw_rollout_command(struct gw_core *core, uint64_t id, enum pol_command command,
                                    const struct gw_rollout_who *who, struct base_error *error)
{
    struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    BASE_TRY(check_who(rollout, command, who, error));
    if (command == POL_COMMAND_APPROVE && gw_simulation_is_pending(rollout)) {
        BASE_TRY(check_lead(core, rollout, command, who, error));
        return gw_simulation_approve(core, rollout, who, error);
    }
    return command == POL_COMMAND_KILL ? kill_it(core, rollout, who, error)
                                       : obey(core, rollout, command, who, error);
}

// ---- Loading at start

struct load {
    struct gw_core *core;
    struct base_error *error;
    enum base_status status;
};

static enum base_status load_one(struct gw_core *core, struct base_span value,
                                 struct base_error *error)
{
    struct gw_rollout *rollout = NULL;
    BASE_TRY(gw_rollout_decode(value.data, value.size, &rollout, error));
    const struct gw_release *release = rollout->release;
    rollout->task = gw_catalog_find_task(core, release->task_id);
    enum base_status status = rollout->task != NULL ? BASE_OK : BASE_ERR_CORRUPT;
    if (status == BASE_OK) {
        status = gw_tally_add(core->tally, rollout->release);
    }
    if (status == BASE_OK) {
        status = gw_catalog_insert_rollout(core, rollout);
    }
    if (status != BASE_OK) {
        gw_release_unref(rollout->release);
        free(rollout);
        return status;
    }
    rollout->allowances = gw_tally_allowances(core->tally, release->id);
    rollout->kept_off = gw_tally_kept_off(core->tally, release->id);
    gw_rollout_mend_clock(core, rollout);
    gw_tally_own(core->tally, release->id, rollout->task->tenant);
    gw_rollout_tell_tally(core, rollout);
    link_rollout(rollout);
    gw_rollout_quarantine_tell(rollout);
    gw_rollout_hand_out(core, rollout);
    return BASE_OK;
}

static bool load_rollout(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct base_error error = {0};
    load->status = load_one(load->core, value, &error);
    if (load->status != BASE_OK) {
        uint64_t id = 0;
        (void)gw_key_read_u64(key.data, key.size, 0, &id);
        (void)base_error_set(load->error, load->status, "cannot load rollout %016" PRIx64 ": %s",
                             id,
                             error.text[0] != '\0' ? error.text : base_status_text(load->status));
    }
    return load->status == BASE_OK;
}

enum base_status gw_rollouts_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.core = core, .error = error, .status = BASE_OK};
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_ROLLOUTS, &from, load_rollout, &load);
    gw_store_read_end(read);
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot load the rollouts: %s",
                              base_status_text(status));
    }
    // A rollout that cannot be read must not be forgotten silently: devices may be on its version.
    return load.status;
}
