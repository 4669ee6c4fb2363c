// Flights by the block. Each core_link.c has its own made, on the thread that runs its shard, and
// fleet_virtual.c lets all of them go, on the coordinator's. An arena takes its first chunk from
// the room beside its flight, the core adds to it wherever the flight is, and what is larger or
// comes second is the heap's.
#include "virtual/flight_memory.h"

#include "base/alloc.h"
#include "base/check.h"
#include "model/zero_pages.h"
#include "svc/core.h"

#define CHUNK_BYTES 4096u // of an arena
#define CHUNK_HEAD  32u   // what an arena puts before it

struct room {
    _Alignas(64) struct sim_flight flight;
    struct base_alloc_port port; // of its arena
    bool taken;                  // the chunk
    _Alignas(16) uint8_t chunk[CHUNK_HEAD + CHUNK_BYTES];
};

#define ROOMS ((SIM_LARGE_PAGE_BYTES - 64) / sizeof(struct room))

struct sim_flight_block {
    struct sim_flight_block *next;
    struct room rooms[ROOMS];
};
_Static_assert(sizeof(struct sim_flight_block) <= SIM_LARGE_PAGE_BYTES, "one page");

static void *chunk_alloc(void *ctx, size_t size)
{
    struct room *room = ctx;
    if (room->taken || size > sizeof(room->chunk)) {
        const struct base_alloc_port *heap = base_alloc_heap();
        return heap->alloc(heap->ctx, size);
    }
    room->taken = true;
    return room->chunk;
}

static void chunk_release(void *ctx, void *memory)
{
    struct room *room = ctx;
    if (memory == room->chunk) {
        base_assert(room->taken);
        room->taken = false;
        return;
    }
    const struct base_alloc_port *heap = base_alloc_heap();
    heap->release(heap->ctx, memory);
}

void sim_flight_memory_init(struct sim_flight_memory *memory)
{
    *memory = (struct sim_flight_memory){.made = ROOMS};
    pthread_mutex_init(&memory->lock, NULL);
}

// NULL: no memory.
static struct room *room_take(struct sim_flight_memory *memory)
{
    base_assert(memory->made <= ROOMS);
    if (memory->made == ROOMS) {
        struct sim_flight_block *block = sim_large_pages_new(sizeof(*block));
        if (block == NULL) {
            return NULL;
        }
        block->next = memory->blocks;
        memory->blocks = block;
        memory->made = 0;
    }
    return &memory->blocks->rooms[memory->made++];
}

struct sim_flight *sim_flight_make(struct sim_flight_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    struct room *room = room_take(memory);
    pthread_mutex_unlock(&memory->lock);
    if (room == NULL) {
        return NULL;
    }
    room->port = (struct base_alloc_port){room, chunk_alloc, chunk_release};
    base_arena_init(&room->flight.arena, &room->port, CHUNK_BYTES, 0);
    return &room->flight;
}

void sim_flight_memory_done(struct sim_flight_memory *memory)
{
    uint32_t made = memory->made;
    while (memory->blocks != NULL) {
        struct sim_flight_block *block = memory->blocks;
        memory->blocks = block->next;
        for (uint32_t i = 0; i < made; i++) {
            gw_blob_release(block->rooms[i].flight.exchange.reply.blob);
            base_arena_done(&block->rooms[i].flight.arena);
        }
        sim_large_pages_free(block, sizeof(*block));
        made = ROOMS; // of each before the newest
    }
    pthread_mutex_destroy(&memory->lock);
}
