// Any bytes as an ONNX model, run whole: planned, fused, executed twice on the generic kernels and
// once on the reference backend. What both can run gives outputs of the same types and shapes.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine.h"

#include <string.h>

#define MEMORY_MAX   ((size_t)64 << 20)
#define RUN_US       300000u // between two commands it is looked at
#define ELEMENTS_MAX 4096    // of one input
#define OUTPUTS_MAX  16u

struct outcome {
    enum base_status status;
    struct eng_desc descs[OUTPUTS_MAX];
};

static void fill(const struct eng_array *array)
{
    if (array->desc.dtype == ENG_STRING) {
        return; // empty texts
    }
    uint8_t *bytes = array->data;
    size_t size = eng_desc_bytes(&array->desc);
    for (size_t i = 0; i < size; i++) { // small numbers of whatever type
        bytes[i] = (uint8_t)(i % eng_dtype_bytes(array->desc.dtype) == 0 ? i % 3 : 0);
    }
    if (array->desc.dtype == ENG_BOOL) {
        for (size_t i = 0; i < size; i++) {
            bytes[i] &= 1;
        }
    }
}

static bool set_inputs(const struct eng_model *model, struct eng_session *session)
{
    for (size_t i = 0; i < eng_model_input_count(model); i++) {
        struct eng_desc desc = eng_model_input(model, i)->desc;
        int64_t count = 0;
        for (uint32_t d = 0; d < desc.rank; d++) {
            desc.dims[d] = desc.dims[d] < 0 ? 2 : desc.dims[d];
        }
        struct eng_array array;
        if (eng_desc_check(&desc, &count) != BASE_OK || count > ELEMENTS_MAX ||
            eng_session_resize(session, i, &desc, NULL) != BASE_OK ||
            eng_session_input(session, i, &array, NULL) != BASE_OK) {
            return false;
        }
        fill(&array);
    }
    return true;
}

static enum base_status run(struct eng_session *session)
{
    struct base_error error = {0};
    struct eng_run_options options = {.deadline_us = base_clock_mono_us() + RUN_US};
    enum base_status status = eng_session_run(session, &options, &error);
    base_check(status == BASE_OK || (error.status == status && error.text[0] != '\0'));
    base_check(status != BASE_ERR_BUG && status != BASE_ERR_BUSY);
    return status;
}

static struct outcome try(struct eng_model *model, const char *isa, int runs)
{
    struct outcome outcome = {.status = BASE_ERR_INVALID};
    struct eng_session_options options = {
        .isa = isa, .no_search = true, .memory_bytes_max = MEMORY_MAX};
    struct eng_session *session = NULL;
    base_check(eng_session_new(model, &options, &session, NULL) == BASE_OK);
    for (int i = 0; i < runs && set_inputs(model, session); i++) {
        outcome.status = run(session);
        if (outcome.status != BASE_OK) {
            break;
        }
        static volatile uint8_t sink;
        for (size_t o = 0; o < eng_model_output_count(model) && o < OUTPUTS_MAX; o++) {
            for (size_t k = 0; k < eng_session_output_items(session, o); k++) {
                struct eng_array array;
                base_check(eng_session_output_item(session, o, k, &array, NULL) == BASE_OK);
                outcome.descs[o] = array.desc;
                for (size_t b = 0; b < eng_desc_bytes(&array.desc); b++) {
                    sink = ((const uint8_t *)array.data)[b];
                }
            }
        }
        (void)sink;
    }
    eng_session_free(session);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eng_model *model = NULL;
    if (eng_model_load_memory(data, size, NULL, &model, NULL) != BASE_OK) {
        return 0;
    }
    struct outcome fast = try(model, "generic", 2);
    struct outcome plain = try(model, "ref", 1);
    if (fast.status == BASE_OK && plain.status == BASE_OK) {
        for (size_t o = 0; o < eng_model_output_count(model) && o < OUTPUTS_MAX; o++) {
            base_check(fast.descs[o].dtype == plain.descs[o].dtype &&
                       fast.descs[o].rank == plain.descs[o].rank);
        }
    }
    eng_model_unref(model);
    return 0;
}
