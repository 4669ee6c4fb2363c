// The live view: a few lines redrawn in place on a terminal, or one line every few seconds where
// output is no terminal. Read only; coordinator's thread.
#ifndef SIM_LIVE_VIEW_H
#define SIM_LIVE_VIEW_H

#include "run/fleet.h"
#include "report/timeline.h"
#include "run/gateway_watch.h"

#include <stdio.h>

struct sim_live {
    FILE *file;
    bool terminal;
    uint32_t lines;                      // drawn last time
    const struct base_clock_port *clock; // the reader's
    uint64_t next_line_us;               // without a terminal
    struct sim_row last;                 // for rates
};

// `clock` is that of who reads, also where devices live in a time of their own. Kept.
void sim_live_init(struct sim_live *live, FILE *file, bool allowed,
                   const struct base_clock_port *clock);
void sim_live_draw(struct sim_live *live, const struct sim_options *options,
                   const struct sim_row *row, const struct sim_watch_view *watch,
                   struct sim_versions *versions);
// Leaves the cursor below what was drawn.
void sim_live_done(struct sim_live *live);

#endif
