// When the stored record is read and stored. It is read at boot; when it is damaged the one before
// it is, or the device starts anew. It is stored as soon as something that must survive a kill has
// changed; while it cannot be stored nothing is acted upon, and it is tried again later and later.
//
// Called by the boot, by the tick, and by whoever is about to act. What is in it is in
// device_state.c.
#include "core/record_save.h"

#include "core/device_state.h"

#include "base/check.h"

#include <string.h>

static void store(struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint8_t bytes[DEV_STATE_SAVE_MAX];
    size_t size = 0;
    if (!runtime->dirty || now_us < runtime->saving->not_before_us) {
        return;
    }
    enum base_status status = dev_state_encode(runtime, bytes, sizeof(bytes), &size);
    base_check(status == BASE_OK); // the size is bounded by DEV_STATE_SAVE_MAX
    status = storage->state_save(storage->ctx, bytes, size);
    if (status != BASE_OK) {
        if (!runtime->saving->failed && runtime->ports->on_unsaved != NULL) {
            runtime->ports->on_unsaved(runtime->ports->app, status);
        }
        runtime->saving->failed = true;
        uint32_t wait_ms = dev_backoff_next(&runtime->saving->backoff, dev_random(runtime), 0);
        runtime->saving->not_before_us = now_us + wait_ms * 1000ull;
        return;
    }
    if (runtime->saving->failed && runtime->ports->on_unsaved != NULL) {
        runtime->ports->on_unsaved(runtime->ports->app, BASE_OK);
    }
    runtime->saving->failed = false;
    dev_backoff_reset(&runtime->saving->backoff);
    runtime->saving->not_before_us = 0;
    runtime->dirty = false;
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    (void)first_us;
    dev_backoff_init(&runtime->saving->backoff, DEV_SAVE_RETRY_BASE_MS, DEV_SAVE_RETRY_CAP_MS);
    runtime->saving->not_before_us = 0;
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    return runtime->dirty ? runtime->saving->not_before_us : UINT64_MAX;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_STORE) {
        store(runtime, event->at_us);
    }
    return false;
}

const struct dev_part dev_record_part = {.name = "record",
                                         .init = init,
                                         .step = store,
                                         .due_us = due_us_of,
                                         .on_event = on_event,
                                         .hears = DEV_PART_HEARS(STORE)};

// ---- Boot

static void start_anew(struct dev_runtime *runtime)
{
    runtime->task_count = 0;
    runtime->epoch = 0; // drawn with the first outcome
    memset(&runtime->time, 0, sizeof(runtime->time));
    runtime->garbage = false;
    runtime->told_interval_s = 0;
    dev_refusals_clear(&runtime->refusals);
    dev_outcomes_init(&runtime->outcomes, runtime->outcomes.bytes, runtime->outcomes.count_max);
    dev_tell_that(runtime, DEV_PART_EVENT_ANEW);
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
enum base_status dev_record_restore(struct dev_runtime *runtime)
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
    base_assert(!runtime->booted);
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
