// Seam between the two files of the memory port.
#ifndef MEM_INTERNAL_H
#define MEM_INTERNAL_H

#include "mem/mem_port.h"

// Counts a call that acts on the outside. False: the process is dead by now.
bool mem_port_alive(struct mem_port *port);
struct dev_storage_port mem_storage_port(struct mem_port *port);
void mem_storage_crash(struct mem_storage *storage);
void mem_storage_done(struct mem_storage *storage);

#endif
