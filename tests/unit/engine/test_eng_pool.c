// The thread pool: every element exactly once, ranges and worker numbers as promised, many short
// loops in a row, sleeping workers, and the choice of kernel tables. Also run under the thread
// sanitizer.
#include "test_kit.h"

#include "backend/cpu/kernel/isa.h"
#include "backend/pool.h"
#include "engine/engine.h"

#include <dirent.h>
#include <stdatomic.h>

#define COUNT_MAX 5000

struct loop {
    uint32_t threads;
    int64_t count, grain;
    uint8_t seen[COUNT_MAX];
    _Atomic uint32_t busy[ENG_THREADS_MAX];
    _Atomic uint32_t errors, calls;
    int64_t sums[ENG_THREADS_MAX]; // plain: each worker's own
};

static void body(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    struct loop *loop = ctx;
    if (worker >= loop->threads || atomic_fetch_add(&loop->busy[worker], 1) != 0 || begin >= end ||
        begin < 0 || end > loop->count || (end - begin < loop->grain && end != loop->count)) {
        atomic_fetch_add(&loop->errors, 1);
        return;
    }
    atomic_fetch_add(&loop->calls, 1);
    for (int64_t i = begin; i < end; i++) {
        loop->seen[i]++;
        loop->sums[worker] += i;
    }
    atomic_fetch_sub(&loop->busy[worker], 1);
}

static void run(struct eng_pool *pool, struct loop *loop, int64_t count, int64_t grain)
{
    *loop = (struct loop){.threads = eng_pool_threads(pool), .count = count, .grain = grain};
    eng_pool_for(pool, count, grain, body, loop);
    assert_int_equal(atomic_load(&loop->errors), 0);
    int64_t sum = 0;
    for (uint32_t i = 0; i < loop->threads; i++) {
        sum += loop->sums[i];
    }
    assert_int_equal(sum, count * (count - 1) / 2);
    for (int64_t i = 0; i < count; i++) {
        if (loop->seen[i] != 1) {
            fail_msg("count %lld grain %lld: element %lld done %d times", (long long)count,
                     (long long)grain, (long long)i, loop->seen[i]);
        }
    }
}

static void covers_once(void **state)
{
    (void)state;
    static struct loop loop;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        struct eng_pool *pool = NULL;
        assert_int_equal(eng_pool_new(threads, &pool), BASE_OK);
        assert_int_equal(eng_pool_threads(pool), threads);
        static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 4999};
        static const int64_t grains[] = {1, 2, 5, 64, 6000};
        for (size_t i = 0; i < TEST_COUNT(counts); i++) {
            for (size_t j = 0; j < TEST_COUNT(grains); j++) {
                run(pool, &loop, counts[i], grains[j]);
                if (counts[i] > 0 && counts[i] < 2 * grains[j]) {
                    assert_int_equal(atomic_load(&loop.calls), 1);
                }
            }
        }
        eng_pool_free(pool);
    }
}

static void no_pool_is_one_call(void **state)
{
    (void)state;
    static struct loop loop;
    assert_int_equal(eng_pool_threads(NULL), 1);
    run(NULL, &loop, 1000, 1);
    assert_int_equal(atomic_load(&loop.calls), 1);
    eng_pool_free(NULL);
}

static void many_short_loops(void **state)
{
    (void)state;
    static struct loop loop;
    struct eng_pool *pool = NULL;
    assert_int_equal(eng_pool_new(3, &pool), BASE_OK);
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    for (int i = 0; i < 3000; i++) {
        run(pool, &loop, (int64_t)base_prng_below(&prng, 200), (int64_t)base_prng_below(&prng, 9));
    }
    eng_pool_free(pool);
}

// How many threads of this process sleep in the kernel ('S' after the name in their stat line).
static int sleeping_threads(void)
{
    int sleeping = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300];
        char line[256] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file != NULL) {
            (void)fgets(line, sizeof line, file);
            (void)fclose(file);
        }
        const char *state = strrchr(line, ')');
        sleeping += state != NULL && state[1] == ' ' && state[2] == 'S';
    }
    (void)closedir(tasks);
    return sleeping;
}

// Idle workers end up asleep, and the next loop still runs.
static void idle_pool_sleeps(void **state)
{
    (void)state;
    static struct loop loop;
    int before = sleeping_threads();
    struct eng_pool *pool = NULL;
    assert_int_equal(eng_pool_new(4, &pool), BASE_OK);
    for (int i = 0; i < 3; i++) {
        run(pool, &loop, 4000, 1);
        int sleeping = 0;
        for (int tries = 0; tries < 1000000 && sleeping != before + 3; tries++) {
            sleeping = sleeping_threads();
        }
        assert_int_equal(sleeping, before + 3);
    }
    eng_pool_free(pool);
}

static void refuses_too_many(void **state)
{
    (void)state;
    struct eng_pool *pool = NULL;
    assert_int_equal(eng_pool_new(ENG_THREADS_MAX + 1, &pool), BASE_ERR_LIMIT);
    assert_null(pool);
}

static void tables_of_this_processor(void **state)
{
    (void)state;
    const struct eng_kernels *best = eng_kernels_find(NULL);
    const struct eng_kernels *generic = eng_kernels_find("generic");
    assert_non_null(best);
    assert_non_null(generic);
    assert_string_equal(generic->name, "generic");
    assert_null(eng_kernels_find("sse9"));
    assert_ptr_equal(eng_kernels_find(best->name), best);
    for (int i = 0; i < ENG_ISA_COUNT; i++) {
        const struct eng_kernels *found = eng_kernels_find(eng_isa_name((enum eng_isa)i));
        assert_int_equal(found != NULL, eng_isa_has((enum eng_isa)i));
        print_message("%s: %s\n", eng_isa_name((enum eng_isa)i), found != NULL ? "yes" : "no");
    }
#if defined(__x86_64__)
    assert_int_equal(eng_isa_has(ENG_ISA_AVX512), __builtin_cpu_supports("avx512f") != 0 &&
                                                      __builtin_cpu_supports("avx512bw") != 0 &&
                                                      __builtin_cpu_supports("avx512dq") != 0 &&
                                                      __builtin_cpu_supports("avx512vl") != 0);
    assert_int_equal(eng_isa_has(ENG_ISA_AVX2),
                     __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_once),      cmocka_unit_test(no_pool_is_one_call),
        cmocka_unit_test(many_short_loops), cmocka_unit_test(idle_pool_sleeps),
        cmocka_unit_test(refuses_too_many), cmocka_unit_test(tables_of_this_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
