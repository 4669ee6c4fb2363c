// Rollouts: creation, commands, the controller. Control thread; see rollouts.h.
//
// Every change goes the same way: the policy decides, the change and its log line are written in
// one transaction, and only then memory follows and the workers get a new plan. A crash in between
// loses nothing: the next start reads the new state.
#include "svc/rollouts.h"

#include "svc/rollout_state.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// ---- Views

static void view_rollout(struct gw_core *core, const struct gw_rollout *rollout,
                         struct gw_rollout_view *out)
{
    const struct gw_release *release = rollout->release;
    memset(out, 0, sizeof(*out));
    out->id = release->id;
    memcpy(out->task, release->task, sizeof(out->task));
    out->manifest = release->manifest;
    out->version_id = release->version_id;
    out->salt = release->salt;
    out->release_counter = release->release_counter;
    out->created_s = rollout->created_us / 1000000u;
    out->stage_since_s = rollout->state.stage_since_us / 1000000u;
    out->execution_timeout_s = release->execution_timeout_s;
    out->state = rollout->state.state;
    out->stage_failed = rollout->state.stage_failed;
    out->stage_index = rollout->state.stage_index;
    out->stage_count = release->stage_count;
    out->verdict = rollout->verdict;
    out->reason = rollout->reason;
    out->failure_ppm = rollout->failure_ppm;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        memcpy(out->stages[i].name, release->stage_names[i], sizeof(out->stages[i].name));
        out->stages[i].kind = release->stages[i].kind;
        out->stages[i].max_bucket = release->stages[i].max_bucket;
        out->stages[i].gate = release->stages[i].gate;
    }
    gw_tally_view(core->tally, gw_core_now_s(core), out);
    if (release->stages[0].kind == POL_STAGE_SIMULATE && rollout->has_simulation) {
        struct gw_rollout_counts *counts = &out->stages[0].counts;
        counts->succeeded = rollout->simulation_completed - rollout->simulation_failed;
        counts->failed = rollout->simulation_failed;
    }
}

enum base_status gw_rollout_get(struct gw_core *core, uint64_t id, struct gw_rollout_view *out)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    view_rollout(core, rollout, out);
    return BASE_OK;
}

void gw_rollout_list(struct gw_core *core, uint64_t after, uint32_t limit,
                     struct gw_rollout_view *out, uint32_t *out_count, bool *out_more)
{
    uint32_t count = 0;
    bool more = false;
    limit = limit < GW_PAGE_MAX ? limit : GW_PAGE_MAX;
    for (uint32_t i = 0; i < core->catalog.rollout_count && !more; i++) {
        const struct gw_rollout *rollout = core->catalog.rollouts[i];
        if (rollout->release->id <= after) {
            continue;
        }
        if (count == limit) {
            more = true;
        } else {
            view_rollout(core, rollout, &out[count++]);
        }
    }
    *out_count = count;
    *out_more = more;
}

// ---- Changes

static void copy_text(char *out, size_t capacity, struct base_str text)
{
    size_t size = text.size < capacity ? text.size : capacity - 1;
    if (size > 0) {
        memcpy(out, text.data, size);
    }
    out[size] = 0;
}

static void begin_change(struct gw_core *core, const struct gw_rollout *rollout,
                         enum gw_log_kind kind, const char *what, const struct gw_rollout_who *who,
                         struct gw_rollout_change *change)
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
    copy_text(line->what, sizeof(line->what), base_str_of(what));
    if (who != NULL) {
        copy_text(line->by, sizeof(line->by), who->by);
        copy_text(line->comment, sizeof(line->comment), who->comment);
    }
}

// Puts the policy's decision into the change.
static void decide_change(const struct gw_core *core, struct gw_rollout_change *change,
                          const struct pol_decision *decision)
{
    struct gw_rollout *next = &change->next;
    enum pol_rollout_state before = next->state.state;
    enum pol_rollout_state after = decision->next.state;
    next->state = decision->next;
    next->verdict = decision->verdict;
    next->reason = decision->reason;
    next->failure_ppm = decision->failure_ppm;
    if (after == POL_ROLLOUT_ROLLING_BACK && before != after) {
        next->rollback_since_us = gw_core_now_us(core);
    }
    if ((after == POL_ROLLOUT_COMPLETED || after == POL_ROLLOUT_ROLLED_BACK) && before != after) {
        next->closed_us = gw_core_now_us(core);
    }
    if (after == POL_ROLLOUT_COMPLETED) {
        change->task_baseline = next->release->id;
    }
}

static void fill_line(struct gw_rollout_change *change)
{
    struct gw_rollout_log_view *line = &change->line;
    const struct gw_rollout *next = &change->next;
    line->stage_index = next->state.stage_index;
    line->failure_ppm = next->failure_ppm;
    copy_text(line->state, sizeof(line->state),
              base_str_of(pol_rollout_state_name(next->state.state)));
    copy_text(line->verdict, sizeof(line->verdict), base_str_of(pol_verdict_name(next->verdict)));
    copy_text(line->reason_name, sizeof(line->reason_name),
              base_str_of(pol_reason_name(next->reason)));
    copy_text(line->reason_text, sizeof(line->reason_text),
              base_str_of(pol_reason_text(next->reason)));
}

static bool is_closed(const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_COMPLETED ||
           rollout->state.state == POL_ROLLOUT_ROLLED_BACK;
}

// Stores the change; memory, tally and plan follow.
static enum base_status commit_change(struct gw_core *core, struct gw_rollout *rollout,
                                      struct gw_rollout_change *change)
{
    struct gw_task *task = rollout->task;
    fill_line(change);
    BASE_TRY(gw_rollout_store(core, task, change));
    bool was_closed = is_closed(rollout);
    *rollout = change->next;
    task->release_counter = change->task_counter;
    gw_tally_set(core->tally, rollout->release->id, rollout->state.stage_index,
                 !is_closed(rollout));
    if (is_closed(rollout) && !was_closed) {
        task->open = NULL;
        if (rollout->state.state == POL_ROLLOUT_COMPLETED) {
            task->baseline = rollout;
        } else {
            gw_task_retire(task, rollout);
        }
    }
    gw_core_publish(core);
    return BASE_OK;
}

// ---- The controller

static void stage_counts(struct gw_core *core, const struct gw_rollout *rollout,
                         struct gw_rollout_counts *out)
{
    const struct gw_release *release = rollout->release;
    uint32_t stage = rollout->state.stage_index;
    if (release->stages[stage].kind == POL_STAGE_SIMULATE) {
        memset(out, 0, sizeof(*out));
        if (rollout->has_simulation) {
            out->offered = rollout->simulation_completed;
            out->downloaded = rollout->simulation_completed;
            out->activated = rollout->simulation_completed;
            out->succeeded = rollout->simulation_completed - rollout->simulation_failed;
            out->failed = rollout->simulation_failed;
        }
        return;
    }
    (void)gw_tally_counts(core->tally, release->id, stage, gw_core_now_s(core), out);
}

static uint64_t left_to_roll_back(struct gw_core *core, const struct gw_rollout *rollout)
{
    // Devices that did not come back within the execution timeout cannot be reached now; they are
    // offered the way back whenever they come, also after the rollout is closed.
    uint64_t limit_us = (uint64_t)rollout->release->execution_timeout_s * 1000000u;
    if (gw_core_now_us(core) >= rollout->rollback_since_us + limit_us) {
        return 0;
    }
    struct gw_rollout_counts all;
    (void)gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                          gw_core_now_s(core), &all);
    return all.on_version;
}

static bool tick_rollout(struct gw_core *core, struct gw_rollout *rollout)
{
    if (rollout->state.state == POL_ROLLOUT_DRAFT || is_closed(rollout)) {
        return false;
    }
    struct gw_rollout_counts seen;
    stage_counts(core, rollout, &seen);
    struct pol_counts counts = {
        .offered = seen.offered,
        .downloaded = seen.downloaded,
        .activated = seen.activated,
        .succeeded = seen.succeeded,
        .failed = seen.failed,
        .timed_out = seen.timed_out,
        .not_applicable = seen.not_applicable,
    };
    if (rollout->state.state == POL_ROLLOUT_ROLLING_BACK) {
        counts.to_roll_back = left_to_roll_back(core, rollout);
    }
    struct pol_decision decision =
        pol_rollout_tick(&rollout->state, rollout->release->stages, rollout->release->stage_count,
                         &counts, gw_core_now_us(core));
    if (decision.action == POL_ACTION_HOLD || decision.action == POL_ACTION_REFUSE) {
        rollout->verdict = decision.verdict;
        rollout->reason = decision.reason;
        rollout->failure_ppm = decision.failure_ppm;
        return false;
    }
    struct gw_rollout_change change;
    begin_change(core, rollout, GW_LOG_DECISION, pol_action_name(decision.action), NULL, &change);
    change.line.counts = seen;
    decide_change(core, &change, &decision);
    if (commit_change(core, rollout, &change) != BASE_OK) {
        base_log_debug(core->log, "rollouts", "a decision could not be stored; it is taken again");
        // A full disk must not keep a bad version going: it is offered to nobody until then.
        if (decision.action == POL_ACTION_ROLL_BACK && !rollout->halted) {
            rollout->halted = true;
            gw_core_publish(core);
        }
        return false;
    }
    atomic_fetch_add_explicit(&core->decisions, 1, memory_order_relaxed);
    return true;
}

bool gw_rollouts_tick(struct gw_core *core)
{
    bool changed = false;
    for (uint32_t i = 0; i < core->catalog.task_count; i++) {
        struct gw_rollout *open = core->catalog.tasks[i]->open;
        if (open != NULL && tick_rollout(core, open)) {
            changed = true;
        }
    }
    return changed;
}

// ---- Creation

static enum base_status check_new(struct gw_core *core, const struct gw_release *release,
                                  struct gw_task **out_task, struct base_error *error)
{
    struct gw_task *task = gw_catalog_find_task(core, release->task_id);
    struct gw_version_view version;
    if (task == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "task %s: no such task", release->task);
    }
    if (gw_director_kills(core, &release->manifest)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "manifest: the version is on the kill list");
    }
    if (gw_catalog_find_rollout(core, release->id) != NULL) {
        return base_error_set(error, BASE_ERR_EXISTS, "id: a rollout has it already");
    }
    if (gw_catalog_version_get(core, base_str_of(release->task), &release->manifest, &version) !=
        BASE_OK) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "manifest: not a registered version of task %s", release->task);
    }
    if (task->open != NULL) {
        return base_error_set(error, BASE_ERR_CONFLICT, "rollout %016llx of task %s is open",
                              (unsigned long long)task->open->release->id, release->task);
    }
    if (release->release_counter <= task->release_counter) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "release_counter %llu is not above the task's %llu",
                              (unsigned long long)release->release_counter,
                              (unsigned long long)task->release_counter);
    }
    if (task->baseline == NULL && release->revert_kind != WIRE_RELEASE_REMOVE) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "revert: the task has no baseline, so it must be REMOVE");
    }
    if (task->baseline != NULL &&
        (release->revert_kind != WIRE_RELEASE_REVERT ||
         release->revert_version_id != task->baseline->release->version_id)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "revert: it must be REVERT to the task's baseline");
    }
    if (core->catalog.rollout_count >= GW_ROLLOUTS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "there are %u rollouts, the most there may be",
                              GW_ROLLOUTS_MAX);
    }
    *out_task = task;
    return BASE_OK;
}

static enum base_status add_rollout(struct gw_core *core, struct gw_release *release,
                                    const struct gw_rollout_who *who, struct gw_rollout_view *out,
                                    struct base_error *error)
{
    struct gw_task *task = NULL;
    BASE_TRY(check_new(core, release, &task, error));
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
    enum base_status status = gw_catalog_insert_rollout(core, rollout);
    if (status == BASE_OK) {
        status = gw_tally_add(core->tally, release->id, release->stage_count,
                              release->execution_timeout_s);
        if (status == BASE_OK) {
            struct gw_rollout_change change;
            begin_change(core, rollout, GW_LOG_CREATED, "create", who, &change);
            change.task_counter = release->release_counter + 1; // the revert statement's
            status = commit_change(core, rollout, &change);
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
    task->open = rollout;
    gw_release_ref(release);
    view_rollout(core, rollout, out);
    return BASE_OK;
}

enum base_status gw_rollout_create(struct gw_core *core, const struct gw_rollout_spec *spec,
                                   const struct gw_rollout_who *who, struct gw_rollout_view *out,
                                   struct base_error *error)
{
    struct base_buffer bytes;
    struct gw_release *release = NULL;
    base_buffer_init(&bytes, base_alloc_heap(), GW_ROLLOUT_SPEC_BYTES_MAX);
    enum base_status status = gw_release_encode(spec, &bytes, error);
    if (status == BASE_OK) {
        status = gw_release_new(bytes.data, bytes.size, &release, error);
    }
    if (status == BASE_OK) {
        status = add_rollout(core, release, who, out, error);
    }
    gw_release_unref(release);
    base_buffer_done(&bytes);
    return status;
}

// ---- Commands

enum base_status gw_rollout_command(struct gw_core *core, uint64_t id, enum pol_command command,
                                    const struct gw_rollout_who *who, struct gw_rollout_view *out,
                                    struct base_error *error)
{
    struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    struct pol_decision decision = pol_rollout_command(
        &rollout->state, rollout->release->stage_count, command, gw_core_now_us(core));
    if (decision.action == POL_ACTION_REFUSE) {
        return base_error_set(error, BASE_ERR_CONFLICT, "%s: %s (the rollout is %s)",
                              pol_command_name(command), pol_reason_text(decision.reason),
                              pol_rollout_state_name(rollout->state.state));
    }
    struct gw_rollout_change change;
    begin_change(core, rollout, GW_LOG_COMMAND, pol_command_name(command), who, &change);
    stage_counts(core, rollout, &change.line.counts);
    decide_change(core, &change, &decision);
    enum base_status status = commit_change(core, rollout, &change);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the command could not be stored: %s",
                              base_status_text(status));
    }
    view_rollout(core, rollout, out);
    return BASE_OK;
}

enum base_status gw_rollout_simulation(struct gw_core *core, uint64_t id, uint64_t completed,
                                       uint64_t failed, const struct gw_rollout_who *who,
                                       struct gw_rollout_view *out, struct base_error *error)
{
    struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    if (failed > completed) {
        return base_error_set(error, BASE_ERR_INVALID, "failed: more than completed");
    }
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    if (rollout->state.state != POL_ROLLOUT_RUNNING || stage->kind != POL_STAGE_SIMULATE) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "the rollout is not in a running simulate stage");
    }
    struct gw_rollout_change change;
    begin_change(core, rollout, GW_LOG_SIMULATION, "simulation", who, &change);
    change.next.has_simulation = true;
    change.next.simulation_completed = completed;
    change.next.simulation_failed = failed;
    stage_counts(core, &change.next, &change.line.counts);
    enum base_status status = commit_change(core, rollout, &change);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the result could not be stored: %s",
                              base_status_text(status));
    }
    (void)tick_rollout(core, rollout);
    view_rollout(core, rollout, out);
    return BASE_OK;
}

// ---- Loading at start

struct load {
    struct gw_core *core;
    enum base_status status;
};

static void link_rollout(struct gw_rollout *rollout)
{
    struct gw_task *task = rollout->task;
    switch (rollout->state.state) {
    case POL_ROLLOUT_COMPLETED:
        if (task->baseline == NULL || task->baseline->closed_us < rollout->closed_us) {
            task->baseline = rollout;
        }
        break;
    case POL_ROLLOUT_ROLLED_BACK:
        gw_task_retire(task, rollout);
        break;
    default:
        task->open = rollout;
        break;
    }
}

static enum base_status load_one(struct gw_core *core, struct gw_span value)
{
    struct gw_rollout *rollout = NULL;
    BASE_TRY(gw_rollout_decode(value.data, value.size, &rollout));
    const struct gw_release *release = rollout->release;
    rollout->task = gw_catalog_find_task(core, release->task_id);
    enum base_status status = rollout->task != NULL ? BASE_OK : BASE_ERR_CORRUPT;
    if (status == BASE_OK) {
        status = gw_tally_add(core->tally, release->id, release->stage_count,
                              release->execution_timeout_s);
    }
    if (status == BASE_OK) {
        status = gw_catalog_insert_rollout(core, rollout);
    }
    if (status != BASE_OK) {
        gw_release_unref(rollout->release);
        free(rollout);
        return status;
    }
    // The wall clock may have gone back meanwhile; a stage did not begin in the future.
    uint64_t now_us = gw_core_now_us(core);
    if (rollout->state.stage_since_us > now_us) {
        rollout->state.stage_since_us = now_us;
    }
    if (rollout->rollback_since_us > now_us) {
        rollout->rollback_since_us = now_us;
    }
    gw_tally_set(core->tally, release->id, rollout->state.stage_index, !is_closed(rollout));
    link_rollout(rollout);
    return BASE_OK;
}

static bool load_rollout(void *ctx, struct gw_span key, struct gw_span value)
{
    struct load *load = ctx;
    (void)key;
    load->status = load_one(load->core, value);
    return load->status == BASE_OK;
}

enum base_status gw_rollouts_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.core = core, .status = BASE_OK};
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_ROLLOUTS, &from, load_rollout, &load);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        status = load.status;
    }
    // A rollout that cannot be read must not be forgotten silently: devices may be on its version.
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load the rollouts: %s",
                                              base_status_text(status));
}
