// Virtual tensors: regions over real ones. Regions over virtual tensors are composed with theirs
// as they come (vertical merging), equal tensors are shared (horizontal merging), and the first
// command that needs the elements makes them real: for nothing when they only get other dims, at
// once when the sources are known, else by a RASTER.
#include "lower/lower_state.h"

#include "base/check.h"
#include "base/hash.h"
#include "program/region_merge.h"

#include <string.h>

// --- collecting regions

static enum base_status add_region(struct eng_lower *lower, struct eng_wide *wide, bool *out_fits)
{
    base_assert(lower->region_count <= ENG_REGIONS_MAX);
    *out_fits = true;
    if (!eng_wide_canonical(wide)) {
        return BASE_OK;
    }
    int64_t count = eng_wide_region_count(wide);
    if (count > ENG_REGIONS_MAX - lower->region_count) {
        *out_fits = false;
        return BASE_OK;
    }
    while (lower->region_count + (uint32_t)count > lower->region_capacity) {
        // Growing asks for one more than there are; the array doubles.
        void *items = lower->regions;
        BASE_TRY(eng_lower_grow(lower, &items, lower->region_capacity, &lower->region_capacity,
                                sizeof(struct eng_region)));
        lower->regions = items;
    }
    eng_wide_regions(wide, &lower->regions[lower->region_count]);
    lower->region_count += (uint32_t)count;
    return BASE_OK;
}

// Reads through a virtual source. *out_done false: its elements are needed, nothing was added.
static enum base_status add_merged(struct eng_lower *lower, const struct eng_wide *outer,
                                   uint32_t *pairs, bool *out_done)
{
    base_assert(tensor_of(lower, outer->source)->kind == ENG_VIRTUAL);
    base_assert(*pairs <= ENG_MERGE_PAIRS_MAX);
    const struct eng_tensor *source = tensor_of(lower, outer->source);
    const struct eng_region *inner = source->regions;
    uint32_t inner_count = source->region_count;
    uint32_t start = lower->region_count;
    *out_done = false;
    if (inner_count > ENG_MERGE_REGIONS_MAX || inner_count > ENG_MERGE_PAIRS_MAX - *pairs) {
        return BASE_OK;
    }
    *pairs += inner_count;
    for (uint32_t i = 0; i < inner_count; i++) {
        struct eng_wide from;
        struct eng_wide merged;
        if (inner[i].accumulate) {
            lower->region_count = start;
            return BASE_OK;
        }
        eng_wide_of(&inner[i], &from);
        enum eng_merge verdict = eng_region_merge(outer, &from, &merged);
        bool fits = verdict != ENG_MERGE_NO;
        if (verdict == ENG_MERGE_DONE) {
            BASE_TRY(add_region(lower, &merged, &fits));
        }
        if (!fits) {
            lower->region_count = start;
            return BASE_OK;
        }
    }
    *out_done = true;
    return BASE_OK;
}

static bool is_empty(const struct eng_wide *wide)
{
    for (uint32_t d = 0; d < wide->rank; d++) {
        if (wide->dims[d].size == 0) {
            return true;
        }
    }
    return false;
}

// A broadcast of something made of pieces: pieces are put together once, and the result, small as
// it is, can be read in place.
static bool repeats(const struct eng_wide *wide)
{
    for (uint32_t d = 0; d < wide->rank; d++) {
        if (wide->dims[d].src == 0 && wide->dims[d].size > 1) {
            return true;
        }
    }
    return false;
}

enum base_status eng_lower_add(struct eng_lower *lower, struct eng_move *move,
                               const struct eng_wide *region)
{
    struct eng_wide wide = *region;
    if (is_empty(&wide) || move->elements == 0) {
        return BASE_OK;
    }
    base_check(wide.source < lower->program->tensor_count);
    const struct eng_tensor *source = tensor_of(lower, wide.source);
    struct eng_region_span span;
    if (source->desc.dtype != move->desc.dtype || !eng_wide_span(&wide, &span) ||
        span.src_min < 0 || span.dst_min < 0 || span.src_max >= eng_desc_count(&source->desc) ||
        span.dst_max >= move->elements) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                              "moves elements outside of its tensors");
    }
    if (source->kind == ENG_VIRTUAL) {
        bool done = false;
        if (source->region_count == 1 || !repeats(&wide)) {
            BASE_TRY(add_merged(lower, &wide, &move->pairs, &done));
        }
        if (done) {
            return BASE_OK;
        }
        BASE_TRY(eng_lower_real(lower, wide.source, &wide.source));
        source = tensor_of(lower, wide.source);
    }
    if (source->alias != ENG_NONE) {
        wide.source = source->alias;
    }
    bool fits;
    BASE_TRY(add_region(lower, &wide, &fits));
    if (!fits) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_TOO_LARGE,
                              "over %u regions in one tensor", ENG_REGIONS_MAX);
    }
    return BASE_OK;
}

// Whether the collected regions write every element (they write none twice). Sums count as gaps:
// they need zeros to start from.
static bool covers(const struct eng_lower *lower, int64_t count)
{
    int64_t written = 0;
    for (uint32_t i = 0; i < lower->region_count; i++) {
        int64_t volume = 1;
        for (uint32_t d = 0; d < lower->regions[i].rank; d++) {
            volume *= lower->regions[i].size[d];
        }
        if (lower->regions[i].accumulate) {
            return false;
        }
        written += volume;
    }
    return written >= count;
}

// --- horizontal merging

static uint64_t virtual_hash(const struct eng_lower *lower, const struct eng_desc *desc,
                             enum eng_layout layout, bool zero_fill)
{
    uint64_t hash = base_hash64(lower->regions, lower->region_count * sizeof(struct eng_region));
    int64_t head[ENG_RANK_MAX + 3] = {desc->dtype, desc->rank, (layout << 1) | zero_fill};
    memcpy(&head[3], desc->dims, desc->rank * sizeof(int64_t));
    return base_hash64_seed(head, sizeof(head), hash);
}

static uint32_t find_equal(const struct eng_lower *lower, uint64_t hash,
                           const struct eng_desc *desc, enum eng_layout layout, bool zero_fill)
{
    uint32_t at = lower->merge_buckets[hash % ENG_MERGE_BUCKETS];
    for (; at != ENG_NONE; at = lower->merges[at].next) {
        if (lower->merges[at].hash != hash) {
            continue;
        }
        const struct eng_tensor *tensor = tensor_of(lower, lower->merges[at].tensor);
        if (tensor->layout == layout && tensor->zero_fill == zero_fill &&
            tensor->region_count == lower->region_count && eng_desc_equal(&tensor->desc, desc) &&
            (lower->region_count == 0 ||
             memcmp(tensor->regions, lower->regions,
                    lower->region_count * sizeof(struct eng_region)) == 0)) {
            return lower->merges[at].tensor;
        }
    }
    return ENG_NONE;
}

static enum base_status remember(struct eng_lower *lower, uint64_t hash, uint32_t tensor)
{
    base_assert(tensor < lower->program->tensor_count);
    void *items = lower->merges;
    BASE_TRY(eng_lower_grow(lower, &items, lower->merge_count, &lower->merge_capacity,
                            sizeof(struct eng_merge_entry)));
    lower->merges = items;
    uint32_t *bucket = &lower->merge_buckets[hash % ENG_MERGE_BUCKETS];
    lower->merges[lower->merge_count] = (struct eng_merge_entry){hash, tensor, *bucket};
    *bucket = lower->merge_count++;
    return BASE_OK;
}

// --- making them

static enum base_status new_virtual(struct eng_lower *lower, const struct eng_desc *desc,
                                    enum eng_layout layout, bool zero_fill, uint32_t *out)
{
    base_assert(lower->region_count <= ENG_REGIONS_MAX);
    uint64_t hash = virtual_hash(lower, desc, layout, zero_fill);
    *out = find_equal(lower, hash, desc, layout, zero_fill);
    if (*out != ENG_NONE) {
        return BASE_OK;
    }
    BASE_TRY(eng_lower_tensor(lower, ENG_VIRTUAL, layout, desc, out));
    struct eng_tensor *tensor = tensor_of(lower, *out);
    tensor->zero_fill = zero_fill;
    tensor->region_count = lower->region_count;
    if (lower->region_count > 0) {
        tensor->regions = base_arena_copy(lower->arena, lower->regions,
                                          lower->region_count * sizeof(struct eng_region));
        if (tensor->regions == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    bool foldable = true;
    for (uint32_t i = 0; i < lower->region_count; i++) {
        foldable = foldable && lower->notes[lower->regions[i].source].foldable;
    }
    lower->notes[*out].foldable = foldable;
    return remember(lower, hash, *out);
}

enum base_status eng_lower_begin(struct eng_lower *lower, const struct eng_desc *desc,
                                 struct eng_move *out)
{
    *out = (struct eng_move){.desc = *desc};
    enum base_status status = eng_desc_check(&out->desc, &out->elements);
    if (status != BASE_OK) {
        return eng_lower_fail(lower, lower->node, status, "a result of impossible shape");
    }
    lower->region_count = 0;
    return BASE_OK;
}

enum base_status eng_lower_end(struct eng_lower *lower, const struct eng_move *move,
                               enum eng_layout layout, uint32_t *out)
{
    base_assert((unsigned)layout <= ENG_CHANNELS_LAST);
    if (move->elements == 0) {
        BASE_TRY(eng_lower_known(lower, &move->desc, NULL, NULL, out));
        tensor_of(lower, *out)->layout = layout;
        return BASE_OK;
    }
    // Gaps are found by counting: never bytes of whoever used the memory before.
    bool zero_fill = !covers(lower, move->elements);
    if (lower->region_count == 1 && !zero_fill &&
        eng_region_is_identity(&lower->regions[0], move->elements)) {
        const struct eng_tensor *source = tensor_of(lower, lower->regions[0].source);
        if (source->layout == layout && eng_desc_equal(&source->desc, &move->desc)) {
            *out = lower->regions[0].source;
            return BASE_OK;
        }
    }
    BASE_TRY(new_virtual(lower, &move->desc, layout, zero_fill, out));
    return lower->options->no_merge ? eng_lower_real(lower, *out, out) : BASE_OK;
}

enum base_status eng_lower_move(struct eng_lower *lower, const struct eng_desc *desc,
                                enum eng_layout layout, const struct eng_wide *wide, uint32_t *out)
{
    struct eng_move move;
    BASE_TRY(eng_lower_begin(lower, desc, &move));
    BASE_TRY(eng_lower_add(lower, &move, wide));
    return eng_lower_end(lower, &move, layout, out);
}

enum base_status eng_lower_virtual(struct eng_lower *lower, const struct eng_desc *desc,
                                   const struct eng_region *regions, uint32_t count, uint32_t *out)
{
    struct eng_move move;
    BASE_TRY(eng_lower_begin(lower, desc, &move));
    for (uint32_t i = 0; i < count; i++) {
        struct eng_wide wide;
        if (regions[i].rank > ENG_REGION_RANK_MAX) {
            return eng_lower_fail(lower, lower->node, BASE_ERR_BUG, "a region of too many dims");
        }
        eng_wide_of(&regions[i], &wide);
        BASE_TRY(eng_lower_add(lower, &move, &wide));
    }
    return eng_lower_end(lower, &move, ENG_PLAIN, out);
}

// --- layouts

static enum base_status convert(struct eng_lower *lower, uint32_t tensor, enum eng_layout layout,
                                uint32_t *out)
{
    base_assert(tensor_of(lower, tensor)->layout != layout);
    const struct eng_desc desc = *eng_lower_desc(lower, tensor);
    int64_t from[ENG_RANK_MAX];
    int64_t to[ENG_RANK_MAX];
    eng_layout_strides(&desc, tensor_of(lower, tensor)->layout, from);
    eng_layout_strides(&desc, layout, to);
    struct eng_wide wide = {.source = tensor, .rank = desc.rank};
    for (uint32_t d = 0; d < desc.rank; d++) {
        wide.dims[d] = (struct eng_wide_dim){desc.dims[d], from[d], to[d]};
    }
    return eng_lower_move(lower, &desc, layout, &wide, out);
}

enum base_status eng_lower_plain(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    if (tensor_of(lower, tensor)->layout == ENG_PLAIN) {
        *out = tensor;
        return BASE_OK;
    }
    if (lower->notes[tensor].plain == ENG_NONE) {
        uint32_t plain;
        BASE_TRY(convert(lower, tensor, ENG_PLAIN, &plain));
        lower->notes[tensor].plain = plain;
        BASE_TRY(eng_lower_change(lower, ENG_CHANGE_PLAIN, tensor, NULL));
        if (lower->notes[plain].last == ENG_NONE) {
            lower->notes[plain].last = tensor;
            BASE_TRY(eng_lower_change(lower, ENG_CHANGE_LAST, plain, NULL));
        }
    }
    *out = lower->notes[tensor].plain;
    base_assert(tensor_of(lower, *out)->layout == ENG_PLAIN);
    return BASE_OK;
}

enum base_status eng_lower_channels_last(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    const struct eng_tensor *t = tensor_of(lower, tensor);
    if (t->desc.rank < 3 || t->desc.rank > 2 + ENG_SPATIAL_MAX) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "rank 3 to 5 is needed, not %u",
                              t->desc.rank);
    }
    if (t->layout == ENG_CHANNELS_LAST) {
        *out = tensor;
        return BASE_OK;
    }
    if (lower->notes[tensor].last == ENG_NONE) {
        uint32_t last;
        BASE_TRY(convert(lower, tensor, ENG_CHANNELS_LAST, &last));
        lower->notes[tensor].last = last;
        BASE_TRY(eng_lower_change(lower, ENG_CHANGE_LAST, tensor, NULL));
        if (lower->notes[last].plain == ENG_NONE) {
            lower->notes[last].plain = tensor;
            BASE_TRY(eng_lower_change(lower, ENG_CHANGE_PLAIN, last, NULL));
        }
    }
    *out = lower->notes[tensor].last;
    base_assert(tensor_of(lower, *out)->layout == ENG_CHANNELS_LAST);
    return BASE_OK;
}

enum eng_layout eng_lower_natural(const struct eng_lower *lower, uint32_t tensor)
{
    const struct eng_tensor *t = tensor_of(lower, tensor);
    uint32_t rank = t->desc.rank;
    if (t->kind != ENG_VIRTUAL || t->layout == ENG_CHANNELS_LAST || rank < 3 ||
        rank > 2 + ENG_SPATIAL_MAX) {
        return t->layout;
    }
    // A PLAIN virtual tensor that reads its sources channel by channel is better channels-last.
    int64_t strides[ENG_RANK_MAX];
    eng_layout_strides(&t->desc, ENG_PLAIN, strides);
    int64_t channel = 0;
    int64_t other = 0;
    for (uint32_t i = 0; i < t->region_count; i++) {
        const struct eng_region *region = &t->regions[i];
        base_assert(region->rank <= ENG_REGION_RANK_MAX);
        int64_t volume = 1;
        int64_t step = 0;
        for (uint32_t d = 0; d < region->rank; d++) {
            volume *= region->size[d];
            step = region->src_stride[d] == 1 ? region->dst_stride[d] : step;
        }
        *(step >= strides[1] && step < strides[0] && strides[1] > 1 ? &channel : &other) += volume;
    }
    return channel > other ? ENG_CHANNELS_LAST : ENG_PLAIN;
}

// --- making them real

// Same elements in the same order as one source: shares its bytes.
static enum base_status make_alias(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    base_assert(tensor_of(lower, tensor)->region_count == 1);
    const struct eng_tensor t = *tensor_of(lower, tensor);
    const struct eng_tensor source = *tensor_of(lower, t.regions[0].source);
    if (source.kind == ENG_CONST) {
        BASE_TRY(eng_lower_tensor(lower, ENG_CONST, t.layout, &t.desc, out));
        struct eng_tensor *made = tensor_of(lower, *out);
        made->data = source.data;
        made->identity = source.identity;
        lower->notes[*out].content = t.layout == ENG_PLAIN ? source.data : NULL;
        lower->notes[*out].foldable = true;
        return BASE_OK;
    }
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, t.layout, &t.desc, out));
    tensor_of(lower, *out)->alias = t.regions[0].source;
    const struct eng_note from = lower->notes[t.regions[0].source];
    lower->notes[*out].foldable = from.foldable;
    lower->notes[*out].content = t.layout == ENG_PLAIN ? from.content : NULL;
    return BASE_OK;
}

static const void *bytes_of(const struct eng_lower *lower, uint32_t source)
{
    const struct eng_tensor *tensor = tensor_of(lower, source);
    return tensor->kind == ENG_CONST ? tensor->data : lower->notes[source].content;
}

// All sources are known and the result is small enough: moved here and now.
static bool can_move_now(const struct eng_lower *lower, const struct eng_tensor *tensor)
{
    if (eng_desc_bytes(&tensor->desc) > ENG_FOLD_BYTES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < tensor->region_count; i++) {
        const struct eng_region *region = &tensor->regions[i];
        if (region->accumulate || !lower->notes[region->source].foldable ||
            bytes_of(lower, region->source) == NULL) {
            return false;
        }
    }
    return true;
}

static enum base_status move_now(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    base_assert(tensor_of(lower, tensor)->kind == ENG_VIRTUAL);
    const struct eng_tensor t = *tensor_of(lower, tensor);
    size_t bytes = eng_desc_bytes(&t.desc);
    void *data = t.zero_fill ? base_arena_zalloc(lower->arena, bytes + 1)
                             : base_arena_alloc(lower->arena, bytes + 1);
    if (data == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < t.region_count; i++) {
        eng_region_move(&t.regions[i], eng_dtype_bytes(t.desc.dtype),
                        bytes_of(lower, t.regions[i].source), data);
    }
    BASE_TRY(eng_lower_tensor(lower, ENG_CONST, t.layout, &t.desc, out));
    tensor_of(lower, *out)->data = data;
    lower->notes[*out].content = t.layout == ENG_PLAIN ? data : NULL;
    lower->notes[*out].foldable = true;
    return BASE_OK;
}

static enum base_status emit_raster(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    base_assert(tensor_of(lower, tensor)->kind == ENG_VIRTUAL);
    const struct eng_tensor t = *tensor_of(lower, tensor);
    struct eng_list sources = {0};
    lower->stamp++;
    for (uint32_t i = 0; i < t.region_count; i++) {
        uint32_t source = t.regions[i].source;
        if (lower->notes[source].stamp != lower->stamp) {
            lower->notes[source].stamp = lower->stamp;
            BASE_TRY(eng_list_add(lower, &sources, source));
        }
    }
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, t.layout, &t.desc, out));
    const struct eng_command command = {
        .op = ENG_OP_RASTER,
        .inputs = sources.items,
        .input_count = sources.count,
        .outputs = out,
        .output_count = 1,
        .u.raster = {.regions = t.regions, .count = t.region_count, .zero_fill = t.zero_fill},
    };
    return eng_emit_command(lower, &command);
}

enum base_status eng_lower_real(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    const struct eng_tensor *t = tensor_of(lower, tensor);
    if (t->kind != ENG_VIRTUAL) {
        *out = tensor;
        return BASE_OK;
    }
    if (lower->notes[tensor].real == ENG_NONE) {
        int64_t count = eng_desc_count(&t->desc);
        uint32_t real;
        if (t->region_count == 1 && !t->zero_fill &&
            eng_region_is_identity(&t->regions[0], count) &&
            eng_desc_count(eng_lower_desc(lower, t->regions[0].source)) == count) {
            BASE_TRY(make_alias(lower, tensor, &real));
        } else if (can_move_now(lower, t)) {
            BASE_TRY(move_now(lower, tensor, &real));
        } else {
            BASE_TRY(emit_raster(lower, tensor, &real));
        }
        lower->notes[tensor].real = real;
        BASE_TRY(eng_lower_change(lower, ENG_CHANGE_REAL, tensor, NULL));
    }
    *out = lower->notes[tensor].real;
    base_assert(tensor_of(lower, *out)->kind != ENG_VIRTUAL);
    return BASE_OK;
}

enum base_status eng_lower_as(struct eng_lower *lower, uint32_t tensor, enum eng_layout layout,
                              bool root, uint32_t *out)
{
    uint32_t now = tensor;
    if (tensor_of(lower, tensor)->layout != layout) {
        if (layout == ENG_PLAIN) {
            BASE_TRY(eng_lower_plain(lower, tensor, &now));
        } else {
            BASE_TRY(eng_lower_channels_last(lower, tensor, &now));
        }
    }
    BASE_TRY(eng_lower_real(lower, now, &now));
    if (root && tensor_of(lower, now)->alias != ENG_NONE) {
        now = tensor_of(lower, now)->alias;
    }
    *out = now;
    return BASE_OK;
}
