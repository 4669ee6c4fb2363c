// Memory of a run as the system counts it, and what of it a dormant device is.
#ifndef SIM_FLEET_MEMORY_H
#define SIM_FLEET_MEMORY_H

#include <stdint.h>

// A figure of a file of /proc, in bytes: the number of KiB behind `name` at the start of a line. 0:
// there is none.
uint64_t sim_proc_bytes(const char *path, const char *name);
// Of this process now, without files that it has mapped from memory: those are counted as files.
uint64_t sim_memory_now(void);
// Gives what was freed back to the system first, so that it is not counted.
uint64_t sim_memory_kept(void);

// What a run in virtual time takes, the folder of its gateway included where that lies in memory.
struct sim_memory_watch {
    uint64_t begin_bytes; // before the first device came
    uint64_t peak_bytes;
};

void sim_memory_look(struct sim_memory_watch *watch, uint64_t folder_bytes);

#endif
