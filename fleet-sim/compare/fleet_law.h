// `walle-fleet-sim law TUNNEL_CSV RECORDS`: what the devices of a run say about their records (the
// tunnel.csv beside the run's report) against the gateway's segment log, as `walle tunnel export`
// writes it. Every record is there once, is of a device of the run, and of each device and class
// there are at least as many as the device knows to be durable, at most those and what it still
// queued (their acknowledgement was under way when the run ended); and no more
// was declared lost to it than the device says.
#ifndef SIM_FLEET_LAW_H
#define SIM_FLEET_LAW_H

#include <stdio.h>

#define SIM_LAW_RECORDS_MAX 50000000u

// Exit status: enum sim_exit.
int sim_law_main(int argc, char **argv, FILE *log);

#endif
