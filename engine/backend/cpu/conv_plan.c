// Costs of the convolution algorithms, and which function prepares each. Called by conv_prepare.c
// (candidates, cheapest first) and conv_search.c (one of them, to be measured) on the planning
// thread; session_backend.c asks for the speed of low precision. Pure arithmetic on a shape and the
// machine's rates. Packed weights beyond the direct algorithm's have a price (MEGABYTE_PRICE_US),
// and low precision that is clearly cheaper replaces the direct one outright, so that a mistake of
// measuring alone cannot bring floats back.
#include "backend/cpu/conv_plan.h"

#include "backend/cpu/blas_step.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "base/check.h"

#define MEGABYTE_PRICE_US 25.0 // of packed weights beyond the direct algorithm's
#define PAIRS_SPEED       1.9  // of bfloat16 pairs over floats
#define TILES_SPEED       7.0  // of AMX tiles
#define CLEARLY_LESS      0.7
#define TILE_OVERHEAD     8.0 // steps of K that starting and storing one tile of a product cost

static const char *const names[] = {"direct", "depthwise",      "winograd2",      "winograd4",
                                    "bf16",   "winograd2.bf16", "winograd4.bf16", "blas"};

const char *eng_conv_algorithm_name(enum eng_conv_algorithm algorithm)
{
    return (unsigned)algorithm < ENG_CONV_ALGORITHM_COUNT ? names[algorithm] : "unknown";
}

struct eng_cpu_rates eng_cpu_rates_of(const struct eng_gemm_kernels *kernels)
{
    // Two products a cycle at 3.5 GHz with vl lanes, and what follows a core of that width.
    const double vl = kernels->vl;
    return (struct eng_cpu_rates){.flops_per_us = vl * 2 * 2 * 3500,
                                  .cache_bytes_per_us = vl >= 16 ? 60000 : 40000,
                                  .memory_bytes_per_us = 20000};
}

double eng_conv_low_speed(const struct eng_gemm_kernels *low)
{
    return low == NULL ? 0 : low->pair_step > 1 ? TILES_SPEED : PAIRS_SPEED;
}

static double round_up(int64_t value, int64_t step)
{
    base_assert(value > 0 && step > 0);
    return (double)((value + step - 1) / step * step);
}

// A product of rows x depth by depth x columns, everything near.
static double product_us(const struct eng_gemm_kernels *kernels, const struct eng_cpu_rates *rates,
                         double rows, int64_t depth, int64_t columns)
{
    return 2 * rows * ((double)depth + TILE_OVERHEAD) * round_up(columns, kernels->vl) /
           rates->flops_per_us;
}

static struct eng_conv_candidate direct(const struct eng_conv_shape *shape,
                                        const struct eng_gemm_kernels *kernels,
                                        const struct eng_cpu_rates *rates)
{
    const int64_t k = shape->in_channels / shape->groups * eng_conv_taps(shape);
    const int64_t n = shape->out_channels / shape->groups;
    const double pixels = (double)(shape->batch * shape->out[0] * shape->out[1] * shape->out[2]);
    const double packed = (double)(shape->groups * k) * round_up(n, kernels->vl) * sizeof(float);
    const double in_bytes =
        (double)(shape->batch * shape->in[0] * shape->in[1] * shape->in[2] * shape->in_channels) *
        4;
    return (struct eng_conv_candidate){
        .algorithm = ENG_CONV_DIRECT,
        .packed_bytes = (size_t)packed,
        .time_us = (double)shape->groups * product_us(kernels, rates, pixels, k, n) +
                   packed / 2 / rates->memory_bytes_per_us +
                   (shape->padded ? 2 * in_bytes / rates->cache_bytes_per_us : 0),
    };
}

static struct eng_conv_candidate depthwise(const struct eng_conv_shape *shape,
                                           const struct eng_cpu_rates *rates)
{
    const double pixels = (double)(shape->batch * shape->out[1] * shape->out[2]);
    const double in_pixels = (double)(shape->batch * shape->in[1] * shape->in[2]);
    const double channels = (double)shape->in_channels, taps = (double)eng_conv_taps(shape);
    return (struct eng_conv_candidate){
        .algorithm = ENG_CONV_DEPTHWISE,
        .packed_bytes = (size_t)(taps * channels) * sizeof(float),
        .time_us = 4 * pixels * channels * taps / rates->flops_per_us +
                   4 * channels * (pixels + in_pixels) / rates->cache_bytes_per_us,
    };
}

static struct eng_conv_candidate wino(const struct eng_conv_shape *shape,
                                      const struct eng_gemm_kernels *kernels,
                                      const struct eng_cpu_rates *rates, int64_t unit,
                                      const struct eng_gemm_kernels *low)
{
    base_assert(unit == 2 || unit == 4);
    const int64_t elements = (unit + 2) * (unit + 2);
    const int64_t tiles =
        shape->batch * ((shape->out[1] + unit - 1) / unit) * ((shape->out[2] + unit - 1) / unit);
    const double packed = (double)(elements * shape->in_channels) *
                          round_up(shape->out_channels, kernels->vl) * (low != NULL ? 2 : 4);
    // Transformed once on the way in and once on the way out: written and read.
    const double moved =
        (double)(elements * tiles) *
        ((low != NULL ? 4 : 8) * (double)shape->in_channels + 8 * (double)shape->out_channels);
    const double speed = low != NULL ? eng_conv_low_speed(low) : 1;
    // Few tiles leave a tile of the product half empty of rows, and weights without reuse.
    const double rows = (double)(tiles < 6 ? 6 : tiles);
    return (struct eng_conv_candidate){
        .algorithm = low == NULL ? (unit == 2 ? ENG_CONV_WINO2 : ENG_CONV_WINO4)
                                 : (unit == 2 ? ENG_CONV_LOW_WINO2 : ENG_CONV_LOW_WINO4),
        .packed_bytes = (size_t)packed,
        .time_us = (double)elements *
                       product_us(kernels, rates, rows, shape->in_channels, shape->out_channels) /
                       speed +
                   moved / rates->cache_bytes_per_us + packed / 2 / rates->memory_bytes_per_us,
    };
}

size_t eng_conv_candidates(const struct eng_conv_shape *shape,
                           const struct eng_conv_machine *machine, bool constant,
                           struct eng_conv_candidate out[ENG_CONV_CANDIDATES_MAX])
{
    const struct eng_gemm_kernels *kernels = machine->kernels, *low = machine->low;
    const struct eng_cpu_rates *rates = &machine->rates;
    base_assert(machine->threads > 0 && rates->flops_per_us > 0);
    base_assert(shape->groups > 0 && shape->in_channels % shape->groups == 0);
    size_t count = 0;
    out[count++] = direct(shape, kernels, rates);
    const size_t base = out[0].packed_bytes;
    if (eng_conv_is_depthwise(shape)) {
        out[count++] = depthwise(shape, rates);
    }
    if (constant && eng_conv_fits_wino(shape)) {
        // Pairs' are better than floats' in all but accuracy.
        const struct eng_gemm_kernels *products = low != NULL ? low : kernels;
        for (int64_t unit = 2; unit <= 4; unit += 2) {
            if (products->wino_in[unit] != NULL) {
                out[count++] = wino(shape, kernels, rates, unit, low);
            }
        }
    }
    if (constant && low != NULL && shape->groups == 1) {
        // Twice the rate in pairs, or far more in tiles; the operand is converted on the way.
        struct eng_conv_candidate *c = &out[count++];
        *c = direct(shape, kernels, rates);
        const double in_bytes = 4.0 * (double)(shape->batch * shape->in[0] * shape->in[1] *
                                               shape->in[2] * shape->in_channels);
        c->algorithm = ENG_CONV_LOW;
        c->packed_bytes /= 2;
        c->time_us =
            c->time_us / eng_conv_low_speed(low) + 2 * in_bytes / rates->cache_bytes_per_us;
        if (c->time_us < CLEARLY_LESS * out[0].time_us) {
            out[0] = *c;
            count--; // floats could win by a mistake of measuring alone
        }
    }
    for (size_t i = 0; i < count; i++) {
        const double more = out[i].packed_bytes > base ? (double)(out[i].packed_bytes - base) : 0;
        out[i].time_us /= (double)machine->threads;
        out[i].cost = out[i].time_us + more / 1e6 * MEGABYTE_PRICE_US;
    }
    base_assert(count > 0 && count <= ENG_CONV_CANDIDATES_MAX);
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && out[j].cost < out[j - 1].cost; j--) {
            const struct eng_conv_candidate cheaper = out[j];
            out[j] = out[j - 1];
            out[j - 1] = cheaper;
        }
    }
    return count;
}

enum base_status eng_conv_prepare_with(const struct eng_conv_job *job,
                                       enum eng_conv_algorithm algorithm, struct eng_step *out_step)
{
    const struct eng_gemm_kernels *low = eng_gemm_low_kernels(job->ctx);
    base_assert((unsigned)algorithm < ENG_CONV_ALGORITHM_COUNT);
    switch (algorithm) {
    case ENG_CONV_DEPTHWISE:
        return eng_conv_is_depthwise(&job->shape) ? eng_conv_prepare_depthwise(job, out_step)
                                                  : BASE_ERR_UNSUPPORTED;
    case ENG_CONV_WINO2:
        return eng_conv_prepare_wino(job, job->ctx->kernels->gemm, 2, out_step);
    case ENG_CONV_WINO4:
        return eng_conv_prepare_wino(job, job->ctx->kernels->gemm, 4, out_step);
    case ENG_CONV_LOW:
        return low != NULL ? eng_conv_prepare_direct(job, low, out_step) : BASE_ERR_UNSUPPORTED;
    case ENG_CONV_LOW_WINO2:
        return low != NULL ? eng_conv_prepare_wino(job, low, 2, out_step) : BASE_ERR_UNSUPPORTED;
    case ENG_CONV_LOW_WINO4:
        return low != NULL ? eng_conv_prepare_wino(job, low, 4, out_step) : BASE_ERR_UNSUPPORTED;
    case ENG_CONV_BLAS:
        return eng_blas_prepare_conv(job, out_step);
    default:
        return eng_conv_prepare_direct(job, job->ctx->kernels->gemm, out_step);
    }
}
