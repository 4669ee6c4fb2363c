// Shared by the handlers of lower/ops that move, index or look into tensors, on the planning
// thread. Boxes here may have twice the dims of a tensor; before they become regions, dims of size
// 1 go, neighbours that are one run are joined, and what still has too many is cut along its
// smallest dims. At most ENG_REGIONS_MAX regions come of it: more is LIMIT, and the model is
// refused.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <string.h>

// --- boxes

void eng_map_init(struct eng_map *map, uint32_t source, const struct eng_desc *desc)
{
    base_assert(desc->rank <= ENG_RANK_MAX);
    memset(map, 0, sizeof(*map));
    map->source = source;
    map->rank = desc->rank;
    int64_t strides[ENG_RANK_MAX];
    eng_layout_strides(desc, ENG_PLAIN, strides);
    for (uint32_t d = 0; d < desc->rank; d++) {
        map->size[d] = desc->dims[d];
        map->src_stride[d] = strides[d];
        map->dst_stride[d] = strides[d];
    }
}

// Drops dimensions of size 1 and joins neighbours that are one run in source and destination.
static void collapse(struct eng_map *map)
{
    uint32_t kept = 0;
    for (uint32_t d = 0; d < map->rank; d++) {
        if (map->size[d] == 1) {
            continue;
        }
        if (kept > 0 && map->src_stride[kept - 1] == map->src_stride[d] * map->size[d] &&
            map->dst_stride[kept - 1] == map->dst_stride[d] * map->size[d]) {
            map->size[kept - 1] *= map->size[d];
            map->src_stride[kept - 1] = map->src_stride[d];
            map->dst_stride[kept - 1] = map->dst_stride[d];
            continue;
        }
        map->size[kept] = map->size[d];
        map->src_stride[kept] = map->src_stride[d];
        map->dst_stride[kept] = map->dst_stride[d];
        kept++;
    }
    base_assert(kept <= map->rank);
    map->rank = kept;
}

static enum base_status append(struct eng_maps *maps, const struct eng_region *region)
{
    base_assert(maps->count <= maps->capacity);
    base_assert(region->rank <= ENG_REGION_RANK_MAX);
    if (maps->count == ENG_REGIONS_MAX) {
        return BASE_ERR_LIMIT;
    }
    if (maps->count == maps->capacity) {
        uint32_t capacity = maps->capacity == 0 ? 8 : maps->capacity * 2;
        struct eng_region *grown = eng_lower_alloc(maps->l, capacity * sizeof(*grown));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        if (maps->count > 0) {
            memcpy(grown, maps->regions, maps->count * sizeof(*grown));
        }
        maps->regions = grown;
        maps->capacity = capacity;
    }
    maps->regions[maps->count++] = *region;
    return BASE_OK;
}

// Moves the dimension with the smallest size to the front: the loop over regions stays short.
static void smallest_first(struct eng_map *map)
{
    base_assert(map->rank > 0 && map->rank <= ENG_MAP_RANK_MAX);
    uint32_t best = 0;
    for (uint32_t d = 1; d < map->rank; d++) {
        if (map->size[d] < map->size[best]) {
            best = d;
        }
    }
    int64_t size = map->size[best];
    int64_t src = map->src_stride[best];
    int64_t dst = map->dst_stride[best];
    for (uint32_t d = best; d > 0; d--) {
        map->size[d] = map->size[d - 1];
        map->src_stride[d] = map->src_stride[d - 1];
        map->dst_stride[d] = map->dst_stride[d - 1];
    }
    map->size[0] = size;
    map->src_stride[0] = src;
    map->dst_stride[0] = dst;
}

// The dimensions [surplus, rank) of the box as one region, at the given offsets.
static enum base_status add_inner(struct eng_maps *maps, const struct eng_map *map,
                                  uint32_t surplus, int64_t src_offset, int64_t dst_offset)
{
    base_assert(surplus <= map->rank);
    struct eng_region region = {.source = map->source,
                                .rank = map->rank - surplus,
                                .src_offset = src_offset,
                                .dst_offset = dst_offset};
    for (uint32_t d = 0; d < region.rank; d++) {
        region.size[d] = map->size[surplus + d];
        region.src_stride[d] = map->src_stride[surplus + d];
        region.dst_stride[d] = map->dst_stride[surplus + d];
    }
    return append(maps, &region);
}

enum base_status eng_maps_add(struct eng_maps *maps, const struct eng_map *map)
{
    struct eng_map box = *map;
    base_assert(box.rank <= ENG_MAP_RANK_MAX);
    for (uint32_t d = 0; d < box.rank; d++) {
        if (box.size[d] == 0) {
            return BASE_OK;
        }
    }
    collapse(&box);
    uint32_t surplus = 0;
    while (box.rank - surplus > ENG_REGION_RANK_MAX) {
        // Dimensions before `surplus` are out of the way already.
        struct eng_map rest = box;
        rest.rank = box.rank - surplus;
        memmove(rest.size, box.size + surplus, rest.rank * sizeof(int64_t));
        memmove(rest.src_stride, box.src_stride + surplus, rest.rank * sizeof(int64_t));
        memmove(rest.dst_stride, box.dst_stride + surplus, rest.rank * sizeof(int64_t));
        smallest_first(&rest);
        memcpy(box.size + surplus, rest.size, rest.rank * sizeof(int64_t));
        memcpy(box.src_stride + surplus, rest.src_stride, rest.rank * sizeof(int64_t));
        memcpy(box.dst_stride + surplus, rest.dst_stride, rest.rank * sizeof(int64_t));
        surplus++;
    }
    int64_t at[ENG_MAP_RANK_MAX] = {0};
    int64_t src = box.src_offset;
    int64_t dst = box.dst_offset;
    while (true) {
        BASE_TRY(add_inner(maps, &box, surplus, src, dst));
        uint32_t d = surplus;
        while (d > 0) {
            d--;
            src += box.src_stride[d];
            dst += box.dst_stride[d];
            if (++at[d] < box.size[d]) {
                break;
            }
            src -= box.src_stride[d] * box.size[d];
            dst -= box.dst_stride[d] * box.size[d];
            at[d] = 0;
            if (d == 0) {
                return BASE_OK;
            }
        }
        if (surplus == 0) {
            return BASE_OK;
        }
    }
}

enum base_status eng_maps_finish(const struct eng_maps *maps, const struct eng_desc *desc,
                                 uint32_t *out)
{
    return eng_lower_virtual(maps->l, desc, maps->regions, maps->count, out);
}

// --- descriptions and inputs

int64_t eng_dims_product(const int64_t *dims, uint32_t begin, uint32_t end)
{
    base_assert(begin <= end);
    base_assert(end <= ENG_RANK_MAX);
    int64_t product = 1;
    for (uint32_t d = begin; d < end; d++) {
        product *= dims[d];
    }
    return product;
}

struct eng_desc eng_desc_of(enum eng_dtype dtype, const int64_t *dims, uint32_t count)
{
    base_assert(count <= ENG_RANK_MAX);
    struct eng_desc desc = {.dtype = dtype, .rank = count};
    for (uint32_t d = 0; d < count; d++) {
        desc.dims[d] = dims[d];
    }
    return desc;
}

enum base_status eng_desc_allow(struct eng_lower *lower, const struct eng_node *node,
                                const struct eng_desc *desc)
{
    int64_t count = 0;
    enum base_status status = eng_desc_check(desc, &count);
    if (status == BASE_OK) {
        return BASE_OK;
    }
    if (desc->rank > ENG_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "rank %u, at most %d are supported",
                              desc->rank, ENG_RANK_MAX);
    }
    char text[96];
    return eng_lower_fail(lower, node, status, "the result's shape %s is not possible",
                          eng_desc_text(desc, text, sizeof(text)));
}

enum base_status eng_input_plain(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t *out, struct eng_desc *out_desc)
{
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    BASE_TRY(eng_lower_plain(lower, tensor, out));
    *out_desc = *eng_lower_desc(lower, *out);
    return BASE_OK;
}

enum base_status eng_input_int(struct eng_lower *lower, const struct eng_node *node, uint32_t input,
                               int64_t *out)
{
    uint32_t tensor = ENG_NONE;
    const int64_t *values = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    BASE_TRY(eng_lower_ints(lower, node, tensor, &values, &count));
    if (count != 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %u must hold one number, has %u", input, count);
    }
    *out = values[0];
    return BASE_OK;
}

enum base_status eng_input_content(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, struct eng_array *out)
{
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    return eng_lower_content(lower, tensor, out);
}

enum base_status eng_input_index(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t *out)
{
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    enum eng_dtype dtype = eng_lower_desc(lower, tensor)->dtype;
    if (dtype != ENG_I32 && dtype != ENG_I64) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "indices must be int32 or int64, are %s", eng_dtype_name(dtype));
    }
    return eng_emit_cast(lower, tensor, ENG_I64, out);
}

enum base_status eng_output_reshaped(struct eng_lower *lower, const struct eng_node *node,
                                     uint32_t tensor, const struct eng_desc *desc)
{
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_reshape(lower, tensor, desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- index arithmetic

enum base_status eng_const_int(struct eng_lower *lower, int64_t value, uint32_t *out)
{
    struct eng_desc desc = {.dtype = ENG_I64};
    return eng_lower_const(lower, &desc, &value, out);
}

enum base_status eng_const_steps(struct eng_lower *lower, uint32_t rank, uint32_t axis,
                                 struct eng_steps steps, uint32_t *out)
{
    base_assert(axis < rank);
    base_assert(rank <= ENG_RANK_MAX);
    base_assert(steps.count >= 0);
    struct eng_desc desc = {.dtype = ENG_I64, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        desc.dims[d] = d == axis ? steps.count : 1;
    }
    int64_t *values = eng_lower_alloc(lower, (size_t)steps.count * sizeof(*values));
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < steps.count; i++) {
        values[i] = i * steps.step;
    }
    return eng_lower_const(lower, &desc, values, out);
}

enum base_status eng_index_wrap(struct eng_lower *lower, uint32_t input, uint32_t count,
                                uint32_t *out)
{
    uint32_t zero = ENG_NONE;
    uint32_t negative = ENG_NONE;
    uint32_t shift = ENG_NONE;
    BASE_TRY(eng_const_int(lower, 0, &zero));
    BASE_TRY(eng_emit_binary(lower, ENG_LESS, input, zero, &negative));
    BASE_TRY(eng_emit_select(lower, negative, count, zero, &shift));
    return eng_emit_binary(lower, ENG_ADD, input, shift, out);
}

double eng_content_real(const struct eng_array *array, int64_t index)
{
    const void *data = array->data;
    // Twice: complex numbers are read as pairs of reals.
    base_assert(index >= 0 && index / 2 < eng_desc_count(&array->desc));
    switch (array->desc.dtype) {
    case ENG_F32:
        return (double)((const float *)data)[index];
    case ENG_F64:
        return ((const double *)data)[index];
    case ENG_F16:
        return (double)eng_f16_to_f32(((const uint16_t *)data)[index]);
    case ENG_BF16:
        return (double)eng_bf16_to_f32(((const uint16_t *)data)[index]);
    case ENG_U8:
    case ENG_BOOL:
        return (double)((const uint8_t *)data)[index];
    case ENG_I8:
        return (double)((const int8_t *)data)[index];
    case ENG_U16:
        return (double)((const uint16_t *)data)[index];
    case ENG_I16:
        return (double)((const int16_t *)data)[index];
    case ENG_U32:
        return (double)((const uint32_t *)data)[index];
    case ENG_I32:
        return (double)((const int32_t *)data)[index];
    case ENG_U64:
        return (double)((const uint64_t *)data)[index];
    case ENG_I64:
        return (double)((const int64_t *)data)[index];
    default:
        return 0;
    }
}
