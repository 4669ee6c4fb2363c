// Pooling over CHANNELS_LAST tensors: each output position is one window of channel vectors. One to
// three spatial dims are handled as three. Called by cpu_prepare.c on the planning thread, run on
// the pool's threads by output rows. Windows of each dim are cut to the input when the step is
// prepared, so padding costs nothing at run time; vec_pool_grad.c walks the same shape.
#include "backend/cpu/vec_pool.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#define DIMS ENG_SPATIAL_MAX

struct pool_state {
    struct eng_pool_shape shape;
    eng_vec_pool_fn kernel;
    int64_t grain; // output rows
};

struct pool_run {
    const struct pool_state *state;
    const float *x;
    float *y;
};

void eng_pool_row_window(const struct eng_pool_shape *pool_shape, int64_t row, int64_t *out_offset,
                         struct eng_vec_window *out_window)
{
    base_assert(row >= 0 && row < pool_shape->batch * pool_shape->out[0] * pool_shape->out[1]);
    const struct eng_pool_span *lines = &pool_shape->spans[1][row % pool_shape->out[1]];
    const struct eng_pool_span *planes =
        &pool_shape->spans[0][row / pool_shape->out[1] % pool_shape->out[0]];
    const int64_t image = row / pool_shape->out[1] / pool_shape->out[0],
                  line = pool_shape->in[2] * pool_shape->channels;
    *out_offset =
        ((image * pool_shape->in[0] + planes->first) * pool_shape->in[1] + lines->first) * line;
    *out_window = (struct eng_vec_window){
        .planes = planes->count,
        .rows = lines->count,
        .plane_stride = pool_shape->dilation[0] * pool_shape->in[1] * line,
        .row_stride = pool_shape->dilation[1] * line,
        .column_stride = pool_shape->dilation[2] * pool_shape->channels,
    };
}

void eng_pool_column_window(const struct eng_pool_shape *pool_shape, int64_t row, int64_t column,
                            struct eng_vec_window *window)
{
    base_assert(column >= 0 && column < pool_shape->out[2]);
    const struct eng_pool_span *lines = &pool_shape->spans[1][row % pool_shape->out[1]];
    const struct eng_pool_span *planes =
        &pool_shape->spans[0][row / pool_shape->out[1] % pool_shape->out[0]];
    const struct eng_pool_span *columns = &pool_shape->spans[2][column];
    const int64_t padded = planes->padded * lines->padded * columns->padded;
    const int64_t inside = planes->count * lines->count * columns->count;
    const int64_t divisor = pool_shape->count_include_pad ? padded : inside;
    window->columns = columns->count;
    window->factor = divisor == 0 ? 0.0f : 1.0f / (float)divisor;
}

static void pool_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct pool_run *r = ctx;
    const struct eng_pool_shape *s = &r->state->shape;
    for (int64_t u = begin; u < end; u++) {
        struct eng_vec_window window;
        int64_t offset;
        eng_pool_row_window(s, u, &offset, &window);
        float *y = r->y + u * s->out[2] * s->channels;
        for (int64_t i = 0; i < s->out[2]; i++) {
            eng_pool_column_window(s, u, i, &window);
            window.x = r->x + offset + s->spans[2][i].first * s->channels;
            r->state->kernel(&window, y + i * s->channels, s->channels);
        }
    }
}

static enum base_status run_pool(const struct eng_step *step, const struct eng_run *run)
{
    const struct pool_state *s = step->state;
    struct pool_run r = {s, run->data[step->command->inputs[0]],
                         run->data[step->command->outputs[0]]};
    eng_pool_for(run->pool, s->shape.batch * s->shape.out[0] * s->shape.out[1], s->grain, pool_rows,
                 &r);
    return BASE_OK;
}

// Windows of one dim.
static struct eng_pool_span *make_spans(struct base_arena *arena, const struct eng_pool *pool,
                                        uint32_t dim, int64_t in, int64_t out)
{
    struct eng_pool_span *spans = base_arena_alloc(arena, (size_t)out * sizeof *spans);
    if (spans == NULL) {
        return NULL;
    }
    base_assert(dim < pool->spatial || in == 1);
    int64_t dilation = pool->dilation[dim] > 0 ? pool->dilation[dim] : 1;
    for (int64_t i = 0; i < out; i++) {
        int64_t start = i * pool->stride[dim] - pool->pad_begin[dim];
        spans[i] = (struct eng_pool_span){0};
        for (int64_t k = 0; k < pool->kernel[dim]; k++) {
            int64_t at = start + k * dilation;
            if (at >= 0 && at < in) {
                spans[i].first = spans[i].count == 0 ? at : spans[i].first;
                spans[i].count++;
            }
            spans[i].padded += at < in + pool->pad_end[dim];
        }
    }
    return spans;
}

enum base_status eng_pool_shape_of(const struct eng_prepare *ctx, const struct eng_pool *pool,
                                   const struct eng_tensor *input, const struct eng_tensor *output,
                                   struct eng_pool_shape *out_shape)
{
    if (input->desc.dtype != ENG_F32 || input->layout != ENG_CHANNELS_LAST ||
        output->layout != ENG_CHANNELS_LAST || pool->fn == ENG_POOL_LP || pool->spatial < 1 ||
        pool->spatial > DIMS || input->desc.rank != pool->spatial + 2 ||
        eng_desc_count(&input->desc) == 0 || eng_desc_count(&output->desc) == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(output->desc.rank == input->desc.rank);
    base_assert(output->desc.dims[1] == input->desc.dims[1]);
    const struct eng_pool one = {.kernel = {1}, .stride = {1}, .dilation = {1}};
    struct eng_pool_shape s = {.batch = input->desc.dims[0],
                               .channels = input->desc.dims[1],
                               .window = 1,
                               .count_include_pad = pool->count_include_pad};
    for (uint32_t i = 0; i < DIMS; i++) {
        uint32_t missing = DIMS - pool->spatial;
        uint32_t d = i - missing;
        bool real = i >= missing;
        s.in[i] = real ? input->desc.dims[d + 2] : 1;
        s.out[i] = real ? output->desc.dims[d + 2] : 1;
        s.dilation[i] = real && pool->dilation[d] > 0 ? pool->dilation[d] : 1;
        s.spans[i] = make_spans(ctx->arena, real ? pool : &one, real ? d : 0, s.in[i], s.out[i]);
        s.window *= real ? pool->kernel[d] : 1;
        if (s.spans[i] == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    *out_shape = s;
    return BASE_OK;
}

enum base_status eng_cpu_prepare_pool(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    const struct eng_pool *p = &command->u.pool;
    const struct eng_tensor *x = &program->tensors[command->inputs[0]];
    const struct eng_tensor *y = &program->tensors[command->outputs[0]];
    bool has_indices = command->output_count > 1 && command->outputs[1] != ENG_NONE;
    struct pool_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (has_indices) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(eng_pool_shape_of(ctx, p, x, y, &s->shape));
    s->kernel =
        p->fn == ENG_POOL_MAX ? ctx->kernels->vec->pool_max : ctx->kernels->vec->pool_average;
    s->grain = ENG_CPU_GRAIN / (s->shape.out[2] * s->shape.channels * s->shape.window);
    out_step->run = run_pool;
    out_step->state = s;
    out_step->kernel = ctx->kernels->vec->names[command->op];
    return BASE_OK;
}
