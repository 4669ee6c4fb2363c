// Gradients of commands that move elements: raster, gather, scatter, top k. Called by the walk
// (autodiff.c) through its table, on the trainer's thread while it plans. Where something was read
// twice its gradients add up, so a move's gradient is a move turned round that sums; regions that
// read nothing twice are turned round without sums, and those that read everything without zeros.
// Indices have no gradient.
#include "train/autodiff_rules.h"

#include "base/check.h"

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
    base_assert(region->rank <= ENG_REGION_RANK_MAX);
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

// The regions that read one source.
struct moves {
    struct eng_region *regions;
    uint32_t count;
};

// Those of `source`, turned round.
static enum base_status turn_round(struct eng_ad *ad, const struct eng_command *command,
                                   uint32_t source, uint32_t dy, struct moves *out)
{
    uint32_t count = 0, total = command->u.raster.count;
    base_assert(ad_root(ad, source) == source);
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
    *out = (struct moves){regions, count};
    return BASE_OK;
}

// A single region that reads nothing twice needs no sums, and no zeros when it reads everything:
// false.
static bool relax(struct eng_ad *ad, const struct moves *moves, uint32_t source)
{
    struct eng_region *first = &moves->regions[0];
    if (moves->count != 1 || !reads_once(first, first->dst_stride)) {
        return true;
    }
    base_assert(region_volume(first) <= ad_count(ad, source));
    first->accumulate = false;
    return region_volume(first) < ad_count(ad, source);
}

enum base_status ad_rule_raster(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    base_assert(ad_count(ad, dy) == ad_count(ad, command->outputs[0]));
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t source = ENG_NONE, dx = ENG_NONE;
        struct moves moves = {0};
        struct eng_command *raster = NULL;
        bool is_new = ad_needs(ad, command, i);
        source = is_new ? ad_root(ad, command->inputs[i]) : ENG_NONE;
        for (uint32_t j = 0; j < i && is_new; j++) { // an alias and what it names count once
            is_new = command->inputs[j] == ENG_NONE || ad_root(ad, command->inputs[j]) != source;
        }
        if (!is_new) {
            continue;
        }
        BASE_TRY(turn_round(ad, command, source, dy, &moves));
        bool zero_fill = relax(ad, &moves, source);
        BASE_TRY(ad_like(ad, source, &dx));
        BASE_TRY(ad_command(ad, ENG_OP_RASTER, &(struct ad_ports){&dy, 1, dx}, &raster));
        raster->u.raster.regions = moves.regions;
        raster->u.raster.count = moves.count;
        raster->u.raster.zero_fill = zero_fill;
        BASE_TRY(ad_give(ad, source, dx));
    }
    return BASE_OK;
}

// --- gather -----------------------------------------------------------------------------------

// A tensor of I64 and how it is read.
struct operand {
    uint32_t tensor;
    struct eng_view view;
};

// An elementwise command of two operands over `box`.
static enum base_status emit_binary(struct eng_ad *ad, enum eng_binary_fn fn,
                                    const struct eng_box *box, const struct operand *operands,
                                    uint32_t *out)
{
    const uint32_t inputs[2] = {operands[0].tensor, operands[1].tensor};
    struct eng_command *command = NULL;
    base_assert(ad_tensor(ad, inputs[0])->desc.dtype == ENG_I64);
    base_assert(ad_tensor(ad, inputs[1])->desc.dtype == ENG_I64);
    BASE_TRY(ad_flat(ad, fn == ENG_LESS ? ENG_BOOL : ENG_I64, ad_volume(box), out));
    BASE_TRY(ad_command(ad, ENG_OP_BINARY, &(struct ad_ports){inputs, 2, *out}, &command));
    command->u.binary.fn = fn;
    command->box = *box;
    command->views[0] = operands[0].view;
    command->views[1] = operands[1].view;
    return BASE_OK;
}

static enum base_status one_int(struct eng_ad *ad, int64_t value, uint32_t *out)
{
    const int64_t *copy = base_arena_copy(ad->program->arena, &value, sizeof(value));
    return copy == NULL ? BASE_ERR_NOMEM : ad_ints(ad, copy, 1, out);
}

// Indices as I64 with negative ones counted from the end: SELECT(i < 0, i + count, i).
static enum base_status positive(struct eng_ad *ad, uint32_t indices, int64_t count, uint32_t *out)
{
    base_assert(ad_tensor(ad, indices)->desc.dtype == ENG_I64 ||
                ad_tensor(ad, indices)->desc.dtype == ENG_I32);
    struct eng_box row = ad_row(ad, indices);
    const struct eng_view each = ad_dense_view(&row);
    uint32_t wide = indices, zero = ENG_NONE, size = ENG_NONE, is_negative = ENG_NONE,
             shifted = ENG_NONE;
    struct eng_command *command = NULL;
    if (ad_tensor(ad, indices)->desc.dtype != ENG_I64) {
        BASE_TRY(ad_flat(ad, ENG_I64, row.size[0], &wide));
        BASE_TRY(ad_command(ad, ENG_OP_CAST, &(struct ad_ports){&indices, 1, wide}, &command));
    }
    BASE_TRY(one_int(ad, 0, &zero));
    BASE_TRY(one_int(ad, count, &size));
    const struct operand test[2] = {{wide, each}, {zero, {0}}},
                         sum[2] = {{wide, each}, {size, {0}}};
    BASE_TRY(emit_binary(ad, ENG_LESS, &row, test, &is_negative));
    BASE_TRY(emit_binary(ad, ENG_ADD, &row, sum, &shifted));
    const uint32_t inputs[3] = {is_negative, shifted, wide};
    BASE_TRY(ad_flat(ad, ENG_I64, row.size[0], out));
    BASE_TRY(ad_command(ad, ENG_OP_SELECT, &(struct ad_ports){inputs, 3, *out}, &command));
    command->box = row;
    command->views[0] = command->views[1] = command->views[2] = each;
    return BASE_OK;
}

// Gives to `data`, seen as [total / inner, inner], zeros to which dy [rows of indices, inner] was
// added.
static enum base_status give_scattered(struct eng_ad *ad, uint32_t data, uint32_t indices,
                                       uint32_t dy, int64_t inner)
{
    uint32_t inputs[3] = {ENG_NONE, indices, dy}, dx = ENG_NONE;
    int64_t rows = inner > 0 ? ad_count(ad, data) / inner : 0;
    struct eng_command *scatter = NULL;
    base_assert(ad_count(ad, indices) * inner == ad_count(ad, dy));
    BASE_TRY(ad_zeros(ad, data, &inputs[0]));
    BASE_TRY(ad_like(ad, data, &dx));
    BASE_TRY(ad_command(ad, ENG_OP_SCATTER, &(struct ad_ports){inputs, 3, dx}, &scatter));
    scatter->u.scatter = (struct eng_scatter){
        .fn = ENG_SCATTER_ADD, .rows = rows, .count = ad_count(ad, indices), .inner = inner};
    return ad_give(ad, data, dx);
}

// Flat places of the elements [outer, m, inner] that a gather takes at `indices` from [outer, n,
// inner]: (o * n + index) * inner + i. Not elementwise, indices are [m] and places those of whole
// rows.
static enum base_status places(struct eng_ad *ad, uint32_t indices, const struct eng_gather *gather,
                               uint32_t *out)
{
    bool shared = !gather->elementwise;
    int64_t n = gather->n, step = shared ? 1 : gather->inner, count = gather->outer * step;
    int64_t m = shared ? ad_count(ad, indices) : gather->m;
    int64_t *bases = base_arena_alloc(ad->program->arena, (size_t)(count + 1) * sizeof(*bases));
    struct eng_box box = {.rank = 3, .size = {gather->outer, m, step}};
    struct eng_box row = ad_row(ad, indices);
    uint32_t from = ENG_NONE, base = ENG_NONE, stride = ENG_NONE, scaled = ENG_NONE;
    base_assert(shared || ad_volume(&box) == ad_count(ad, indices));
    if (bases == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        bases[i] = i / step * n * step + i % step;
    }
    BASE_TRY(positive(ad, indices, n, &from));
    BASE_TRY(one_int(ad, step, &stride));
    BASE_TRY(ad_ints(ad, bases, count, &base));
    const struct operand factors[2] = {{from, ad_dense_view(&row)}, {stride, {0}}};
    BASE_TRY(emit_binary(ad, ENG_MUL, &row, factors, &scaled));
    const struct operand terms[2] = {
        {scaled, shared ? (struct eng_view){.stride = {0, 1, 0}} : ad_dense_view(&box)},
        {base, {.stride = {step, 0, 1}}},
    };
    return emit_binary(ad, ENG_ADD, &box, terms, out);
}

enum base_status ad_rule_gather(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_gather *g = &command->u.gather;
    uint32_t data = command->inputs[0], at = command->inputs[1];
    if (!g->elementwise && g->outer == 1) {
        return give_scattered(ad, data, at, dy, g->inner);
    }
    BASE_TRY(places(ad, at, g, &at));
    return give_scattered(ad, data, at, dy, g->elementwise ? 1 : g->inner);
}

// --- top k ------------------------------------------------------------------------------------

enum base_status ad_rule_topk(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_topk *t = &command->u.topk;
    const struct eng_gather taken = {
        .outer = t->outer, .n = t->n, .inner = t->inner, .elementwise = true, .m = t->k};
    uint32_t at = ENG_NONE;
    if (command->output_count < 2 || command->outputs[1] == ENG_NONE) {
        return ad_refuse(ad, command, "without indices");
    }
    BASE_TRY(places(ad, command->outputs[1], &taken, &at));
    return give_scattered(ad, command->inputs[0], at, dy, 1);
}

// --- scatter ----------------------------------------------------------------------------------

// Rows written: SET takes the gradient away from data there, ADD leaves it. Rows set twice give
// their gradient to every update of theirs.
enum base_status ad_rule_scatter(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_scatter *s = &command->u.scatter;
    uint32_t data = command->inputs[0], at = command->inputs[1], updates = command->inputs[2];
    base_assert(ad_count(ad, at) == s->count);
    base_assert(ad_count(ad, updates) == s->count * s->inner);
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
            BASE_TRY(ad_command(ad, ENG_OP_SCATTER, &(struct ad_ports){inputs, 3, dx}, &made));
            made->u.scatter = *s;
            made->u.scatter.coords.depth = 0; // checked on the way forward
        }
        BASE_TRY(ad_give(ad, data, dx));
    }
    if (ad_needs(ad, command, 2)) {
        uint32_t inputs[2] = {dy, at}, d_updates = ENG_NONE;
        BASE_TRY(ad_like(ad, updates, &d_updates));
        BASE_TRY(ad_command(ad, ENG_OP_GATHER, &(struct ad_ports){inputs, 2, d_updates}, &made));
        made->u.gather = (struct eng_gather){.outer = 1, .n = s->rows, .inner = s->inner};
        BASE_TRY(ad_give(ad, updates, d_updates));
    }
    return BASE_OK;
}
