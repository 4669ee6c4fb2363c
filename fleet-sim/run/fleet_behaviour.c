// Sessions of virtual devices: opened at a wake, played event by event, ended, and their devices
// closed. Called by the shard between ticks of the runtime, on its thread. fleet_device.c opens and
// turns a session with its device, fleet_shard.c drops it when the shard ends; what pipeline and
// tunnel are to one device is in fleet_pipeline.c. An active device holds a place, of which a shard
// has a fixed number: a session that finds none is put off and counted.
#include "run/fleet_behaviour.h"

#include "base/alloc.h"
#include "base/check.h"
#include "model/zero_pages.h"

#include <math.h>
#include <string.h>

#define KILL_COMMITS     12 // a session is killed at one of its first commits
#define PUT_OFF_MS       1000
#define PERSONALITY_MIN  0.25 // how often a device is used, beside the mean
#define PERSONALITY_SPAN 4.0  // factor from the rarest to the most used is its square

static const struct base_alloc_port *heap(void)
{
    return base_alloc_heap();
}

static void *take_zeroed(size_t size)
{
    void *memory = heap()->alloc(heap()->ctx, size);
    if (memory != NULL) {
        memset(memory, 0, size);
    }
    return memory;
}

static struct sim_behaviour_sums *sums(struct sim_shard *shard)
{
    return &shard->ledger.counters.behaviour;
}

// Does the device have a user? Drawn once for each, whatever else is.
static bool in_panel(const struct sim_shard *shard, uint32_t device)
{
    const struct sim_options *options = shard->options;
    return options->panel_ppm == SIM_PANEL_ALL ||
           sim_chance(sim_draw(options->seed, sim_shard_index(shard, device), SIM_STREAM_PANEL),
                      options->panel_ppm);
}

static size_t pasts_bytes(const struct sim_shard *shard)
{
    return sizeof(struct sim_past) * ((size_t)shard->count + 1);
}

// ---- Life of the shard's part

enum base_status sim_behaving_init(struct sim_shard *shard, const struct sim_sessions *sessions)
{
    const struct sim_options *options = shard->options;
    if (sessions == NULL || sessions->kind == SIM_SESSIONS_NONE) {
        return BASE_OK;
    }
    struct sim_behaving *behaving = take_zeroed(sizeof(*behaving));
    if (behaving == NULL) {
        return BASE_ERR_NOMEM;
    }
    shard->behaving = behaving;
    behaving->sessions = sessions;
    sim_tally_init(&behaving->tally);
    behaving->place_bytes = sim_active_bytes();
    behaving->place_max = options->active_max / sim_options_shards(options);
    behaving->place_max = behaving->place_max > 0 ? behaving->place_max : 1;
    if (behaving->place_max > shard->count) {
        behaving->place_max = shard->count;
    }
    uint64_t members = 0;
    for (uint32_t i = 0; i < shard->count; i++) {
        members += in_panel(shard, i);
    }
    behaving->sessions_left = options->sessions > 0 ? options->sessions * members : UINT64_MAX;
    behaving->pasts = sim_pages_new(pasts_bytes(shard)); // of the others nothing is touched
    // Not touched here: a place costs memory only once it was used.
    behaving->places =
        heap()->alloc(heap()->ctx, behaving->place_bytes * ((size_t)behaving->place_max + 1));
    if (behaving->pasts == NULL || behaving->places == NULL) {
        return BASE_ERR_NOMEM;
    }
    return sim_codecs_init(&behaving->codecs);
}

void sim_behaving_done(struct sim_shard *shard)
{
    struct sim_behaving *behaving = shard->behaving;
    if (behaving == NULL) {
        return;
    }
    for (uint32_t i = 0; behaving->pasts != NULL && i < shard->count; i++) {
        if (in_panel(shard, i) && behaving->pasts[i].kv != NULL) {
            mem_kv_done(behaving->pasts[i].kv);
            heap()->release(heap()->ctx, behaving->pasts[i].kv);
        }
    }
    sim_codecs_done(&behaving->codecs);
    sim_upload_schemas_done(&behaving->schemas);
    sim_pages_free(behaving->pasts, pasts_bytes(shard));
    heap()->release(heap()->ctx, behaving->places);
    heap()->release(heap()->ctx, behaving);
    shard->behaving = NULL;
}

// ---- When

static uint64_t draw_of(const struct sim_shard *shard, uint32_t device, uint32_t number)
{
    return sim_draw(shard->options->seed + number, sim_shard_index(shard, device),
                    SIM_STREAM_SESSION);
}

// Some devices are used all day, some hardly at all: the mean of a device's pauses is drawn once,
// each pause then falls evenly around it.
static uint32_t pause_ms(const struct sim_shard *shard, uint32_t device, uint32_t number)
{
    if (shard->options->local) {
        return 0; // nobody waits in the simulate stage, also not after a kill
    }
    double kind = (double)(draw_of(shard, device, UINT32_MAX) >> 32) / 4294967296.0;
    double this = (double)(draw_of(shard, device, number) >> 32) / 4294967296.0;
    double factor = PERSONALITY_MIN * pow(PERSONALITY_SPAN, 2 * kind);
    return (uint32_t)(shard->options->session_every_s * 1000.0 * factor * (0.5 + this));
}

static bool sessions_over(const struct sim_shard *shard, const struct sim_past *past)
{
    return shard->options->sessions > 0 && past->sessions >= shard->options->sessions;
}

uint32_t sim_behaving_next_ms(const struct sim_shard *shard, uint32_t device)
{
    if (shard->behaving == NULL || !in_panel(shard, device)) {
        return SIM_WHEEL_NONE;
    }
    const struct sim_past *past = &shard->behaving->pasts[device];
    return sessions_over(shard, past) ? SIM_WHEEL_NONE : past->due_ms;
}

// ---- Opening

static struct sim_active *place_take(struct sim_behaving *behaving)
{
    struct sim_active *active = behaving->free_places;
    if (active != NULL) {
        behaving->free_places = active->next;
    } else if (behaving->places_used < behaving->place_max) {
        char *at = behaving->places + behaving->place_bytes * behaving->places_used++;
        active = (struct sim_active *)(void *)at;
    }
    if (active != NULL) {
        behaving->active_count++;
        memset(active, 0, sizeof(*active));
    }
    return active;
}

static void place_give(struct sim_behaving *behaving, struct sim_active *active)
{
    active->next = behaving->free_places;
    behaving->free_places = active;
    behaving->active_count--;
}

static enum base_status past_open(struct sim_shard *shard, struct sim_past *past)
{
    if (past->kv == NULL) {
        past->kv = take_zeroed(sizeof(*past->kv));
        if (past->kv == NULL) {
            return BASE_ERR_NOMEM;
        }
        mem_kv_init(past->kv);
        sums(shard)->devices++;
    }
    mem_kv_revive(past->kv);
    return BASE_OK;
}

// The wall clock of a device goes on from where its last session left it: pauses are drawn, not
// waited for.
static void clock_set(struct sim_active *active, uint64_t wall_us)
{
    struct sim_past *past = active->past;
    uint64_t away_ms = SIM_AWAY_MS_MIN + base_prng_below(&active->prng, SIM_AWAY_MS_SPREAD);
    active->wall_ms = past->wall_ms > 0 ? past->wall_ms + away_ms : wall_us / 1000;
}

// A kill at one of the session's commits, before or after it took effect.
static void kill_draw(struct sim_active *active)
{
    struct mem_kv *kv = active->past->kv;
    const struct sim_options *options = active->shard->options;
    if (base_prng_below(&active->prng, 1000000) < options->kill_ppm) {
        kv->kill_at = kv->commits + 1 + base_prng_below(&active->prng, KILL_COMMITS);
        kv->kill_applied = base_prng_below(&active->prng, 2) == 0;
    }
}

static void session_begin(struct sim_active *active, uint64_t now_us)
{
    struct sim_shard *shard = active->shard;
    struct sim_past *past = active->past;
    uint32_t device = active->awake->device;
    active->use = SIM_USE_PLAYING;
    active->triggers = active->fresh;
    sim_session_begin(&active->session, shard->behaving->sessions, sim_shard_index(shard, device),
                      past->sessions, &active->triggers);
    for (uint32_t i = 0; i < active->row_count; i++) {
        active->rows[i]->sessions++;
    }
    kill_draw(active);
    past->sessions++;
    past->due_ms = sim_shard_ms(shard, now_us) + pause_ms(shard, device, past->sessions);
    sums(shard)->sessions++;
    shard->behaving->sessions_left--;
}

static bool has_place(const struct sim_behaving *behaving)
{
    return behaving->free_places != NULL || behaving->places_used < behaving->place_max;
}

bool sim_behaving_held(struct sim_shard *shard, uint32_t device, uint32_t now_ms)
{
    if (!shard->options->local || shard->devices[device].wakes == 0 ||
        sim_behaving_next_ms(shard, device) > now_ms || has_place(shard->behaving)) {
        return false;
    }
    sums(shard)->sessions_put_off++;
    shard->behaving->pasts[device].due_ms = now_ms + 1;
    sim_wheel_set(&shard->wheel, device, now_ms + 1);
    return true;
}

void sim_behaving_wake(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    struct sim_behaving *behaving = shard->behaving;
    uint32_t now_ms = sim_shard_ms(shard, now_us);
    if (behaving == NULL || awake->active != NULL ||
        sim_behaving_next_ms(shard, awake->device) > now_ms) {
        return;
    }
    struct sim_past *past = &behaving->pasts[awake->device];
    struct sim_active *active = place_take(behaving);
    if (active == NULL) {
        sums(shard)->sessions_put_off++;
        past->due_ms = now_ms + (shard->options->local ? 1 : PUT_OFF_MS);
        return;
    }
    active->shard = shard;
    active->awake = awake;
    active->past = past;
    base_prng_seed(&active->prng, draw_of(shard, awake->device, past->sessions));
    active->tunnel_due_us = 0;
    clock_set(active, shard->clock.wall_us(shard->clock.ctx));
    enum base_status status = past_open(shard, past);
    if (status == BASE_OK) {
        active->commits = past->kv->commits;
        status = sim_active_boot(active, now_us);
    }
    if (status != BASE_OK) { // counted like every boot that failed; the session is given up
        shard->ledger.counters.boot_failures++;
        past->sessions++;
        behaving->sessions_left--;
        sim_codecs_give(active->codec);
        place_give(behaving, active);
        return;
    }
    awake->active = active;
}

// ---- Playing

static bool run_waits(const struct sim_active *active)
{
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(active->pipeline, &stats);
    return stats.waiting > 0;
}

// A step of the pipeline; true: it started a run, so the runtime is to be ticked.
static bool step_started(struct sim_active *active)
{
    struct dev_pipeline_stats before;
    struct dev_pipeline_stats after;
    dev_pipeline_stats(active->pipeline, &before);
    sim_active_step(active);
    dev_pipeline_stats(active->pipeline, &after);
    return after.starts != before.starts;
}

// The clock goes to `to_us`, over what the pipeline has due before. False: a run is to end first.
static bool clock_to(struct sim_active *active, uint64_t to_us)
{
    for (uint32_t i = 0; i < SIM_DUES_MAX && active->due_us <= to_us; i++) {
        active->clock_us = active->due_us > active->clock_us ? active->due_us : active->clock_us;
        sim_active_step(active);
        if (run_waits(active)) {
            return false;
        }
    }
    active->clock_us = to_us > active->clock_us ? to_us : active->clock_us;
    return true;
}

static void record(struct sim_active *active)
{
    struct sim_shard *shard = active->shard;
    active->recording.mono_us = active->clock_us;
    active->recording.wall_ms = sim_active_wall_ms(active);
    active->has_event = false;
    uint64_t begin_us = sim_shard_now(shard);
    enum base_status status = dev_record(active->recorder, &active->recording);
    sim_active_step(active);
    if (!shard->virtual_time) { // its clock stands still
        base_hist_add(&shard->behaving->tally.event_us, sim_shard_now(shard) - begin_us);
    }
    sums(shard)->events += status == BASE_OK ? 1 : 0;
    sums(shard)->refused += status != BASE_OK ? 1 : 0;
}

// The app closes: everything is stored, and what is queued is sent.
static void session_end(struct sim_active *active, uint64_t now_us)
{
    struct sim_shard *shard = active->shard;
    sim_session_end(&active->session);
    if (dev_pipeline_flush(active->pipeline, active->clock_us) != BASE_OK) {
        return; // killed at this commit
    }
    sums(shard)->played_ms += sim_active_wall_ms(active) - active->wall_ms;
    active->past->wall_ms = sim_active_wall_ms(active);
    if (active->tunnel != NULL) {
        dev_tunnel_flush(active->tunnel, now_us);
    }
    active->use = SIM_USE_WAITING;
    active->drain_until_us = now_us + SIM_DRAIN_US;
    active->tunnel_due_us = 0;
}

// Plays some events. True: the runtime has something to do.
static bool play(struct sim_active *active, uint64_t now_us)
{
    for (uint32_t i = 0; i < SIM_EVENTS_PER_TURN && !active->past->kv->killed; i++) {
        sim_active_declare(active);
        if (run_waits(active)) {
            bool started = step_started(active);
            if (started || run_waits(active)) {
                return started;
            }
        }
        if (!active->has_event) {
            uint64_t gap_us = 0;
            if (!sim_session_next(&active->session, &active->recording, &gap_us)) {
                if (clock_to(active, active->clock_us + SIM_TAIL_US) && !run_waits(active)) {
                    session_end(active, now_us);
                }
                return true;
            }
            active->has_event = true;
            active->event_us = active->clock_us + gap_us;
        }
        if (clock_to(active, active->event_us)) {
            record(active);
        }
    }
    return true;
}

// ---- Waiting for the gateway

static void tunnel_step(struct sim_active *active, uint64_t now_us)
{
    if (active->tunnel != NULL) {
        active->tunnel_due_us = dev_tunnel_step(active->tunnel, now_us);
        sim_active_tunnel_seen(active);
    }
}

static bool is_drained(const struct sim_active *active, uint64_t now_us)
{
    return active->tunnel == NULL || dev_tunnel_is_idle(active->tunnel) ||
           now_us >= active->drain_until_us;
}

// The next session of a device of the simulate stage begins at once.
static bool again_at_once(const struct sim_active *active)
{
    return active->shard->options->local && !sessions_over(active->shard, active->past);
}

static void session_again(struct sim_active *active, uint64_t now_us)
{
    uint64_t away_us =
        1000 * (SIM_AWAY_MS_MIN + base_prng_below(&active->prng, SIM_AWAY_MS_SPREAD));
    if (clock_to(active, active->clock_us + away_us)) {
        active->wall_ms = sim_active_wall_ms(active);
        active->wall_us = active->clock_us;
        session_begin(active, now_us);
    }
}

bool sim_behaving_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us,
                       bool *out_alive)
{
    struct sim_active *active = awake->active;
    bool more = false;
    *out_alive = true;
    if (active == NULL) {
        return false;
    }
    if (active->use == SIM_USE_OPENED) {
        sim_active_declare(active); // before the tunnel's first step: its HELLO names dictionaries
    }
    tunnel_step(active, now_us);
    if (active->use == SIM_USE_OPENED) {
        more = step_started(active);
        if (!more && dev_is_idle(awake->runtime) && awake->runs_late == 0 && !run_waits(active)) {
            session_begin(active, now_us);
        }
    }
    if (active->use == SIM_USE_PLAYING && sim_runs_have_room(awake)) {
        more = play(active, now_us);
    } else if (active->use == SIM_USE_WAITING) {
        more = step_started(active);
        if (!more && is_drained(active, now_us) && dev_is_idle(awake->runtime) &&
            !run_waits(active)) {
            if (again_at_once(active)) {
                session_again(active, now_us);
            } else {
                sim_behaving_drop(shard, awake, true);
                return false;
            }
            more = true;
        }
    }
    if (active->past->kv->killed) {
        *out_alive = false;
        return false;
    }
    tunnel_step(active, now_us);
    return more;
}

uint64_t sim_behaving_due_us(const struct sim_awake *awake, uint64_t now_us)
{
    const struct sim_active *active = awake->active;
    if (active == NULL) {
        return UINT64_MAX;
    }
    uint64_t due_us = active->tunnel != NULL ? active->tunnel_due_us : UINT64_MAX;
    if (active->use == SIM_USE_WAITING && active->drain_until_us < due_us) {
        due_us = active->drain_until_us;
    }
    uint64_t wait_us = now_us + SIM_RUN_WAIT_US;
    return run_waits(active) && wait_us < due_us ? wait_us : due_us;
}

void sim_behaving_drop(struct sim_shard *shard, struct sim_awake *awake, bool in_order)
{
    struct sim_active *active = awake->active;
    if (active == NULL) {
        return;
    }
    if (in_order && !active->past->kv->killed) {
        uint64_t now_us = sim_shard_now(shard);
        if (active->tunnel != NULL) {
            dev_tunnel_flush(active->tunnel, now_us);
            (void)dev_tunnel_step(active->tunnel, now_us);
        }
        enum base_status status = dev_pipeline_flush(active->pipeline, active->clock_us);
        (void)status; // a store in memory; what the law then misses is shown
    }
    if (!in_order) {
        sums(shard)->sessions_killed++;
        active->past->killed = true;
    }
    sim_session_end(&active->session);
    sim_active_count(active);
    sim_tunnel_close(active);
    dev_pipeline_done(active->pipeline);
    sim_codecs_give(active->codec);
    awake->active = NULL;
    place_give(shard->behaving, active);
}

// ---- Runs

static void on_end(struct sim_awake *awake, uint64_t task_id, uint64_t token,
                   const struct dev_task_end *end)
{
    struct sim_active *active = awake->active;
    struct dev_pipeline_end out = {0};
    if (active == NULL) {
        return;
    }
    if (end != NULL) {
        out.ok = end->outcome == WIRE_OUTCOME_RAN;
        out.result = end->result;
        out.effects = end->effects;
        out.effect_count = end->effect_count;
    }
    uint64_t before = sums(awake->shard)->records;
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(active->pipeline, &stats);
    uint64_t refused = stats.privacy_refusals;
    dev_pipeline_on_end(active->pipeline, active->clock_us, sim_active_wall_ms(active),
                        (struct dev_pipeline_run){.token = token, .task_id = task_id},
                        end != NULL ? &out : NULL);
    dev_pipeline_stats(active->pipeline, &stats);
    dev_run_refused(awake->runtime, (uint32_t)(stats.privacy_refusals - refused));
    // As on a phone: what a run gave is closed into batches when it ends.
    if (sums(awake->shard)->records != before && active->tunnel != NULL) {
        dev_tunnel_flush(active->tunnel, sim_shard_now(awake->shard));
    }
}

static void phases_add(struct sim_task_tally *row, const struct dev_task_phases *of)
{
    row->phased += of->prepare_us > 0 || of->model_us > 0 || of->finish_us > 0 ? 1 : 0;
    row->phases.prepare_us += of->prepare_us;
    row->phases.model_us += of->model_us;
    row->phases.finish_us += of->finish_us;
}

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    struct sim_awake *awake = app;
    if (!dev_run_is_triggered(awake->runtime)) {
        on_end(awake, wire_task_id(task), 0, end);
        return;
    }
    struct sim_behaving *behaving = awake->shard->behaving;
    struct sim_task_tally *row =
        behaving != NULL ? sim_tally_task_find(&behaving->tally, wire_task_id(task)) : NULL;
    sums(awake->shard)->triggered++;
    if (row != NULL) {
        bool ok = end->outcome == WIRE_OUTCOME_RAN;
        row->ran += ok ? 1 : 0;
        row->failed += ok ? 0 : 1;
        row->heap_peak_bytes = end->heap_peak_bytes > row->heap_peak_bytes ? end->heap_peak_bytes
                                                                           : row->heap_peak_bytes;
        row->left_out += end->left_out;
        base_hist_add(&row->run_us, end->duration_us);
        phases_add(row, &end->phases);
    }
}

static void on_triggered(void *app, uint64_t token, const struct dev_task_end *end)
{
    on_end(app, 0, token, end);
}

static void on_input_free(void *app, uint64_t token)
{
    struct sim_awake *awake = app;
    if (awake->active != NULL) {
        dev_pipeline_on_free(awake->active->pipeline, token);
    }
}

void sim_behaving_ports(struct sim_awake *awake)
{
    awake->ports.app = awake;
    awake->ports.on_result = on_result;
    awake->ports.on_triggered = on_triggered;
    awake->ports.on_input_free = on_input_free;
}

struct sim_run_data sim_behaving_data(const struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    struct sim_run_data data = {.real = awake->real,
                                .runtime = awake->runtime,
                                .device = awake->device,
                                .at_us = sim_shard_now(shard),
                                .virtual_time = shard->virtual_time};
    if (awake->active != NULL) {
        data.features = awake->active->features;
        data.now_us = awake->active->clock_us;
    }
    return data;
}
