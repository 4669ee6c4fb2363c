// The row of turns.h: a list with both ends. worker.c runs it once in each turn of its loop, conn.c
// puts connections in and takes them out when they end; worker's thread. Both take constant time,
// and a connection is in the row once at most. What is put in while the row runs waits for its
// place behind the others.
#include "http/loop/turns.h"

#include <stddef.h>

void gw_turns_init(struct gw_turns *turns)
{
    turns->first = NULL;
    turns->last = &turns->first;
}

void gw_turns_add(struct gw_turns *turns, struct gw_turn *turn)
{
    if (turn->prev != NULL) {
        return;
    }
    turn->next = NULL;
    turn->prev = turns->last;
    *turns->last = turn;
    turns->last = &turn->next;
}

void gw_turns_remove(struct gw_turns *turns, struct gw_turn *turn)
{
    if (turn->prev == NULL) {
        return;
    }
    *turn->prev = turn->next;
    if (turn->next != NULL) {
        turn->next->prev = turn->prev;
    } else {
        turns->last = turn->prev;
    }
    turn->next = NULL;
    turn->prev = NULL;
}

bool gw_turns_run(struct gw_turns *turns, void (*fire)(void *ctx, struct gw_turn *turn), void *ctx)
{
    for (int i = 0; i < GW_TURNS_PER_LOOP_MAX && turns->first != NULL; i++) {
        struct gw_turn *turn = turns->first;
        gw_turns_remove(turns, turn);
        fire(ctx, turn);
    }
    return turns->first != NULL;
}
