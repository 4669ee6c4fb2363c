// The desired state of one task on one device; the rules are in the header, and the functions below
// have their order. Called by the gateway's workers for a check-in and by its previews and
// explanations (svc/plan/want.c), and by the simulator in place of a gateway (ports/sim_local.c);
// pure, O(claims). The floor is left out at first: only when the answer is something to follow is
// it asked again with the floor, so that a device keeps what it has although that is below.
#include "policy/desired.h"

#include "policy/stat/assert.h"

bool pol_rollout_claims(const struct pol_rollout *rollout, enum pol_claim_state *out_state)
{
    if (rollout->before_first || rollout->killed) {
        return false;
    }
    pol_assert((unsigned)rollout->state <= POL_ROLLOUT_STATE_COUNT);
    switch (rollout->state) {
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_WAITING: // the open stages go on
        *out_state = POL_CLAIM_OPEN;
        return true;
    case POL_ROLLOUT_PAUSED:
        *out_state = rollout->guarding ? POL_CLAIM_HELD : POL_CLAIM_PAUSED;
        return true;
    case POL_ROLLOUT_GUARDING:
    case POL_ROLLOUT_COMPLETED:
        *out_state = POL_CLAIM_COMPLETED;
        return true;
    case POL_ROLLOUT_DRAFT:
    case POL_ROLLOUT_ROLLING_BACK:
    case POL_ROLLOUT_ROLLED_BACK:
    case POL_ROLLOUT_STATE_COUNT:
        break;
    }
    return false;
}

static bool is_open(const struct pol_claim *claim)
{
    return claim->state == POL_CLAIM_OPEN || claim->state == POL_CLAIM_PAUSED;
}

static bool may_run(const struct pol_claim *claim, const struct pol_desired_device *device)
{
    return claim->version != device->refused && !claim->refused && claim->approved >= device->floor;
}

static bool goes_before(const struct pol_claim *a, const struct pol_claim *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->approved < b->approved;
}

// The rollout that the device follows, whether or not that lets it in; `count`: none.
static uint32_t followed(const struct pol_claim *claims, uint32_t count)
{
    uint32_t found = count;
    for (uint32_t i = 0; i < count; i++) {
        if (is_open(&claims[i]) && claims[i].targeted &&
            (found == count || goes_before(&claims[i], &claims[found]))) {
            found = i;
        }
    }
    return found;
}

// An open rollout that let the device in, whose version it has; `count`: none.
static uint32_t stays(const struct pol_claim *claims, uint32_t count,
                      const struct pol_desired_device *device)
{
    uint32_t found = count;
    for (uint32_t i = 0; i < count && device->have != 0; i++) {
        const struct pol_claim *claim = &claims[i];
        if (is_open(claim) && claim->version == device->have && claim->admitted &&
            may_run(claim, device) && (found == count || goes_before(claim, &claims[found]))) {
            found = i;
        }
    }
    return found;
}

static uint32_t baseline(const struct pol_claim *claims, uint32_t count,
                         const struct pol_desired_device *device)
{
    uint32_t found = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct pol_claim *claim = &claims[i];
        bool shut = claim->state == POL_CLAIM_HELD && claim->version != device->have;
        if (!is_open(claim) && !shut && claim->admitted && may_run(claim, device) &&
            (found == count || claim->approved > claims[found].approved)) {
            found = i;
        }
    }
    return found;
}

static bool came_by(const struct pol_desired_device *device, const struct pol_claim *claim)
{
    return claim->version == device->have &&
           (device->approved == 0 || device->approved == claim->approved);
}

// The claim by which it has its version, which its attributes alone shut it out of; `count`: none.
static uint32_t keeps(const struct pol_claim *claims, uint32_t count,
                      const struct pol_desired_device *device)
{
    uint32_t found = count;
    for (uint32_t i = 0; i < count && device->have != 0; i++) {
        const struct pol_claim *claim = &claims[i];
        if (came_by(device, claim) && claim->inside && !claim->held_off && may_run(claim, device) &&
            (found == count || claim->approved > claims[found].approved)) {
            found = i;
        }
    }
    return found;
}

static struct pol_desired by(const struct pol_claim *claims, uint32_t claim,
                             enum pol_desired_rule rule)
{
    pol_assert(rule != POL_DESIRED_NONE);
    pol_assert(!claims[claim].refused);
    return (struct pol_desired){claims[claim].version, claim, rule};
}

static struct pol_desired decide(const struct pol_claim *claims, uint32_t count,
                                 const struct pol_desired_device *device)
{
    uint32_t claim = followed(claims, count);
    pol_assert(claim == count || (is_open(&claims[claim]) && claims[claim].targeted));
    if (claim < count && claims[claim].admitted && may_run(&claims[claim], device)) {
        if (claims[claim].state == POL_CLAIM_OPEN) {
            return by(claims, claim, POL_DESIRED_FOLLOWED);
        }
        if (claims[claim].version == device->have) {
            return by(claims, claim, POL_DESIRED_PAUSED);
        }
    }
    claim = stays(claims, count, device);
    if (claim < count) {
        return by(claims, claim, POL_DESIRED_STAYS);
    }
    claim = baseline(claims, count, device);
    if (claim < count) {
        return by(claims, claim, POL_DESIRED_BASELINE);
    }
    claim = keeps(claims, count, device);
    if (claim < count) {
        return by(claims, claim, POL_DESIRED_KEEPS);
    }
    return (struct pol_desired){0, count, POL_DESIRED_NONE};
}

struct pol_desired pol_desired(const struct pol_claim *claims, uint32_t count,
                               const struct pol_desired_device *device)
{
    struct pol_desired_device anything = *device;
    anything.floor = 0;
    struct pol_desired desired = decide(claims, count, &anything);
    pol_assert(desired.claim <= count);
    pol_assert((desired.claim == count) == (desired.rule == POL_DESIRED_NONE));
    bool follows = desired.version != 0 && desired.version != device->have;
    return follows && device->floor != 0 ? decide(claims, count, device) : desired;
}
