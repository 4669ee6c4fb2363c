// The thread pool of one session. The owner's thread publishes a loop and works on it together with
// the workers; threads take chunks of its range until none is left.
//
// Shared atomics live here. One word, the ticket, holds (loop number, chunks, next chunk), so that
// taking a chunk and knowing which loop it belongs to is one step: a worker that wakes late takes a
// chunk of the loop that is current by then, or none. While a chunk is out, the loop cannot end, so
// the loop's fields are stable for whoever holds one.
//
// Waiting is a short spin, then a futex: a pool without work uses no processor time.
#include "backend/pool.h"

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_US           20u // covers the gap between two operators of one run
#define SPIN_PAUSES       32u // between two looks at the clock
#define CHUNKS_PER_THREAD 4   // so that one slow thread does not hold up the loop
#define CACHE_LINE        64

struct pool_worker {
    struct eng_pool *pool;
    uint32_t number;
    pthread_t thread;
};

struct eng_pool {
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket; // loop << 32 | chunks << 16 | next
    _Alignas(CACHE_LINE) _Atomic uint32_t done;   // chunks finished of this loop
    _Atomic uint32_t owner_waits;                 // the owner sleeps on `done`
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch;  // changes with every loop: what workers sleep on
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    // The loop, written by the owner while no chunk is out.
    _Alignas(CACHE_LINE) eng_pool_fn body;
    void *ctx;
    int64_t count;
    int64_t chunk; // elements of a chunk
    uint32_t threads;
    uint32_t started; // workers running
    struct pool_worker workers[ENG_THREADS_MAX];
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static bool has_chunk(uint64_t ticket)
{
    return (uint16_t)ticket < (uint16_t)(ticket >> 16);
}

// Takes chunks until none is left.
static void work(struct eng_pool *pool, uint32_t worker)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while (has_chunk(ticket)) {
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire)) {
            continue;
        }
        uint32_t chunks = (uint16_t)(ticket >> 16);
        int64_t begin = (int64_t)(uint16_t)ticket * pool->chunk;
        int64_t end = begin + pool->chunk;
        pool->body(pool->ctx, begin, end < pool->count ? end : pool->count, worker);
        uint32_t done = atomic_fetch_add(&pool->done, 1) + 1;
        if (worker != 0 && done == chunks && atomic_load(&pool->owner_waits) != 0) {
            futex_wake(&pool->done, 1);
        }
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

// Looks for a chunk for a few microseconds.
static bool spin_for_chunk(const struct eng_pool *pool)
{
    uint64_t end_us = base_clock_mono_us() + SPIN_US;
    do {
        for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
            if (has_chunk(atomic_load_explicit(&pool->ticket, memory_order_relaxed)) ||
                atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
                return true;
            }
            relax();
        }
    } while (base_clock_mono_us() < end_us);
    return false;
}

static void *worker_main(void *arg)
{
    struct pool_worker *self = arg;
    struct eng_pool *pool = self->pool;
    while (!atomic_load(&pool->stop)) {
        work(pool, self->number);
        if (spin_for_chunk(pool)) {
            continue;
        }
        // The owner changes the epoch after the ticket and before it looks at `sleepers`.
        atomic_fetch_add(&pool->sleepers, 1);
        uint32_t epoch = atomic_load(&pool->epoch);
        if (!has_chunk(atomic_load(&pool->ticket)) && !atomic_load(&pool->stop)) {
            futex_wait(&pool->epoch, epoch);
        }
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return NULL;
}

static void wake(struct eng_pool *pool, uint32_t count)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) != 0) {
        futex_wake(&pool->epoch, count);
    }
}

static void wait_done(struct eng_pool *pool, uint32_t chunks)
{
    base_assert(atomic_load(&pool->owner_waits) == 0); // one owner, one loop at a time
    uint64_t end_us = 0;
    for (uint32_t spins = 0; atomic_load(&pool->done) != chunks; spins++) {
        if (spins % SPIN_PAUSES != 0) {
            relax();
            continue;
        }
        uint64_t now_us = base_clock_mono_us();
        if (end_us == 0) {
            end_us = now_us + SPIN_US;
        }
        if (now_us < end_us) {
            continue;
        }
        atomic_store(&pool->owner_waits, 1);
        for (uint32_t done = atomic_load(&pool->done); done != chunks;
             done = atomic_load(&pool->done)) {
            futex_wait(&pool->done, done);
        }
        atomic_store(&pool->owner_waits, 0);
    }
}

enum base_status eng_pool_new(uint32_t threads, struct eng_pool **out_pool)
{
    base_assert(threads >= 1);
    if (threads > ENG_THREADS_MAX) {
        return BASE_ERR_LIMIT;
    }
    void *memory = NULL;
    if (posix_memalign(&memory, CACHE_LINE, sizeof(struct eng_pool)) != 0) {
        return BASE_ERR_NOMEM;
    }
    struct eng_pool *pool = memory;
    *pool = (struct eng_pool){.threads = threads};
    for (uint32_t i = 1; i < threads; i++) {
        pool->workers[i] = (struct pool_worker){.pool = pool, .number = i};
        if (pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]) != 0) {
            eng_pool_free(pool);
            return BASE_ERR_LIMIT;
        }
        pool->started = i;
    }
    *out_pool = pool;
    return BASE_OK;
}

void eng_pool_free(struct eng_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->stop, true);
    wake(pool, ENG_THREADS_MAX);
    for (uint32_t i = 1; i <= pool->started; i++) {
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool);
}

uint32_t eng_pool_threads(const struct eng_pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}

void eng_pool_for(struct eng_pool *pool, int64_t count, int64_t grain, eng_pool_fn body, void *ctx)
{
    if (count <= 0) {
        return;
    }
    if (grain < 1) {
        grain = 1;
    }
    if (pool == NULL || pool->threads == 1 || count / grain <= 1) {
        body(ctx, 0, count, 0);
        return;
    }
    int64_t chunks = count / grain;
    int64_t most = (int64_t)pool->threads * CHUNKS_PER_THREAD;
    chunks = chunks < most ? chunks : most;
    int64_t chunk = (count + chunks - 1) / chunks;
    chunks = (count + chunk - 1) / chunk;
    base_assert(chunks <= UINT16_MAX && (chunks - 1) * chunk < count); // as the ticket counts them
    base_assert(!has_chunk(atomic_load_explicit(&pool->ticket, memory_order_relaxed)));
    pool->body = body;
    pool->ctx = ctx;
    pool->count = count;
    pool->chunk = chunk;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    uint64_t loop = (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->ticket, loop << 32 | (uint64_t)chunks << 16);
    wake(pool, (uint32_t)chunks - 1);
    work(pool, 0);
    wait_done(pool, (uint32_t)chunks);
}
