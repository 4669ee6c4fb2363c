// Every operator the engine has, fed with random types, shapes, contents and attributes: whatever
// comes, the answer is a result or an error with a text, never a crash, a hang or a leak.
#include "op_rig.h"

#include "engine/engine.h"
#include "lower/op_forms.h"

static const char *const attr_names[] = {
    "axis",
    "axes",
    "keepdims",
    "perm",
    "starts",
    "ends",
    "pads",
    "mode",
    "value",
    "to",
    "kernel_shape",
    "strides",
    "dilations",
    "group",
    "auto_pad",
    "ceil_mode",
    "alpha",
    "beta",
    "epsilon",
    "blocksize",
    "k",
    "upper",
    "batch_dims",
    "dtype",
    "shape",
    "split",
    "num_outputs",
    "direction",
    "hidden_size",
    "layout",
    "sample_size",
    "output_height",
    "output_width",
    "scales",
    "seed",
    "size",
    "exclusive",
    "reverse",
    "time_axis",
    "batch_axis",
    "sorted",
    "largest",
    "inverse",
    "onesided",
    "reduction",
    "allowzero",
    "start",
    "end",
    "new_axis",
    "output_padding",
    "output_shape",
    "perm",
    "transA",
    "transB",
    "p",
    "storage_order",
    "pooled_shape",
    "ignore_index",
    "equation",
    "fmod",
    "broadcast",
    "ratio",
    "noop_with_empty_axes",
    "count_include_pad",
    "bias",
    "lambd",
    "stopwords",
    "ngram_counts",
    "ngram_indexes",
    "pool_int64s",
    "min_gram_length",
    "max_gram_length",
    "weights",
    "num_scan_inputs",
    "coordinate_transformation_mode",
    "nearest_mode",
    "padding_mode",
    "align_corners",
    "norm_coefficient",
    "R",
    "T",
    "antialias",
    "approximate",
    "block_size",
    "delimiter",
    "keep_aspect_ratio_policy",
    "maxsplit",
    "num_groups",
    "output_dtype",
};
static const char *const texts[] = {
    "constant",      "reflect",   "edge",       "nearest",
    "linear",        "cubic",     "SAME_UPPER", "VALID",
    "add",           "forward",   "reverse",    "TF",
    "bidirectional", "ij,jk->ik", "...i->i",    "",
    "none",          "bicubic",   "reflection", "tf_crop_and_resize",
    "align_corners", "LEFT",      "wrap",       "tanh",
    "not_larger",    " "};
static const enum eng_dtype dtypes[] = {ENG_F32, ENG_F32, ENG_F32,  ENG_I64, ENG_I64, ENG_I32,
                                        ENG_U8,  ENG_I8,  ENG_BOOL, ENG_F64, ENG_F16, ENG_U64};

static int64_t odd_number(struct base_prng *prng)
{
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 300, -300};
    if (base_prng_below(prng, 12) == 0) {
        return odd[base_prng_below(prng, TEST_COUNT(odd))];
    }
    return (int64_t)base_prng_below(prng, 9) - 3;
}

static void odd_attr(struct op_rig *rig, struct base_prng *prng, const char *name)
{
    int64_t ints[8];
    float floats[8];
    uint32_t count = (uint32_t)base_prng_below(prng, 8);
    for (uint32_t i = 0; i < 8; i++) {
        ints[i] = odd_number(prng);
        floats[i] = (float)(odd_number(prng) % 100) / 2;
    }
    switch (base_prng_below(prng, 6)) {
    case 0:
    case 1:
        ob_attr_int(&rig->attrs, name, ints[0]);
        break;
    case 2:
        ob_attr_float(&rig->attrs, name, floats[0]);
        break;
    case 3:
        op_attr_ints(rig, name, ints, count);
        break;
    case 4:
        op_attr_floats(rig, name, floats, count);
        break;
    default:
        op_attr_text(rig, name, texts[base_prng_below(prng, TEST_COUNT(texts))]);
        break;
    }
}

// Dense elements of any type: small whole numbers, now and then odd ones.
static void odd_contents(struct base_prng *prng, const struct eng_desc *desc, uint8_t *data)
{
    size_t bytes = eng_dtype_bytes(desc->dtype);
    for (int64_t i = 0; i < eng_desc_count(desc); i++) {
        int64_t number = odd_number(prng);
        float real = (float)number / 2;
        double wide = (double)real;
        uint16_t half = eng_f16_from_f32(real);
        const void *from = desc->dtype == ENG_F32   ? (const void *)&real
                           : desc->dtype == ENG_F64 ? (const void *)&wide
                           : desc->dtype == ENG_F16 ? (const void *)&half
                                                    : (const void *)&number;
        number = desc->dtype == ENG_BOOL ? number & 1 : number;
        memcpy(data + (size_t)i * bytes, from, bytes);
    }
}

static void odd_input(struct op_rig *rig, struct base_prng *prng, const struct eng_desc *like)
{
    struct eng_desc desc = *like;
    if (base_prng_below(prng, 3) == 0) {
        op_random_shape(prng, 0, 5, 4, &desc);
        desc.dtype = dtypes[base_prng_below(prng, TEST_COUNT(dtypes))];
    }
    if (desc.rank > 0 && base_prng_below(prng, 20) == 0) {
        desc.dims[base_prng_below(prng, desc.rank)] = 0;
    }
    uint8_t *data = malloc(eng_desc_bytes(&desc) + 1);
    assert_non_null(data);
    odd_contents(prng, &desc, data);
    op_input(rig, &desc, data, base_prng_below(prng, 2) == 0);
    free(data);
}

// Operators that ask for more than chance gives: types ("f" float, "i" int64, "u" uint8, "b" bool)
// and ranks of the inputs, and one attribute they cannot do without.
static const struct recipe {
    const char *op, *inputs, *attr;
    int64_t value; // of the attribute; two of them when `twice`
    bool twice;
} recipes[] = {
    {"AveragePool", "f4", "kernel_shape", 2, true},
    {"MaxPool", "f4", "kernel_shape", 2, true},
    {"LpPool", "f4", "kernel_shape", 2, true},
    {"MaxUnpool", "f4i4", "kernel_shape", 2, true},
    {"MaxRoiPool", "f4f2", "pooled_shape", 2, true},
    {"BatchNormalization", "f4f1f1f1f1", NULL, 0, false},
    {"InstanceNormalization", "f4f1f1", NULL, 0, false},
    {"LRN", "f4", "size", 3, false},
    {"Conv", "f4f4f1", NULL, 0, false},
    {"ConvTranspose", "f4f4f1", NULL, 0, false},
    {"ConvInteger", "u4u4u0u0", NULL, 0, false},
    {"DeformConv", "f4f4f4f1f4", NULL, 0, false},
    {"MatMulInteger", "u2u2u0u0", NULL, 0, false},
    {"QLinearConv", "u4f0u0u4f0u0f0u0", NULL, 0, false},
    {"QLinearMatMul", "u2f0u0u2f0u0f0u0", NULL, 0, false},
    {"QuantizeLinear", "f3f1u1", "axis", 1, false},
    {"DequantizeLinear", "u3f1u1", "axis", 1, false},
    {"Gemm", "f2f2f1", NULL, 0, false},
    {"RNN", "f3f3f3", "hidden_size", 2, false},
    {"GRU", "f3f3f3", "hidden_size", 2, false},
    {"LSTM", "f3f3f3", "hidden_size", 2, false},
    {"Cast", "f3", "to", 7, false},
    {"CumSum", "f3i0", NULL, 0, false},
    {"TopK", "f3i1", "k", 1, false},
    {"Where", "b2f2f2", NULL, 0, false},
    {"Not", "b2", NULL, 0, false},
    {"Or", "b2b2", NULL, 0, false},
    {"Xor", "b2b2", NULL, 0, false},
    {"Compress", "f2b1", NULL, 0, false},
    {"DepthToSpace", "f4", "blocksize", 1, false},
    {"SpaceToDepth", "f4", "blocksize", 2, false},
    {"Gather", "f3i2", NULL, 0, false},
    {"GatherElements", "f2i2", NULL, 0, false},
    {"GatherND", "f3i2", NULL, 0, false},
    {"Scatter", "f2i2f2", NULL, 0, false},
    {"ScatterElements", "f2i2f2", NULL, 0, false},
    {"ScatterND", "f2i2f1", NULL, 0, false},
    {"ReverseSequence", "f3i1", NULL, 0, false},
    {"OneHot", "i2i0f1", NULL, 0, false},
    {"GridSample", "f4f4", NULL, 0, false},
    {"GroupNormalization", "f4f1f1", "num_groups", 2, false},
    {"CenterCropPad", "f2i1", NULL, 0, false},
    {"Col2Im", "f3i1i1", NULL, 0, false},
    {"AffineGrid", "f3i1", NULL, 0, false},
    {"RoiAlign", "f4f2i1", NULL, 0, false},
    {"Resize", "f3f1f1", NULL, 0, false},
    {"Upsample", "f3f1", NULL, 0, false},
    {"NonMaxSuppression", "f3f3i0f0f0", NULL, 0, false},
    {"Pad", "f2i1f0", NULL, 0, false},
    {"Tile", "f2i1", NULL, 0, false},
    {"Slice", "f2i1i1i1i1", NULL, 0, false},
    {"Range", "i0i0i0", NULL, 0, false},
    {"STFT", "f3i0f1i0", NULL, 0, false},
    {"DFT", "f3i0i0", NULL, 0, false},
    {"MelWeightMatrix", "i0i0i0f0f0", NULL, 0, false},
    {"NegativeLogLikelihoodLoss", "f2i1f1", NULL, 0, false},
    {"SoftmaxCrossEntropyLoss", "f2i1f1", NULL, 0, false},
};

static const struct recipe *recipe_of(const char *op)
{
    for (size_t i = 0; i < TEST_COUNT(recipes); i++) {
        if (strcmp(recipes[i].op, op) == 0) {
            return &recipes[i];
        }
    }
    return NULL;
}

static void recipe_inputs(struct op_rig *rig, struct base_prng *prng, const struct recipe *recipe)
{
    // Equal dims make most shapes fit each other.
    int64_t side = 1 + (int64_t)base_prng_below(prng, 4);
    for (const char *at = recipe->inputs; *at != '\0'; at += 2) {
        struct eng_desc desc = {.rank = (uint32_t)(at[1] - '0')};
        desc.dtype = at[0] == 'f'   ? ENG_F32
                     : at[0] == 'i' ? ENG_I64
                     : at[0] == 'u' ? ENG_U8
                                    : ENG_BOOL;
        for (uint32_t d = 0; d < desc.rank; d++) {
            bool odd = base_prng_below(prng, 8) == 0;
            desc.dims[d] = odd ? (int64_t)base_prng_below(prng, 6) : side;
        }
        uint8_t *data = malloc(eng_desc_bytes(&desc) + 1);
        assert_non_null(data);
        odd_contents(prng, &desc, data);
        op_input(rig, &desc, data, base_prng_below(prng, 2) == 0);
        free(data);
    }
    if (recipe->attr != NULL && recipe->twice) {
        op_attr_ints(rig, recipe->attr, (int64_t[]){recipe->value, recipe->value}, 2);
    } else if (recipe->attr != NULL) {
        ob_attr_int(&rig->attrs, recipe->attr, recipe->value);
    }
}

static void random_inputs(struct op_rig *rig, struct base_prng *prng)
{
    struct eng_desc like;
    op_random_shape(prng, 0, 5, 4, &like);
    like.dtype = dtypes[base_prng_below(prng, TEST_COUNT(dtypes))];
    uint64_t inputs = base_prng_below(prng, 6);
    for (uint64_t i = 0; i < inputs; i++) {
        if (base_prng_below(prng, 12) == 0) {
            op_absent(rig);
        } else {
            odd_input(rig, prng, &like);
        }
    }
}

// An attribute that the operator has, now and then any; NULL when none was drawn that it has.
static const char *attr_of(struct base_prng *prng, const char *op, int32_t opset)
{
    bool any = base_prng_below(prng, 20) == 0;
    for (int i = 0; i < 50; i++) {
        const char *name = attr_names[base_prng_below(prng, TEST_COUNT(attr_names))];
        const struct eng_attr attr = {.name = name};
        const struct eng_node node = {
            .op = op, .domain = "", .name = "", .opset = opset, .attr_count = 1, .attrs = &attr};
        if (any || eng_op_form_check(&node, NULL) == BASE_OK) {
            return name;
        }
    }
    return NULL;
}

static void garbage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    const char *asked = getenv("WALLE_TEST_ROUNDS");
    long rounds = asked != NULL ? strtol(asked, NULL, 10) : 2000;
    long results = 0;
    bool verbose = getenv("WALLE_TEST_VERBOSE") != NULL;
    for (long round = 0; round < rounds; round++) {
        const struct eng_operator_info *info =
            eng_operator(base_prng_below(&prng, eng_operator_count()));
        struct op_rig rig;
        if (info->domain[0] != '\0') {
            continue;
        }
        uint64_t span = (uint64_t)(info->opset_max - info->opset_min) + 1;
        int32_t opset = info->opset_min + (int32_t)base_prng_below(&prng, span);
        op_begin(&rig, info->name, opset);
        const struct recipe *recipe = recipe_of(info->name);
        bool follows = recipe != NULL && base_prng_below(&prng, 5) != 0;
        if (follows) {
            recipe_inputs(&rig, &prng, recipe);
        } else {
            random_inputs(&rig, &prng);
        }
        uint64_t attrs = base_prng_below(&prng, follows && round % 2 == 0 ? 2 : 8);
        for (uint64_t i = 0; i < attrs; i++) {
            const char *name = attr_of(&prng, info->name, opset);
            if (name != NULL) {
                odd_attr(&rig, &prng, name);
            }
        }
        uint32_t outputs = base_prng_below(&prng, 4) != 0 ? 1 : 3;
        enum base_status status = op_run(&rig, outputs);
        if (verbose) {
            print_message("%ld %s: %s %s\n", round, info->name, base_status_name(status),
                          rig.error.text);
        }
        if (status != BASE_OK && rig.error.text[0] == '\0') {
            fail_msg("round %ld: %s fails with %s and no text", round, info->name,
                     base_status_name(status));
        }
        results += status == BASE_OK;
        op_done(&rig);
    }
    print_message("%ld of %ld gave results\n", results, rounds);
    assert_true(rounds < 1000 || results > rounds / 100); // not all are turned away at the door
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(garbage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
