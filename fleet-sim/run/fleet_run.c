// The coordinator. Runs on the main thread: it starts the shards, watches them and the gateway once
// a second, decides when the run is over, and writes what came of it. fleet_main.c calls it. Shards
// publish copies of their counters in a mailbox, under its lock; all else of a shard is read here
// only after its thread was joined. What the reports need is gathered once then.
#include "run/fleet_run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/output_file.h"
#include "model/model_store.h"
#include "report/evidence_file.h"
#include "ports/sim_upstream.h"
#include "base/os/folder.h"
#include "report/run_summary.h"
#include "run/fleet_behaviour.h"
#include "run/fleet_enrol.h"
#include "run/fleet_metrics.h"
#include "run/fleet_outcome.h"
#include "run/fleet_settle.h"
#include "run/fleet_trust.h"
#include "run/fleet_virtual.h"
#include "run/gateway_watch.h"
#include "run/live_view.h"
#include "run/preflight.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLL_US         100000
#define LOOK_US         3000000 // for what the gateway says of the rollout
#define ROW_S           1.0
#define SETTLE_S        2.0  // after the goal: reports under way arrive
#define ROLL_BACK_MAX_S 60.0 // for devices to leave a bad version after the rollout ended
#define VIRTUAL_BACK_S  1800 // likewise where waiting costs nothing: several check-ins

struct sim_fleet {
    const struct sim_options *options;
    FILE *log;
    struct sim_versions versions;
    struct sim_sessions sessions;
    struct dev_model_store *models; // of all shards
    struct sim_cloud *cloud;        // likewise; NULL: there is none
    struct sim_given *given;        // likewise
    struct sim_credentials *credentials;
    struct sim_shard *shards[SIM_SHARDS_MAX];
    uint32_t shard_count;
    uint32_t started;
    struct event_base *base;
    struct h2_tls *tls;
    struct sim_watch *watch;
    struct sim_upstream *upstream;
    struct sim_metrics *metrics; // NULL: nobody asked for them
    struct sim_timeline timeline;
    struct sim_live live;
    struct sim_virtual *virtual; // NULL: real time
    struct base_clock_port clock;
    uint64_t start_us;
    struct sim_counters counters; // summed at the last row
    struct base_hist lag_us;      // likewise, since the start
    struct base_hist checkin_us;
    double goal_s; // when the goal was reached; negative: not yet
    double bad_s;  // when a bad version was last seen active; negative: never
    struct sim_rest rest;
    char last_stage[SIM_MARK_TEXT];
    bool stopped; // by a signal, before its end
    struct sim_run_result result;
};

static double seconds(const struct sim_fleet *fleet)
{
    return (double)(fleet->clock.mono_us(fleet->clock.ctx) - fleet->start_us) / 1e6;
}

// ---- Start ----

static void metrics_read(void *ctx, struct sim_metrics_now *out)
{
    struct sim_fleet *fleet = ctx;
    *out = (struct sim_metrics_now){.options = fleet->options,
                                    .versions = &fleet->versions,
                                    .running_s = seconds(fleet),
                                    .counters = &fleet->counters,
                                    .lag_us = &fleet->lag_us,
                                    .checkin_us = &fleet->checkin_us};
}

static enum base_status metrics_start(struct sim_fleet *fleet, struct base_error *error)
{
    const struct sim_metrics_options options = {
        .base = fleet->base,
        .address = fleet->options->metrics_address,
        .port = fleet->options->metrics_port,
        .source = {.ctx = fleet, .read = metrics_read},
    };
    if (options.address[0] == '\0') {
        return BASE_OK;
    }
    BASE_TRY(sim_metrics_new(&options, &fleet->metrics, error));
    bool framed = strchr(options.address, ':') != NULL;
    (void)fprintf(fleet->log, "  metrics     http://%s%s%s:%u/metrics\n", framed ? "[" : "",
                  options.address, framed ? "]" : "", sim_metrics_port(fleet->metrics));
    (void)fflush(fleet->log);
    return BASE_OK;
}

static enum base_status mark_bad_versions(struct sim_fleet *fleet)
{
    const struct sim_options *options = fleet->options;
    for (uint32_t i = 0; i < options->bad_version_count; i++) {
        struct wire_sha256 digest;
        // A label is matched once a version says that it has it.
        if (wire_sha256_parse(base_str_of(options->bad_versions[i]), &digest) == BASE_OK &&
            !sim_versions_mark_bad(&fleet->versions, &digest)) {
            return BASE_ERR_LIMIT;
        }
    }
    return BASE_OK;
}

// False: the version of the simulate stage has no triggers to walk, so nobody needs to behave.
static bool can_walk(const struct sim_fleet *fleet, const struct sim_shard *shard)
{
    return !fleet->options->local || fleet->sessions.kind != SIM_SESSIONS_TRIGGERS ||
           shard->local.manifest.declaration.size > 0;
}

static enum base_status shards_init(struct sim_fleet *fleet, struct base_error *error)
{
    const struct sim_options *options = fleet->options;
    uint32_t first = 0;
    if (dev_model_store_new(0, &fleet->models) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    BASE_TRY(sim_fleet_cloud(options, fleet->models, &fleet->cloud, error));
    if (options->give[0] != '\0') {
        BASE_TRY(sim_given_new(options->give, &fleet->given, error));
    }
    const uint32_t shards = sim_options_shards(options);
    _Static_assert(SIM_THREADS_MAX <= SIM_SHARDS_MAX, "a place for each");
    for (uint32_t i = 0; i < shards; i++) {
        uint32_t count = options->devices / shards + (i < options->devices % shards ? 1 : 0);
        struct sim_shard *shard = calloc(1, sizeof(*shard));
        if (shard == NULL) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
        fleet->shards[fleet->shard_count++] = shard;
        struct sim_share share = {.number = i, .first = first, .count = count};
        if (fleet->virtual != NULL) {
            sim_virtual_share(fleet->virtual, &share);
        }
        enum base_status status = sim_shard_init(shard, &share, options, &fleet->versions);
        if (status != BASE_OK) {
            return base_error_set(error, status, "cannot set up the devices: %s",
                                  base_status_text(status));
        }
        shard->runner.model_store = fleet->models;
        shard->given = fleet->given;
        BASE_TRY(sim_shard_cloud(shard, fleet->cloud, error));
        if (options->local) {
            BASE_TRY(sim_local_load(shard, options, error));
        }
        shard->credentials = fleet->credentials;
        BASE_TRY(sim_enrol_check(shard, error));
        if (!can_walk(fleet, shard)) {
            fleet->sessions.kind = SIM_SESSIONS_NONE;
        }
        if (sim_behaving_init(shard, &fleet->sessions) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
        first += count;
    }
    if (fleet->virtual != NULL) {
        BASE_TRY(sim_virtual_attach(fleet->virtual, fleet->shards, error));
    }
    return sim_fleet_faults_wrap(fleet->shards, fleet->shard_count, error);
}

static void on_poll(evutil_socket_t socket, short what, void *ctx)
{
    (void)socket, (void)what, (void)ctx; // only ends the wait
}

static void poll_once(struct sim_fleet *fleet)
{
    struct timeval span = {0, POLL_US};
    (void)event_base_once(fleet->base, -1, EV_TIMEOUT, on_poll, NULL, &span);
    (void)event_base_loop(fleet->base, EVLOOP_ONCE);
}

// What the gateway says now. In the end it is asked twice: the second answer is all of then, and
// the rollout may have ended since it was asked last. Before the devices come it is asked once:
// what it counts by then is not of this run.
static void look(struct sim_fleet *fleet, uint32_t times)
{
    uint64_t until_us = base_clock_mono_us() + LOOK_US;
    for (uint32_t i = 0; fleet->watch != NULL && i < times; i++) {
        sim_watch_ask(fleet->watch);
        while (sim_watch_waits(fleet->watch) && base_clock_mono_us() < until_us) {
            poll_once(fleet);
        }
    }
}

static void *shard_main(void *shard)
{
    sim_shard_run(shard);
    return NULL;
}

static enum base_status fleet_start(struct sim_fleet *fleet, struct base_error *error)
{
    const struct sim_options *options = fleet->options;
    struct base_error why;
    if (base_folder_make(options->out, &why) != BASE_OK) {
        return base_error_set(error, BASE_ERR_IO, "--out %s (a folder for the reports)", why.text);
    }
    if (options->virtual_dir[0] != '\0') {
        BASE_TRY(sim_virtual_new(options, &fleet->virtual, error));
        fleet->clock = *sim_virtual_clock(fleet->virtual);
    }
    fleet->base = event_base_new();
    if (fleet->base == NULL || sim_timeline_init(&fleet->timeline, base_alloc_heap()) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    BASE_TRY(metrics_start(fleet, error));
    if (mark_bad_versions(fleet) != BASE_OK) {
        return base_error_set(error, BASE_ERR_LIMIT, "too many bad versions");
    }
    if (!options->local) {
        if (options->tls && h2_tls_new(NULL, &fleet->tls) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "cannot set up TLS");
        }
        struct sim_watch_options watch = {
            .base = fleet->base,
            .host = base_str_of(options->host),
            .port = options->port,
            .tls = fleet->tls,
            .token = base_str_of(options->token),
            .rollout = options->until_rollout != 0 ? options->until_rollout : options->rollout,
            .task = options->task,
            .answer = fleet->virtual != NULL ? sim_virtual_answer : NULL,
            .answer_ctx = fleet->virtual,
        };
        if (sim_watch_new(&watch, &fleet->watch) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    if (options->upstream_port != 0) {
        BASE_TRY(sim_upstream_new(options->upstream_port, &fleet->upstream, error));
    }
    BASE_TRY(sim_sessions_load(options->behaviour, options->seed, &fleet->sessions, error));
    BASE_TRY(sim_enrol_open(options, &fleet->credentials, error));
    BASE_TRY(shards_init(fleet, error));
    look(fleet, 1);
    fleet->start_us = fleet->clock.mono_us(fleet->clock.ctx);
    for (uint32_t i = 0; i < fleet->shard_count && fleet->virtual == NULL; i++) {
        if (pthread_create(&fleet->shards[i]->thread, NULL, shard_main, fleet->shards[i]) != 0) {
            return base_error_set(error, BASE_ERR_NOMEM, "cannot start a thread");
        }
        fleet->started++;
    }
    return BASE_OK;
}

// ---- While it runs ----

static bool shards_done(const struct sim_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->shard_count; i++) {
        if (fleet->shards[i]->transport.start != NULL && !atomic_load(&fleet->shards[i]->done)) {
            return false;
        }
    }
    return true;
}

static void mark_stage(struct sim_fleet *fleet, const struct sim_watch_view *view, double t_s)
{
    char text[SIM_MARK_TEXT];
    bool running = strcmp(view->state, "running") == 0;
    (void)snprintf(text, sizeof(text), "%.20s %.30s", view->version,
                   running ? view->stage : view->state);
    if (strcmp(text, fleet->last_stage) != 0) {
        memcpy(fleet->last_stage, text, sizeof(text));
        sim_timeline_mark(&fleet->timeline, t_s, text);
        fleet->result.changed_s = t_s;
    }
}

static const struct sim_watch_view *view_of(const struct sim_fleet *fleet)
{
    return fleet->watch != NULL ? sim_watch_view(fleet->watch) : NULL;
}

// The task that the run came to be about, where the command line names none.
static void follow(struct sim_fleet *fleet, uint64_t task_id)
{
    char task[WIRE_TASK_NAME_MAX + 1];
    if (fleet->watch != NULL && sim_versions_task_name(&fleet->versions, task_id, task)) {
        sim_watch_follow(fleet->watch, task);
    }
}

static void add_row(struct sim_fleet *fleet)
{
    uint64_t task_id = 0;
    struct base_hist lag_us;
    struct base_hist checkin_us;
    base_hist_init(&lag_us);
    base_hist_init(&checkin_us);
    memset(&fleet->counters, 0, sizeof(fleet->counters));
    for (uint32_t i = 0; i < fleet->shard_count; i++) {
        struct sim_mailbox *mailbox = &fleet->shards[i]->mailbox;
        pthread_mutex_lock(&mailbox->lock);
        sim_counters_merge(&fleet->counters, &mailbox->counters);
        task_id = task_id != 0 ? task_id : mailbox->task_id;
        base_hist_merge(&lag_us, &mailbox->lag_us);
        base_hist_merge(&checkin_us, &mailbox->checkin_us);
        base_hist_clear(&mailbox->lag_us);
        base_hist_clear(&mailbox->checkin_us);
        pthread_mutex_unlock(&mailbox->lock);
    }
    base_hist_merge(&fleet->lag_us, &lag_us);
    base_hist_merge(&fleet->checkin_us, &checkin_us);
    follow(fleet, task_id);
    const struct sim_watch_view *view = view_of(fleet);
    struct sim_gateway_load load = {SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN,
                                    SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN};
    struct sim_row row;
    struct sim_gateway_counts counts;
    bool said = false;
    double t_s = seconds(fleet);
    if (view != NULL) {
        load = view->load;
        if (view->known) {
            mark_stage(fleet, view, t_s);
        }
        said = sim_rollouts_said(sim_watch_rollouts(fleet->watch), view->rollout, &counts);
    }
    const struct sim_second second = {
        .t_s = t_s,
        .counters = &fleet->counters,
        .lag_us = &lag_us,
        .checkin_us = &checkin_us,
        .gateway = &load,
        .said_of = said ? sim_versions_find(&fleet->versions, wire_task_id(base_str_of(view->task)),
                                            base_str_of(view->version))
                        : SIM_VERSION_NONE,
        .said = &counts,
    };
    sim_row_fill(&row, &second);
    sim_timeline_add(&fleet->timeline, &row);
    sim_live_draw(&fleet->live, fleet->options, &row, view, &fleet->versions);
}

static bool coverage_reached(struct sim_fleet *fleet)
{
    const struct sim_options *options = fleet->options;
    uint64_t task_id = sim_options_task_id(options);
    uint8_t version = options->version[0] == 0 ? sim_versions_newest(&fleet->versions, task_id)
                                               : sim_versions_find(&fleet->versions, task_id,
                                                                   base_str_of(options->version));
    int64_t current = fleet->counters.version[version].current;
    double needed = (double)options->devices * options->coverage_ppm / 1e6;
    return version != SIM_VERSION_NONE && (double)current >= needed;
}

// Has the rollout ended, and (when it was rolled back) has every device left the bad version?
static bool rollout_ended(const struct sim_fleet *fleet)
{
    const struct sim_watch_view *view = sim_watch_view(fleet->watch);
    if (!view->known || view->rollout != fleet->options->until_rollout) {
        return false;
    }
    bool back = strcmp(view->state, "rolled_back") == 0;
    return back || strcmp(view->state, "completed") == 0;
}

// What is waited for will never come.
static bool waits_in_vain(const struct sim_fleet *fleet)
{
    return fleet->options->until_rollout != 0 && fleet->watch != NULL &&
           sim_watch_view(fleet->watch)->missing;
}

static bool goal_reached(struct sim_fleet *fleet, double now_s)
{
    if (fleet->options->coverage_ppm > 0 && coverage_reached(fleet)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "%.2f %% of the devices run the version",
                       fleet->options->coverage_ppm / 1e4);
        return true;
    }
    if (fleet->options->until_rollout != 0 && rollout_ended(fleet)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended), "the rollout is %s",
                       sim_watch_view(fleet->watch)->state);
        return true;
    }
    if (fleet->options->until_rest && sim_rest_due(&fleet->rest, now_s)) {
        bool there = sim_fleet_rests(fleet->shards, fleet->shard_count, view_of(fleet));
        fleet->result.rested = sim_rest_look(&fleet->rest, now_s, there);
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "everybody is where the rollout has them");
    }
    return fleet->result.rested;
}

// In a run with a number of sessions and no other goal.
static bool all_played(const struct sim_fleet *fleet)
{
    const struct sim_options *options = fleet->options;
    const struct sim_behaviour_sums *sums = &fleet->counters.behaviour;
    bool wanted = fleet->sessions.kind != SIM_SESSIONS_NONE && !options->local &&
                  options->sessions > 0 && options->coverage_ppm == 0 &&
                  options->until_rollout == 0;
    return wanted && sums->sessions > 0 && sums->left == 0 && sums->active == 0;
}

// Nobody is there: no answer at all since the start. Faults that end may be why for as long as they
// last.
static bool unanswered(const struct sim_fleet *fleet, double now_s)
{
    const struct sim_counters *counters = &fleet->counters;
    const struct sim_fault_plan *faults = &fleet->options->faults;
    double since_s = now_s - (faults->rule_count > 0 ? faults->until_s : 0);
    return !fleet->options->local && since_s >= SIM_UNANSWERED_S && counters->requests > 0 &&
           counters->answers == 0;
}

// Is a bad version active on a device? Which one is bad is known once a device has opened it.
static bool bad_active(struct sim_fleet *fleet)
{
    const uint32_t count = sim_versions_count(&fleet->versions);
    bool found = false;
    for (uint32_t i = 1; i < count && !found; i++) {
        found = sim_versions_get(&fleet->versions, (uint8_t)i).bad &&
                fleet->counters.version[i].current > 0;
    }
    return found;
}

// True when the run is over; result.ended then says why.
static bool is_over(struct sim_fleet *fleet, const volatile sig_atomic_t *interrupted)
{
    const struct sim_options *options = fleet->options;
    double now_s = seconds(fleet);
    if (*interrupted != 0) {
        fleet->stopped = !options->until_stopped;
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended), "%s",
                       options->until_stopped ? "asked to stop"
                                              : "interrupted by a signal, before its end");
        return true;
    }
    if (unanswered(fleet, now_s)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "nothing was answered for %u s", SIM_UNANSWERED_S);
        return true;
    }
    if (shards_done(fleet)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "every device went through the version");
        fleet->result.whole = true;
        return true;
    }
    if (all_played(fleet)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "every session was played");
        return true;
    }
    if (waits_in_vain(fleet)) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended), "no such rollout");
        return true;
    }
    if (fleet->goal_s < 0 && goal_reached(fleet, now_s)) {
        fleet->goal_s = now_s;
    }
    fleet->bad_s = bad_active(fleet) ? now_s : fleet->bad_s;
    if (fleet->goal_s >= 0) {
        double longest = fleet->virtual != NULL ? VIRTUAL_BACK_S : ROLL_BACK_MAX_S;
        bool settled = now_s - fleet->goal_s >= SETTLE_S;
        bool clean = fleet->bad_s < 0 || now_s - fleet->bad_s >= SETTLE_S; // none under way either
        return settled && (clean || now_s - fleet->goal_s >= longest);
    }
    if (options->traced && now_s >= options->trace_second + 1.0) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended),
                       "the second that is traced is over");
        return true;
    }
    if (options->duration_s > 0 && now_s >= options->duration_s) {
        (void)snprintf(fleet->result.ended, sizeof(fleet->result.ended), "%u s are over",
                       options->duration_s);
        return true;
    }
    return false;
}

// A row a second of the time that devices live in.
static enum base_status virtual_run(struct sim_fleet *fleet,
                                    const volatile sig_atomic_t *interrupted,
                                    struct base_error *error)
{
    uint64_t until_us = fleet->start_us;
    while (!is_over(fleet, interrupted)) {
        BASE_TRY(sim_virtual_act(fleet->virtual, sim_watch_view(fleet->watch)->rollout, error));
        until_us += (uint64_t)(ROW_S * 1e6);
        sim_virtual_run(fleet->virtual, until_us);
        sim_watch_ask(fleet->watch);
        add_row(fleet);
    }
    return BASE_OK;
}

static enum base_status watch_run(struct sim_fleet *fleet, const volatile sig_atomic_t *interrupted,
                                  struct base_error *error)
{
    double next_row_s = 0;
    if (fleet->virtual != NULL) {
        return virtual_run(fleet, interrupted, error);
    }
    while (!is_over(fleet, interrupted)) {
        poll_once(fleet);
        if (seconds(fleet) >= next_row_s) {
            next_row_s = seconds(fleet) + ROW_S;
            if (fleet->watch != NULL) {
                sim_watch_ask(fleet->watch);
            }
            add_row(fleet);
        }
    }
    return BASE_OK;
}

// ---- The end ----

static void stop_shards(struct sim_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->started; i++) {
        atomic_store(&fleet->shards[i]->stop, true);
    }
    for (uint32_t i = 0; i < fleet->started; i++) {
        (void)pthread_join(fleet->shards[i]->thread, NULL);
    }
    fleet->started = 0;
    for (uint32_t i = 0; fleet->virtual != NULL && i < fleet->shard_count; i++) {
        if (!atomic_load(&fleet->shards[i]->done)) {
            sim_shard_end(fleet->shards[i]);
        }
    }
}

static void count_simulated(struct sim_fleet *fleet)
{
    _Static_assert(SIM_OUTCOMES == 1u << SIM_OUTCOME_BITS, "a place for any kind");
    struct sim_run_result *result = &fleet->result;
    uint64_t bit = result->focus != SIM_VERSION_NONE ? 1ull << result->focus : 0;
    for (uint32_t s = 0; s < fleet->shard_count; s++) {
        const struct sim_ledger *ledger = &fleet->shards[s]->ledger;
        sim_failures_merge(&result->failures, &ledger->failures);
        for (uint32_t i = 0; i < ledger->count; i++) {
            const struct sim_ledger_entry *entry = &ledger->entries[i];
            const struct sim_ledger_masks masks = sim_ledger_masks(ledger, i);
            uint64_t ended = masks.good | masks.failed;
            result->undecided[entry->offered] += (ended >> entry->offered & 1u) == 0;
            bool failed = (masks.failed & bit) != 0;
            bool ran = sim_ledger_times(ledger, i).ran_ms > 0 || (masks.ran & bit) != 0;
            result->completed += failed || ran;
            result->failed += failed;
            if (failed) {
                result->failed_as[entry->failed_as]++;
            } else if (!ran) {
                result->refused_as[entry->failed_as]++;
            }
        }
    }
}

// What the last connection that failed came to; NULL: none did.
static const char *link_fault(const struct sim_fleet *fleet)
{
    const char *fault = NULL;
    for (uint32_t i = 0; i < fleet->shard_count && fault == NULL; i++) {
        const struct sim_links *links = fleet->shards[i]->links;
        fault = links != NULL ? sim_links_fault(links) : NULL;
    }
    return fault;
}

// Tallies of all shards, and the law over all devices; its rows go beside the reports.
static void behaviour_gather(struct sim_fleet *fleet)
{
    struct sim_run_result *result = &fleet->result;
    char path[SIM_TEXT_MAX + 32];
    if (fleet->sessions.kind == SIM_SESSIONS_NONE) {
        return;
    }
    result->tally = malloc(sizeof(*result->tally));
    if (result->tally == NULL) {
        return;
    }
    sim_tally_init(result->tally);
    for (uint32_t i = 0; i < fleet->shard_count; i++) {
        sim_tally_merge(result->tally, &fleet->shards[i]->behaving->tally);
    }
    if (fleet->options->local) {
        return; // nothing leaves
    }
    (void)snprintf(path, sizeof(path), "%s/tunnel.csv", fleet->options->out);
    struct base_output_file rows;
    struct base_error error = {0};
    enum base_status status = base_output_open(&rows, path, &error);
    if (status == BASE_OK) {
        status = sim_settle(fleet->shards, fleet->shard_count, rows.file, &result->law);
        status = base_output_close(&rows, status, &error);
    }
    bool ok = status == BASE_OK;
    if (error.text[0] != '\0') {
        (void)fprintf(fleet->log, "%s\n", error.text);
    }
    sim_ledger_judge_law(&result->verdict, result->law.broken + (ok ? 0 : 1), result->law.checked);
}

// Ledgers count one task: versions of others that devices met are named, without figures.
static void find_uncounted(struct sim_fleet *fleet)
{
    struct sim_run_result *result = &fleet->result;
    for (uint32_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        uint64_t task_id = sim_versions_get(&fleet->versions, (uint8_t)v).task_id;
        bool counted = task_id == 0;
        for (uint32_t i = 0; i < fleet->shard_count && !counted; i++) {
            uint64_t followed = fleet->shards[i]->ledger.task_id;
            counted = followed == 0 || followed == task_id;
        }
        result->uncounted[v] = !counted;
    }
}

// The report is about the version that decided, else the one that it explains, else the one that
// ran, else the first one met.
static void tell_about(struct sim_fleet *fleet)
{
    struct sim_run_result *result = &fleet->result;
    uint8_t number = result->focus != SIM_VERSION_NONE ? result->focus : result->rate_version;
    number = result->decided != SIM_VERSION_NONE ? result->decided : number;
    number = number == SIM_VERSION_NONE && result->version_count > 1 ? 1 : number;
    struct sim_version version = sim_versions_get(&fleet->versions, number);
    sim_about_fill(number != SIM_VERSION_NONE ? &version : NULL, fleet->options->task,
                   result->took_s, &result->about);
}

static void gather(struct sim_fleet *fleet)
{
    struct sim_run_result *result = &fleet->result;
    sim_fleet_latencies(fleet->shards, fleet->shard_count, result);
    for (uint32_t i = 0; i < fleet->shard_count; i++) {
        result->ledgers[result->ledger_count++] = &fleet->shards[i]->ledger;
        sim_counters_merge(&result->counters, &fleet->shards[i]->ledger.counters);
    }
    result->options = fleet->options;
    result->versions = &fleet->versions;
    result->version_count = sim_versions_count(&fleet->versions);
    result->timeline = &fleet->timeline;
    find_uncounted(fleet);
    result->duration_s = seconds(fleet);
    uint64_t began_us = fleet->shards[0]->arrivals_start_us;
    result->arrivals_from_s =
        began_us > fleet->start_us ? (double)(began_us - fleet->start_us) / 1e6 : 0;
    sim_ledger_judge(result->ledgers, result->ledger_count, !fleet->options->local,
                     fleet->options->max_exposed_ppm, &result->verdict);
    behaviour_gather(fleet);
    sim_fleet_faults_gather(fleet->shards, fleet->shard_count, result);
    sim_trust_gather(fleet->shards, fleet->shard_count, &fleet->versions, &result->trust);
    sim_fleet_systems(fleet->shards, fleet->shard_count, result);
    result->focus = sim_focus_version(&result->counters);
    result->mining = sim_mine(fleet->shards, fleet->shard_count, result->focus, &result->slice);
    sim_fleet_failing(fleet->shards, fleet->shard_count, result);
    uint64_t most = 0;
    for (uint8_t v = 1; v < SIM_ROW_VERSIONS; v++) {
        if (result->counters.version[v].ran > most) {
            most = result->counters.version[v].ran;
            result->rate_version = v;
        }
    }
    result->rate = sim_result_rate(&fleet->timeline, result->rate_version);
    count_simulated(fleet);
    result->undecided[SIM_VERSION_NONE] = 0;
    result->gateway_denied = view_of(fleet) != NULL && view_of(fleet)->denied;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        result->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    }
    if (fleet->virtual != NULL) {
        sim_virtual_gather(fleet->virtual, result, fleet->log);
    }
    const struct sim_ending ending = {
        .view = view_of(fleet),
        .rollouts = fleet->watch != NULL ? sim_watch_rollouts(fleet->watch) : NULL,
        .link_fault = link_fault(fleet),
        .interrupted = fleet->stopped,
        .goal_reached = fleet->goal_s >= 0,
    };
    sim_outcome_judge(result, &ending);
    tell_about(fleet);
}

static void fleet_free(struct sim_fleet *fleet)
{
    stop_shards(fleet);
    for (uint32_t i = 0; i < fleet->shard_count; i++) {
        sim_shard_done(fleet->shards[i]);
        free(fleet->shards[i]);
    }
    sim_cloud_free(fleet->cloud);
    sim_given_free(fleet->given);
    dev_model_store_free(fleet->models);
    sim_credentials_close(fleet->credentials);
    sim_sessions_done(&fleet->sessions);
    sim_watch_free(fleet->watch);
    sim_virtual_free(fleet->virtual);
    sim_upstream_free(fleet->upstream);
    sim_metrics_free(fleet->metrics);
    h2_tls_free(fleet->tls);
    sim_mining_free(fleet->result.mining);
    free(fleet->result.tally);
    sim_timeline_done(&fleet->timeline);
    if (fleet->base != NULL) {
        event_base_free(fleet->base);
    }
    sim_versions_done(&fleet->versions);
    free(fleet);
}

// From the first second to the reports.
static enum base_status fleet_play(struct sim_fleet *fleet,
                                   const volatile sig_atomic_t *interrupted,
                                   enum sim_exit *out_code, struct base_error *error)
{
    uint64_t begin_us = base_clock_mono_us();
    BASE_TRY(watch_run(fleet, interrupted, error));
    fleet->result.took_s = (double)(base_clock_mono_us() - begin_us) / 1e6;
    look(fleet, 2);
    stop_shards(fleet);
    add_row(fleet);
    sim_live_done(&fleet->live);
    gather(fleet);
    enum base_status status = sim_result_write(&fleet->result, error);
    if (status == BASE_OK && fleet->options->evidence[0] != '\0') {
        status = sim_evidence_write(&fleet->result, &fleet->shards[0]->local.manifest, error);
    }
    *out_code = sim_outcome_exit(fleet->result.outcome);
    sim_summary_print(&fleet->result, view_of(fleet), *out_code, fleet->log);
    return status;
}

enum sim_exit sim_fleet_run(const struct sim_options *options,
                            const volatile sig_atomic_t *interrupted, FILE *log)
{
    struct base_error error = {.status = BASE_OK};
    struct sim_machine machine;
    struct sim_fleet *fleet = calloc(1, sizeof(*fleet));
    if (fleet == NULL) {
        return SIM_EXIT_LOCAL;
    }
    fleet->options = options;
    fleet->log = log;
    fleet->goal_s = -1;
    fleet->bad_s = -1;
    fleet->rest = sim_rest_from(options->faults.until_s);
    fleet->clock = *base_clock_real();
    base_hist_init(&fleet->lag_us);
    base_hist_init(&fleet->checkin_us);
    sim_versions_init(&fleet->versions);
    sim_live_init(&fleet->live, log, options->live, base_clock_real());
    sim_machine_read(&machine);
    enum sim_exit code = SIM_EXIT_LOCAL;
    enum base_status status = sim_preflight(options, &machine, &fleet->result.budget, &error);
    sim_budget_print(&fleet->result.budget, options, &machine, log);
    if (status != BASE_OK) {
        code = SIM_EXIT_REFUSED;
    } else if ((status = fleet_start(fleet, &error)) == BASE_OK) {
        status = fleet_play(fleet, interrupted, &code, &error);
    }
    if (status != BASE_OK) {
        (void)fprintf(log, "walle-fleet-sim: %s\n", error.text);
        code = code == SIM_EXIT_REFUSED ? code : SIM_EXIT_LOCAL;
    }
    fleet_free(fleet);
    return code;
}
