// The session's search: made with the session (session.c), begun before a plan, emptied into its
// file and its table after it (session_run.c). On the session's thread; the machine's rates are
// shared by all sessions of the process, under a lock, so that only the first one measures. What
// waking the pool's threads costs is measured here as well, since the search knows no pool. A file
// that cannot be written costs the next session time, nothing else.
#include "session/session_search.h"

#include "backend/cpu/blas.h"
#include "backend/cpu/conv_search.h"
#include "backend/cpu/kernel/isa.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/os/output_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAKE_ROUNDS 16
#define WAKE_LOOPS  8
#define WAKE_SPINS  20000
#define WAKE_US_MIN 0.1

// Rates measured by an earlier session of this process.
static pthread_mutex_t machine_lock = PTHREAD_MUTEX_INITIALIZER;
static struct eng_machine machine_known; // under machine_lock; bytes_l2 0: not known

// Every instruction set of this processor, the session's own first, then BLAS and the reference.
static size_t list_sources(const struct eng_session *session,
                           struct eng_rate_source sources[ENG_RATES_MAX])
{
    size_t count = 0;
    for (int i = -1; i < ENG_ISA_COUNT; i++) {
        const struct eng_kernels *kernels =
            i < 0 ? session->kernels : eng_kernels_find(eng_isa_name((enum eng_isa)i));
        if (kernels == NULL || kernels->gemm == NULL || (i >= 0 && kernels == session->kernels)) {
            continue;
        }
        struct eng_rate_source *source = &sources[count++];
        *source = (struct eng_rate_source){.name = kernels->name, .flops = eng_conv_flops_kernel};
        memcpy(&source->ctx, &kernels->gemm, sizeof source->ctx); // read only
    }
    sources[count++] = (struct eng_rate_source){.name = "blas", .flops = eng_blas_flops};
    sources[count++] = (struct eng_rate_source){.name = "ref"};
    base_assert(count <= ENG_RATES_MAX);
    return count;
}

// A few microseconds of work a chunk, so that the other threads have time to take theirs.
static void spin_chunks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)ctx, (void)worker;
    for (int64_t i = begin * WAKE_SPINS; i < end * WAKE_SPINS; i++) {
        __asm__ volatile("" ::"r"(i) : "memory");
    }
}

// The best of a few loops of one chunk a thread, on the pool or on this thread alone.
static double loop_us(struct eng_pool *pool, int64_t chunks)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < WAKE_ROUNDS; i++) {
        const uint64_t begin = base_clock_mono_us();
        for (int j = 0; j < WAKE_LOOPS; j++) {
            eng_pool_for(pool, chunks, 1, spin_chunks, NULL);
        }
        const uint64_t us = base_clock_mono_us() - begin;
        best = us < best ? us : best;
    }
    return (double)best / WAKE_LOOPS;
}

// Microseconds a loop takes longer on the pool than an even share of it: with workers that are
// awake or have just gone to sleep, as between two operators.
static double measure_wake(void *ctx)
{
    struct eng_pool *pool = ctx;
    const int64_t chunks = eng_pool_threads(pool);
    const double share = loop_us(NULL, chunks) / (double)chunks;
    const double us = loop_us(pool, chunks) - share;
    return us > WAKE_US_MIN ? us : WAKE_US_MIN;
}

static struct eng_machine known_machine(void)
{
    pthread_mutex_lock(&machine_lock);
    struct eng_machine machine = machine_known;
    pthread_mutex_unlock(&machine_lock);
    return machine;
}

static void keep_machine(struct eng_session *session)
{
    const struct eng_machine *machine = eng_search_machine_known(session->search);
    if (machine != NULL) {
        pthread_mutex_lock(&machine_lock);
        machine_known = *machine;
        pthread_mutex_unlock(&machine_lock);
    }
}

enum base_status eng_session_search_new(struct eng_session *session)
{
    const struct eng_session_options *options = &session->options;
    if (session->kernels == NULL || session->kernels->gemm == NULL || options->no_search ||
        session->device != NULL) { // what the host would take tells nothing of a device
        return BASE_OK;
    }
    struct eng_rate_source sources[ENG_RATES_MAX];
    const struct eng_machine machine = known_machine();
    struct eng_search_options search = {
        .clock = base_clock_real(),
        .isa = session->isa,
        .threads = options->threads,
        .path = options->cache_path != NULL ? options->cache_path : getenv("WALLE_ENGINE_CACHE"),
        .sources = sources,
        .source_count = list_sources(session, sources),
        .machine = machine.bytes_l2 > 0 ? &machine : NULL,
        .wake = measure_wake,
        .wake_ctx = session->pool,
    };
    return eng_search_new(&search, &session->search);
}

void eng_session_search_begin(struct eng_session *session)
{
    if (session->search != NULL) {
        eng_search_begin(session->search);
        session->search_us = 0;
    }
}

static enum base_status explain(const struct eng_session *session, struct base_error *error)
{
    const char *path = session->options.explain;
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    enum base_status status = eng_search_explain(session->search, &text);
    if (status == BASE_OK && strcmp(path, "-") == 0) {
        bool written = fwrite(text.data, 1, text.size, stdout) == text.size;
        if (fflush(stdout) != 0 || !written) {
            status = base_error_set(error, BASE_ERR_IO, "%s cannot be written", path);
        }
    } else if (status == BASE_OK) {
        status = base_output_write(path, text.data, text.size, error);
    }
    base_buffer_done(&text);
    return status;
}

enum base_status eng_session_search_end(struct eng_session *session, struct base_error *error)
{
    if (session->search == NULL) {
        return BASE_OK;
    }
    session->search_us = eng_search_spent_us(session->search);
    keep_machine(session);
    // A file that cannot be written costs the next session time, nothing else.
    enum base_status saved = eng_search_save(session->search);
    (void)saved;
    return session->options.explain != NULL ? explain(session, error) : BASE_OK;
}
