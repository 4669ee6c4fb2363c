// Benchmark worker that runs a model in our engine (engine_worker MODEL INPUTS THREADS
// [OPTION...]). Options: low (precision), isa=NAME, cache=FILE, no_merge, no_fuse, no_search; train
// (a run is a step of training), and for that classes=N (1000) and probabilities (the model's
// output went through softmax). Protocol: worker_io.h.
#include "worker_io.h"

#include "engine/engine.h"
#include "engine/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As torch_worker.py has them.
#define TRAIN_RATE      0.00005F
#define TRAIN_MOMENTUM  0.9F
#define TRAIN_BATCH_MAX 256
#define TRAIN_CLASSES   1000

struct training {
    bool wanted, from_probabilities;
    int64_t classes;
};

struct ours {
    struct eng_model *model;
    struct eng_session *session;
    struct eng_trainer *trainer; // instead of the session
    struct eng_array arrays[WORKER_INPUTS_MAX];
    int64_t labels[TRAIN_BATCH_MAX];
    struct eng_array target;
    float loss;
    struct base_error error;
};

static int run(void *ctx)
{
    struct ours *ours = ctx;
    if (eng_session_run(ours->session, NULL, &ours->error) != BASE_OK) {
        worker_fail("%s", ours->error.text);
    }
    return 0;
}

static const void *output(void *ctx, size_t index, size_t *out_bytes)
{
    struct ours *ours = ctx;
    struct eng_array array;
    if (index >= eng_model_output_count(ours->model) ||
        eng_session_output(ours->session, index, &array, &ours->error) != BASE_OK) {
        return NULL;
    }
    *out_bytes = eng_desc_bytes(&array.desc);
    return array.data;
}

static void parse_option(struct eng_session_options *options, const char *word)
{
    if (strcmp(word, "low") == 0) {
        options->precision = ENG_PRECISION_LOW;
    } else if (strncmp(word, "isa=", 4) == 0) {
        options->isa = word + 4;
    } else if (strncmp(word, "cache=", 6) == 0) {
        options->cache_path = word + 6;
    } else if (strcmp(word, "no_merge") == 0) {
        options->no_merge = true;
    } else if (strcmp(word, "no_fuse") == 0) {
        options->no_fuse = true;
    } else if (strcmp(word, "no_search") == 0) {
        options->no_search = true;
    } else {
        worker_fail("unknown option %s", word);
    }
}

static int train(void *ctx)
{
    struct ours *ours = ctx;
    const struct eng_batch batch = {.inputs = ours->arrays,
                                    .input_count = eng_model_input_count(ours->model),
                                    .target = &ours->target};
    if (eng_trainer_step(ours->trainer, &batch, &ours->loss, &ours->error) != BASE_OK) {
        worker_fail("%s", ours->error.text);
    }
    return 0;
}

static const void *loss(void *ctx, size_t index, size_t *out_bytes)
{
    struct ours *ours = ctx;
    *out_bytes = sizeof ours->loss;
    return index == 0 ? &ours->loss : NULL;
}

// The inputs in the order of the model.
static void order_inputs(struct ours *ours, const struct worker *worker)
{
    for (size_t i = 0; i < worker->input_count; i++) {
        const struct worker_input *input = &worker->inputs[i];
        int64_t index = eng_model_input_index(ours->model, input->name);
        if (index < 0 || index >= WORKER_INPUTS_MAX) {
            worker_fail("the model has no input %s", input->name);
        }
        struct eng_array *array = &ours->arrays[index];
        array->data = input->data;
        array->desc.dtype = (enum eng_dtype)input->dtype;
        array->desc.rank = (uint32_t)input->rank;
        memcpy(array->desc.dims, input->dims, sizeof array->desc.dims);
    }
}

static void prepare_session(struct ours *ours, const struct eng_session_options *options)
{
    enum base_status status = eng_session_new(ours->model, options, &ours->session, &ours->error);
    for (size_t i = 0; status == BASE_OK && i < eng_model_input_count(ours->model); i++) {
        status = eng_session_set_input(ours->session, i, &ours->arrays[i], &ours->error);
    }
    if (status == BASE_OK) {
        status = eng_session_prepare(ours->session, &ours->error);
    }
    if (status != BASE_OK) {
        worker_fail("%s", ours->error.text);
    }
}

static void prepare_trainer(struct ours *ours, uint32_t threads, const struct training *training)
{
    struct eng_trainer_options options = {.loss = ENG_LOSS_CROSS_ENTROPY,
                                          .optimizer = ENG_OPTIMIZER_SGD,
                                          .learning_rate = TRAIN_RATE,
                                          .momentum = TRAIN_MOMENTUM,
                                          .from_probabilities = training->from_probabilities,
                                          .threads = threads};
    int64_t batch = ours->arrays[0].desc.dims[0];
    if (batch > TRAIN_BATCH_MAX) {
        worker_fail("a batch of %lld is too large", (long long)batch);
    }
    for (int64_t i = 0; i < batch; i++) {
        ours->labels[i] = (7 * i + 3) % training->classes;
    }
    ours->target = (struct eng_array){.desc = {.dtype = ENG_I64, .rank = 1, .dims = {batch}},
                                      .data = ours->labels};
    if (eng_trainer_new(ours->model, &options, &ours->trainer, &ours->error) != BASE_OK) {
        worker_fail("%s", ours->error.text);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: engine_worker MODEL INPUTS THREADS [OPTION...]\n");
        return 64;
    }
    static struct ours ours;
    static struct worker worker;
    worker_read_inputs(&worker, argv[2]);
    struct eng_session_options options = {.threads =
                                              (uint32_t)worker_number(argv[3], strlen(argv[3]))};
    struct training training = {.classes = TRAIN_CLASSES};
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "train") == 0) {
            training.wanted = true;
        } else if (strcmp(argv[i], "probabilities") == 0) {
            training.from_probabilities = true;
        } else if (strncmp(argv[i], "classes=", 8) == 0) {
            training.classes = (int64_t)worker_number(argv[i] + 8, strlen(argv[i] + 8));
        } else {
            parse_option(&options, argv[i]);
        }
    }
    uint64_t begin = worker_now_us();
    if (eng_model_load(argv[1], NULL, &ours.model, &ours.error) != BASE_OK) {
        worker_fail("%s", ours.error.text);
    }
    order_inputs(&ours, &worker);
    struct eng_session_stats stats = {0};
    if (training.wanted) {
        prepare_trainer(&ours, options.threads, &training);
    } else {
        prepare_session(&ours, &options);
        eng_session_stats(ours.session, &stats);
        worker.extra = stats.isa;
    }
    uint64_t load_us = worker_now_us() - begin;
    worker.ctx = &ours;
    worker.run = training.wanted ? train : run;
    worker.output = training.wanted ? loss : output;
    worker_serve(&worker, load_us);
    eng_trainer_free(ours.trainer);
    eng_session_free(ours.session);
    eng_model_unref(ours.model);
    return 0;
}
