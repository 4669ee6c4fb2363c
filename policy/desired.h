// Desired state: the one version of a task that a device should run, or none.
//
// Every rollout of the task that is open, paused, guarded or completed makes a *claim* on the
// device; what was rolled back or killed makes none. One that is guarded is a baseline, as if
// completed; one that was paused while guarded is held: a baseline for who has its version alone.
// The answer follows from the claims and from four facts of the device, never from the order in
// which things happened to be told. docs/RELEASES.md has the table; the rules, the first that fits:
//
//   1. A device follows one rollout: of the open and paused ones that target it, the one of the
//      highest priority, and of equals the one approved first. It is FOLLOWED when that admits it;
//      while it is paused only by who has the version already (PAUSED).
//   2. A device that an open rollout let in stays, although it follows another now (STAYS).
//   3. Otherwise the baseline: of the completed rollouts that target and admit it, the one approved
//      last (BASELINE). A rollout that completed below full is a baseline for its share alone.
//   4. Otherwise, when all that stands between it and the rollout by which it has what it runs is
//      its attributes, which come and go, it keeps that (KEEPS).
//   5. Otherwise nothing (NONE).
//
// What the device refuses (a version that failed there, a statement), or that is below its floor,
// is none of these; but what it has already it need not follow: when the rules without the floor
// come to that, it stays. Pure, and O(claims).
#ifndef POL_DESIRED_H
#define POL_DESIRED_H

#include "policy/rollout.h"

enum pol_claim_state {
    POL_CLAIM_OPEN,
    POL_CLAIM_PAUSED,
    POL_CLAIM_COMPLETED,
    POL_CLAIM_HELD // completed, and for nobody who has not its version
};

struct pol_claim {
    uint64_t version;  // not 0
    uint64_t approved; // release counter: the later the higher; unique among a task's claims
    uint16_t priority; // of open and paused claims
    enum pol_claim_state state;
    bool targeted; // the rollout's target and its arm have the device
    bool admitted; // ... and its open stages (the last one, when completed) let it in
    bool inside;   // the arm and the widest open share have it, whatever its attributes
    bool held_off; // its segment is in quarantine: neither admitted, nor may it keep the version
    bool refused;  // the device refuses the statement it would come by, or the version
};

struct pol_desired_device {
    uint64_t have;     // version it runs; 0: none
    uint64_t refused;  // version that failed there last, and that it will not run again; 0: none
    uint64_t floor;    // it follows no approval below
    uint64_t approved; // of the claim by which it has `have`; 0: not known, then any of the version
};

// X(NAME, text)
#define POL_DESIRED_MAP(X)                                                                         \
    X(FOLLOWED, "an open rollout lets it in")                                                      \
    X(PAUSED, "the rollout it follows is paused, and it has the version")                          \
    X(STAYS, "a rollout of lower priority let it in before")                                       \
    X(BASELINE, "the baseline")                                                                    \
    X(KEEPS, "only its attributes changed, and nothing else is meant for it")                      \
    X(NONE, "no rollout is meant for it")

enum pol_desired_rule {
#define POL_DESIRED_ENUM(name, text) POL_DESIRED_##name,
    POL_DESIRED_MAP(POL_DESIRED_ENUM)
#undef POL_DESIRED_ENUM
        POL_DESIRED_RULE_COUNT
};

struct pol_desired {
    uint64_t version; // 0: none
    uint32_t claim;   // whose version it is; `count` when there is none
    enum pol_desired_rule rule;
};

// What a rollout in this state is among the claims. False: it makes none, *out_state is not
// written.
bool pol_rollout_claims(const struct pol_rollout *rollout, enum pol_claim_state *out_state);

// Claims in any order, all of one task.
struct pol_desired pol_desired(const struct pol_claim *claims, uint32_t count,
                               const struct pol_desired_device *device);

// Static text and lower-case name ("followed"), never NULL.
const char *pol_desired_rule_text(enum pol_desired_rule rule);
const char *pol_desired_rule_name(enum pol_desired_rule rule);

#endif
