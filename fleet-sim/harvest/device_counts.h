// Counts of the devices of a gateway, by all their attributes together, and the population file
// made of them (people/people.h).
//
// One table is joint over everything that the devices say of themselves. Of a column the 31 most
// frequent values have names; who has another one has none there. The same devices give the same
// file.
#ifndef SIM_DEVICE_COUNTS_H
#define SIM_DEVICE_COUNTS_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

struct sim_device_counts;

// NOMEM.
BASE_NODISCARD enum base_status sim_device_counts_new(struct sim_device_counts **out_counts);
void sim_device_counts_free(struct sim_device_counts *counts); // accepts NULL
// Takes a page of GET /api/v1/devices, at most `most` of its devices. *out_next is where the next
// one begins, empty at the end. INVALID: it is no such page; NOMEM.
#define SIM_PAGE_KEY_MAX 17
BASE_NODISCARD enum base_status sim_device_counts_take(struct sim_device_counts *counts,
                                                       const char *bytes, size_t size,
                                                       uint64_t most,
                                                       char out_next[SIM_PAGE_KEY_MAX]);
uint64_t sim_device_counts_devices(const struct sim_device_counts *counts);
// NOMEM, IO.
BASE_NODISCARD enum base_status sim_device_counts_write(const struct sim_device_counts *counts,
                                                        FILE *file);

#endif
