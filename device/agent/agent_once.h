// When `walle-device --once` ends: not before what it recorded, ran and made is at the gateway, or
// was refused there; but it does not wait for ever for a gateway that takes nothing.
#ifndef AGENT_ONCE_H
#define AGENT_ONCE_H

#include <stdbool.h>
#include <stdint.h>

#define AGENT_ONCE_WAIT_S 30 // without anything that moves, then it ends with the rest unsent
#define AGENT_ONCE_LOOK_S 1  // how often that is looked at

// Zeroed at first.
struct agent_once {
    bool waits;
    uint64_t moved;
    uint64_t since_us;
};

enum agent_once_end {
    AGENT_ONCE_WAITS, // to be asked again, after AGENT_ONCE_LOOK_S at the latest
    AGENT_ONCE_DONE,
    AGENT_ONCE_LEFT, // something is not sent, and nothing has moved for AGENT_ONCE_WAIT_S
    AGENT_ONCE_END_COUNT,
};

// `idle`: nothing waits, nothing is unsent. `moved`: a figure that changes whenever something was
// done of what is waited for. Pure.
enum agent_once_end agent_once_judge(struct agent_once *once, bool idle, uint64_t moved,
                                     uint64_t now_us);

#endif
