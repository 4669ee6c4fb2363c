// Whole models through sessions in low precision on tiles, the processor's or emulated ones: beside
// the reference backend in float32 and bfloat16 pairs of AVX-512, on one thread and two.
#include "onnx_kit.h"

#include "amx_rig.h"
#include "engine/engine.h"

#include <math.h>

#define SEED     20240702u
#define SIZE     17
#define CHANNELS 34
#define CLASSES  35
#define IMAGES   2

static struct base_prng prng;

static void random_weights(struct onnx_kit *kit, const char *name, const int64_t *dims, size_t rank)
{
    static float data[CHANNELS * CHANNELS * 9];
    int64_t count = 1, inner = 1;
    for (size_t d = 0; d < rank; d++) {
        count *= dims[d];
        inner *= d > 0 ? dims[d] : 1;
    }
    assert_true(count <= (int64_t)TEST_COUNT(data));
    const double scale = sqrt(3.0 / (double)inner);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(scale * (2 * base_prng_unit(&prng) - 1));
    }
    onnx_initializer(kit, name, ENG_F32, dims, rank, data, (size_t)count * sizeof(float));
}

// Convolutions of 3 x 3 with padding and stride, one with a residual, one of a pixel, and a
// product.
static struct eng_model *small_model(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, IMAGES, 3, SIZE, SIZE);
    random_weights(kit, "w0", ONNX_DIMS(CHANNELS, 3, 3, 3));
    random_weights(kit, "w1", ONNX_DIMS(CHANNELS, CHANNELS, 3, 3));
    random_weights(kit, "w2", ONNX_DIMS(CHANNELS, CHANNELS, 1, 1));
    random_weights(kit, "w3", ONNX_DIMS(CHANNELS, CLASSES));
    onnx_node(kit, "Conv", "x w0", "c0");
    onnx_attr_ints(kit, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
    onnx_attr_ints(kit, "strides", (const int64_t[]){2, 2}, 2);
    onnx_node(kit, "Relu", "c0", "r0");
    onnx_node(kit, "Conv", "r0 w1", "c1");
    onnx_attr_ints(kit, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
    onnx_node(kit, "Add", "c1 r0", "s1");
    onnx_node(kit, "Relu", "s1", "r1");
    onnx_node(kit, "Conv", "r1 w2", "c2");
    onnx_node(kit, "Sigmoid", "c2", "r2");
    onnx_node(kit, "GlobalAveragePool", "r2", "g");
    onnx_node(kit, "Flatten", "g", "f");
    onnx_node(kit, "MatMul", "f w3", "y");
    onnx_output(kit, "y", ENG_F32, IMAGES, CLASSES);
    const struct onnx_part *part = onnx_finish(kit, 13);
    static uint8_t bytes[ONNX_KIT_BYTES]; // borrowed by the model
    memcpy(bytes, part->bytes, part->size);
    struct base_error error = {0};
    struct eng_model *model = NULL;
    if (eng_model_load_memory(bytes, part->size, NULL, &model, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return model;
}

struct answer {
    float y[IMAGES * CLASSES];
};

static struct answer run(struct eng_model *model, const char *isa, bool low, uint32_t threads,
                         float *x)
{
    const struct eng_session_options options = {.isa = isa,
                                                .threads = threads,
                                                .no_search = true,
                                                .precision =
                                                    low ? ENG_PRECISION_LOW : ENG_PRECISION_HIGH};
    struct eng_session *session = NULL;
    struct eng_array in = {{.dtype = ENG_F32, .rank = 4, .dims = {IMAGES, 3, SIZE, SIZE}}, x};
    struct eng_array out;
    struct base_error error = {0};
    if (eng_session_new(model, &options, &session, &error) != BASE_OK ||
        eng_session_set_input(session, 0, &in, &error) != BASE_OK ||
        eng_session_run(session, NULL, &error) != BASE_OK ||
        eng_session_output(session, 0, &out, &error) != BASE_OK) {
        fail_msg("%s: %s", isa, error.text);
    }
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    assert_string_equal(stats.isa, isa);
    struct answer answer;
    assert_int_equal(eng_desc_bytes(&out.desc), sizeof(answer));
    memcpy(&answer, out.data, sizeof(answer));
    eng_session_free(session);
    return answer;
}

// Largest difference, of the largest value of `b`.
static double difference(const struct answer *a, const struct answer *b)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < TEST_COUNT(a->y); i++) {
        worst = fmax(worst, fabs((double)a->y[i] - (double)b->y[i]));
        largest = fmax(largest, fabs((double)b->y[i]));
    }
    return worst / largest;
}

static void check_difference(const char *what, double found, double bound)
{
    if (!(found <= bound)) {
        fail_msg("%s: %g, at most %g expected", what, found, bound);
    }
}

static void test_model(void **state)
{
    (void)state;
    const enum amx_source source = amx_rig_provide();
    if (source == AMX_NOWHERE) {
        skip();
    }
    struct eng_model *model = small_model();
    for (int round = 0; round < 3; round++) {
        static float x[IMAGES * 3 * SIZE * SIZE];
        for (size_t i = 0; i < TEST_COUNT(x); i++) {
            x[i] = (float)(2 * base_prng_unit(&prng) - 1);
        }
        const uint64_t before = amx_emulator_count(AMX_TDPBF16PS);
        const struct answer one = run(model, "amx", true, 1, x);
        const uint64_t products = amx_emulator_count(AMX_TDPBF16PS) - before;
        const struct answer two = run(model, "amx", true, 2, x);
        const struct answer pairs = run(model, "avx512", true, 1, x);
        const struct answer reference = run(model, "ref", false, 1, x);
        assert_memory_equal(&one, &two, sizeof(one));
        check_difference("to float32", difference(&one, &reference), 2e-2);
        check_difference("to pairs", difference(&one, &pairs), 5e-3);
        assert_true(difference(&one, &reference) > 1e-6); // it was rounded
        // 81 pixels an image, 34 channels: more than the last product alone.
        assert_true(source == AMX_NATIVE || products > 1000);
    }
    eng_model_unref(model);
}

#if defined(__x86_64__)
// A session leaves the thread's tiles as if it had not used them, and needs none set up before.
static void test_tiles_are_given_back(void **state)
{
    (void)state;
    if (amx_rig_provide() == AMX_NOWHERE) {
        skip();
    }
    static float x[IMAGES * 3 * SIZE * SIZE];
    struct eng_model *model = small_model();
    x[0] = 1;
    const struct answer first = run(model, "amx", true, 1, x);
    uint8_t config[AMX_CONFIG_BYTES], none[AMX_CONFIG_BYTES] = {0};
    __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x02" ::"d"(config) : "memory");
    assert_memory_equal(config, none, sizeof(config));
    // Somebody else on this thread has tiles of another size.
    const uint8_t other[AMX_CONFIG_BYTES] = {[0] = 1, [16] = 4, [48] = 1};
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(other), "m"(other));
    const struct answer second = run(model, "amx", true, 1, x);
    assert_memory_equal(&first, &second, sizeof(first));
    eng_model_unref(model);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
#if defined(__x86_64__)
        cmocka_unit_test(test_tiles_are_given_back),
#endif
    };
    printf("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
