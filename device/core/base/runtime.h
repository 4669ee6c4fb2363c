// The inside of a device runtime: what its parts share. Settings, ports, counters, and what is told
// to the gateway of the device as a whole; a part's own state is behind a pointer, in a header of
// its folder.
//
// One rule holds the parts together: the runtime acts on nothing that is not stored. Whoever
// changes what must survive a kill sets `dirty`; while it is set no report leaves, no pull and no
// run starts, and nothing is deleted. dev_flush stores the record and clears it.
#ifndef DEV_RUNTIME_H
#define DEV_RUNTIME_H

#include "core/base/backoff.h"
#include "core/base/device_time.h"
#include "core/base/outcome_queue.h"
#include "core/base/part.h"
#include "core/base/refusals.h"
#include "core/base/task.h"
#include "device/device.h"
#include "device/port.h"
#include "wire/profile.h"

#define DEV_TICK_PASSES       16   // of work in one tick, then others get their turn
#define DEV_RATE_WINDOW_BYTES 4096 // fewer in one request timeout: the download is given up

struct dev_settings {
    uint64_t device_id;
    uint8_t trusted_key_count;
    uint8_t signature_threshold;
    uint8_t runs_max;
    uint32_t ride_wait_s;
    const struct wire_root *born_root; // verified; NULL: trusted_keys count
    uint32_t mirrors;
    uint32_t tasks_max;
    uint32_t outcomes_max;
    uint32_t result_bytes_max;
    uint32_t checkin_interval_s;
    uint32_t checkin_spread_s;
    uint32_t backoff_base_ms;
    uint32_t backoff_cap_ms;
    uint64_t request_timeout_us;
    uint64_t report_delay_us;
    uint64_t born_s;
    uint32_t crash_limit;
    bool own_pace; // checkin_interval_s is not to be changed
    bool hints;
    bool leaves_required;
    char device_hex[WIRE_DEVICE_HEX + 1];
    uint8_t trusted_keys[DEV_TRUSTED_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
};

struct dev_runtime {
    const struct dev_part *const *parts; // in the order of their turns; NULL behind the last
    const struct dev_ports *ports;
    struct dev_settings settings;
    struct dev_stats stats;
    struct dev_task *tasks; // tasks_max of them
    struct dev_outcome_queue outcomes;
    uint8_t *attrs; // encoded
    uint32_t attrs_bytes;
    uint32_t task_count;
    uint32_t epoch; // 0: not drawn yet
    uint32_t next_exchange;
    uint32_t telling; // kinds of events that are being told, a bit each
    struct dev_time time;
    struct dev_refusals refusals;
    struct wire_sha256 manifest_judged; // the manifest that was found well formed last
    uint32_t told_interval_s;           // between check-ins, by the gateway; 0: not yet
    bool booted;
    bool dirty;
    bool garbage; // stored: blobs may be there that no slot names
    // What parts keep, each for itself.
    struct dev_check *check;
    struct dev_cloud *cloud; // NULL where no calls are made
    struct dev_control *control;
    struct dev_hints *hints;
    struct dev_kept_offers *kept_offers; // NULL without a root
    struct dev_kept_result *kept_result;
    struct dev_pull *pull;
    struct dev_run *run;         // settings.runs_max of them; of several one more (device_run.c)
    struct dev_at_once *at_once; // NULL where one runs at a time
    struct dev_saving *saving;
    struct dev_sweep *sweep;
    struct dev_triggered *triggered;
    struct dev_trust *trust;
};

uint64_t dev_now_us(const struct dev_runtime *runtime);
struct dev_time_now dev_clocks(const struct dev_runtime *runtime);
// Seconds since 1970 that expiry is judged by (core/base/device_time.h).
uint64_t dev_wall_s(const struct dev_runtime *runtime);
uint64_t dev_random(struct dev_runtime *runtime);
uint64_t dev_random_below_us(struct dev_runtime *runtime, uint64_t span_us);
uint32_t dev_exchange_new(struct dev_runtime *runtime);
// Stores the record when `dirty`. False: it is still to be stored, and nothing may be acted upon.
bool dev_flush(struct dev_runtime *runtime, uint64_t now_us);
// Blobs may have become useless: collect them when all is stored.
void dev_garbage_made(struct dev_runtime *runtime);
struct dev_task *dev_task_find(struct dev_runtime *runtime, uint64_t task_id);
struct base_str dev_task_name(const struct dev_task *task);
// Queues an outcome for the next report.
void dev_outcome(struct dev_runtime *runtime, const struct wire_outcome *outcome);

#endif
