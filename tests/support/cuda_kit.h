// Small models on the device "cuda", for its unit tests.
#ifndef CUDA_KIT_H
#define CUDA_KIT_H

#include "onnx_kit.h"

#include "engine/engine.h"

// Of opset 13; ends the kit. One model at a time: the bytes are the model's as long as it lives.
static inline struct eng_model *cuda_kit_load(struct onnx_kit *kit)
{
    static uint8_t bytes[ONNX_KIT_BYTES];
    struct eng_model *model = NULL;
    struct base_error error = {0};
    const struct onnx_part *part = onnx_finish(kit, 13);
    memcpy(bytes, part->bytes, part->size);
    if (eng_model_load_memory(bytes, part->size, NULL, &model, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return model;
}

static inline struct eng_session *cuda_kit_session(struct eng_model *model)
{
    struct eng_session *session = NULL;
    struct base_error error = {0};
    if (eng_session_new(model, &(struct eng_session_options){.device = "cuda"}, &session, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    return session;
}

#endif
