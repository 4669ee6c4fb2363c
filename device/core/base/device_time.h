// What a device believes of the time, from sources of which each may be wrong.
//
//   born     when the program was built. A clock that is further behind has never been set.
//   root     issued_s of the root in force: a threshold of root keys, offline
//   offline  issued_s of releases: signed on the operators' machines, offline
//   online   issued_s of the director's answer to this device's own question: the gateway's clock.
//            It is the last word, not the highest one: a later answer takes an earlier one back.
//   own      the device's wall clock
//   passed   the monotonic clock, which carries what was signed on
//
// The floor is the latest of born, root and offline, carried on: it was earlier than now when it
// was signed. The own clock counts when it is not more than DEV_TIME_AHEAD_MAX_S behind the floor.
// Then no signed time, online or offline, leads further than DEV_TIME_AHEAD_MAX_S ahead of it, and
// none leads behind it. When it does not count, the gateway's word stands for it, never behind the
// floor, and offline times lead no further ahead of that. So one wrong source moves nothing for
// long. A floor that came from a wrong clock is given up when the own clock and the gateway agree
// that it is wrong, or, on a device without a root, when the own clock lies in the life of a
// statement newer than all that were accepted of its task.
//
// What an attacker can do. With the online keys and the gateway: nothing to a device whose clock
// counts but a day; to one whose clock does not, any time from the floor on for as long as it
// answers, and nothing that stays. With the device's clock besides: bring it back to the root's or
// the program's date, so that statements that have run out are followed, if their counter is above
// all that were accepted. Neither brings an old release back: counters, which no time moves,
// protect from that. With the device's clock alone: make it refuse everything, which it reports,
// until the clock is set.
//
// Pure: clocks are parameters. Seconds since 1970, the monotonic clock in microseconds; sums
// saturate. Nothing fails. The stored part is `offline_s` and `online_s`.
#ifndef DEVICE_TIME_H
#define DEVICE_TIME_H

#include <stdbool.h>
#include <stdint.h>

// How far clocks that agree may lie apart: also a clock set to local time.
#define DEV_TIME_AHEAD_MAX_S UINT64_C(86400)

struct dev_time {
    uint64_t offline_s; // 0: none
    uint64_t online_s;  // 0: none
    uint64_t born_s;
    uint64_t root_s;        // 0: not known yet
    uint64_t offline_at_us; // monotonic, when the two above were what they say
    uint64_t online_at_us;
};

// Both clocks at one instant.
struct dev_time_now {
    uint64_t own_s;
    uint64_t mono_us;
};

struct dev_time_bracket {
    uint64_t not_before_s; // the floor
    uint64_t used_s;       // what expiry is judged by
    uint64_t not_after_s;  // what is signed later is not believed; UINT64_MAX: nothing bounds it
    bool own_counts;
};

// The process starts: what is stored goes on from here.
void dev_time_boot(struct dev_time *time, uint64_t born_s, const struct dev_time_now *now);
// not_before_s <= used_s <= not_after_s.
struct dev_time_bracket dev_time_bracket(const struct dev_time *time,
                                         const struct dev_time_now *now);
// A verified release, whatever becomes of it.
void dev_time_offline(struct dev_time *time, uint64_t issued_s, const struct dev_time_now *now);
// A verified release of a device without a root, above all counters that were accepted of its task.
void dev_time_newer(struct dev_time *time, uint64_t issued_s, uint64_t expires_s,
                    const struct dev_time_now *now);
// A director's answer with this device's nonce, under a root of `root_s`. True: it was taken back
// that time had gone further.
bool dev_time_online(struct dev_time *time, uint64_t issued_s, uint64_t root_s,
                     const struct dev_time_now *now);
// Online keys changed: the root says what time it is at least, and all else is void.
void dev_time_root(struct dev_time *time, uint64_t root_s);
// For what must not last longer when a clock is set back: the latest of own clock, floor and the
// gateway's word. Not bounded: a lie of the gateway ends what it gave.
uint64_t dev_time_latest(const struct dev_time *time, const struct dev_time_now *now);
// The gateway's word, carried on; 0: it said none.
uint64_t dev_time_said(const struct dev_time *time, const struct dev_time_now *now);
// What is to be stored: the two as they are now.
uint64_t dev_time_offline_now(const struct dev_time *time, const struct dev_time_now *now);

#endif
