// `walle-engine train`: fits a model's weights to examples in files, epoch by epoch, and writes
// them. What a step is, is the trainer's (engine/train.h); here examples are read, put in an order
// drawn from the seed, and handed over in batches.
//
// One thread besides the trainer's pool; memory from the command's arena.
#include "cli/engine_cli.h"
#include "cli/engine_train_keep.h"

#include "engine/train.h"
#include "train/train_loss.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "base/prng.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

// Examples lie along the first dimension of every input and of the target.
struct examples {
    struct eng_array *inputs; // all examples, in the order of the model's inputs
    size_t input_count;
    struct eng_array target;
    int64_t count;
    int64_t *order; // of this epoch
};

// One batch, gathered: what the trainer gets.
struct gathered {
    struct eng_array *inputs;
    struct eng_array target;
    int64_t count;
    uint32_t epoch; // that it is for, from 1 on
};

static enum base_status read_one(struct eng_cli *cli, const char *path, const char *what,
                                 struct eng_array *out, struct base_error *error)
{
    struct eng_tensor_list list;
    BASE_TRY(eng_tensor_file_read(path, ENG_VALUE_UNKNOWN, &cli->arena, &list, error));
    if (list.count != 1) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: %.80s holds %u arrays, not one", what,
                              path, list.count);
    }
    *out = list.arrays[0];
    return BASE_OK;
}

// NAME=FILE, or a FILE.npz with inputs by name; it may hold more than inputs.
static enum base_status read_input(struct eng_cli *cli, const struct eng_model *model,
                                   const char *text, struct examples *examples,
                                   struct base_error *error)
{
    const char *equals = strchr(text, '=');
    base_assert(examples->inputs != NULL);
    if (equals != NULL) {
        const char *name = base_arena_text(&cli->arena, text, (size_t)(equals - text));
        if (name == NULL) {
            return BASE_ERR_NOMEM;
        }
        int64_t index = eng_model_input_index(model, name);
        if (index < 0) {
            return base_error_set(error, BASE_ERR_NOT_FOUND, "the model has no input '%s'", name);
        }
        return read_one(cli, equals + 1, name, &examples->inputs[index], error);
    }
    struct eng_tensor_list list;
    BASE_TRY(eng_tensor_file_read(text, ENG_VALUE_UNKNOWN, &cli->arena, &list, error));
    for (uint32_t i = 0; i < list.count; i++) {
        int64_t index = eng_model_input_index(model, list.names[i]);
        if (index >= 0) {
            examples->inputs[index] = list.arrays[i];
        }
    }
    return BASE_OK;
}

static enum base_status check_rows(const struct examples *examples, const char *name,
                                   const struct eng_array *array, struct base_error *error)
{
    if (array->desc.dtype == ENG_STRING || array->desc.rank == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.80s' has no examples: it is %s", name,
                              array->desc.rank == 0 ? "one number" : "text");
    }
    if (array->desc.dims[0] != examples->count) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.80s' has %lld examples, the target %lld",
                              name, (long long)array->desc.dims[0], (long long)examples->count);
    }
    return BASE_OK;
}

static enum base_status read_examples(struct eng_cli *cli, const struct eng_model *model,
                                      struct examples *out, struct base_error *error)
{
    *out = (struct examples){.input_count = eng_model_input_count(model)};
    base_assert(cli->input_count <= ENG_CLI_LIST_MAX);
    out->inputs = base_arena_zalloc(&cli->arena, (out->input_count + 1) * sizeof *out->inputs);
    if (out->inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (cli->train.target == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "say what is right: --target FILE");
    }
    BASE_TRY(read_one(cli, cli->train.target, "target", &out->target, error));
    out->count = out->target.desc.rank > 0 ? out->target.desc.dims[0] : 0;
    if (out->count < 1) {
        return base_error_set(error, BASE_ERR_INVALID, "the target has no examples");
    }
    BASE_TRY(check_rows(out, "target", &out->target, error));
    for (uint32_t i = 0; i < cli->input_count; i++) {
        BASE_TRY(read_input(cli, model, cli->inputs[i], out, error));
    }
    for (size_t i = 0; i < out->input_count; i++) {
        const char *name = eng_model_input(model, i)->name;
        if (out->inputs[i].data == NULL) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "input '%.80s' has no examples: give --input %.80s=FILE", name,
                                  name);
        }
        BASE_TRY(check_rows(out, name, &out->inputs[i], error));
    }
    out->order = base_arena_alloc(&cli->arena, (size_t)out->count * sizeof *out->order);
    for (int64_t i = 0; out->order != NULL && i < out->count; i++) {
        out->order[i] = i;
    }
    return out->order != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// Of all examples, before the first step, by their own numbers: in a batch they have others. Of a
// model that does not say how many classes it has, a class too large shows at a step.
static enum base_status check_labels(const struct eng_cli *cli, const struct eng_model *model,
                                     const struct eng_array *target, struct base_error *error)
{
    const struct eng_port_info *output = eng_model_output(model, 0);
    int64_t classes = eng_loss_classes(cli->train.loss, &output->desc, &target->desc);
    bool known = output->has_shape && output->desc.rank > 1 && output->desc.dims[1] > 0;
    base_assert(target->data != NULL || eng_desc_count(&target->desc) == 0);
    if (classes == 0) {
        return BASE_OK;
    }
    return eng_labels_check(target, known ? classes : INT64_MAX, error);
}

// ---- Batches

static size_t row_bytes(const struct eng_array *all)
{
    base_assert(all->desc.rank > 0);
    base_assert(all->desc.dims[0] > 0);
    return eng_desc_bytes(&all->desc) / (size_t)all->desc.dims[0];
}

static enum base_status room_for(struct eng_cli *cli, const struct eng_array *all, int64_t count,
                                 struct eng_array *out)
{
    *out = *all;
    out->desc.dims[0] = count;
    out->data = base_arena_alloc(&cli->arena, row_bytes(all) * (size_t)count + 1);
    return out->data != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

static enum base_status gathered_init(struct eng_cli *cli, const struct examples *examples,
                                      struct gathered *out)
{
    int64_t most = cli->train.batch;
    *out = (struct gathered){.count = most < examples->count ? most : examples->count};
    out->inputs = base_arena_zalloc(&cli->arena, (examples->input_count + 1) * sizeof *out->inputs);
    if (out->inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < examples->input_count; i++) {
        BASE_TRY(room_for(cli, &examples->inputs[i], out->count, &out->inputs[i]));
    }
    return room_for(cli, &examples->target, out->count, &out->target);
}

static void gather_rows(const struct eng_array *all, const int64_t *rows, struct eng_array *out)
{
    size_t bytes = row_bytes(all);
    for (int64_t i = 0; i < out->desc.dims[0]; i++) {
        memcpy((char *)out->data + (size_t)i * bytes,
               (const char *)all->data + (size_t)rows[i] * bytes, bytes);
    }
}

static void gather(const struct examples *examples, int64_t first, struct gathered *out)
{
    base_assert(first >= 0 && first + out->count <= examples->count);
    for (size_t i = 0; i < examples->input_count; i++) {
        gather_rows(&examples->inputs[i], examples->order + first, &out->inputs[i]);
    }
    gather_rows(&examples->target, examples->order + first, &out->target);
}

static void shuffle(int64_t *order, int64_t count, struct base_prng *prng)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = (int64_t)base_prng_below(prng, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

// ---- Epochs

// What does not fill a batch is left out of this epoch; the order of the next one is another.
// INVALID: a loss that is no number.
static enum base_status run_epoch(struct eng_trainer *trainer, const struct examples *examples,
                                  struct gathered *batch, double *out_loss,
                                  struct base_error *error)
{
    const struct eng_batch given = {
        .inputs = batch->inputs,
        .input_count = examples->input_count,
        .target = &batch->target,
    };
    int64_t steps = examples->count / batch->count;
    double sum = 0;
    base_assert(steps > 0);
    for (int64_t i = 0; i < steps; i++) {
        gather(examples, i * batch->count, batch);
        float loss = 0;
        enum base_status status = eng_trainer_step(trainer, &given, &loss, error);
        if (!isfinite(loss)) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "epoch %u, step %lld: the loss is %g, and nothing is written: "
                                  "see to the examples, or a lower --rate",
                                  batch->epoch, (long long)i + 1, (double)loss);
        }
        if (status != BASE_OK) {
            return status;
        }
        sum += (double)loss;
    }
    *out_loss = sum / (double)steps;
    return BASE_OK;
}

static enum base_status run_epochs(struct eng_cli *cli, struct eng_trainer *trainer,
                                   struct examples *examples, struct base_error *error)
{
    const struct eng_cli_train *train = &cli->train;
    struct gathered batch;
    BASE_TRY(gathered_init(cli, examples, &batch));
    struct base_prng prng;
    base_prng_seed(&prng, train->seed);
    base_assert(batch.count > 0 && batch.count <= examples->count);
    uint64_t steps = (uint64_t)(examples->count / batch.count);
    uint64_t done = 0;
    if (train->checkpoint != NULL) {
        base_output_sweep(train->checkpoint);
        BASE_TRY(eng_cli_checkpoint_read(trainer, train->checkpoint, &done, error));
    }
    if (done % steps != 0 || done / steps > train->epochs) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--checkpoint %.80s: it is of other examples, batches or epochs",
                              train->checkpoint);
    }
    for (uint32_t i = 0; i < train->epochs; i++) {
        if (i < done / steps) { // its order is the next one's beginning
            shuffle(examples->order, examples->count, &prng);
            continue;
        }
        float left = train->decays ? 1 - (float)i / (float)train->epochs : 1;
        BASE_TRY(eng_trainer_set_learning_rate(trainer, train->rate * left));
        shuffle(examples->order, examples->count, &prng);
        uint64_t begin_ns = eng_cli_now_ns();
        double loss = 0;
        batch.epoch = i + 1;
        BASE_TRY(run_epoch(trainer, examples, &batch, &loss, error));
        printf("epoch %u of %u: loss %.6f, %.1f s\n", i + 1, train->epochs, loss,
               (double)(eng_cli_now_ns() - begin_ns) / 1e9);
        (void)fflush(stdout);
        if (train->checkpoint != NULL) {
            BASE_TRY(eng_cli_checkpoint_write(trainer, train->checkpoint, error));
        }
    }
    return BASE_OK;
}

// What the last step made is in no loss.
static enum base_status check_weights(const struct eng_trainer *trainer, struct base_error *error)
{
    struct eng_parameter parameter;
    for (size_t p = 0; eng_trainer_parameter(trainer, p, &parameter); p++) {
        const float *values = parameter.value.data;
        int64_t count = parameter.is_frozen ? 0 : eng_desc_count(&parameter.value.desc);
        for (int64_t i = 0; i < count; i++) {
            if (isnan(values[i])) {
                return base_error_set(error, BASE_ERR_INVALID,
                                      "weight '%.80s' is no number after the last step, so none is "
                                      "written: see to the examples, or a lower --rate",
                                      parameter.name);
            }
        }
    }
    return BASE_OK;
}

// Asked before the first epoch, so that none is lost for a name: can the weights be written there?
// A file beside it is made and goes again, nothing that is there is touched.
static enum base_status check_output(const char *path, struct base_error *error)
{
    struct base_output_file probe;
    struct stat about;
    if (path == NULL) {
        fputs("walle-engine: no --output: the weights will not be kept\n", stderr);
        return BASE_OK;
    }
    size_t size = strlen(path);
    if ((size < 4 || strcmp(path + size - 4, ".npz") != 0) && !eng_cli_is_model(path)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--output: %.100s: weights go to a file that ends in .npz, a model "
                              "to one in .onnx",
                              path);
    }
    if (lstat(path, &about) == 0 && S_ISFIFO(about.st_mode)) {
        return BASE_OK; // whoever reads it would take the probe's end for that of the weights
    }
    BASE_TRY(base_output_open(&probe, path, error));
    base_assert(probe.file != NULL);
    // An end that is not well keeps what was there.
    return base_output_close(&probe, BASE_ERR_CLOSED, NULL) == BASE_ERR_CLOSED ? BASE_OK
                                                                               : BASE_ERR_BUG;
}

static enum base_status train_all(struct eng_cli *cli, struct eng_model *model,
                                  struct eng_trainer *trainer, struct base_error *error)
{
    struct examples examples;
    BASE_TRY(check_output(cli->output, error));
    BASE_TRY(read_examples(cli, model, &examples, error));
    BASE_TRY(check_labels(cli, model, &examples.target, error));
    if (cli->train.weights != NULL) {
        BASE_TRY(eng_trainer_load(trainer, cli->train.weights, error));
    }
    BASE_TRY(run_epochs(cli, trainer, &examples, error));
    BASE_TRY(check_weights(trainer, error));
    if (eng_cli_is_model(cli->output)) {
        return eng_cli_export(trainer, cli->words[0], cli->output, error);
    }
    return cli->output != NULL ? eng_trainer_save(trainer, cli->output, error) : BASE_OK;
}

int eng_cli_train(struct eng_cli *cli)
{
    base_assert(cli->word_count == 1);
    base_assert(cli->train.epochs > 0 && cli->train.batch > 0);
    // What is folded into a convolution is no weight of the file, and moves no statistics.
    const struct eng_model_options loading = {.keep_batch_norm = eng_cli_is_model(cli->output) ||
                                                                 cli->train.batch_statistics};
    struct eng_model *model = eng_cli_model(cli->words[0], &loading);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    const struct eng_trainer_options options = {
        .loss = cli->train.loss,
        .optimizer = cli->train.optimizer,
        .momentum = cli->train.momentum,
        .batch_statistics = cli->train.batch_statistics,
        .frozen = cli->train.frozen,
        .frozen_count = cli->train.frozen_count,
        .trained = cli->train.trained,
        .trained_count = cli->train.trained_count,
        .learning_rate = cli->train.rate,
        .threads = cli->session.threads,
        .isa = cli->session.isa,
    };
    struct eng_trainer *trainer = NULL;
    struct base_error error = {0};
    error.status = eng_trainer_new(model, &options, &trainer, &error);
    if (error.status == BASE_OK) {
        error.status = train_all(cli, model, trainer, &error);
    }
    int code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    eng_trainer_free(trainer);
    eng_model_unref(model);
    return code;
}
