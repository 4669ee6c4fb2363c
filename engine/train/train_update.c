// Optimizers: what a gradient does to a parameter. Called by the trainer after each step.
#include "train/train_step.h"

#include <math.h>

static void sgd(const struct eng_trainer_options *o, int64_t count, float *data, float *velocity,
                const float *gradient)
{
    for (int64_t i = 0; i < count; i++) {
        velocity[i] = o->momentum * velocity[i] + gradient[i] + o->weight_decay * data[i];
        data[i] -= o->learning_rate * velocity[i];
    }
}

static void adam(const struct eng_trainer_options *o, uint64_t step, int64_t count, float *data,
                 float *first, float *second, const float *gradient)
{
    double correct1 = 1 - pow((double)o->beta1, (double)step);
    double correct2 = 1 - pow((double)o->beta2, (double)step);
    float rate = (float)((double)o->learning_rate / correct1);
    float scale = (float)(1 / sqrt(correct2));
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] + o->weight_decay * data[i];
        first[i] = o->beta1 * first[i] + (1 - o->beta1) * g;
        second[i] = o->beta2 * second[i] + (1 - o->beta2) * g * g;
        data[i] -= rate * first[i] / (sqrtf(second[i]) * scale + o->epsilon);
    }
}

void eng_train_update(const struct eng_trainer_options *options, uint64_t step, int64_t count,
                      float *data, float *first, float *second, const float *gradient)
{
    if (options->optimizer == ENG_OPTIMIZER_ADAM) {
        adam(options, step, count, data, first, second, gradient);
    } else {
        sgd(options, count, data, first, gradient);
    }
}
