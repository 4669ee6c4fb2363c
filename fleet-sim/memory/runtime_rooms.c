// Folding of runtimes. Called by fleet_shard.c for a shard's devices, on the shard's thread.
//
// A runtime has pointers into itself. Before it is compared they are turned into pointers to the
// same place at the start of the area, and when it comes back to those of its room: every word is
// looked at, since nobody here knows which are pointers. That is exact as long as no word already
// points into the area beside its own room, which is looked at, too.
#include "memory/runtime_rooms.h"

#include "base/check.h"
#include "model/zero_pages.h"
#include "ports/state_delta.h"

#include <string.h>

#define ROOM_STEP 64u // a line of a cache; rooms are an odd count of them apart

struct sim_folded {
    uint32_t bytes;
    uint32_t base;
    uint8_t delta[];
};

enum base_status sim_rooms_init(struct sim_rooms *rooms, const struct base_alloc_port *alloc,
                                size_t bytes, uint32_t count)
{
    base_assert(bytes % 16 == 0 && bytes >= sizeof(void *));
    *rooms = (struct sim_rooms){.alloc = alloc, .used_bytes = bytes, .rooms_max = count};
    rooms->room_bytes = bytes + 2 * ROOM_STEP - bytes % (2 * ROOM_STEP) + ROOM_STEP;
    rooms->area_bytes = rooms->room_bytes * ((size_t)count + 1);
    rooms->area = sim_pages_new(rooms->area_bytes);
    rooms->image = alloc->alloc(alloc->ctx, bytes);
    rooms->delta = alloc->alloc(alloc->ctx, bytes);
    if (rooms->area == NULL || rooms->image == NULL || rooms->delta == NULL) {
        sim_rooms_done(rooms);
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

void sim_rooms_done(struct sim_rooms *rooms)
{
    const struct base_alloc_port *alloc = rooms->alloc;
    if (alloc == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX; i++) {
        alloc->release(alloc->ctx, rooms->bases[i].bytes);
    }
    alloc->release(alloc->ctx, rooms->image);
    alloc->release(alloc->ctx, rooms->delta);
    sim_pages_free(rooms->area, rooms->area_bytes);
    *rooms = (struct sim_rooms){0};
}

// One whose bytes are not yet known.
static void *room_take(struct sim_rooms *rooms, bool *out_zero)
{
    void *room = rooms->free;
    rooms->taken++;
    *out_zero = room == NULL;
    if (room != NULL) {
        memcpy(&rooms->free, room, sizeof(rooms->free));
        return room;
    }
    base_check(rooms->begun < rooms->rooms_max);
    rooms->begun++;
    return rooms->area + rooms->room_bytes * rooms->begun;
}

void *sim_rooms_take(struct sim_rooms *rooms)
{
    bool zero = false;
    void *room = room_take(rooms, &zero);
    if (!zero) {
        memset(room, 0, rooms->used_bytes);
    }
    return room;
}

void sim_rooms_put(struct sim_rooms *rooms, void *room)
{
    if (room != NULL) {
        base_check(rooms->taken > 0);
        rooms->taken--;
        memcpy(room, &rooms->free, sizeof(rooms->free));
        rooms->free = room;
    }
}

// Copies words, and those that are addresses in `from` as the same places in `to`. False: one is an
// address elsewhere in the area.
static bool words_move(const struct sim_rooms *rooms, void *out, const void *room, uintptr_t from,
                       uintptr_t to)
{
    uintptr_t area = (uintptr_t)rooms->area;
    bool whole = true;
    for (size_t at = 0; at < rooms->used_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)room + at, sizeof(word));
        if (word - area < rooms->area_bytes) {
            bool own = word - from <= rooms->used_bytes; // or right behind it
            whole = whole && own;
            word = own ? word - from + to : word;
        }
        memcpy((char *)out + at, &word, sizeof(word));
    }
    return whole;
}

// Where a new base may be; SIM_ROOM_BASES_MAX: nowhere.
static uint32_t base_place(const struct sim_rooms *rooms)
{
    uint32_t place = 0;
    while (place < SIM_ROOM_BASES_MAX && rooms->bases[place].uses > 0) {
        place++;
    }
    return place;
}

static bool base_add(struct sim_rooms *rooms)
{
    uint32_t place = base_place(rooms);
    if (place == SIM_ROOM_BASES_MAX) {
        return false;
    }
    struct sim_room_base *base = &rooms->bases[place];
    if (base->bytes == NULL) {
        base->bytes = rooms->alloc->alloc(rooms->alloc->ctx, rooms->used_bytes);
    }
    if (base->bytes == NULL) {
        return false;
    }
    memcpy(base->bytes, rooms->image, rooms->used_bytes);
    rooms->newest = place;
    return true;
}

// The difference of the image to a base, into `delta`. SIZE_MAX: there is none, or it is larger
// than `most`.
static size_t differ(struct sim_rooms *rooms, uint32_t base, size_t most)
{
    const uint8_t *bytes = rooms->bases[base].bytes;
    return bytes != NULL
               ? sim_delta_find(bytes, rooms->image, rooms->used_bytes, rooms->delta, most)
               : SIZE_MAX;
}

// The base that the image is most like, the difference to which is in `delta` then.
static size_t base_find(struct sim_rooms *rooms, uint32_t *out_base)
{
    uint32_t best = rooms->newest;
    size_t bytes = differ(rooms, best, SIM_FOLDED_BYTES);
    for (uint32_t i = 0; i < SIM_ROOM_BASES_MAX && bytes == SIZE_MAX; i++) {
        best = i;
        bytes = i != rooms->newest ? differ(rooms, i, SIM_FOLDED_BYTES) : SIZE_MAX;
    }
    if (bytes == SIZE_MAX && base_add(rooms)) {
        best = rooms->newest;
        bytes = differ(rooms, best, SIM_FOLDED_BYTES);
    } else if (bytes == SIZE_MAX) {
        best = rooms->newest;
        bytes = differ(rooms, best, rooms->used_bytes / 2);
    }
    rooms->newest = bytes != SIZE_MAX ? best : rooms->newest;
    *out_base = best;
    return bytes;
}

struct sim_folded *sim_rooms_fold(struct sim_rooms *rooms, void *room)
{
    uint32_t base = 0;
    if (!words_move(rooms, rooms->image, room, (uintptr_t)room, (uintptr_t)rooms->area)) {
        return NULL;
    }
    size_t bytes = base_find(rooms, &base);
    if (bytes == SIZE_MAX) {
        return NULL;
    }
    struct sim_folded *folded = rooms->alloc->alloc(rooms->alloc->ctx, sizeof(*folded) + bytes);
    if (folded == NULL) {
        return NULL;
    }
    folded->bytes = (uint32_t)bytes;
    folded->base = base;
    memcpy(folded->delta, rooms->delta, bytes);
    rooms->bases[base].uses++;
    sim_rooms_put(rooms, room);
    return folded;
}

void *sim_rooms_unfold(struct sim_rooms *rooms, struct sim_folded *folded)
{
    bool zero = false;
    memcpy(rooms->image, rooms->bases[folded->base].bytes, rooms->used_bytes);
    base_check(sim_delta_apply(folded->delta, folded->bytes, rooms->image, rooms->used_bytes));
    void *room = room_take(rooms, &zero);
    base_check(words_move(rooms, room, rooms->image, (uintptr_t)rooms->area, (uintptr_t)room));
    sim_rooms_forget(rooms, folded);
    return room;
}

void sim_rooms_forget(struct sim_rooms *rooms, struct sim_folded *folded)
{
    if (folded != NULL) {
        base_check(rooms->bases[folded->base].uses > 0);
        rooms->bases[folded->base].uses--;
        rooms->alloc->release(rooms->alloc->ctx, folded);
    }
}

size_t sim_folded_bytes(const struct sim_folded *folded)
{
    return sizeof(*folded) + folded->bytes;
}
