// Optimizers (SGD with momentum, Adam): what a gradient does to a parameter. Called by trainer.c
// after each step, on its thread; a parameter's elements are shared among the pool's threads, in
// pieces of UPDATE_GRAIN. Not commands of the program, since they write parameters in place and
// keep moments between steps. Adam's corrections for the first steps are computed in double.
#include "train/train_step.h"

#include "base/check.h"

#include <math.h>

#define UPDATE_GRAIN 65536 // elements: fewer are not worth another thread

static void sgd(const struct eng_trainer_options *trainer_options, int64_t count,
                float *restrict data, float *restrict velocity, const float *restrict gradient)
{
    for (int64_t i = 0; i < count; i++) {
        velocity[i] = trainer_options->momentum * velocity[i] + gradient[i] +
                      trainer_options->weight_decay * data[i];
        data[i] -= trainer_options->learning_rate * velocity[i];
    }
}

static void adam(const struct eng_trainer_options *trainer_options, uint64_t step,
                 const struct eng_weight *weight, int64_t begin, int64_t end)
{
    float *restrict data = weight->data, *restrict first = weight->first;
    float *restrict second = weight->second;
    const float *restrict gradient = weight->found;
    float beta1 = trainer_options->beta1, beta2 = trainer_options->beta2;
    float decay = trainer_options->weight_decay, epsilon = trainer_options->epsilon;
    double correct1 = 1 - pow((double)beta1, (double)step);
    double correct2 = 1 - pow((double)beta2, (double)step);
    float rate = (float)((double)trainer_options->learning_rate / correct1);
    float scale = (float)(1 / sqrt(correct2));
    for (int64_t i = begin; i < end; i++) {
        float g = gradient[i] + decay * data[i];
        first[i] = beta1 * first[i] + (1 - beta1) * g;
        second[i] = beta2 * second[i] + (1 - beta2) * g * g;
        data[i] -= rate * first[i] / (sqrtf(second[i]) * scale + epsilon);
    }
}

struct update {
    const struct eng_trainer_options *options;
    uint64_t step;
    const struct eng_weight *weight;
};

static void update_range(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct update *u = ctx;
    const struct eng_weight *w = u->weight;
    if (u->options->optimizer == ENG_OPTIMIZER_ADAM) {
        adam(u->options, u->step, w, begin, end);
    } else {
        sgd(u->options, end - begin, w->data + begin, w->first + begin, w->found + begin);
    }
}

void eng_train_update(const struct eng_trainer_options *options, uint64_t step,
                      const struct eng_weight *weight, struct eng_pool *pool)
{
    struct update u = {options, step, weight};
    base_assert(step > 0 && weight->is_trained && weight->found != NULL);
    base_assert(weight->first != NULL);
    base_assert(weight->second != NULL || options->optimizer != ENG_OPTIMIZER_ADAM);
    eng_pool_for(pool, eng_desc_count(&weight->desc), UPDATE_GRAIN, update_range, &u);
}
