// See ipv_encode.h. Called by ipv_encoder, one thread.
#include "ipv_encode.h"

#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#define DECAY 0.9f // of an event's weight with each later event

struct ipv_encoder {
    struct eng_model *model; // NULL: projection
    struct eng_session *session;
    float projection[IPV_STEP_WIDTH][IPV_ENCODING];
};

static void projection_draw(struct ipv_encoder *encoder)
{
    uint32_t draw = 1; // of a sequence that is as easily had in a script
    for (uint32_t i = 0; i < IPV_STEP_WIDTH; i++) {
        for (uint32_t j = 0; j < IPV_ENCODING; j++) {
            draw = draw * 1664525 + 1013904223;
            encoder->projection[i][j] = (float)(draw >> 8) / 8388608.0f - 1.0f;
        }
    }
}

enum base_status ipv_encoder_new(const char *model, struct ipv_encoder **out,
                                 struct base_error *error)
{
    struct ipv_encoder *encoder = calloc(1, sizeof(*encoder));
    if (encoder == NULL) {
        return BASE_ERR_NOMEM;
    }
    projection_draw(encoder);
    enum base_status status = BASE_OK;
    if (model != NULL) {
        status = eng_model_load(model, NULL, &encoder->model, error);
        if (status == BASE_OK) {
            status = eng_session_new(encoder->model, NULL, &encoder->session, error);
        }
    }
    if (status != BASE_OK) {
        ipv_encoder_free(encoder);
        return status;
    }
    *out = encoder;
    return BASE_OK;
}

void ipv_encoder_free(struct ipv_encoder *encoder)
{
    if (encoder != NULL) {
        eng_session_free(encoder->session);
        eng_model_unref(encoder->model);
        free(encoder);
    }
}

static void project(const struct ipv_encoder *encoder, float steps[IPV_STEPS][IPV_STEP_WIDTH],
                    float out[IPV_ENCODING])
{
    memset(out, 0, IPV_ENCODED_SIZE);
    for (uint32_t t = 0; t < IPV_STEPS; t++) {
        for (uint32_t j = 0; j < IPV_ENCODING; j++) {
            out[j] *= DECAY;
        }
        for (uint32_t i = 0; i < IPV_STEP_WIDTH; i++) {
            for (uint32_t j = 0; j < IPV_ENCODING; j++) {
                out[j] += steps[t][i] * encoder->projection[i][j];
            }
        }
    }
}

enum base_status ipv_encode(struct ipv_encoder *encoder, const struct ipv_feature *feature,
                            float out[IPV_ENCODING], struct base_error *error)
{
    float steps[IPV_STEPS][IPV_STEP_WIDTH];
    ipv_feature_steps(feature, steps);
    if (encoder->model == NULL) {
        project(encoder, steps, out);
        return BASE_OK;
    }
    struct eng_array array = {
        .desc = {.dtype = ENG_F32, .rank = 3, .dims = {IPV_STEPS, 1, IPV_STEP_WIDTH}},
        .data = steps,
    };
    BASE_TRY(eng_session_set_input(encoder->session, 0, &array, error));
    BASE_TRY(eng_session_run(encoder->session, NULL, error));
    BASE_TRY(eng_session_output(encoder->session, 0, &array, error));
    memcpy(out, array.data, IPV_ENCODED_SIZE);
    return BASE_OK;
}
