// The threads of one block on the processor: each has a stack of its own, and one runs at a time,
// from barrier to barrier, in random order.
//
// Process-wide; callers hold the lock of cuda_on_cpu.cu.
#ifndef ENG_ON_CPU_THREADS_H
#define ENG_ON_CPU_THREADS_H

#include "backend/cuda/on_cpu/cuda_on_cpu.h"

// Runs all threads of the block that eng_on_cpu_block names. Threads that wait at different
// barriers for ever end the process with a text.
void eng_on_cpu_run_block(const eng_on_cpu_launch *launch);
// 0..count-1 in random order.
void eng_on_cpu_shuffled(unsigned *order, unsigned count);

#endif
