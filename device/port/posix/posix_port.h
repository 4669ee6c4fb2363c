// The posix port of the device runtime: LMDB and files for storage, HTTP/2 over TLS for requests, a
// worker thread or processes for task runs, and a libevent loop that drives the tick.
//
// A directory holds everything of one device and belongs to one process at a time:
//   state/         the one small record, in two files that are written in turn
//   blobs/HEX      sealed content, named by its SHA-256
//   partial/HEX    content still being pulled
//   pipeline/      LMDB environment of events, features and the tunnel's queue
//   lock           held while a process uses the directory
// The port owns a runtime over itself: posix_port_new boots it, the event base then drives it, and
// posix_port_free stops it. All calls on the thread of the event base; only task runs are
// elsewhere.
#ifndef POSIX_PORT_H
#define POSIX_PORT_H

#include "base/error.h"
#include "device/device.h"
#include "device/port.h"
#include "pipeline/record/record.h"

BASE_C_BEGIN

struct event_base;
struct posix_port;

#define POSIX_MIRRORS_MAX 4

// Another place that serves /v1/blob/; what it serves is verified like everything else.
struct posix_mirror {
    struct base_str host;
    uint16_t port;
    bool tls;
};

struct posix_options {
    const char *dir;
    struct base_str host; // of the gateway
    uint16_t port;
    bool tls;
    struct posix_mirror mirrors[POSIX_MIRRORS_MAX]; // asked first, in turn; then the gateway
    uint32_t mirror_count;
    const char *ca_pem_path;      // NULL with tls: the gateway is not verified
    const char *certificate_path; // PEM, shown to the gateway; NULL: none
    const char *certificate_key_path;
    struct base_str credential; // shown to the gateway; empty: none
    struct dev_config config;
    bool no_pipeline; // no data pipeline and no tunnel
    // Of tasks that do not declare what leaves nothing does (wire/leaves/leaves.h).
    bool leaves_required;
    // Bytes of the heap that decoding a delta may take; 0 takes DEV_DELTA_MEMORY_BYTES. What needs
    // more is not asked for.
    uint64_t delta_memory;
    // Where scripts run: NULL, on a worker thread of this process; otherwise each run in a process
    // of its own, behind a wall, of the program walle-task-runner at this path.
    const char *runner_path;
    // What the app hands to runs by name (walle.blob); its functions are called on this thread.
    // Zero: nothing.
    struct dev_blob_port blobs;
    const struct base_log *log;
    void *app;
    void (*on_result)(void *app, struct base_str task, const struct dev_task_end *end);
    // Called after every tick. May be NULL.
    void (*on_tick)(void *app, struct dev_runtime *runtime);
};

// INVALID (configuration, address, certificates), BUSY (another process has the directory), IO,
// FULL, NOMEM; with a runner_path NOT_FOUND (no such program) and UNSUPPORTED (the kernel refuses
// the wall); `error` says what and where.
BASE_NODISCARD enum base_status posix_port_new(struct event_base *base,
                                               const struct posix_options *options,
                                               struct posix_port **out_port,
                                               struct base_error *error);
// Stops the runtime (a run under way is interrupted) and closes everything. Accepts NULL.
void posix_port_free(struct posix_port *port);
struct dev_runtime *posix_port_runtime(struct posix_port *port);
void posix_port_wake(struct posix_port *port); // there is something to do: tick soon

// A request of the app to its service behind the gateway, over the device's own connection and with
// its credential. What the runtime has to say rides on it (docs/DEVICE.md, "Riding on the app's
// requests"; options.config.ride_wait_s).
#define POSIX_BUSINESS_MAX       4                 // under way at once
#define POSIX_BUSINESS_TIMEOUT_S 30                // without a whole answer
#define POSIX_BUSINESS_BODY_MAX  ((size_t)1 << 20) // of an answer

struct posix_business {
    struct base_str method;       // empty takes "GET"
    struct base_str path;         // "/items/7"
    struct base_str content_type; // of the body; empty: none
    const uint8_t *body;          // copied
    size_t body_bytes;
    void *app;
    // Once, never from inside posix_business; not after posix_port_free, which it must not call.
    // `status` is HTTP's; 0: no whole answer came, or one that is too long. The body is valid
    // during the call.
    void (*on_answer)(void *app, int status, const uint8_t *body, size_t size);
};

// LIMIT: POSIX_BUSINESS_MAX are under way; NOMEM; and what opening a connection fails with: then
// on_answer does not come.
BASE_NODISCARD enum base_status posix_business(struct posix_port *port,
                                               const struct posix_business *request);

// What an app gives its events to; NULL with no_pipeline.
struct dev_recorder *posix_port_recorder(struct posix_port *port);
// Any thread, until posix_port_free: dev_record, with the time of now where the recording has none.
// Codes as dev_record's.
enum base_status posix_record(struct dev_recorder *recorder, const struct dev_recording *recording);
// The device's data pipeline (posix/posix_pipeline.h); NULL when there is none.
struct posix_pipeline *posix_port_pipeline(struct posix_port *port);

BASE_C_END

#endif
