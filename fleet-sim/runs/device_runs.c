// The runs of a virtual device's tasks: the port that its runtime asks, the script in the shard's
// VM, what a bad release makes of it, and when the runtime hears of the end. Called by
// fleet_device.c on the shard's thread.
//
// A script takes no time of the device's. With several runs at once (--runs) a run takes as long as
// its end says, and meanwhile others may begin: which, is the runtime's scheduler's business.
#include "run/fleet.h"

#include "run/device_story.h"
#include "run/fleet_behaviour.h"
#include "runs/kept_end.h"

#include "base/check.h"

#include <stddef.h>
#include <string.h>

static uint32_t runs_max(const struct sim_awake *awake)
{
    uint32_t runs = awake->shard->options->runs;
    return runs > 0 ? runs : 1;
}

bool sim_runs_have_room(const struct sim_awake *awake)
{
    return (uint32_t)awake->runs_asked + awake->runs_late < runs_max(awake);
}

// ---- The port ----

static enum base_status task_start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    struct sim_awake *awake = ctx;
    if (!sim_runs_have_room(awake)) {
        return BASE_ERR_BUSY;
    }
    struct sim_job *copy = &awake->shard->jobs[awake->runs_asked];
    size_t fixed = offsetof(struct wire_manifest, files);
    if (job->file_count > SIM_JOB_FILES_MAX ||
        job->manifest->file_count > WIRE_MANIFEST_FILES_MAX) {
        return BASE_ERR_INVALID;
    }
    copy->job = *job;
    memcpy(&copy->manifest, job->manifest, fixed);
    memcpy(copy->manifest.files, job->manifest->files,
           sizeof(copy->manifest.files[0]) * job->manifest->file_count);
    memcpy(copy->files, job->files, sizeof(copy->files[0]) * job->file_count);
    if (job->attrs != NULL) {
        copy->attrs = *job->attrs;
        copy->job.attrs = &copy->attrs;
    }
    copy->job.manifest = &copy->manifest;
    copy->job.files = copy->files;
    copy->run = run;
    awake->runs_asked++;
    return BASE_OK;
}

static void run_forget(struct sim_awake *awake, struct sim_run *run)
{
    const struct base_alloc_port *alloc = awake->shard->ledger.alloc;
    base_assert(run->end != NULL && awake->runs_late > 0);
    alloc->release(alloc->ctx, run->end);
    run->end = NULL;
    awake->runs_late--;
}

static void task_cancel(void *ctx, uint32_t run)
{
    struct sim_awake *awake = ctx;
    for (uint32_t i = 0; i < awake->runs_asked; i++) {
        struct sim_job *job = &awake->shard->jobs[i];
        job->run = job->run == run ? 0 : job->run;
    }
    for (uint32_t i = 0; i < SIM_RUNS_AT_ONCE; i++) {
        if (awake->runs[i].end != NULL && awake->runs[i].run == run) {
            run_forget(awake, &awake->runs[i]);
        }
    }
}

struct dev_task_port sim_runs_port(struct sim_awake *awake)
{
    return (struct dev_task_port){.ctx = awake, .start = task_start, .cancel = task_cancel};
}

void sim_runs_drop(struct sim_awake *awake)
{
    for (uint32_t i = 0; i < SIM_RUNS_AT_ONCE && awake->runs_late > 0; i++) {
        if (awake->runs[i].end != NULL) {
            run_forget(awake, &awake->runs[i]);
        }
    }
}

// ---- The script ----

// How long a run takes in virtual time: the same on every machine.
static uint64_t run_us(const struct sim_shard *shard, struct sim_awake *awake)
{
    uint64_t draw = sim_draw(shard->options->seed + shard->devices[awake->device].wakes,
                             awake->index, SIM_STREAM_RUN_TIME);
    return sim_faults_run_us(&awake->faulty, SIM_RUN_US_MIN + draw % SIM_RUN_US_SPREAD);
}

static void run_on_vm(struct sim_shard *shard, const struct sim_run_data *data,
                      struct sim_task_end *end)
{
    const struct sim_checks *checks = &shard->runner.checks;
    const struct sim_runs *runs = &shard->runner.runs;
    uint64_t compared = checks->compared + runs->compared;
    uint64_t mismatches = checks->mismatches + runs->mismatches;
    sim_runner_run(&shard->runner, &shard->job->job, data, end);
    shard->ledger.counters.real_compared += checks->compared + runs->compared - compared;
    shard->ledger.counters.memo_mismatches += checks->mismatches + runs->mismatches - mismatches;
}

// The job at hand is run to its end. `plain`: its files are verified and nothing is injected, so in
// virtual time the run may be one that another device has made.
static void run_script(struct sim_awake *awake, bool plain, struct sim_task_end *end)
{
    struct sim_shard *shard = awake->shard;
    struct sim_run_data data = sim_behaving_data(awake);
    memset(end, 0, sizeof(*end));
    data.slower = sim_faults_slower(&awake->faulty);
    data.shares = shard->virtual_time && plain && awake->active == NULL && data.slower == 1;
    if (sim_faults_heap_refused(&awake->faulty, shard->job->manifest.heap_kib)) {
        sim_task_end_set(end, WIRE_OUTCOME_FAIL_MEMORY, 0, base_status_text(BASE_ERR_NOMEM));
    } else {
        run_on_vm(shard, &data, end);
    }
    if (shard->virtual_time) { // what the script took here says nothing of a phone
        end->end.duration_us = run_us(shard, awake) * data.slower + end->waited_us;
        end->end.phases = (struct dev_task_phases){.prepare_us = 0};
    }
}

// ---- Ends ----

static void tell_end(struct sim_awake *awake, const struct sim_run *run,
                     const struct sim_task_end *end, uint64_t now_us)
{
    struct sim_shard *shard = awake->shard;
    sim_shard_note(shard, awake->index, SIM_EVENT_RUN, (uint64_t)end->end.outcome);
    sim_story_ran(awake, end);
    if (run->followed) {
        const struct sim_run_end told = {run->version, end->end.outcome, end->end.detail};
        sim_ledger_run_ended(&shard->ledger, awake->device, &told, sim_shard_ms(shard, now_us));
    }
    dev_on_task_end(awake->runtime, run->run, &end->end);
}

// What an injected rule makes of a run that really happened. True when the end comes later.
static bool injected(const struct dev_task_job *job, const struct sim_bad_rule *rule,
                     struct sim_task_end *end, uint32_t *out_delay_ms)
{
    uint32_t time_ms = job->manifest->time_ms;
    switch (rule->behaviour) {
    case SIM_BEHAVIOUR_EXCEPTION:
        sim_task_end_set(end, WIRE_OUTCOME_FAIL_EXCEPTION, end->end.duration_us,
                         "RuntimeError: injected (bad_release:1)");
        return false;
    case SIM_BEHAVIOUR_WRONG:
        sim_task_end_set(end, WIRE_OUTCOME_FAIL_OUTPUT, end->end.duration_us,
                         "wrong output: injected");
        return false;
    case SIM_BEHAVIOUR_HANG:
        *out_delay_ms = time_ms > 0 ? time_ms : DEV_VM_TIME_MS_DEFAULT;
        sim_task_end_set(end, WIRE_OUTCOME_FAIL_TIMEOUT, (uint64_t)*out_delay_ms * 1000,
                         "time budget used up: injected");
        return true;
    case SIM_BEHAVIOUR_SLOW:
        *out_delay_ms = rule->amount;
        end->end.duration_us += (uint64_t)rule->amount * 1000;
        return true;
    default:
        return false;
    }
}

static const struct sim_bad_rule *rule_for(struct sim_shard *shard, struct sim_awake *awake,
                                           uint8_t version)
{
    if (shard->options->bad.rule_count == 0 || (shard->ledger.bad_mask & (1ull << version)) == 0) {
        return NULL;
    }
    struct pol_attr items[SIM_ATTRS_COUNT];
    struct pol_attrs attrs;
    sim_traits_policy(&awake->traits, items, &attrs);
    return sim_bad_release_hit(&shard->options->bad, shard->options->seed,
                               &(struct sim_bad_run){
                                   .device = sim_shard_index(shard, awake->device),
                                   .activation = shard->ledger.entries[awake->device].activations,
                                   .index = shard->job->job.run_index,
                                   .attrs = &attrs,
                               });
}

// In the simulate stage it is known whose the exclusive files are. False: not this device's.
static bool exclusive_ok(struct sim_shard *shard, const struct sim_awake *awake,
                         const struct dev_task_job *job)
{
    bool ok = true;
    for (uint32_t i = job->manifest->file_count; shard->options->local && i < job->file_count;
         i++) {
        ok = ok && sim_exclusive_owns(&shard->exclusive, awake->id, &job->files[i].digest);
    }
    shard->ledger.counters.exclusive_runs += job->file_count > job->manifest->file_count ? 1 : 0;
    return ok;
}

// The end is told when the run has taken its time. False: there is no memory to keep it.
static bool tell_later(struct sim_awake *awake, const struct sim_run *run,
                       const struct sim_task_end *end)
{
    uint32_t place = 0;
    while (place < SIM_RUNS_AT_ONCE && awake->runs[place].end != NULL) {
        place++;
    }
    base_check(place < SIM_RUNS_AT_ONCE);
    struct sim_task_end *kept = sim_end_keep(awake->shard->ledger.alloc, end);
    if (kept == NULL) {
        return false;
    }
    awake->runs[place] = *run;
    awake->runs[place].end = kept;
    awake->runs_late++;
    return true;
}

static void died_running(struct sim_awake *awake, const struct sim_run *run, uint64_t now_us)
{
    struct sim_shard *shard = awake->shard;
    const struct sim_run_end told = {run->version, WIRE_OUTCOME_FAIL_CRASH,
                                     BASE_STR("the process died: injected")};
    sim_ledger_run_ended(&shard->ledger, awake->device, &told, sim_shard_ms(shard, now_us));
    sim_device_kill(shard, awake, now_us);
}

// The job at hand. False when the device was killed by it.
static bool play(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    const struct dev_task_job *job = &shard->job->job;
    uint8_t version = sim_shard_version(shard, &job->version);
    sim_shard_describe(shard, version, job->manifest);
    bool verified = sim_task_verified(shard->store, job) && exclusive_ok(shard, awake, job);
    bool permitted =
        sim_versions_allowed(shard->versions, version, awake->id, sim_traits_beta(&awake->traits));
    struct sim_run run = {
        .run = shard->job->run,
        .version = version,
        .followed = !job->shadow && wire_task_id(job->manifest->task_name) == shard->ledger.task_id,
    };
    sim_ledger_run_started(&shard->ledger, awake->device, run.followed ? version : SIM_VERSION_NONE,
                           verified, permitted);
    const struct sim_bad_rule *rule = rule_for(shard, awake, version);
    sim_story_runs(awake, rule != NULL);
    if (rule != NULL && rule->behaviour == SIM_BEHAVIOUR_CRASH) {
        died_running(awake, &run, now_us);
        return false;
    }
    if (sim_faults_run_killed(&awake->faulty)) {
        sim_device_kill(shard, awake, now_us);
        return false;
    }
    struct sim_task_end end;
    run_script(awake, verified && rule == NULL, &end);
    (void)sim_shard_now(shard); // that took a while
    uint32_t delay_ms = 0;
    bool later = rule != NULL && injected(job, rule, &end, &delay_ms);
    if (!later && runs_max(awake) > 1) {
        delay_ms = (uint32_t)((end.end.duration_us + 999) / 1000);
        later = true;
    }
    run.due_ms = sim_shard_ms(shard, now_us) + delay_ms;
    if (!later || !tell_later(awake, &run, &end)) {
        tell_end(awake, &run, &end, now_us);
    }
    return true;
}

bool sim_runs_play(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    uint32_t asked = awake->runs_asked;
    awake->runs_asked = 0;
    if (awake->active != NULL) { // a version's first run comes before the session's next turn
        sim_active_declare(awake->active);
    }
    bool alive = true;
    for (uint32_t i = 0; i < asked && alive; i++) {
        shard->job = &shard->jobs[i];
        alive = shard->job->run == 0 || play(shard, awake, now_us);
    }
    return alive;
}

// ---- Later ends ----

// Of those under way the one whose end is told first; NULL: there is none.
static struct sim_run *first_due(struct sim_awake *awake)
{
    struct sim_run *first = NULL;
    for (uint32_t i = 0; i < SIM_RUNS_AT_ONCE && awake->runs_late > 0; i++) {
        struct sim_run *run = &awake->runs[i];
        bool sooner = run->end != NULL && (first == NULL || run->due_ms < first->due_ms);
        first = sooner ? run : first;
    }
    return first;
}

uint32_t sim_runs_due_ms(const struct sim_awake *awake)
{
    const struct sim_run *first = first_due((struct sim_awake *)(uintptr_t)awake);
    return first != NULL ? first->due_ms : SIM_WHEEL_NONE;
}

void sim_runs_tell(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    struct sim_run *run = first_due(awake);
    while (run != NULL && run->due_ms <= sim_shard_ms(shard, now_us)) {
        const struct sim_run told = *run;
        run->end = NULL; // nobody cancels it now
        awake->runs_late--;
        tell_end(awake, &told, told.end, now_us);
        shard->ledger.alloc->release(shard->ledger.alloc->ctx, told.end);
        run = first_due(awake);
    }
}
