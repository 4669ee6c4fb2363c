// The life of a device runtime: memory, boot and recovery, the tick, and the views.
//
// Called by the embedding app, the agent and the simulator through device/device.h, and by
// transports through device/port.h, all on the runtime's own thread.
#include "core/runtime.h"
#include "core/trust_store.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define DEFAULT_OUTCOMES_MAX    64
#define DEFAULT_INTERVAL_S      300
#define DEFAULT_BACKOFF_BASE_MS 1000
#define DEFAULT_BACKOFF_CAP_MS  300000
#define DEFAULT_TIMEOUT_MS      30000
#define ALIGNMENT               16

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value > 0 ? value : standard;
}

// ---- Memory

static bool keys_ok(const struct dev_config *config)
{
    if (config->trusted_key_count > DEV_TRUSTED_KEYS_MAX ||
        (config->trusted_key_count > 0 &&
         config->signature_threshold > config->trusted_key_count)) {
        return false;
    }
    for (uint32_t i = 0; i < config->trusted_key_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (memcmp(config->trusted_keys[i], config->trusted_keys[j], WIRE_PUBLIC_KEY_BYTES) ==
                0) {
                return false; // one key must not count as two signers
            }
        }
    }
    return true;
}

// An upper bound of the encoded attributes, without encoding them.
static size_t attrs_bound(const struct wire_attrs *attrs)
{
    size_t bound = 1;
    for (uint32_t i = 0; i < attrs->count; i++) {
        size_t value =
            attrs->items[i].type == WIRE_ATTR_STRING ? attrs->items[i].text.size + 2 : 10;
        bound += 3 + attrs->items[i].name.size + value;
    }
    return bound < WIRE_ATTRS_BYTES_MAX ? bound : WIRE_ATTRS_BYTES_MAX;
}

struct places {
    struct dev_runtime *runtime;
    struct dev_task *tasks;
    struct dev_past *past;
    void *refusals;
    uint8_t *attrs;
    void *outcomes;
    struct dev_trust_work *trust_work; // NULL without a root
    char *result;                      // at the end: what was not used was not touched
};

// Counts, or hands out `memory`.
static size_t lay_out(const struct dev_config *config, void *memory, struct places *out)
{
    struct base_carver carver = {.block = memory, .capacity = SIZE_MAX, .alignment = ALIGNMENT};
    uint32_t tasks_max = or_default(config->tasks_max, DEV_TASKS_DEFAULT);
    uint32_t outcomes_max = or_default(config->outcomes_max, DEFAULT_OUTCOMES_MAX);
    out->runtime = base_carve(&carver, 1, sizeof(struct dev_runtime));
    out->tasks = base_carve(&carver, tasks_max, sizeof(struct dev_task));
    out->past = base_carve(&carver, tasks_max, sizeof(struct dev_past));
    out->refusals = base_carve(&carver, dev_refusals_room(tasks_max), sizeof(uint64_t));
    out->attrs = base_carve(&carver, 1, attrs_bound(&config->attrs));
    out->outcomes = base_carve(&carver, 1, dev_outcomes_bytes(outcomes_max));
    out->trust_work =
        config->root != NULL ? base_carve(&carver, 1, sizeof(struct dev_trust_work)) : NULL;
    out->result =
        base_carve(&carver, 1, or_default(config->result_bytes_max, DEV_RESULT_BYTES_DEFAULT));
    return carver.used;
}

size_t dev_runtime_bytes(const struct dev_config *config)
{
    struct places places;
    uint32_t tasks_max = or_default(config->tasks_max, DEV_TASKS_DEFAULT);
    uint32_t outcomes_max = or_default(config->outcomes_max, DEFAULT_OUTCOMES_MAX);
    if (tasks_max > DEV_TASKS_MAX || outcomes_max > WIRE_REPORT_MAX ||
        config->attrs.count > WIRE_ATTRS_MAX || config->result_bytes_max > DEV_RESULT_BYTES_MAX ||
        config->ride_wait_s > DEV_RIDE_WAIT_MAX_S || !keys_ok(config)) {
        return 0;
    }
    return lay_out(config, NULL, &places);
}

static void settings_copy(struct dev_settings *settings, const struct dev_config *config)
{
    settings->device_id = config->device_id;
    settings->trusted_key_count = config->trusted_key_count;
    settings->signature_threshold = or_default(config->signature_threshold, 1);
    settings->root = config->root;
    settings->root_bytes = config->root_bytes;
    settings->mirrors = config->mirrors;
    settings->tasks_max = or_default(config->tasks_max, DEV_TASKS_DEFAULT);
    settings->outcomes_max = or_default(config->outcomes_max, DEFAULT_OUTCOMES_MAX);
    settings->result_bytes_max = or_default(config->result_bytes_max, DEV_RESULT_BYTES_DEFAULT);
    settings->checkin_interval_s = or_default(config->checkin_interval_s, DEFAULT_INTERVAL_S);
    settings->own_pace = config->checkin_interval_s > 0;
    settings->checkin_spread_s = config->checkin_spread_s;
    settings->backoff_base_ms = or_default(config->backoff_base_ms, DEFAULT_BACKOFF_BASE_MS);
    settings->backoff_cap_ms = or_default(config->backoff_cap_ms, DEFAULT_BACKOFF_CAP_MS);
    settings->request_timeout_us =
        or_default(config->request_timeout_ms, DEFAULT_TIMEOUT_MS) * 1000ull;
    settings->ride_wait_s = config->ride_wait_s;
    settings->report_delay_us = config->report_delay_ms * 1000ull;
    settings->born_s = config->born_s;
    settings->crash_limit = or_default(config->crash_limit, 1);
    settings->hints = config->hints;
    memcpy(settings->trusted_keys, config->trusted_keys, sizeof(settings->trusted_keys));
    wire_device_hex(config->device_id, settings->device_hex);
}

enum base_status dev_init(void *memory, size_t memory_bytes, const struct dev_config *config,
                          const struct dev_ports *ports, struct dev_runtime **out_runtime)
{
    size_t needed = dev_runtime_bytes(config);
    if (needed == 0 || memory == NULL || memory_bytes < needed ||
        (uintptr_t)memory % ALIGNMENT != 0) {
        return BASE_ERR_INVALID;
    }
    struct places places;
    (void)lay_out(config, memory, &places);
    struct dev_runtime *runtime = places.runtime;
    memset(runtime, 0, sizeof(*runtime));
    runtime->ports = ports;
    settings_copy(&runtime->settings, config);
    runtime->tasks = places.tasks;
    runtime->past = places.past;
    dev_refusals_init(&runtime->refusals, places.refusals, runtime->settings.tasks_max);
    runtime->attrs = places.attrs;
    struct wire_attrs attrs = config->attrs;
    struct base_writer writer;
    base_writer_init(&writer, runtime->attrs, attrs_bound(&attrs));
    wire_attrs_write(&writer, &attrs);
    if (writer.status != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    runtime->attrs_bytes = (uint32_t)base_writer_size(&writer);
    dev_outcomes_init(&runtime->outcomes, places.outcomes, runtime->settings.outcomes_max);
    runtime->kept_result.bytes = places.result;
    runtime->kept_result.capacity = runtime->settings.result_bytes_max;
    runtime->trust.work = places.trust_work;
    if (config->root != NULL) {
        struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
        struct wire_root root;
        BASE_TRY(wire_root_open(config->root, config->root_bytes, &verifier, &root));
    }
    *out_runtime = runtime;
    return BASE_OK;
}

// ---- Small services to the other files

uint64_t dev_now_us(const struct dev_runtime *runtime)
{
    return runtime->ports->clock.mono_us(runtime->ports->clock.ctx);
}

struct dev_time_now dev_clocks(const struct dev_runtime *runtime)
{
    const struct base_clock_port *clock = &runtime->ports->clock;
    return (struct dev_time_now){.own_s = clock->wall_us(clock->ctx) / 1000000,
                                 .mono_us = clock->mono_us(clock->ctx)};
}

uint64_t dev_wall_s(const struct dev_runtime *runtime)
{
    struct dev_time_now now = dev_clocks(runtime);
    return dev_time_bracket(&runtime->time, &now).used_s;
}

uint64_t dev_random(struct dev_runtime *runtime)
{
    return runtime->ports->random.next(runtime->ports->random.ctx);
}

uint64_t dev_random_below_us(struct dev_runtime *runtime, uint64_t span_us)
{
    return span_us > 0 ? dev_random(runtime) % span_us : 0;
}

uint32_t dev_exchange_new(struct dev_runtime *runtime)
{
    runtime->next_exchange = runtime->next_exchange + 1 != 0 ? runtime->next_exchange + 1 : 1;
    return runtime->next_exchange;
}

struct dev_task *dev_task_find(struct dev_runtime *runtime, uint64_t task_id)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (runtime->tasks[i].id == task_id) {
            return &runtime->tasks[i];
        }
    }
    return NULL;
}

struct base_str dev_task_name(const struct dev_task *task)
{
    return (struct base_str){task->name, task->name_size};
}

bool dev_flush(struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint8_t bytes[DEV_STATE_SAVE_MAX];
    size_t size = 0;
    if (!runtime->dirty) {
        return true;
    }
    if (now_us < runtime->save_not_before_us) {
        return false;
    }
    enum base_status status = dev_state_encode(runtime, bytes, sizeof(bytes), &size);
    base_check(status == BASE_OK); // the size is bounded by DEV_STATE_SAVE_MAX
    status = storage->state_save(storage->ctx, bytes, size);
    if (status != BASE_OK) {
        if (!runtime->unsaved && runtime->ports->on_unsaved != NULL) {
            runtime->ports->on_unsaved(runtime->ports->app, status);
        }
        runtime->unsaved = true;
        uint32_t wait_ms = dev_backoff_next(&runtime->save_backoff, dev_random(runtime), 0);
        runtime->save_not_before_us = now_us + wait_ms * 1000ull;
        return false;
    }
    if (runtime->unsaved && runtime->ports->on_unsaved != NULL) {
        runtime->ports->on_unsaved(runtime->ports->app, BASE_OK);
    }
    runtime->unsaved = false;
    dev_backoff_reset(&runtime->save_backoff);
    runtime->save_not_before_us = 0;
    runtime->dirty = false;
    return true;
}

// ---- Boot

static void start_anew(struct dev_runtime *runtime)
{
    runtime->task_count = 0;
    runtime->past_count = 0;
    runtime->epoch = 0; // drawn with the first outcome
    memset(&runtime->time, 0, sizeof(runtime->time));
    runtime->trust.root_version = 0;
    runtime->trust.timestamp_version = 0;
    runtime->trust.timestamp_expires_s = 0;
    runtime->trust.order = 0;
    memset(&runtime->trust.root, 0, sizeof(runtime->trust.root));
    memset(&runtime->trust.timestamp, 0, sizeof(runtime->trust.timestamp));
    runtime->garbage = false;
    dev_refusals_clear(&runtime->refusals);
    runtime->told_interval_s = 0;
    dev_outcomes_init(&runtime->outcomes, runtime->outcomes.bytes, runtime->outcomes.count_max);
}

static enum base_status state_read(struct dev_runtime *runtime,
                                   enum base_status (*load)(void *ctx, uint8_t *out,
                                                            size_t capacity, size_t *out_size))
{
    uint8_t bytes[DEV_STATE_SAVE_MAX];
    size_t size = 0;
    start_anew(runtime);
    BASE_TRY(load(runtime->ports->storage.ctx, bytes, sizeof(bytes), &size));
    return dev_state_decode(runtime, bytes, size);
}

static bool is_damage(enum base_status status)
{
    return status == BASE_ERR_CORRUPT || status == BASE_ERR_TOO_LARGE;
}

// A damaged record gives way to the one before it, and that to nothing: then the gateway brings
// everything again. What was told since is told under another epoch, for its numbers were used.
static enum base_status state_restore(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    enum base_status status = state_read(runtime, storage->state_load);
    if (status == BASE_ERR_NOT_FOUND) {
        start_anew(runtime);
        return BASE_OK;
    }
    if (!is_damage(status)) {
        return status;
    }
    status = storage->state_before != NULL ? state_read(runtime, storage->state_before)
                                           : BASE_ERR_NOT_FOUND;
    base_log_debug(runtime->ports->log, "device", "stored state is damaged: %s",
                   status == BASE_OK ? "going on from the one before" : "starting anew");
    if (is_damage(status) || status == BASE_ERR_NOT_FOUND) {
        start_anew(runtime);
        status = BASE_OK;
    }
    runtime->epoch = runtime->outcomes.count > 0 ? (uint32_t)(dev_random(runtime) >> 32) | 1u : 0;
    dev_garbage_made(runtime);
    return status;
}

// The mark of a started run is still there: the run took the process down.
static void crash_count(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_FAIL_CRASH,
        .task_id = task->id,
        .version_id = wire_version_id(&task->active),
        .rollout_id = dev_told_rollout(task),
        .detail = BASE_STR("the process ended during a run"),
    };
    task->running = false;
    task->crashes = (uint8_t)(task->crashes < UINT8_MAX ? task->crashes + 1 : UINT8_MAX);
    runtime->stats.failures++;
    dev_outcome(runtime, &outcome);
    if (task->shadow) { // what nobody asked for may not take the app down twice
        dev_shadow_fail(runtime, task);
    } else if (task->crashes >= runtime->settings.crash_limit) {
        dev_slot_failed(runtime, task);
    }
}

static void lanes_init(struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_settings *settings = &runtime->settings;
    struct dev_control *control = &runtime->control;
    uint32_t base_ms = settings->backoff_base_ms;
    uint32_t cap_ms = settings->backoff_cap_ms;
    uint64_t spread_us = settings->checkin_spread_s * 1000000ull;
    control->exchange = 0;
    control->checkin_due_us = now_us + dev_random_below_us(runtime, spread_us);
    control->again_ms = UINT32_MAX;
    control->report_due_us = UINT64_MAX;
    control->not_before_us = 0;
    control->quiet_until_us = 0;
    control->pairs_wanted = false;
    control->more_offers = false;
    runtime->pull.phase = DEV_PULL_IDLE;
    runtime->pull.exchange = 0;
    memset(&runtime->pull.delta, 0, sizeof(runtime->pull.delta));
    runtime->run.run = 0;
    runtime->run.triggered = false;
    runtime->triggered.phase = DEV_TRIGGERED_NONE;
    runtime->hints.exchange = 0;
    runtime->hints.missed = false;
    runtime->hints.due_us = control->checkin_due_us;
    dev_backoff_init(&control->backoff, base_ms, cap_ms);
    dev_backoff_init(&runtime->pull.backoff, base_ms, cap_ms);
    dev_backoff_init(&runtime->hints.backoff, base_ms, cap_ms);
    dev_backoff_init(&runtime->save_backoff, DEV_SAVE_RETRY_BASE_MS, DEV_SAVE_RETRY_CAP_MS);
    runtime->save_not_before_us = 0;
    runtime->trust.phase = DEV_TRUST_IDLE;
    runtime->trust.exchange = 0;
    runtime->trust.wanted = false;
    runtime->trust.asked = false;
    runtime->trust.directed = false;
    runtime->trust.not_before_us = 0;
    runtime->trust.look_not_before_us = 0;
    runtime->trust.scenario_size = 0;
    dev_backoff_init(&runtime->trust.backoff, base_ms, cap_ms);
}

// All that decides, beside the tasks, what is refused.
static uint64_t settings_hash(const struct dev_runtime *runtime)
{
    const struct dev_settings *settings = &runtime->settings;
    uint64_t facts[] = {settings->device_id,           settings->born_s, settings->tasks_max,
                        settings->signature_threshold, WIRE_RUNTIME_ABI, settings->root != NULL};
    uint64_t hash = base_hash64(facts, sizeof(facts));
    hash = base_hash64_seed(settings->trusted_keys, sizeof(settings->trusted_keys), hash);
    return base_hash64_seed(runtime->attrs, runtime->attrs_bytes, hash);
}

enum base_status dev_boot(struct dev_runtime *runtime)
{
    uint64_t now_us = dev_now_us(runtime);
    runtime->booted = false;
    runtime->dirty = false;
    lanes_init(runtime, now_us);
    BASE_TRY(state_restore(runtime));
    if (dev_refusals_settings(&runtime->refusals, settings_hash(runtime))) {
        runtime->dirty = true;
    }
    struct dev_time_now now = dev_clocks(runtime);
    dev_time_boot(&runtime->time, runtime->settings.born_s, &now);
    dev_trust_restore(runtime);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->running) {
            crash_count(runtime, task);
        }
        dev_run_schedule(runtime, task);
    }
    if (runtime->outcomes.count > 0) {
        runtime->control.report_due_us = runtime->control.checkin_due_us;
    }
    runtime->collect_due = runtime->garbage;
    runtime->past_due = true;
    runtime->check_due_us = 0;
    runtime->booted = true;
    dev_ride_expect(runtime);
    (void)dev_flush(runtime, now_us); // if it fails the tick tries again, before anything else
    return BASE_OK;
}

// ---- Tick

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_due_us(const struct dev_runtime *runtime)
{
    uint64_t due_us = dev_control_due_us(runtime);
    due_us = earliest(due_us, dev_pull_due_us(runtime));
    due_us = earliest(due_us, dev_run_due_us(runtime));
    if (runtime->run.run == 0 && !runtime->dirty) {
        due_us = earliest(due_us, dev_triggered_due_us(runtime));
    }
    due_us = earliest(due_us, dev_trust_due_us(runtime));
    due_us = earliest(due_us, dev_lease_due_us(runtime));
    if (runtime->settings.hints && runtime->hints.exchange == 0) {
        due_us = earliest(due_us, runtime->hints.due_us);
    }
    if (runtime->dirty) {
        due_us = earliest(due_us, runtime->save_not_before_us);
    }
    return due_us;
}

uint64_t dev_tick(struct dev_runtime *runtime, uint64_t now_us)
{
    base_assert(runtime->booted);
    uint64_t due_us = now_us;
    for (int pass = 0; pass < DEV_TICK_PASSES && due_us <= now_us; pass++) {
        dev_lease_step(runtime);
        dev_check_step(runtime, now_us);
        dev_shadow_step(runtime);
        (void)dev_flush(runtime, now_us);
        dev_trust_step(runtime, now_us);
        dev_triggered_step(runtime, now_us);
        dev_run_step(runtime, now_us);
        dev_pull_step(runtime, now_us);
        dev_hints_step(runtime, now_us);
        dev_control_step(runtime, now_us);
        if (runtime->collect_due && !runtime->dirty && runtime->run.run == 0) {
            dev_slots_collect(runtime);
        }
        dev_past_step(runtime);
        due_us = next_due_us(runtime);
    }
    base_assert(dev_validate(runtime));
    return due_us > now_us ? due_us : now_us;
}

void dev_stop(struct dev_runtime *runtime)
{
    if (runtime == NULL || !runtime->booted) {
        return;
    }
    dev_control_stop(runtime);
    dev_trust_stop(runtime);
    dev_hints_stop(runtime);
    dev_pull_stop(runtime);
    dev_run_stop(runtime);
    (void)dev_flush(runtime, UINT64_MAX);
}

// ---- From outside

void dev_checkin_now(struct dev_runtime *runtime)
{
    runtime->control.quiet_until_us = 0;
    dev_checkin_soon(runtime);
}

// Walks through a whole answer; with `take` every envelope is judged.
static enum base_status offers_walk(struct dev_runtime *runtime, struct dev_offers_stream *stream,
                                    const uint8_t *bytes, size_t size, bool take)
{
    dev_offers_start(stream);
    for (size_t at = 0; at < size;) {
        bool ready = false;
        at += dev_offers_feed(stream, bytes + at, size - at, &ready);
        if (ready && take) {
            dev_offer_take(runtime, stream->bytes, stream->size, stream->flags, false);
        }
    }
    return dev_offers_complete(stream) ? BASE_OK : BASE_ERR_INVALID;
}

enum base_status dev_on_offer_header(struct dev_runtime *runtime, struct base_str text)
{
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    struct dev_offers_stream stream;
    size_t size = 0;
    if (base_b64_decode(text, bytes, sizeof(bytes), &size) != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(offers_walk(runtime, &stream, bytes, size, false));
    if (runtime->trust.work != NULL) { // it answers no question of ours: ask
        dev_checkin_soon(runtime);
        return BASE_OK;
    }
    BASE_TRY(offers_walk(runtime, &stream, bytes, size, true));
    if ((stream.flags & WIRE_OFFER_FLAG_ASK_PAIRS) != 0) {
        runtime->control.pairs_wanted = true;
    }
    struct wire_again marks[WIRE_AGAIN_MAX];
    bool again = dev_again_news(runtime, marks, dev_offers_again(&stream, marks));
    if (again || (stream.flags & (WIRE_OFFER_FLAG_ASK_PAIRS | WIRE_OFFER_FLAG_MORE |
                                  WIRE_OFFER_FLAG_SHADOWS)) != 0) {
        dev_checkin_soon(runtime);
    }
    (void)dev_flush(runtime, dev_now_us(runtime));
    return BASE_OK;
}

void dev_on_head(struct dev_runtime *runtime, uint32_t exchange,
                 const struct dev_response_head *head)
{
    if (exchange == 0) {
        return;
    }
    if (exchange == runtime->control.exchange) {
        dev_control_head(runtime, head);
    } else if (exchange == runtime->pull.exchange) {
        dev_pull_head(runtime, head);
    } else if (exchange == runtime->trust.exchange) {
        dev_trust_head(runtime, head);
    } else if (exchange == runtime->hints.exchange) {
        dev_hints_head(runtime, head);
    }
}

void dev_on_body(struct dev_runtime *runtime, uint32_t exchange, const uint8_t *bytes, size_t size)
{
    if (exchange == 0) {
        return;
    }
    if (exchange == runtime->control.exchange) {
        dev_control_body(runtime, bytes, size);
    } else if (exchange == runtime->pull.exchange) {
        dev_pull_body(runtime, bytes, size);
    } else if (exchange == runtime->trust.exchange) {
        dev_trust_body(runtime, bytes, size);
    } else if (exchange == runtime->hints.exchange) {
        dev_hints_body(runtime, bytes, size);
    }
}

void dev_on_end(struct dev_runtime *runtime, uint32_t exchange, enum base_status status)
{
    if (exchange == 0) {
        return;
    }
    if (exchange == runtime->control.exchange) {
        dev_control_end(runtime, status);
    } else if (exchange == runtime->pull.exchange) {
        dev_pull_end(runtime, status);
    } else if (exchange == runtime->trust.exchange) {
        dev_trust_end(runtime, status);
    } else if (exchange == runtime->hints.exchange) {
        dev_hints_end(runtime);
    } else {
        return;
    }
    (void)dev_flush(runtime, dev_now_us(runtime));
}

// ---- Views

bool dev_is_idle(const struct dev_runtime *runtime)
{
    bool waiting = runtime->control.exchange != 0 || runtime->pull.phase != DEV_PULL_IDLE ||
                   runtime->run.run != 0 || runtime->dirty || runtime->outcomes.count > 0 ||
                   runtime->triggered.phase != DEV_TRIGGERED_NONE || runtime->trust.wanted ||
                   runtime->trust.phase != DEV_TRUST_IDLE;
    uint64_t now_us = dev_now_us(runtime);
    for (uint32_t i = 0; i < runtime->task_count && !waiting; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        waiting = dev_update_is_pulling((enum dev_update_state)task->state) ||
                  (task->run_due_us <= now_us && (task->damaged & DEV_UNPROVEN_ACTIVE) == 0);
    }
    return !waiting && dev_pull_due_us(runtime) > now_us;
}

void dev_stats(const struct dev_runtime *runtime, struct dev_stats *out_stats)
{
    *out_stats = runtime->stats;
    out_stats->root_version = runtime->trust.work != NULL ? runtime->trust.root_version : 0;
}

uint32_t dev_task_count(const struct dev_runtime *runtime)
{
    return runtime->task_count;
}

enum base_status dev_task_view(const struct dev_runtime *runtime, uint32_t index,
                               struct dev_task_view *out_view)
{
    if (index >= runtime->task_count) {
        return BASE_ERR_NOT_FOUND;
    }
    const struct dev_task *task = &runtime->tasks[index];
    *out_view = (struct dev_task_view){
        .name = dev_task_name(task),
        .active = task->active,
        .previous = task->kept,
        .personal = task->active_personal,
        .blocked_version_id = task->blocked,
        .release_counter = task->newest.counter,
        .placebo_rollout = task->placebo ? task->again.rollout_id : 0,
        .on_trial = dev_update_on_trial((enum dev_update_state)task->state),
        .shadow = task->shadow,
    };
    return BASE_OK;
}

uint64_t dev_active_mark(const struct dev_runtime *runtime)
{
    uint64_t mark = 0;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        if (!task->shadow && !wire_sha256_is_zero(&task->active)) {
            // What was declared in content that was damaged could not be read; and every activation
            // has it read, as that of an update.
            mark +=
                base_hash64_seed(task->active.bytes, WIRE_SHA256_BYTES, task->id + task->renewed);
        }
    }
    return mark;
}

enum base_status dev_active_open(struct dev_runtime *runtime, uint32_t index,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    if (index >= runtime->task_count || runtime->tasks[index].shadow ||
        wire_sha256_is_zero(&runtime->tasks[index].active)) {
        return BASE_ERR_NOT_FOUND;
    }
    return dev_content_open(runtime, &runtime->tasks[index].active, WIRE_MANIFEST_BYTES_MAX,
                            out_bytes, out_size);
}

void dev_active_close(struct dev_runtime *runtime, uint32_t index, const uint8_t *bytes,
                      size_t size)
{
    dev_content_close(runtime, &runtime->tasks[index].active, bytes, size);
}

static bool tasks_valid(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (!dev_task_valid(&runtime->tasks[i])) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (runtime->tasks[i].id == runtime->tasks[j].id) {
                return false;
            }
        }
    }
    return true;
}

bool dev_validate(const struct dev_runtime *runtime)
{
    const struct dev_pull *pull = &runtime->pull;
    const struct dev_outcome_queue *outcomes = &runtime->outcomes;
    if (runtime->task_count > runtime->settings.tasks_max || !tasks_valid(runtime) ||
        !dev_past_valid(runtime)) {
        return false;
    }
    if (outcomes->size > outcomes->capacity || outcomes->count > outcomes->count_max ||
        (outcomes->count == 0) != (outcomes->size == 0) || outcomes->first_seq == 0) {
        return false;
    }
    if (pull->phase != DEV_PULL_IDLE &&
        (pull->task >= runtime->task_count ||
         (pull->copy == DEV_COPY_ACCEPTED &&
          !dev_update_is_pulling((enum dev_update_state)runtime->tasks[pull->task].state)) ||
         pull->have > pull->expected || pull->hashed > pull->have)) {
        return false;
    }
    if ((pull->exchange != 0) != (pull->phase == DEV_PULL_BODY)) {
        return false;
    }
    return runtime->run.run == 0 || runtime->run.task < runtime->task_count;
}
