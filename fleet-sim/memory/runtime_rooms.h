// Rooms for the memory of device runtimes, and runtimes folded up. A device that only listens on
// its hint stream keeps its runtime for hours and uses it for moments: meanwhile it is kept as what
// differs from a runtime that was folded before, a few hundred bytes in place of many thousands,
// and its room is another's.
//
// Exact: what a runtime says is its state comes back byte for byte, but that its pointers into
// itself point into the room it is in now. What lies elsewhere in its room is anything then. A word
// of its state that looks like a pointer into another room keeps a runtime from being folded.
// Nobody may hold a pointer into a folded runtime. One thread's.
#ifndef SIM_RUNTIME_ROOMS_H
#define SIM_RUNTIME_ROOMS_H

#include "base/ports.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>

#define SIM_ROOM_BASES_MAX   16u
#define SIM_ROOM_HEIRS       4u
#define SIM_ROOM_CHUNK_CELLS 512u // that folded runtimes lie in, of a piece of memory
#define SIM_FOLDED_BYTES     900u // one that takes more becomes what others are compared with

// A runtime that others are kept as the difference to; its pointers into itself are as if it lay at
// the start of the area, where no room is.
struct sim_room_base {
    uint8_t *bytes;     // NULL: none here
    uint64_t *pointers; // a bit for each line of it where one of those is
    uint64_t *state;    // a bit for each line that is some; others are zero
    uint8_t *own;       // for each line, a bit for each word that is a pointer
    uint32_t serial;    // no other one ever has it
    uint32_t uses;
    uint32_t heirs[SIM_ROOM_HEIRS]; // bases of what came from here, the last one's first
};

// Which lines of two bases are not the same, as far as somebody asked.
struct sim_room_pair {
    uint32_t serials[2]; // 0: nobody did
    uint64_t *lines;
};

struct sim_rooms {
    const struct base_alloc_port *alloc;
    char *area; // of what is never a room, then the rooms; zero until used
    size_t area_bytes;
    size_t room_bytes; // from one room to the next
    size_t used_bytes; // of each
    uint32_t rooms_max;
    uint32_t begun;       // rooms that were used ever
    uint32_t taken;       // ... and are now
    uint32_t serials;     // bases that there ever were
    void *free;           // one that is not used now, and in its first word the next
    uint64_t *lines;      // a bit for each line of the runtime at hand, by what is done with it
    uint64_t *state;      // ... that is state
    uint8_t *delta;       // of the runtime at hand
    void *cells;          // of folded runtimes, free; each begins with a pointer to the next
    void *chunks;         // that they are parts of, likewise
    uint32_t newest;      // base of the last fold
    uint32_t unsought;    // folds for which no other base is sought
    uint32_t unsought_at; // ... after the next search in vain
    struct sim_room_base bases[SIM_ROOM_BASES_MAX];
    struct sim_room_pair pairs[SIM_ROOM_BASES_MAX][SIM_ROOM_BASES_MAX];
};

struct sim_folded;

// Rooms of `bytes`, a multiple of 16, for `count` runtimes at once. NOMEM.
BASE_NODISCARD enum base_status sim_rooms_init(struct sim_rooms *rooms,
                                               const struct base_alloc_port *alloc, size_t bytes,
                                               uint32_t count);
void sim_rooms_done(struct sim_rooms *rooms); // accepts zeros; what is folded goes before

// A room, zero. Never more at once than there are.
void *sim_rooms_take(struct sim_rooms *rooms);
void sim_rooms_put(struct sim_rooms *rooms, void *room); // accepts NULL

// The runtime in `room`, which is given back. Its state is what lies in `spans`, all of it where
// `count` is 0. NULL: it stays, for want of memory or of a likeness.
struct sim_folded *sim_rooms_fold(struct sim_rooms *rooms, void *room,
                                  const struct base_span *spans, uint32_t count);
// The room it is in now; `folded` is no more. Aborts on what was never folded here.
void *sim_rooms_unfold(struct sim_rooms *rooms, struct sim_folded *folded);
void sim_rooms_forget(struct sim_rooms *rooms, struct sim_folded *folded); // accepts NULL
size_t sim_folded_bytes(const struct sim_folded *folded);

#endif
