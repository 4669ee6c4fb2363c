// A script played on a stage's blocks alone (svc/tally/trial_blocks.h) and the rollout machine of
// policy/: what the core (core_play.h) comes to, without its devices' bytes and its store, and so
// many times as fast. Both see the same counts at the same seconds, and agree in all of struct
// trial_seen. One thread.
#ifndef TRIAL_PLAY_H
#define TRIAL_PLAY_H

#include "trial_script.h"

struct trial_play;
struct trial_play *trial_play_new(void);       // NULL: no memory
void trial_play_free(struct trial_play *play); // accepts NULL
// False: no memory.
bool trial_play_run(struct trial_play *play, struct trial_script *script,
                    const struct pol_gate *gate, struct trial_seen *out);

#endif
