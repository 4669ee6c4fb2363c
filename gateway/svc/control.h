// The control thread and the seam to the operator API.
//
// Tasks, versions and rollouts have one owner: the control thread (or, with
// gw_core_options.control_thread false, whoever calls gw_core_tick). A worker that wants something
// from them fills a `gw_control_call`, posts it and leaves; `run` is called on the control thread,
// where every function of catalog.h, rollouts.h, devices.h and gw_blob_put may be called and may
// block on the disk; then `done` is called on the posting worker's thread, where the exchange is
// answered with gw_exchange_finish.
//
// Memory. The call usually lives in the exchange's arena, which lives until finish; between post
// and done the control thread alone may touch it and what it points to. A call that was accepted
// always comes back exactly once, also when the exchange was abandoned meanwhile.
#ifndef GW_CONTROL_H
#define GW_CONTROL_H

#include "svc/clock_guard.h"
#include "svc/core.h"

#define GW_CONTROL_QUEUE_MAX 4096u // calls waiting; beyond it gw_control_post answers BUSY

struct gw_control_call {
    struct gw_message message;    // private to the core
    struct gw_control_call *next; // private to the core
    struct gw_worker *worker;     // set by gw_control_post
    struct gw_exchange *exchange; // the caller's, untouched by the core
    void (*run)(struct gw_core *core, struct gw_control_call *self);
    void (*done)(struct gw_worker *worker, struct gw_control_call *self);
};

// On the worker's thread. BUSY: not accepted, neither `run` nor `done` will be called; answer 503
// with gw_reply_busy.
BASE_NODISCARD enum base_status gw_control_post(struct gw_worker *worker,
                                                struct gw_control_call *call);
// The same on the background thread, for work that costs CPU: `run` may use blobs and
// gw_preview_run there and nothing else of the core.
BASE_NODISCARD enum base_status gw_background_post(struct gw_worker *worker,
                                                   struct gw_control_call *call);
// The same on the thread of deltas, where one call may take a minute; `run` may use blobs alone.
BASE_NODISCARD enum base_status gw_deltas_post(struct gw_worker *worker,
                                               struct gw_control_call *call);
// The process is about to end: what waits is not worth making.
bool gw_deltas_stopping(struct gw_core *core);

// ---- The seam to the operator API
// -----------------------------------------------------------------------------------------------

struct gw_actor; // svc/access/operators.h

// Answers one request under GW_API_PATH, on the worker's thread. `actor` is who sent it, valid
// during the call; NULL: the reply says already why it is refused, and it has to be noted and
// finished. Must end in exactly one gw_exchange_finish, now or after a control call.
typedef void (*gw_api_fn)(struct gw_worker *worker, struct gw_exchange *exchange,
                          const struct gw_actor *actor);

// The same at the headers of a request with a body. True: the body decides; `out_size` says how
// large it may be. False: it is refused whatever comes, and the function above gives the answer.
typedef bool (*gw_api_head_fn)(struct gw_exchange *exchange, const struct gw_actor *actor,
                               enum gw_body_size *out_size);

// Before the first worker is made. Without it /api/v1/ answers 404.
#define GW_API_PATH "/api/v1/" // and the resource
void gw_core_set_api(struct gw_core *core, gw_api_fn handle, gw_api_head_fn head);
// The page at `/`, whose reply it fills. Without one there is none.
void gw_core_set_console(struct gw_core *core, void (*reply)(struct gw_exchange *exchange));

// The same for hawkBit's device API, /TENANT/controller/v1/...; it checks who asks by itself.
typedef void (*gw_ddi_fn)(struct gw_worker *worker, struct gw_exchange *exchange);
typedef bool (*gw_ddi_head_fn)(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_core_set_ddi(struct gw_core *core, gw_ddi_fn handle, gw_ddi_head_fn head);

struct gw_core *gw_worker_core(struct gw_worker *worker);
// The plan this worker answers from, counted for the caller. On the worker's thread.
struct gw_plan *gw_worker_plan_ref(struct gw_worker *worker);
// The secret of hawkBit's device API; empty: it is off.
struct base_str gw_worker_ddi_token(const struct gw_worker *worker);
// Compares without telling by its time how much of the secret was right.
bool gw_same_secret(struct base_str given, struct base_str secret);
uint32_t gw_core_checkin_interval_s(const struct gw_core *core);
// Seconds told to a client that is sent away.
uint32_t gw_core_retry_after_s(const struct gw_core *core);
const struct base_log *gw_core_log(const struct gw_core *core);
// A number for a request, to find it again in logs; unlike any other of this process.
uint64_t gw_core_request_id(struct gw_core *core);
// Wall clock of the core's time line, in microseconds.
uint64_t gw_core_time_us(const struct gw_core *core);

// ---- The time (svc/clock_guard.h), on the control thread

#define GW_CLOCK_RECORD_US UINT64_C(600000000) // the time is recorded so often

struct gw_clock_view {
    enum gw_clock_doubt doubt;
    uint64_t wall_us;
    uint64_t time_us; // what the gateway goes by
    uint64_t sure_us; // ... and signs by
};
void gw_clock_view(struct gw_core *core, struct gw_clock_view *out);
// The wall clock is right, whatever it says: the time is its from now on. Rollouts keep how long
// their stages lasted, and those under way are paused, for devices were not seen for as long as the
// time moved. The store's codes: then some are not, and the time is accepted.
struct gw_clock_accepted {
    int64_t moved_us; // by so much the time did
    uint32_t paused;  // rollouts that were under way
};
BASE_NODISCARD enum base_status gw_clock_accept(struct gw_core *core, struct base_str by,
                                                struct base_str reason,
                                                struct gw_clock_accepted *out,
                                                struct base_error *error);
// OK; CONFLICT while the time is in doubt: `what` needs it.
BASE_NODISCARD enum base_status gw_clock_check(struct gw_core *core, const char *what,
                                               struct base_error *error);

// May one more refusal of a stranger be written to the audit log? There is a rate.
bool gw_core_may_note_stranger(struct gw_core *core);

#endif
