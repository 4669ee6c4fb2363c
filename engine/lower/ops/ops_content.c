// Operators whose result's shape depends on what their inputs hold: NonZero, Unique,
// NonMaxSuppression. They are evaluated here, on known contents, and become constants.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

// Most elements these operators look at: keeps element numbers within 32 bits.
#define CONTENT_ELEMENTS_MAX ((int64_t)1 << 31)

// --- NonZero

static bool is_nonzero(const struct eng_array *array, int64_t index)
{
    if (array->desc.dtype == ENG_STRING) {
        return ((const struct eng_string *)array->data)[index].size != 0;
    }
    if (array->desc.dtype == ENG_C64 || array->desc.dtype == ENG_C128) {
        struct eng_array parts = *array;
        parts.desc.dtype = array->desc.dtype == ENG_C64 ? ENG_F32 : ENG_F64;
        return eng_content_real(&parts, 2 * index) != 0 ||
               eng_content_real(&parts, 2 * index + 1) != 0;
    }
    return eng_content_real(array, index) != 0;
}

static enum base_status lower_non_zero(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_array x;
    BASE_TRY(eng_input_content(lower, node, 0, &x));
    int64_t total = eng_desc_count(&x.desc);
    int64_t count = 0;
    for (int64_t i = 0; i < total; i++) {
        count += is_nonzero(&x, i);
    }
    // A scalar counts as one dimension.
    uint32_t rank = x.desc.rank == 0 ? 1 : x.desc.rank;
    struct eng_desc desc = eng_desc_of(ENG_I64, (int64_t[]){rank, count}, 2);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    int64_t *values = eng_lower_alloc(lower, eng_desc_bytes(&desc) + 1);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < total; i++) {
        if (!is_nonzero(&x, i)) {
            continue;
        }
        int64_t rest = i;
        for (uint32_t d = rank; d-- > 0;) {
            int64_t dim = x.desc.rank == 0 ? 1 : x.desc.dims[d];
            values[(int64_t)d * count + at] = rest % dim;
            rest /= dim;
        }
        at++;
    }
    base_assert(at == count);
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_const(lower, &desc, values, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- Unique

// The input as [outer, items, inner]; an item is what lies at one place of the middle.
struct unique {
    struct eng_array x;
    int64_t outer, items, inner;
    uint32_t *order;   // items sorted: equal ones beside each other, earlier ones first
    uint32_t *scratch; // for sorting
    uint32_t *first;   // group -> its first item, in the order of the result
    uint32_t *group;   // item -> group
    int64_t *counts;   // by group
    uint32_t groups;
};

static int compare_int64(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

// Numbers that are not numbers are equal to each other and larger than all.
static int compare_reals(double left, double right)
{
    if (isnan(left) || isnan(right)) {
        return (isnan(left) != 0) - (isnan(right) != 0);
    }
    return (left > right) - (left < right);
}

static int compare_elements(const struct eng_array *input, int64_t left, int64_t right)
{
    if (input->desc.dtype == ENG_STRING) {
        struct eng_string first = ((const struct eng_string *)input->data)[left];
        struct eng_string second = ((const struct eng_string *)input->data)[right];
        size_t shared = first.size < second.size ? first.size : second.size;
        int order = shared == 0 ? 0 : memcmp(first.at, second.at, shared);
        return order != 0 ? order : (first.size > second.size) - (first.size < second.size);
    }
    if (input->desc.dtype == ENG_I64) {
        return compare_int64(((const int64_t *)input->data)[left],
                             ((const int64_t *)input->data)[right]);
    }
    if (input->desc.dtype == ENG_U64) {
        uint64_t first = ((const uint64_t *)input->data)[left];
        uint64_t second = ((const uint64_t *)input->data)[right];
        return (first > second) - (first < second);
    }
    return compare_reals(eng_content_real(input, left), eng_content_real(input, right));
}

static int compare_items(const struct unique *unique, uint32_t left, uint32_t right)
{
    for (int64_t o = 0; o < unique->outer; o++) {
        int64_t row = o * unique->items;
        for (int64_t i = 0; i < unique->inner; i++) {
            int order = compare_elements(&unique->x, (row + left) * unique->inner + i,
                                         (row + right) * unique->inner + i);
            if (order != 0) {
                return order;
            }
        }
    }
    return 0;
}

// Bottom-up merge sort of u->order: stable, no recursion.
static void sort_items(struct unique *unique)
{
    uint32_t count = (uint32_t)unique->items;
    uint32_t *from = unique->order;
    uint32_t *to = unique->scratch;
    base_assert(from != to);
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t low = 0; low < count; low += 2 * width) {
            uint64_t middle = low + width < count ? low + width : count;
            uint64_t high = low + 2 * width < count ? low + 2 * width : count;
            uint64_t a = low;
            uint64_t b = middle;
            for (uint64_t at = low; at < high; at++) {
                bool take_first =
                    a < middle && (b == high || compare_items(unique, from[a], from[b]) <= 0);
                to[at] = take_first ? from[a++] : from[b++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    unique->order = from;
    unique->scratch = to;
}

// Numbers the groups: in sorted order, or in the order of their first items.
static void number_groups(struct unique *unique, bool sorted)
{
    base_assert(unique->groups == 0);
    uint32_t count = (uint32_t)unique->items;
    for (uint32_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_items(unique, unique->order[i - 1], unique->order[i]) == 0;
        if (!same) {
            unique->first[unique->groups++] = unique->order[i];
        }
        unique->group[unique->order[i]] = unique->groups - 1;
    }
    base_assert(unique->groups <= count);
    if (!sorted) {
        // The first item of a group is the first to meet when walking items in order.
        uint32_t *renamed = unique->scratch;
        uint32_t next = 0;
        for (uint32_t item = 0; item < count; item++) {
            if (unique->first[unique->group[item]] == item) {
                renamed[unique->group[item]] = next++;
            }
        }
        for (uint32_t item = 0; item < count; item++) {
            unique->group[item] = renamed[unique->group[item]];
        }
        for (uint32_t item = count; item-- > 0;) {
            unique->first[unique->group[item]] = item;
        }
    }
    for (uint32_t item = 0; item < count; item++) {
        unique->counts[unique->group[item]]++;
    }
}

static enum base_status unique_alloc(struct eng_lower *lower, struct unique *unique)
{
    base_assert(unique->items >= 0 && unique->items < CONTENT_ELEMENTS_MAX);
    size_t count = (size_t)unique->items + 1;
    unique->order = eng_lower_alloc(lower, count * sizeof(uint32_t));
    unique->scratch = eng_lower_alloc(lower, count * sizeof(uint32_t));
    unique->first = eng_lower_alloc(lower, count * sizeof(uint32_t));
    unique->group = eng_lower_alloc(lower, count * sizeof(uint32_t));
    unique->counts = eng_lower_alloc(lower, count * sizeof(int64_t));
    if (unique->order == NULL || unique->scratch == NULL || unique->first == NULL ||
        unique->group == NULL || unique->counts == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(unique->counts, 0, count * sizeof(int64_t));
    for (uint32_t i = 0; i < (uint32_t)unique->items; i++) {
        unique->order[i] = i;
    }
    return BASE_OK;
}

// Output 0: the first item of every group.
static enum base_status unique_values(struct eng_lower *lower, const struct eng_node *node,
                                      const struct unique *unique, const struct eng_desc *desc)
{
    base_assert(eng_desc_count(desc) == unique->outer * unique->groups * unique->inner);
    size_t element = eng_dtype_bytes(desc->dtype);
    size_t run = (size_t)unique->inner * element;
    uint8_t *values = eng_lower_alloc(lower, eng_desc_bytes(desc) + 1);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t o = 0; o < unique->outer; o++) {
        for (uint32_t g = 0; g < unique->groups; g++) {
            const uint8_t *from = (const uint8_t *)unique->x.data +
                                  (size_t)(o * unique->items + unique->first[g]) * run;
            memcpy(values + ((size_t)o * unique->groups + g) * run, from, run);
        }
    }
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_const(lower, desc, values, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status output_numbers(struct eng_lower *lower, const struct eng_node *node,
                                       uint32_t output, const uint32_t *numbers, uint32_t count)
{
    int64_t *values = eng_lower_alloc(lower, (size_t)count * sizeof(*values) + 1);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = numbers[i];
    }
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_const_ints(lower, values, count, &out));
    return eng_lower_output(lower, node, output, out);
}

static enum base_status lower_unique(struct eng_lower *lower, const struct eng_node *node)
{
    struct unique u = {0};
    BASE_TRY(eng_input_content(lower, node, 0, &u.x));
    struct eng_desc in = u.x.desc;
    struct eng_desc desc = {.dtype = in.dtype, .rank = 1};
    uint32_t axis = 0;
    u.outer = 1;
    u.inner = 1;
    u.items = eng_desc_count(&in);
    if (eng_node_attr(node, "axis") != NULL) {
        BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
        u.outer = eng_dims_product(in.dims, 0, axis);
        u.items = in.dims[axis];
        u.inner = eng_dims_product(in.dims, axis + 1, in.rank);
        desc = in;
    }
    if (u.items >= CONTENT_ELEMENTS_MAX || in.dtype == ENG_C64 || in.dtype == ENG_C128) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "%lld elements of type %s",
                              (long long)u.items, eng_dtype_name(in.dtype));
    }
    base_assert(u.outer * u.items * u.inner == eng_desc_count(&in));
    BASE_TRY(unique_alloc(lower, &u));
    sort_items(&u);
    number_groups(&u, eng_node_int(node, "sorted", 1) != 0);
    desc.dims[axis] = u.groups;
    BASE_TRY(unique_values(lower, node, &u, &desc));
    BASE_TRY(output_numbers(lower, node, 1, u.first, u.groups));
    BASE_TRY(output_numbers(lower, node, 2, u.group, (uint32_t)u.items));
    uint32_t counts = ENG_NONE;
    BASE_TRY(eng_lower_const_ints(lower, u.counts, u.groups, &counts));
    return eng_lower_output(lower, node, 3, counts);
}

// --- NonMaxSuppression

struct nms {
    const float *boxes, *scores; // [batches, count, 4], [batches, classes, count]
    int64_t batches, classes, count;
    int64_t most; // boxes a class keeps
    double iou_threshold, score_threshold;
    bool has_score_threshold, is_center;
    uint32_t *order, *scratch;
    int64_t *out; // triples
    int64_t out_count, out_capacity;
};

// Corners low to high of one box, whichever diagonal the model gives.
static void corners(const struct nms *nms, const float *box, double low[2], double high[2])
{
    for (int i = 0; i < 2; i++) {
        double a = (double)box[i];
        double b = (double)box[i + 2];
        low[i] = nms->is_center ? a - b / 2 : a < b ? a : b;
        high[i] = nms->is_center ? a + b / 2 : a < b ? b : a;
    }
}

static bool overlaps(const struct nms *nms, const float *left, const float *right)
{
    double a_low[2];
    double a_high[2];
    double b_low[2];
    double b_high[2];
    corners(nms, left, a_low, a_high);
    corners(nms, right, b_low, b_high);
    double shared = 1;
    for (int i = 0; i < 2; i++) {
        double low = a_low[i] > b_low[i] ? a_low[i] : b_low[i];
        double high = a_high[i] < b_high[i] ? a_high[i] : b_high[i];
        shared *= high > low ? high - low : 0;
    }
    double area_a = (a_high[0] - a_low[0]) * (a_high[1] - a_low[1]);
    double area_b = (b_high[0] - b_low[0]) * (b_high[1] - b_low[1]);
    if (area_a <= 0 || area_b <= 0) {
        return false;
    }
    return shared / (area_a + area_b - shared) > nms->iou_threshold;
}

// Candidates of one class by falling score, earlier boxes first among equals.
static uint32_t nms_candidates(struct nms *nms, const float *scores)
{
    uint32_t count = 0;
    for (int64_t i = 0; i < nms->count; i++) {
        if (!nms->has_score_threshold || (double)scores[i] > nms->score_threshold) {
            nms->order[count++] = (uint32_t)i;
        }
    }
    base_assert(count <= nms->count);
    uint32_t *from = nms->order;
    uint32_t *to = nms->scratch;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t low = 0; low < count; low += 2 * width) {
            uint64_t middle = low + width < count ? low + width : count;
            uint64_t high = low + 2 * width < count ? low + 2 * width : count;
            uint64_t a = low;
            uint64_t b = middle;
            for (uint64_t at = low; at < high; at++) {
                bool first = a < middle && (b == high || !(scores[from[b]] > scores[from[a]]));
                to[at] = first ? from[a++] : from[b++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    nms->order = from;
    nms->scratch = to;
    return count;
}

static enum base_status nms_append(struct eng_lower *lower, struct nms *nms, int64_t batch,
                                   int64_t class_index, uint32_t box)
{
    base_assert(nms->out_count <= nms->out_capacity);
    base_assert(box < nms->count);
    if (nms->out_count == nms->out_capacity) {
        int64_t capacity = nms->out_capacity == 0 ? 64 : 2 * nms->out_capacity;
        int64_t *grown = eng_lower_alloc(lower, (size_t)capacity * 3 * sizeof(*grown));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        if (nms->out_count > 0) {
            memcpy(grown, nms->out, (size_t)nms->out_count * 3 * sizeof(*grown));
        }
        nms->out = grown;
        nms->out_capacity = capacity;
    }
    int64_t *triple = nms->out + 3 * nms->out_count++;
    triple[0] = batch;
    triple[1] = class_index;
    triple[2] = box;
    return BASE_OK;
}

static enum base_status nms_class(struct eng_lower *lower, struct nms *nms, int64_t batch,
                                  int64_t class_index)
{
    base_assert(batch < nms->batches && class_index < nms->classes);
    const float *boxes = nms->boxes + batch * nms->count * 4;
    uint32_t count =
        nms_candidates(nms, nms->scores + (batch * nms->classes + class_index) * nms->count);
    int64_t kept = nms->out_count;
    for (uint32_t i = 0; i < count && nms->out_count - kept < nms->most; i++) {
        bool suppressed = false;
        for (int64_t k = kept; k < nms->out_count && !suppressed; k++) {
            suppressed =
                overlaps(nms, boxes + 4 * (size_t)nms->order[i], boxes + 4 * nms->out[3 * k + 2]);
        }
        if (!suppressed) {
            BASE_TRY(nms_append(lower, nms, batch, class_index, nms->order[i]));
        }
    }
    return BASE_OK;
}

static enum base_status nms_inputs(struct eng_lower *lower, const struct eng_node *node,
                                   struct nms *nms)
{
    base_assert(nms->most == 0 && nms->out_count == 0); // what inputs left out mean
    struct eng_array boxes;
    struct eng_array scores;
    BASE_TRY(eng_input_content(lower, node, 0, &boxes));
    BASE_TRY(eng_input_content(lower, node, 1, &scores));
    if (boxes.desc.dtype != ENG_F32 || boxes.desc.rank != 3 || boxes.desc.dims[2] != 4 ||
        scores.desc.dtype != ENG_F32 || scores.desc.rank != 3 ||
        scores.desc.dims[0] != boxes.desc.dims[0] || scores.desc.dims[2] != boxes.desc.dims[1] ||
        boxes.desc.dims[1] >= CONTENT_ELEMENTS_MAX) {
        char first[64];
        char second[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "boxes %s, scores %s",
                              eng_desc_text(&boxes.desc, first, sizeof(first)),
                              eng_desc_text(&scores.desc, second, sizeof(second)));
    }
    nms->boxes = boxes.data;
    nms->scores = scores.data;
    nms->batches = scores.desc.dims[0];
    nms->classes = scores.desc.dims[1];
    nms->count = scores.desc.dims[2];
    nms->is_center = eng_node_int(node, "center_point_box", 0) != 0;
    if (eng_lower_has(lower, node, 2)) {
        BASE_TRY(eng_input_int(lower, node, 2, &nms->most));
    }
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_optional(lower, node, 3, &tensor));
    if (tensor != ENG_NONE) {
        BASE_TRY(eng_lower_scalar(lower, node, tensor, &nms->iou_threshold));
    }
    BASE_TRY(eng_lower_optional(lower, node, 4, &tensor));
    nms->has_score_threshold = tensor != ENG_NONE;
    if (tensor != ENG_NONE) {
        BASE_TRY(eng_lower_scalar(lower, node, tensor, &nms->score_threshold));
    }
    return BASE_OK;
}

static enum base_status lower_nms(struct eng_lower *lower, const struct eng_node *node)
{
    struct nms nms = {0};
    BASE_TRY(nms_inputs(lower, node, &nms));
    nms.order = eng_lower_alloc(lower, (size_t)nms.count * sizeof(uint32_t) + 1);
    nms.scratch = eng_lower_alloc(lower, (size_t)nms.count * sizeof(uint32_t) + 1);
    if (nms.order == NULL || nms.scratch == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t b = 0; b < nms.batches; b++) {
        for (int64_t c = 0; c < nms.classes; c++) {
            BASE_TRY(nms_class(lower, &nms, b, c));
        }
    }
    struct eng_desc desc = eng_desc_of(ENG_I64, (int64_t[]){nms.out_count, 3}, 2);
    uint32_t out = ENG_NONE;
    static const int64_t nothing[3] = {0};
    BASE_TRY(eng_lower_const(lower, &desc, nms.out_count == 0 ? nothing : nms.out, &out));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("NonZero", 9, ENG_OPSET_MAX, CONTROL, lower_non_zero),
    ENG_OP_ROW("Unique", 11, ENG_OPSET_MAX, CONTROL, lower_unique),
    ENG_OP_ROW("NonMaxSuppression", 10, ENG_OPSET_MAX, CONTROL, lower_nms),
};
const struct eng_op_table eng_ops_content = ENG_OP_TABLE(rows);
