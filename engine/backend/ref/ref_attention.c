// Scaled dot-product attention, one query at a time, its scores in scratch as doubles. Reference
// kernel: found by ref_prepare.c on the planning thread, runs on the session's thread. The largest
// score is taken off before the exponential, so that no sum is infinite. The command is made by a
// pass alone (program/fuse_attention.c); what runs it fast is cpu/vec_attention.c.
#include "backend/ref/ref.h"
#include "backend/ref/ref_element.h"

#include "base/check.h"

#include <math.h>

struct attention {
    const struct eng_command *command;
    const float *q, *k, *v, *mask;
    float *out;
    double *scores; // [T]
    int64_t keys, depth, width;
};

static int64_t place(const struct eng_view *view, int64_t batch, int64_t head, int64_t row,
                     int64_t column)
{
    return view->offset + batch * view->stride[0] + head * view->stride[1] + row * view->stride[2] +
           column * view->stride[3];
}

// scores[t] = exp(scale * q . k[t] + mask[t] - largest); returns their sum.
static double weigh(const struct attention *attention, int64_t batch, int64_t head, int64_t query)
{
    const struct eng_view *views = attention->command->views;
    base_assert(query < attention->command->box.size[2]);
    double most = -INFINITY, sum = 0;
    for (int64_t t = 0; t < attention->keys; t++) {
        double dot = 0;
        for (int64_t d = 0; d < attention->depth; d++) {
            dot += (double)attention->q[place(&views[0], batch, head, query, d)] *
                   (double)attention->k[place(&views[1], batch, head, t, d)];
        }
        dot *= (double)attention->command->u.attention.scale;
        dot += attention->mask != NULL
                   ? (double)attention->mask[place(&views[3], batch, head, query, t)]
                   : 0;
        attention->scores[t] = dot;
        most = dot > most ? dot : most;
    }
    for (int64_t t = 0; t < attention->keys; t++) {
        attention->scores[t] = exp(attention->scores[t] - most);
        sum += attention->scores[t];
    }
    return sum;
}

static enum base_status run_attention(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    const int64_t *size = command->box.size;
    base_assert(command->box.rank == 6 && (run->scratch != NULL || size[3] == 0));
    struct attention a = {.command = command,
                          .q = eng_ref_in(step, run, 0),
                          .k = eng_ref_in(step, run, 1),
                          .v = eng_ref_in(step, run, 2),
                          .mask = eng_ref_in(step, run, 3),
                          .out = eng_ref_out(step, run, 0),
                          .scores = run->scratch,
                          .keys = size[3],
                          .depth = size[4],
                          .width = size[5]};
    for (int64_t row = 0; row < size[0] * size[1] * size[2]; row++) {
        int64_t s = row % size[2], h = row / size[2] % size[1], b = row / size[2] / size[1];
        double sum = weigh(&a, b, h, s);
        for (int64_t e = 0; e < a.width; e++) {
            double value = 0;
            for (int64_t t = 0; t < a.keys; t++) {
                value += a.scores[t] * (double)a.v[place(&command->views[2], b, h, t, e)];
            }
            a.out[place(&command->u.attention.out_view, b, h, s, e)] = eng_ref_to_f32(value / sum);
        }
    }
    return BASE_OK;
}

static enum base_status setup_attention(const struct eng_prepare *ctx, struct eng_step *step)
{
    if (step->command->box.rank != 6) {
        return eng_ref_refuse(ctx, step, "box other than B, H, S, T, D, E");
    }
    return eng_ref_scratch(step, step->command->box.size[3], sizeof(double));
}

const struct eng_ref_kernel eng_ref_attention[] = {
    {ENG_OP_ATTENTION, ENG_REF_BIT(ENG_F32), run_attention, setup_attention},
    {.run = NULL},
};
