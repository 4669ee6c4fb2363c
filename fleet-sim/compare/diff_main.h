// `walle-fleet-sim diff`: where two runs in virtual time part.
#ifndef SIM_DIFF_MAIN_H
#define SIM_DIFF_MAIN_H

#include <stdio.h>

// Exit status: 0 they are the same, 1 they part, 2 usage, 4 files, or a run that does not come
// again as it was.
int sim_diff_main(int argc, char **argv, FILE *log);

#endif
