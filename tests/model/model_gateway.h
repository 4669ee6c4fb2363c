// The gateway that ships, without sockets: its core over a real store in a folder, one worker, the
// operator API. A request goes in as a transport hands it over, and its answer comes back complete.
// Between two requests nothing is under way.
//
// Kills. The folder as it is on disk at that moment is copied, the process's memory is given up,
// and a new core starts on the copy: what a power cut leaves, for the store is synced. A kill
// within a call comes behind its n-th commit.
#ifndef MODEL_GATEWAY_H
#define MODEL_GATEWAY_H

#include "base/prng.h"
#include "svc/control.h"
#include "svc/core.h"

#include <jansson.h>
#include <pthread.h>

#define MODEL_PATH_MAX 160

struct model_gateway {
    char home[MODEL_PATH_MAX]; // all folders are below
    char dir[MODEL_PATH_MAX];  // of the core that lives
    uint32_t life;
    struct base_clock_port clock;
    bool signer;      // it has online keys
    bool online_next; // ... the next ones
    struct base_prng prng;
    struct gw_core *core;
    struct gw_worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct gw_message *first;
    struct gw_message **last;
    char approver[128]; // "Bearer ..." of who approves; empty: none yet
    bool has_backup;
    char key[32];        // idempotency-key of the calls from now on; empty: none
    uint32_t dies_after; // commits; 0: it does not
    bool died;           // ... within the call: it left no answer
    uint64_t requests;
    char fault[256]; // what it did that it never may; empty: nothing
};

struct model_exchange {
    struct base_arena arena;
    struct gw_exchange exchange;
    bool finished;
};

// `home` must exist and be empty. False: `fault` says why.
bool model_gateway_open(struct model_gateway *gateway, const char *home,
                        const struct base_clock_port *clock, bool signer);
void model_gateway_done(struct model_gateway *gateway); // what is below home is removed
bool model_gateway_kill(struct model_gateway *gateway);
bool model_gateway_backup(struct model_gateway *gateway);
bool model_gateway_restore(struct model_gateway *gateway);
void model_gateway_tick(struct model_gateway *gateway);
bool model_gateway_still(struct model_gateway *gateway); // what was submitted is on disk

// The caller fills request; the answer is in `exchange` until model_exchange_done.
void model_exchange_init(struct model_exchange *exchange);
void model_exchange_done(struct model_exchange *exchange);
void model_gateway_send(struct model_gateway *gateway, struct model_exchange *exchange);

enum model_bearer { MODEL_ADMIN, MODEL_APPROVER };

// A call of the operator API. Returns the status, 0 when the gateway died within; *out_json (NULL:
// not wanted) is the caller's, NULL when there is none.
int model_gateway_call(struct model_gateway *gateway, enum gw_method method, const char *path,
                       const void *body, size_t size, enum model_bearer bearer, json_t **out_json);

// The audit log's chain holds, and every rollout's log replays to the same decisions.
bool model_gateway_audit_holds(struct model_gateway *gateway, char *why, size_t capacity);
bool model_gateway_replays(struct model_gateway *gateway, uint64_t rollout, char *why,
                           size_t capacity);

#endif
