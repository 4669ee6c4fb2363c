// Products of the device "cuda" that go to cuBLASLt, here its stand-in on the processor: operands
// that lie either way, batches, epilogues, bfloat16, addresses that are not aligned, and windows of
// a convolution laid out piece by piece. The kernels' own product is given no rows in the tests of
// the port, so that nothing but cuBLASLt can have computed what is there.
#include "cuda_kit.h"
#include "onnx_kit.h"
#include "test_kit.h"

#include "backend/cuda/cuda_port.h"
#include "engine/engine.h"

#include <dlfcn.h>
#include <math.h>

#define ROWS     5
#define COLUMNS  7
#define DEPTH    19
#define BATCHES  3
#define RESULTS  (BATCHES * ROWS * COLUMNS)
#define ROOM     (BATCHES * DEPTH * COLUMNS + 1)
#define SCRATCH  65536
#define NOT_HERE UINT32_MAX

static const struct eng_cuda_port *port;
static struct eng_cuda_stream *stream;

// Memory of the device and what is in it.
struct on_device {
    float here[ROOM];
    void *there;
};

static void upload(struct on_device *on, size_t count)
{
    assert_null(port->allocate(sizeof on->here, &on->there));
    assert_null(port->upload(stream, on->there, on->here, count * sizeof(float)));
}

static void fill(struct base_prng *prng, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(int)(base_prng_next(prng) % 2001) / 1000 - 1;
    }
}

// To the nearest value of eight bits, ties to even.
static float rounded(float value)
{
    int exponent = 0;
    const float part = frexpf(value, &exponent);
    return ldexpf(rintf(part * 256), exponent - 8);
}

struct product_case {
    bool a_is_long, b_is_long, is_low, shares_b, has_bias, has_residual;
    size_t shift;                 // elements before the left operand
    enum eng_unary_fn activation; // ENG_UNARY_COUNT: none
};

static float activated(enum eng_unary_fn fn, float x)
{
    switch (fn) {
    case ENG_RELU:
        return x > 0 ? x : 0;
    case ENG_CLIP:
        return x < -0.5F ? -0.5F : x > 0.5F ? 0.5F : x;
    case ENG_GELU_TANH:
        return 0.5F * x * (1 + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
    default:
        return x;
    }
}

static float value_of(const float *values, bool is_low, size_t i)
{
    return is_low ? rounded(values[i]) : values[i];
}

struct operands {
    struct on_device a, b, bias, residual, out;
};

static float expected(const struct product_case *wish, const struct operands *o, size_t batch,
                      size_t result)
{
    const size_t row = result / COLUMNS, column = result % COLUMNS;
    const size_t a_first = wish->shift + batch * ROWS * DEPTH;
    const size_t b_first = wish->shares_b ? 0 : batch * DEPTH * COLUMNS;
    float sum = 0;
    for (size_t k = 0; k < DEPTH; k++) {
        const size_t a = wish->a_is_long ? row * DEPTH + k : k * ROWS + row;
        const size_t b = wish->b_is_long ? column * DEPTH + k : k * COLUMNS + column;
        sum += value_of(o->a.here, wish->is_low, a_first + a) *
               value_of(o->b.here, wish->is_low, b_first + b);
    }
    sum = 0.5F * sum + (wish->has_bias ? o->bias.here[column] : 0);
    sum += wish->has_residual ? o->residual.here[batch * ROWS * COLUMNS + result] : 0;
    return activated(wish->activation, sum);
}

static struct eng_cuda_matmul params_of(const struct product_case *wish)
{
    return (struct eng_cuda_matmul){
        .batches = 1, // no rows: the kernel of our own does nothing
        .a = {.offset = (int64_t)wish->shift},
        .finish = {.bias = wish->has_bias ? 2 : NOT_HERE,
                   .residual = wish->has_residual ? 3 : NOT_HERE,
                   .has_activation = wish->activation != ENG_UNARY_COUNT,
                   .activation = {.fn = wish->activation, .alpha = -0.5F, .beta = 0.5F}},
        .gemm = {.is_there = true,
                 .is_low = wish->is_low,
                 .batches = BATCHES,
                 .rows = ROWS,
                 .columns = COLUMNS,
                 .depth = DEPTH,
                 .a = {wish->a_is_long, wish->a_is_long ? DEPTH : ROWS, ROWS * DEPTH},
                 .b = {wish->b_is_long, wish->b_is_long ? DEPTH : COLUMNS,
                       wish->shares_b ? 0 : DEPTH * COLUMNS},
                 .alpha = 0.5F}};
}

static void one_product(struct base_prng *prng, const struct product_case *wish)
{
    static struct operands o;
    struct on_device *all[] = {&o.a, &o.b, &o.bias, &o.residual, &o.out};
    void *scratch = NULL;
    for (size_t i = 0; i < TEST_COUNT(all); i++) {
        fill(prng, all[i]->here, ROOM);
        upload(all[i], ROOM);
    }
    assert_null(port->allocate(SCRATCH, &scratch));
    const struct eng_cuda_matmul params = params_of(wish);
    const struct eng_cuda_buffers buffers = {
        .in = {o.a.there, o.b.there, o.bias.there, o.residual.there},
        .out = {o.out.there},
        .scratch = scratch};
    float results[RESULTS];
    assert_null(port->launch(stream, ENG_CUDA_MATMUL, &buffers, &params));
    assert_null(port->download(stream, results, o.out.there, sizeof results));
    assert_null(port->sync(stream));
    for (size_t i = 0; i < RESULTS; i++) {
        assert_float_equal(results[i],
                           expected(wish, &o, i / (ROWS * COLUMNS), i % (ROWS * COLUMNS)), 2e-5);
    }
    port->release(scratch);
    for (size_t i = 0; i < TEST_COUNT(all); i++) {
        port->release(all[i]->there);
    }
}

static void products_in_every_form(void **state)
{
    (void)state;
    static const enum eng_unary_fn activations[] = {ENG_UNARY_COUNT, ENG_RELU, ENG_GELU_TANH,
                                                    ENG_CLIP};
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned bits = 0; bits < 128; bits++) {
        for (size_t i = 0; i < TEST_COUNT(activations); i++) {
            one_product(&prng, &(struct product_case){.a_is_long = (bits & 1) != 0,
                                                      .b_is_long = (bits & 2) != 0,
                                                      .is_low = (bits & 4) != 0,
                                                      .shares_b = (bits & 8) != 0,
                                                      .has_bias = (bits & 16) != 0,
                                                      .has_residual = (bits & 32) != 0,
                                                      .shift = (bits & 64) != 0 ? 1 : 0,
                                                      .activation = activations[i]});
        }
    }
}

// --- by sessions ---------------------------------------------------------------------------------

struct run_options {
    const char *device;
    enum eng_precision precision;
};

// The output of a model of one input; its count. Freed by the caller.
static size_t run_model(struct eng_model *model, const struct eng_array *x,
                        const struct run_options *options, float **out)
{
    struct eng_session *session = NULL;
    struct base_error error = {0};
    struct eng_array y;
    if (eng_session_new(model,
                        &(struct eng_session_options){.device = options->device,
                                                      .precision = options->precision},
                        &session, &error) != BASE_OK ||
        eng_session_set_input(session, 0, x, &error) != BASE_OK ||
        eng_session_run(session, NULL, &error) != BASE_OK ||
        eng_session_output(session, 0, &y, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    const size_t count = (size_t)eng_desc_count(&y.desc);
    *out = malloc(count * sizeof **out);
    assert_non_null(*out);
    memcpy(*out, y.data, count * sizeof **out);
    eng_session_free(session);
    return count;
}

#define SIDE     200 // pixels: more windows than are laid out at a time
#define CHANNELS 32
#define FILTERS  8

static struct eng_model *convolution(struct base_prng *prng)
{
    static float w[FILTERS * CHANNELS * 9], b[FILTERS];
    struct onnx_kit *kit = onnx_begin();
    fill(prng, w, TEST_COUNT(w));
    fill(prng, b, TEST_COUNT(b));
    onnx_input(kit, "x", ENG_F32, 1, CHANNELS, SIDE, SIDE);
    onnx_output(kit, "y", ENG_F32, 1, FILTERS, SIDE, SIDE);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(FILTERS, CHANNELS, 3, 3), w, sizeof w);
    onnx_initializer(kit, "b", ENG_F32, ONNX_DIMS(FILTERS), b, sizeof b);
    onnx_node(kit, "Conv", "x w b", "c");
    const int64_t pads[] = {1, 1, 1, 1};
    onnx_attr_ints(kit, "pads", pads, 4);
    onnx_node(kit, "Relu", "c", "y");
    return cuda_kit_load(kit);
}

// In low precision both sides round to bfloat16, so a sum of 288 products differs by a little more.
static void windows_are_laid_out_piece_by_piece(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    struct eng_model *model = convolution(&prng);
    static float x[CHANNELS * SIDE * SIDE];
    fill(&prng, x, TEST_COUNT(x));
    const struct eng_array array = {
        .desc = {.dtype = ENG_F32, .rank = 4, .dims = {1, CHANNELS, SIDE, SIDE}}, .data = x};
    float *host = NULL, *high = NULL, *low = NULL;
    const size_t count = run_model(model, &array, &(struct run_options){"cpu", 0}, &host);
    assert_int_equal(run_model(model, &array, &(struct run_options){"cuda", 0}, &high), count);
    assert_int_equal(
        run_model(model, &array, &(struct run_options){"cuda", ENG_PRECISION_LOW}, &low), count);
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        assert_float_equal(high[i], host[i], 1e-3);
        assert_float_equal(low[i], host[i], 0.15);
        different += low[i] != high[i];
    }
    assert_true(different > count / 4); // it was rounded
    free(host);
    free(high);
    free(low);
    eng_model_unref(model);
}

// Products and convolutions of bytes: all on the device, and exact.
static void quantised_products_are_exact(void **state)
{
    (void)state;
    enum { PIXELS = 8 };
    static float x[PIXELS * PIXELS];
    static uint8_t w[4 * 9], b[PIXELS - 2];
    struct base_prng prng;
    test_seed(&prng);
    for (size_t i = 0; i < TEST_COUNT(x); i++) {
        x[i] = (float)(base_prng_next(&prng) % 256);
    }
    for (size_t i = 0; i < TEST_COUNT(w); i++) {
        w[i] = (uint8_t)base_prng_next(&prng);
    }
    for (size_t i = 0; i < TEST_COUNT(b); i++) {
        b[i] = (uint8_t)base_prng_next(&prng);
    }
    const uint8_t zero = 255;
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1, 1, PIXELS, PIXELS);
    onnx_output(kit, "y", ENG_I32, 1, 4, PIXELS - 2, 1);
    onnx_initializer(kit, "w", ENG_U8, ONNX_DIMS(4, 1, 3, 3), w, sizeof w);
    onnx_initializer(kit, "b", ENG_U8, ONNX_DIMS(PIXELS - 2, 1), b, PIXELS - 2);
    onnx_initializer(kit, "zero", ENG_U8, ONNX_DIMS(1), &zero, 1);
    onnx_node(kit, "Cast", "x", "u");
    onnx_attr_int(kit, "to", ENG_U8);
    onnx_node(kit, "ConvInteger", "u w - zero", "c");
    onnx_node(kit, "Cast", "c", "d");
    onnx_attr_int(kit, "to", ENG_U8);
    onnx_node(kit, "MatMulInteger", "d b zero", "y");
    struct eng_model *model = cuda_kit_load(kit);
    const struct eng_array array = {
        .desc = {.dtype = ENG_F32, .rank = 4, .dims = {1, 1, PIXELS, PIXELS}}, .data = x};
    struct base_error error = {0};
    struct eng_array y;
    int32_t found[2][4 * (PIXELS - 2)];
    for (int i = 0; i < 2; i++) {
        struct eng_session *session = NULL;
        struct eng_session_stats stats;
        const struct eng_session_options options = {.device = i == 0 ? "cuda" : "cpu"};
        if (eng_session_new(model, &options, &session, &error) != BASE_OK ||
            eng_session_set_input(session, 0, &array, &error) != BASE_OK ||
            eng_session_run(session, NULL, &error) != BASE_OK ||
            eng_session_output(session, 0, &y, &error) != BASE_OK) {
            fail_msg("%s", error.text);
        }
        eng_session_stats(session, &stats);
        assert_int_equal(stats.left_to_host, 0);
        assert_int_equal(eng_desc_bytes(&y.desc), sizeof found[i]);
        memcpy(found[i], y.data, sizeof found[i]);
        eng_session_free(session);
    }
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    eng_model_unref(model);
}

static int open_port(void **state)
{
    (void)state;
    eng_cuda_port_fn find = NULL;
    void *library = dlopen(WALLE_CUDA_ON_CPU, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, ENG_CUDA_PORT_SYMBOL);
    assert_non_null(symbol);
    memcpy(&find, &symbol, sizeof find);
    port = find();
    return port->open(&stream) == NULL ? 0 : -1;
}

static int close_port(void **state)
{
    (void)state;
    port->close(stream);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_every_form),
        cmocka_unit_test(windows_are_laid_out_piece_by_piece),
        cmocka_unit_test(quantised_products_are_exact),
    };
    (void)setenv("WALLE_ENGINE_CUDA", WALLE_CUDA_ON_CPU, 1);
    return cmocka_run_group_tests(tests, open_port, close_port);
}
