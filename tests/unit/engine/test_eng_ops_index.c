// Operators that read and write by index against naive loops; indices are given at run time and as
// constants, negative ones among them.
#include "op_rig.h"

#define ROUNDS 120

// An index of a dimension of n, from the end in a third of the cases.
static int64_t random_index(struct base_prng *prng, int64_t n)
{
    int64_t index = (int64_t)base_prng_below(prng, (uint64_t)n);
    return base_prng_below(prng, 3) == 0 ? index - n : index;
}

static int64_t *random_indices(struct base_prng *prng, int64_t count, int64_t n)
{
    int64_t *data = malloc((size_t)(count + 1) * sizeof(*data));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = random_index(prng, n);
    }
    return data;
}

static int64_t from_end(int64_t index, int64_t n)
{
    return index < 0 ? index + n : index;
}

static void gathers(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc in;
        struct eng_desc index;
        op_random_shape(&prng, 1, 4, 5, &in);
        op_random_shape(&prng, 0, 3, round % 4 == 0 ? 6 : 3, &index);
        index.dtype = ENG_I64;
        uint32_t axis = (uint32_t)base_prng_below(&prng, in.rank);
        struct eng_desc desc = {.dtype = ENG_F32, .rank = in.rank + index.rank - 1};
        for (uint32_t d = 0; d < desc.rank; d++) {
            desc.dims[d] = d < axis                ? in.dims[d]
                           : d < axis + index.rank ? index.dims[d - axis]
                                                   : in.dims[d - index.rank + 1];
        }
        float *data = op_numbers(eng_desc_count(&in));
        int64_t *indices = random_indices(&prng, eng_desc_count(&index), in.dims[axis]);
        for (int64_t i = 0; round % 3 == 0 && i < eng_desc_count(&index); i++) {
            indices[i] = i % in.dims[axis]; // runs
        }
        float *wanted = op_numbers(eng_desc_count(&desc));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t place[ENG_RANK_MAX];
            for (uint32_t d = 0; d < in.rank; d++) {
                place[d] = d < axis ? at[d] : at[d + index.rank - (d > axis)];
            }
            place[axis] = from_end(indices[op_flat(&index, at + axis)], in.dims[axis]);
            wanted[i] = data[op_flat(&in, place)];
        }
        op_begin(&rig, "Gather", 11);
        ob_attr_int(&rig.attrs, "axis", (int64_t)axis - (round % 2 == 0 ? (int64_t)in.rank : 0));
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, indices, round % 2 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(data);
        free(indices);
        free(wanted);
    }
}

// One known index is a slice: nothing but a raster is left.
static void known_gathers_are_regions(void **state)
{
    (void)state;
    struct op_rig rig;
    const int64_t dims[2] = {4, 3};
    const struct eng_desc in = op_desc(ENG_F32, 2, dims);
    const struct eng_desc out = op_desc(ENG_F32, 1, dims);
    const int64_t index = -1;
    float *data = op_numbers(12);
    op_begin(&rig, "Gather", 13);
    ob_attr_int(&rig.attrs, "axis", 1);
    op_input(&rig, &in, data, false);
    op_scalar(&rig, ENG_I64, &index, true);
    op_run_ok(&rig, 1);
    assert_int_equal(op_kernels(&rig), 0);
    op_expect_floats(&rig, 0, &out, (float[]){3, 6, 9, 12});
    op_done(&rig);
    free(data);
}

// Indices [.. no longer than the data ..] for the elements family; *axis chosen.
static void elements_shape(struct base_prng *prng, struct eng_desc *in, struct eng_desc *index,
                           uint32_t *axis)
{
    op_random_shape(prng, 1, 4, 5, in);
    *axis = (uint32_t)base_prng_below(prng, in->rank);
    *index = *in;
    index->dtype = ENG_I64;
    for (uint32_t d = 0; d < in->rank; d++) {
        uint64_t most = d == *axis ? 6 : (uint64_t)in->dims[d];
        index->dims[d] = 1 + (int64_t)base_prng_below(prng, most);
    }
}

static void gather_elements(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc in;
        struct eng_desc index;
        uint32_t axis = 0;
        elements_shape(&prng, &in, &index, &axis);
        struct eng_desc desc = index;
        desc.dtype = ENG_F32;
        float *data = op_numbers(eng_desc_count(&in));
        int64_t *indices = random_indices(&prng, eng_desc_count(&index), in.dims[axis]);
        float *wanted = op_numbers(eng_desc_count(&desc));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t place[ENG_RANK_MAX];
            memcpy(place, at, sizeof(place));
            place[axis] = from_end(indices[i], in.dims[axis]);
            wanted[i] = data[op_flat(&in, place)];
        }
        op_begin(&rig, "GatherElements", 13);
        ob_attr_int(&rig.attrs, "axis", (int64_t)axis);
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, indices, round % 3 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(data);
        free(indices);
        free(wanted);
    }
}

static float reduced(int fn, float old, float update)
{
    return fn == 0 ? update : fn == 1 ? old + update : old * update;
}
static const char *const reductions[] = {"none", "add", "mul"};

static void scatter_elements(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc in;
        struct eng_desc index;
        uint32_t axis = 0;
        elements_shape(&prng, &in, &index, &axis);
        struct eng_desc update = index;
        update.dtype = ENG_F32;
        int fn = round % 2 == 0 ? round % 3 : 0;
        int64_t count = eng_desc_count(&index);
        float *wanted = op_numbers(eng_desc_count(&in));
        float *data = op_numbers(eng_desc_count(&in));
        float *updates = op_numbers(count);
        int64_t *indices = random_indices(&prng, count, in.dims[axis]);
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < count; i++, (void)op_next(&index, at)) {
            int64_t place[ENG_RANK_MAX];
            memcpy(place, at, sizeof(place));
            updates[i] = fn == 2 ? (i % 2 == 0 ? -1 : 2) : -updates[i];
            place[axis] = from_end(indices[i], in.dims[axis]);
            float *to = &wanted[op_flat(&in, place)];
            *to = reduced(fn, *to, updates[i]);
        }
        op_begin(&rig, round % 2 == 0 ? "ScatterElements" : "Scatter", round % 2 == 0 ? 16 : 9);
        ob_attr_int(&rig.attrs, "axis", (int64_t)axis);
        if (round % 2 == 0) {
            op_attr_text(&rig, "reduction", reductions[fn]);
        }
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, indices, round % 4 == 0);
        op_input(&rig, &update, updates, false);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &in, wanted);
        op_done(&rig);
        free(data);
        free(wanted);
        free(updates);
        free(indices);
    }
}

// Coordinates [index dims..., depth] into dims [batch, batch + depth) of `in`.
static int64_t *random_coordinates(struct base_prng *prng, const struct eng_desc *index,
                                   const struct eng_desc *in, uint32_t batch)
{
    int64_t depth = index->dims[index->rank - 1];
    int64_t count = eng_desc_count(index);
    int64_t *data = malloc((size_t)(count + 1) * sizeof(*data));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = random_index(prng, in->dims[batch + (uint32_t)(i % depth)]);
    }
    return data;
}

static void gather_nd(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc in;
        struct eng_desc index;
        op_random_shape(&prng, 2, 4, 4, &in);
        op_random_shape(&prng, 2, 3, 3, &index);
        index.dtype = ENG_I64;
        uint32_t batch = (uint32_t)base_prng_below(&prng, index.rank);
        batch = batch < in.rank ? batch : in.rank - 1;
        for (uint32_t d = 0; d < batch; d++) {
            index.dims[d] = in.dims[d];
        }
        uint32_t last = index.rank - 1;
        uint32_t depth = 1 + (uint32_t)base_prng_below(&prng, in.rank - batch);
        index.dims[last] = depth;
        struct eng_desc desc = {.dtype = ENG_F32, .rank = last + in.rank - batch - depth};
        for (uint32_t d = 0; d < desc.rank; d++) {
            desc.dims[d] = d < last ? index.dims[d] : in.dims[batch + depth + d - last];
        }
        float *data = op_numbers(eng_desc_count(&in));
        float *wanted = op_numbers(eng_desc_count(&desc));
        int64_t *indices = random_coordinates(&prng, &index, &in, batch);
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t tuple[ENG_RANK_MAX] = {0};
            int64_t place[ENG_RANK_MAX] = {0};
            memcpy(tuple, at, last * sizeof(tuple[0]));
            for (uint32_t d = 0; d < in.rank; d++) {
                if (d < batch) {
                    place[d] = at[d];
                } else if (d < batch + depth) {
                    tuple[last] = d - batch;
                    place[d] = from_end(indices[op_flat(&index, tuple)], in.dims[d]);
                } else {
                    place[d] = at[last + d - batch - depth];
                }
            }
            wanted[i] = data[op_flat(&in, place)];
        }
        op_begin(&rig, "GatherND", 12);
        ob_attr_int(&rig.attrs, "batch_dims", batch);
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, indices, round % 3 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(data);
        free(wanted);
        free(indices);
    }
}

static void scatter_nd(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc in;
        struct eng_desc index;
        op_random_shape(&prng, 1, 4, 4, &in);
        op_random_shape(&prng, 1, 3, 4, &index);
        index.dtype = ENG_I64;
        uint32_t last = index.rank - 1;
        uint32_t depth = 1 + (uint32_t)base_prng_below(&prng, in.rank);
        index.dims[last] = depth;
        struct eng_desc update = {.dtype = ENG_F32, .rank = last + in.rank - depth};
        for (uint32_t d = 0; d < update.rank; d++) {
            update.dims[d] = d < last ? index.dims[d] : in.dims[depth + d - last];
        }
        int fn = round % 3;
        float *data = op_numbers(eng_desc_count(&in));
        float *wanted = op_numbers(eng_desc_count(&in));
        float *updates = op_numbers(eng_desc_count(&update));
        int64_t *indices = random_coordinates(&prng, &index, &in, 0);
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&update); i++, (void)op_next(&update, at)) {
            int64_t tuple[ENG_RANK_MAX] = {0};
            int64_t place[ENG_RANK_MAX] = {0};
            memcpy(tuple, at, last * sizeof(tuple[0]));
            updates[i] = fn == 2 ? (i % 2 == 0 ? -1 : 2) : -updates[i];
            for (uint32_t d = 0; d < in.rank; d++) {
                tuple[last] = d;
                place[d] = d < depth ? from_end(indices[op_flat(&index, tuple)], in.dims[d])
                                     : at[last + d - depth];
            }
            float *to = &wanted[op_flat(&in, place)];
            *to = reduced(fn, *to, updates[i]);
        }
        op_begin(&rig, "ScatterND", 16);
        op_attr_text(&rig, "reduction", reductions[fn]);
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, indices, round % 2 == 0);
        op_input(&rig, &update, updates, false);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &in, wanted);
        op_done(&rig);
        free(data);
        free(wanted);
        free(updates);
        free(indices);
    }
}

static void reverse_sequences(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        struct eng_desc in;
        op_random_shape(&prng, 2, 4, 5, &in);
        uint32_t time = (uint32_t)round % 2;
        int64_t entries = in.dims[1 - time];
        int64_t lengths[8];
        for (int64_t b = 0; b < entries; b++) {
            lengths[b] = (int64_t)base_prng_below(&prng, (uint64_t)in.dims[time] + 1);
        }
        float *data = op_numbers(eng_desc_count(&in));
        float *wanted = op_numbers(eng_desc_count(&in));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&in); i++, (void)op_next(&in, at)) {
            int64_t place[ENG_RANK_MAX];
            memcpy(place, at, sizeof(place));
            int64_t length = lengths[at[1 - time]];
            place[time] = at[time] < length ? length - 1 - at[time] : at[time];
            wanted[i] = data[op_flat(&in, place)];
        }
        op_begin(&rig, "ReverseSequence", 10);
        ob_attr_int(&rig.attrs, "time_axis", time);
        ob_attr_int(&rig.attrs, "batch_axis", 1 - time);
        op_input(&rig, &in, data, false);
        op_ints(&rig, lengths, entries, round % 3 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &in, wanted);
        op_done(&rig);
        free(data);
        free(wanted);
    }
}

static void compresses(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        struct eng_desc in;
        op_random_shape(&prng, 1, 3, round % 8 == 0 ? 700 : 5, &in);
        bool flat = round % 3 == 0;
        uint32_t axis = (uint32_t)base_prng_below(&prng, in.rank);
        struct eng_desc from = in;
        if (flat) {
            int64_t count = eng_desc_count(&in);
            from = op_desc(ENG_F32, 1, &count);
            axis = 0;
        }
        int64_t n = from.dims[axis] - (from.dims[axis] > 2);
        uint8_t *marks = malloc((size_t)n + 1);
        assert_non_null(marks);
        struct eng_desc desc = from;
        desc.dims[axis] = 0;
        int64_t *chosen = random_indices(&prng, n, n);
        for (int64_t i = 0; i < n; i++) {
            marks[i] = base_prng_below(&prng, 3) != 0;
            if (marks[i]) {
                chosen[desc.dims[axis]++] = i;
            }
        }
        float *data = op_numbers(eng_desc_count(&in));
        float *wanted = op_numbers(eng_desc_count(&desc));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t place[ENG_RANK_MAX];
            memcpy(place, at, sizeof(place));
            place[axis] = chosen[at[axis]];
            wanted[i] = data[op_flat(&from, place)];
        }
        op_begin(&rig, "Compress", 11);
        if (!flat) {
            ob_attr_int(&rig.attrs, "axis", axis);
        }
        const struct eng_desc mark_desc = op_desc(ENG_BOOL, 1, &n);
        op_input(&rig, &in, data, false);
        op_input(&rig, &mark_desc, marks, round % 2 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(data);
        free(wanted);
        free(marks);
        free(chosen);
    }
}

static void one_hots(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        struct eng_desc index;
        op_random_shape(&prng, 1, 3, 4, &index);
        index.dtype = ENG_I64;
        int64_t depth = 1 + (int64_t)base_prng_below(&prng, 5);
        uint32_t axis = (uint32_t)base_prng_below(&prng, index.rank + 1);
        struct eng_desc desc = {.dtype = ENG_F32, .rank = index.rank + 1};
        for (uint32_t d = 0; d < desc.rank; d++) {
            desc.dims[d] = d < axis ? index.dims[d] : d == axis ? depth : index.dims[d - 1];
        }
        int64_t *indices = random_indices(&prng, eng_desc_count(&index), depth);
        indices[0] = round % 2 == 0 ? depth : indices[0]; // outside: all off
        float *wanted = op_numbers(eng_desc_count(&desc));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t place[ENG_RANK_MAX] = {0};
            for (uint32_t d = 0; d < index.rank; d++) {
                place[d] = at[d < axis ? d : d + 1];
            }
            int64_t hot = indices[op_flat(&index, place)];
            wanted[i] = (hot < 0 ? hot + depth : hot) == at[axis] ? 5 : -2;
        }
        const float values[2] = {-2, 5};
        const int64_t two = 2;
        const struct eng_desc value_desc = op_desc(ENG_F32, 1, &two);
        op_begin(&rig, "OneHot", 11);
        ob_attr_int(&rig.attrs, "axis", axis == index.rank ? -1 : (int64_t)axis);
        op_input(&rig, &index, indices, false);
        op_scalar(&rig, ENG_I64, &depth, round % 3 != 0);
        op_input(&rig, &value_desc, values, round % 3 != 1);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(indices);
        free(wanted);
    }
}

// An index out of range is an error of the run, or of planning when it is known.
static void indices_out_of_range(void **state)
{
    (void)state;
    static const char *const ops[] = {"Gather", "GatherElements", "GatherND"};
    const int64_t dims[2] = {2, 2};
    const struct eng_desc in = op_desc(ENG_F32, 2, dims);
    const struct eng_desc index = op_desc(ENG_I64, 2, dims);
    const float data[4] = {1, 2, 3, 4};
    const int64_t bad[2][4] = {{0, 0, 9, 9}, {0, 0, -9, -9}};
    for (size_t i = 0; i < TEST_COUNT(ops) * 4; i++) {
        struct op_rig rig;
        op_begin(&rig, ops[i / 4], 13);
        op_input(&rig, &in, data, false);
        op_input(&rig, &index, bad[i % 2], i / 2 % 2 == 0);
        assert_int_equal(op_run(&rig, 1), BASE_ERR_INVALID);
        if (strstr(rig.error.text, ops[i / 4]) == NULL) {
            fail_msg("the error names no operator: %s", rig.error.text);
        }
        op_done(&rig);
    }
}

// What a case of one coordinate outside its dimension must say: operator, node, coordinate, value.
static void expect_outside(struct op_rig *rig, uint32_t coordinate, int64_t row, int64_t value)
{
    char words[64];
    assert_int_equal(op_run(rig, 1), BASE_ERR_INVALID);
    (void)snprintf(words, sizeof words, "coordinate %u of row %lld is %lld, outside", coordinate,
                   (long long)row, (long long)value);
    if (strstr(rig->error.text, words) == NULL || strstr(rig->error.text, rig->op) == NULL ||
        strstr(rig->error.text, "'n'") == NULL) {
        fail_msg("'%s' lacks '%s', the node or %s", rig->error.text, words, rig->op);
    }
}

// A coordinate outside its own dimension is an error, though the row it leads to exists.
static void coordinates_out_of_range(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    const int64_t dims[3] = {4, 3, 5};
    const int64_t index_dims[2] = {6, 2};
    const int64_t element_dims[3] = {4, 1, 5};
    const int64_t row_dims[2] = {6, 5};
    const struct eng_desc in = op_desc(ENG_F32, 3, dims);
    const struct eng_desc update = op_desc(ENG_F32, 2, row_dims);
    const struct eng_desc one = op_desc(ENG_F32, 3, element_dims);
    float *data = op_numbers(eng_desc_count(&in));
    for (int round = 0; round < 4 * ROUNDS; round++) {
        struct op_rig rig;
        const bool is_nd = round % 3 != 2;
        const bool is_known = round % 2 == 0;
        const struct eng_desc index =
            is_nd ? op_desc(ENG_I64, 2, index_dims) : op_desc(ENG_I64, 3, element_dims);
        const uint32_t depth = is_nd ? 2 : 1;
        int64_t values[20];
        for (int64_t i = 0; i < eng_desc_count(&index); i++) {
            values[i] = random_index(&prng, is_nd ? dims[i % 2] : dims[1]);
        }
        const int64_t at = (int64_t)base_prng_below(&prng, (uint64_t)eng_desc_count(&index));
        const int64_t size = is_nd ? dims[at % 2] : dims[1];
        // The nearest ones outside, and ones whose products overflow.
        const int64_t outside[] = {size, -size - 1, INT64_MAX, INT64_MIN, (int64_t)1 << 62};
        values[at] = outside[base_prng_below(&prng, TEST_COUNT(outside))];
        op_begin(&rig, round % 3 == 0 ? "GatherND" : is_nd ? "ScatterND" : "ScatterElements", 13);
        rig.options.isa = round % 4 < 2 ? NULL : "ref";
        if (!is_nd) {
            ob_attr_int(&rig.attrs, "axis", 1);
        }
        op_input(&rig, &in, data, is_known && round % 5 == 0);
        op_input(&rig, &index, values, is_known);
        if (round % 3 != 0) {
            op_input(&rig, is_nd ? &update : &one, data, false);
        }
        expect_outside(&rig, (uint32_t)at % depth, at / depth, values[at]);
        op_done(&rig);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers),
        cmocka_unit_test(known_gathers_are_regions),
        cmocka_unit_test(gather_elements),
        cmocka_unit_test(scatter_elements),
        cmocka_unit_test(gather_nd),
        cmocka_unit_test(scatter_nd),
        cmocka_unit_test(reverse_sequences),
        cmocka_unit_test(compresses),
        cmocka_unit_test(one_hots),
        cmocka_unit_test(indices_out_of_range),
        cmocka_unit_test(coordinates_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
