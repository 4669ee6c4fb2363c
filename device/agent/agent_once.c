// The judgement behind --once: done, not yet, or no use to wait. Called by device_agent.c on its
// main thread after ticks of the runtime that left it idle; time and figures are arguments, so a
// test plays hours in no time.
#include "agent_once.h"

enum agent_once_end agent_once_judge(struct agent_once *once, bool idle, uint64_t moved,
                                     uint64_t now_us)
{
    if (idle) {
        once->waits = false;
        return AGENT_ONCE_DONE;
    }
    if (!once->waits || once->moved != moved) {
        *once = (struct agent_once){.waits = true, .moved = moved, .since_us = now_us};
    }
    return now_us - once->since_us < AGENT_ONCE_WAIT_S * 1000000ull ? AGENT_ONCE_WAITS
                                                                    : AGENT_ONCE_LEFT;
}
