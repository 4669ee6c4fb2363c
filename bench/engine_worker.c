// Benchmark worker that runs a model in our engine (engine_worker MODEL INPUTS THREADS
// [OPTION...]). Options: low (precision), isa=NAME, cache=FILE, no_merge, no_fuse, no_search.
// Protocol: worker_io.h.
#include "worker_io.h"

#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ours {
    struct eng_model *model;
    struct eng_session *session;
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

static void set_inputs(struct ours *ours, const struct worker *worker)
{
    for (size_t i = 0; i < worker->input_count; i++) {
        const struct worker_input *input = &worker->inputs[i];
        int64_t index = eng_model_input_index(ours->model, input->name);
        struct eng_array array = {.data = input->data};
        array.desc.dtype = (enum eng_dtype)input->dtype;
        array.desc.rank = (uint32_t)input->rank;
        memcpy(array.desc.dims, input->dims, sizeof array.desc.dims);
        if (index < 0) {
            worker_fail("the model has no input %s", input->name);
        }
        if (eng_session_set_input(ours->session, (size_t)index, &array, &ours->error) != BASE_OK) {
            worker_fail("%s", ours->error.text);
        }
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
    for (int i = 4; i < argc; i++) {
        parse_option(&options, argv[i]);
    }
    uint64_t begin = worker_now_us();
    if (eng_model_load(argv[1], NULL, &ours.model, &ours.error) != BASE_OK ||
        eng_session_new(ours.model, &options, &ours.session, &ours.error) != BASE_OK) {
        worker_fail("%s", ours.error.text);
    }
    set_inputs(&ours, &worker);
    if (eng_session_prepare(ours.session, &ours.error) != BASE_OK) {
        worker_fail("%s", ours.error.text);
    }
    uint64_t load_us = worker_now_us() - begin;
    struct eng_session_stats stats;
    eng_session_stats(ours.session, &stats);
    worker.ctx = &ours;
    worker.run = run;
    worker.output = output;
    worker.extra = stats.isa;
    worker_serve(&worker, load_us);
    eng_session_free(ours.session);
    eng_model_unref(ours.model);
    return 0;
}
