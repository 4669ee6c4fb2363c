// Blocks of devices that are played one device at a time: who is offered, who succeeds, who
// refuses.
#ifndef BLOCK_PLAY_H
#define BLOCK_PLAY_H

#include "policy/trial.h"

// False: the block is closed or full.
static inline bool block_offer(struct pol_block *block, enum pol_cohort cohort)
{
    uint64_t devices = (uint64_t)block->offered[0] + block->offered[1];
    if (block->closed || devices >= POL_BLOCK_DEVICES_MAX) {
        return false;
    }
    block->offered[cohort]++;
    return true;
}

static inline bool block_awaits(const struct pol_block *block, enum pol_cohort cohort)
{
    return block->failed[cohort] + block->succeeded[cohort] + block->refused[cohort] <
           block->offered[cohort];
}

// False, and nothing changes: no device of the cohort is left without an answer.
static inline bool block_succeed(struct pol_block *block, enum pol_cohort cohort)
{
    bool awaits = block_awaits(block, cohort);
    block->succeeded[cohort] += awaits;
    return awaits;
}

static inline bool block_refuse(struct pol_block *block, enum pol_cohort cohort) // likewise
{
    bool awaits = block_awaits(block, cohort);
    block->refused[cohort] += awaits;
    return awaits;
}

// Updated devices that have not answered and whose window is not over.
static inline uint64_t trial_under_way(const struct pol_trial *trial)
{
    const struct pol_outcomes *all = &trial->all[POL_COHORT_UPDATED];
    const struct pol_outcomes *over = &trial->over[POL_COHORT_UPDATED];
    return (all->offered - all->failed - all->succeeded) -
           (over->offered - over->failed - over->succeeded);
}

#endif
