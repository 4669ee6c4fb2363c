// What operators refuse: each model here breaks one rule, and the error says which operator and
// why.
#include "op_rig.h"

struct bad {
    const char *op;
    int64_t opset;
    void (*fill)(struct op_rig *rig);
    enum base_status status;
    const char *text; // part of the error
};

static const float numbers[64];
static const uint8_t marks[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static void floats(struct op_rig *rig, uint32_t rank, const int64_t *dims)
{
    const struct eng_desc desc = op_desc(ENG_F32, rank, dims);
    op_input(rig, &desc, numbers, false);
}

static void ints(struct op_rig *rig, int64_t count, const int64_t *values)
{
    op_ints(rig, values, count, true);
}

static void reshape_count(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 2, (int64_t[]){4, -1});
}
static void reshape_two_rests(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 2, (int64_t[]){-1, -1});
}
static void reshape_rank(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){1});
    ints(rig, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
}
static void reshape_copy(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){1});
    ints(rig, 2, (int64_t[]){1, 0});
}
static void flatten_axis(struct op_rig *rig)
{
    ob_attr_int(&rig->attrs, "axis", 4);
    floats(rig, 2, (int64_t[]){2, 3});
}
static void squeeze_wide(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 1, (int64_t[]){1});
}
static void unsqueeze_twice(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 2, (int64_t[]){0, -4});
}
static void constant_empty(struct op_rig *rig)
{
    (void)rig;
}
static void constant_of_shape_negative(struct op_rig *rig)
{
    ints(rig, 2, (int64_t[]){2, -3});
}
static void constant_of_shape_huge(struct op_rig *rig)
{
    ints(rig, 2, (int64_t[]){1 << 30, 1 << 30});
}
static void expand_misfit(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 2, (int64_t[]){2, 4});
}
static void range_stuck(struct op_rig *rig)
{
    for (int64_t i = 0; i < 3; i++) {
        op_scalar(rig, ENG_I64, &(int64_t){0}, true);
    }
}
static const int64_t far_away = INT64_MAX;
static const int64_t nothing = 0;
static const int64_t single = 1;
static void range_endless(struct op_rig *rig)
{
    op_scalar(rig, ENG_I64, &nothing, true);
    op_scalar(rig, ENG_I64, &far_away, true);
    op_scalar(rig, ENG_I64, &single, true);
}
static void transpose_repeats(struct op_rig *rig)
{
    op_attr_ints(rig, "perm", (int64_t[]){0, 0}, 2);
    floats(rig, 2, (int64_t[]){2, 3});
}
static void concat_misfit(struct op_rig *rig)
{
    ob_attr_int(&rig->attrs, "axis", 0);
    floats(rig, 2, (int64_t[]){2, 3});
    floats(rig, 2, (int64_t[]){2, 4});
}
static void split_sum(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){5});
    ints(rig, 1, (int64_t[]){4});
}
static void slice_step(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){5});
    ints(rig, 1, (int64_t[]){0});
    ints(rig, 1, (int64_t[]){5});
    ints(rig, 1, (int64_t[]){0});
    ints(rig, 1, (int64_t[]){0});
}
static void slice_axes(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){5});
    ints(rig, 1, (int64_t[]){0});
    ints(rig, 2, (int64_t[]){5, 5});
}
static void pad_count(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 3});
    ints(rig, 3, (int64_t[]){1, 1, 1});
}
static void pad_below_nothing(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 2, (int64_t[]){-2, -1});
}
static void pad_mode(struct op_rig *rig)
{
    op_attr_text(rig, "mode", "sideways");
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 2, (int64_t[]){1, 1});
}
static void pad_reflects_forever(struct op_rig *rig)
{
    op_attr_text(rig, "mode", "reflect");
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 2, (int64_t[]){1000000, 1});
}
static void pad_huge(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 2, (int64_t[]){INT64_MAX, INT64_MAX});
}
static void tile_huge(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 1, (int64_t[]){INT64_MAX});
}
static void tile_negative(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){2});
    ints(rig, 1, (int64_t[]){-1});
}
static void blocks_odd(struct op_rig *rig)
{
    ob_attr_int(&rig->attrs, "blocksize", 2);
    floats(rig, 4, (int64_t[]){1, 3, 2, 2});
}
static void trilu_flat(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
}
static void gather_type(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
    floats(rig, 1, (int64_t[]){3});
}
static void gather_batch(struct op_rig *rig)
{
    ob_attr_int(&rig->attrs, "batch_dims", 3);
    floats(rig, 2, (int64_t[]){2, 2});
    ints(rig, 1, (int64_t[]){0});
}
static void scatter_updates(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
    ints(rig, 1, (int64_t[]){0});
    floats(rig, 1, (int64_t[]){2});
}
static void scatter_outside(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
    ints(rig, 1, (int64_t[]){3});
    floats(rig, 1, (int64_t[]){1});
}
static void one_hot_values(struct op_rig *rig)
{
    ints(rig, 1, (int64_t[]){0});
    ints(rig, 1, (int64_t[]){3});
    floats(rig, 1, (int64_t[]){3});
}
static void compress_long(struct op_rig *rig)
{
    const struct eng_desc desc = op_desc(ENG_BOOL, 1, (int64_t[]){8});
    floats(rig, 1, (int64_t[]){3});
    op_input(rig, &desc, marks, false);
}
static void sequence_place(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
    ints(rig, 1, (int64_t[]){0});
}
static void resize_nothing(struct op_rig *rig)
{
    floats(rig, 2, (int64_t[]){2, 2});
}
static void resize_zero(struct op_rig *rig)
{
    const struct eng_desc desc = op_desc(ENG_F32, 1, (int64_t[]){2});
    floats(rig, 2, (int64_t[]){2, 2});
    op_absent(rig);
    op_input(rig, &desc, numbers, true);
}
static void sample_shape(struct op_rig *rig)
{
    floats(rig, 4, (int64_t[]){1, 1, 2, 2});
    floats(rig, 4, (int64_t[]){1, 2, 2, 3});
}
static void window_negative(struct op_rig *rig)
{
    op_scalar(rig, ENG_I64, &(const int64_t){INT64_MIN}, true);
}
static const int64_t many = INT64_MAX;
static void dft_huge(struct op_rig *rig)
{
    floats(rig, 3, (int64_t[]){1, 4, 1});
    op_scalar(rig, ENG_I64, &many, true);
}
static void normalizer_type(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
}
static void random_shape(struct op_rig *rig)
{
    op_attr_ints(rig, "shape", (int64_t[]){-1}, 1);
}
static void multinomial_rank(struct op_rig *rig)
{
    floats(rig, 1, (int64_t[]){3});
}
static void groups_of_no_channels(struct op_rig *rig)
{
    ob_attr_int(&rig->attrs, "num_groups", INT64_MAX);
    floats(rig, 3, (int64_t[]){2, 0, 2});
    floats(rig, 1, (int64_t[]){0});
    floats(rig, 1, (int64_t[]){0});
}
static void no_input(struct op_rig *rig)
{
    op_absent(rig);
}

static const struct bad cases[] = {
    {"Reshape", 13, reshape_count, BASE_ERR_INVALID, "cannot reshape"},
    {"Reshape", 13, reshape_two_rests, BASE_ERR_INVALID, "shape[1] = -1"},
    {"Reshape", 13, reshape_rank, BASE_ERR_TOO_LARGE, "9 dimensions"},
    {"Reshape", 13, reshape_copy, BASE_ERR_INVALID, "shape[1] = 0"},
    {"Flatten", 13, flatten_axis, BASE_ERR_INVALID, "axis 4"},
    {"Squeeze", 13, squeeze_wide, BASE_ERR_INVALID, "is 3, not 1"},
    {"Unsqueeze", 13, unsqueeze_twice, BASE_ERR_INVALID, "given twice"},
    {"Constant", 13, constant_empty, BASE_ERR_INVALID, "value"},
    {"ConstantOfShape", 13, constant_of_shape_negative, BASE_ERR_INVALID, "not possible"},
    {"ConstantOfShape", 13, constant_of_shape_huge, BASE_ERR_OVERFLOW, "not possible"},
    {"Expand", 13, expand_misfit, BASE_ERR_INVALID, "does not broadcast"},
    {"Range", 13, range_stuck, BASE_ERR_INVALID, "delta is 0"},
    {"Range", 13, range_endless, BASE_ERR_TOO_LARGE, "more than"},
    {"Transpose", 13, transpose_repeats, BASE_ERR_INVALID, "twice"},
    {"Concat", 13, concat_misfit, BASE_ERR_INVALID, "cannot be joined"},
    {"Split", 13, split_sum, BASE_ERR_INVALID, "add up to 4 of 5"},
    {"Slice", 13, slice_step, BASE_ERR_INVALID, "steps of 0"},
    {"Slice", 13, slice_axes, BASE_ERR_INVALID, "1, 2"},
    {"Pad", 13, pad_count, BASE_ERR_INVALID, "3 pads for 2"},
    {"Pad", 13, pad_below_nothing, BASE_ERR_INVALID, "leave nothing"},
    {"Pad", 13, pad_mode, BASE_ERR_UNSUPPORTED, "sideways"},
    {"Pad", 13, pad_reflects_forever, BASE_ERR_LIMIT, "repeated"},
    {"Pad", 13, pad_huge, BASE_ERR_TOO_LARGE, "pads of axis 0"},
    {"Tile", 13, tile_huge, BASE_ERR_OVERFLOW, "not possible"},
    {"Tile", 13, tile_negative, BASE_ERR_INVALID, "negative"},
    {"DepthToSpace", 13, blocks_odd, BASE_ERR_INVALID, "3 channels"},
    {"Trilu", 14, trilu_flat, BASE_ERR_INVALID, "rank 1"},
    {"Gather", 13, gather_type, BASE_ERR_INVALID, "int32 or int64"},
    {"GatherND", 13, gather_batch, BASE_ERR_INVALID, "batch_dims 3"},
    {"ScatterElements", 13, scatter_updates, BASE_ERR_INVALID, "differ in shape"},
    {"ScatterElements", 13, scatter_outside, BASE_ERR_INVALID, ""},
    {"OneHot", 13, one_hot_values, BASE_ERR_INVALID, "[off, on]"},
    {"Compress", 11, compress_long, BASE_ERR_INVALID, "at most [3]"},
    {"SequenceAt", 13, sequence_place, BASE_ERR_INVALID, "not a sequence"},
    {"Resize", 13, resize_nothing, BASE_ERR_INVALID, "neither scales nor sizes"},
    {"Resize", 13, resize_zero, BASE_ERR_INVALID, "scale 0"},
    {"GridSample", 16, sample_shape, BASE_ERR_INVALID, "grid float[1,2,2,3]"},
    {"HannWindow", 17, window_negative, BASE_ERR_INVALID, "a window of"},
    {"DFT", 17, dft_huge, BASE_ERR_INVALID, "length"},
    {"StringNormalizer", 13, normalizer_type, BASE_ERR_INVALID, "strings"},
    {"RandomNormal", 13, random_shape, BASE_ERR_INVALID, "not possible"},
    {"Multinomial", 13, multinomial_rank, BASE_ERR_INVALID, "samples from"},
    {"GroupNormalization", 18, groups_of_no_channels, BASE_ERR_INVALID, "num_groups"},
    {"GroupNormalization", 21, groups_of_no_channels, BASE_ERR_INVALID, "num_groups"},
    {"Shape", 13, no_input, BASE_ERR_INVALID, "input 0"},
    {"NonZero", 13, no_input, BASE_ERR_INVALID, "input 0"},
    {"If", 13, no_input, BASE_ERR_INVALID, "input 0"},
    {"Loop", 13, no_input, BASE_ERR_INVALID, "at least 2"},
    {"Scan", 13, no_input, BASE_ERR_INVALID, "num_scan_inputs"},
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct bad *bad = &cases[i];
        struct op_rig rig;
        op_begin(&rig, bad->op, bad->opset);
        bad->fill(&rig);
        enum base_status status = op_run(&rig, 1);
        char name[64];
        (void)snprintf(name, sizeof(name), "(%s, opset", bad->op);
        if (status != bad->status || strstr(rig.error.text, name) == NULL ||
            strstr(rig.error.text, bad->text) == NULL) {
            fail_msg("case %zu, %s: %s (%s), expected %s with '%s'", i, bad->op, rig.error.text,
                     base_status_name(status), base_status_name(bad->status), bad->text);
        }
        op_done(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
