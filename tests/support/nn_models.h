// Small models for the tests of walle.nn and of the model store, with their digests.
#ifndef NN_MODELS_H
#define NN_MODELS_H

#include "onnx_kit.h"

#include "device/port.h"
#include "vm/vm.h"

struct nn_model {
    uint8_t bytes[ONNX_KIT_BYTES];
    size_t size;
    struct wire_sha256 digest;
};

static inline void nn_sha256(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    (void)ctx;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, out);
}

static inline void nn_model_digest(struct nn_model *model)
{
    nn_sha256(NULL, model->bytes, model->size, &model->digest);
}

static inline void nn_model_take(struct nn_model *model, struct onnx_kit *kit)
{
    const struct onnx_part *part = onnx_finish(kit, 13);
    memcpy(model->bytes, part->bytes, part->size);
    model->size = part->size;
    nn_model_digest(model);
}

// y = relu(x + w), x [n, 3], w = (1, -2, 3) + `shift`
static inline void nn_add_relu(struct nn_model *model, float shift)
{
    const float w[3] = {1 + shift, -2 + shift, 3 + shift};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(kit, "Add", "x w", "s");
    onnx_node(kit, "Relu", "s", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3);
    nn_model_take(model, kit);
}

// y = x, of any type and shape
static inline void nn_identity(struct nn_model *model, enum eng_dtype dtype)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", dtype, -1);
    onnx_node(kit, "Identity", "x", "y");
    onnx_output(kit, "y", dtype, -1);
    nn_model_take(model, kit);
}

// sum = a + b, difference = a - b, both int64 [n]
static inline void nn_two_by_two(struct nn_model *model)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "a", ENG_I64, -1);
    onnx_input(kit, "b", ENG_I64, -1);
    onnx_node(kit, "Add", "a b", "sum");
    onnx_node(kit, "Sub", "a b", "difference");
    onnx_output(kit, "sum", ENG_I64, -1);
    onnx_output(kit, "difference", ENG_I64, -1);
    nn_model_take(model, kit);
}

// y = x x x ... x, `products` of them, x [n, n]: as long a run as one wants
static inline void nn_chain(struct nn_model *model, uint32_t products)
{
    struct onnx_kit *kit = onnx_begin();
    char inputs[32] = "x x";
    char output[16] = "y";
    onnx_input(kit, "x", ENG_F32, -1, -1);
    for (uint32_t i = 0; i < products; i++) {
        (void)snprintf(output, sizeof(output), "h%u", i);
        onnx_node(kit, "MatMul", inputs, i + 1 < products ? output : "y");
        (void)snprintf(inputs, sizeof(inputs), "h%u x", i);
    }
    onnx_output(kit, "y", ENG_F32, -1, -1);
    nn_model_take(model, kit);
}

// y = where x is not 0, int64 [1, n]: its shape hangs on contents
static inline void nn_nonzero(struct nn_model *model)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1);
    onnx_node(kit, "Relu", "x", "r");
    onnx_node(kit, "NonZero", "r", "z");
    onnx_node(kit, "Add", "z z", "y");
    onnx_output(kit, "y", ENG_I64, -1, -2);
    nn_model_take(model, kit);
}

// y = x [1] spread over `count` elements
static inline void nn_spread(struct nn_model *model, int64_t count)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1);
    onnx_initializer(kit, "shape", ENG_I64, ONNX_DIMS(1), &count, sizeof(count));
    onnx_node(kit, "Expand", "x shape", "y");
    onnx_output(kit, "y", ENG_F32, -1);
    nn_model_take(model, kit);
}

// `inputs` inputs x0, x1 ... of one float, of which the first is y
static inline void nn_wide(struct nn_model *model, uint32_t inputs)
{
    struct onnx_kit *kit = onnx_begin();
    for (uint32_t i = 0; i < inputs; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "x%u", i);
        onnx_input(kit, name, ENG_F32, 1);
    }
    onnx_node(kit, "Identity", "x0", "y");
    onnx_output(kit, "y", ENG_F32, 1);
    nn_model_take(model, kit);
}

// y = relu(normal(convolved)), x [n, 2, 4, 4]: the normalization is folded into the convolution
static inline void nn_conv_bn(struct nn_model *model)
{
    static const float weights[3 * 2] = {1, 2, -1, 0.5F, 0.25F, -2};
    static const float row[3] = {0.5F, 1, 2};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 2, 4, 4);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3, 2, 1, 1), weights, sizeof(weights));
    onnx_initializer(kit, "row", ENG_F32, ONNX_DIMS(3), row, sizeof(row));
    onnx_node(kit, "Conv", "x w", "convolved");
    onnx_node(kit, "BatchNormalization", "convolved row row row row", "normal");
    onnx_node(kit, "Relu", "normal", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3, 4, 4);
    nn_model_take(model, kit);
}

// One node of an operator nobody knows.
static inline void nn_unknown(struct nn_model *model)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, 1);
    onnx_node(kit, "Frobnicate", "x", "y");
    onnx_output(kit, "y", ENG_F32, 1);
    nn_model_take(model, kit);
}

#endif
