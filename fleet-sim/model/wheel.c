// The timer wheel of a shard: slots with intrusive doubly linked lists, a bitmap of the filled ones
// and one of its words that have any, and lists of later turns. In all lists who was set last comes
// first, so entries of a tick are handed out in the same order whenever they came to it. Owned by
// the shard's thread. fleet_shard.c takes the devices that are due, fleet_device.c sets when a
// device wakes next, and ports/sim_links.c has a second wheel for connections to be made again. An
// entry is always set at least one tick ahead, so popping until nothing is due ends.
#include "model/wheel.h"

#include "base/check.h"

#include <string.h>

#define SLOT_MASK (SIM_WHEEL_SLOTS - 1)
#define WORDS     (SIM_WHEEL_SLOTS / 64)
#define TURN_MASK (SIM_WHEEL_TURNS - 1)

static struct sim_wheel_node *node_at(const struct sim_wheel *wheel, uint32_t index)
{
    return (struct sim_wheel_node *)(void *)(wheel->nodes + (size_t)index * wheel->stride);
}

enum base_status sim_wheel_init(struct sim_wheel *wheel, const struct base_alloc_port *alloc,
                                void *nodes, size_t stride)
{
    *wheel = (struct sim_wheel){.alloc = alloc, .nodes = nodes, .stride = stride};
    wheel->heads = alloc->alloc(alloc->ctx, sizeof(uint32_t) * SIM_WHEEL_SLOTS);
    wheel->filled = alloc->alloc(alloc->ctx, sizeof(uint64_t) * WORDS);
    if (wheel->heads == NULL || wheel->filled == NULL) {
        sim_wheel_done(wheel);
        return BASE_ERR_NOMEM;
    }
    memset(wheel->heads, 0xff, sizeof(uint32_t) * SIM_WHEEL_SLOTS);
    memset(wheel->filled, 0, sizeof(uint64_t) * WORDS);
    memset(wheel->later, 0xff, sizeof(wheel->later));
    memset(wheel->later_due, 0xff, sizeof(wheel->later_due));
    return BASE_OK;
}

void sim_wheel_done(struct sim_wheel *wheel)
{
    if (wheel->alloc != NULL) {
        wheel->alloc->release(wheel->alloc->ctx, wheel->heads);
        wheel->alloc->release(wheel->alloc->ctx, wheel->filled);
    }
    *wheel = (struct sim_wheel){0};
}

static void empty(struct sim_wheel *wheel, uint32_t slot)
{
    uint64_t *word = &wheel->filled[slot / 64];
    *word &= ~(1ull << (slot % 64));
    if (*word == 0) {
        wheel->some[slot / 4096] &= ~(1ull << (slot / 64 % 64));
    }
}

static uint32_t turn_of(uint32_t tick)
{
    return tick / SIM_WHEEL_SLOTS;
}

// The list in which an entry of this tick stands.
static uint32_t *list_of(struct sim_wheel *wheel, uint32_t due)
{
    return turn_of(due) == wheel->turn ? &wheel->heads[due & SLOT_MASK]
                                       : &wheel->later[turn_of(due) & TURN_MASK];
}

void sim_wheel_cancel(struct sim_wheel *wheel, uint32_t index)
{
    struct sim_wheel_node *node = node_at(wheel, index);
    if (node->due == SIM_WHEEL_NEVER) {
        return;
    }
    uint32_t *list = list_of(wheel, node->due);
    if (node->prev == SIM_WHEEL_NONE) {
        base_check(*list == index);
        *list = node->next;
    } else {
        node_at(wheel, node->prev)->next = node->next;
    }
    if (node->next != SIM_WHEEL_NONE) {
        node_at(wheel, node->next)->prev = node->prev;
    }
    if (*list == SIM_WHEEL_NONE && turn_of(node->due) == wheel->turn) {
        empty(wheel, node->due & SLOT_MASK);
    } else if (*list == SIM_WHEEL_NONE) {
        wheel->later_due[turn_of(node->due) & TURN_MASK] = SIM_WHEEL_NONE;
    }
    node->due = SIM_WHEEL_NEVER;
    wheel->count--;
}

// Puts one that is in no list where it belongs, in front.
static void put(struct sim_wheel *wheel, uint32_t index, uint32_t due)
{
    uint32_t *list = list_of(wheel, due);
    base_assert(turn_of(due) >= wheel->turn);
    *node_at(wheel, index) =
        (struct sim_wheel_node){.next = *list, .prev = SIM_WHEEL_NONE, .due = due};
    if (*list != SIM_WHEEL_NONE) {
        node_at(wheel, *list)->prev = index;
    }
    *list = index;
    wheel->count++;
    if (turn_of(due) == wheel->turn) {
        uint32_t slot = due & SLOT_MASK;
        wheel->filled[slot / 64] |= 1ull << (slot % 64);
        wheel->some[slot / 4096] |= 1ull << (slot / 64 % 64);
    } else {
        uint32_t *first = &wheel->later_due[turn_of(due) & TURN_MASK];
        *first = due < *first ? due : *first;
    }
}

void sim_wheel_set(struct sim_wheel *wheel, uint32_t index, uint32_t due)
{
    sim_wheel_cancel(wheel, index);
    if (due <= wheel->now) {
        due = wheel->now + 1;
    }
    if (due == SIM_WHEEL_NONE) {
        due--;
    }
    put(wheel, index, due);
}

// A tick at or before the first entry of a later turn, and in one; SIM_WHEEL_NONE: there is none.
static uint32_t later_first(const struct sim_wheel *wheel)
{
    uint32_t found = SIM_WHEEL_NONE;
    for (uint32_t i = 0; i < SIM_WHEEL_TURNS; i++) {
        found = wheel->later_due[i] < found ? wheel->later_due[i] : found;
    }
    // No turn that has entries is left out, nor one of a cancelled entry.
    base_assert(found == SIM_WHEEL_NONE || turn_of(found) > wheel->turn);
    return found;
}

// The slots are empty, and this turn is the next one that has entries, or that has begun.
static void turn_begin(struct sim_wheel *wheel, uint32_t turn)
{
    uint32_t *list = &wheel->later[turn & TURN_MASK];
    uint32_t index = *list;
    uint32_t last = SIM_WHEEL_NONE;
    base_assert(turn > wheel->turn);
    wheel->turn = turn;
    if (wheel->now < turn * SIM_WHEEL_SLOTS - 1) {
        wheel->now = turn * SIM_WHEEL_SLOTS - 1;
    }
    for (; index != SIM_WHEEL_NONE; index = node_at(wheel, index)->next) {
        last = index;
    }
    *list = SIM_WHEEL_NONE;
    wheel->later_due[turn & TURN_MASK] = SIM_WHEEL_NONE;
    while (last != SIM_WHEEL_NONE) { // who was set first is put first
        const struct sim_wheel_node node = *node_at(wheel, last);
        wheel->count--;
        put(wheel, last, node.due);
        last = node.prev;
    }
}

// The first word at `from` or later, round the wheel, that has a bit set; WORDS: none has.
static uint32_t next_word(const struct sim_wheel *wheel, uint32_t from)
{
    uint64_t some = wheel->some[from / 64] & (~0ull << (from % 64));
    for (uint32_t step = 0; step <= SIM_WHEEL_SOME; step++) {
        uint32_t index = (from / 64 + step) % SIM_WHEEL_SOME;
        some = step > 0 ? wheel->some[index] : some;
        if (some != 0) {
            return index * 64 + (uint32_t)__builtin_ctzll(some);
        }
    }
    return WORDS;
}

// The first filled slot at `tick` or later in the turn, as a tick; SIM_WHEEL_NONE without any.
static uint32_t next_filled(const struct sim_wheel *wheel, uint32_t tick)
{
    uint32_t slot = tick & SLOT_MASK;
    uint32_t index = slot / 64;
    uint64_t word = wheel->filled[index] & (~0ull << (slot % 64));
    if (word == 0) {
        index = next_word(wheel, (index + 1) % WORDS);
        if (index == WORDS) {
            return SIM_WHEEL_NONE;
        }
        word = wheel->filled[index];
    }
    base_assert(word != 0);
    uint32_t found = index * 64 + (uint32_t)__builtin_ctzll(word);
    return tick + ((found - slot) & SLOT_MASK);
}

uint32_t sim_wheel_pop(struct sim_wheel *wheel, uint32_t now)
{
    while (wheel->now < now) {
        uint32_t tick = next_filled(wheel, wheel->now + 1);
        if (tick == SIM_WHEEL_NONE) {
            uint32_t first = later_first(wheel);
            uint32_t turn = turn_of(first < now ? first : now);
            if (turn <= wheel->turn) {
                break;
            }
            turn_begin(wheel, turn);
            continue;
        }
        if (tick > now) {
            break;
        }
        uint32_t index = wheel->heads[tick & SLOT_MASK];
        base_assert(node_at(wheel, index)->due == tick);
        sim_wheel_cancel(wheel, index);
        wheel->now = tick - 1;
        return index;
    }
    if (wheel->now < now) {
        wheel->now = now;
    }
    return SIM_WHEEL_NONE;
}

uint32_t sim_wheel_next(const struct sim_wheel *wheel)
{
    if (wheel->count == 0) {
        return SIM_WHEEL_NONE;
    }
    uint32_t tick = next_filled(wheel, wheel->now + 1);
    return tick != SIM_WHEEL_NONE ? tick : later_first(wheel);
}
