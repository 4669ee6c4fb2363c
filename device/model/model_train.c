// Trainers of the store's models, as the table a script VM is given (model/train_port.h). A trainer
// has one thread and a graph of its own: the store's has BatchNormalization folded away, and what
// was folded is no parameter of the file. On the thread of the VM that asks.
#include "model/train_port.h"

#include "model/model_store.h"

#include "base/check.h"

static enum base_status trainer_make(const struct dev_model *model,
                                     const struct dev_train_want *want,
                                     struct eng_trainer **out_trainer, struct base_error *error)
{
    const struct eng_model_options loading = {.keep_batch_norm = true, .limits = &want->limits};
    struct base_span file = dev_model_bytes(model);
    struct eng_model *engine = NULL;
    BASE_TRY(eng_model_load_memory(file.data, file.size, &loading, &engine, error));
    enum base_status status = eng_trainer_new(engine, want->options, out_trainer, error);
    eng_model_unref(engine); // the trainer has its own reference
    return status;
}

static enum base_status outputs_copy(const struct eng_trainer *trainer,
                                     const struct dev_train_call *call, size_t count,
                                     struct base_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct eng_array array;
        BASE_TRY(eng_trainer_output(trainer, i, &array, error));
        BASE_TRY(dev_model_result_copy(&call->place, i, &array, error));
    }
    return BASE_OK;
}

static enum base_status call_run(struct eng_trainer *trainer, struct dev_train_call *call,
                                 struct base_error *error)
{
    switch (call->kind) {
    case DEV_TRAIN_STEP:
        return eng_trainer_step(trainer, &call->batch, &call->loss, error);
    case DEV_TRAIN_EVALUATE:
        return eng_trainer_evaluate(trainer, &call->batch, &call->loss, error);
    default:
        BASE_TRY(eng_trainer_predict(trainer, &call->batch, error));
        return outputs_copy(trainer, call, eng_trainer_output_count(trainer), error);
    }
}

static enum base_status trainer_call(struct eng_trainer *trainer, struct dev_train_call *call,
                                     struct base_error *error)
{
    struct eng_trainer_stats stats;
    eng_trainer_set_memory_max(trainer, call->memory_bytes_max);
    enum base_status status = call_run(trainer, call, error);
    eng_trainer_stats(trainer, &stats);
    call->work = stats.work;
    return status;
}

static enum base_status export_bytes(const struct dev_model *model,
                                     const struct eng_trainer *trainer, size_t *out_bytes,
                                     struct base_error *error)
{
    struct base_span file = dev_model_bytes(model);
    return eng_trainer_export_bytes(trainer, file.data, file.size, out_bytes, error);
}

static enum base_status export_file(const struct dev_model *model,
                                    const struct eng_trainer *trainer, void *bytes,
                                    struct base_error *error)
{
    struct base_span file = dev_model_bytes(model);
    return eng_trainer_export(trainer, file.data, file.size, bytes, error);
}

const struct dev_train_port dev_model_train_port = {
    .make = trainer_make,
    .free = eng_trainer_free,
    .call = trainer_call,
    .stats = eng_trainer_stats,
    .parameter = eng_trainer_parameter,
    .set_learning_rate = eng_trainer_set_learning_rate,
    .state_bytes = eng_trainer_state_bytes,
    .state_write = eng_trainer_state_write,
    .state_read = eng_trainer_state_read,
    .export_bytes = export_bytes,
    .export = export_file,
};
