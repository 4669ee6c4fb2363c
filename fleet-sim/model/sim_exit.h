// What the program ends with: the statuses of a run, which its other commands share as far as they
// mean the same.
#ifndef SIM_EXIT_H
#define SIM_EXIT_H

enum sim_exit {
    SIM_EXIT_OK = 0,
    SIM_EXIT_FAILED = 1, // an invariant broke, the release failed, a goal was not reached
    SIM_EXIT_USAGE = 2,
    SIM_EXIT_REFUSED = 3,       // preflight
    SIM_EXIT_LOCAL = 4,         // files, memory
    SIM_EXIT_INTERRUPTED = 5,   // by a signal, before its end
    SIM_EXIT_NOBODY_FITS = 6,   // no virtual device is what the options ask for
    SIM_EXIT_NO_GATEWAY = 7,    // nothing answered
    SIM_EXIT_NOBODY_ONLINE = 8, // it answered, and no device came online, or a part was refused
    SIM_EXIT_UNREACHED = 9,     // devices came online, and no release reached one
    SIM_EXIT_NO_RELEASE = 10,   // devices came online, and there was no release to judge
    SIM_EXIT_UNCOUNTED = 11,    // a release reached devices, and its gate counts none of them
    SIM_EXIT_THRESHOLD = 99,    // all else passed, and a threshold does not hold
};

#endif
