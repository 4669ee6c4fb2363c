// What the core was told at its start, and the few things of that which change while it runs.
#ifndef GW_CORE_SETTINGS_H
#define GW_CORE_SETTINGS_H

#include "svc/core.h"
#include "wire/trust/statement.h"

#include <stdatomic.h>

// Set up once, but for what is atomic.
struct gw_core_settings {
    uint32_t tick_ms;
    _Atomic uint32_t checkin_interval_s; // a reload changes it
    uint32_t hint_spread_ms;
    uint32_t hint_rate_per_s;
    uint32_t retry_after_s;
    bool control_thread;
    char *admin_token;
    size_t admin_token_bytes;
    char *ddi_token;
    size_t ddi_token_bytes;
    enum gw_metrics_access metrics_access;
    bool device_auth_required;
    bool leaves_required;
    uint32_t enroll_rate_per_s;
    uint32_t evidence_key_count; // of settings; for a gateway that serves no root
    uint8_t evidence_keys[GW_EVIDENCE_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
    _Atomic bool ready;
    _Atomic int disk; // enum gw_disk_level
};

BASE_NODISCARD enum base_status gw_core_settings_take(struct gw_core_settings *settings,
                                                      const struct gw_core_options *options);
void gw_core_settings_done(struct gw_core_settings *settings);
// May what a device sends be stored? Counts when not.
bool gw_core_has_disk(struct gw_core *core, bool proven);

#endif
