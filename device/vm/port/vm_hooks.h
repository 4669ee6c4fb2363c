// What MicroPython's own files need to know of Walle's budgets: the counters in the interpreter
// loop and in the loops of C. Included by mpconfigport.h, so it may use nothing of MicroPython.
#ifndef DEV_VM_HOOKS_H
#define DEV_VM_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct _mp_code_state_t;

#define DEV_VM_LOOP_PER_UNIT 16   // steps of a loop in C for one unit
#define DEV_VM_TEXT_PER_UNIT 64   // characters, digits or items looked at one by one for one unit
#define DEV_VM_COPY_PER_UNIT 1024 // bytes copied, compared or filled as a block for one unit

// Budget units until the next look at the clock, the instruction limit and the interrupt flag. One
// unit is one jump or one call. Belongs to the run under way on this thread.
extern _Thread_local uint32_t dev_vm_units_left;
// The same for work of the allocator and the collector. It brings the next look nearer but is not
// counted as instructions: how much it is differs between machines.
extern _Thread_local uint32_t dev_vm_quiet_left;

// Called when the counter reaches zero. Returns with the counter set anew, or ends the run by
// jumping out of the interpreter. `code_state` (NULL: not known) says where the script is.
void dev_vm_budget_spent(const struct _mp_code_state_t *code_state);
void dev_vm_work_long(uint64_t units);
void dev_vm_quiet_spent(void);
// Every 4,096 steps of a loop of the allocator or the collector.
void dev_vm_gc_step(void);
extern const struct _mp_obj_type_t dev_np_array_type; // vm_np.h

// Called for an instruction that is none, with the whole state of the function in `code_state`.
// True: what belongs there was put back, go on with it.
bool dev_vm_image_halt(const struct _mp_code_state_t *code_state);

// The heap of the run on this thread, and something that lies where the program's constants do.
extern _Thread_local uintptr_t dev_vm_heap_from;
extern _Thread_local uintptr_t dev_vm_heap_to;
extern const char dev_vm_origin;

// What scripts are shown in place of an address (id(), hash(), "<object at ...>", and through these
// the order of sets): where it lies in the heap, or how far from the program's constants. So they
// never see where the process lies in memory, and see the same in every process.
static inline uintptr_t dev_vm_place(uintptr_t address)
{
    if (address - dev_vm_heap_from < dev_vm_heap_to - dev_vm_heap_from) {
        return address - dev_vm_heap_from;
    }
    return (address - (uintptr_t)&dev_vm_origin) ^ (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 3);
}

// Counts work whose length is known before it is done. Never ends the run itself: the next unit
// does.
static inline void dev_vm_work(uint64_t units)
{
    if (__builtin_expect(units >= dev_vm_units_left, 0)) {
        dev_vm_work_long(units);
    } else {
        dev_vm_units_left -= (uint32_t)units;
    }
}

// Counts one unit; may end the run.
static inline void dev_vm_step(void)
{
    if (__builtin_expect(--dev_vm_units_left == 0, 0)) {
        dev_vm_budget_spent(NULL);
    }
}

// A step of a loop in C; true, so that it can stand in a condition.
static inline bool dev_vm_tick(uint32_t *ticks)
{
    if (__builtin_expect(++*ticks % DEV_VM_LOOP_PER_UNIT == 0, 0)) {
        dev_vm_step();
    }
    return true;
}

static inline void dev_vm_quiet(size_t units)
{
    if (__builtin_expect(units >= dev_vm_quiet_left, 0)) {
        dev_vm_quiet_spent();
    } else {
        dev_vm_quiet_left -= (uint32_t)units;
    }
}

// What is shorter costs nothing, and is most of what is copied.
static inline void dev_vm_copied(size_t size)
{
    if (__builtin_expect(size >= DEV_VM_COPY_PER_UNIT, 0)) {
        dev_vm_work(size / DEV_VM_COPY_PER_UNIT);
    }
}

static inline void dev_vm_copied_quiet(size_t size)
{
    if (__builtin_expect(size >= DEV_VM_COPY_PER_UNIT, 0)) {
        dev_vm_quiet(size / DEV_VM_COPY_PER_UNIT);
    }
}

// The interpreter copies nothing from nowhere, which C does not allow: an empty array has no items.
static inline void *dev_vm_memcpy(void *to, const void *from, size_t size)
{
    dev_vm_copied(size);
    return size == 0 ? to : __builtin_memcpy(to, from, size);
}

static inline void *dev_vm_memmove(void *to, const void *from, size_t size)
{
    dev_vm_copied(size);
    return size == 0 ? to : __builtin_memmove(to, from, size);
}

static inline void *dev_vm_memset(void *to, int byte, size_t size)
{
    dev_vm_copied(size);
    return __builtin_memset(to, byte, size);
}

static inline int dev_vm_memcmp(const void *a, const void *b, size_t size)
{
    dev_vm_copied(size);
    return __builtin_memcmp(a, b, size);
}

// Fuzzing builds: the program ends when the interpreter is about to work outside its operand
// stack or its exception stack, which no verified bytecode can make it do.
#ifdef DEV_VM_BOUNDS
void dev_vm_bounds_check(const struct _mp_code_state_t *code_state, const void *top,
                         const void *block_top);
#define DEV_VM_BOUNDS_CHECK() dev_vm_bounds_check(code_state, sp, exc_sp)
#else
#define DEV_VM_BOUNDS_CHECK()
#endif

#endif
