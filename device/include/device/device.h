// libwalle-device: the device runtime. It brings ML tasks to a device, verifies, stages and
// activates them, runs them in isolated script VMs, reports what happened, and goes back to the
// last good version without a download.
//
// Shape. The core does no I/O of its own: it is driven by dev_tick and by the dev_on_* calls, and
// acts through the table of ports in device/port.h. It keeps no globals and starts no threads; all
// its memory is the block the caller hands to dev_init. One runtime belongs to one thread at a
// time. The same archive runs on phones, in the Linux agent (`walle-device`) and, a million times
// over, in the fleet simulator.
//
// Life. install > boot > wake > task run. dev_init prepares memory; dev_boot recovers from storage
// (it is the only way state comes back: a kill at any instant loses nothing that was acknowledged).
// dev_tick does what is due and says when to call again. dev_stop cancels what is under way;
// dropping the memory without it is allowed and is what a kill does.
//
// Errors. Status codes; trust failures (-2xx) refuse an offer and are reported under their own
// code.
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "base/log.h"
#include "base/span.h"
#include "base/status.h"
#include "wire/attrs.h"
#include "wire/digest.h"
#include "wire/report.h"

#include <stddef.h>
#include <stdint.h>

BASE_C_BEGIN

#define DEV_TASKS_MAX                  64      // upper bound for dev_config.tasks_max
#define DEV_CHECKIN_INTERVAL_MAX_S     604800u // a week; a gateway that says more is taken for this
#define DEV_CHECKIN_INTERVAL_DEFAULT_S 300u    // until the gateway says another
// One answer, which nobody signs, sets the next check-in at most to so many times the interval of
// now, or of the default where that is longer.
#define DEV_CHECKIN_GROWTH   2u
#define DEV_TASKS_DEFAULT    32
#define DEV_RUNS_MAX         64 // upper bound for dev_config.runs_max
#define DEV_TRUSTED_KEYS_MAX 4
#define DEV_STATE_BYTES_MAX  (64 * 1024)
#define DEV_RESULT_BYTES_MAX (1024 * 1024) // upper bound for dev_config.result_bytes_max
#define DEV_RIDE_HEADERS_MAX 5
#define DEV_RIDE_BYTES_MAX   8192 // of all values of a ride's headers but `walle-ride`
#define DEV_RIDE_TOKEN_BYTES 24   // of that, and a NUL
#define DEV_RIDE_WAIT_MAX_S  86400

struct dev_ports;
struct dev_runtime;

struct dev_config {
    uint64_t device_id;
    struct wire_attrs attrs; // copied, texts and all
    uint8_t trusted_keys[DEV_TRUSTED_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
    uint32_t trusted_key_count;
    uint32_t signature_threshold; // distinct trusted keys that must sign; 0 takes 1
    // The root the device is born with (an envelope, wire/trust/root.h). With it everything is
    // verified by roles: root chain, timestamp, snapshot, director and release must agree, and
    // trusted_keys are not used. Not copied: it must outlive the runtime. NULL: none.
    const uint8_t *root;
    size_t root_bytes;
    // What wire_root_open said of these bytes, from who opened them for many runtimes; it must
    // outlive them. NULL: dev_init verifies the root.
    const struct wire_root *root_opened;
    // When the program was built: a clock that is further behind was never set. Seconds since 1970;
    // 0: not known.
    uint64_t born_s;
    uint32_t mirrors; // other places the port may bring content from (dev_request.source)
    // Tasks it holds at most, a shadow is one more: told to the gateway, which offers no more. Each
    // takes memory from the start, of the record and of what it declares (docs/DEVICE.md). 0 takes
    // DEV_TASKS_DEFAULT.
    uint32_t tasks_max;
    uint32_t outcomes_max; // queued outcomes before the oldest is dropped (counted); 0 takes 64
    // Longest result of an active version that is kept while its shadow runs, so that the two can
    // be compared value by value; a longer one must be the same. 0 takes 4 KiB.
    uint32_t result_bytes_max;
    // Between check-ins. 0: as the gateway says, DEV_CHECKIN_INTERVAL_DEFAULT_S until it does.
    // Otherwise it is the device's own and the gateway does not change it.
    uint32_t checkin_interval_s;
    uint32_t checkin_spread_s;   // first check-in after boot is uniform in this span; 0: at once
    uint32_t backoff_base_ms;    // 0 takes 1,000
    uint32_t backoff_cap_ms;     // 0 takes 300,000
    uint32_t request_timeout_ms; // 0 takes 30,000
    // The app's own requests go through the gateway (dev_ride_start): so long after the boot, and
    // after each one that a gateway answered, check-ins and reports wait for the next. After one
    // that met none they do not. Should be more than the longest pause between two. 0: they wait
    // for none; at most DEV_RIDE_WAIT_MAX_S.
    uint32_t ride_wait_s;
    uint32_t report_delay_ms; // coalesce outcomes this long before reporting; 0: report when the
                              // run ended
    uint32_t
        crash_limit; // starts that end in a crash before a version on trial is given up; 0 takes 1
    bool hints;      // keep a hint stream open
    // A version that does not say what may leave the device (wire/leaves/leaves.h) is not for it:
    // NOT_APPLICABLE. One that is there already goes on until another comes.
    bool leaves_required;
    // Calls of models in the cloud that may wait or be under way at once (device/cloud.h); one more
    // is BUSY. 0: this device makes none; at most DEV_CLOUD_CALLS_MAX.
    uint32_t cloud_calls_max;
    // Runs of tasks under way at once, which the task port has to be made for; of one task there is
    // never more than one. 0 takes 1; at most DEV_RUNS_MAX. What follows counts from 2 on.
    uint32_t runs_max;
    // Memory that the runs under way may need together: heaps and models, as their manifests say,
    // and DEV_RUN_BESIDE_BYTES each. A version that alone needs more fails for want of memory. 0
    // takes 200 MiB.
    uint64_t runs_memory_bytes;
};

struct dev_run_input; // device/port.h

// Counters since boot and a view of the tasks; for the embedding app, tests and the simulator's
// ledger.
struct dev_task_view {
    struct base_str name;         // valid until the next call into the runtime
    struct wire_sha256 active;    // zero: none
    struct wire_sha256 previous;  // the last good one kept; zero: none
    struct wire_sha256 exclusive; // manifest of the exclusive files of `active`; zero: none
    uint64_t blocked_version_id;
    uint64_t release_counter;
    uint64_t placebo_rollout; // whose control it is: what `active` comes to is told for it; 0: none
    bool on_trial;            // active but not yet run without failure
    bool shadow; // `active` runs beside the active version of the same name, for comparison only
};

struct dev_stats {
    uint64_t checkins; // answered, those that rode too
    uint64_t pulls;
    uint64_t pulled_bytes;
    uint64_t resumed_bytes; // bytes not fetched again thanks to Range
    uint64_t deltas;        // files made from the one before and a difference
    uint64_t deltas_failed; // ... and those that had to be brought whole after all
    uint64_t activations;
    uint64_t again;       // ... of what was active already, as marks asked
    uint64_t runs;        // of active versions; of shadows there are shadow_runs
    uint64_t shadow_runs; // and those of the active version for comparison alone
    uint64_t triggered;   // runs that behaviour started
    uint64_t failures;
    uint64_t damaged; // times that stored content was found damaged
    uint64_t mended;  // versions whose content was brought again
    uint64_t rollbacks;
    uint64_t withdrawals; // active versions that were taken away: ordered off, killed, or damaged
    uint64_t refused_offers;
    uint64_t refused_metadata; // roots, timestamps, snapshots and director's answers
    uint64_t root_version;     // of the root in force now; 0: keys are pinned
    uint64_t leases_lost;
    uint64_t kills;
    uint64_t dropped_outcomes;
    uint64_t bad_requests;     // requests that ended in an error or a timeout
    int refused_status;        // 401 or 403: what the last answer refused this device with; 0: not
    int16_t refused_offer_why; // of the last refused offer, a base_status
    int16_t refused_metadata_why; // of the last refused metadata, likewise
    // Check-ins and reports that failed, of the last of them: what, what the gateway answered (0:
    // nothing, or not all of it), and after how long the next request goes.
    uint64_t failed_requests;
    bool failed_report;
    int failed_status;
    uint32_t failed_wait_ms;
    // Rides: of `checkins` the ones that rode on a request of the app's; reports that rode and are
    // durable; rides that no gateway answered; profiles that do not fit a ride's headers and go by
    // themselves; rides on which not all outcomes that waited fitted, so that some go with the
    // next.
    uint32_t rides;
    uint32_t ride_reports;
    uint32_t rides_lost;
    uint32_t rides_too_large;
    uint32_t rides_cut;
};

// Bytes dev_init needs for this configuration; 0 when the configuration is invalid.
size_t dev_runtime_bytes(const struct dev_config *config);

// Prepares `memory` (dev_runtime_bytes, 16-byte aligned, owned by the caller until it is done with
// the runtime). `config` is copied; `ports` is kept and must outlive the runtime. INVALID.
BASE_NODISCARD enum base_status dev_init(void *memory, size_t memory_bytes,
                                         const struct dev_config *config,
                                         const struct dev_ports *ports,
                                         struct dev_runtime **out_runtime);

// Recovers from storage: completes or undoes a half-done activation, counts a crash of a version on
// trial, drops unverified content. CORRUPT state is set aside and the device starts anew with a new
// epoch (returns OK). IO, FULL, NOMEM: the caller may try again.
BASE_NODISCARD enum base_status dev_boot(struct dev_runtime *runtime);

// Does what is due at `now_us` (monotonic) and returns the monotonic time of the next call,
// UINT64_MAX when the runtime only waits for a callback. After any dev_on_* call, call dev_tick
// again.
uint64_t dev_tick(struct dev_runtime *runtime, uint64_t now_us);

// Cancels requests and runs under way. Storage is already consistent. Accepts NULL.
void dev_stop(struct dev_runtime *runtime);

// The app came to the foreground, the network came back, a hint arrived by other means: check in
// now, whether or not a ride may come.
void dev_checkin_now(struct dev_runtime *runtime);
// A `walle-offer` header seen by the app on a business response (base64url text): push-then-pull
// without a request of its own. INVALID when it does not parse.
BASE_NODISCARD enum base_status dev_on_offer_header(struct dev_runtime *runtime,
                                                    struct base_str text);
// Value for the request header `walle-profile` of business requests (no NUL). TOO_LARGE past
// `capacity`.
BASE_NODISCARD enum base_status dev_profile_header(const struct dev_runtime *runtime, char *out,
                                                   size_t capacity, size_t *out_size);

// ---- Rides: a request of the app's own, through the gateway's proxy, stands for a check-in and
// takes a report along (docs/PROTOCOL.md, "Push, then pull"). While they come often enough
// (dev_config.ride_wait_s) the runtime makes no check-in and no report of its own.

struct dev_ride_header {
    struct base_str name; // lower case; static
    struct base_str value;
};

// What the app's request takes along. The values lie in `text`: the structure must not be copied.
struct dev_ride {
    uint32_t number; // for dev_ride_end
    uint32_t header_count;
    struct dev_ride_header headers[DEV_RIDE_HEADERS_MAX];
    char token[DEV_RIDE_TOKEN_BYTES]; // of `walle-ride`
    char text[DEV_RIDE_BYTES_MAX];
};

// Fills in the headers for a request that the app is about to make to its service, through the
// gateway, in the way that this device's own requests go: over TLS to the same gateway, with the
// device's credential or certificate. One ride at a time, and dev_ride_end tells its end; a request
// for which there is none goes without. BUSY: a ride, a check-in or a report is under way, or the
// gateway asked for time. TOO_LARGE: what has to be said does not fit; it goes by itself.
BASE_NODISCARD enum base_status dev_ride_start(struct dev_runtime *runtime,
                                               struct dev_ride *out_ride);
// The answer's headers `walle-ride` and `walle-offer`, empty where there is none: it counts as the
// answer to a check-in, which it may be only if it came from the gateway. Both empty, or those of
// another ride's answer: the request failed, or met no gateway. A ride that is not under way (any
// more) is ignored; one that gets no answer ends by itself after the request timeout. Call dev_tick
// afterwards.
void dev_ride_end(struct dev_runtime *runtime, uint32_t number, struct base_str taken,
                  struct base_str offer);

// Runs the active version of task `task_id` with this input, before what the clock has due, as soon
// as nothing else runs. One at a time: BUSY until on_input_free was called for the one before.
// NOT_FOUND: no version of it is active. The bytes of the input stay the caller's and must live
// until on_input_free or dev_stop. Not stored: the caller starts it again after a restart
// (device/pipeline does).
BASE_NODISCARD enum base_status dev_run_triggered(struct dev_runtime *runtime, uint64_t task_id,
                                                  const struct dev_run_input *input);
// The app goes to the background (true), where nothing runs, or comes back. What is under way is
// cancelled at the next tick and done anew later, which is no failure. Nothing where runs_max is 1.
void dev_runs_suspend(struct dev_runtime *runtime, bool suspended);
// The app needs memory, or has some to give: so much for all runs together from now on, 0 as
// configured. What does not fit is cancelled likewise, at first what is least urgent.
void dev_runs_memory(struct dev_runtime *runtime, uint64_t bytes);
// In on_result: is it the end of a run that dev_run_triggered asked for? (on_triggered follows.)
bool dev_run_is_triggered(const struct dev_runtime *runtime);
// The embedding cannot do for the active version of the task what it declares (device/pipeline had
// to leave it out): reported as fail_load, once as long as nothing else happens to the task.
// Nothing for a task that has no active version.
void dev_left_out(struct dev_runtime *runtime, uint64_t task_id, const char *why);
// In on_result and on_triggered: so many records of the run may not leave, by what its version
// declares (device/pipeline refused them). Told with the run's outcome.
void dev_run_refused(struct dev_runtime *runtime, uint32_t count);
// Changes when the set of active versions does: then what they declare is to be read again.
uint64_t dev_active_mark(const struct dev_runtime *runtime);
// The manifest of the active version of the task at `index` (as in dev_task_view), borrowed until
// dev_active_close. NOT_FOUND: none, or a shadow; IO, CORRUPT.
BASE_NODISCARD enum base_status dev_active_open(struct dev_runtime *runtime, uint32_t index,
                                                const uint8_t **out_bytes, size_t *out_size);
void dev_active_close(struct dev_runtime *runtime, uint32_t index, const uint8_t *bytes,
                      size_t size);

// Stored content by its digest, proven: in memory that does not change, until dev_content_close.
// NOT_FOUND: it is not here, or not whole; CORRUPT: these are other bytes, or more than
// `bytes_max`, which are not read; and the storage's codes.
BASE_NODISCARD enum base_status dev_content_open(struct dev_runtime *runtime,
                                                 const struct wire_sha256 *name, uint64_t bytes_max,
                                                 const uint8_t **out_bytes, size_t *out_size);
void dev_content_close(struct dev_runtime *runtime, const struct wire_sha256 *name,
                       const uint8_t *bytes, size_t size);

// True while nothing is under way or queued: the runtime may be dropped and booted again later at
// no loss.
bool dev_is_idle(const struct dev_runtime *runtime);
#define DEV_STATE_SPANS_MAX 16 // places in its memory where a runtime has its state
// Where that is now; how many places. What lies elsewhere is room for what is not under way: it may
// be anything when the runtime is called next. 0: all of it is state.
uint32_t dev_state_spans(const struct dev_runtime *runtime,
                         struct base_span out[DEV_STATE_SPANS_MAX]);
void dev_stats(const struct dev_runtime *runtime, struct dev_stats *out_stats);
uint32_t dev_task_count(const struct dev_runtime *runtime);
// NOT_FOUND past the count.
BASE_NODISCARD enum base_status dev_task_view(const struct dev_runtime *runtime, uint32_t index,
                                              struct dev_task_view *out_view);
// No release of the task below is followed; 0: any is. Of tasks that were stopped, too.
uint64_t dev_floor(const struct dev_runtime *runtime, struct base_str task_name);
// Checks every invariant of the runtime; for tests and debug builds.
bool dev_validate(const struct dev_runtime *runtime);

BASE_C_END

#endif
