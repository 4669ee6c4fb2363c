// Threads of a block as fibers. A fiber takes threads from a shuffled list and runs each to its
// end; one that comes to a barrier keeps its fiber, and another fiber goes on with the list. When
// nobody can go on, those whose barrier is complete are let go, in a new order. So a kernel without
// barriers costs a call a thread, and one with them a switch of stacks, which is a jump.
#include "backend/cuda/on_cpu/on_cpu_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

dim3 eng_on_cpu_thread, eng_on_cpu_block, eng_on_cpu_threads, eng_on_cpu_blocks;

namespace
{
const size_t stack_bytes = 64 << 10;
const unsigned threads_max = ENG_ON_CPU_THREADS_MAX;

enum waiting { RUNS, AT_BLOCK, AT_WARP, READY, ENDED };

struct fiber {
    void *place[5]; // of __builtin_setjmp
    ucontext_t start;
    bool is_made;
    unsigned thread; // that it runs
};

fiber fibers[threads_max];
fiber *running;
void *scheduler[5];
unsigned idle[threads_max], idle_count, made_count;

const eng_on_cpu_launch *launch_now;
unsigned order[threads_max], started, thread_count; // threads in the order of their start
waiting states[threads_max];
fiber *fiber_of[threads_max];
unsigned queue[threads_max], queued, taken; // threads that may go on
uint32_t lanes[threads_max];                // what a shuffle exchanges
uint64_t random_state;

__attribute__((noinline, no_sanitize("address"), noreturn)) void jump(void **place)
{
    __builtin_longjmp(place, 1);
}

void save_and_jump(void **from, void **to)
{
    if (__builtin_setjmp(from) == 0) {
        jump(to);
    }
}

// Goes on at `to`; returns when somebody jumps to `from`. Called by an address that may change: a
// compiler that looked into it would take some registers for untouched.
void (*volatile const change)(void **from, void **to) = save_and_jump;

void name_thread(unsigned thread)
{
    const dim3 &size = eng_on_cpu_threads;
    eng_on_cpu_thread = dim3(thread % size.x, thread / size.x % size.y, thread / size.x / size.y);
}

void fiber_main(void)
{
    for (;;) {
        while (started < thread_count) {
            fiber *self = running;
            self->thread = order[started++];
            fiber_of[self->thread] = self;
            states[self->thread] = RUNS;
            name_thread(self->thread);
            launch_now->call(launch_now->kernel, &launch_now->buffers, launch_now->params);
            states[running->thread] = ENDED;
        }
        idle[idle_count++] = static_cast<unsigned>(running - fibers);
        change(running->place, scheduler);
    }
}

[[noreturn]] void fail(const char *text)
{
    fprintf(stderr, "cuda on the processor: %s\n", text);
    __builtin_trap();
}

// A new fiber's first steps: the only switch that is no jump.
void save_and_begin(fiber *self)
{
    if (__builtin_setjmp(scheduler) == 0) {
        setcontext(&self->start);
    }
}

void (*volatile const begin)(fiber *self) = save_and_begin;

void make(fiber *self)
{
    void *stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || getcontext(&self->start) != 0) {
        fail("no memory for the stack of a thread");
    }
    self->start.uc_stack.ss_sp = stack;
    self->start.uc_stack.ss_size = stack_bytes;
    self->start.uc_link = nullptr;
    makecontext(&self->start, fiber_main, 0);
    self->is_made = true;
}

// Lets a fiber without a thread go on with the list.
void start_threads(void)
{
    if (idle_count > 0) {
        running = &fibers[idle[--idle_count]];
        change(scheduler, running->place);
        return;
    }
    running = &fibers[made_count++];
    make(running);
    begin(running);
}

void resume(unsigned thread)
{
    running = fiber_of[thread];
    states[thread] = RUNS;
    name_thread(thread);
    change(scheduler, running->place);
}

void let_go(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        if (states[i] != ENDED) {
            states[i] = READY;
            queue[queued++] = i;
        }
    }
}

// Whether all threads of a range that have not ended wait for `what`, and some do.
bool is_complete(unsigned first, unsigned count, waiting what)
{
    bool is_any = false;
    for (unsigned i = first; i < first + count; i++) {
        if (states[i] != ENDED && states[i] != what) {
            return false;
        }
        is_any |= states[i] == what;
    }
    return is_any;
}

void shuffle(unsigned *list, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        const unsigned j = static_cast<unsigned>(random_state >> 33) % i;
        const unsigned other = list[i - 1];
        list[i - 1] = list[j];
        list[j] = other;
    }
}

// Fills the queue with those whose barrier is complete. False: nobody is left.
bool release(void)
{
    queued = taken = 0;
    bool is_over = true;
    for (unsigned first = 0; first < thread_count; first += ENG_ON_CPU_WARP) {
        const unsigned left = thread_count - first;
        const unsigned count = left < ENG_ON_CPU_WARP ? left : ENG_ON_CPU_WARP;
        if (is_complete(first, count, AT_WARP)) {
            let_go(first, count);
        }
    }
    if (queued == 0 && is_complete(0, thread_count, AT_BLOCK)) {
        let_go(0, thread_count);
    }
    for (unsigned i = 0; i < thread_count; i++) {
        is_over &= states[i] == ENDED;
    }
    if (queued == 0 && !is_over) {
        fail("threads of a block wait at different barriers");
    }
    shuffle(queue, queued);
    return !is_over;
}

void wait_at(waiting what)
{
    states[running->thread] = what;
    change(running->place, scheduler);
}
} // namespace

void eng_on_cpu_shuffled(unsigned *list, unsigned count)
{
    static bool is_seeded;
    if (!is_seeded) {
        const char *text = getenv("WALLE_CUDA_SEED");
        for (; text != nullptr && *text >= '0' && *text <= '9'; text++) {
            random_state = random_state * 10 + static_cast<uint64_t>(*text - '0');
        }
        is_seeded = true;
    }
    for (unsigned i = 0; i < count; i++) {
        list[i] = i;
    }
    shuffle(list, count);
}

void eng_on_cpu_run_block(const eng_on_cpu_launch *launch)
{
    launch_now = launch;
    thread_count = launch->block.x * launch->block.y * launch->block.z;
    started = queued = taken = 0;
    eng_on_cpu_shuffled(order, thread_count);
    do {
        while (started < thread_count) {
            start_threads();
        }
        while (taken < queued) {
            resume(queue[taken++]);
        }
    } while (release());
}

void __syncthreads(void)
{
    wait_at(AT_BLOCK);
}

uint32_t eng_on_cpu_shuffle(uint32_t bits, unsigned from_lane)
{
    const unsigned thread = running->thread;
    lanes[thread] = bits;
    wait_at(AT_WARP);
    const uint32_t taken_bits = lanes[thread / ENG_ON_CPU_WARP * ENG_ON_CPU_WARP + from_lane];
    wait_at(AT_WARP);
    return taken_bits;
}
