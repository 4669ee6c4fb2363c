// The sequences. Device 0 has os "a", device 1 "b", device 2 "c"; rings and the channel follow from
// the number (model_device_init). Versions count from 0: A is 0, B is 1. Salts follow from the
// world's seed, so that who is in a share is fixed; `expect` says it by name.
#include "model_cases.h"

#include "model_shrink.h"

#include <string.h>

struct model_case {
    const char *name;
    const char *text;
};

#define WORLD  "world seed=7 devices=12 rooted=2 signer=1\n"
#define A_OPEN "create rollout=0 version=0 trust=1\nstart rollout=0\n"
#define A_DONE A_OPEN "promote rollout=0\n"
#define B_OPEN "create rollout=1 version=1 trust=1\nstart rollout=1\n"
#define B_DONE "create rollout=2 version=1 trust=1\nstart rollout=2\npromote rollout=2\n"
#define B_HALF "create rollout=1 version=1 ladder=1 trust=1\nstart rollout=1\n"

// Rules, as `expect` takes them: one more than the pol_desired_rule.
#define FOLLOWED " rule=1\n"
#define PAUSED   " rule=2\n"
#define STAYS    " rule=3\n"
#define BASELINE " rule=4\n"
#define KEEPS    " rule=5\n"
#define NONE     " rule=6\n"
#define A        " version=0"
#define B        " version=1"
#define NOTHING  " version=-1"

// Where a rollout stands: a pol_rollout_state.
#define GUARDING  "stands rollout=1 state=7\n"
#define COMPLETED "stands rollout=1 state=5\n"

// Four devices are well, the others come when the last stage is over, and fail.
#define EACH_LATE(text)                                                                            \
    text("4") text("5") text("6") text("7") text("8") text("9") text("10") text("11")
#define GOES(device)  "away device=" device " on=1\n"
#define FAILS(device) "fails device=" device " version=1 on=1\naway device=" device "\n"
#define LATE_FAILURES(guard)                                                                       \
    "check\n" EACH_LATE(GOES) "create rollout=1 version=1 trust=1 gate=1 guard=" guard             \
                              "\nstart rollout=1\nround\n" GUARDING                                \
                              EACH_LATE(FAILS)

// With this seed a share of 50 % of rollout 1 has the devices 4, 5 and 9, one of rollout 2 the
// devices 1, 8, 9 and 11. A device whose number is 3 modulo 4 does not show who it is: `why` knows
// nothing of it.
static const struct model_case cases[] = {
    // The table of docs/RELEASES.md, in its order.
    {"followed", WORLD A_DONE "check\nexpect device=0" A BASELINE B_OPEN
                              "check\nexpect device=0" B FOLLOWED "expect device=3" B FOLLOWED},
    {"not_in_the_share_yet",
     WORLD A_DONE B_HALF "check\nexpect device=0" A BASELINE "expect device=2" A BASELINE
                         "expect device=4" B FOLLOWED "expect device=9" B FOLLOWED},
    {"no_baseline", WORLD B_HALF "check\nexpect device=0" NOTHING NONE
                                 "expect device=2" NOTHING NONE "expect device=5" B FOLLOWED},
    {"paused_has_it", WORLD A_DONE B_OPEN "check\npause rollout=1\ncheck\n"
                                          "expect device=0" B PAUSED "expect device=6" B PAUSED},
    {"paused_has_it_not",
     WORLD A_DONE "check\n" B_OPEN "pause rollout=1\ncheck\nexpect device=0" A BASELINE
                  "expect device=6" A BASELINE},
    {"aborted", WORLD A_DONE B_OPEN "check\nabort rollout=1\ncheck\n"
                                    "expect device=0" A BASELINE "expect device=6" A BASELINE},
    {"first_release_aborted",
     WORLD B_OPEN "check\nexpect device=2" B FOLLOWED "abort rollout=1\ncheck\n"
                  "expect device=2" NOTHING NONE "expect device=0" NOTHING NONE},
    {"both_open",
     WORLD A_OPEN B_OPEN "check\nexpect device=0" A FOLLOWED "expect device=6" A FOLLOWED},
    {"both_open_by_priority",
     WORLD A_OPEN "create rollout=1 version=1 priority=10 trust=1\nstart rollout=1\ncheck\n"
                  "expect device=0" B FOLLOWED "expect device=6" B FOLLOWED},
    {"stays", WORLD A_OPEN "check\ncreate rollout=1 version=1 priority=10 ladder=1 trust=1\n"
                           "start rollout=1\ncheck\nexpect device=0" A STAYS
                           "expect device=2" A STAYS "expect device=5" B FOLLOWED},
    {"completed_in_another_order",
     WORLD A_OPEN B_OPEN "promote rollout=1\npromote rollout=0\ncheck\n"
                         "expect device=0" B BASELINE "expect device=6" B BASELINE},
    {"completed_below_full", WORLD A_DONE B_HALF
     "promote rollout=1\ncheck\n"
     "expect device=0" A BASELINE "expect device=2" A BASELINE "expect device=5" B BASELINE},
    {"killed", WORLD A_DONE B_OPEN "promote rollout=1\ncheck\nexpect device=0" B BASELINE
                                   "kill_version version=1\ncheck\n"
                                   "expect device=0" A BASELINE "expect device=6" A BASELINE},
    {"killed_rollout", WORLD A_DONE B_OPEN
     "promote rollout=1\ncheck\nexpect device=0" B BASELINE "kill rollout=1\ncheck\n"
     "expect device=0" A BASELINE "expect device=6" A BASELINE},
    {"one_version_in_two_rollouts", WORLD A_DONE B_OPEN
     "create rollout=2 version=1 ladder=1 trust=1\nstart rollout=2\ncheck\n"
     "expect device=2" B FOLLOWED "abort rollout=1\ncheck\n"
     "expect device=2" A BASELINE "expect device=0" A BASELINE "expect device=8" B FOLLOWED},
    {"failed_on_one", WORLD "fails device=2 version=1 on=1\nfails device=3 version=1 on=1\n"
                            "fails device=4 version=1 on=1\n" A_DONE "check\n" B_OPEN
                            "check\nexpect device=2" A BASELINE "expect device=3" A BASELINE
                            "expect device=4" A BASELINE "expect device=5" B FOLLOWED},
    // Every version that failed is refused, not only the last one.
    {"failed_on_both",
     WORLD "fails device=3 version=0 on=1\nfails device=3 version=1 on=1\n" A_DONE B_OPEN
           "check\nexpect device=3 version=-1\n"
           "expect device=4 version=1\npromote rollout=1\ncheck\n"
           "expect device=3 version=-1\n"},
    {"failed_on_two_of_three",
     WORLD "fails device=3 version=1 on=1\nfails device=3 version=2 on=1\n" A_DONE B_DONE
           "create rollout=3 version=2 trust=1\nstart rollout=3\ncheck\n"
           "expect device=3 version=0\nexpect device=4 version=2\nreboot device=3\ncheck\n"
           "expect device=3 version=0\n"},
    {"approved_with_a_floor",
     WORLD "fails device=2 version=1 on=1\n" A_DONE "check\n"
           "create rollout=1 version=1 ladder=1 floor=2 trust=1\nstart rollout=1\ncheck\n"
           "expect device=0" A BASELINE "expect device=5" B FOLLOWED},
    {"failed_with_a_floor",
     WORLD "fails device=2 version=1 on=1\nfails device=3 version=1 on=1\n" A_DONE
           "check\ncreate rollout=1 version=1 floor=2 trust=1\nstart rollout=1\ncheck\n"
           "expect device=2" A BASELINE "expect device=3" A BASELINE "expect device=4" B FOLLOWED},
    // What failed on trial leaves no floor: who tried it has a way back, who ran it has not.
    {"failed_with_a_floor_and_the_baseline_killed",
     WORLD "fails device=2 version=2 on=1\nfails device=3 version=2 on=1\n" A_DONE
           "create rollout=1 version=1 floor=1 trust=1\nstart rollout=1\npromote rollout=1\n"
           "check\ncreate rollout=2 version=2 floor=1 trust=1\nstart rollout=2\ncheck\n"
           "expect device=2" B BASELINE "expect device=4 version=2" FOLLOWED
           "abort rollout=2\ncheck\nexpect device=4" B BASELINE
           "kill_version version=1\ncheck\nexpect device=2" A BASELINE "expect device=3" A BASELINE
           "expect device=4" NOTHING NONE},
    {"failed_with_a_floor_of_its_own_and_the_baseline_killed",
     WORLD "fails device=2 version=2 on=1\nfails device=3 version=2 on=1\n" A_DONE
           "create rollout=1 version=1 floor=1 trust=1\nstart rollout=1\npromote rollout=1\n"
           "check\ncreate rollout=2 version=2 floor=2 trust=1\nstart rollout=2\ncheck\n"
           "expect device=2" B BASELINE "abort rollout=2\nkill rollout=1\ncheck\n"
           "expect device=2" A BASELINE "expect device=3" A BASELINE
           "reboot device=2\ncheck\nexpect device=2" A BASELINE},
    {"away_while_its_baseline_is_killed",
     WORLD "fails device=2 version=2 on=1\n" A_DONE
           "create rollout=1 version=1 floor=1 trust=1\nstart rollout=1\npromote rollout=1\n"
           "check\ncreate rollout=2 version=2 floor=1 trust=1\nstart rollout=2\ncrash device=2 "
           "calls=12\nround\ncrash device=2 calls=20\nround\naway device=2 on=1\n"
           "abort rollout=2\nkill rollout=1\naway device=2\ncheck\nexpect device=2" A BASELINE},
    // It is about 22:13 UTC as a world begins; the window is open from 22:00 for four hours.
    {"window_closed", WORLD A_DONE
     "check\nsleep seconds=36000\ncreate rollout=1 version=1 window=1 trust=1\n"
     "start rollout=1\nround\nround\nround\n"
     "expect device=0" A BASELINE "expect device=6" A BASELINE "check\nexpect device=0" B FOLLOWED},
    {"aborted_outside_the_window", WORLD A_DONE
     "create rollout=1 version=1 trust=1\nstart rollout=1\ncheck\n"
     "sleep seconds=36000\ncreate rollout=2 version=2 window=1 trust=1\n"
     "start rollout=2\nabort rollout=1\nround\nround\nround\n"
     "expect device=0" A BASELINE "expect device=4" A BASELINE "check\nexpect version=2" FOLLOWED},
    // A killed version does not wait for the next one's window.
    {"killed_outside_the_window", WORLD A_DONE
     "check\nsleep seconds=36000\ncreate rollout=1 version=1 window=1 trust=1\n"
     "start rollout=1\nkill_version version=0\nround\nround\nround\n"
     "expect device=0" NOTHING NONE "expect device=3" NOTHING NONE "expect device=4" NOTHING NONE
     "check\nexpect device=0" B FOLLOWED "expect device=4" B FOLLOWED},
    {"quarantined",
     "world seed=7 devices=48 rooted=2 signer=1\nfails_os os=2 version=1 on=1\n"
     "fails device=2 version=1\n" A_DONE
     "check\ncreate rollout=1 version=1 trust=1 gate=2\nstart rollout=1\ncheck\n"
     "expect device=2" A BASELINE "expect device=5" A BASELINE "expect device=0" B FOLLOWED
     "lift rollout=1 os=2\ncheck\nexpect device=2" B FOLLOWED "expect device=5" A BASELINE},
    // Without a baseline it has nothing: what it has it may not keep for its attributes either.
    {"quarantined_first_release",
     "world seed=7 devices=48 rooted=2 signer=1\nfails_os os=2 version=1 on=1\n"
     "fails device=2 version=1\ncreate rollout=1 version=1 trust=1 gate=2\nstart rollout=1\n"
     "check\nexpect device=2" NOTHING NONE "expect device=0" B FOLLOWED},
    // Device 10 is away until the last stage is over, so that the guard has somebody to wait for.
    {"guarded", WORLD A_DONE
     "check\naway device=10 on=1\ncreate rollout=1 version=1 trust=1 guard=2\nstart rollout=1\n"
     "check\npromote rollout=1\n" GUARDING "expect device=0" B BASELINE "expect device=6" B BASELINE
     "pause rollout=1\naway device=10\ncheck\n"
     "expect device=0" B BASELINE "expect device=10" A BASELINE "resume rollout=1\n" GUARDING
     "check\nexpect device=10" B BASELINE COMPLETED},
    // What a guard holds back is the baseline of nobody new until then; device 10 comes by day.
    {"guarded_outside_the_window", WORLD A_DONE
     "check\naway device=10 on=1\ncreate rollout=1 version=1 trust=1 guard=2 window=1\n"
     "start rollout=1\ncheck\npromote rollout=1\n" GUARDING
     "sleep seconds=36000\naway device=10\nround\nround\n"
     "expect device=0" B BASELINE "expect device=10" A BASELINE
     "check\nexpect device=10" B BASELINE COMPLETED},
    {"guard_over", WORLD A_DONE
     "check\naway device=10 on=1\ncreate rollout=1 version=1 trust=1 guard=1\nstart rollout=1\n"
     "check\npromote rollout=1\nsleep seconds=590\n" GUARDING "sleep seconds=20\n" COMPLETED},
    {"guarded_and_another_open",
     WORLD "check\naway device=10 on=1\ncreate rollout=0 trust=1 guard=2\nstart rollout=0\ncheck\n"
           "promote rollout=0\n" B_HALF "check\nstands state=7\nexpect device=0" A BASELINE
           "expect device=4" B FOLLOWED},
    {"guard_fails",
     WORLD A_DONE LATE_FAILURES("2") "check\nstands rollout=1 state=4\nexpect device=0" A BASELINE
                                     "expect device=4" A BASELINE},
    // Who has it keeps it until somebody decides, nobody else gets it.
    {"guard_holds",
     WORLD A_DONE LATE_FAILURES("3") "check\nstands rollout=1 state=2\nexpect device=0" B BASELINE
                                     "expect device=4" A BASELINE
                                     "abort rollout=1\ncheck\nexpect device=0" A BASELINE},
    {"keeps", WORLD "create rollout=0 version=0 target=1 trust=1\nstart rollout=0\n"
                    "promote rollout=0\ncheck\nexpect device=0" A BASELINE
                    "expect device=6" A BASELINE "attrs device=0 os=1\nattrs device=6 os=2\n"
                    "check\nexpect device=0" A KEEPS "expect device=6" A KEEPS},
    {"keeps_not", WORLD A_DONE
     "create rollout=1 version=1 target=1 trust=1\nstart rollout=1\npromote rollout=1\ncheck\n"
     "expect device=0" B BASELINE "expect device=6" B BASELINE
     "attrs device=0 os=1\nattrs device=6 os=1\ncheck\n"
     "expect device=0" A BASELINE "expect device=6" A BASELINE},
    {"keeps_by_no_other_rollout",
     WORLD "create rollout=1 version=1 trust=1\nstart rollout=1\npromote rollout=1\n"
           "create rollout=3 version=1 target=2 trust=1\nstart rollout=3\ncheck\n"
           "expect device=0" B BASELINE "expect device=1" B FOLLOWED "undo rollout=1\ncheck\n"
           "expect device=0" NOTHING NONE "expect device=6" NOTHING NONE
           "expect device=1" B FOLLOWED "abort rollout=3\ncheck\nexpect device=1" NOTHING NONE},
    // What the table does not have.
    {"an_arm", WORLD A_DONE "create rollout=1 version=1 arm=1 trust=1\nstart rollout=1\n"
                            "create rollout=2 version=2 arm=2 trust=1\nstart rollout=2\ncheck\n"},
    {"the_gateway_dies",
     WORLD A_DONE B_HALF "check\ngateway_kill\nround\ngateway_dies commit=1\npromote rollout=1\n"
                         "check\n"},
    {"devices_die", WORLD A_DONE "crash device=0 calls=1\ncrash device=1 calls=3\n"
                                 "crash device=2 calls=5\ncrash device=3 calls=7\n"
                                 "crash device=4 calls=9\ncrash device=5 calls=11\ncheck\n"
                                 "expect version=0\nexpect device=5 version=0\n"},
    {"gate_fails", WORLD "fails_os version=1 on=1\nfails_os os=1 version=1 on=1\n" A_DONE
                         "check\ncreate rollout=1 version=1 trust=1 gate=1\nstart rollout=1\n"
                         "check\nexpect device=2" A BASELINE "expect device=5" A BASELINE
                         "expect device=0" A BASELINE},
    {"killed_and_lifted", WORLD A_DONE B_OPEN
     "promote rollout=1\ncheck\nkill_version version=1\ncheck\nexpect device=0" A BASELINE
     "unkill version=1\nunkill version=1\ncheck\nexpect device=0" B BASELINE
     "expect device=2" B BASELINE},
    {"release_key_exchanged",
     "world seed=7 devices=12 rooted=3 signer=1\n" A_DONE "check\nrotate root=1\n" B_OPEN
     "check\nexpect device=0" B FOLLOWED "expect device=3" B FOLLOWED
     "abort rollout=1\ncheck\nexpect device=3" A BASELINE
     "create rollout=2 trust=1\nstart rollout=2\npromote rollout=2\ncheck\n"
     "expect device=0" A BASELINE "expect device=2" A BASELINE},
    {"signed_by_too_few",
     WORLD "away device=1 on=1\n" A_DONE "check\nrotate root=3\naway device=1\ncheck\n"
           "expect device=1" NOTHING "\nexpect device=0" A "\n" B_OPEN "check\n"
           "expect device=1" B FOLLOWED},
    {"two_must_sign",
     WORLD A_DONE "check\naway device=1 on=1\nrotate root=2\nrotate root=3\n" B_OPEN
                  "check\nexpect device=0" B FOLLOWED "away device=1\ncheck\n"
                  "expect device=1" B FOLLOWED},
    {"a_copy_and_new_online_keys", WORLD A_DONE
     "check\nbackup\n" B_OPEN "check\npromote rollout=1\ncheck\nexpect device=0" B BASELINE
     "restore\nrotate online=1\ncheck\n"
     "create rollout=2 version=2 trust=1\nstart rollout=2\ncheck\n"
     "expect device=0 version=2" FOLLOWED "expect device=2 version=2" FOLLOWED},
    {"clocks_set_wrong",
     WORLD A_DONE "check\nclock device=0 seconds=-30000000\nclock device=1 seconds=30000\n"
                  "clock device=2 seconds=90000000\nclock device=4 seconds=2000000\n" B_OPEN
                  "check\nexpect device=0" B FOLLOWED "expect device=1" B FOLLOWED
                  "expect device=2" B FOLLOWED "clock device=4\ncheck\n"
                  "expect device=4" B FOLLOWED},
    {"a_copy_is_restored", WORLD A_DONE
     "check\nbackup\n" B_OPEN "check\nexpect device=0" B FOLLOWED "restore\ncheck\n"
     "expect device=2" A BASELINE "expect device=6" A BASELINE
     "create rollout=2 version=2 trust=1\nstart rollout=2\ncheck\n"
     "expect device=2 version=2" FOLLOWED "create rollout=3 version=3 priority=1 trust=1\n"
     "start rollout=3\ncheck\nexpect device=2 version=3" FOLLOWED
     "expect device=0 version=3" FOLLOWED},
    {"a_copy_that_knows_nothing",
     WORLD "backup\n" A_DONE "check\nrestore\ncheck\nexpect device=2" A "\nexpect device=0" A "\n"},
    // What devices have of a task that nothing began of in the copy, they keep; with its first
    // rollout there they go by the record, also those that are none of its.
    {"a_copy_from_before_a_first_release",
     WORLD "backup\ncreate rollout=1 version=1 trust=1\nstart rollout=1\nround\nrestore\ncheck\n"
           "expect device=0" B "\nexpect device=2" B "\n"
           "create rollout=2 version=2 target=2 trust=1\nstart rollout=2\ncheck\n"
           "expect device=10 version=2" FOLLOWED "expect device=0" NOTHING NONE
           "expect device=2" NOTHING NONE},
    {"a_copy_with_a_draft",
     WORLD "create rollout=1 version=1 trust=1\nbackup\nstart rollout=1\nround\nrestore\ncheck\n"
           "expect device=0" B "\nexpect device=2" B "\n"
           "start rollout=1\ncheck\nexpect device=2" B FOLLOWED
           "abort rollout=1\ncheck\nexpect device=2" NOTHING NONE},
    {"paced", WORLD A_DONE "check\ncreate rollout=1 version=1 pace=1 trust=1\nstart rollout=1\n"
                           "check\nexpect device=0" B FOLLOWED
                           "create rollout=2 version=2 pace=2 priority=5 trust=1\nstart rollout=2\n"
                           "check\nexpect device=0 version=2" FOLLOWED
                           "create rollout=3 version=3 pace=3 priority=9 trust=1\nstart rollout=3\n"
                           "check\nexpect device=0 version=3" FOLLOWED},
    {"shadow_first",
     WORLD A_DONE "check\ncreate rollout=1 version=1 ladder=9 trust=1\nstart rollout=1\ncheck\n"
                  "expect device=0" A BASELINE "promote rollout=1\npromote rollout=1\ncheck\n"
                  "expect device=0" B FOLLOWED},
    {"simulated_first", WORLD A_DONE
     "check\ncreate rollout=1 version=1 ladder=10 trust=1\nstart rollout=1\npromote rollout=1\n"
     "check\nexpect device=0" A BASELINE "simulated rollout=1\npromote rollout=1\ncheck\n"
     "expect device=0" B FOLLOWED},
    {"simulated_by_evidence", WORLD A_DONE
     "check\ncreate rollout=1 version=1 ladder=10 trust=1\nstart rollout=1\n"
     "simulated rollout=1 evidence=2\nsimulated rollout=1 evidence=3\n"
     "simulated rollout=1 evidence=4\nsimulated rollout=1 evidence=5\npromote rollout=1\n"
     "check\nexpect device=0" A BASELINE "simulated rollout=1 evidence=1\npromote rollout=1\n"
     "check\nexpect device=0" B FOLLOWED},
    // Version 4 has something for every second device, version 6 is for these alone.
    {"for_single_devices",
     WORLD A_DONE "check\ncreate rollout=1 version=4 trust=1\nstart rollout=1\npromote rollout=1\n"
                  "check\nexpect device=0 version=4" BASELINE "expect device=1 version=4" BASELINE
                  "expect device=3 version=4" BASELINE
                  "create rollout=2 version=6 trust=1\nstart rollout=2\ncheck\n"
                  "expect device=0 version=6" FOLLOWED "expect device=1 version=4\n"
                  "expect device=3 version=4\nabort rollout=2\ncheck\n"
                  "expect device=0 version=4" BASELINE},
    {"dry_run",
     WORLD A_DONE "check\ncreate rollout=1 version=1 target=1 priority=3\nstart rollout=1\n"
                  "create rollout=2 version=2 ladder=6\npreview rollout=2\n"
                  "create rollout=3 version=3 arm=1 ladder=9 priority=5\npreview rollout=3\n"},
    // What was wrong once.
    {"kill_behind_an_abort", WORLD A_DONE
     "check\n" B_OPEN "check\nabort rollout=1\ncheck\nkill rollout=0\ncheck\nexpect version=-1\n"},
    {"away_with_a_first_release",
     WORLD "create rollout=0 version=0 trust=1\nstart rollout=0\nvisit\naway on=1\n"
           "abort rollout=0\ncreate rollout=1 version=1 trust=1\nstart rollout=1\nabort rollout=1\n"
           "create rollout=2 version=2 trust=1\nstart rollout=2\nabort rollout=2\n"
           "create rollout=3 version=3 trust=1\nstart rollout=3\nabort rollout=3\n"
           "create rollout=4 version=4 trust=1\nstart rollout=4\nabort rollout=4\n"
           "create rollout=5 version=5 trust=1\nstart rollout=5\nabort rollout=5\n"
           "away\ncheck\nexpect version=-1\n"},
    {"overlapping_and_aborted",
     WORLD A_DONE "check\ncreate rollout=1 version=1 ladder=6 trust=1\nstart rollout=1\n"
                  "create rollout=2 version=2 ladder=6 priority=10 trust=1\nstart rollout=2\n"
                  "check\nabort rollout=2\ncheck\npromote rollout=1\npromote rollout=1\ncheck\n"
                  "expect version=1\n"},
    {"share_completed_and_offered_again",
     WORLD A_DONE "create rollout=1 version=1 ladder=4 trust=1\nstart rollout=1\n"
                  "promote rollout=1\npromote rollout=1\ncheck\nround\nround\ncheck\n"},
    // The entries of a director's answer ascend, in whatever order offers come.
    {"two_tasks_in_one_answer", "world seed=1305264456 devices=1 rooted=4 signer=1\n"
                                "create rollout=0 version=3 trust=1\n"
                                "create rollout=1 task=1 version=5 trust=1\n"
                                "start rollout=1\nstart rollout=0\nvisit\ncheck\n"
                                "create rollout=2 task=2 version=3 trust=1\nstart rollout=2\n"
                                "create rollout=3 version=4 trust=1\nstart rollout=3\ncheck\n"},
    // A floor takes nothing from a device that has it already.
    {"one_version_above_its_floor",
     WORLD A_OPEN "create rollout=1 priority=10 floor=2 trust=1\nstart rollout=1\ncheck\n"
                  "abort rollout=1\ncheck\nexpect version=0\n"},
    {"why_with_a_floor",
     WORLD A_DONE "create rollout=1 version=1 floor=2 trust=1\nstart rollout=1\ncheck\n"
                  "kill_version version=1\ncheck\nexpect version=-1\n"},
    {"why_behind_a_kill",
     WORLD A_DONE "check\n" B_OPEN "check\nundo rollout=0\nkill_version version=1\n"
                  "create rollout=2 ladder=2 trust=1\nstart rollout=2\npause rollout=2\ncheck\n"},
    // It was led back to what failed on it: it has what it had left for that.
    {"why_falls_back_to_where_it_was_led_from",
     "world seed=348874419 devices=1\ncreate rollout=49 version=4 ladder=3\n"
     "create rollout=54 version=6 ladder=7\nstart rollout=54\n"
     "fails device=18 version=4 on=1\npromote rollout=54\nround\nstart rollout=49\n"
     "promote rollout=49\ncheck\n"},
    // ... also where that had run well there before.
    {"why_failed_behind_a_way_back",
     "world seed=498370422 devices=24 rooted=1\nattrs device=8 ring=1\n"
     "create rollout=9 version=5 target=6 ladder=10 guard=2\nstart rollout=9\n"
     "simulated rollout=9 failed=1\npromote rollout=9\n"
     "create rollout=20 version=7 priority=10 ladder=2 floor=1 guard=1\n"
     "preview rollout=20\npromote rollout=20\ncheck\nresume rollout=19\n"
     "fails device=9 task=1 version=4 on=1\n"
     "create rollout=31 priority=10 target=6 ladder=8 guard=2\npromote rollout=20\n"
     "crash device=17 calls=20\nresume rollout=13\nstart rollout=31\nround\n"
     "visit device=14\npromote rollout=31\n"
     "create rollout=34 ladder=10 window=1 trust=1\ncrash device=8 calls=11\n"
     "visit device=15\ncreate rollout=40 version=7 ladder=1\nresume rollout=33\n"
     "check\nstart rollout=40\ncheck\n"},
    // It was led back from the third to the second, and that was killed: it has the third again.
    {"why_went_back_twice",
     "world seed=1689807592 devices=1 rooted=4 signer=1\n"
     "create rollout=8 version=5\npreview rollout=8\npromote rollout=8\n"
     "create rollout=15 version=4\npromote rollout=8\npromote rollout=8\n"
     "create rollout=20 version=4 ladder=2\npreview rollout=20\n"
     "create rollout=27 version=5 ladder=9\ncreate rollout=28 version=2\n"
     "start rollout=28\nstart rollout=27\npromote rollout=27\npromote rollout=28\n"
     "check\npromote rollout=20\nvisit device=21\npromote rollout=27\n"
     "pause rollout=27\nkill rollout=15\ncheck\n"},
    // It fell back to the first before it went on to the third: it has that again.
    {"why_fell_back_and_went_on",
     "world seed=926842078 devices=24 rooted=2 signer=1\n"
     "create rollout=14 version=4\nstart rollout=14\npromote rollout=14\n"
     "promote rollout=14\nvisit device=17\ncreate rollout=22 version=5 guard=2\n"
     "start rollout=22\npromote rollout=22\nvisit device=3\n"
     "create rollout=23 version=7 ladder=9\ncrash device=16 calls=24\n"
     "start rollout=23\ncheck\nkill rollout=22\npromote rollout=23\n"
     "promote rollout=23\npromote rollout=23\n"
     "create rollout=30 version=7 ladder=9\npreview rollout=30\nundo rollout=23\n"
     "create rollout=42 version=4\nstart rollout=42\ncheck\n"},
    // What it had by the rollout that is undone it leaves, though another one of the version, which
    // is
    // not for it, is there: on a lease, too.
    {"why_undone_beside_a_rollout_of_others",
     "world seed=415841194 devices=4 rooted=4 signer=1 lease=3600\n"
     "create rollout=6 target=4\npreview rollout=6\ncreate rollout=8\n"
     "start rollout=8\npromote rollout=8\npromote rollout=8\n"
     "create rollout=10 task=1 version=7 ladder=9\npromote rollout=8\n"
     "start rollout=10\nround\nundo rollout=8\npromote rollout=10\ncheck\n"},
    // ... also where it had another version before, which is nowhere now.
    {"why_undone_beside_a_rollout_of_others_and_had_another",
     "world seed=1840366015 devices=1 rooted=4 signer=1 lease=3600\n"
     "create rollout=8 version=5\ncreate rollout=12 version=4 target=5\n"
     "preview rollout=12\nstart rollout=8\ncreate rollout=17 version=4 ladder=3\n"
     "check\nstart rollout=17\nabort rollout=8\ncheck\nabort rollout=17\ncheck\n"},
    // ... or it lost it with its lease.
    {"why_came_back_after_its_lease",
     "world seed=1531165100 devices=4 rooted=4 signer=1 lease=3600\n"
     "create rollout=20 version=1 ladder=1\ncreate rollout=22 version=7\n"
     "start rollout=22\npromote rollout=22\npromote rollout=22\ncheck\n"
     "create rollout=25 version=6 priority=1 ladder=9\nstart rollout=20\n"
     "preview rollout=25\npromote rollout=25\nsleep seconds=2412\nround\n"
     "sleep seconds=7613\ncreate rollout=37 version=6 priority=10 ladder=4\n"
     "start rollout=37\n"},
    // What it had left for want of a lease it did not leave for what came within the second.
    {"why_fell_back_to_what_it_kept",
     "world seed=1531165100 devices=4 rooted=4 signer=1 lease=3600\n"
     "create rollout=20 version=1\n"
     "create rollout=25 version=6 ladder=9\n"
     "create rollout=26 version=3\n"
     "create rollout=29 ladder=5\n"
     "start rollout=20\n"
     "preview rollout=25\n"
     "start rollout=29\n"
     "attrs device=2 os=2 ring=1 beta=1\n"
     "promote rollout=20\n"
     "promote rollout=29\n"
     "preview rollout=26\n"
     "promote rollout=25\n"
     "sleep seconds=2412\n"
     "create rollout=34 version=1 ladder=10\n"
     "start rollout=34\n"
     "simulated rollout=34 evidence=1\n"
     "promote rollout=34\n"
     "round\n"
     "sleep seconds=7613\n"
     "create rollout=37 version=6 priority=10 ladder=4\n"
     "start rollout=37\n"},
    {"why_lost_it_with_its_lease",
     "world seed=2006620963 devices=16 rooted=3 signer=1 lease=3600\n"
     "create rollout=17 task=1 version=4\nstart rollout=17\npromote rollout=17\n"
     "promote rollout=17\npromote rollout=17\n"
     "create rollout=27 task=1 version=3 ladder=4\npreview rollout=27\n"
     "undo rollout=17\npause rollout=27\nsleep seconds=5169\ncheck\n"},
    // What it left, and refuses since for its floor, did not fail on it.
    {"why_left_and_then_refused",
     "world seed=1360858874 devices=24 rooted=3\n"
     "create rollout=3 version=1 target=6 ladder=7 trust=1\n"
     "create rollout=4 version=3 ladder=6 floor=1 trust=1\ncreate rollout=5 ladder=7\n"
     "start rollout=4\ncheck\nstart rollout=3\npromote rollout=3\ncheck\n"
     "start rollout=5\ncreate rollout=12 version=3 ladder=2 window=1 floor=2\n"
     "start rollout=12\npromote rollout=4\npromote rollout=12\npromote rollout=12\n"
     "promote rollout=5\npromote rollout=5\npromote rollout=4\npromote rollout=3\n"
     "check\nundo rollout=12\ncrash device=13 calls=19\n"
     "create rollout=28 version=3 priority=1 ladder=4 floor=2\ncheck\n"
     "abort rollout=24\nvisit device=17\nstart rollout=28\ncheck\n"},
    // Stopped, and let in by another rollout within the second.
    {"why_removed_and_offered_at_once",
     "world seed=155665771 devices=24 rooted=4 signer=1\ncreate rollout=5\n"
     "start rollout=5\npromote rollout=5\ncreate rollout=13 version=5 ladder=9\n"
     "preview rollout=13\nkill rollout=5\npromote rollout=13\nround\n"
     "create rollout=29 version=5 priority=10 ladder=2\nstart rollout=29\ncheck\n"},
    // Which of nine is one too many follows from their ids, so from the seed. Who is away keeps the
    // one that is undone from being over.
    {"undone_beside_as_many_as_may_be",
     "world seed=1292088778 devices=24 rooted=3 signer=1\n"
     "create rollout=9 version=5\ncreate rollout=10\nstart rollout=9\n"
     "create rollout=14 version=7\nvisit device=20\npromote rollout=9\n"
     "create rollout=22 version=5\ncreate rollout=31 version=5\naway device=20 on=1\n"
     "create rollout=45\nstart rollout=45\ncreate rollout=47\ncreate rollout=48 version=7\n"
     "create rollout=49 version=6\nundo rollout=9\ncheck\nexpect version=0\n"},
    {"refused_and_completed_twice",
     WORLD "fails device=3 version=1 on=1\n" A_DONE B_OPEN
           "promote rollout=1\ncreate rollout=2 version=1\nstart rollout=2\npromote rollout=2\n"
           "check\nexpect version=1\nexpect device=3 version=0\n"},
    // Its log could not be read where a segment had more failures than devices that completed.
    {"failed_as_another_segment",
     "world seed=7 devices=3\ncreate rollout=0 version=2 trust=1\nstart rollout=0\ncheck\n"
     "attrs device=0 os=2\ncheck\nfails device=0 version=2 on=1\nfails device=2 version=2 on=1\n"
     "sleep seconds=3700\nround\nround\nround\n"},
    // What it settled with before was found with other attributes.
    {"refused_and_another_device_now",
     "world seed=7 devices=6\nfails device=0 version=1 on=1\nattrs device=0\n"
     "create rollout=0 version=0 target=1 trust=1\nstart rollout=0\npromote rollout=0\n"
     "create rollout=1 version=2 target=7 trust=1\nstart rollout=1\npromote rollout=1\n" B_DONE
     "check\nexpect version=0\nattrs device=0 beta=1\ncheck\nexpect version=2\n"},
    // A snapshot that a device does not take kept it from asking for that of another scenario.
    {"two_snapshots_of_a_copy",
     WORLD "create rollout=1 task=2 version=4 trust=1\nstart rollout=1\npromote rollout=1\n"
           "create rollout=2 task=1 version=2 trust=1\nstart rollout=2\npromote rollout=2\n"
           "kill_version task=2 version=4\ncreate rollout=5 task=2 version=6\nabort rollout=5\n"
           "backup\ncreate rollout=3 task=2 version=6 trust=1\nstart rollout=3\ncheck\nrestore\n"
           "create rollout=4 task=1 version=5 trust=1\nstart rollout=4\n"
           "unkill task=2 version=4\ncheck\nexpect device=0 task=1 version=5" FOLLOWED},
    // Why said that the device refuses what had failed there by another rollout.
    {"ran_after_a_failure",
     "world seed=1985102408 devices=1\ncreate rollout=7\nstart rollout=7\n"
     "create rollout=9 version=1\npromote rollout=7\npromote rollout=7\n"
     "create rollout=12 version=4\npreview rollout=12\npromote rollout=12\n"
     "promote rollout=12\nround\ncreate rollout=19 version=1\nstart rollout=19\n"
     "undo rollout=12\ncheck\nkill rollout=9\ncrash device=5 calls=11\ncreate rollout=31\n"
     "start rollout=31\ncheck\nattrs device=5 os=1 ring=1\ncheck\n"},
    // A call that was cut off is made again.
    {"kill_cut_off", WORLD A_DONE B_OPEN "check\ncreate rollout=2 version=1 priority=10 trust=1\n"
                                         "start rollout=2\ngateway_dies commit=1\nkill rollout=1\n"
                                         "check\nexpect version=0\n"},
    {"kill_of_a_version_cut_off",
     WORLD A_DONE B_OPEN "check\ncreate rollout=2 version=1 priority=10 trust=1\nstart rollout=2\n"
                         "gateway_dies commit=1\nkill_version version=1\ncheck\n"
                         "expect version=0\n"},
    // A lease ran out, and came again with another rollout's version within the second.
    {"two_within_a_second",
     "world seed=140927536 devices=1\ncreate rollout=36 version=2 ladder=4\nstart rollout=36\n"
     "create rollout=46 priority=10 ladder=2 approval=3\nstart rollout=46\napprove rollout=46\n"
     "create rollout=50\nstart rollout=50\npromote rollout=46\ncheck\napprove rollout=46\nround\n"
     "promote rollout=46\npromote rollout=36\ncreate rollout=61 version=2 priority=1 ladder=6\n"
     "check\nsleep seconds=7025\nstart rollout=61\npromote rollout=36\ncheck\n"},
    {"undone", WORLD A_DONE B_OPEN "promote rollout=1\ncheck\nundo rollout=1\ncheck\n"
                                   "expect version=0\n"},
};

bool model_cases_play(const char *home, const char *only, bool verbose)
{
    uint32_t played = 0;
    uint32_t failed = 0;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model_ops ops = {0};
        struct model_result result = {.failed = true};
        char why[160] = "";
        if (only != NULL && strstr(cases[i].name, only) == NULL) {
            continue;
        }
        played++;
        if (model_ops_parse(cases[i].text, &ops, why, sizeof(why))) {
            model_play(&ops, home, verbose, &result);
            (void)snprintf(why, sizeof(why), "%s", result.text);
        }
        if (result.failed) {
            failed++;
            (void)printf("case %s: %s\n", cases[i].name, why);
        }
        model_ops_done(&ops);
    }
    (void)printf("%u fixed sequences, %u failed\n", played, failed);
    return played > 0 && failed == 0;
}
