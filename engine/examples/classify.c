// Example: classifies one image with any ONNX image model.
//
//   classify MODEL.onnx IMAGE.f32 [TOP]
//
// IMAGE.f32 holds the model's input as raw float32 numbers, already scaled the way the model was
// trained. Prints the TOP (5) best classes with their scores. Shows the whole life of a model and a
// session: load, write the input in place, run, read the output.
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

static int complain(const char *what, const struct base_error *error)
{
    fprintf(stderr, "classify: %s: %s\n", what, error->text);
    return 1;
}

// Reads the whole array from a file of raw numbers.
static int read_numbers(const char *path, const struct eng_array *array)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "classify: %s: cannot be read\n", path);
        return 1;
    }
    size_t bytes = eng_desc_bytes(&array->desc);
    size_t got = fread(array->data, 1, bytes, file);
    fclose(file);
    if (got != bytes) {
        char shape[96];
        fprintf(stderr, "classify: %s: has %zu bytes, the input %s needs %zu\n", path, got,
                eng_desc_text(&array->desc, shape, sizeof shape), bytes);
        return 1;
    }
    return 0;
}

static void print_best(const struct eng_array *scores, int top)
{
    const float *score = scores->data;
    int64_t count = eng_desc_count(&scores->desc);
    float limit = 0;
    int64_t last = -1;
    for (int rank = 0; rank < top && rank < count; rank++) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; i++) { // the best of those not printed yet
            bool is_left = last < 0 || score[i] < limit || (score[i] == limit && i > last);
            if (is_left && (best < 0 || score[i] > score[best])) {
                best = i;
            }
        }
        if (best < 0) {
            return;
        }
        printf("%lld %.6f\n", (long long)best, (double)score[best]);
        limit = score[best];
        last = best;
    }
}

// The first input with its declared shape; one image where the batch is left open.
static int classify(struct eng_session *session, const struct eng_port_info *port,
                    const char *image, int top)
{
    struct base_error error = {0};
    struct eng_desc desc = port->desc;
    for (uint32_t i = 0; i < desc.rank; i++) {
        desc.dims[i] = desc.dims[i] < 0 ? 1 : desc.dims[i];
    }
    struct eng_array input;
    if (eng_session_resize(session, 0, &desc, &error) != BASE_OK ||
        eng_session_input(session, 0, &input, &error) != BASE_OK) {
        return complain("input", &error);
    }
    if (desc.dtype != ENG_F32) {
        fprintf(stderr, "classify: the model's input is not float\n");
        return 1;
    }
    if (read_numbers(image, &input) != 0) {
        return 1;
    }
    struct eng_array output;
    if (eng_session_run(session, NULL, &error) != BASE_OK ||
        eng_session_output(session, 0, &output, &error) != BASE_OK) {
        return complain("run", &error);
    }
    if (output.desc.dtype != ENG_F32) {
        fprintf(stderr, "classify: the model's output is not float\n");
        return 1;
    }
    print_best(&output, top);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: classify MODEL.onnx IMAGE.f32 [TOP]\n");
        return 2;
    }
    int top = 5;
    if (argc == 4) { // one digit is enough for an example
        top = argv[3][0] >= '1' && argv[3][0] <= '9' ? argv[3][0] - '0' : top;
    }
    struct base_error error = {0};
    struct eng_model *model = NULL;
    if (eng_model_load(argv[1], NULL, &model, &error) != BASE_OK) {
        return complain("model", &error);
    }
    struct eng_session_options options = {.threads = 2};
    struct eng_session *session = NULL;
    int code = 1;
    if (eng_model_input_count(model) != 1) {
        fprintf(stderr, "classify: the model has %zu inputs, not one image\n",
                eng_model_input_count(model));
    } else if (eng_session_new(model, &options, &session, &error) != BASE_OK) {
        code = complain("session", &error);
    } else {
        code = classify(session, eng_model_input(model, 0), argv[2], top);
    }
    eng_session_free(session);
    eng_model_unref(model);
    return code;
}
