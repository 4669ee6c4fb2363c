// Fused attention: for each (batch, head) keys and values are packed once, then blocks of query
// rows go through scores, softmax and values without leaving the cache. Prepared on the planning
// thread, run on the pool.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/kernel/vec_attention_low.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#define SCORE_BYTES      ((int64_t)24 << 10) // of one block: it shares the first cache with a panel
#define BLOCK_ROWS_MIN   6
#define LOW_LENGTH_MIN   16 // shorter sums are not worth the conversion
#define PART_ROWS_MIN    64 // rows worth packing keys and values again for
#define UNITS_PER_THREAD 4

struct attention_state {
    const struct eng_vec_kernels *kernels;
    int64_t batch, heads, s, t, d, e;
    int64_t parts;      // shares of the rows of one head
    int64_t block_rows; // of a block
    int64_t score_stride;
    int64_t k_floats, v_floats, worker_floats; // of scratch
    const struct eng_view *q, *k, *v, *mask, *out;
    uint32_t mask_tensor;
    float scale;
    struct eng_attention_low low; // products NULL: float32
};

struct attention_run {
    const struct attention_state *state;
    const float *q, *k, *v, *mask;
    float *out, *scratch;
};

#if defined(__x86_64__)
static void pack_head(const struct attention_state *attention_state, const float *keys,
                      const float *values, float *memory)
{
    if (attention_state->low.products != NULL) {
        const struct eng_attention_head head = {.k = keys,
                                                .v = values,
                                                .k_stride = attention_state->k->stride[2],
                                                .v_stride = attention_state->v->stride[2]};
        eng_attention_low_pack(&attention_state->low, &head, memory);
        return;
    }
    attention_state->kernels->attention_pack(keys, attention_state->k->stride[2],
                                             attention_state->d, attention_state->t, true, memory);
    attention_state->kernels->attention_pack(values, attention_state->v->stride[2],
                                             attention_state->t, attention_state->e, false,
                                             memory + attention_state->k_floats);
}

static void run_rows(const struct attention_state *attention_state,
                     const struct eng_vec_attention *block, float *memory)
{
    if (attention_state->low.products != NULL) {
        eng_attention_low_rows(&attention_state->low, block, memory);
        return;
    }
    attention_state->kernels->attention_rows(block);
}

static bool plan_low(const struct eng_prepare *ctx, struct attention_state *attention_state)
{
    attention_state->low = (struct eng_attention_low){.products = eng_gemm_low_kernels(ctx),
                                                      .kernels = attention_state->kernels,
                                                      .t = attention_state->t,
                                                      .d = attention_state->d,
                                                      .e = attention_state->e};
    if (attention_state->low.products == NULL || attention_state->d < LOW_LENGTH_MIN ||
        attention_state->e < LOW_LENGTH_MIN || attention_state->t < LOW_LENGTH_MIN ||
        !eng_attention_low_plan(&attention_state->low)) {
        attention_state->low.products = NULL;
        return false;
    }
    attention_state->block_rows = attention_state->low.block_rows;
    attention_state->worker_floats = attention_state->low.floats;
    return true;
}
#else
static void pack_head(const struct attention_state *attention_state, const float *keys,
                      const float *values, float *memory)
{
    attention_state->kernels->attention_pack(keys, attention_state->k->stride[2],
                                             attention_state->d, attention_state->t, true, memory);
    attention_state->kernels->attention_pack(values, attention_state->v->stride[2],
                                             attention_state->t, attention_state->e, false,
                                             memory + attention_state->k_floats);
}

static void run_rows(const struct attention_state *attention_state,
                     const struct eng_vec_attention *block, float *memory)
{
    (void)memory;
    attention_state->kernels->attention_rows(block);
}

static bool plan_low(const struct eng_prepare *ctx, struct attention_state *attention_state)
{
    (void)ctx, (void)attention_state;
    return false;
}
#endif

static void run_units(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct attention_run *r = ctx;
    const struct attention_state *s = r->state;
    float *k_panels = r->scratch + worker * s->worker_floats;
    float *v_panels = k_panels + s->k_floats;
    int64_t packed = -1;
    base_assert(s->block_rows > 0 && end <= s->batch * s->heads * s->parts);
    struct eng_vec_attention block = {
        .k_panels = k_panels,
        .v_panels = v_panels,
        .scores = v_panels + s->v_floats,
        .t = s->t,
        .d = s->d,
        .e = s->e,
        .q_stride = s->q->stride[2],
        .out_stride = s->out->stride[2],
        .mask_row_stride = s->mask->stride[2],
        .mask_stride = s->mask->stride[3],
        .score_stride = s->score_stride,
        .scale = s->scale,
    };
    if (s->low.products != NULL && s->low.products->enter != NULL) {
        s->low.products->enter();
    }
    for (int64_t u = begin; u < end; u++) {
        int64_t head = u / s->parts;
        int64_t part = u - head * s->parts;
        int64_t b = head / s->heads;
        int64_t h = head - b * s->heads;
        if (packed != head) {
            const float *k = r->k + s->k->offset + b * s->k->stride[0] + h * s->k->stride[1];
            const float *v = r->v + s->v->offset + b * s->v->stride[0] + h * s->v->stride[1];
            pack_head(s, k, v, k_panels);
            packed = head;
        }
        base_assert(b < s->batch);
        int64_t row_end = s->s * (part + 1) / s->parts;
        for (int64_t row = s->s * part / s->parts; row < row_end; row += s->block_rows) {
            block.rows = row_end - row < s->block_rows ? row_end - row : s->block_rows;
            block.q = r->q + s->q->offset + b * s->q->stride[0] + h * s->q->stride[1] +
                      row * s->q->stride[2];
            block.out = r->out + s->out->offset + b * s->out->stride[0] + h * s->out->stride[1] +
                        row * s->out->stride[2];
            block.mask = r->mask == NULL ? NULL
                                         : r->mask + s->mask->offset + b * s->mask->stride[0] +
                                               h * s->mask->stride[1] + row * s->mask->stride[2];
            run_rows(s, &block, k_panels);
        }
    }
    if (s->low.products != NULL && s->low.products->leave != NULL) {
        s->low.products->leave();
    }
}

static enum base_status run_attention(const struct eng_step *step, const struct eng_run *run)
{
    const struct attention_state *s = step->state;
    const uint32_t *inputs = step->command->inputs;
    struct attention_run r = {
        .state = s,
        .q = run->data[inputs[0]],
        .k = run->data[inputs[1]],
        .v = run->data[inputs[2]],
        .mask = s->mask_tensor == ENG_NONE ? NULL : run->data[s->mask_tensor],
        .out = run->data[step->command->outputs[0]],
        .scratch = run->scratch,
    };
    eng_pool_for(run->pool, s->batch * s->heads * s->parts, 1, run_units, &r);
    return BASE_OK;
}

static int64_t round_up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

// Scratch of one worker: packed keys, packed values, scores of one block.
static enum base_status plan_scratch(struct attention_state *attention_state, uint32_t threads,
                                     size_t *out_bytes)
{
    int64_t panel = attention_state->kernels->panel;
    base_assert(panel > 0 && attention_state->t > 0);
    attention_state->score_stride = round_up(attention_state->t, panel);
    attention_state->block_rows =
        SCORE_BYTES / (attention_state->score_stride * (int64_t)sizeof(float));
    attention_state->block_rows -= attention_state->block_rows % BLOCK_ROWS_MIN;
    attention_state->block_rows =
        attention_state->block_rows < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : attention_state->block_rows;
    if (attention_state->block_rows > ENG_VEC_ATTENTION_ROWS_MAX) {
        attention_state->block_rows = ENG_VEC_ATTENTION_ROWS_MAX;
    }
    int64_t e_round = round_up(attention_state->e, panel);
    if (__builtin_mul_overflow(attention_state->score_stride, attention_state->d,
                               &attention_state->k_floats) ||
        __builtin_mul_overflow(attention_state->t, e_round, &attention_state->v_floats) ||
        __builtin_add_overflow(attention_state->k_floats, attention_state->v_floats,
                               &attention_state->worker_floats) ||
        __builtin_add_overflow(attention_state->worker_floats,
                               attention_state->block_rows * attention_state->score_stride,
                               &attention_state->worker_floats) ||
        __builtin_mul_overflow((size_t)attention_state->worker_floats, threads * sizeof(float),
                               out_bytes)) {
        return BASE_ERR_UNSUPPORTED;
    }
    return BASE_OK;
}

static bool fits(const struct eng_program *program, const struct eng_command *command)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE &&
            program->tensors[command->inputs[i]].desc.dtype != ENG_F32) {
            return false;
        }
    }
    const int64_t *size = command->box.size;
    for (uint32_t d = 0; d < 6; d++) {
        if (size[d] <= 0) {
            return false;
        }
    }
    return command->box.rank == 6 && (command->views[0].stride[3] == 1 || size[4] == 1) &&
           (command->views[1].stride[3] == 1 || size[4] == 1) &&
           (command->views[2].stride[3] == 1 || size[5] == 1) &&
           (command->u.attention.out_view.stride[3] == 1 || size[5] == 1);
}

enum base_status eng_cpu_prepare_attention(const struct eng_prepare *ctx,
                                           const struct eng_program *program,
                                           const struct eng_command *command,
                                           struct eng_step *out_step)
{
    if (!fits(program, command)) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct attention_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    const int64_t *size = command->box.size;
    uint32_t threads = eng_pool_threads(ctx->pool);
    *s = (struct attention_state){
        .kernels = ctx->kernels->vec,
        .batch = size[0],
        .heads = size[1],
        .s = size[2],
        .t = size[3],
        .d = size[4],
        .e = size[5],
        .parts = 1,
        .q = &command->views[0],
        .k = &command->views[1],
        .v = &command->views[2],
        .mask = &command->views[3],
        .out = &command->u.attention.out_view,
        .mask_tensor = command->input_count > 3 ? command->inputs[3] : ENG_NONE,
        .scale = command->u.attention.scale,
    };
    int64_t wanted = (int64_t)threads * UNITS_PER_THREAD;
    if (threads > 1 && s->batch * s->heads < wanted) {
        s->parts = (wanted + s->batch * s->heads - 1) / (s->batch * s->heads);
        int64_t most = s->s / PART_ROWS_MIN > 0 ? s->s / PART_ROWS_MIN : 1;
        s->parts = s->parts < most ? s->parts : most;
    }
    base_assert(s->parts > 0);
    base_assert(s->parts == 1 || s->parts * PART_ROWS_MIN <= s->s);
    out_step->kernel = s->kernels->names[command->op];
    if (plan_low(ctx, s)) {
        out_step->scratch_bytes = (size_t)s->worker_floats * threads * sizeof(float);
        out_step->kernel = "attention.bf16";
    } else {
        BASE_TRY(plan_scratch(s, threads, &out_step->scratch_bytes));
    }
    out_step->run = run_attention;
    out_step->state = s;
    return BASE_OK;
}
