// Memory with a guard on both sides: pages that nobody may read or write, so that what runs past
// either end of a script's heap is a fault of that very access and never a change of what lies
// beside it, the heap of another task first of all. The end is guarded to the byte, the beginning
// to the page. Used by vm_run.c for a VM's heap; any thread.
#ifndef BASE_GUARDED_MEMORY_H
#define BASE_GUARDED_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_GUARD_BYTES (64 * 1024) // before and behind a heap; address space, no memory

// Memory whose end lies at the guard behind it; `bytes` a multiple of 1,024, which its
// beginning is aligned to. NULL: there is none. Where the system has no such pages (no mmap), it is
// memory as any other.
uint8_t *base_guarded_new(size_t bytes);
// NULL does nothing. `bytes` as it was made.
void base_guarded_free(uint8_t *memory, size_t bytes);
// Whether the address lies in one of its guards.
bool base_guarded_hit(const uint8_t *memory, size_t bytes, uintptr_t address);

#endif
