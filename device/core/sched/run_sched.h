// Several runs of tasks at once: which waits, which starts, which has to make room.
//
// A scheduler holds what runs and what waits in one order: by priority, then by deadline, then as
// they came. It has no clock, no threads and no memory of its own: its caller says what time it is,
// starts and stops the runs it names, and tells it when one ended. The same calls at the same times
// come to the same, on a device and in the simulator. Of one thread. What holds at all times:
//   - no more run than there are places, and together they need no more memory than the budget;
//   - of a task no more run at once than it says, which is one unless it says otherwise;
//   - a run starts past one that waits ahead of it only if that one has room no later for it, or
//     still in time for its deadline, by the times both take at most;
//   - a run of priority 0 waits for none of lower priority: it takes the place of these, so it
//     starts when it would if they were not there. Others do when they must start now to keep their
//     deadline. As few are stopped as make the room, and only if they do; they wait again, where
//     they waited before.
// Times are monotonic microseconds. What was accepted stays until it ended or was cancelled.
#ifndef DEV_RUN_SCHED_H
#define DEV_RUN_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEV_SCHED_PLACES_MAX      64                     // runs at once
#define DEV_SCHED_WAITING_MAX     256                    // runs that wait
#define DEV_SCHED_PRIORITY_MAX    3                      // goes last; 0 goes first
#define DEV_SCHED_PASSED_MAX      8                      // runs that wait ahead of one that starts
#define DEV_SCHED_BUDGET_DEFAULT  (200ull * 1024 * 1024) // bytes of memory, for all runs together
#define DEV_SCHED_WAITING_DEFAULT 64
#define DEV_SCHED_NEVER           UINT64_MAX

enum dev_sched_answer {
    DEV_SCHED_ACCEPTED,
    DEV_SCHED_KNOWN,        // a run with this key is here already
    DEV_SCHED_BAD_PRIORITY, // above DEV_SCHED_PRIORITY_MAX
    DEV_SCHED_TOO_LARGE,    // needs more memory than all runs together ever have
    DEV_SCHED_TOO_LATE,     // could not be over by its deadline if it started at once
    DEV_SCHED_TASK_FULL,    // of its task as many wait as may
    DEV_SCHED_FULL,         // as many wait as may
    DEV_SCHED_ANSWER_COUNT
};

struct dev_sched_limits {
    uint64_t budget_bytes;     // 0 takes DEV_SCHED_BUDGET_DEFAULT
    uint32_t places;           // runs at once; 0 takes 1
    uint32_t waiting_max;      // 0 takes DEV_SCHED_WAITING_DEFAULT
    uint32_t task_waiting_max; // of one task; 0: as many as of all
};

// What a run asks for.
struct dev_sched_want {
    uint64_t key;          // names the run; the caller's
    uint64_t task_id;      // runs of one task share it
    uint64_t deadline_us;  // when it is to be over; DEV_SCHED_NEVER: whenever
    uint64_t time_us;      // it takes at most
    uint64_t memory_bytes; // it needs at most
    uint8_t priority;
    uint8_t at_once; // runs of its task that may run together with it, itself one; 0 takes 1
    bool background; // may run while the app is in the background
    bool alone;      // nothing else runs beside it
};

struct dev_sched_run {
    struct dev_sched_want want;
    uint64_t number;     // in the order they came
    uint64_t started_us; // of one that runs
    uint32_t cuts;       // times it was stopped for others
    bool running;
};

enum dev_sched_deed { DEV_SCHED_NOTHING, DEV_SCHED_START, DEV_SCHED_STOP };
struct dev_sched_stats {
    uint64_t started; // again after a cut, too
    uint64_t ended;
    uint64_t cut;
    uint64_t late; // ended after their deadline
    uint64_t refused[DEV_SCHED_ANSWER_COUNT];
    uint64_t most_bytes; // that runs needed together
    uint32_t most_running;
    uint32_t most_waiting;
};

struct dev_sched {
    struct dev_sched_run *line; // in their order; in the caller's memory
    struct dev_sched_limits limits;
    struct dev_sched_stats stats;
    uint64_t next_number;
    uint64_t used_bytes; // of those that run
    uint64_t full_bytes; // the budget at the beginning
    uint32_t count;
    uint32_t running;
    bool background; // only what may run there does
};

// Bytes of memory within these limits; 0: places or waiting_max are above what the constants say.
size_t dev_sched_bytes(const struct dev_sched_limits *limits);
// `memory`: so many bytes, aligned as uint64_t, the caller's, for as long as the scheduler is used.
void dev_sched_init(struct dev_sched *sched, const struct dev_sched_limits *limits, void *memory);
// A run is to be done: it waits, or is refused, which changes nothing but a counter.
enum dev_sched_answer dev_sched_offer(struct dev_sched *sched, const struct dev_sched_want *want,
                                      uint64_t now_us);
// What is to be done now, of *out: START, it counts as running from now on; STOP, it counts as
// waiting, and the caller stops it before it calls again. To be called until there is NOTHING.
enum dev_sched_deed dev_sched_next(struct dev_sched *sched, uint64_t now_us,
                                   struct dev_sched_run *out);
// It ended by itself; it was stopped by the caller, and waits again; it is not to be done any more
// (one that is under way the caller stops). False: none with the key is under way, or is here.
bool dev_sched_end(struct dev_sched *sched, uint64_t key, uint64_t now_us);
bool dev_sched_back(struct dev_sched *sched, uint64_t key);
bool dev_sched_cancel(struct dev_sched *sched, uint64_t key);
// The app went to the background, or came back; all runs together may need so much memory from now
// on (not 0). What has to stop: first what is of the lowest priority, of that what started last.
// What alone needs more than the budget waits until there is as much again.
void dev_sched_background(struct dev_sched *sched, bool background);
void dev_sched_budget(struct dev_sched *sched, uint64_t budget_bytes);
// When dev_sched_next may have something to do though nothing happened; DEV_SCHED_NEVER: it has
// not.
uint64_t dev_sched_due_us(const struct dev_sched *sched, uint64_t now_us);
// NULL: there is none with the key. Valid until something changes.
const struct dev_sched_run *dev_sched_find(const struct dev_sched *sched, uint64_t key);
const char *dev_sched_answer_text(enum dev_sched_answer answer); // static
// Checks every invariant; for tests and debug builds.
bool dev_sched_validate(const struct dev_sched *sched);

#endif
