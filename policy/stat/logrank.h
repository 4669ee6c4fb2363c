// The log-rank test: does one arm of a trial fail sooner, told from who fails, at any time.
//
// Devices are offered in blocks. The devices of a block are drawn together and divided between two
// cohorts by chance: the updated ones get the new version, control is offered the version it has.
// Whenever a device of the block fails, the test bets on its cohort, given who of the block has not
// failed yet. While both cohorts are alike the bet is fair; where the update is worse it wins more
// often than it loses. What has been won is an e-process: e >= 1/alpha happens with probability at
// most alpha, however often one looks (ter Schure, Perez, Ly, Gruenwald, "The anytime-valid logrank
// test", NEJSDS 2024; strata for staggered entry).
//
// Null hypothesis. Both cohorts have the same law of failing: whether and when a failure is heard
// of. (With `tolerated_ppm`, see pol_block_close: every updated device has, besides, a chance of at
// most so much to fail, at any time, whatever the others do.) Nothing is supposed about successes.
//
// Why it holds. Take a block with n devices, m of them updated, and suppose everything about it is
// known but the cohorts: which device fails, when, and when that is heard of. Under the null every
// choice of m updated devices out of n is equally likely even so. Reveal cohorts one at a time, of
// the failed devices, in the order in which their failures were heard of. That order does not
// depend on cohorts, so the next device revealed is updated with probability (updated ones not
// revealed) / (devices not revealed), whatever was revealed before. The test bets at these odds:
// its gain has mean 1, and gains of different blocks multiply. Neither times nor delays occur in
// this, and the last step of the proof is Ville's inequality, which bounds the chance that the
// product is ever 1/alpha at all: who stops earlier, for whatever other reason, only stops it
// sooner.
//
// What must be true, and where the caller makes it so:
// - Chance divides a block, when its members are chosen already: the cohort follows from a hash of
//   the device's identity that nobody chooses by (a bucket), or from a draw. Two ratios may not mix
//   in one block.
// - A block is closed by time or by its number of devices, never by cohorts or what came of them.
//   Nobody is offered in a closed block; failures that come before it closes wait in it, because
//   who else belongs to it is not known yet.
// - Both cohorts run, report, retry and time out alike: control is a placebo. An update that is
//   heard of later than control (it has to be fetched) has, at any time, failed less than it would
//   have: that costs power.
// - A failure counts once for each device, up to the end of its block's window, the same time after
//   the block closed for every device of it; in the order in which the gateway heard of failures.
//   Any order that does not look at cohorts is as good: the gateway's is the one that a restart can
//   find again. No device's clock takes part.
// - Who succeeded, refused or is not heard of stays among those who may fail until the window is
//   over: were successes to leave, a version that reports them sooner would look worse than it is.
// - Who is left out (unproven, revoked) is left out by what it was before it was offered.
// - Both cohorts have the same past. Who was control of an earlier stage and is updated now has run
//   the placebo once more than control has: fair as long as nothing about it (having failed, above
//   all) decides whether it is offered again.
//
// The wealth is kept for a few ratios of hazards, in whole numbers: equal reports give equal wealth
// on every machine and in any order of blocks, so that a restart that plays its records again
// arrives at the same number. Logarithms are rounded against the test.
#ifndef POL_LOGRANK_H
#define POL_LOGRANK_H

#include <stdbool.h>
#include <stdint.h>

#define POL_BLOCK_DEVICES_MAX (UINT32_C(1) << 20)
// Failures that come before a block is closed; with so many it is closed.
#define POL_BLOCK_WAITING_MAX 64u

#define POL_LOGRANK_RATIOS 6u
// Wealth is counted in 2^-32 of a doubling.
#define POL_LOGRANK_BITS 32

enum pol_cohort { POL_COHORT_CONTROL, POL_COHORT_UPDATED, POL_COHORT_COUNT };

// Zeroed: nobody has failed yet.
struct pol_logrank {
    int64_t wealth[POL_LOGRANK_RATIOS];
};

// Zeroed: open and empty. Devices are counted by cohort, at most POL_BLOCK_DEVICES_MAX; who owns
// the block counts offers, successes and refusals.
struct pol_block {
    uint32_t offered[POL_COHORT_COUNT];
    uint32_t failed[POL_COHORT_COUNT];    // within the window
    uint32_t succeeded[POL_COHORT_COUNT]; // and have not failed since
    uint32_t refused[POL_COHORT_COUNT];   // as not meant for them: among nobody's trials
    bool alone; // all of them updated, and compared with nobody: they had nothing to be offered
                // again
    bool closed;
    uint8_t waiting;          // failures before it was closed
    uint64_t waiting_updated; // bit i: the i-th of them is an updated device's
};

// No further offers. Failures that waited are bet on. `tolerated_ppm`, at most 1,000,000 and the
// same for all blocks of a test, is a rise that is not to be stopped: its price, for each updated
// device, is what it could win. Closing twice does nothing.
void pol_block_close(struct pol_block *block, uint32_t tolerated_ppm, struct pol_logrank *logrank);
// A device of the block failed, after a success or without. A block that is open and has
// POL_BLOCK_WAITING_MAX failures is closed first. False, and nothing changes: there is no device of
// the cohort left that could have.
bool pol_block_fail(struct pol_block *block, enum pol_cohort cohort, bool succeeded_before,
                    uint32_t tolerated_ppm, struct pol_logrank *logrank);
// Counts fit together. For what comes from a store.
bool pol_block_valid(const struct pol_block *block);

// What other blocks have won, to what some have.
void pol_logrank_add(struct pol_logrank *to, const struct pol_logrank *won);
// Evidence against "the update fails no more than control": the natural logarithm of the e-value, a
// multiple of 2^-16 within +-POL_EVIDENCE_MAX. 0 while nobody failed.
double pol_logrank_evidence(const struct pol_logrank *logrank);

#endif
