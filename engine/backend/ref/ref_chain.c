// Chains of convolutions on the reference backend: one after the other, with what lies between them
// in scratch. Found by ref_prepare.c on the planning thread, where it prepares each convolution as
// a step of its own (ref_conv.c); run by the session's thread. Nothing is fused here: it says what
// cpu/conv_chain.c has to compute.
#include "backend/ref/ref.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

#define ALIGN_BYTES 64u

struct chain {
    struct eng_step steps[ENG_CHAIN_MAX];
    uint32_t count;
    size_t between[ENG_CHAIN_MAX]; // offset of each result but the last in scratch
    size_t convs_at;               // scratch of the convolutions themselves
    void **data;                   // by tensor, as this step's convolutions see it
};

static enum base_status run_chain(const struct eng_step *step, const struct eng_run *run)
{
    const struct chain *c = step->state;
    uint8_t *scratch = run->scratch;
    base_assert(c->count > 0 && c->count <= ENG_CHAIN_MAX);
    memcpy(c->data, run->data, step->program->tensor_count * sizeof(*c->data));
    for (uint32_t i = 0; i + 1 < c->count; i++) {
        c->data[c->steps[i].command->outputs[0]] = scratch + c->between[i];
    }
    struct eng_run inner = *run;
    inner.data = c->data;
    inner.scratch = scratch + c->convs_at;
    for (uint32_t i = 0; i < c->count; i++) {
        BASE_TRY(c->steps[i].run(&c->steps[i], &inner));
    }
    return BASE_OK;
}

static enum base_status setup_chain(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_conv_chain *chain = step->command->u.chain;
    struct chain *c = base_arena_zalloc(ctx->arena, sizeof *c);
    void **data = base_arena_alloc(ctx->arena, (step->program->tensor_count + 1u) * sizeof *data);
    if (c == NULL || data == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(chain->count > 0 && chain->count <= ENG_CHAIN_MAX);
    c->data = data;
    c->count = chain->count;
    size_t most = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        BASE_TRY(eng_ref_prepare(ctx, step->program, &chain->convs[i], &c->steps[i]));
        most = c->steps[i].scratch_bytes > most ? c->steps[i].scratch_bytes : most;
        c->between[i] = c->convs_at;
        if (i + 1 < chain->count) {
            const struct eng_tensor *y = eng_ref_tensor(step, chain->convs[i].outputs[0]);
            const size_t bytes = eng_desc_bytes(&y->desc);
            c->convs_at += base_aligned(bytes, ALIGN_BYTES);
            base_assert(c->convs_at % ALIGN_BYTES == 0);
        }
    }
    step->scratch_bytes = c->convs_at + most;
    step->state = c;
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_chain[] = {
    {ENG_OP_CONV_CHAIN, ENG_REF_BIT(ENG_F32), run_chain, setup_chain},
    {.run = NULL},
};
