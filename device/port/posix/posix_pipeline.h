// The data pipeline and the tunnel of a device on the posix port: its store in DIR/pipeline, its
// tunnel on the connection that carries check-ins, and what ties both to the runtime. posix_port.c
// owns it and steps it on its loop; dev_record may be called on any thread.
#ifndef POSIX_PIPELINE_H
#define POSIX_PIPELINE_H

#include "base/error.h"
#include "device/port.h"
#include "pipeline/pipeline.h"
#include "tunnel/tunnel.h"

struct event_base;
struct posix_http;
struct posix_pipeline;

struct posix_pipeline_options {
    struct event_base *base;
    const char *dir; // of the device
    uint64_t device_id;
    struct base_str app; // version, for the gateway; borrowed during the call
    struct base_str os;
    struct posix_http *http; // must outlive it
    bool leaves_required;    // as dev_pipeline_options.leaves_required
    const struct base_log *log;
    void *ctx;
    void (*woke)(void *ctx); // something is to be done: step
};

// IO, FULL, CORRUPT, NOMEM; `error` says what.
BASE_NODISCARD enum base_status posix_pipeline_new(const struct posix_pipeline_options *options,
                                                   struct posix_pipeline **out,
                                                   struct base_error *error);
// Stores what waits. Accepts NULL.
void posix_pipeline_free(struct posix_pipeline *self);
// The runtime whose tasks it starts; before the first step.
void posix_pipeline_attach(struct posix_pipeline *self, struct dev_runtime *runtime);
// What is due, here and in the tunnel; returns when to step again.
uint64_t posix_pipeline_step(struct posix_pipeline *self, uint64_t now_us);
// For the runtime's ports.
void posix_pipeline_on_result(struct posix_pipeline *self, struct base_str task,
                              const struct dev_task_end *end);
// The end of a run that a trigger started, by its token, or of another, by its task's id.
void posix_pipeline_on_end(struct posix_pipeline *self, struct dev_pipeline_run run,
                           const struct dev_task_end *end);
void posix_pipeline_on_input_free(struct posix_pipeline *self, uint64_t token);

struct dev_recorder *posix_pipeline_recorder(struct posix_pipeline *self);
struct dev_feature_store *posix_pipeline_features(struct posix_pipeline *self);
struct dev_tunnel *posix_pipeline_tunnel(struct posix_pipeline *self);
struct dev_pipeline *posix_pipeline_core(struct posix_pipeline *self);
// Everything recorded was handled, stored, and is durable at the gateway.
bool posix_pipeline_is_idle(const struct posix_pipeline *self);

#endif
