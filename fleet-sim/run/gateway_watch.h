// What the gateway says about a run, asked once a second over a connection of its own: the rollout
// (for the live view, for stage marks, and to know when it ended) and the load figures.
//
// Owned by the coordinator's thread, driven by its event loop. A gateway that does not answer
// leaves the view as it was; the connection is opened anew.
#ifndef SIM_GATEWAY_WATCH_H
#define SIM_GATEWAY_WATCH_H

#include "base/buffer.h"
#include "base/ports.h"
#include "base/str.h"
#include "model/gateway_view.h"
#include "model/rollouts_seen.h"

#define SIM_WATCH_BODY_MAX (1024 * 1024)

struct event_base;
struct h2_tls;
struct sim_watch;

struct sim_watch_options {
    struct event_base *base;
    struct base_str host;
    uint16_t port;
    struct h2_tls *tls;
    uint64_t rollout;      // 0: the newest one
    const char *task;      // of this task; empty: of any, until sim_watch_follow
    struct base_str token; // of an operator; empty: none. Valid as long as the watch
    // Answers a question at once, in place of a gateway at `host`: the status, and the body behind
    // what `out` has. Its load is asked for once: what is looked at of it is its transport's, and
    // there is none. NULL: there is a gateway.
    int (*answer)(void *ctx, const char *path, struct base_buffer *out);
    void *answer_ctx;
};

// NOMEM.
BASE_NODISCARD enum base_status sim_watch_new(const struct sim_watch_options *options,
                                              struct sim_watch **out_watch);
void sim_watch_free(struct sim_watch *watch);
// From now on rollouts of this task alone are looked at, and what is known of others is forgotten.
// Nothing happens where a rollout or a task was named before. `task` is copied.
void sim_watch_follow(struct sim_watch *watch, const char *task);
// Sends the next questions, unless the last ones are unanswered.
void sim_watch_ask(struct sim_watch *watch);
bool sim_watch_waits(const struct sim_watch *watch); // for an answer
const struct sim_watch_view *sim_watch_view(const struct sim_watch *watch);
// All that were heard of, of every task; valid as long as the watch.
const struct sim_rollouts_seen *sim_watch_rollouts(const struct sim_watch *watch);

// Parsers, apart for tests. `bytes` is one rollout object or a page of them: all of them are taken
// into `seen`, and into the view the one not ended and otherwise the newest. What is not understood
// changes nothing.
void sim_watch_parse_rollouts(const char *bytes, size_t size, struct sim_watch_view *view,
                              struct sim_rollouts_seen *seen);
void sim_watch_parse_metrics(const char *bytes, size_t size, struct sim_gateway_load *load);

#endif
