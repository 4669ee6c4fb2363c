// The walk of reverse-mode differentiation: which tensors matter, commands from last to first,
// gradients summed where a tensor is read several times. Called by train_plan.c once per plan, on
// the trainer's thread. A table names the rule of each atomic command; one without a rule is
// refused only when a gradient has to pass through it. Rules give their gradients on by ad_give and
// its relatives, which are here because they add up what comes to one tensor from several readers.
#include "train/autodiff.h"

#include "base/check.h"
#include "train/autodiff_rules.h"

#include <string.h>

static const ad_rule_fn rules[ENG_OP_COUNT] = {
    [ENG_OP_RASTER] = ad_rule_raster,
    [ENG_OP_UNARY] = ad_rule_unary,
    [ENG_OP_BINARY] = ad_rule_binary,
    [ENG_OP_SELECT] = ad_rule_select,
    [ENG_OP_CAST] = ad_rule_cast,
    [ENG_OP_REDUCE] = ad_rule_reduce,
    [ENG_OP_MATMUL] = ad_rule_matmul,
    [ENG_OP_CONV] = ad_rule_conv,
    [ENG_OP_CONV_TRANSPOSE] = ad_rule_conv_transpose,
    [ENG_OP_POOL] = ad_rule_pool,
    [ENG_OP_SOFTMAX] = ad_rule_softmax,
    [ENG_OP_NORM] = ad_rule_norm,
    [ENG_OP_GATHER] = ad_rule_gather,
    [ENG_OP_SCATTER] = ad_rule_scatter,
    [ENG_OP_TOPK] = ad_rule_topk,
    [ENG_OP_CUMSUM] = ad_rule_cumsum,
    [ENG_OP_RESIZE] = ad_rule_resize,
};

bool eng_autodiff_supports(enum eng_atomic op)
{
    return (unsigned)op < ENG_OP_COUNT && rules[op] != NULL;
}

enum base_status ad_refuse(const struct eng_ad *ad, const struct eng_command *command,
                           const char *why)
{
    return base_error_set(ad->error, BASE_ERR_UNSUPPORTED, "no gradient of %s%s%s",
                          eng_atomic_text(command->op), why[0] != '\0' ? ": " : "", why);
}

// --- which tensors matter ---------------------------------------------------------------------

static bool reads_needed(const struct eng_ad *ad, const struct eng_command *command)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (ad_needs(ad, command, i)) {
            return true;
        }
    }
    return false;
}

static enum base_status mark(struct eng_ad *ad, const struct eng_gradient *wanted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        base_assert(wanted[i].by < ad->tensor_count);
        if (!ad_is_float(ad, wanted[i].by)) {
            return base_error_set(ad->error, BASE_ERR_INVALID, "a gradient by %s elements",
                                  eng_dtype_name(ad_tensor(ad, wanted[i].by)->desc.dtype));
        }
        ad->needs[ad_root(ad, wanted[i].by)] = true;
    }
    for (uint32_t c = 0; c < ad->program->command_count; c++) {
        const struct eng_command *command = &ad->program->commands[c];
        bool needed = reads_needed(ad, command);
        for (uint32_t i = 0; needed && i < command->output_count; i++) {
            if (command->outputs[i] != ENG_NONE && ad_is_float(ad, command->outputs[i])) {
                ad->needs[command->outputs[i]] = true;
            }
        }
    }
    return BASE_OK;
}

// --- the walk ---------------------------------------------------------------------------------

static enum base_status seed(struct eng_ad *ad, uint32_t loss)
{
    uint32_t one = ENG_NONE;
    if (!ad_is_float(ad, loss) || ad_count(ad, loss) != 1) {
        return base_error_set(ad->error, BASE_ERR_INVALID, "a loss that is not one number");
    }
    BASE_TRY(ad_scalar(ad, ad_tensor(ad, loss)->desc.dtype, 1, &one));
    return ad_give(ad, loss, one);
}

static enum base_status pass_back(struct eng_ad *ad, const struct eng_command *command)
{
    uint32_t y = command->output_count > 0 ? command->outputs[0] : ENG_NONE;
    for (uint32_t i = 1; i < command->output_count; i++) {
        uint32_t other = command->outputs[i];
        if (other != ENG_NONE && ad->gradients[other] != ENG_NONE) {
            return ad_refuse(ad, command, "by an output other than the first");
        }
    }
    if (y == ENG_NONE || !ad->needs[y] || ad->gradients[y] == ENG_NONE) {
        return BASE_OK;
    }
    if (!eng_autodiff_supports(command->op)) {
        return ad_refuse(ad, command, "");
    }
    base_assert(y < ad->tensor_count && ad_root(ad, y) == y); // no command writes an alias
    uint32_t dy = ENG_NONE;
    BASE_TRY(ad_as(ad, ad->gradients[y], y, &dy));
    return rules[command->op](ad, command, dy);
}

enum base_status eng_autodiff(struct eng_program *program, uint32_t loss,
                              struct eng_gradient *gradients, uint32_t count,
                              struct base_error *error)
{
    base_assert(loss < program->tensor_count);
    struct eng_ad ad = {.program = program, .error = error, .tensor_count = program->tensor_count};
    size_t tensors = program->tensor_count;
    ad.gradients = base_arena_alloc(program->arena, (tensors + 1) * sizeof(uint32_t));
    ad.needs = base_arena_zalloc(program->arena, tensors + 1);
    if (ad.gradients == NULL || ad.needs == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(ad.gradients, 0xff, tensors * sizeof(uint32_t));
    BASE_TRY(mark(&ad, gradients, count));
    if (ad.needs[ad_root(&ad, loss)]) {
        BASE_TRY(seed(&ad, loss));
    }
    for (uint32_t c = program->command_count; c-- > 0;) {
        struct eng_command command = program->commands[c]; // the array moves as it grows
        BASE_TRY(pass_back(&ad, &command));
    }
    for (uint32_t i = 0; i < count; i++) {
        gradients[i].tensor = ad.gradients[ad_root(&ad, gradients[i].by)];
    }
    return BASE_OK;
}

// --- passing gradients on ---------------------------------------------------------------------

enum base_status ad_give(struct eng_ad *ad, uint32_t tensor, uint32_t gradient)
{
    uint32_t root = ad_root(ad, tensor), sum = ENG_NONE;
    base_assert(root < ad->tensor_count); // gradients of gradients are not kept
    base_assert(ad_count(ad, gradient) == ad_count(ad, root));
    base_assert(ad_tensor(ad, gradient)->desc.dtype == ad_tensor(ad, root)->desc.dtype);
    uint32_t *mine = &ad->gradients[root];
    if (*mine == ENG_NONE) {
        *mine = gradient;
        return BASE_OK;
    }
    uint32_t parts[2] = {*mine, gradient};
    struct eng_command *add = NULL;
    BASE_TRY(ad_like(ad, root, &sum));
    BASE_TRY(ad_command(ad, ENG_OP_BINARY, &(struct ad_ports){parts, 2, sum}, &add));
    add->u.binary.fn = ENG_ADD;
    add->box = ad_row(ad, root);
    add->views[0] = add->views[1] = ad_dense_view(&add->box);
    *mine = sum;
    return BASE_OK;
}

// A box and how the target is stepped through, without dims of size 1.
struct places {
    struct eng_box box;
    struct eng_view view;
};

static struct places places_of(const struct eng_box *box, const struct eng_view *view)
{
    struct places p = {.view = {.offset = view->offset}};
    for (uint32_t d = 0; d < box->rank; d++) {
        if (box->size[d] != 1) {
            p.view.stride[p.box.rank] = view->stride[d];
            p.box.size[p.box.rank++] = box->size[d];
        }
    }
    return p;
}

// Sums over the innermost run of dims the target does not step through; false: there is none.
static enum base_status sum_run(struct eng_ad *ad, struct places *places, uint32_t *gradient,
                                bool *done)
{
    base_assert(ad_volume(&places->box) == ad_count(ad, *gradient));
    uint32_t end = places->box.rank, begin;
    int64_t outer = 1, n = 1, inner = 1;
    while (end > 0 && places->view.stride[end - 1] != 0) {
        inner *= places->box.size[--end];
    }
    for (begin = end; begin > 0 && places->view.stride[begin - 1] == 0; begin--) {
        n *= places->box.size[begin - 1];
    }
    for (uint32_t d = 0; d < begin; d++) {
        outer *= places->box.size[d];
    }
    *done = begin == end;
    if (*done) {
        return BASE_OK;
    }
    const struct eng_reduce run = {ENG_REDUCE_SUM, outer, n, inner};
    BASE_TRY(ad_reduce(ad, *gradient, &run, gradient));
    for (uint32_t d = end; d < places->box.rank; d++) {
        places->box.size[begin + d - end] = places->box.size[d];
        places->view.stride[begin + d - end] = places->view.stride[d];
    }
    places->box.rank -= end - begin;
    return BASE_OK;
}

static bool is_dense(const struct places *places, int64_t count)
{
    int64_t step = 1;
    for (uint32_t d = places->box.rank; d-- > 0;) {
        if (places->view.stride[d] != step) {
            return false;
        }
        step *= places->box.size[d];
    }
    return places->view.offset == 0 && step == count;
}

// Adds each element where it was read from. The same place may have been read twice.
static enum base_status put_back(struct eng_ad *ad, uint32_t tensor, const struct places *places,
                                 uint32_t *gradient)
{
    base_assert(ad_volume(&places->box) == ad_count(ad, *gradient));
    struct eng_region *region = base_arena_zalloc(ad->program->arena, sizeof(*region));
    struct eng_view dense = ad_dense_view(&places->box);
    struct eng_command *raster = NULL;
    uint32_t out = ENG_NONE;
    if (region == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (places->box.rank > ENG_REGION_RANK_MAX) {
        return base_error_set(ad->error, BASE_ERR_UNSUPPORTED,
                              "no gradient of a view of %u dimensions", places->box.rank);
    }
    *region = (struct eng_region){.source = *gradient,
                                  .rank = places->box.rank,
                                  .accumulate = true,
                                  .dst_offset = places->view.offset};
    for (uint32_t d = 0; d < places->box.rank; d++) {
        region->size[d] = places->box.size[d];
        region->src_stride[d] = dense.stride[d];
        region->dst_stride[d] = places->view.stride[d];
    }
    BASE_TRY(ad_like(ad, ad_root(ad, tensor), &out));
    BASE_TRY(ad_command(ad, ENG_OP_RASTER, &(struct ad_ports){gradient, 1, out}, &raster));
    raster->u.raster.regions = region;
    raster->u.raster.count = 1;
    raster->u.raster.zero_fill = true;
    *gradient = out;
    return BASE_OK;
}

enum base_status ad_give_view(struct eng_ad *ad, uint32_t tensor, uint32_t gradient,
                              const struct eng_box *box, const struct eng_view *view)
{
    base_assert(ad_volume(box) == ad_count(ad, gradient));
    struct places p = places_of(box, view);
    for (bool done = false; !done;) {
        BASE_TRY(sum_run(ad, &p, &gradient, &done));
    }
    if (!is_dense(&p, ad_count(ad, tensor))) {
        BASE_TRY(put_back(ad, tensor, &p, &gradient));
    }
    return ad_give(ad, tensor, gradient);
}

enum base_status ad_give_bias(struct eng_ad *ad, uint32_t bias, uint32_t dy,
                              const struct eng_box *box)
{
    struct eng_view view = {.stride = {0, 1, 0}};
    base_assert(box->rank == 3);
    if (bias == ENG_NONE || !ad->needs[ad_root(ad, bias)]) {
        return BASE_OK;
    }
    return ad_give_view(ad, bias, dy, box, &view);
}
