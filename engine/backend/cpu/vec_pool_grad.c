// Gradients of maximum and average pools over CHANNELS_LAST tensors. Windows overlap, so threads
// share images and ranges of channels, never positions: no two write one element. Called by
// cpu_prepare.c for a trainer's plan, on the planning thread, run on the pool's threads. Lines of
// the result are cleared shortly before a window first adds to them, while they are in the cache
// anyway.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "backend/cpu/vec_pool.h"
#include "base/check.h"

#include <string.h>

#define BLOCK_CHANNELS 64 // what one thread takes of an image at least

struct pool_grad {
    struct eng_pool_shape shape;
    eng_vec_pool_grad_fn kernel;
    int64_t blocks, block; // ranges of channels
};

struct pool_grad_run {
    const struct pool_grad *state;
    const float *x, *dy;
    float *dx;
};

// What a thread takes of an image.
struct block {
    float *dx;           // the image's
    int64_t from, count; // channels
    int64_t cleared;     // lines so far
};

// Clears the block's channels of the lines of its image up to `end`, from where it stopped.
static void clear_lines(const struct eng_pool_shape *pool_shape, struct block *block, int64_t end)
{
    const int64_t pixels = pool_shape->in[2], from = block->from, count = block->count;
    base_assert(end <= pool_shape->in[0] * pool_shape->in[1]);
    for (; block->cleared < end; block->cleared++) {
        float *line = block->dx + block->cleared * pixels * pool_shape->channels;
        if (count == pool_shape->channels) {
            memset(line, 0, (size_t)(pixels * count) * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < pixels; i++) {
            memset(line + i * pool_shape->channels + from, 0, (size_t)count * sizeof(float));
        }
    }
}

// One past the last line of an image that output row `row` reads.
static int64_t lines_read(const struct eng_pool_shape *pool_shape, int64_t row)
{
    const struct eng_pool_span *lines = &pool_shape->spans[1][row % pool_shape->out[1]];
    const struct eng_pool_span *planes =
        &pool_shape->spans[0][row / pool_shape->out[1] % pool_shape->out[0]];
    if (planes->count == 0 || lines->count == 0) {
        return 0;
    }
    return (planes->first + (planes->count - 1) * pool_shape->dilation[0]) * pool_shape->in[1] +
           lines->first + (lines->count - 1) * pool_shape->dilation[1] + 1;
}

static void pass_block(const struct pool_grad_run *pool_grad_run, int64_t image, int64_t from,
                       int64_t count)
{
    const struct eng_pool_shape *s = &pool_grad_run->state->shape;
    const int64_t rows = s->out[0] * s->out[1], lines = s->in[0] * s->in[1];
    struct block block = {.dx = pool_grad_run->dx + image * lines * s->in[2] * s->channels,
                          .from = from,
                          .count = count};
    base_assert(count > 0 && from + count <= s->channels);
    for (int64_t row = image * rows; row < (image + 1) * rows; row++) {
        struct eng_vec_window window;
        int64_t offset;
        clear_lines(s, &block, lines_read(s, row));
        eng_pool_row_window(s, row, &offset, &window);
        for (int64_t i = 0; i < s->out[2]; i++) {
            const int64_t at = offset + s->spans[2][i].first * s->channels + from;
            eng_pool_column_window(s, row, i, &window);
            window.x = pool_grad_run->x + at;
            pool_grad_run->state->kernel(
                &window, pool_grad_run->dy + (row * s->out[2] + i) * s->channels + from,
                pool_grad_run->dx + at, count);
        }
    }
    clear_lines(s, &block, lines);
}

static void pass_blocks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct pool_grad_run *r = ctx;
    const struct pool_grad *g = r->state;
    for (int64_t u = begin; u < end; u++) {
        const int64_t from = u % g->blocks * g->block, left = g->shape.channels - from;
        pass_block(r, u / g->blocks, from, left < g->block ? left : g->block);
    }
}

static enum base_status run_pool_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct pool_grad *g = step->state;
    const struct eng_command *command = step->command;
    struct pool_grad_run r = {g, run->data[command->inputs[0]], run->data[command->inputs[1]],
                              run->data[command->outputs[0]]};
    const int64_t image = g->shape.out[0] * g->shape.out[1] * g->shape.out[2] * g->shape.window;
    eng_pool_for(run->pool, g->shape.batch * g->blocks, ENG_CPU_GRAIN / (image * g->block),
                 pass_blocks, &r);
    return BASE_OK;
}

enum base_status eng_cpu_prepare_pool_grad(const struct eng_prepare *ctx,
                                           const struct eng_program *program,
                                           const struct eng_command *command,
                                           struct eng_step *out_step)
{
    const struct eng_pool *p = &command->u.pool;
    struct pool_grad *g = base_arena_zalloc(ctx->arena, sizeof *g);
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(eng_pool_shape_of(ctx, p, &program->tensors[command->inputs[0]],
                               &program->tensors[command->inputs[1]], &g->shape));
    const int64_t channels = g->shape.channels;
    const bool is_alone = eng_pool_threads(ctx->pool) < 2;
    g->block = is_alone || channels < BLOCK_CHANNELS ? channels : BLOCK_CHANNELS;
    g->blocks = (channels + g->block - 1) / g->block;
    g->kernel = p->fn == ENG_POOL_MAX ? ctx->kernels->vec->pool_max_grad
                                      : ctx->kernels->vec->pool_average_grad;
    out_step->run = run_pool_grad;
    out_step->state = g;
    out_step->kernel = ctx->kernels->vec->names[command->op];
    return BASE_OK;
}
