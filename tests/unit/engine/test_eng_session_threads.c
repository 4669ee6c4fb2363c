// Eight threads, each with sessions of one shared model: the same results as alone.
#include "onnx_kit.h"

#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 8
#define ROUNDS  3
#define ROWS    5
#define INNER   24
#define COLUMNS 40

struct crowd {
    struct eng_model *model;
    pthread_barrier_t start;
    atomic_uint wrong;
    float weights[INNER * COLUMNS];
};

static float input_at(int thread, int round, int index)
{
    return (float)((index * 7 + thread * 3 + round) % 11 - 5) / 4;
}

static void check_run(struct crowd *crowd, struct eng_session *session, int thread, int round)
{
    float x[ROWS * INNER];
    for (int i = 0; i < ROWS * INNER; i++) {
        x[i] = input_at(thread, round, i);
    }
    struct eng_array in = {{.dtype = ENG_F32, .rank = 2, .dims = {ROWS, INNER}}, x};
    struct eng_array out;
    if (eng_session_set_input(session, 0, &in, NULL) != BASE_OK ||
        eng_session_run(session, NULL, NULL) != BASE_OK ||
        eng_session_output(session, 0, &out, NULL) != BASE_OK) {
        atomic_fetch_add(&crowd->wrong, 1);
        return;
    }
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            double want = 0;
            for (int k = 0; k < INNER; k++) {
                want += (double)x[r * INNER + k] * (double)crowd->weights[k * COLUMNS + c];
            }
            want = want > 0 ? want : 0;
            double error = want - (double)((const float *)out.data)[r * COLUMNS + c];
            if (error > 1e-4 || error < -1e-4) {
                atomic_fetch_add(&crowd->wrong, 1);
            }
        }
    }
}

struct member {
    struct crowd *crowd;
    int number;
};

static void *work(void *ctx)
{
    struct member *member = ctx;
    (void)pthread_barrier_wait(&member->crowd->start);
    for (int round = 0; round < ROUNDS; round++) {
        struct eng_session *session = NULL;
        struct eng_session_options options = {.threads = 1u + (uint32_t)(member->number % 2)};
        if (eng_session_new(member->crowd->model, &options, &session, NULL) != BASE_OK) {
            atomic_fetch_add(&member->crowd->wrong, 1);
            continue;
        }
        check_run(member->crowd, session, member->number, round);
        check_run(member->crowd, session, member->number, round + 1);
        eng_session_free(session);
    }
    return NULL;
}

static void threads_share_one_model(void **state)
{
    (void)state;
    static struct crowd crowd;
    for (int i = 0; i < INNER * COLUMNS; i++) {
        crowd.weights[i] = (float)(i * 13 % 17 - 8) / 8;
    }
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, INNER);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(INNER, COLUMNS), crowd.weights,
                     sizeof crowd.weights);
    onnx_node(kit, "MatMul", "x w", "p");
    onnx_node(kit, "Relu", "p", "y");
    onnx_output(kit, "y", ENG_F32, -1, COLUMNS);
    const struct onnx_part *part = onnx_finish(kit, 13);
    assert_int_equal(eng_model_load_memory(part->bytes, part->size, NULL, &crowd.model, NULL),
                     BASE_OK);
    assert_int_equal(pthread_barrier_init(&crowd.start, NULL, THREADS), 0);
    pthread_t threads[THREADS];
    struct member members[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){&crowd, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(crowd.wrong, 0);
    (void)pthread_barrier_destroy(&crowd.start);
    eng_model_unref(crowd.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
