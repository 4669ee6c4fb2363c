// Random contents: uniform, normal, Bernoulli, multinomial. Reference kernel: found by
// ref_prepare.c on the planning thread, runs on the session's thread. The seed is part of the
// command, and one generator (base/prng.h) goes through the elements in their order, so every run
// gives the same contents, with any number of threads. A normal takes two draws (Box and Muller);
// the second of the pair is not kept, so that element n always begins at the same draw.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"
#include "base/prng.h"

#include <math.h>

// Box and Muller's transform; the other of the two normals is not kept.
static double normal(struct base_prng *prng)
{
    double u = 1 - base_prng_unit(prng), v = base_prng_unit(prng);
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

// Draws one class with probabilities proportional to exp(logits).
static int64_t draw(struct base_prng *prng, enum eng_dtype dtype, const void *logits, int64_t first,
                    int64_t classes)
{
    double most = -INFINITY, sum = 0, upto = 0;
    base_assert(classes > 0 && first >= 0);
    for (int64_t c = 0; c < classes; c++) {
        most = eng_scalar_binary(ENG_MAX, most, eng_ref_load(dtype, logits, first + c));
    }
    for (int64_t c = 0; c < classes; c++) {
        sum += exp(eng_ref_load(dtype, logits, first + c) - most);
    }
    double place = base_prng_unit(prng) * sum;
    for (int64_t c = 0; c < classes; c++) {
        upto += exp(eng_ref_load(dtype, logits, first + c) - most);
        if (place < upto) {
            return c;
        }
    }
    return classes - 1;
}

static double element(const struct eng_step *step, const struct eng_run *run,
                      struct base_prng *prng, int64_t index)
{
    const struct eng_random *random = &step->command->u.random;
    double low = (double)random->low, high = (double)random->high;
    switch (random->fn) {
    case ENG_RANDOM_UNIFORM:
        return low + (high - low) * base_prng_unit(prng);
    case ENG_RANDOM_NORMAL:
        return low + high * normal(prng);
    case ENG_RANDOM_BERNOULLI:
        return base_prng_unit(prng) <
               eng_ref_load(eng_ref_in_type(step, 0), eng_ref_in(step, run, 0), index);
    default:
        return (double)draw(prng, eng_ref_in_type(step, 0), eng_ref_in(step, run, 0),
                            index / random->samples * random->classes, random->classes);
    }
}

static enum base_status run_random(const struct eng_step *step, const struct eng_run *run)
{
    struct base_prng prng;
    int64_t count = eng_desc_count(&eng_ref_out_tensor(step, 0)->desc);
    base_prng_seed(&prng, step->command->u.random.seed);
    for (int64_t i = 0; i < count; i++) {
        eng_ref_store(eng_ref_out_type(step, 0), eng_ref_out(step, run, 0), i,
                      element(step, run, &prng, i));
    }
    return BASE_OK;
}

static enum base_status setup_random(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_random *random = &step->command->u.random;
    bool reads = random->fn == ENG_RANDOM_BERNOULLI || random->fn == ENG_RANDOM_MULTINOMIAL;
    if (reads && !eng_ref_has(step, 0)) {
        return eng_ref_refuse(ctx, step, "no input");
    }
    if (random->fn == ENG_RANDOM_MULTINOMIAL && (random->samples < 1 || random->classes < 1)) {
        return eng_ref_refuse(ctx, step, "nothing to draw from");
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_random[] = {
    {ENG_OP_RANDOM, ENG_REF_NUMBERS, run_random, setup_random},
    {.run = NULL},
};
