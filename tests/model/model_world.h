// One world: a gateway, its devices, a clock, and the record of what was acknowledged. Operations
// are done one after another; what the gateway or a device does that the record does not allow is
// the world's failure, and nothing is done after it.
//
// Rules. An answer is what the record says it must be, and never the gateway's own failure. After
// every change and every restart a rollout is where the record has it. Once the devices have
// settled (they check in until two rounds in a row change nothing) each runs of each task what
// policy/desired.h says of the record, `why` says the same, and no device runs a killed version or
// bytes that are not its version's. The audit log's chain holds and every rollout's log replays.
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include "model_device.h"
#include "model_op.h"
#include "model_record.h"

// Where the result of a simulate stage comes from: somebody types it, or a run is signed. The last
// ones are not to be taken.
enum model_evidence {
    MODEL_EVIDENCE_TYPED,
    MODEL_EVIDENCE_SIGNED,
    MODEL_EVIDENCE_OF_ANOTHER_VERSION,
    MODEL_EVIDENCE_OF_ANOTHER_ROOT,
    MODEL_EVIDENCE_BY_ANOTHER_KEY,
    MODEL_EVIDENCE_OF_ANOTHER_TARGET,
    MODEL_EVIDENCE_COUNT
};

#define MODEL_DEVICES_MAX 64u
#define MODEL_TEXT_MAX    1024u
#define MODEL_ROOTS_MAX   16u
#define MODEL_ROOT_BYTES  1024u

// Offers of one rollout (model_pace.h).
struct model_flight {
    bool unknown;                           // they are looked at no more
    uint64_t offered_us[MODEL_DEVICES_MAX]; // first; 0: not, UINT64_MAX: it answered
    uint64_t credit;                        // offers, in millionths
    uint64_t credited_us;
};

struct model_world {
    char home[MODEL_PATH_MAX];
    uint64_t mono_us;
    uint64_t wall_us;
    uint32_t root_count;
    struct {
        enum model_root root;
        bool online_next;
        uint8_t bytes[MODEL_ROOT_BYTES];
        size_t size;
    } roots[MODEL_ROOTS_MAX]; // all that were ever made: operators keep them
    uint32_t lease_s;
    struct model_ground ground;
    struct model_gateway gateway;
    struct model_record record;
    struct model_record backup;
    bool registered[MODEL_TASKS][MODEL_VERSIONS];
    bool registered_then[MODEL_TASKS][MODEL_VERSIONS]; // at the backup
    bool restored;
    uint32_t device_count;
    struct model_device devices[MODEL_DEVICES_MAX];
    struct model_flight flights[MODEL_ROLLOUTS_MAX];
    uint64_t checks; // of one task on one device
    uint64_t waits;  // ... which rightly had something else yet: a copy was restored
    uint64_t whys;   // asked of a task on a device; no calls that count
    uint64_t asked;  // calls of operators, for their keys
    bool verbose;
    bool failed;
    char rule[48]; // what kind of failure
    char text[MODEL_TEXT_MAX];
};

// `op` is a WORLD; the folder `home` is made. A world that cannot be made has failed.
void model_world_open(struct model_world *world, const struct model_op *op, const char *home,
                      bool verbose);
void model_world_do(struct model_world *world, const struct model_op *op);
// The last check, of the logs too, unless it failed; then everything is given up.
void model_world_close(struct model_world *world);
uint64_t model_world_calls(const struct model_world *world); // at the gateway

// Shared inside.
void model_world_fail(struct model_world *world, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void model_world_make_root(struct model_world *world, enum model_root root, bool online_next);
void model_world_push_root(struct model_world *world, uint32_t index); // the record has it then
// model_operate.c: what an operator does.
void model_operate(struct model_world *world, const struct model_op *op);
// One call under a key of its own; the status. *out_again: the gateway died in it, and was asked
// again under the same key.
int model_call(struct model_world *world, enum gw_method method, const char *path, const void *body,
               size_t size, enum model_bearer bearer, bool *out_again);
// model_evidence.c: what a simulate stage came to.
void model_simulated(struct model_world *world, const struct model_op *op);
// What the controller decided by gates: the record has no say in that, and the replay of its log
// has.
void model_take_decisions(struct model_world *world);
// Is every rollout where the record has it?
void model_compare_rollouts(struct model_world *world);
// model_preview.c: the dry run of a draft, its start, and what came of it.
void model_preview(struct model_world *world, const struct model_op *op);
// model_check.c
void model_settle(struct model_world *world);
// Where a device may wait: what it runs now is right, if it is.
void model_note_right(struct model_world *world, struct model_device *device);
void model_check(struct model_world *world);
void model_check_logs(struct model_world *world);
// Of a settled device: what it runs (version -1: nothing) and, when `rule` is one more than a
// pol_desired_rule, by which rule, as the record has it and as `why` says it.
void model_expect(struct model_world *world, const struct model_op *op);
void model_world_advance(void *world, uint64_t us);

#endif
