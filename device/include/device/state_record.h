// What the stored record of a device says, for a program that looks at a device's folder: nothing
// is recovered, counted or written, and the runtime it belongs to may run meanwhile.
//
// dev_record_open reads the bytes that dev_storage_port.state_load gives into a runtime that is
// never booted: the functions below are all that may be called on it. Its memory is the caller's.
#ifndef DEVICE_STATE_RECORD_H
#define DEVICE_STATE_RECORD_H

#include "base/span.h"
#include "device/device.h"

BASE_C_BEGIN

struct dev_record_view {
    uint32_t tasks;
    uint32_t stopped;             // tasks that were stopped and are remembered
    uint32_t refusals;            // statements and versions it refused and remembers
    uint32_t outcomes;            // waiting to be reported
    uint32_t interval_s;          // between check-ins, by the gateway; 0: not told yet
    uint64_t root_version;        // of the newest root it believes in; 0: keys are pinned
    uint64_t timestamp_version;   // 0: none
    uint64_t timestamp_expires_s; // since 1970
};

struct dev_record_task {
    struct base_str name;      // as long as the memory lives
    const char *state;         // "settled", "on trial, pulling": static
    struct wire_sha256 active; // manifests; zero: none
    struct wire_sha256 kept;
    struct wire_sha256 accepted; // of the statement that was followed last
    uint64_t active_counter;     // of the statement that `active` is here by
    uint64_t newest_counter;     // the highest that was ever accepted
    uint64_t floor;              // no release below it is followed
    uint64_t blocked;            // version id that failed here last; 0: none
    uint64_t lease_until_s;      // since 1970; 0: no lease
    uint64_t last_run_s;         // since 1970; 0: never
    uint32_t runs;               // of `active`
    uint32_t crashes;            // of `active` on trial
    bool running;                // a run on trial was begun and its end not stored
    bool shadow;                 // runs beside the active version of the same name
};

// `memory` as for dev_init with `config`, whose tasks_max and outcomes_max are the most there may
// be. INVALID: the configuration; CORRUPT: this is no record.
BASE_NODISCARD enum base_status dev_record_open(void *memory, size_t memory_bytes,
                                                const struct dev_config *config,
                                                const struct base_span *record,
                                                struct dev_runtime **out_runtime);
void dev_record_view(const struct dev_runtime *runtime, struct dev_record_view *out_view);
// NOT_FOUND past the count, of these three.
BASE_NODISCARD enum base_status dev_record_task(const struct dev_runtime *runtime, uint32_t index,
                                                struct dev_record_task *out_task);
// What it refused, newest first: the mark of a statement or version (core/base/refusals.h). It
// stands when the device tells gateways not to offer it.
BASE_NODISCARD enum base_status dev_record_refusal(const struct dev_runtime *runtime,
                                                   uint32_t index, uint64_t *out_mark,
                                                   bool *out_stands);
BASE_NODISCARD enum base_status dev_record_stopped(const struct dev_runtime *runtime,
                                                   uint32_t index, uint64_t *out_task_id,
                                                   uint64_t *out_floor);

BASE_C_END

#endif
