// Example: scores many (user, item) pairs on two threads that share one model.
//
//   score_pairs MODEL.onnx USERS.f32 ITEMS.f32
//
// The model has inputs "user" and "item", both float [pairs, width], and one output with a score a
// pair. The files hold as many rows of raw float32 numbers as there are pairs. Each thread has a
// session of its own; weights are in memory once. Runs get a deadline, as in a service that
// answers late or not at all.
#include "engine/engine.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS     2
#define DEADLINE_US 2000000u
#define BYTES_MAX   ((size_t)256 << 20)

struct job {
    struct eng_model *model;
    const float *users;
    const float *items;
    float *scores;
    int64_t pairs, width;
    struct base_error error;
    enum base_status status;
};

static enum base_status set_rows(struct job *job, struct eng_session *session, const char *name,
                                 const float *rows)
{
    int64_t index = eng_model_input_index(job->model, name);
    if (index < 0) {
        return base_error_set(&job->error, BASE_ERR_NOT_FOUND, "the model has no input '%s'", name);
    }
    struct eng_array array = {
        {.dtype = ENG_F32, .rank = 2, .dims = {job->pairs, job->width}},
        (void *)(uintptr_t)rows, // only read
    };
    return eng_session_set_input(session, (size_t)index, &array, &job->error);
}

static enum base_status score(struct job *job, struct eng_session *session)
{
    BASE_TRY(set_rows(job, session, "user", job->users));
    BASE_TRY(set_rows(job, session, "item", job->items));
    struct eng_run_options options = {.deadline_us = base_clock_mono_us() + DEADLINE_US};
    BASE_TRY(eng_session_run(session, &options, &job->error));
    struct eng_array output;
    BASE_TRY(eng_session_output(session, 0, &output, &job->error));
    if (output.desc.dtype != ENG_F32 || eng_desc_count(&output.desc) != job->pairs) {
        return base_error_set(&job->error, BASE_ERR_INVALID, "the output is not a score a pair");
    }
    for (int64_t i = 0; i < job->pairs; i++) {
        job->scores[i] = ((const float *)output.data)[i];
    }
    return BASE_OK;
}

static void *work(void *ctx)
{
    struct job *job = ctx;
    struct eng_session *session = NULL;
    job->status = eng_session_new(job->model, NULL, &session, &job->error);
    if (job->status == BASE_OK) {
        job->status = score(job, session);
    }
    eng_session_free(session);
    return NULL;
}

// Reads a whole file of floats; the caller frees it.
static float *read_floats(const char *path, size_t *out_count)
{
    FILE *file = fopen(path, "rb");
    float *numbers = malloc(BYTES_MAX);
    size_t count = 0;
    if (file != NULL && numbers != NULL) {
        count = fread(numbers, sizeof *numbers, BYTES_MAX / sizeof *numbers, file);
    } else {
        fprintf(stderr, "score_pairs: %s: cannot be read\n", path);
    }
    if (file != NULL) {
        fclose(file);
    }
    *out_count = count;
    return numbers;
}

// Splits the pairs over the threads; true when every part was scored.
static bool score_all(struct job whole)
{
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    bool is_started[THREADS];
    bool is_good = true;
    for (int64_t i = 0; i < THREADS; i++) {
        int64_t begin = whole.pairs * i / THREADS;
        int64_t end = whole.pairs * (i + 1) / THREADS;
        jobs[i] = whole;
        jobs[i].users += begin * whole.width;
        jobs[i].items += begin * whole.width;
        jobs[i].scores += begin;
        jobs[i].pairs = end - begin;
        is_started[i] = pthread_create(&threads[i], NULL, work, &jobs[i]) == 0;
        is_good = is_good && is_started[i];
    }
    for (int i = 0; i < THREADS; i++) {
        if (is_started[i]) {
            (void)pthread_join(threads[i], NULL);
        }
        if (is_started[i] && jobs[i].status != BASE_OK) {
            fprintf(stderr, "score_pairs: %s\n", jobs[i].error.text);
            is_good = false;
        }
    }
    return is_good;
}

static int run(struct eng_model *model, const char *users_path, const char *items_path)
{
    size_t user_count = 0;
    size_t item_count = 0;
    float *users = read_floats(users_path, &user_count);
    float *items = read_floats(items_path, &item_count);
    int64_t input = eng_model_input_index(model, "user");
    int64_t width = input < 0 ? 0 : eng_model_input(model, (size_t)input)->desc.dims[1];
    float *scores = NULL;
    int code = 1;
    if (width < 1 || user_count == 0 || user_count != item_count ||
        user_count % (size_t)width != 0) {
        fprintf(stderr, "score_pairs: rows of users and items do not fit the model\n");
    } else {
        int64_t pairs = (int64_t)user_count / width;
        scores = calloc((size_t)pairs, sizeof *scores);
        if (scores != NULL && score_all((struct job){.model = model,
                                                     .users = users,
                                                     .items = items,
                                                     .scores = scores,
                                                     .pairs = pairs,
                                                     .width = width})) {
            for (int64_t i = 0; i < pairs; i++) {
                printf("%lld %.6f\n", (long long)i, (double)scores[i]);
            }
            code = 0;
        }
    }
    free(scores);
    free(users);
    free(items);
    return code;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: score_pairs MODEL.onnx USERS.f32 ITEMS.f32\n");
        return 2;
    }
    struct base_error error = {0};
    struct eng_model *model = NULL;
    if (eng_model_load(argv[1], NULL, &model, &error) != BASE_OK) {
        fprintf(stderr, "score_pairs: %s\n", error.text);
        return 1;
    }
    int code = run(model, argv[2], argv[3]);
    eng_model_unref(model);
    return code;
}
