// Whether the store finds room, and what the log says of it. The writer's, but for `full`, which
// everybody may read.
#ifndef GW_STORE_ROOM_H
#define GW_STORE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GW_STORE_ROOM_SAID_US                                                                      \
    UINT64_C(60000000) // between two times that the log says there is none

struct gw_store_room {
    _Atomic bool full; // the last group found none
    bool said;         // ... and the log says so
    uint64_t said_us;  // when it said so last; 0: never
};

#endif
