// The state of one task's update on a device, as a pure machine: which states there are, which
// events may happen in which state, and where they lead.
//
// The machine knows nothing of storage, time or the network. Callers ask dev_update_next first;
// only when it allows the event do they change the task's record, and then they save record and
// state together, in one atomic write. So a kill finds either the state before or the state after.
#ifndef DEV_UPDATE_STATE_H
#define DEV_UPDATE_STATE_H

#include "base/status.h"

// X(name, text, has an active version, active is on trial, a version is being pulled)
#define DEV_UPDATE_STATE_MAP(X)                                                                    \
    X(EMPTY, "empty", false, false, false)                                                         \
    X(EMPTY_PULL, "empty, pulling", false, false, true)                                            \
    X(TRIAL, "on trial", true, true, false)                                                        \
    X(TRIAL_PULL, "on trial, pulling", true, true, true)                                           \
    X(SETTLED, "settled", true, false, false)                                                      \
    X(SETTLED_PULL, "settled, pulling", true, false, true)

enum dev_update_state {
#define DEV_UPDATE_STATE_ENUM(name, text, active, trial, pull) DEV_UPDATE_##name,
    DEV_UPDATE_STATE_MAP(DEV_UPDATE_STATE_ENUM)
#undef DEV_UPDATE_STATE_ENUM
        DEV_UPDATE_STATE_COUNT
};

enum dev_update_event {
    // A verified statement names a version that is not active: its content is to be pulled.
    DEV_UPDATE_ON_ACCEPT,
    DEV_UPDATE_ON_ABANDON, // the pull is given up
    // The pulled content is whole and verified: it becomes active, on trial.
    DEV_UPDATE_ON_ACTIVATE,
    DEV_UPDATE_ON_PASS,       // the active version ran to its end without failure
    DEV_UPDATE_ON_FALL_BACK,  // the active version is given up; the kept one becomes active
    DEV_UPDATE_ON_FALL_EMPTY, // the active version is given up and none is kept
    DEV_UPDATE_ON_AGAIN,      // a mark: the active version is activated once more, on trial
    // The trial of a version that was activated again ends, and it stays all the same.
    DEV_UPDATE_ON_STAND,
    DEV_UPDATE_ON_REVERT, // an order leads back to the kept version
    DEV_UPDATE_ON_REMOVE, // an order ends the task
    DEV_UPDATE_EVENT_COUNT
};

// The state `event` leads to. CONFLICT: the event may not happen in this state; INVALID: no such
// state or event. *out_state is written on OK only.
BASE_NODISCARD enum base_status dev_update_next(enum dev_update_state state,
                                                enum dev_update_event event,
                                                enum dev_update_state *out_state);

bool dev_update_has_active(enum dev_update_state state);
bool dev_update_on_trial(enum dev_update_state state);
bool dev_update_is_pulling(enum dev_update_state state);

// A static text for logs, never NULL.
const char *dev_update_state_name(enum dev_update_state state);

#endif
