// Threads that share the tasks of a window. run/fleet_virtual.c runs one window after the other.
//
// Shared atomics: `claims` says which window it is, how many tasks it has and which is taken next,
// in one word, so that a thread that comes late takes one of the window that is, or none. Nobody
// waits for a thread that has taken nothing: on a busy machine the caller's thread does all of it.
// Tasks are taken in their order, which is why sim_windows_in_order ends: the first that is under
// way waits for nobody.
#include "virtual/windows.h"

#include "base/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SPINS     2000 // tens of microseconds, before a thread sleeps
#define WAKE_FROM 3    // tasks that are worth waking a thread for
#define LINE      64   // of a cache: what threads write lies apart

struct done_mark {
    _Alignas(LINE) _Atomic uint32_t window; // in which the task was done last
};

struct worker {
    struct sim_windows *windows;
    uint32_t number;
    pthread_t thread;
};

struct sim_windows {
    struct sim_windows_options options;
    struct worker *workers; // of the threads but the caller's
    uint32_t started;
    uint32_t number;                      // of the window
    uint32_t tasks[SIM_WINDOW_TASKS_MAX]; // of the window, written between two
    uint32_t count;
    struct done_mark *marks; // by task
    _Alignas(LINE) _Atomic uint64_t claims;
    _Alignas(LINE) _Atomic uint32_t done;
    _Alignas(LINE) _Atomic uint32_t sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t idle;
};

// window << 32 | count << 16 | next
static uint64_t word(uint32_t window, uint32_t count, uint32_t next)
{
    return (uint64_t)window << 32 | (uint64_t)count << 16 | next;
}

static bool has_work(uint64_t claims)
{
    return (claims & 0xffff) < (claims >> 16 & 0xffff);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Takes a task of the window and does it. False: there is none left.
static bool work_one(struct sim_windows *windows, uint32_t worker)
{
    uint64_t claims = atomic_load(&windows->claims);
    do {
        if (!has_work(claims)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&windows->claims, &claims, claims + 1));
    uint32_t count = (uint32_t)(claims >> 16 & 0xffff);
    uint32_t task = windows->tasks[claims & 0xffff];
    windows->options.run(windows->options.ctx, worker, task);
    atomic_store(&windows->marks[task].window, (uint32_t)(claims >> 32));
    if (atomic_fetch_add(&windows->done, 1) + 1 == count && atomic_load(&windows->caller_sleeps)) {
        pthread_mutex_lock(&windows->lock);
        pthread_cond_signal(&windows->idle);
        pthread_mutex_unlock(&windows->lock);
    }
    return true;
}

static void sleep_until_work(struct sim_windows *windows)
{
    pthread_mutex_lock(&windows->lock);
    atomic_fetch_add(&windows->sleepers, 1);
    while (!has_work(atomic_load(&windows->claims)) && !atomic_load(&windows->stop)) {
        pthread_cond_wait(&windows->work, &windows->lock);
    }
    atomic_fetch_sub(&windows->sleepers, 1);
    pthread_mutex_unlock(&windows->lock);
}

static void *worker_main(void *ctx)
{
    const struct worker *self = ctx;
    struct sim_windows *windows = self->windows;
    uint32_t spins = 0;
    while (!atomic_load(&windows->stop)) {
        if (work_one(windows, self->number)) {
            spins = 0;
        } else if (spins < SPINS) {
            spins++;
            relax();
        } else {
            sleep_until_work(windows);
            spins = 0;
        }
    }
    return NULL;
}

enum base_status sim_windows_new(const struct sim_windows_options *options,
                                 struct sim_windows **out_windows)
{
    base_assert(options->threads > 0);
    struct sim_windows *windows = aligned_alloc(LINE, sizeof(*windows));
    if (windows == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(windows, 0, sizeof(*windows));
    windows->options = *options;
    pthread_mutex_init(&windows->lock, NULL);
    pthread_cond_init(&windows->work, NULL);
    pthread_cond_init(&windows->idle, NULL);
    windows->marks = aligned_alloc(LINE, sizeof(struct done_mark) * SIM_WINDOW_TASKS_MAX);
    windows->workers = calloc(options->threads, sizeof(struct worker));
    if (windows->marks == NULL || windows->workers == NULL) {
        sim_windows_free(windows);
        return BASE_ERR_NOMEM;
    }
    memset(windows->marks, 0, sizeof(struct done_mark) * SIM_WINDOW_TASKS_MAX);
    for (uint32_t i = 0; i + 1 < options->threads; i++) {
        struct worker *worker = &windows->workers[i];
        *worker = (struct worker){.windows = windows, .number = i + 1};
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            sim_windows_free(windows);
            return BASE_ERR_NOMEM;
        }
        windows->started++;
    }
    *out_windows = windows;
    return BASE_OK;
}

void sim_windows_free(struct sim_windows *windows)
{
    if (windows == NULL) {
        return;
    }
    pthread_mutex_lock(&windows->lock);
    atomic_store(&windows->stop, true);
    pthread_cond_broadcast(&windows->work);
    pthread_mutex_unlock(&windows->lock);
    for (uint32_t i = 0; i < windows->started; i++) {
        (void)pthread_join(windows->workers[i].thread, NULL);
    }
    pthread_mutex_destroy(&windows->lock);
    pthread_cond_destroy(&windows->work);
    pthread_cond_destroy(&windows->idle);
    free(windows->workers);
    free(windows->marks);
    free(windows);
}

static void wake_workers(struct sim_windows *windows)
{
    if (windows->count >= WAKE_FROM && atomic_load(&windows->sleepers) > 0) {
        pthread_mutex_lock(&windows->lock);
        pthread_cond_broadcast(&windows->work);
        pthread_mutex_unlock(&windows->lock);
    }
}

// Until others are done with what they took.
static void wait_done(struct sim_windows *windows)
{
    for (uint32_t i = 0; i < SPINS; i++) {
        if (atomic_load(&windows->done) == windows->count) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&windows->lock);
    atomic_store(&windows->caller_sleeps, true);
    while (atomic_load(&windows->done) != windows->count) {
        pthread_cond_wait(&windows->idle, &windows->lock);
    }
    atomic_store(&windows->caller_sleeps, false);
    pthread_mutex_unlock(&windows->lock);
}

void sim_windows_run(struct sim_windows *windows, const uint32_t *tasks, uint32_t count)
{
    base_check(count <= SIM_WINDOW_TASKS_MAX);
    windows->number++;
    windows->count = count;
    memcpy(windows->tasks, tasks, sizeof(*tasks) * count);
    atomic_store(&windows->done, 0);
    atomic_store(&windows->claims, word(windows->number, count, 0));
    wake_workers(windows);
    windows->options.first(windows->options.ctx);
    while (work_one(windows, 0)) {
    }
    wait_done(windows);
}

void sim_windows_in_order(struct sim_windows *windows, uint32_t task)
{
    for (uint32_t i = 0; i < windows->count && windows->tasks[i] < task; i++) {
        const struct done_mark *mark = &windows->marks[windows->tasks[i]];
        for (uint32_t spins = 0; atomic_load(&mark->window) != windows->number; spins++) {
            if (spins < SPINS) {
                relax();
            } else {
                (void)sched_yield();
            }
        }
    }
}
