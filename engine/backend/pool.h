// A small thread pool: the caller and `threads - 1` workers share a loop's range. Workers spin for
// a few microseconds after a loop, then sleep; an idle pool uses no processor time.
//
// One loop at a time; the owner's thread calls. Loops do not nest.
#ifndef ENG_BACKEND_POOL_H
#define ENG_BACKEND_POOL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct eng_pool;

// threads 1 starts none. NOMEM; LIMIT: a thread could not be started.
BASE_NODISCARD enum base_status eng_pool_new(uint32_t threads, struct eng_pool **out_pool);
void eng_pool_free(struct eng_pool *pool);              // accepts NULL
uint32_t eng_pool_threads(const struct eng_pool *pool); // 1 for NULL

// Calls body(ctx, begin, end, worker) on disjoint ranges that cover [0, count), each at least
// `grain` long except the last; worker in 0..threads-1, at most one call per worker at a time.
// Returns when all are done. NULL pool or count < 2 * grain: one call on the calling thread.
typedef void (*eng_pool_fn)(void *ctx, int64_t begin, int64_t end, uint32_t worker);
void eng_pool_for(struct eng_pool *pool, int64_t count, int64_t grain, eng_pool_fn body, void *ctx);

#endif
