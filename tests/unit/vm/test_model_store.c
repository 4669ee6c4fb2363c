// The store of models: loaded once, shared, bounded; what was used longest ago makes room, what is
// held stays; sessions wait for the next run of the same shapes.
#include "nn_models.h"

#include "base/clock.h"
#include "model/model_store.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MEMORY_MAX ((size_t)64 << 20)

static struct dev_model_store *store;
static struct nn_model models[4];
static struct base_error error;

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(models); i++) {
        nn_add_relu(&models[i], (float)i);
    }
    return 0;
}

static void open_store(size_t bytes_max)
{
    assert_int_equal(dev_model_store_new(bytes_max, &store), BASE_OK);
}

static void close_store(void)
{
    assert_int_equal(dev_model_store_validate(store), BASE_OK);
    dev_model_store_free(store);
}

static enum base_status get(const struct nn_model *model, struct dev_model **out_model)
{
    const struct dev_model_file file = {&model->digest, model->bytes, model->size, NULL};
    error = (struct base_error){0};
    return dev_model_store_get(store, &file, out_model, &error);
}

static struct dev_model *must_get(const struct nn_model *model)
{
    struct dev_model *got = NULL;
    if (get(model, &got) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(dev_model_store_validate(store), BASE_OK);
    return got;
}

static struct dev_model_store_stats stats(void)
{
    struct dev_model_store_stats now;
    dev_model_store_stats(store, &now);
    return now;
}

static enum base_status take(struct dev_model *model, size_t memory, uint64_t key,
                             struct eng_session **out_session)
{
    struct dev_model_plan plan = {.memory_bytes_max = memory, .key = key};
    return dev_model_session_take(model, &plan, out_session, NULL);
}

static void give(struct dev_model *model, struct eng_session *session, struct dev_model_plan plan,
                 bool reusable)
{
    dev_model_session_give(model, session, &plan, reusable);
}

// Runs x = (1, 1, 1) a few rows high and gives the session back.
static void run_once(struct dev_model *model, int64_t rows, float shift)
{
    float x[64];
    struct eng_session *session = NULL;
    struct eng_array array = {{.dtype = ENG_F32, .rank = 2, .dims = {rows, 3}}, x};
    for (size_t i = 0; i < TEST_COUNT(x); i++) {
        x[i] = 1;
    }
    assert_int_equal(take(model, MEMORY_MAX, (uint64_t)rows, &session), BASE_OK);
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_OK);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_OK);
    assert_int_equal(eng_session_output(session, 0, &array, &error), BASE_OK);
    const float want[3] = {2 + shift, -1 + shift > 0 ? -1 + shift : 0, 4 + shift};
    for (int64_t i = 0; i < rows * 3; i++) {
        assert_float_equal(((const float *)array.data)[i], want[i % 3], 1e-6);
    }
    give(model, session,
         (struct dev_model_plan){.memory_bytes_max = MEMORY_MAX, .key = (uint64_t)rows}, true);
    assert_int_equal(dev_model_store_validate(store), BASE_OK);
}

static void a_model_is_loaded_once_and_copied(void **state)
{
    (void)state;
    open_store(0);
    struct nn_model gone = models[0];
    struct dev_model *a = must_get(&gone);
    memset(gone.bytes, 0xee, sizeof(gone.bytes)); // a run's mapping ends with the run
    struct dev_model *b = must_get(&models[0]);
    assert_ptr_equal(a, b);
    assert_int_equal(stats().loads, 1);
    assert_int_equal(stats().held, 1);
    run_once(b, 2, 0);
    dev_model_unref(a);
    dev_model_unref(b);
    assert_int_equal(stats().held, 0);
    assert_int_equal(stats().models, 1); // it waits for the next run
    a = must_get(&models[0]);
    assert_int_equal(stats().loads, 1);
    struct dev_model *other = must_get(&models[1]);
    assert_ptr_not_equal(a, other);
    run_once(other, 1, 1);
    dev_model_unref(a);
    dev_model_unref(other);
    dev_model_unref(NULL);
    close_store();
    dev_model_store_free(NULL);
}

static void sessions_wait_for_their_shapes(void **state)
{
    (void)state;
    open_store(0);
    struct dev_model *model = must_get(&models[0]);
    run_once(model, 2, 0);
    run_once(model, 2, 0);
    assert_int_equal(stats().sessions, 1);
    run_once(model, 3, 0);
    assert_int_equal(stats().sessions, 2);
    run_once(model, 2, 0);
    run_once(model, 3, 0);
    assert_int_equal(stats().sessions, 2);
    assert_int_equal(stats().idle, 2);
    for (int64_t rows = 4; rows < 4 + DEV_MODEL_IDLE_MAX; rows++) {
        run_once(model, rows, 0);
    }
    assert_int_equal(stats().idle, DEV_MODEL_IDLE_MAX);
    assert_int_equal(stats().sessions_gone, 2);
    dev_model_unref(model);
    close_store();
}

// Sessions of another limit, broken ones and those of graphs cut by contents do not wait.
static void some_sessions_do_not_wait(void **state)
{
    (void)state;
    static struct nn_model cut;
    nn_nonzero(&cut);
    open_store(0);
    struct dev_model *model = must_get(&cut);
    float x[3] = {1, 0, 2};
    struct eng_array array = {{.dtype = ENG_F32, .rank = 1, .dims = {3}}, x};
    struct eng_session *session = NULL;
    assert_int_equal(take(model, MEMORY_MAX, 1, &session), BASE_OK);
    assert_int_equal(eng_session_set_input(session, 0, &array, &error), BASE_OK);
    assert_int_equal(eng_session_run(session, NULL, &error), BASE_OK);
    give(model, session, (struct dev_model_plan){.memory_bytes_max = MEMORY_MAX, .key = 1}, true);
    assert_int_equal(stats().idle, 0);
    dev_model_unref(model);
    model = must_get(&models[0]);
    run_once(model, 1, 0);
    assert_int_equal(stats().idle, 1);
    assert_int_equal(take(model, MEMORY_MAX / 2, 1, &session), BASE_OK);
    assert_int_equal(stats().idle, 1);
    give(model, session, (struct dev_model_plan){.memory_bytes_max = MEMORY_MAX / 2, .key = 1},
         false);
    assert_int_equal(stats().idle, 1);
    dev_model_unref(model);
    close_store();
}

static enum base_status into(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                             struct base_error *out_error)
{
    (void)index;
    (void)out_error;
    assert_true(eng_desc_bytes(desc) <= 3 * sizeof(float));
    *out_at = ctx;
    return BASE_OK;
}

// What was planned ahead waits for a call of the declared shape, [n, 3] with n as 1; of a graph
// that contents cut, the first piece, and for one call.
static void a_session_is_planned_ahead(void **state)
{
    (void)state;
    static struct nn_model cut;
    float x[3] = {1, 1, 1};
    float y[3] = {0};
    const uint8_t wanted[1] = {0};
    const struct eng_array input = {{.dtype = ENG_F32, .rank = 2, .dims = {1, 3}}, x};
    struct dev_model_call call = {.inputs = &input,
                                  .input_count = 1,
                                  .wanted = wanted,
                                  .wanted_count = 1,
                                  .memory_bytes_max = MEMORY_MAX,
                                  .place = {into, y}};
    nn_nonzero(&cut);
    open_store(0);
    struct dev_model *model = must_get(&models[0]);
    dev_model_warm(model, MEMORY_MAX);
    assert_int_equal(stats().idle, 1);
    assert_int_equal(dev_model_run(model, &call, &error), BASE_OK);
    assert_float_equal(y[0], 2, 1e-6);
    assert_float_equal(y[2], 4, 1e-6);
    assert_int_equal(stats().sessions, 1); // the same
    assert_int_equal(stats().idle, 1);
    struct dev_model *other = must_get(&cut);
    dev_model_warm(other, MEMORY_MAX);
    const struct eng_array one = {{.dtype = ENG_F32, .rank = 1, .dims = {1}}, x};
    call.inputs = &one;
    assert_int_equal(dev_model_run(other, &call, &error), BASE_OK);
    assert_int_equal(stats().idle, 1); // that of the first model
    dev_model_unref(model);
    dev_model_unref(other);
    close_store();
}

static void the_oldest_makes_room(void **state)
{
    (void)state;
    size_t one = models[0].size;
    open_store(one * 2 + one / 2);
    struct dev_model *a = must_get(&models[0]);
    struct dev_model *b = must_get(&models[1]);
    struct dev_model *c = NULL;
    assert_int_equal(get(&models[2], &c), BASE_ERR_LIMIT); // both are held
    assert_non_null(strstr(error.text, "in use"));
    assert_int_equal(stats().models, 2);
    dev_model_unref(b);
    dev_model_unref(a);
    c = must_get(&models[2]); // b was used longest ago
    assert_int_equal(stats().models_gone, 1);
    dev_model_unref(must_get(&models[0]));
    assert_int_equal(stats().loads, 3);
    dev_model_unref(c);
    dev_model_unref(must_get(&models[1]));
    assert_int_equal(stats().loads, 4);
    assert_true(stats().bytes <= one * 2 + one / 2);
    close_store();
    open_store(one - 1);
    assert_int_equal(get(&models[0], &a), BASE_ERR_TOO_LARGE);
    assert_int_equal(stats().models, 0);
    close_store();
}

// Waiting sessions go before the models they belong to when these were used later.
static void sessions_make_room_for_models(void **state)
{
    (void)state;
    open_store(0);
    struct dev_model *a = must_get(&models[0]);
    run_once(a, 1, 0);
    size_t full = stats().bytes;
    dev_model_unref(a);
    close_store();
    open_store(full);
    a = must_get(&models[0]);
    run_once(a, 1, 0);
    struct dev_model *b = must_get(&models[1]);
    assert_int_equal(stats().idle, 0);
    assert_int_equal(stats().sessions_gone, 1);
    dev_model_unref(a);
    dev_model_unref(b);
    close_store();
}

static void a_trim_takes_what_is_not_in_use(void **state)
{
    (void)state;
    open_store(0);
    struct dev_model *a = must_get(&models[0]);
    run_once(a, 1, 0);
    dev_model_unref(must_get(&models[1]));
    size_t full = stats().bytes;
    dev_model_store_trim(store, full);
    assert_int_equal(stats().bytes, full);
    dev_model_store_trim(store, full - 1); // the session was used longest ago
    assert_int_equal(stats().idle, 0);
    assert_int_equal(stats().models, 2);
    dev_model_store_trim(store, 0);
    assert_int_equal(stats().models, 1); // it is held
    run_once(a, 1, 0);
    dev_model_unref(a);
    dev_model_store_trim(store, 0);
    assert_int_equal(stats().bytes, 0);
    assert_int_equal(stats().models, 0);
    close_store();
}

static void damaged_models_are_refused(void **state)
{
    (void)state;
    static struct nn_model bad;
    struct dev_model *got = NULL;
    nn_unknown(&bad);
    open_store(0);
    assert_int_equal(get(&bad, &got), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "Frobnicate"));
    for (size_t cut = 0; cut < models[0].size; cut += 7) {
        bad = models[0];
        bad.size = cut;
        nn_model_digest(&bad);
        enum base_status status = get(&bad, &got);
        if (status == BASE_OK) { // a cut may fall between two fields
            dev_model_unref(got);
        }
        assert_true(status == BASE_OK || error.text[0] != '\0');
    }
    struct dev_model_store_stats now = stats();
    assert_int_equal(now.held, 0);
    close_store();
}

// --- threads

#define THREADS 8
#define ROUNDS  200

struct user {
    pthread_t thread;
    uint32_t seed;
    uint32_t wrong;
};

static bool use(struct dev_model *model, int64_t rows, float shift)
{
    float x[12];
    struct eng_session *session = NULL;
    struct eng_array array = {{.dtype = ENG_F32, .rank = 2, .dims = {rows, 3}}, x};
    for (size_t i = 0; i < TEST_COUNT(x); i++) {
        x[i] = 1;
    }
    if (take(model, MEMORY_MAX, (uint64_t)rows, &session) != BASE_OK) {
        return false;
    }
    bool good = eng_session_set_input(session, 0, &array, NULL) == BASE_OK &&
                eng_session_run(session, NULL, NULL) == BASE_OK &&
                eng_session_output(session, 0, &array, NULL) == BASE_OK &&
                ((const float *)array.data)[0] == 2 + shift;
    give(model, session,
         (struct dev_model_plan){.memory_bytes_max = MEMORY_MAX, .key = (uint64_t)rows}, good);
    return good;
}

static void *user_main(void *argument)
{
    struct user *user = argument;
    struct base_prng random;
    base_prng_seed(&random, user->seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t which = base_prng_below(&random, TEST_COUNT(models));
        const struct nn_model *from = &models[which];
        const struct dev_model_file file = {&from->digest, from->bytes, from->size, NULL};
        struct dev_model *model = NULL;
        enum base_status status = dev_model_store_get(store, &file, &model, NULL);
        if (status == BASE_ERR_LIMIT) {
            continue; // the others hold everything
        }
        if (status != BASE_OK ||
            !use(model, 1 + (int64_t)base_prng_below(&random, 4), (float)which)) {
            user->wrong++;
        }
        dev_model_unref(model);
    }
    return NULL;
}

static void threads_share_a_store(void **state)
{
    (void)state;
    static struct user users[THREADS];
    open_store(models[0].size * 3); // so that models come and go
    for (uint32_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.seed = 100 + i};
        assert_int_equal(pthread_create(&users[i].thread, NULL, user_main, &users[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        assert_int_equal(users[i].wrong, 0);
    }
    assert_int_equal(stats().held, 0);
    close_store();
}

static void threads_wait_for_one_load(void **state)
{
    (void)state;
    static struct user users[THREADS];
    open_store(0);
    for (uint32_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.seed = 7}; // all of them ask for the same models
        assert_int_equal(pthread_create(&users[i].thread, NULL, user_main, &users[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        assert_int_equal(users[i].wrong, 0);
    }
    assert_int_equal(stats().loads, TEST_COUNT(models));
    close_store();
}

static bool hashed(void *ctx, struct base_span bytes, const struct eng_run_options *go_on,
                   struct wire_sha256 *out)
{
    nn_sha256(ctx, bytes.data, bytes.size, out);
    return dev_model_may_go_on(go_on);
}

// The store's own copy is hashed, once; what is damaged is told, and its name is free for the right
// bytes.
static void files_are_proven(void **state)
{
    (void)state;
    const struct dev_model_hasher hasher = {.sha256 = hashed};
    struct nn_model damaged = models[0];
    struct dev_model *model = NULL;
    damaged.bytes[damaged.size / 2] ^= 1;
    damaged.digest = models[0].digest;
    open_store(0);
    dev_model_store_prove(store, &hasher);
    assert_int_equal(get(&damaged, &model), BASE_ERR_HASH);
    assert_int_equal(stats().damaged, 1);
    struct wire_sha256 last = stats().last_damaged;
    assert_true(wire_sha256_equal(&last, &models[0].digest));
    model = must_get(&models[0]);
    assert_int_equal(get(&damaged, &model), BASE_OK); // the copy that is there is used
    dev_model_unref(model);
    dev_model_unref(model);
    close_store();
}

static enum base_status get_within(const struct nn_model *model,
                                   const struct eng_run_options *limits,
                                   struct dev_model **out_model)
{
    const struct dev_model_file file = {&model->digest, model->bytes, model->size, limits};
    error = (struct base_error){0};
    return dev_model_store_get(store, &file, out_model, &error);
}

// Whatever part of a load the limits end, nothing is left of it, and the next one loads.
static void a_load_ends_with_its_limits(void **state)
{
    (void)state;
    _Atomic(bool) stop = true;
    const struct eng_run_options stopped = {.stop = &stop};
    const struct eng_run_options late = {.deadline_us = 1};
    struct dev_model *model = NULL;
    open_store(0);
    assert_int_equal(get_within(&models[0], &stopped, &model), BASE_ERR_TIMEOUT);
    assert_int_equal(get_within(&models[0], &late, &model), BASE_ERR_TIMEOUT);
    assert_null(model);
    assert_int_equal(stats().models, 0);
    assert_int_equal(stats().bytes, 0);
    model = must_get(&models[0]);
    struct dev_model *again = NULL;
    assert_int_equal(get_within(&models[0], &late, &again), BASE_OK); // it is there
    dev_model_unref(again);
    dev_model_unref(model);
    close_store();
}

// Ends the load in which it hashes, once.
struct brake {
    _Atomic(bool) stop;
    _Atomic(int) hashes;
    _Atomic(bool) go;
};

static bool hash_and_stop(void *ctx, struct base_span bytes, const struct eng_run_options *go_on,
                          struct wire_sha256 *out)
{
    struct brake *brake = ctx;
    nn_sha256(NULL, bytes.data, bytes.size, out);
    if (brake->hashes++ > 0) {
        return dev_model_may_go_on(go_on);
    }
    while (!brake->go) { // until the other waits
        sched_yield();
    }
    brake->stop = true;
    return dev_model_may_go_on(go_on);
}

static void *impatient_main(void *ctx)
{
    struct brake *brake = ctx;
    const struct eng_run_options limits = {.stop = &brake->stop};
    const struct dev_model_file file = {&models[1].digest, models[1].bytes, models[1].size,
                                        &limits};
    struct dev_model *model = NULL;
    return dev_model_store_get(store, &file, &model, NULL) == BASE_ERR_TIMEOUT ? ctx : NULL;
}

// Who waits for a load that another's limits end loads it then; who waits longer than it may,
// leaves.
static void who_waits_has_its_own_limits(void **state)
{
    (void)state;
    struct brake brake = {.stop = false};
    const struct dev_model_hasher hasher = {.ctx = &brake, .sha256 = hash_and_stop};
    const struct eng_run_options late = {.deadline_us = 1};
    const struct eng_run_options patient = {.deadline_us = base_clock_mono_us() + 600000000};
    struct dev_model *model = NULL;
    pthread_t thread;
    void *ended = NULL;
    open_store(0);
    dev_model_store_prove(store, &hasher);
    assert_int_equal(pthread_create(&thread, NULL, impatient_main, &brake), 0);
    while (brake.hashes == 0) {
        sched_yield();
    }
    assert_int_equal(get_within(&models[1], &late, &model), BASE_ERR_TIMEOUT); // the other loads
    assert_int_equal(stats().models, 1);
    brake.go = true;
    assert_int_equal(get_within(&models[1], &patient, &model), BASE_OK);
    assert_int_equal(pthread_join(thread, &ended), 0);
    assert_ptr_equal(ended, &brake);
    assert_int_equal(stats().loads, 2);
    dev_model_unref(model);
    close_store();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_loaded_once_and_copied),
        cmocka_unit_test(sessions_wait_for_their_shapes),
        cmocka_unit_test(some_sessions_do_not_wait),
        cmocka_unit_test(a_session_is_planned_ahead),
        cmocka_unit_test(the_oldest_makes_room),
        cmocka_unit_test(sessions_make_room_for_models),
        cmocka_unit_test(a_trim_takes_what_is_not_in_use),
        cmocka_unit_test(damaged_models_are_refused),
        cmocka_unit_test(files_are_proven),
        cmocka_unit_test(a_load_ends_with_its_limits),
        cmocka_unit_test(who_waits_has_its_own_limits),
        cmocka_unit_test(threads_share_a_store),
        cmocka_unit_test(threads_wait_for_one_load),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
