// Networks by class: each device's messages take what its class of network takes, as its population
// says. Wifi, 5G, 4G and 3G differ in delay, jitter, loss, bandwidth, and in how long they are
// away.
//
// A message takes its bytes at the class's rate with the pauses of TCP's slow start between them,
// the class's delay, a long-tailed jitter, two round trips more where it opens the connection, and
// for each time that it is lost the wait until it is sent again, twice as long each time. Loss
// comes in bursts: for some seconds the link of a device is bad, and then much more is lost. While
// a device is offline its messages wait until it is back. All of that is drawn from seed, device,
// the time and the message's number: there is no state, and any thread may ask.
#ifndef SIM_DELAY_NETWORK_H
#define SIM_DELAY_NETWORK_H

#include "model/population.h"
#include "ports/sim_delay.h"

#define SIM_DELAY_LEAST_US   5000u     // no message is faster
#define SIM_DELAY_BURST_US   2000000u  // of a link that is bad, or is not
#define SIM_DELAY_OFFLINE_US 30000000u // likewise of a device without any link
#define SIM_DELAY_AGAIN_US   200000u   // until what was lost is sent for the second time
#define SIM_DELAY_LOST_MAX   6u        // times that one message is lost
#define SIM_DELAY_AWAY_MAX   20u       // SIM_DELAY_OFFLINE_US after each other

// `population` is read as long as the port is used.
struct sim_delay_port sim_delay_network(const struct sim_population *population);

#endif
