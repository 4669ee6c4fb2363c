// The update state machine of a task: a table and its readers.
//
// Called by the slot, offer, pull and run code of the runtime, before they change a task's record.
// Pure: no state of its own, any thread.
#include "core/base/update_state.h"

#include "base/check.h"

#include <stdint.h>

// Entries hold the next state plus one, so that what is not named is 0: not allowed.
#define TO(name) (uint8_t)(DEV_UPDATE_##name + 1)

// A pull and a trial are independent of each other: a version on trial can be overtaken by a newer
// one, and PASS, STAND, FALL_BACK and FALL_EMPTY leave a pull beside them going. REVERT and REMOVE
// are newer orders than the one being pulled, so they end the pull. AGAIN waits until there is
// none.
static const uint8_t transitions[DEV_UPDATE_STATE_COUNT][DEV_UPDATE_EVENT_COUNT] = {
    [DEV_UPDATE_EMPTY] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(EMPTY_PULL),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
    [DEV_UPDATE_EMPTY_PULL] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(EMPTY_PULL),
            [DEV_UPDATE_ON_ABANDON] = TO(EMPTY),
            [DEV_UPDATE_ON_ACTIVATE] = TO(TRIAL),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
    [DEV_UPDATE_TRIAL] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(TRIAL_PULL),
            [DEV_UPDATE_ON_PASS] = TO(SETTLED),
            [DEV_UPDATE_ON_FALL_BACK] = TO(SETTLED),
            [DEV_UPDATE_ON_FALL_EMPTY] = TO(EMPTY),
            [DEV_UPDATE_ON_AGAIN] = TO(TRIAL),
            [DEV_UPDATE_ON_STAND] = TO(SETTLED),
            [DEV_UPDATE_ON_REVERT] = TO(SETTLED),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
    [DEV_UPDATE_TRIAL_PULL] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(TRIAL_PULL),
            [DEV_UPDATE_ON_ABANDON] = TO(TRIAL),
            [DEV_UPDATE_ON_ACTIVATE] = TO(TRIAL),
            [DEV_UPDATE_ON_PASS] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_FALL_BACK] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_FALL_EMPTY] = TO(EMPTY_PULL),
            [DEV_UPDATE_ON_STAND] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_REVERT] = TO(SETTLED),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
    [DEV_UPDATE_SETTLED] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_PASS] = TO(SETTLED),
            [DEV_UPDATE_ON_FALL_BACK] = TO(SETTLED),
            [DEV_UPDATE_ON_FALL_EMPTY] = TO(EMPTY),
            [DEV_UPDATE_ON_AGAIN] = TO(TRIAL),
            [DEV_UPDATE_ON_REVERT] = TO(SETTLED),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
    [DEV_UPDATE_SETTLED_PULL] =
        {
            [DEV_UPDATE_ON_ACCEPT] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_ABANDON] = TO(SETTLED),
            [DEV_UPDATE_ON_ACTIVATE] = TO(TRIAL),
            [DEV_UPDATE_ON_PASS] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_FALL_BACK] = TO(SETTLED_PULL),
            [DEV_UPDATE_ON_FALL_EMPTY] = TO(EMPTY_PULL),
            [DEV_UPDATE_ON_REVERT] = TO(SETTLED),
            [DEV_UPDATE_ON_REMOVE] = TO(EMPTY),
        },
};

struct state_row {
    const char *name;
    bool active;
    bool trial;
    bool pull;
};

static const struct state_row rows[DEV_UPDATE_STATE_COUNT] = {
#define STATE_ROW(name, text, active, trial, pull) {text, active, trial, pull},
    DEV_UPDATE_STATE_MAP(STATE_ROW)
#undef STATE_ROW
};

static bool is_state(enum dev_update_state state)
{
    return (unsigned)state < DEV_UPDATE_STATE_COUNT;
}

enum base_status dev_update_next(enum dev_update_state state, enum dev_update_event event,
                                 enum dev_update_state *out_state)
{
    if (!is_state(state) || (unsigned)event >= DEV_UPDATE_EVENT_COUNT) {
        return BASE_ERR_INVALID;
    }
    uint8_t next = transitions[state][event];
    if (next == 0) {
        return BASE_ERR_CONFLICT;
    }
    base_assert(next <= DEV_UPDATE_STATE_COUNT);
    *out_state = (enum dev_update_state)(next - 1);
    return BASE_OK;
}

bool dev_update_has_active(enum dev_update_state state)
{
    return is_state(state) && rows[state].active;
}

bool dev_update_on_trial(enum dev_update_state state)
{
    return is_state(state) && rows[state].trial;
}

bool dev_update_is_pulling(enum dev_update_state state)
{
    return is_state(state) && rows[state].pull;
}

const char *dev_update_state_name(enum dev_update_state state)
{
    return is_state(state) ? rows[state].name : "unknown state";
}
