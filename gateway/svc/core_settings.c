// Settings of the core, and what asks for them or changes them while it runs. At start the main
// thread; changes come from it as well, when a signal has it read the configuration again,
// everything else from any thread.
#include "svc/core_settings.h"

#include "svc/core_private.h"
#include "svc/core_worker.h"

#include <stdlib.h>
#include <string.h>

#define TICK_MS_DEFAULT            500u
#define CHECKIN_INTERVAL_S_DEFAULT 300u
#define RETRY_AFTER_S_DEFAULT      5u
#define ENROLL_RATE_DEFAULT        5000u

static enum base_status keep_text(struct base_str text, char **out, size_t *out_size)
{
    if (text.size == 0) {
        return BASE_OK;
    }
    *out = malloc(text.size);
    if (*out == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(*out, text.data, text.size);
    *out_size = text.size;
    return BASE_OK;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static void set_interval(struct gw_core_settings *settings, uint32_t interval_s)
{
    atomic_store_explicit(&settings->checkin_interval_s,
                          or_default(interval_s, CHECKIN_INTERVAL_S_DEFAULT), memory_order_relaxed);
}

enum base_status gw_core_settings_take(struct gw_core_settings *settings,
                                       const struct gw_core_options *options)
{
    settings->tick_ms = or_default(options->tick_ms, TICK_MS_DEFAULT);
    set_interval(settings, options->checkin_interval_s);
    settings->hint_spread_ms = options->hint_spread_ms;
    settings->hint_rate_per_s = options->hint_rate_per_s;
    settings->retry_after_s = or_default(options->retry_after_s, RETRY_AFTER_S_DEFAULT);
    settings->control_thread = options->control_thread;
    settings->metrics_access = options->metrics_access;
    settings->device_auth_required = options->device_auth_required;
    settings->leaves_required = options->leaves_required;
    settings->enroll_rate_per_s = or_default(options->enroll_rate_per_s, ENROLL_RATE_DEFAULT);
    settings->evidence_key_count = options->evidence_key_count < GW_EVIDENCE_KEYS_MAX
                                       ? options->evidence_key_count
                                       : GW_EVIDENCE_KEYS_MAX;
    if (settings->evidence_key_count > 0) {
        memcpy(settings->evidence_keys, options->evidence_keys,
               settings->evidence_key_count * sizeof(settings->evidence_keys[0]));
    }
    BASE_TRY(keep_text(options->admin_token, &settings->admin_token, &settings->admin_token_bytes));
    return keep_text(options->ddi_token, &settings->ddi_token, &settings->ddi_token_bytes);
}

void gw_core_settings_done(struct gw_core_settings *settings)
{
    free(settings->admin_token);
    free(settings->ddi_token);
}

const struct base_log *gw_core_log(const struct gw_core *core)
{
    return core->log;
}

uint32_t gw_core_retry_after_s(const struct gw_core *core)
{
    return core->set.retry_after_s;
}

uint64_t gw_core_time_us(const struct gw_core *core)
{
    return gw_core_now_us(core);
}

void gw_core_set_api(struct gw_core *core, gw_api_fn handle, gw_api_head_fn head)
{
    core->hooks.api = handle;
    core->hooks.api_head = head;
}

void gw_core_set_console(struct gw_core *core, void (*reply)(struct gw_exchange *exchange))
{
    core->hooks.console = reply;
}

struct base_str gw_worker_ddi_token(const struct gw_worker *worker)
{
    return (struct base_str){worker->core->set.ddi_token, worker->core->set.ddi_token_bytes};
}

uint32_t gw_core_checkin_interval_s(const struct gw_core *core)
{
    return atomic_load_explicit(&core->set.checkin_interval_s, memory_order_relaxed);
}

void gw_core_set_checkin_interval(struct gw_core *core, uint32_t interval_s)
{
    set_interval(&core->set, interval_s);
}

void gw_core_set_ddi(struct gw_core *core, gw_ddi_fn handle, gw_ddi_head_fn head)
{
    core->hooks.ddi = handle;
    core->hooks.ddi_head = head;
}

void gw_core_set_infer(struct gw_core *core, const struct gw_infer_seam *seam)
{
    core->hooks.infer = *seam;
}

void gw_worker_post(struct gw_worker *worker, struct gw_message *message)
{
    worker->post(worker->post_ctx, message);
}

void gw_core_set_disk(struct gw_core *core, enum gw_disk_level level)
{
    atomic_store_explicit(&core->set.disk, (int)level, memory_order_relaxed);
}

bool gw_core_has_disk(struct gw_core *core, bool proven)
{
    int level = atomic_load_explicit(&core->set.disk, memory_order_relaxed);
    bool has = level == GW_DISK_FINE || (proven && level == GW_DISK_NO_STRANGERS);
    atomic_fetch_add_explicit(&core->reports.disk_refused, !has, memory_order_relaxed);
    return has;
}

void gw_core_set_ready(struct gw_core *core, bool ready)
{
    atomic_store_explicit(&core->set.ready, ready, memory_order_relaxed);
}
