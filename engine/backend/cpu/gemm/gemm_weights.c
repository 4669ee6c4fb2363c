// Where packed weights live: shared through the model's cache (backend/pack.h, which locks itself)
// when the tensor comes straight from the model, else in the plan's arena. Called by everything
// that packs for the fast paths (gemm_prepare.c, conv_*.c, gemm_mean_bf16.c), on the planning
// thread. A pack is named by its tensor, its form and two hashes of its parameters: two sessions of
// one model that want the same have it once.
#include "backend/cpu/gemm/gemm_weights.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/hash.h"

#define ALIGN_BYTES 64u

void *eng_weights_alloc(const struct eng_prepare *prepare, size_t bytes)
{
    size_t padded;
    if (!base_ckd_add(bytes, ALIGN_BYTES, &padded)) {
        return NULL;
    }
    char *memory = base_arena_alloc(prepare->arena, padded);
    if (memory == NULL) {
        return NULL;
    }
    return memory + (ALIGN_BYTES - (uintptr_t)memory % ALIGN_BYTES) % ALIGN_BYTES;
}

enum base_status eng_weights_pack(const struct eng_prepare *prepare,
                                  const struct eng_tensor *tensor,
                                  const struct eng_weights_form *form,
                                  const struct eng_pack_content *content, const void **out)
{
    base_assert(tensor->kind == ENG_CONST && tensor->data != NULL);
    base_assert(form->form >= ENG_PACK_PANELS);
    if (tensor->identity != NULL && prepare->packs != NULL) {
        const struct eng_pack_key key = {
            .identity = tensor->identity,
            .form = form->form,
            .a = base_hash64(form->params, form->params_bytes),
            .b = base_hash64_seed(form->params, form->params_bytes, 0x9e3779b97f4a7c15u),
        };
        return eng_pack_get(prepare->packs, &key, content, out);
    }
    void *memory = eng_weights_alloc(prepare, content->bytes);
    if (memory == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert((uintptr_t)memory % ALIGN_BYTES == 0);
    content->fill(content->ctx, memory);
    *out = memory;
    return BASE_OK;
}
