// Makes a failing sequence small: parts are left out as long as what is left still fails by the
// same rule (delta debugging). A sequence done again does the same again, so what is left is the
// failure.
#ifndef MODEL_SHRINK_H
#define MODEL_SHRINK_H

#include "model_world.h"

struct model_result {
    bool failed;
    char rule[48];
    char text[MODEL_TEXT_MAX];
    uint64_t calls;
    uint64_t checks;
    uint64_t waits;
    uint64_t whys;
    uint32_t done; // operations, until it failed
};

// Does all of it in a world of its own below `home`; the first operation is a WORLD.
void model_play(const struct model_ops *ops, const char *home, bool verbose,
                struct model_result *out);
// `ops` fails with `found`. At most `tries` plays. What is left fails with *found too.
void model_shrink(struct model_ops *ops, const char *home, uint32_t tries,
                  struct model_result *found);

#endif
