// Draws the next operation of a world: from what the record has, so that most calls are allowed and
// some are not. Deterministic for a seed and the record it sees.
#ifndef MODEL_DRAW_H
#define MODEL_DRAW_H

#include "base/prng.h"
#include "model_op.h"
#include "model_world.h"

struct model_draw {
    struct base_prng prng;
    uint32_t label;    // of the next rollout
    bool restores;     // backups are taken and restored
    bool gates;        // rollouts whose gates decide are among them
    bool guards;       // ... that are guarded behind the last stage
    bool roots;        // are exchanged
    bool clocks;       // of devices are set wrong
    bool device_lives; // device state goes back to a copy
    uint32_t since_check;
};

// The world's first operation, from a seed.
void model_draw_world(struct model_draw *draw, uint64_t seed, uint32_t devices,
                      struct model_op *out);
// False: the world has no rollouts left to make.
bool model_draw_next(struct model_draw *draw, const struct model_world *world,
                     struct model_op *out);

#endif
