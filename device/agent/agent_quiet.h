// The agent's log does not say the same thing each second: once, then after growing gaps, with how
// often it was meant meanwhile.
#ifndef AGENT_QUIET_H
#define AGENT_QUIET_H

#include "base/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define AGENT_QUIET_LINES   32   // different ones that are remembered; the oldest is forgotten
#define AGENT_QUIET_FIRST_S 10   // least gap between a line and the next like it ...
#define AGENT_QUIET_LAST_S  3600 // ... which doubles up to this

struct agent_quiet_line {
    uint64_t hash; // of the line without its numbers; 0: free
    uint64_t due_us;
    uint64_t seen_us;
    uint32_t gap_s;
    uint32_t kept; // not said since it was said last
};

struct agent_quiet {
    pthread_mutex_t lock;
    struct base_log under; // where lines go
    struct agent_quiet_line lines[AGENT_QUIET_LINES];
};

// `log` writes to standard error through `quiet`, which must stay where it is. Details (debug) and
// what is said of single events are not held back. From any thread.
void agent_quiet_log(struct agent_quiet *quiet, struct base_log *log, enum base_log_level level);
// Should this line be said at `now_us`, and how many like it were not? Lines that differ in numbers
// alone are alike. Apart for tests.
bool agent_quiet_says(struct agent_quiet *quiet, const char *text, uint64_t now_us,
                      uint32_t *out_kept);

#endif
