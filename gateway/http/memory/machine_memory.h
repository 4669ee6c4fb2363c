// What the machine says of memory: how much there is for this process, what TCP may hold at ease,
// what the process holds. Any thread.
#ifndef GW_HTTP_MACHINE_MEMORY_H
#define GW_HTTP_MACHINE_MEMORY_H

#include <stdint.h>

struct gw_machine_memory {
    uint64_t total_bytes;    // of the machine, or of the group the process is in
    uint64_t tcp_easy_bytes; // below this TCP does not save (net.ipv4.tcp_mem); 0: not known
};

void gw_machine_memory_read(struct gw_machine_memory *out);
// What the process holds and no file backs; the store's map does not count.
uint64_t gw_machine_memory_own(void);

#endif
