// A script played on the gateway's core as it ships: devices check in and report in the bytes that
// devices send, the clock is virtual, and the core draws the cohorts, forms the blocks, judges and
// holds segments by itself. One thread.
#ifndef CORE_PLAY_H
#define CORE_PLAY_H

#include "trial_script.h"

struct core_play;
// Folders are made below `folder`; one in memory is faster. NULL: no memory.
struct core_play *core_play_new(const char *folder, uint32_t devices_max);
void core_play_free(struct core_play *play);
void core_play_run(struct core_play *play, struct trial_script *script, const struct pol_gate *gate,
                   struct trial_seen *out);

#endif
