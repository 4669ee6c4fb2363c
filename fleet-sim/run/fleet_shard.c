// A shard: its share of the devices, one event loop, open-loop arrivals. sim_shard_run is the body
// of the shard's thread.
//
// One turn of the loop: reconnect what is due, take wakes that are due (bounded, so that sockets
// are served), hand out in-process answers, tick every ready device, publish once a second, then
// wait for sockets or the next due time.
#include "run/fleet.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "model/zero_pages.h"
#include "run/fleet_behaviour.h"
#include "run/fleet_business.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#define WAIT_US_MAX         50000 // a stop is seen this soon
#define CONNECT_WAIT_US     10000000
#define PUBLISH_US          250000
#define SERVE_US_MAX        50000 // of ready devices, in real time; then sockets have their turn
#define SERVE_DUE_US        5000  // ... of those who are only due at least
#define OUTCOMES_PER_DEVICE 8
#define SLOT_STEP           64 // a line of a cache; slots in large pages are an odd count of them

void sim_device_config(const struct sim_options *options, struct dev_config *out)
{
    memset(out, 0, sizeof(*out));
    if (options->root_bytes > 0) {
        out->root = options->root;
        out->root_bytes = options->root_bytes;
    } else {
        memcpy(out->trusted_keys[0], options->local ? sim_local_key[0] : options->trusted_key,
               WIRE_PUBLIC_KEY_BYTES);
        out->trusted_key_count = 1;
    }
    out->tasks_max = options->tasks;
    out->runs_max = options->runs;
    out->outcomes_max = OUTCOMES_PER_DEVICE;
    out->checkin_interval_s = options->checkin_interval_s;
    out->request_timeout_ms = options->request_timeout_ms;
    out->backoff_base_ms = options->retry_base_ms;
    out->hints = options->hints;
    out->ride_wait_s = sim_business_wait_s(options);
    out->result_bytes_max = SIM_RESULT_BYTES_MAX;
    out->cloud_calls_max = options->cloud_models[0] != '\0'; // a script makes one at a time
    // A kill during a run looks like a crash of the version. Killed at random, a device tries
    // again.
    bool killed = options->kill_ppm > 0 || sim_fault_plan_kills(&options->faults);
    out->crash_limit = killed ? SIM_CRASH_LIMIT_KILLS : 0;
}

static size_t pages(size_t bytes)
{
    return (bytes + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES * SIM_PAGE_BYTES;
}

// 0: the configuration is invalid.
static size_t filled_bytes(const struct sim_options *options, size_t *out_runtime_bytes)
{
    struct dev_config config;
    struct sim_traits widest;
    sim_device_config(options, &config);
    sim_population_widest(options->people, &widest);
    sim_traits_wire(&widest, &config.attrs);
    *out_runtime_bytes = (dev_runtime_bytes(&config) + 15) & ~(size_t)15;
    size_t awake = (sizeof(struct sim_awake) + 15) & ~(size_t)15;
    return *out_runtime_bytes > 0 ? awake + *out_runtime_bytes : 0;
}

// Slots that are used again and again cost most by being found in memory. Where everybody stays
// awake, or a slot has many places for tasks, what is never touched is worth more.
bool sim_slots_are_large(const struct sim_options *options)
{
    size_t runtime = 0;
    size_t filled = filled_bytes(options, &runtime);
    return !options->hints && filled <= SIM_LARGE_SLOT_BYTES &&
           filled * sim_options_slots(options) <= SIM_LARGE_SLOTS_BYTES;
}

// In large pages the same place of all slots must not be the same place of the caches.
size_t sim_awake_bytes(const struct sim_options *options, size_t *out_runtime_bytes)
{
    size_t filled = filled_bytes(options, out_runtime_bytes);
    if (filled > 0 && options->hints) {
        return filled - *out_runtime_bytes;
    }
    if (filled > 0 && sim_slots_are_large(options)) {
        return filled + 2 * SLOT_STEP - filled % (2 * SLOT_STEP) + SLOT_STEP;
    }
    return options->root_bytes > 0 ? pages(filled) : filled;
}

size_t sim_task_places_bytes(const struct sim_options *options)
{
    struct dev_config config;
    sim_device_config(options, &config);
    size_t all = dev_runtime_bytes(&config);
    config.tasks_max = 1;
    return all - dev_runtime_bytes(&config);
}

size_t sim_awake_used_bytes(const struct sim_options *options)
{
    size_t runtime = 0;
    if (options->hints) {
        size_t slot = sim_awake_bytes(options, &runtime);
        return slot > 0 ? slot + SIM_LISTENING_BYTES : 0;
    }
    if (options->root_bytes == 0 || sim_slots_are_large(options)) {
        return sim_awake_bytes(options, &runtime);
    }
    size_t filled = filled_bytes(options, &runtime);
    return filled > 0 ? pages(filled - WIRE_META_BYTES_MAX + SIM_META_BYTES_EXPECTED) : 0;
}

size_t sim_rooms_used_bytes(const struct sim_options *options)
{
    size_t runtime = 0;
    uint32_t shards = sim_options_shards(options);
    size_t warm = (size_t)sim_rooms_warm(options->devices / shards) * shards;
    size_t rooms = warm < options->devices ? warm : options->devices;
    return options->hints && filled_bytes(options, &runtime) > 0 ? rooms * runtime : 0;
}

static size_t slots_bytes(const struct sim_shard *shard)
{
    return shard->slot_bytes * ((size_t)shard->awake_max + 1);
}

static enum base_status slots_init(struct sim_shard *shard)
{
    const struct base_alloc_port *alloc = shard->ledger.alloc;
    shard->slot_bytes = sim_awake_bytes(shard->options, &shard->runtime_bytes);
    if (shard->slot_bytes == 0) {
        return BASE_ERR_INVALID;
    }
    shard->awake_max = shard->options->awake_max / shard->shards;
    shard->awake_max = shard->awake_max > 0 ? shard->awake_max : 1;
    if (shard->options->hints || shard->awake_max > shard->count) {
        shard->awake_max = shard->count;
    }
    if (shard->options->hints) {
        BASE_TRY(sim_rooms_init(&shard->rooms, alloc, shard->runtime_bytes, shard->awake_max));
    }
    // Not touched here: a slot costs memory only once it was used.
    if (sim_slots_are_large(shard->options)) {
        shard->slots = sim_large_pages_new(slots_bytes(shard));
        return shard->slots != NULL ? BASE_OK : BASE_ERR_NOMEM;
    }
    shard->slots_memory = alloc->alloc(alloc->ctx, slots_bytes(shard) + SIM_PAGE_BYTES);
    if (shard->slots_memory == NULL) {
        return BASE_ERR_NOMEM;
    }
    shard->slots = (char *)shard->slots_memory +
                   (SIM_PAGE_BYTES - (uintptr_t)shard->slots_memory % SIM_PAGE_BYTES);
    return BASE_OK;
}

static void slots_done(struct sim_shard *shard)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    if (shard->slots != NULL && shard->slots_memory == NULL) {
        sim_large_pages_free(shard->slots, slots_bytes(shard));
    }
    alloc->release(alloc->ctx, shard->slots_memory);
    shard->slots = NULL;
    shard->slots_memory = NULL;
    sim_rooms_done(&shard->rooms);
}

// Free slots are threaded in as they are first needed, so untouched memory stays untouched.
static void slots_extend(struct sim_shard *shard)
{
    if (shard->free_slots == NULL && shard->awake_count < shard->awake_max) {
        struct sim_awake *slot =
            (struct sim_awake *)(void *)(shard->slots + shard->slot_bytes * shard->awake_count);
        slot->next = NULL;
        shard->free_slots = slot;
    }
}

static uint32_t share(uint32_t total, uint32_t parts, uint32_t part)
{
    return total / parts + (part < total % parts ? 1 : 0);
}

static enum base_status network_init(struct sim_shard *shard)
{
    const struct sim_options *options = shard->options;
    bool own = options->own_host[0] != 0;
    bool own_tls = own ? options->own_tls : options->tls;
    if (options->tls || own_tls) {
        BASE_TRY(h2_tls_new(NULL, &shard->tls));
    }
    uint32_t dedicated = share(options->dedicated, shard->shards, shard->number);
    dedicated = dedicated < shard->count ? dedicated : shard->count;
    uint32_t others = shard->count - dedicated;
    uint32_t carriers = (others + options->per_carrier - 1) / options->per_carrier;
    struct sim_links_options links = {
        .base = shard->base,
        .alloc = shard->ledger.alloc,
        .clock = shard->clock,
        .host = base_str_of(options->host),
        .port = options->port,
        .tls = options->tls ? shard->tls : NULL,
        .own_host = base_str_of(own ? options->own_host : options->host),
        .own_port = own ? options->own_port : options->port,
        .own_tls = own_tls ? shard->tls : NULL,
        .carriers = carriers,
        .dedicated = dedicated,
        .first_source = shard->number * 400000,
        .seed = options->seed + shard->number,
        .enrol_token = base_str_of(options->enrol_token),
        .events = sim_device_events(shard),
    };
    BASE_TRY(sim_links_new(&links, &shard->links));
    shard->transport = sim_links_transport(shard->links);
    return BASE_OK;
}

static void on_timer(evutil_socket_t socket, short what, void *ctx)
{
    (void)socket, (void)what, (void)ctx; // only ends the wait
}

static struct sim_faulty *faulty_of(const struct sim_exchange *exchange)
{
    return &((struct sim_awake *)exchange->owner)->faulty;
}

// To the runtime, which waits for nothing by this name any more.
static void told_again(const struct sim_exchange *exchange, const struct sim_answer *answer)
{
    struct sim_awake *awake = exchange->owner;
    sim_device_unfold(awake);
    if (awake->enrolling == NULL && awake->runtime != NULL) {
        dev_on_head(awake->runtime, exchange->id, answer->head);
        dev_on_body(awake->runtime, exchange->id, answer->body, answer->size);
        dev_on_end(awake->runtime, exchange->id, answer->status);
    }
}

static enum base_status shard_setup(struct sim_shard *shard, struct sim_shared_verify *verify)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    BASE_TRY(sim_ledger_init(&shard->ledger, alloc, shard->versions, shard->count));
    shard->ledger.task_id = sim_options_task_id(shard->options);
    BASE_TRY(sim_fleet_facts_init(shard));
    const struct sim_faults_options faults = {.plan = &shard->options->faults,
                                              .alloc = alloc,
                                              .clock = shard->clock,
                                              .start_us = shard->start_us,
                                              .seed = shard->options->seed,
                                              .devices = shard->count,
                                              .faulty_of = faulty_of,
                                              .again = told_again};
    sim_faults_init(&shard->faults, &faults);
    shard->devices = sim_pages_new(sizeof(shard->devices[0]) * shard->count);
    if (shard->devices == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (shard->options->business_rate > 0) {
        shard->business = sim_pages_new(sizeof(shard->business[0]) * shard->count);
        if (shard->business == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    BASE_TRY(sim_wheel_init(&shard->wheel, alloc, shard->devices, sizeof(struct sim_device)));
    BASE_TRY(slots_init(shard));
    BASE_TRY(sim_store_new(alloc, dev_crypto_openssl(), &shard->store));
    shard->real_crypto = *dev_crypto_openssl();
    if (shard->options->local) {
        shard->real_crypto = sim_local_crypto(dev_crypto_openssl());
    }
    BASE_TRY(sim_crypto_init(&shard->crypto, alloc, &shard->real_crypto, shard->store, verify));
    BASE_TRY(sim_roots_begin(shard));
    sim_runner_init(&shard->runner, shard->store);
    if (shard->virtual_time) {
        return BASE_OK; // neither sockets nor waiting
    }
    shard->base = event_base_new();
    shard->timer = shard->base != NULL ? evtimer_new(shard->base, on_timer, NULL) : NULL;
    if (shard->timer == NULL) {
        return BASE_ERR_NOMEM;
    }
    return shard->options->local ? BASE_OK : network_init(shard);
}

void sim_shard_note(struct sim_shard *shard, uint64_t index, enum sim_event_kind kind,
                    uint64_t value)
{
    if (shard->recorder.taking) {
        const struct sim_event event = {.index = index, .value = value, .kind = kind};
        sim_recorder_take(&shard->recorder, sim_shard_now(shard), &event);
    }
}

void sim_shard_in_order(const struct sim_shard *shard)
{
    if (shard->order.wait != NULL) {
        shard->order.wait(shard->order.ctx, shard->number);
    }
}

enum base_status sim_shard_init(struct sim_shard *shard, const struct sim_share *share,
                                const struct sim_options *options, struct sim_versions *versions)
{
    memset(shard, 0, sizeof(*shard));
    shard->options = options;
    shard->population = sim_options_population(options);
    shard->clock = share->clock != NULL ? *share->clock : *base_clock_real();
    shard->virtual_time = share->clock != NULL;
    shard->start_us = sim_shard_now(shard);
    shard->versions = versions;
    shard->number = share->number;
    shard->first = share->first;
    shard->count = share->count;
    shard->shards = sim_options_shards(options);
    shard->waiting_first = SIM_WHEEL_NONE;
    shard->waiting_last = SIM_WHEEL_NONE;
    base_hist_init(&shard->latencies.lag_us);
    base_hist_init(&shard->latencies.checkin_us);
    for (uint32_t i = 0; i < SIM_EXCHANGE_KIND_COUNT; i++) {
        base_hist_init(&shard->latencies.request_us[i]);
    }
    base_hist_init(&shard->window_lag_us);
    base_hist_init(&shard->window_checkin_us);
    pthread_mutex_init(&shard->mailbox.lock, NULL);
    base_hist_init(&shard->mailbox.lag_us);
    base_hist_init(&shard->mailbox.checkin_us);
    shard->status = shard_setup(shard, share->verify);
    return shard->status;
}

void sim_shard_done(struct sim_shard *shard)
{
    sim_links_free(shard->links);
    h2_tls_free(shard->tls);
    if (shard->timer != NULL) {
        event_free(shard->timer);
    }
    if (shard->base != NULL) {
        event_base_free(shard->base);
    }
    sim_faults_done(&shard->faults);
    sim_behaving_done(shard);
    sim_runner_done(&shard->runner);
    sim_crypto_done(&shard->crypto);
    const struct base_alloc_port *alloc = base_alloc_heap();
    for (uint32_t i = 0; shard->devices != NULL && i < shard->count; i++) {
        sim_disk_done(&shard->devices[i].disk, shard->store, alloc);
    }
    sim_exclusive_done(&shard->exclusive);
    sim_store_free(shard->store);
    sim_wheel_done(&shard->wheel);
    sim_pages_free(shard->devices, sizeof(shard->devices[0]) * shard->count);
    sim_pages_free(shard->business, sizeof(shard->business[0]) * shard->count);
    slots_done(shard);
    sim_facts_done(&shard->facts);
    sim_ledger_done(&shard->ledger);
    sim_recorder_done(&shard->recorder);
    pthread_mutex_destroy(&shard->mailbox.lock);
}

// ---- Wakes ----

// A due wake without a free slot waits in order; its time stays the intended one.
static void put_off(struct sim_shard *shard, uint32_t device)
{
    shard->ledger.counters.skipped++;
    shard->devices[device].node.next = SIM_WHEEL_NONE;
    if (shard->waiting_last != SIM_WHEEL_NONE) {
        shard->devices[shard->waiting_last].node.next = device;
    } else {
        shard->waiting_first = device;
    }
    shard->waiting_last = device;
}

static uint64_t intended_us(const struct sim_shard *shard, uint32_t device)
{
    return shard->start_us + (uint64_t)shard->devices[device].intended_ms * 1000;
}

static bool wake(struct sim_shard *shard, uint32_t device, uint64_t when_us, uint64_t now_us)
{
    slots_extend(shard);
    return sim_device_wake(shard, device, when_us, now_us);
}

static uint32_t wake_waiting(struct sim_shard *shard, uint64_t now_us, uint32_t budget)
{
    uint32_t woken = 0;
    while (shard->waiting_first != SIM_WHEEL_NONE && woken < budget) {
        uint32_t device = shard->waiting_first;
        uint32_t next = shard->devices[device].node.next;
        if (!wake(shard, device, intended_us(shard, device), now_us)) {
            break;
        }
        shard->waiting_first = next;
        if (next == SIM_WHEEL_NONE) {
            shard->waiting_last = SIM_WHEEL_NONE;
        }
        woken++;
    }
    return woken;
}

static void wake_due(struct sim_shard *shard, uint64_t now_us)
{
    uint32_t now_ms = sim_shard_ms(shard, now_us);
    uint32_t device;
    while ((device = sim_wheel_pop(&shard->wheel, now_ms)) != SIM_WHEEL_NONE) {
        if (shard->devices[device].awake) {
            sim_device_timer(shard, device, now_us);
        } else if (!sim_behaving_held(shard, device, now_ms) &&
                   (shard->waiting_first != SIM_WHEEL_NONE ||
                    !wake(shard, device, intended_us(shard, device), now_us))) {
            put_off(shard, device);
        }
    }
}

// Intended time of the arrival of a shard's device: as the curve has it, else evenly spaced, with a
// seeded jitter of one gap.
static uint64_t arrival_us(const struct sim_shard *shard, uint32_t device)
{
    double rate = shard->options->arrival_rate / shard->shards;
    uint64_t draw =
        sim_draw(shard->options->seed, (uint64_t)shard->first + device, SIM_STREAM_ARRIVAL);
    if (shard->options->arrivals != NULL) {
        const struct sim_arrival arrival = {device, shard->count, draw};
        return shard->arrivals_start_us + sim_arrivals_us(shard->options->arrivals, &arrival);
    }
    double jitter = (double)(draw >> 32) / 4294967296.0;
    return shard->arrivals_start_us + (uint64_t)(((double)device + jitter) / rate * 1e6);
}

static void wake_arrivals(struct sim_shard *shard, uint64_t now_us, uint32_t budget)
{
    while (shard->arrived < shard->count && budget > 0) {
        uint64_t when_us = arrival_us(shard, shard->arrived);
        if (when_us > now_us) {
            break;
        }
        if (shard->waiting_first != SIM_WHEEL_NONE ||
            !wake(shard, shard->arrived, when_us, now_us)) {
            shard->blocked_us = now_us;
            break;
        }
        shard->ledger.counters.skipped += when_us <= shard->blocked_us;
        shard->arrived++;
        budget--;
    }
}

// ---- The loop ----

void sim_shard_publish(struct sim_shard *shard)
{
    struct sim_counters *counters = &shard->ledger.counters;
    counters->awake = shard->awake_count;
    counters->shared_hash_bytes = shard->crypto.shared_bytes;
    counters->real_hash_bytes = shard->crypto.real_bytes;
    counters->shared_signatures = shard->crypto.verify_hits;
    counters->real_signatures = shard->crypto.verify_real;
    counters->shared_checks = shard->runner.checks.shared;
    counters->real_checks = shard->runner.checks.made;
    const struct sim_states_stats states = sim_states_stats(sim_store_states(shard->store));
    counters->states_checked = states.checked;
    counters->boot_failures += states.mismatches - counters->state_mismatches;
    counters->state_mismatches = states.mismatches;
    counters->shared_runs = shard->runner.runs.shared;
    if (shard->links != NULL) {
        counters->links_up = sim_links_up(shard->links);
        counters->links_never_up = sim_links_never_up(shard->links);
        counters->reconnects = sim_links_reconnects(shard->links);
    }
    if (shard->behaving != NULL) {
        uint64_t left = shard->behaving->sessions_left;
        counters->behaviour.left = left != UINT64_MAX ? left : 0;
        counters->behaviour.active = shard->behaving->active_count;
    }
    pthread_mutex_lock(&shard->mailbox.lock);
    shard->mailbox.counters = *counters;
    shard->mailbox.task_id = shard->ledger.task_id;
    base_hist_merge(&shard->mailbox.lag_us, &shard->window_lag_us);
    base_hist_merge(&shard->mailbox.checkin_us, &shard->window_checkin_us);
    pthread_mutex_unlock(&shard->mailbox.lock);
    base_hist_clear(&shard->window_lag_us);
    base_hist_clear(&shard->window_checkin_us);
}

// Takes the first one out of the line.
static struct sim_awake *line_pop(struct sim_line *line)
{
    struct sim_awake *awake = line->first;
    line->first = awake->next;
    line->last = line->first != NULL ? line->last : NULL;
    awake->ready = false;
    return awake;
}

// May the next one of those who are due begin? Where a hint brings everybody, each that waits for
// an answer costs memory on both sides: no more are at work than may be awake where devices sleep,
// and how long the others wait counts as the generator's lag, as there.
static bool due_begins(const struct sim_shard *shard)
{
    uint32_t most = shard->options->awake_max / shard->shards;
    bool room = !shard->options->hints || shard->under_way < (most > 0 ? most : 1);
    return room && shard->due.first != NULL;
}

static bool line_moves(const struct sim_shard *shard, const struct sim_line *line)
{
    return line == &shard->due ? due_begins(shard) : line->first != NULL;
}

static void lag_note(struct sim_shard *shard, const struct sim_awake *awake, uint64_t now_us)
{
    uint64_t lag_us = now_us > awake->due_us ? now_us - awake->due_us : 0;
    base_hist_add(&shard->latencies.lag_us, lag_us);
    base_hist_add(&shard->window_lag_us, lag_us);
}

// Those who are in the line now.
static void serve_line(struct sim_shard *shard, struct sim_line *line, uint64_t until_us)
{
    uint64_t now_us = sim_shard_now(shard);
    const struct sim_awake *last = line->last;
    bool more = line_moves(shard, line);
    while (more && now_us < until_us) {
        struct sim_awake *awake = line_pop(line);
        if (line == &shard->due && shard->options->hints) { // who listens is woken by its timer
            lag_note(shard, awake, now_us);
        }
        sim_device_turn(shard, awake, now_us);
        now_us = sim_shard_now(shard);
        more = awake != last && line_moves(shard, line);
    }
}

// Where a crowd is ready at once, as after a hint to all, its requests do not wait for the last of
// it: the gateway works on them meanwhile, and the figures of the run go on. Who has an answer goes
// before who has something to begin.
static void serve_ready(struct sim_shard *shard)
{
    uint64_t now_us = sim_shard_now(shard);
    uint64_t until_us = shard->virtual_time ? UINT64_MAX : now_us + SERVE_US_MAX;
    serve_line(shard, &shard->ready, until_us);
    shard->told = 0;
    uint64_t least_us = sim_shard_now(shard) + SERVE_DUE_US;
    serve_line(shard, &shard->due, until_us > least_us ? until_us : least_us);
}

// Time until something is due here, at most WAIT_US_MAX.
static uint64_t wait_us(const struct sim_shard *shard, uint64_t now_us, uint64_t links_us)
{
    if (shard->ready.first != NULL || due_begins(shard) || shard->local.first != NULL) {
        return 0;
    }
    uint64_t due_us = shard->virtual_time ? UINT64_MAX : now_us + WAIT_US_MAX;
    uint32_t next_ms = sim_wheel_next(&shard->wheel);
    if (next_ms != SIM_WHEEL_NONE) {
        uint64_t next_us = shard->start_us + (uint64_t)next_ms * 1000;
        due_us = next_us < due_us ? next_us : due_us;
    }
    bool slot = shard->awake_count < shard->awake_max;
    if (slot && shard->waiting_first != SIM_WHEEL_NONE) {
        return 0;
    }
    if (slot && shard->arrived < shard->count) {
        uint64_t next_us = arrival_us(shard, shard->arrived);
        due_us = next_us < due_us ? next_us : due_us;
    }
    due_us = links_us < due_us ? links_us : due_us;
    uint64_t fault_us = sim_faults_due_us(&shard->faults);
    due_us = fault_us < due_us ? fault_us : due_us;
    return due_us > now_us ? due_us - now_us : 0;
}

static void wait_events(struct sim_shard *shard, uint64_t us)
{
    if (us == 0) {
        (void)event_base_loop(shard->base, EVLOOP_NONBLOCK);
        return;
    }
    struct timeval span = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    (void)evtimer_add(shard->timer, &span);
    (void)event_base_loop(shard->base, EVLOOP_ONCE);
    (void)evtimer_del(shard->timer);
}

// Carriers are connected before the first device comes online, unless that takes too long.
static void connect_first(struct sim_shard *shard)
{
    uint64_t now_us = sim_shard_now(shard);
    uint64_t until_us = now_us + CONNECT_WAIT_US;
    uint32_t wanted = 0;
    if (shard->links != NULL) {
        uint32_t dedicated = share(shard->options->dedicated, shard->shards, shard->number);
        uint32_t others = shard->count > dedicated ? shard->count - dedicated : 0;
        wanted = (others + shard->options->per_carrier - 1) / shard->options->per_carrier;
    }
    while (shard->links != NULL && sim_links_carriers_up(shard->links) < wanted &&
           now_us < until_us && !atomic_load(&shard->stop)) {
        (void)sim_links_tick(shard->links, now_us);
        wait_events(shard, 1000);
        now_us = sim_shard_now(shard);
    }
    shard->arrivals_start_us = now_us;
}

// In the simulate stage nothing more happens once every device has come and has gone to sleep: who
// was killed starts again soon, everybody else sleeps for minutes.
static bool all_done(const struct sim_shard *shard)
{
    bool played = shard->behaving == NULL || shard->behaving->sessions_left == 0;
    return shard->options->local && played && shard->arrived == shard->count &&
           shard->awake_count == 0 && shard->rebooting == 0 &&
           shard->waiting_first == SIM_WHEEL_NONE;
}

// Where a storm begins, everybody who sleeps and is meant wakes in this moment.
static void wake_all(struct sim_shard *shard, uint64_t now_us)
{
    const struct sim_fault_rule *rule = sim_faults_storm(&shard->faults, now_us);
    for (uint32_t i = 0; rule != NULL && i < shard->arrived; i++) {
        struct sim_device *device = &shard->devices[i];
        struct sim_traits traits;
        if (device->awake || device->node.due == SIM_WHEEL_NONE) {
            continue; // awake, or waiting for a place to be so
        }
        sim_population_draw(&shard->population, sim_shard_index(shard, i), &traits);
        if (sim_fault_means(rule, &traits)) {
            device->intended_ms = sim_shard_ms(shard, now_us);
            sim_wheel_set(&shard->wheel, i, device->intended_ms);
        }
    }
}

// How far the wall clock is from the other: somebody may set it while the run goes on.
static void wall_look(struct sim_shard *shard)
{
    if (!shard->virtual_time) {
        uint64_t now_us = sim_shard_now(shard);
        shard->wall_off_us = shard->clock.wall_us(shard->clock.ctx) - now_us;
    }
}

static uint64_t turn(struct sim_shard *shard, uint64_t now_us, uint64_t links_us)
{
    wall_look(shard);
    uint32_t budget = SIM_WAKES_PER_TURN;
    budget -= wake_waiting(shard, now_us, budget);
    wake_due(shard, now_us);
    wake_arrivals(shard, now_us, budget);
    if (shard->options->local) {
        (void)sim_local_deliver(&shard->local);
    }
    sim_faults_turn(&shard->faults, now_us);
    wake_all(shard, now_us);
    serve_ready(shard);
    now_us = sim_shard_now(shard);
    if (now_us >= shard->publish_us && !shard->virtual_time) {
        sim_shard_publish(shard);
        shard->publish_us = now_us + PUBLISH_US;
    }
    return wait_us(shard, now_us, links_us);
}

void sim_shard_begin(struct sim_shard *shard)
{
    connect_first(shard);
}

uint64_t sim_shard_turn(struct sim_shard *shard)
{
    uint64_t now_us = sim_shard_now(shard);
    return now_us + turn(shard, now_us, UINT64_MAX);
}

void sim_shard_end(struct sim_shard *shard)
{
    while (shard->ready.first != NULL) {
        (void)line_pop(&shard->ready);
    }
    while (shard->due.first != NULL) {
        (void)line_pop(&shard->due);
    }
    for (uint32_t i = 0; i < shard->count; i++) {
        struct sim_awake *awake = sim_shard_awake(shard, i);
        if (awake != NULL) {
            sim_behaving_drop(shard, awake, true);
            sim_device_drop(shard, awake);
        }
    }
    shard->end_us = sim_shard_now(shard);
    sim_shard_publish(shard);
    atomic_store(&shard->done, true);
}

void sim_shard_run(struct sim_shard *shard)
{
    sim_shard_begin(shard);
    uint64_t links_us = UINT64_MAX;
    while (!atomic_load_explicit(&shard->stop, memory_order_relaxed)) {
        uint64_t now_us = sim_shard_now(shard);
        if (shard->links != NULL) {
            links_us = sim_links_tick(shard->links, now_us);
        }
        uint64_t us = turn(shard, now_us, links_us);
        if (all_done(shard)) {
            break;
        }
        wait_events(shard, us);
    }
    sim_shard_end(shard);
}
