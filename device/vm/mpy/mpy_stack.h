// The operand stack and the exception blocks of a function as the verifier sees them while it
// follows the paths: what kind of thing lies in each slot, for every place where paths meet.
//
// A stack is a list of slots from the top down, so that stacks share what lies below; a slot is
// never changed. The state that is kept for a place holds the number of its top slot. All memory is
// one block whose size follows from the function's.
#ifndef DEV_VM_MPY_STACK_H
#define DEV_VM_MPY_STACK_H

#include "vm/mpy/mpy_code.h"

// What lies in a slot. The kinds up to TUPLE are objects, good for everything that takes one.
enum mpy_kind {
    MPY_OBJECT,
    MPY_NONE,
    MPY_NAME,      // a name from the table: what keyword arguments are called
    MPY_EXCEPTION, // what an except handler begins with
    MPY_CELL,
    MPY_LIST,
    MPY_DICT,
    MPY_SET,
    MPY_TUPLE,   // number: its items
    MPY_NULL,    // no object
    MPY_SELF,    // an object, or none: the second slot of a method
    MPY_FINALLY, // one slot or two: why a finally handler was entered
    MPY_ITER,    // number: which of the four slots of an iterator
    MPY_UNUSABLE // differs by path: may only be dropped
};

#define MPY_ITER_SLOTS        4
#define MPY_TAG(kind, number) ((uint16_t)((number) << 4 | (kind)))

struct mpy_slot {
    uint16_t below;
    uint16_t depth;  // slots, with this one
    uint16_t height; // the same with two for a MPY_FINALLY: what the interpreter may use
    uint16_t tag;
};

enum mpy_block_kind { MPY_WITH, MPY_EXCEPT, MPY_FINALLY_BLOCK };
enum mpy_phase {
    MPY_BODY,
    MPY_HANDLER,
    MPY_CLEANED
}; // CLEANED: between WITH_CLEANUP and END_FINALLY

struct mpy_block {
    uint16_t below;
    uint16_t setup;   // where it was set up
    uint16_t handler; // where its handler begins
    uint16_t depth;   // of the stack when it was set up: nothing below is touched meanwhile
    uint8_t level;    // blocks, with this one
    uint8_t kind;
    uint8_t phase;
};

struct mpy_place {
    uint16_t at; // of the instruction
    uint16_t top;
    uint16_t block;
    bool known;
    bool waiting;
};

struct mpy_stack {
    struct mpy_slot *slots;   // 0: the empty stack
    struct mpy_block *blocks; // 0: none
    struct mpy_place *places;
    uint16_t *waiting; // places yet to be followed
    uint16_t *ranks;   // places before each word of the targets
    const uint64_t *targets;
    size_t slot_count;
    size_t slot_room;
    size_t kept; // slots below are part of a place's state
    size_t block_count;
    size_t block_room;
    size_t wait_count;
    size_t room;  // height the function has
    size_t work;  // steps left
    uint16_t top; // of the path that is followed
    uint16_t block;
    const char *wrong; // first fault
    void *memory;      // to be freed
};

// False without memory. `scratch` as dev_mpy_flow_check has it.
BASE_NODISCARD bool mpy_stack_init(struct mpy_stack *stack, const struct dev_mpy_code *code,
                                   void *scratch, size_t scratch_size);
void mpy_stack_done(struct mpy_stack *stack);

// Notes what is wrong, the first time.
static inline void mpy_stack_fault(struct mpy_stack *stack, const char *what)
{
    stack->wrong = stack->wrong == NULL ? what : stack->wrong;
}

static inline const struct mpy_slot *mpy_top(const struct mpy_stack *stack)
{
    return &stack->slots[stack->top];
}

static inline bool mpy_is_object(uint16_t tag)
{
    return (tag & 0xF) <= MPY_TUPLE;
}

// An object, or none.
static inline bool mpy_is_value(uint16_t tag)
{
    return (tag & 0xF) <= MPY_SELF;
}

void mpy_push(struct mpy_stack *stack, uint16_t tag);
// Takes the top slot off, whatever it is: its tag. Not below the depth of the block the path is in.
uint16_t mpy_pop(struct mpy_stack *stack);
void mpy_pop_objects(struct mpy_stack *stack, size_t count);
// A block around what follows; its handler is entered with what `kind` says.
void mpy_block_open(struct mpy_stack *stack, uint8_t kind, size_t setup, size_t handler);
// The same block in another phase becomes the innermost.
void mpy_block_phase(struct mpy_stack *stack, uint8_t phase);

// The path comes to a place that jumps lead to. True: what is known of it has changed, so it is
// followed (again) from the state the path now has.
bool mpy_arrive(struct mpy_stack *stack, size_t at);
// The path forks to there; it is followed later.
void mpy_fork(struct mpy_stack *stack, size_t at);
// The next place to follow, with its state. False: there is none.
bool mpy_next(struct mpy_stack *stack, size_t *out_at);

#endif
