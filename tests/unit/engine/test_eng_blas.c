// Loading OpenBLAS: what is absent or is no BLAS is refused, the environment is left alone,
// products are right and may run on several threads at once.
#include "backend/cpu/blas.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIBRARY "libopenblas.so.0"

static void what_is_absent_is_no_candidate(void **state)
{
    (void)state;
    struct eng_blas *blas = NULL;
    assert_int_equal(eng_blas_open("libwalle-has-no-such-blas.so.0", &blas), BASE_ERR_NOT_FOUND);
    assert_null(blas);
    assert_int_equal(eng_blas_open("libm.so.6", &blas), BASE_ERR_UNSUPPORTED);
    assert_null(blas);
    eng_blas_close(NULL);
}

static void the_environment_is_left_alone(void **state)
{
    (void)state;
    char **before = environ;
    assert_int_equal(unsetenv("OPENBLAS_NUM_THREADS"), 0);
    before = environ;
    struct eng_blas *blas = NULL;
    enum base_status status = eng_blas_open(LIBRARY, &blas);
    assert_ptr_equal(environ, before);
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    if (status == BASE_OK) {
        eng_blas_close(blas);
    }
}

static void the_process_can_do_without(void **state)
{
    (void)state;
    assert_int_equal(setenv("WALLE_ENGINE_BLAS", "", 1), 0);
    assert_null(eng_blas_get());
    assert_true(eng_blas_flops(NULL, 1) <= 0);
    assert_int_equal(unsetenv("WALLE_ENGINE_BLAS"), 0);
    assert_null(eng_blas_get()); // decided once
}

enum { N = 150, THREADS = 4, ROUNDS = 20 };

struct worker {
    const struct eng_blas *blas;
    float a[N * N], b[N * N], c[N * N];
    double worst;
};

static void *multiply(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < ROUNDS; round++) {
        const struct eng_blas_product product = {.trans_b = round % 2,
                                                 .m = N,
                                                 .n = N,
                                                 .k = N,
                                                 .lda = N,
                                                 .ldb = N,
                                                 .ldc = N,
                                                 .alpha = 2,
                                                 .a = w->a,
                                                 .b = w->b,
                                                 .c = w->c};
        eng_blas_sgemm(w->blas, &product);
        for (int i = 0; i < N; i += 37) {
            for (int j = 0; j < N; j += 41) {
                double sum = 0;
                for (int k = 0; k < N; k++) {
                    sum += (double)w->a[i * N + k] *
                           (double)(round % 2 ? w->b[j * N + k] : w->b[k * N + j]);
                }
                const double error = 2 * sum - (double)w->c[i * N + j];
                w->worst = error * error > w->worst ? error * error : w->worst;
            }
        }
    }
    return NULL;
}

static void threads_may_call_at_once(void **state)
{
    (void)state;
    struct eng_blas *blas = NULL;
    if (eng_blas_open(LIBRARY, &blas) != BASE_OK) {
        print_message("this machine has no OpenBLAS\n");
        skip();
    }
    struct worker *workers = calloc(THREADS, sizeof *workers);
    assert_non_null(workers);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t].blas = blas;
        for (int i = 0; i < N * N; i++) {
            workers[t].a[i] = (float)((i * 7 + t) % 13) - 6;
            workers[t].b[i] = (float)((i * 5 + t) % 11) - 5;
        }
        assert_int_equal(pthread_create(&threads[t], NULL, multiply, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
        print_message("thread %d: worst error %g\n", t, workers[t].worst);
        assert_true(workers[t].worst < 1e-6); // whole numbers: exact
    }
    free(workers);
    eng_blas_close(blas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_absent_is_no_candidate),
        cmocka_unit_test(the_environment_is_left_alone),
        cmocka_unit_test(the_process_can_do_without),
        cmocka_unit_test(threads_may_call_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
