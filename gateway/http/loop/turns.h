// Connections of a worker that have more to do than one event may take: the next of many requests
// sent ahead, input that makes no socket readable. They wait in one row; in each turn of the
// worker's loop the first GW_TURNS_PER_LOOP_MAX have their turn, then every socket is looked at
// again. So what any number of such connections want costs who comes meanwhile a few turns.
//
// One owner, one thread; knows no clock and no loop.
#ifndef GW_HTTP_TURNS_H
#define GW_HTTP_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define GW_TURNS_PER_LOOP_MAX 4 // of all connections that wait for one; then sockets are looked at

struct gw_turn {
    struct gw_turn *next;
    struct gw_turn **prev; // NULL: it is in no row
};

struct gw_turns {
    struct gw_turn *first;
    struct gw_turn **last; // the link behind the last one
};

void gw_turns_init(struct gw_turns *turns);
// Behind the others; one that waits already keeps its place.
void gw_turns_add(struct gw_turns *turns, struct gw_turn *turn);
void gw_turns_remove(struct gw_turns *turns, struct gw_turn *turn); // also one that does not wait
// Takes those that are first out of the row, GW_TURNS_PER_LOOP_MAX at most, and calls `fire` for
// each, which may add and remove any. True: others still wait.
bool gw_turns_run(struct gw_turns *turns, void (*fire)(void *ctx, struct gw_turn *turn), void *ctx);

#endif
