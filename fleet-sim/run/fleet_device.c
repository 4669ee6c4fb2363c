// One virtual device: wake (a real boot from what it saved), turns of its runtime, task runs, sleep
// and kill. Everything runs on the shard's thread.
// A device is awake while its runtime has something under way. The runtime is ticked from the ready
// queue only, never from inside one of its own callbacks.
#include "run/fleet.h"

#include "run/fleet_behaviour.h"
#include "run/fleet_business.h"
#include "run/fleet_enrol.h"
#include "run/device_story.h"

#include "base/check.h"
#include "bytes/bytes_lines.h"
#include "base/prng.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#define REBOOT_MS_MIN       1000 // a killed app is started again by its user or by the system
#define REBOOT_MS_SPREAD    2000
#define BOOT_RETRY_MS       5000
#define KILL_TICKS_SPREAD   8 // of the turns that a wake with an update has
#define STATUS_UNAUTHORIZED 401
#define STATUS_BUSY         429
#define STATUS_SERVER_FAULT 500

uint32_t sim_shard_ms(const struct sim_shard *shard, uint64_t now_us)
{
    return (uint32_t)((now_us - shard->start_us) / 1000);
}

uint64_t sim_shard_index(const struct sim_shard *shard, uint32_t device)
{
    return sim_options_index(shard->options, &shard->population, (uint64_t)shard->first + device);
}

struct sim_awake *sim_shard_awake(const struct sim_shard *shard, uint32_t device)
{
    const struct sim_device *at = &shard->devices[device];
    base_assert(!at->awake || at->slot < shard->awake_max);
    return at->awake ? (struct sim_awake *)(void *)(shard->slots + shard->slot_bytes * at->slot)
                     : NULL;
}

static void line_up(struct sim_line *line, struct sim_awake *awake)
{
    if (awake->ready) {
        return;
    }
    awake->ready = true;
    awake->next = NULL;
    if (line->last != NULL) {
        line->last->next = awake;
    } else {
        line->first = awake;
    }
    line->last = awake;
}

void sim_device_ready(struct sim_shard *shard, struct sim_awake *awake)
{
    line_up(&shard->ready, awake);
    // Who is told something has a room until its turn: what else has come waits in its socket.
    if (shard->base != NULL && shard->options->hints && ++shard->told >= SIM_TOLD_PER_TURN) {
        (void)event_base_loopbreak(shard->base);
    }
}

static void under_way_set(struct sim_shard *shard, struct sim_awake *awake, bool under_way)
{
    shard->under_way += under_way ? 1 : 0;
    shard->under_way -= awake->under_way ? 1 : 0;
    awake->under_way = under_way;
}

// Gives the slot back. The runtime's memory is simply forgotten, as by a kill.
void sim_device_drop(struct sim_shard *shard, struct sim_awake *awake)
{
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX; i++) {
        if (awake->exchanges[i].open) {
            shard->transport.cancel(shard->transport.ctx, &awake->exchanges[i]);
            awake->exchanges[i].open = false;
        }
    }
    sim_bytes_lines_left(shard->bytes, awake->device);
    sim_behaving_drop(shard, awake, false);
    sim_faults_drop(&awake->faulty);
    sim_device_vacate(awake);
    under_way_set(shard, awake, false);
    sim_wheel_cancel(&shard->wheel, awake->device);
    sim_runs_drop(awake);
    shard->ledger.counters.bad_seals += awake->storage.bad_seals;
    shard->devices[awake->device].awake = false;
    shard->awake_count--;
    base_assert(!awake->ready);
    awake->next = shard->free_slots;
    shard->free_slots = awake;
}

static void sleep_until(struct sim_shard *shard, struct sim_awake *awake, uint32_t due_ms)
{
    const uint32_t index = awake->device;
    sim_story_slept(awake, due_ms);
    sim_device_drop(shard, awake);
    shard->devices[index].intended_ms = due_ms;
    sim_wheel_set(&shard->wheel, index, due_ms);
}

void sim_device_kill(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    uint32_t wakes = shard->devices[awake->device].wakes;
    uint64_t index = sim_shard_index(shard, awake->device);
    uint64_t draw = sim_draw(shard->options->seed + wakes, index, SIM_STREAM_REBOOT);
    sim_facts_died(&shard->facts, awake->device);
    sim_storage_kill(&awake->storage, draw);
    sim_shard_note(shard, awake->index, SIM_EVENT_KILLED, wakes);
    sim_story_killed(awake);
    sim_requests_cut(awake);
    sim_faults_killed(&awake->faulty);
    shard->ledger.counters.crashes++;
    shard->devices[awake->device].rebooting = true;
    shard->rebooting++;
    sleep_until(shard, awake,
                sim_shard_ms(shard, now_us) + REBOOT_MS_MIN + (uint32_t)(draw % REBOOT_MS_SPREAD));
}

// The followed task as the runtime sees it. False: it has none.
static bool followed_view(const struct sim_shard *shard, const struct sim_awake *awake,
                          struct dev_task_view *out)
{
    for (uint32_t i = 0; dev_task_view(awake->runtime, i, out) == BASE_OK; i++) {
        if (!out->shadow && wire_task_id(out->name) == shard->ledger.task_id) {
            return true;
        }
    }
    memset(out, 0, sizeof(*out));
    return false;
}

// Number of the version with this id among those the shard has met.
static uint8_t version_by_id(const struct sim_shard *shard, uint64_t id)
{
    for (uint32_t i = 0; i < shard->seen_count; i++) {
        if (wire_version_id(&shard->seen[i].manifest) == id) {
            return shard->seen[i].number;
        }
    }
    return SIM_VERSION_NONE;
}

static void observe_active(struct sim_shard *shard, struct sim_awake *awake, bool back,
                           uint64_t now_us)
{
    struct dev_task_view view;
    uint8_t version = followed_view(shard, awake, &view) ? sim_shard_version(shard, &view.active)
                                                         : SIM_VERSION_NONE;
    sim_ledger_blocked(&shard->ledger, awake->device,
                       version_by_id(shard, view.blocked_version_id));
    sim_ledger_active(&shard->ledger, awake->device, version, back, sim_shard_ms(shard, now_us));
}

// Versions were activated, or taken back.
static void observe_slots(struct sim_shard *shard, struct sim_awake *awake,
                          const struct dev_stats *stats, uint64_t now_us)
{
    struct dev_task_view view;
    uint64_t again = stats->again - awake->again;
    uint8_t active = shard->ledger.entries[awake->device].active;
    observe_active(shard, awake, stats->rollbacks > awake->rollbacks, now_us);
    sim_fleet_facts_moved(awake, stats, active);
    bool marked = followed_view(shard, awake, &view) && view.placebo_rollout != 0 && again > 0;
    sim_ledger_activated(&shard->ledger, awake->device, stats->activations - awake->activations,
                         again, marked ? sim_shard_version(shard, &view.active) : SIM_VERSION_NONE);
    shard->ledger.counters.rollbacks += stats->rollbacks - awake->rollbacks;
    awake->activations = stats->activations;
    awake->again = stats->again;
    awake->rollbacks = stats->rollbacks;
    awake->withdrawals = stats->withdrawals;
}

// Is there a place for the task followed? The gateway offers a device no more than it has room for.
static void observe_room(struct sim_shard *shard, struct sim_awake *awake)
{
    struct dev_task_view view;
    uint32_t count = dev_task_count(awake->runtime);
    if (count == awake->tasks_seen) {
        return;
    }
    awake->tasks_seen = count;
    bool full = count >= shard->options->tasks && shard->ledger.task_id != 0;
    sim_ledger_room(&shard->ledger, awake->device, full && !followed_view(shard, awake, &view));
}

static void observe(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    struct sim_counters *counters = &shard->ledger.counters;
    if (awake->storage.sealed) {
        awake->storage.sealed = false;
        uint8_t offered = shard->ledger.entries[awake->device].offered;
        for (uint32_t i = 0; i < shard->seen_count; i++) {
            if (shard->seen[i].number == offered &&
                sim_image_complete(shard->store, sim_disk_image(awake->storage.disk, shard->store),
                                   &shard->seen[i].manifest)) {
                sim_ledger_downloaded(&shard->ledger, awake->device, sim_shard_ms(shard, now_us));
            }
        }
    }
    struct dev_stats stats;
    dev_stats(awake->runtime, &stats);
    sim_story_seen(awake, &stats);
    if (stats.activations != awake->activations || stats.rollbacks != awake->rollbacks ||
        stats.withdrawals != awake->withdrawals) {
        observe_slots(shard, awake, &stats, now_us);
    }
    counters->refused_offers += stats.refused_offers - awake->refused;
    counters->refused_metadata += stats.refused_metadata - awake->refused_metadata;
    counters->leases_lost += stats.leases_lost - awake->leases_lost;
    counters->kills += stats.kills - awake->kills;
    awake->refused = stats.refused_offers;
    awake->refused_metadata = stats.refused_metadata;
    awake->leases_lost = stats.leases_lost;
    awake->kills = stats.kills;
    sim_ledger_root(&shard->ledger, awake->device, stats.root_version);
    observe_room(shard, awake);
}

// By how much the wall clock of a device is off, the same in all its lives.
static uint64_t clock_off_us(const struct sim_shard *shard, uint64_t number)
{
    const struct sim_options *options = shard->options;
    uint64_t draw = sim_draw(options->seed, number, SIM_STREAM_CLOCK);
    uint64_t most_us = options->clock_off_days * UINT64_C(86400000000);
    if ((draw >> 32) * 1000000 >> 32 >= options->wrong_clock_ppm) {
        return 0;
    }
    if (draw % 4 == 0) { // it began to count when the run did
        return 0 -
               (shard->clock.wall_us(shard->clock.ctx) - shard->clock.mono_us(shard->clock.ctx));
    }
    return base_mix64(draw) % (2 * most_us) - most_us;
}

static void slot_prepare(struct sim_shard *shard, struct sim_awake *awake, uint32_t index)
{
    uint64_t number = sim_shard_index(shard, index);
    struct sim_device *device = &shard->devices[index];
    const struct sim_options *options = shard->options;
    memset(awake, 0, sizeof(*awake));
    awake->shard = shard;
    awake->device = index;
    awake->index = number;
    awake->id = sim_population_device_id(&shard->population, number);
    (void)sim_exclusive_id(&shard->exclusive, shard->first + index, &awake->id);
    sim_population_draw(&shard->population, number, &awake->traits);
    uint64_t draw = sim_draw(options->seed, number, SIM_STREAM_REAL);
    awake->real = options->real_every > 0 && draw % options->real_every == 0;
    device->disk.real = awake->real;
    awake->storage = (struct sim_storage){
        .store = shard->store, .disk = &device->disk, .alloc = shard->ledger.alloc};
    base_prng_seed(&awake->prng, sim_draw((options->seed ^ options->installation) + device->wakes,
                                          number, SIM_STREAM_RUNTIME));
    draw = sim_draw(options->seed + device->wakes, number, SIM_STREAM_KILL);
    if ((draw >> 32) * 1000000 >> 32 < options->kill_ppm) {
        awake->kill_after = 1 + (uint32_t)(draw % KILL_TICKS_SPREAD);
    }
    awake->clock_off_us = clock_off_us(shard, number);
    sim_bytes_lines_left(shard->bytes, index); // what came once more while it slept began one
    sim_awake_ports(awake);
    sim_behaving_ports(awake);
    const struct sim_faults_waker waker = {.index = number,
                                           .device = index,
                                           .wakes = device->wakes,
                                           .traits = &awake->traits,
                                           .disk = &awake->storage,
                                           .exchanges = awake->exchanges,
                                           .exchange_count = SIM_EXCHANGES_MAX};
    sim_faults_wake(&shard->faults, &waker, &awake->faulty, &awake->ports);
    sim_device_reinstall(awake);
}

static enum base_status boot(struct sim_shard *shard, struct sim_awake *awake)
{
    struct dev_config config;
    sim_device_config(shard->options, &config);
    config.device_id = awake->id;
    config.root_opened = awake->real ? NULL : &shard->born_root;
    sim_traits_wire(&awake->traits, &config.attrs);
    BASE_TRY(dev_init(sim_device_memory(awake), shard->runtime_bytes, &config, &awake->ports,
                      &awake->runtime));
    return dev_boot(awake->runtime);
}

// The runtime starts: the device is who it is, and has shown nothing yet.
static void start(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    enum base_status status = boot(shard, awake);
    sim_story_booted(awake, status);
    if (awake->faulty.dead) {
        sim_device_kill(shard, awake, now_us);
        return;
    }
    if (status != BASE_OK) {
        shard->ledger.counters.boot_failures += !awake->faulty.excused;
        sleep_until(shard, awake, sim_shard_ms(shard, now_us) + BOOT_RETRY_MS);
        return;
    }
    if (shard->ledger.task_id != 0 && shard->devices[awake->device].wakes > 1) {
        observe_active(shard, awake, false, now_us); // recovery may have gone back
    }
    sim_fleet_facts_woke(awake);
    sim_behaving_wake(shard, awake, now_us);
    sim_device_ready(shard, awake);
}

// The turn of a device that enrols. A kill now takes back an answer that has come.
static void enrol_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    uint32_t wait_ms = 0;
    uint64_t deadline_us = sim_enrol_deadline_us(awake);
    if (!sim_enrol_over(awake) && now_us < deadline_us) {
        sim_wheel_set(&shard->wheel, awake->device, sim_shard_ms(shard, deadline_us) + 1);
    } else if (awake->kill_after == 1) {
        sim_device_kill(shard, awake, now_us);
    } else if (sim_enrol_done(awake, &wait_ms)) {
        start(shard, awake, now_us);
    } else {
        sleep_until(shard, awake, sim_shard_ms(shard, now_us) + wait_ms);
    }
}

bool sim_device_wake(struct sim_shard *shard, uint32_t index, uint64_t intended_us, uint64_t now_us)
{
    struct sim_awake *awake = shard->free_slots;
    if (awake == NULL) {
        return false;
    }
    struct sim_device *device = &shard->devices[index];
    shard->free_slots = awake->next;
    shard->awake_count++;
    shard->awake_most =
        shard->awake_count > shard->awake_most ? shard->awake_count : shard->awake_most;
    slot_prepare(shard, awake, index);
    awake->intended_us = intended_us;
    device->slot = (uint32_t)((size_t)((char *)awake - shard->slots) / shard->slot_bytes);
    device->awake = true;
    base_assert(sim_shard_awake(shard, index) == awake);
    sim_shard_note(shard, awake->index, SIM_EVENT_WAKE, device->wakes);
    sim_story_woke(awake, intended_us);
    device->wakes++;
    shard->rebooting -= device->rebooting ? 1 : 0;
    device->rebooting = false;
    shard->ledger.counters.wakes++;
    uint64_t lag_us = now_us > intended_us ? now_us - intended_us : 0;
    base_hist_add(&shard->latencies.lag_us, lag_us);
    base_hist_add(&shard->window_lag_us, lag_us);
    if (!shard->ledger.entries[index].arrived) {
        shard->ledger.entries[index].arrived = true;
        shard->ledger.counters.arrived++;
        shard->ledger.counters.real_devices += awake->real;
        shard->ledger.counters.unenrolled += sim_enrol_needed(awake);
    }
    if (sim_enrol_needed(awake)) {
        sim_enrol_begin(awake, sim_device_memory(awake), now_us);
        sim_device_ready(shard, awake);
    } else {
        start(shard, awake, now_us);
    }
    return true;
}

// ---- Turns ----

static void set_timer(struct sim_shard *shard, struct sim_awake *awake, uint64_t next_us)
{
    uint32_t due = SIM_WHEEL_NONE;
    next_us = sim_faults_timer_us(&awake->faulty, next_us, false);
    if (next_us != UINT64_MAX) {
        uint64_t ms = next_us > shard->start_us ? (next_us - shard->start_us + 999) / 1000 : 0;
        due = ms < SIM_WHEEL_NONE ? (uint32_t)ms : SIM_WHEEL_NONE - 1;
    }
    due = sim_runs_due_ms(awake) < due ? sim_runs_due_ms(awake) : due;
    if (awake->active == NULL && sim_behaving_next_ms(shard, awake->device) < due) {
        due = sim_behaving_next_ms(shard, awake->device);
    }
    if (sim_business_next_ms(shard, awake->device) < due) {
        due = sim_business_next_ms(shard, awake->device);
    }
    awake->due_us = shard->start_us + (uint64_t)due * 1000;
    if (due == SIM_WHEEL_NONE) {
        sim_wheel_cancel(&shard->wheel, awake->device);
    } else {
        sim_wheel_set(&shard->wheel, awake->device, due);
    }
}

// Did a fault end its process? Then it starts again a little later.
static bool died(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    if (awake->faulty.dead) {
        sim_device_kill(shard, awake, now_us);
        return true;
    }
    return false;
}

void sim_device_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us)
{
    if (awake->enrolling != NULL) {
        enrol_turn(shard, awake, now_us);
        return;
    }
    sim_device_unfold(awake);
    if (died(shard, awake, now_us)) { // within a callback
        return;
    }
    if (shard->devices[awake->device].enrol_anew && awake->runs_late == 0) {
        observe(shard, awake, now_us);
        sleep_until(shard, awake, sim_shard_ms(shard, now_us) + REBOOT_MS_MIN); // to enrol first
        return;
    }
    sim_business_turn(shard, awake, now_us);
    uint64_t next_us = 0;
    uint32_t played = 0;
    for (uint32_t i = 0; i < SIM_TURNS_MAX; i++) {
        next_us = dev_tick(awake->runtime, now_us);
        if (died(shard, awake, now_us)) { // what it believes since then, it never was
            return;
        }
        if (awake->kill_after > 0 && --awake->kill_after == 0) {
            observe(shard, awake, now_us);
            sim_device_kill(shard, awake, now_us);
            return;
        }
        if (awake->runs_asked == 0) {
            bool alive = true;
            bool more = sim_behaving_turn(shard, awake, now_us, &alive);
            if (!alive) {
                observe(shard, awake, now_us);
                sim_device_kill(shard, awake, now_us);
                return;
            }
            if (more && ++played < SIM_PLAYS_PER_TURN) {
                now_us = sim_shard_now(shard);
                continue;
            }
            if (more) { // after the others
                sim_device_ready(shard, awake);
                return;
            }
            break;
        }
        observe(shard, awake, now_us);
        if (!sim_runs_play(shard, awake, now_us)) {
            return;
        }
        now_us = sim_shard_now(shard);
    }
    observe(shard, awake, now_us);
    uint64_t active_us = sim_behaving_due_us(awake, now_us);
    next_us = active_us < next_us ? active_us : next_us;
    if (dev_is_idle(awake->runtime) && !shard->options->hints && awake->runs_late == 0 &&
        awake->active == NULL && !sim_device_stays(shard, awake)) {
        sim_fleet_facts_sleeps(awake);
        sleep_until(shard, awake, sim_device_sleeps_until_ms(shard, awake, next_us));
        return;
    }
    set_timer(shard, awake, next_us);
    under_way_set(shard, awake, sim_requests_wait(awake));
    sim_device_rest(awake, next_us);
}

void sim_device_timer(struct sim_shard *shard, uint32_t device, uint64_t now_us)
{
    struct sim_awake *awake = sim_shard_awake(shard, device);
    // Who only has its turn is unfolded then.
    if (sim_runs_due_ms(awake) <= sim_shard_ms(shard, now_us)) {
        sim_device_unfold(awake);
        sim_runs_tell(shard, awake, now_us);
    }
    if (awake->enrolling == NULL && shard->behaving != NULL) {
        sim_device_unfold(awake);
        sim_behaving_wake(shard, awake, now_us);
    }
    // In virtual time nobody waits for another one's turn; whose time limit it is goes on, and
    // begins nothing.
    bool begins = !shard->virtual_time && !(shard->options->hints && awake->under_way);
    line_up(begins ? &shard->due : &shard->ready, awake);
}

// ---- Answers ----

void sim_device_checked_in(struct sim_shard *shard, struct sim_awake *awake, uint64_t asked_us,
                           uint64_t now_us)
{
    uint64_t from_us = awake->checked_in ? asked_us : awake->intended_us;
    uint64_t took_us = now_us > from_us ? now_us - from_us : 0;
    shard->ledger.counters.checkins++;
    base_hist_add(&shard->window_checkin_us, took_us);
    if (!awake->checked_in) {
        awake->checked_in = true;
        base_hist_add(&shard->latencies.checkin_us, took_us);
    }
}

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    struct sim_shard *shard = ctx;
    struct sim_awake *awake = exchange->owner;
    uint64_t now_us = sim_shard_now(shard);
    sim_device_unfold(awake);
    exchange->refused = head->status >= STATUS_SERVER_FAULT || head->status == STATUS_BUSY;
    shard->ledger.counters.answers++;
    sim_shard_note(shard, awake->index, SIM_EVENT_ANSWER, (uint64_t)head->status);
    sim_story_answered(exchange, head->status);
    sim_request_answered(exchange, head->status);
    shard->ledger.counters.unauthorized +=
        (head->status == 401 || head->status == 403) && exchange->kind != SIM_EXCHANGE_ENROL;
    if (head->status == STATUS_UNAUTHORIZED && exchange->kind != SIM_EXCHANGE_ENROL &&
        exchange->credential.size > 0 && shard->options->enrols) {
        shard->devices[awake->device].enrol_anew = true; // an operator has reset it, say
    }
    if (exchange->kind == SIM_EXCHANGE_TUNNEL) {
        sim_tunnel_head(exchange, head, now_us);
        sim_device_ready(shard, awake);
        return;
    }
    if (exchange->kind == SIM_EXCHANGE_ENROL) {
        sim_enrol_head(awake, head);
        return;
    }
    if (exchange->kind == SIM_EXCHANGE_BUSINESS) {
        sim_business_head(exchange, head->status, now_us);
        sim_device_ready(shard, awake);
        return;
    }
    if (exchange->kind == SIM_EXCHANGE_CHECKIN && head->status < 300) {
        sim_device_checked_in(shard, awake, exchange->started_us, now_us);
    }
    dev_on_head(awake->runtime, exchange->id, head);
    sim_device_ready(shard, awake);
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    struct sim_shard *shard = ctx;
    struct sim_awake *awake = exchange->owner;
    sim_device_unfold(awake);
    shard->ledger.counters.response_bytes += size;
    if (exchange->kind == SIM_EXCHANGE_TUNNEL) {
        sim_tunnel_body(exchange, bytes, size, sim_shard_now(shard));
    } else if (exchange->kind == SIM_EXCHANGE_ENROL) {
        sim_enrol_body(awake, bytes, size);
    } else if (exchange->kind != SIM_EXCHANGE_BUSINESS) {
        dev_on_body(awake->runtime, exchange->id, bytes, size);
    }
    sim_device_ready(shard, awake);
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    struct sim_shard *shard = ctx;
    struct sim_awake *awake = exchange->owner;
    if (!exchange->open) {
        return;
    }
    exchange->open = false;
    sim_device_unfold(awake);
    uint64_t now_us = sim_shard_now(shard);
    sim_fleet_facts_heard(awake, exchange, status == BASE_OK && !exchange->refused);
    base_hist_add(&shard->latencies.request_us[exchange->kind], now_us - exchange->started_us);
    if (status != BASE_OK) {
        sim_request_in_vain(exchange);
        sim_shard_note(shard, awake->index, SIM_EVENT_FAULT, (uint64_t)(-(int64_t)status));
        sim_story_failed(exchange, status);
    }
    if (exchange->kind == SIM_EXCHANGE_TUNNEL) {
        sim_tunnel_end(exchange, status, now_us);
    } else if (exchange->kind == SIM_EXCHANGE_ENROL) {
        sim_enrol_end(awake, status);
    } else if (exchange->kind == SIM_EXCHANGE_BUSINESS) {
        sim_business_end(exchange);
    } else {
        dev_on_end(awake->runtime, exchange->id, status);
    }
    sim_device_ready(shard, awake);
}

static void on_writable(void *ctx, struct sim_exchange *exchange)
{
    struct sim_shard *shard = ctx;
    sim_tunnel_writable(exchange, sim_shard_now(shard));
    sim_device_ready(shard, exchange->owner);
}

struct sim_transport_events sim_device_events(struct sim_shard *shard)
{
    const struct sim_transport_events events = {
        .ctx = shard, .head = on_head, .body = on_body, .end = on_end, .writable = on_writable};
    return sim_faults_events(&shard->faults, &events);
}
