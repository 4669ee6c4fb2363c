// Gradients of commands that move elements: raster, gather, scatter, top k. Called by the walk
// (autodiff.c) through its table, on the trainer's thread while it plans. Where something was read
// twice its gradients add up, so a move's gradient is a move turned round that sums; regions that
// read nothing twice are turned round without sums, and those that read everything without zeros.
// Indices have no gradient.
#include "train/autodiff_rules.h"

#include <string.h>

// --- raster -----------------------------------------------------------------------------------

static int64_t region_volume(const struct eng_region *region)
{
    int64_t volume = 1;
    for (uint32_t d = 0; d < region->rank; d++) {
        volume *= region->size[d];
    }
    return volume;
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

// Whether the region reads no element of its source twice: by size of stride, each stride steps
// over all the smaller ones can reach.
static bool reads_once(const struct eng_region *region, const int64_t *strides)
{
    uint32_t order[ENG_REGION_RANK_MAX], count = 0;
    int64_t reach = 0;
    for (uint32_t d = 0; d < region->rank; d++) {
        uint32_t at = count;
        if (region->size[d] <= 1) {
            continue;
        }
        for (; at > 0 && magnitude(strides[order[at - 1]]) > magnitude(strides[d]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = d;
        count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (magnitude(strides[order[i]]) <= reach) {
            return false;
        }
        reach += (region->size[order[i]] - 1) * magnitude(strides[order[i]]);
    }
    return true;
}

// The regions that read `source`, turned round.
static enum base_status turn_round(struct eng_ad *ad, const struct eng_command *command,
                                   uint32_t source, uint32_t dy, struct eng_region **out,
                                   uint32_t *out_count)
{
    uint32_t count = 0, total = command->u.raster.count;
    struct eng_region *regions =
        base_arena_alloc(ad->program->arena, (total + 1) * sizeof(*regions));
    if (regions == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < total; i++) {
        struct eng_region from = command->u.raster.regions[i];
        if (ad_root(ad, from.source) == source) {
            struct eng_region *to = &regions[count++];
            *to = from;
            to->source = dy;
            to->accumulate = true;
            to->src_offset = from.dst_offset;
            to->dst_offset = from.src_offset;
            memcpy(to->src_stride, from.dst_stride, sizeof(from.dst_stride));
            memcpy(to->dst_stride, from.src_stride, sizeof(from.src_stride));
        }
    }
    *out = regions;
    *out_count = count;
    return BASE_OK;
}

// A single region that reads nothing twice needs no sums, and no zeros when it reads everything.
static void relax(struct eng_ad *ad, struct eng_region *regions, uint32_t count, uint32_t source,
                  bool *zero_fill)
{
    *zero_fill = true;
    if (count == 1 && reads_once(&regions[0], regions[0].dst_stride)) {
        regions[0].accumulate = false;
        *zero_fill = region_volume(&regions[0]) < ad_count(ad, source);
    }
}

enum base_status ad_rule_raster(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t source = ENG_NONE, dx = ENG_NONE, input = dy, count = 0;
        struct eng_region *regions = NULL;
        struct eng_command *raster = NULL;
        bool is_new = ad_needs(ad, command, i), zero_fill = true;
        source = is_new ? ad_root(ad, command->inputs[i]) : ENG_NONE;
        for (uint32_t j = 0; j < i && is_new; j++) { // an alias and what it names count once
            is_new = command->inputs[j] == ENG_NONE || ad_root(ad, command->inputs[j]) != source;
        }
        if (!is_new) {
            continue;
        }
        BASE_TRY(turn_round(ad, command, source, dy, &regions, &count));
        relax(ad, regions, count, source, &zero_fill);
        BASE_TRY(ad_like(ad, source, &dx));
        BASE_TRY(ad_command(ad, ENG_OP_RASTER, &input, 1, dx, &raster));
        raster->u.raster.regions = regions;
        raster->u.raster.count = count;
        raster->u.raster.zero_fill = zero_fill;
        BASE_TRY(ad_give(ad, source, dx));
    }
    return BASE_OK;
}

// --- gather -----------------------------------------------------------------------------------

// An elementwise command of two operands over `box`.
static enum base_status emit_binary(struct eng_ad *ad, enum eng_binary_fn fn,
                                    const struct eng_box *box, const uint32_t *tensors,
                                    const struct eng_view *views, enum eng_dtype dtype,
                                    uint32_t *out)
{
    struct eng_command *command = NULL;
    BASE_TRY(ad_flat(ad, dtype, ad_volume(box), out));
    BASE_TRY(ad_command(ad, ENG_OP_BINARY, tensors, 2, *out, &command));
    command->u.binary.fn = fn;
    command->box = *box;
    command->views[0] = views[0];
    command->views[1] = views[1];
    return BASE_OK;
}

static enum base_status one_int(struct eng_ad *ad, int64_t value, uint32_t *out)
{
    const int64_t *copy = base_arena_copy(ad->program->arena, &value, sizeof(value));
    return copy == NULL ? BASE_ERR_NOMEM : ad_ints(ad, copy, 1, out);
}

// Indices as I64 with negative ones counted from the end: SELECT(i < 0, i + n, i).
static enum base_status positive(struct eng_ad *ad, uint32_t indices, int64_t n, uint32_t *out)
{
    struct eng_box row = ad_row(ad, indices);
    const struct eng_view views[2] = {ad_dense_view(&row), {0}};
    uint32_t wide = indices, zero = ENG_NONE, size = ENG_NONE, is_negative = ENG_NONE,
             shifted = ENG_NONE;
    struct eng_command *command = NULL;
    if (ad_tensor(ad, indices)->desc.dtype != ENG_I64) {
        BASE_TRY(ad_flat(ad, ENG_I64, row.size[0], &wide));
        BASE_TRY(ad_command(ad, ENG_OP_CAST, &indices, 1, wide, &command));
    }
    BASE_TRY(one_int(ad, 0, &zero));
    BASE_TRY(one_int(ad, n, &size));
    const uint32_t tests[2] = {wide, zero}, sums[2] = {wide, size};
    BASE_TRY(emit_binary(ad, ENG_LESS, &row, tests, views, ENG_BOOL, &is_negative));
    BASE_TRY(emit_binary(ad, ENG_ADD, &row, sums, views, ENG_I64, &shifted));
    const uint32_t inputs[3] = {is_negative, shifted, wide};
    BASE_TRY(ad_flat(ad, ENG_I64, row.size[0], out));
    BASE_TRY(ad_command(ad, ENG_OP_SELECT, inputs, 3, *out, &command));
    command->box = row;
    command->views[0] = command->views[1] = command->views[2] = views[0];
    return BASE_OK;
}

// Adds updates [rows of indices, inner] to zeros like `data`, seen as [total / inner, inner].
static enum base_status scatter_add(struct eng_ad *ad, uint32_t data, uint32_t indices,
                                    uint32_t updates, int64_t inner, uint32_t *out)
{
    uint32_t inputs[3] = {ENG_NONE, indices, updates};
    int64_t rows = inner > 0 ? ad_count(ad, data) / inner : 0;
    struct eng_command *scatter = NULL;
    BASE_TRY(ad_zeros(ad, data, &inputs[0]));
    BASE_TRY(ad_like(ad, data, out));
    BASE_TRY(ad_command(ad, ENG_OP_SCATTER, inputs, 3, *out, &scatter));
    scatter->u.scatter = (struct eng_scatter){
        .fn = ENG_SCATTER_ADD, .rows = rows, .count = ad_count(ad, indices), .inner = inner};
    return BASE_OK;
}

// Flat places of elements [outer, m, inner] taken at `indices` from [outer, n, inner]:
// (o * n + index) * inner + i. With `shared`, indices are [m] and places those of whole rows.
static enum base_status places(struct eng_ad *ad, uint32_t indices, int64_t outer, int64_t n,
                               int64_t m, int64_t inner, bool shared, uint32_t *out)
{
    int64_t step = shared ? 1 : inner, count = outer * step;
    int64_t *bases = base_arena_alloc(ad->program->arena, (size_t)(count + 1) * sizeof(*bases));
    struct eng_box box = {.rank = 3, .size = {outer, m, step}};
    struct eng_box row = ad_row(ad, indices);
    uint32_t from = ENG_NONE, base = ENG_NONE, stride = ENG_NONE, scaled = ENG_NONE;
    if (bases == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        bases[i] = i / step * n * step + i % step;
    }
    BASE_TRY(positive(ad, indices, n, &from));
    BASE_TRY(one_int(ad, step, &stride));
    BASE_TRY(ad_ints(ad, bases, count, &base));
    const uint32_t factors[2] = {from, stride};
    const struct eng_view flat[2] = {ad_dense_view(&row), {0}};
    BASE_TRY(emit_binary(ad, ENG_MUL, &row, factors, flat, ENG_I64, &scaled));
    const uint32_t terms[2] = {scaled, base};
    const struct eng_view views[2] = {
        shared ? (struct eng_view){.stride = {0, 1, 0}} : ad_dense_view(&box),
        {.stride = {step, 0, 1}},
    };
    return emit_binary(ad, ENG_ADD, &box, terms, views, ENG_I64, out);
}

enum base_status ad_rule_gather(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_gather *g = &command->u.gather;
    uint32_t data = command->inputs[0], at = command->inputs[1], dx = ENG_NONE;
    if (!g->elementwise && g->outer == 1) {
        BASE_TRY(scatter_add(ad, data, at, dy, g->inner, &dx));
        return ad_give(ad, data, dx);
    }
    int64_t m = g->elementwise ? g->m : ad_count(ad, at);
    BASE_TRY(places(ad, at, g->outer, g->n, m, g->inner, !g->elementwise, &at));
    BASE_TRY(scatter_add(ad, data, at, dy, g->elementwise ? 1 : g->inner, &dx));
    return ad_give(ad, data, dx);
}

// --- top k ------------------------------------------------------------------------------------

enum base_status ad_rule_topk(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_topk *t = &command->u.topk;
    uint32_t data = command->inputs[0], dx = ENG_NONE, at = ENG_NONE;
    if (command->output_count < 2 || command->outputs[1] == ENG_NONE) {
        return ad_refuse(ad, command, "without indices");
    }
    BASE_TRY(places(ad, command->outputs[1], t->outer, t->n, t->k, t->inner, false, &at));
    BASE_TRY(scatter_add(ad, data, at, dy, 1, &dx));
    return ad_give(ad, data, dx);
}

// --- scatter ----------------------------------------------------------------------------------

// Rows written: SET takes the gradient away from data there, ADD leaves it. Rows set twice give
// their gradient to every update of theirs.
enum base_status ad_rule_scatter(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_scatter *s = &command->u.scatter;
    uint32_t data = command->inputs[0], at = command->inputs[1], updates = command->inputs[2];
    struct eng_command *made = NULL;
    if (s->fn != ENG_SCATTER_SET && s->fn != ENG_SCATTER_ADD) {
        return ad_refuse(ad, command, "products and extremes");
    }
    if (ad_needs(ad, command, 0)) {
        uint32_t dx = dy;
        if (s->fn == ENG_SCATTER_SET) {
            uint32_t inputs[3] = {dy, at, ENG_NONE};
            BASE_TRY(ad_zeros(ad, updates, &inputs[2]));
            BASE_TRY(ad_like(ad, data, &dx));
            BASE_TRY(ad_command(ad, ENG_OP_SCATTER, inputs, 3, dx, &made));
            made->u.scatter = *s;
            made->u.scatter.coords.depth = 0; // checked on the way forward
        }
        BASE_TRY(ad_give(ad, data, dx));
    }
    if (ad_needs(ad, command, 2)) {
        uint32_t inputs[2] = {dy, at}, d_updates = ENG_NONE;
        BASE_TRY(ad_like(ad, updates, &d_updates));
        BASE_TRY(ad_command(ad, ENG_OP_GATHER, inputs, 2, d_updates, &made));
        made->u.gather = (struct eng_gather){.outer = 1, .n = s->rows, .inner = s->inner};
        BASE_TRY(ad_give(ad, updates, d_updates));
    }
    return BASE_OK;
}
