// `walle-fleet-sim population`: a population file from the devices of a gateway.
#ifndef SIM_HARVEST_H
#define SIM_HARVEST_H

#include <stdio.h>

// The program's arguments from the command's name on. The exit status: its help says which.
int sim_harvest_main(int argc, char **argv, FILE *log);

#endif
