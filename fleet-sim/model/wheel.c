// The timer wheel of a shard: hashed slots with intrusive doubly linked lists, a bitmap of the
// filled ones and one of its words that have any. Owned by the shard's thread. fleet_shard.c takes
// the devices that are due, fleet_device.c sets when a device wakes next, and ports/sim_links.c has
// a second wheel for connections to be made again. An entry is always set at least one tick ahead,
// so popping until nothing is due ends.
#include "model/wheel.h"

#include "base/check.h"

#include <string.h>

#define SLOT_MASK (SIM_WHEEL_SLOTS - 1)
#define WORDS     (SIM_WHEEL_SLOTS / 64)

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

void sim_wheel_cancel(struct sim_wheel *wheel, uint32_t index)
{
    struct sim_wheel_node *node = node_at(wheel, index);
    if (node->due == SIM_WHEEL_NEVER) {
        return;
    }
    uint32_t slot = node->due & SLOT_MASK;
    if (node->prev == SIM_WHEEL_NONE) {
        base_check(wheel->heads[slot] == index);
        wheel->heads[slot] = node->next;
        if (node->next == SIM_WHEEL_NONE) {
            empty(wheel, slot);
        }
    } else {
        node_at(wheel, node->prev)->next = node->next;
    }
    if (node->next != SIM_WHEEL_NONE) {
        node_at(wheel, node->next)->prev = node->prev;
    }
    node->due = SIM_WHEEL_NEVER;
    wheel->count--;
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
    struct sim_wheel_node *node = node_at(wheel, index);
    uint32_t slot = due & SLOT_MASK;
    uint32_t head = wheel->heads[slot];
    *node = (struct sim_wheel_node){.next = head, .prev = SIM_WHEEL_NONE, .due = due};
    if (head != SIM_WHEEL_NONE) {
        node_at(wheel, head)->prev = index;
    }
    wheel->heads[slot] = index;
    wheel->filled[slot / 64] |= 1ull << (slot % 64);
    wheel->some[slot / 4096] |= 1ull << (slot / 64 % 64);
    wheel->count++;
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

// The first filled slot at `tick` or later within one turn, as a tick; SIM_WHEEL_NONE without any.
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
    while (wheel->count > 0 && wheel->now < now) {
        uint32_t tick = next_filled(wheel, wheel->now + 1);
        if (tick == SIM_WHEEL_NONE || tick > now) {
            break;
        }
        uint32_t index = wheel->heads[tick & SLOT_MASK];
        while (index != SIM_WHEEL_NONE) {
            struct sim_wheel_node *node = node_at(wheel, index);
            if (node->due == tick) {
                sim_wheel_cancel(wheel, index);
                wheel->now = tick - 1;
                return index;
            }
            index = node->next;
        }
        wheel->now = tick;
    }
    if (wheel->now < now) {
        wheel->now = now;
    }
    return SIM_WHEEL_NONE;
}

uint32_t sim_wheel_next(const struct sim_wheel *wheel)
{
    return wheel->count == 0 ? SIM_WHEEL_NONE : next_filled(wheel, wheel->now + 1);
}
