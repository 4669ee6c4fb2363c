// Matrix products over strided views. Reference kernels; run on the session's thread.
//
// Float types: a panel of PANEL columns of B is widened to double once, then every row of A runs
// over it. Integers: one element at a time, in 64 bits that wrap.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#define PANEL 64

struct product {
    const struct eng_step *step;
    const struct eng_run *run;
    int64_t m, n, k;
    int64_t a_m, a_k, b_n, b_k; // strides
    const void *a, *b;
    void *c;
    enum eng_dtype from, to;
    double *panel;                     // [k][PANEL]
    int64_t a_first, b_first, c_first; // of the current batch
};

static void load_panel(const struct product *product, int64_t first, int64_t width)
{
    base_assert(product->panel != NULL || product->k == 0);
    for (int64_t k = 0; k < product->k; k++) {
        int64_t row = product->b_first + k * product->b_k + first * product->b_n;
        for (int64_t j = 0; j < PANEL; j++) {
            product->panel[k * PANEL + j] =
                j < width ? eng_ref_load(product->from, product->b, row + j * product->b_n) : 0;
        }
    }
}

static void multiply_panel(const struct product *product, int64_t first, int64_t width)
{
    const struct eng_matmul *matmul = &product->step->command->u.matmul;
    base_assert(width > 0 && width <= PANEL && first + width <= product->n);
    for (int64_t m = 0; m < product->m; m++) {
        double sums[PANEL] = {0};
        for (int64_t k = 0; k < product->k; k++) {
            double a = eng_ref_load(product->from, product->a,
                                    product->a_first + m * product->a_m + k * product->a_k);
            const double *b = product->panel + k * PANEL;
            for (int j = 0; j < PANEL; j++) {
                sums[j] += a * b[j];
            }
        }
        for (int64_t j = 0; j < width; j++) {
            int64_t index = product->c_first + m * product->n + first + j;
            double value = (double)matmul->alpha * sums[j];
            struct eng_ref_place place = {.channel = first + j, .index = index};
            eng_ref_store(
                product->to, product->c, index,
                eng_ref_epilogue(product->step, product->run, &matmul->epilogue, value, place));
        }
    }
}

static void multiply_float(const struct product *product)
{
    for (int64_t first = 0; first < product->n; first += PANEL) {
        int64_t width = product->n - first < PANEL ? product->n - first : PANEL;
        load_panel(product, first, width);
        multiply_panel(product, first, width);
    }
}

static void multiply_int(const struct product *product)
{
    base_assert(eng_ref_is(product->from, ENG_REF_INTS));
    const struct eng_matmul *matmul = &product->step->command->u.matmul;
    for (int64_t m = 0; m < product->m; m++) {
        for (int64_t n = 0; n < product->n; n++) {
            uint64_t sum = 0;
            for (int64_t k = 0; k < product->k; k++) {
                sum += (uint64_t)eng_ref_load_int(product->from, product->a,
                                                  product->a_first + m * product->a_m +
                                                      k * product->a_k) *
                       (uint64_t)eng_ref_load_int(product->from, product->b,
                                                  product->b_first + n * product->b_n +
                                                      k * product->b_k);
            }
            if (matmul->alpha != 1.0F) {
                sum = (uint64_t)eng_ref_to_i64((double)matmul->alpha * (double)(int64_t)sum);
            }
            uint32_t bias = matmul->epilogue.bias, residual = matmul->epilogue.residual;
            int64_t index = product->c_first + m * product->n + n;
            sum += bias == ENG_NONE
                       ? 0
                       : (uint64_t)eng_ref_load_int(product->to, product->run->data[bias], n);
            sum +=
                residual == ENG_NONE
                    ? 0
                    : (uint64_t)eng_ref_load_int(product->to, product->run->data[residual], index);
            eng_ref_store_int(product->to, product->c, index, (int64_t)sum);
        }
    }
}

static enum base_status run_matmul(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    uint32_t batch_rank = command->u.matmul.batch_rank;
    base_assert(command->box.rank == batch_rank + 3);
    const int64_t *size = command->box.size, *sa = command->views[0].stride,
                  *sb = command->views[1].stride;
    struct product p = {.step = step,
                        .run = run,
                        .m = size[batch_rank],
                        .n = size[batch_rank + 1],
                        .k = size[batch_rank + 2],
                        .a_m = sa[batch_rank],
                        .a_k = sa[batch_rank + 2],
                        .b_n = sb[batch_rank + 1],
                        .b_k = sb[batch_rank + 2],
                        .a = eng_ref_in(step, run, 0),
                        .b = eng_ref_in(step, run, 1),
                        .c = eng_ref_out(step, run, 0),
                        .from = eng_ref_in_type(step, 0),
                        .to = eng_ref_out_type(step, 0),
                        .panel = run->scratch};
    int64_t batches = 1;
    for (uint32_t d = 0; d < batch_rank; d++) {
        batches *= size[d];
    }
    for (int64_t batch = 0; batch < batches; batch++) {
        int64_t left = batch;
        p.a_first = command->views[0].offset;
        p.b_first = command->views[1].offset;
        p.c_first = batch * p.m * p.n;
        for (uint32_t d = batch_rank; d-- > 0;) {
            p.a_first += left % size[d] * sa[d];
            p.b_first += left % size[d] * sb[d];
            left /= size[d];
        }
        if (eng_ref_is(p.from, ENG_REF_FLOATS)) {
            multiply_float(&p);
        } else {
            multiply_int(&p);
        }
    }
    return BASE_OK;
}

static enum base_status setup_matmul(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_command *command = step->command;
    uint32_t batch_rank = command->u.matmul.batch_rank;
    if (command->box.rank != batch_rank + 3 || command->box.rank > ENG_RANK_MAX) {
        return eng_ref_refuse(ctx, step, "box without m, n, k");
    }
    if (eng_ref_in_type(step, 0) != eng_ref_in_type(step, 1)) {
        return eng_ref_refuse(ctx, step, "operands of different types");
    }
    return eng_ref_scratch(step, command->box.size[batch_rank + 2], PANEL * sizeof(double));
}

const struct eng_ref_kernel eng_ref_matmul[] = {
    {ENG_OP_MATMUL, ENG_REF_NUMBERS, run_matmul, setup_matmul},
    {.run = NULL},
};
