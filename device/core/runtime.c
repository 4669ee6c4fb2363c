// The life of a device runtime: its memory, its boot, and the tick, which goes through the parts.
//
// Called by the embedding app, the agent and the simulator through device/device.h, and by
// transports through device/port.h, all on the runtime's own thread.
#include "core/base/runtime.h"

#include "core/cloud/device_cloud.h"
#include "core/control/control_parts.h"
#include "core/offer/device_offer.h"
#include "core/offer/kept_offers.h"
#include "core/pull/pull_state.h"
#include "core/record_save.h"
#include "core/run/runs_at_once.h"
#include "core/slots/device_repair.h"
#include "core/sweep/device_collect.h"
#include "core/sweep/device_past.h"
#include "core/trust/device_lease.h"
#include "core/trust/trust_parts.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define DEFAULT_OUTCOMES_MAX    64
#define DEFAULT_BACKOFF_BASE_MS 1000
#define DEFAULT_BACKOFF_CAP_MS  300000
#define DEFAULT_TIMEOUT_MS      30000
#define ALIGNMENT               16

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value > 0 ? value : standard;
}

// ---- Parts

// In the order of their turns.
static const struct dev_part *const parts[] = {
    &dev_cloud_part,     // calls of models in the cloud; sees whether a gateway answers
    &dev_lease_part,     // what may not run any more
    &dev_check_part,     // content that is to be proven
    &dev_shadow_part,    // shadows that are over
    &dev_record_part,    // stores what changed: nothing below acts on what is not stored
    &dev_trust_part,     // brings metadata
    &dev_triggered_part, // runs that behaviour started
    &dev_run_part,       // runs that are due
    &dev_pull_part,      // brings content
    &dev_hints_part,     // listens
    &dev_offer_part,     // judges what check-ins bring
    &dev_control_part,   // checks in and reports
    &dev_collect_part,   // content that nobody needs
    &dev_past_part,      // tasks that are over
    NULL,
};

#define PART_COUNT (sizeof(parts) / sizeof(parts[0]) - 1)

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

// The runtime, and what its parts keep.
struct whole {
    struct dev_runtime runtime;
    struct dev_check check;
    struct dev_control control;
    struct dev_hints hints;
    struct dev_kept_result kept_result;
    struct dev_pull pull;
    struct dev_saving saving;
    struct dev_sweep sweep;
    struct dev_triggered triggered;
    struct dev_trust trust;
};

struct places {
    struct whole *whole;
    struct dev_task *tasks;
    struct dev_past *past;
    void *refusals;
    uint8_t *attrs;
    void *outcomes;
    struct dev_trust_work *trust_work;   // NULL without a root
    struct dev_kept_offers *kept_offers; // likewise
    struct dev_cloud *cloud;             // NULL where no calls are made
    struct dev_run *run;
    struct dev_at_once *at_once; // NULL where one runs at a time
    void *waiting;               // of that
    char *result;                // at the end: what was not used was not touched
};

// Of several at once one more, for what ends without having begun (device_run.c).
static size_t run_places(uint32_t runs_max)
{
    return runs_max > 1 ? runs_max + 1 : 1;
}

// Counts, or hands out `memory`.
static size_t lay_out(const struct dev_config *config, void *memory, struct places *out)
{
    struct base_carver carver = {.block = memory, .capacity = SIZE_MAX, .alignment = ALIGNMENT};
    uint32_t tasks_max = or_default(config->tasks_max, DEV_TASKS_DEFAULT);
    uint32_t outcomes_max = or_default(config->outcomes_max, DEFAULT_OUTCOMES_MAX);
    out->whole = base_carve(&carver, 1, sizeof(struct whole));
    out->tasks = base_carve(&carver, tasks_max, sizeof(struct dev_task));
    out->past = base_carve(&carver, tasks_max, sizeof(struct dev_past));
    out->refusals = base_carve(&carver, dev_refusals_room(tasks_max), sizeof(uint64_t));
    out->outcomes = base_carve(&carver, 1, dev_outcomes_bytes(outcomes_max));
    out->trust_work =
        config->root != NULL ? base_carve(&carver, 1, sizeof(struct dev_trust_work)) : NULL;
    out->kept_offers =
        config->root != NULL ? base_carve(&carver, 1, sizeof(struct dev_kept_offers)) : NULL;
    // Behind what answers are judged in: so the part of that which is used lies in fewer pages.
    out->attrs = base_carve(&carver, 1, attrs_bound(&config->attrs));
    out->cloud =
        config->cloud_calls_max > 0 ? base_carve(&carver, 1, sizeof(struct dev_cloud)) : NULL;
    out->run =
        base_carve(&carver, run_places(or_default(config->runs_max, 1)), sizeof(struct dev_run));
    out->at_once = config->runs_max > 1 ? base_carve(&carver, 1, sizeof(struct dev_at_once)) : NULL;
    out->waiting =
        config->runs_max > 1 ? base_carve(&carver, 1, dev_at_once_bytes(config, tasks_max)) : NULL;
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
        config->ride_wait_s > DEV_RIDE_WAIT_MAX_S ||
        config->cloud_calls_max > DEV_CLOUD_CALLS_MAX || config->runs_max > DEV_RUNS_MAX ||
        !keys_ok(config)) {
        return 0;
    }
    return lay_out(config, NULL, &places);
}

static void settings_copy(struct dev_settings *settings, const struct dev_config *config)
{
    settings->device_id = config->device_id;
    settings->trusted_key_count = (uint8_t)config->trusted_key_count;
    settings->signature_threshold = (uint8_t)or_default(config->signature_threshold, 1);
    settings->runs_max = (uint8_t)or_default(config->runs_max, 1);
    settings->mirrors = config->mirrors;
    settings->tasks_max = or_default(config->tasks_max, DEV_TASKS_DEFAULT);
    settings->outcomes_max = or_default(config->outcomes_max, DEFAULT_OUTCOMES_MAX);
    settings->result_bytes_max = or_default(config->result_bytes_max, DEV_RESULT_BYTES_DEFAULT);
    settings->checkin_interval_s =
        or_default(config->checkin_interval_s, DEV_CHECKIN_INTERVAL_DEFAULT_S);
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
    settings->leaves_required = config->leaves_required;
    memcpy(settings->trusted_keys, config->trusted_keys, sizeof(settings->trusted_keys));
    wire_device_hex(config->device_id, settings->device_hex);
}

// All that parts keep is zero until their `init`, but for the memory that is theirs for good.
static struct dev_runtime *parts_place(struct whole *whole)
{
    struct dev_runtime *runtime = &whole->runtime;
    memset(whole, 0, sizeof(*whole));
    runtime->parts = parts;
    runtime->check = &whole->check;
    runtime->control = &whole->control;
    runtime->hints = &whole->hints;
    runtime->kept_result = &whole->kept_result;
    runtime->pull = &whole->pull;
    runtime->saving = &whole->saving;
    runtime->sweep = &whole->sweep;
    runtime->triggered = &whole->triggered;
    runtime->trust = &whole->trust;
    return runtime;
}

// The root that the device is born with, which whoever gave it may have opened.
static enum base_status root_open(struct dev_runtime *runtime, const struct dev_config *config)
{
    struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
    struct wire_root *own = &runtime->trust->work->born;
    runtime->settings.born_root = config->root_opened != NULL ? config->root_opened : own;
    return config->root_opened != NULL
               ? BASE_OK
               : wire_root_open(config->root, config->root_bytes, &verifier, own);
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
    struct dev_runtime *runtime = parts_place(places.whole);
    runtime->ports = ports;
    settings_copy(&runtime->settings, config);
    runtime->tasks = places.tasks;
    runtime->sweep->past = places.past;
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
    runtime->kept_result->bytes = places.result;
    runtime->kept_result->capacity = runtime->settings.result_bytes_max;
    runtime->trust->work = places.trust_work;
    runtime->kept_offers = places.kept_offers;
    runtime->cloud = places.cloud;
    runtime->run = places.run;
    memset(runtime->run, 0, run_places(runtime->settings.runs_max) * sizeof(struct dev_run));
    runtime->at_once = places.at_once;
    if (runtime->at_once != NULL) {
        dev_at_once_init(runtime->at_once, config, runtime->settings.tasks_max, places.waiting);
    }
    if (runtime->cloud != NULL) {
        runtime->cloud->calls_max = config->cloud_calls_max;
    }
    if (config->root != NULL) {
        BASE_TRY(root_open(runtime, config));
    }
    *out_runtime = runtime;
    return BASE_OK;
}

struct spans {
    struct base_span *items;
    uint32_t count;
};

static void span_add(struct spans *spans, const void *from, const void *end)
{
    size_t bytes = (size_t)((const uint8_t *)end - (const uint8_t *)from);
    if (bytes > 0) {
        base_assert(spans->count < DEV_STATE_SPANS_MAX);
        spans->items[spans->count++] = (struct base_span){from, bytes};
    }
}

// Of a device with a root.
static void trust_spans(const struct dev_runtime *runtime, struct spans *spans)
{
    const struct dev_trust *trust = runtime->trust;
    const struct dev_trust_work *work = trust->work;
    const struct dev_kept_offers *kept = runtime->kept_offers;
    bool fetches = trust->phase != DEV_TRUST_IDLE || trust->exchange != 0 || trust->brought;
    span_add(spans, work, fetches ? work->buffer + sizeof(work->buffer) : work->buffer);
    if (runtime->settings.born_root == &work->born) {
        span_add(spans, &work->born, &work->born + 1);
    }
    span_add(spans, kept, kept->bytes + kept->size);
    span_add(spans, kept->marks, kept->marks + kept->mark_count);
}

uint32_t dev_state_spans(const struct dev_runtime *runtime,
                         struct base_span out[DEV_STATE_SPANS_MAX])
{
    const struct whole *whole = (const struct whole *)runtime; // the first of it
    const struct dev_offers_stream *offers = &whole->control.offers;
    const struct dev_sweep *sweep = &whole->sweep;
    const struct dev_kept_result *result = &whole->kept_result;
    struct spans spans = {out, 0};
    if (runtime->at_once != NULL) {
        return 0; // what waits is the scheduler's
    }
    span_add(&spans, whole, offers->bytes + offers->fill);
    span_add(&spans, offers + 1, whole + 1);
    span_add(&spans, runtime->tasks, runtime->tasks + runtime->task_count);
    span_add(&spans, sweep->past, sweep->past + sweep->past_count);
    span_add(&spans, runtime->refusals.marks, runtime->refusals.marks + runtime->refusals.count);
    span_add(&spans, runtime->attrs, runtime->attrs + runtime->attrs_bytes);
    span_add(&spans, runtime->outcomes.bytes, runtime->outcomes.bytes + runtime->outcomes.size);
    if (runtime->trust->work != NULL) {
        trust_spans(runtime, &spans);
    }
    if (runtime->cloud != NULL) {
        span_add(&spans, runtime->cloud, runtime->cloud + 1);
    }
    span_add(&spans, runtime->run, runtime->run + 1);
    span_add(&spans, result->bytes, result->bytes + result->size);
    return spans.count;
}

static uint64_t next_due_us(const struct dev_runtime *runtime)
{
    uint64_t next_us = UINT64_MAX;
    for (size_t i = 0; i < PART_COUNT; i++) {
        uint64_t due_us = parts[i]->due_us != NULL ? parts[i]->due_us(runtime) : UINT64_MAX;
        next_us = due_us < next_us ? due_us : next_us;
    }
    return next_us;
}

// ---- Boot

// All that decides, beside the tasks, what is refused.
static uint64_t settings_hash(const struct dev_runtime *runtime)
{
    const struct dev_settings *settings = &runtime->settings;
    uint64_t facts[] = {settings->device_id,
                        settings->born_s,
                        settings->tasks_max,
                        settings->signature_threshold,
                        WIRE_RUNTIME_ABI,
                        (settings->born_root != NULL ? 1u : 0u) |
                            (settings->leaves_required ? 2u : 0u)};
    uint64_t hash = base_hash64(facts, sizeof(facts));
    hash = base_hash64_seed(settings->trusted_keys, sizeof(settings->trusted_keys), hash);
    return base_hash64_seed(runtime->attrs, runtime->attrs_bytes, hash);
}

enum base_status dev_boot(struct dev_runtime *runtime)
{
    uint64_t now_us = dev_now_us(runtime);
    uint64_t spread_us = runtime->settings.checkin_spread_s * 1000000ull;
    uint64_t first_us = now_us + dev_random_below_us(runtime, spread_us);
    runtime->booted = false;
    runtime->dirty = false;
    runtime->telling = 0;
    for (size_t i = 0; i < PART_COUNT; i++) {
        base_assert((parts[i]->on_event != NULL) == (parts[i]->hears != 0)); // else it is deaf
        if (parts[i]->init != NULL) {
            parts[i]->init(runtime, first_us);
        }
    }
    BASE_TRY(dev_record_restore(runtime));
    if (dev_refusals_settings(&runtime->refusals, settings_hash(runtime))) {
        runtime->dirty = true;
    }
    struct dev_time_now now = dev_clocks(runtime);
    dev_time_boot(&runtime->time, runtime->settings.born_s, &now);
    dev_tell_that(runtime, DEV_PART_EVENT_RESTORED);
    runtime->booted = true;
    (void)dev_flush(runtime, now_us); // if it fails the tick tries again, before anything else
    return BASE_OK;
}

// ---- Tick

uint64_t dev_tick(struct dev_runtime *runtime, uint64_t now_us)
{
    base_assert(runtime->booted);
    uint64_t due_us = now_us;
    for (int pass = 0; pass < DEV_TICK_PASSES && due_us <= now_us; pass++) {
        for (size_t i = 0; i < PART_COUNT; i++) {
            if (parts[i]->step != NULL) {
                parts[i]->step(runtime, now_us);
            }
        }
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
    dev_tell_that(runtime, DEV_PART_EVENT_STOPPED);
    (void)dev_flush(runtime, UINT64_MAX);
}

// ---- From the transport

void dev_on_head(struct dev_runtime *runtime, uint32_t exchange,
                 const struct dev_response_head *head)
{
    const struct dev_part_event event = {
        .kind = DEV_PART_EVENT_HEAD,
        .exchange = exchange,
        .head = head,
    };
    if (exchange != 0) {
        (void)dev_tell(runtime, &event);
    }
}

void dev_on_body(struct dev_runtime *runtime, uint32_t exchange, const uint8_t *bytes, size_t size)
{
    const struct dev_part_event event = {
        .kind = DEV_PART_EVENT_BODY,
        .exchange = exchange,
        .body = {bytes, size},
    };
    if (exchange != 0) {
        (void)dev_tell(runtime, &event);
    }
}

void dev_on_end(struct dev_runtime *runtime, uint32_t exchange, enum base_status status)
{
    const struct dev_part_event event = {
        .kind = DEV_PART_EVENT_END,
        .exchange = exchange,
        .status = status,
    };
    if (exchange != 0 && dev_tell(runtime, &event)) {
        (void)dev_flush(runtime, dev_now_us(runtime));
    }
}
