// Gradient of resizing. Each dimension is resized by a fixed matrix, whose transpose is applied to
// the gradient, one product per dimension. Called by the walk (autodiff.c) through its table, on
// the trainer's thread while it plans. The matrix is made of the reference kernel's own weights
// (backend/ref/ref_resize.h), as a constant of the program; above MATRIX_ELEMENTS_MAX elements the
// model is refused.
#include "train/autodiff_rules.h"

#include "backend/ref/ref_resize.h"
#include "base/check.h"

#define MATRIX_ELEMENTS_MAX ((int64_t)1 << 24) // of one dimension's matrix

// The transpose of what dimension `dim` is resized by: `desc` [in, out], of type F32 or F64.
static enum base_status transposed(struct eng_ad *ad, const struct eng_resize *resize, uint32_t dim,
                                   const struct eng_desc *desc, uint32_t *out_tensor)
{
    int64_t in = desc->dims[0], out = desc->dims[1];
    base_assert(desc->rank == 2 && in * out <= MATRIX_ELEMENTS_MAX);
    base_assert(desc->dtype == ENG_F32 || desc->dtype == ENG_F64);
    void *data = base_arena_zalloc(ad->program->arena, eng_desc_bytes(desc));
    if (data == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < out; i++) {
        struct eng_resize_taps taps = eng_resize_taps_of(resize, dim, in, out, i);
        for (int t = 0; t < taps.count && !taps.is_outside; t++) {
            int64_t at = taps.at[t] * out + i; // one place may be hit twice, at the border
            if (desc->dtype == ENG_F64) {
                ((double *)data)[at] += taps.weight[t];
            } else {
                ((float *)data)[at] += (float)taps.weight[t];
            }
        }
    }
    BASE_TRY(eng_program_tensor(ad->program, ENG_CONST, ENG_PLAIN, desc, out_tensor));
    ad->program->tensors[*out_tensor].data = data;
    return BASE_OK;
}

// [outer, out, inner] -> [outer, in, inner]
static enum base_status apply(struct eng_ad *ad, uint32_t matrix, int64_t outer, int64_t inner,
                              uint32_t *gradient)
{
    int64_t in = ad_tensor(ad, matrix)->desc.dims[0], out = ad_tensor(ad, matrix)->desc.dims[1];
    const uint32_t inputs[2] = {matrix, *gradient};
    struct eng_command *matmul = NULL;
    base_assert(ad_count(ad, *gradient) == outer * out * inner);
    BASE_TRY(ad_flat(ad, ad_tensor(ad, matrix)->desc.dtype, outer * in * inner, gradient));
    BASE_TRY(ad_command(ad, ENG_OP_MATMUL, &(struct ad_ports){inputs, 2, *gradient}, &matmul));
    matmul->box = (struct eng_box){.rank = 4, .size = {outer, in, inner, out}};
    matmul->views[0] = (struct eng_view){.stride = {0, out, 0, 1}};
    matmul->views[1] = (struct eng_view){.stride = {out * inner, 0, 1, inner}};
    matmul->u.matmul = (struct eng_matmul){
        .batch_rank = 1, .alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
    return BASE_OK;
}

enum base_status ad_rule_resize(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_resize *resize = command->u.resize;
    struct eng_desc in = ad_tensor(ad, command->inputs[0])->desc, out = ad_tensor(ad, dy)->desc;
    base_assert(in.rank == out.rank);
    int64_t outer = 1, inner = eng_desc_count(&out);
    uint32_t gradient = dy, matrix = ENG_NONE;
    if (inner == 0 || (in.dtype != ENG_F32 && in.dtype != ENG_F64)) {
        return ad_refuse(ad, command, "of nothing, or of half precision");
    }
    if (resize->antialias) {
        return ad_refuse(ad, command, "with antialias");
    }
    for (uint32_t d = 0; d < in.rank; d++) {
        inner /= out.dims[d];
        if (!eng_resize_is_identity(resize, d, in.dims[d], out.dims[d])) {
            if (in.dims[d] > MATRIX_ELEMENTS_MAX / out.dims[d]) {
                return ad_refuse(ad, command, "too long a dimension");
            }
            const struct eng_desc desc = {
                .dtype = in.dtype, .rank = 2, .dims = {in.dims[d], out.dims[d]}};
            BASE_TRY(transposed(ad, resize, d, &desc, &matrix));
            BASE_TRY(apply(ad, matrix, outer, inner, &gradient));
        }
        outer *= in.dims[d];
    }
    base_assert(outer == ad_count(ad, command->inputs[0]));
    return ad_give(ad, command->inputs[0], gradient);
}
