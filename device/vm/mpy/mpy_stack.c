// The state of a path and of the places where paths meet (mpy_stack.h): operand stack, open blocks,
// and the list of places still to be followed. Called by mpy_flow.c for each function of a file;
// pure. All of it lies in one block, in the caller's scratch where that is large enough, so that
// small functions allocate nothing. Its work is bounded by the function's length times
// DEV_MPY_WORK_FACTOR: beyond that a function is too complex to verify, and refused.
#include "vm/mpy/mpy_stack.h"

#include "base/carve.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX      65535
#define BLOCKS_A_SETUP 8 // a block is made anew in each phase, and when its place is followed again
#define SLOTS_A_PUSH   2

static const char too_complex[] = "bytecode: too complex to verify";
static const char meet_differ[] = "bytecode: paths meet with different stacks";

static void lay_out(struct mpy_stack *stack, const struct dev_mpy_code *code,
                    struct base_carver *carver)
{
    stack->slots = base_carve(carver, stack->slot_room, sizeof(struct mpy_slot));
    stack->blocks = base_carve(carver, stack->block_room, sizeof(struct mpy_block));
    stack->places = base_carve(carver, code->targets, sizeof(struct mpy_place));
    stack->waiting = base_carve(carver, code->targets, sizeof(uint16_t));
    stack->ranks = base_carve(carver, DEV_MPY_BIT_WORDS(code->length), sizeof(uint16_t));
}

bool mpy_stack_init(struct mpy_stack *stack, const struct dev_mpy_code *code, void *scratch,
                    size_t scratch_size)
{
    size_t words = DEV_MPY_BIT_WORDS(code->length);
    size_t slots = SLOTS_A_PUSH * code->pushes + 16;
    slots = slots < SLOTS_MAX ? slots : SLOTS_MAX;
    size_t blocks = BLOCKS_A_SETUP * code->setups + 1;
    blocks = blocks < SLOTS_MAX ? blocks : SLOTS_MAX;
    *stack = (struct mpy_stack){.slot_room = slots, .block_room = blocks};
    struct base_carver carver = {.capacity = SIZE_MAX, .alignment = 8};
    lay_out(stack, code, &carver);
    size_t size = carver.used;
    if (carver.full) {
        return false;
    }
    carver = (struct base_carver){.block = scratch, .capacity = scratch_size, .alignment = 8};
    if (size > scratch_size) {
        stack->memory = malloc(size);
        carver.block = stack->memory;
        carver.capacity = size;
    }
    if (carver.block == NULL) {
        return false;
    }
    lay_out(stack, code, &carver);
    stack->targets = code->target_bits;
    stack->room = code->head.state - code->locals;
    stack->work = (size_t)DEV_MPY_WORK_FACTOR * (code->length + 16);
    stack->slots[0] = (struct mpy_slot){.tag = MPY_TAG(MPY_UNUSABLE, 0)};
    stack->blocks[0] = (struct mpy_block){.below = 0};
    stack->slot_count = 1;
    stack->kept = 1;
    stack->block_count = 1;
    memset(stack->places, 0, code->targets * sizeof(struct mpy_place));
    size_t rank = 0;
    for (size_t i = 0; i < words; i++) {
        stack->ranks[i] = (uint16_t)rank;
        rank += (size_t)__builtin_popcountll(stack->targets[i]);
    }
    return true;
}

void mpy_stack_done(struct mpy_stack *stack)
{
    free(stack->memory);
}

void mpy_push(struct mpy_stack *stack, uint16_t tag)
{
    const struct mpy_slot *top = mpy_top(stack);
    size_t height = top->height + ((tag & 0xF) == MPY_FINALLY ? 2U : 1U);
    if (height > stack->room) {
        mpy_stack_fault(stack, "bytecode: operand stack overflows");
        return;
    }
    if (stack->slot_count == stack->slot_room) {
        mpy_stack_fault(stack, too_complex);
        return;
    }
    stack->slots[stack->slot_count] =
        (struct mpy_slot){stack->top, (uint16_t)(top->depth + 1), (uint16_t)height, tag};
    stack->top = (uint16_t)stack->slot_count++;
}

uint16_t mpy_pop(struct mpy_stack *stack)
{
    const struct mpy_slot *top = mpy_top(stack);
    if (top->depth <= stack->blocks[stack->block].depth) {
        mpy_stack_fault(stack, stack->block == 0 || top->depth == 0
                                   ? "bytecode: operand stack underflows"
                                   : "bytecode: takes what an exception block stands on");
        return MPY_TAG(MPY_UNUSABLE, 0);
    }
    // What no place holds is made room of at once, so a straight path needs few slots.
    if (stack->top + 1U == stack->slot_count && stack->slot_count > stack->kept) {
        stack->slot_count--;
    }
    stack->top = top->below;
    return top->tag;
}

void mpy_pop_objects(struct mpy_stack *stack, size_t count)
{
    for (; count > 0 && stack->wrong == NULL; count--) {
        if (!mpy_is_object(mpy_pop(stack))) {
            mpy_stack_fault(stack, "bytecode: operand is not an object");
        }
    }
}

static void block_add(struct mpy_stack *stack, const struct mpy_block *block)
{
    if (stack->block_count == stack->block_room) {
        mpy_stack_fault(stack, too_complex);
        return;
    }
    stack->blocks[stack->block_count] = *block;
    stack->block = (uint16_t)stack->block_count++;
}

void mpy_block_open(struct mpy_stack *stack, uint8_t kind, size_t setup, size_t handler)
{
    struct mpy_block block = {.below = stack->block,
                              .setup = (uint16_t)setup,
                              .handler = (uint16_t)handler,
                              .depth = mpy_top(stack)->depth,
                              .level = (uint8_t)(stack->blocks[stack->block].level + 1),
                              .kind = kind,
                              .phase = MPY_HANDLER};
    block_add(stack, &block);
    mpy_push(stack, MPY_TAG(kind == MPY_EXCEPT ? MPY_EXCEPTION : MPY_FINALLY, 0));
    if (stack->wrong != NULL) {
        return;
    }
    mpy_fork(stack, handler);
    (void)mpy_pop(stack);
    stack->block = block.below;
    block.phase = MPY_BODY;
    block_add(stack, &block);
}

void mpy_block_phase(struct mpy_stack *stack, uint8_t phase)
{
    struct mpy_block block = stack->blocks[stack->block];
    block.phase = phase;
    block_add(stack, &block);
}

// What a slot holds where two paths meet.
static uint16_t tags_join(struct mpy_stack *stack, uint16_t a, uint16_t b)
{
    if (a == b) {
        return a;
    }
    if ((a & 0xF) == MPY_FINALLY || (b & 0xF) == MPY_FINALLY) {
        mpy_stack_fault(stack, meet_differ);
    }
    if (mpy_is_object(a) && mpy_is_object(b)) {
        return MPY_TAG(MPY_OBJECT, 0);
    }
    return mpy_is_value(a) && mpy_is_value(b) ? MPY_TAG(MPY_SELF, 0) : MPY_TAG(MPY_UNUSABLE, 0);
}

static void work_take(struct mpy_stack *stack, size_t steps)
{
    if (stack->work < steps) {
        mpy_stack_fault(stack, too_complex);
        stack->work = steps;
    }
    stack->work -= steps;
}

// The stack the place has from now on: slot for slot what both hold. The place's own when nothing
// changes.
static uint16_t stacks_join(struct mpy_stack *stack, uint16_t known)
{
    if (mpy_top(stack)->depth != stack->slots[known].depth) {
        mpy_stack_fault(stack, meet_differ);
        return known;
    }
    size_t differ = 0;
    size_t changed = 0; // slots from the top down to the lowest that changes
    uint16_t a = known;
    uint16_t b = stack->top;
    for (; a != b; a = stack->slots[a].below, b = stack->slots[b].below) {
        differ++;
        uint16_t tag = stack->slots[a].tag;
        changed = tags_join(stack, tag, stack->slots[b].tag) != tag ? differ : changed;
    }
    work_take(stack, 1 + differ);
    if (changed == 0 || stack->wrong != NULL) {
        return known;
    }
    if (stack->slot_room - stack->slot_count < changed) {
        mpy_stack_fault(stack, too_complex);
        return known;
    }
    size_t first = stack->slot_count;
    a = known;
    b = stack->top;
    for (size_t i = 0; i < changed; i++) {
        struct mpy_slot slot = stack->slots[a];
        slot.tag = tags_join(stack, slot.tag, stack->slots[b].tag);
        a = slot.below;
        b = stack->slots[b].below;
        slot.below = i + 1 < changed ? (uint16_t)(first + i + 1) : a;
        stack->slots[stack->slot_count++] = slot;
    }
    return (uint16_t)first;
}

static bool blocks_equal(struct mpy_stack *stack, uint16_t a, uint16_t b)
{
    while (a != b) {
        const struct mpy_block *one = &stack->blocks[a];
        const struct mpy_block *other = &stack->blocks[b];
        if (one->level != other->level || one->setup != other->setup ||
            one->depth != other->depth || one->phase != other->phase) {
            return false;
        }
        work_take(stack, 1);
        a = one->below;
        b = other->below;
    }
    return true;
}

// A finally block's handler is also where its body ends: with None for its reason.
static void handler_enter(struct mpy_stack *stack, size_t at)
{
    const struct mpy_block *block = &stack->blocks[stack->block];
    if (block->phase != MPY_BODY || block->handler != at || block->kind == MPY_EXCEPT) {
        return;
    }
    const struct mpy_slot *top = mpy_top(stack);
    if (top->tag == MPY_TAG(MPY_NONE, 0) && top->depth == block->depth + 1U) {
        (void)mpy_pop(stack);
        mpy_block_phase(stack, MPY_HANDLER);
        mpy_push(stack, MPY_TAG(MPY_FINALLY, 0));
    }
}

// The interpreter tells by the address whether a handler was entered: an address before it, no.
static void blocks_check(struct mpy_stack *stack, size_t at)
{
    handler_enter(stack, at);
    if (mpy_top(stack)->depth < stack->blocks[stack->block].depth) {
        mpy_stack_fault(stack, "bytecode: takes what an exception block stands on");
    }
    for (uint16_t i = stack->block; i != 0; i = stack->blocks[i].below) {
        const struct mpy_block *block = &stack->blocks[i];
        if ((block->phase == MPY_BODY) != (block->handler > at)) {
            mpy_stack_fault(stack, block->phase == MPY_BODY
                                       ? "bytecode: leaves an exception block without its end"
                                       : "bytecode: jumps back out of a handler");
            return;
        }
        work_take(stack, 1);
    }
}

static struct mpy_place *place_of(struct mpy_stack *stack, size_t at)
{
    uint64_t before = stack->targets[at / 64] & (((uint64_t)1 << (at % 64)) - 1);
    return &stack->places[stack->ranks[at / 64] + (size_t)__builtin_popcountll(before)];
}

bool mpy_arrive(struct mpy_stack *stack, size_t at)
{
    if (stack->block != 0) {
        blocks_check(stack, at);
    }
    struct mpy_place *place = place_of(stack, at);
    if (stack->wrong != NULL) {
        return false;
    }
    if (!place->known) {
        *place = (struct mpy_place){.at = (uint16_t)at,
                                    .top = stack->top,
                                    .block = stack->block,
                                    .known = true,
                                    .waiting = place->waiting};
        stack->kept = stack->slot_count;
        return true;
    }
    if (place->block != stack->block && !blocks_equal(stack, place->block, stack->block)) {
        mpy_stack_fault(stack, "bytecode: paths meet in different exception blocks");
        return false;
    }
    if (place->top == stack->top) {
        return false;
    }
    uint16_t joined = stacks_join(stack, place->top);
    if (stack->wrong != NULL || joined == place->top) {
        return false;
    }
    place->top = joined;
    stack->top = joined;
    stack->block = place->block;
    stack->kept = stack->slot_count;
    return true;
}

void mpy_fork(struct mpy_stack *stack, size_t at)
{
    uint16_t top = stack->top;
    uint16_t block = stack->block;
    struct mpy_place *place = place_of(stack, at);
    stack->kept = stack->slot_count; // the path needs its own slots afterwards
    if (mpy_arrive(stack, at) && !place->waiting) {
        place->waiting = true;
        stack->waiting[stack->wait_count++] = (uint16_t)(place - stack->places);
    }
    stack->top = top;
    stack->block = block;
}

bool mpy_next(struct mpy_stack *stack, size_t *out_at)
{
    if (stack->wait_count == 0) {
        return false;
    }
    struct mpy_place *place = &stack->places[stack->waiting[--stack->wait_count]];
    place->waiting = false;
    stack->top = place->top;
    stack->block = place->block;
    *out_at = place->at;
    return true;
}
