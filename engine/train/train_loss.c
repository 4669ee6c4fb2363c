// Losses as atomic commands. Called by train_plan.c while the trainer plans, on its thread: checked
// against the output's shape first, then appended to the program. Only commands that have gradients
// are used, so a loss needs no rule of its own. From scores a loss is computed by log-softmax or
// softplus, which stay finite; probabilities are cut to PROBABILITY_MIN, so that their logarithms
// do.
#include "train/train_loss.h"

#include "base/check.h"
#include "train/autodiff_rules.h"

#include <math.h>

#define PROBABILITY_MIN 1e-7F // what probabilities are cut to, so that logarithms are finite

// [outer, classes, inner]
struct shape {
    int64_t outer, classes, inner;
};

static struct shape shape_of(const struct eng_desc *desc)
{
    struct shape s = {.outer = 1, .classes = 1, .inner = 1};
    if (desc->rank == 1) { // one example
        s.classes = desc->dims[0];
        return s;
    }
    for (uint32_t d = 0; d < desc->rank; d++) {
        *(d == 0 ? &s.outer : d == 1 ? &s.classes : &s.inner) *= desc->dims[d];
    }
    return s;
}

static bool is_label(enum eng_dtype dtype)
{
    return dtype == ENG_I32 || dtype == ENG_I64;
}

enum base_status eng_loss_check(enum eng_loss loss, const struct eng_desc *output,
                                const struct eng_desc *target, struct base_error *error)
{
    char have[96];
    char want[96];
    struct shape s = shape_of(output);
    int64_t count = 0;
    enum base_status status = eng_desc_check(target, &count);
    if (output->dtype != ENG_F32 || eng_desc_count(output) == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "no loss of an output %s",
                              eng_desc_text(output, have, sizeof(have)));
    }
    bool fits = loss == ENG_LOSS_CROSS_ENTROPY && is_label(target->dtype)
                    ? count == s.outer * s.inner
                    : target->dtype == ENG_F32 && count == eng_desc_count(output);
    if (status != BASE_OK || !fits) {
        return base_error_set(error, BASE_ERR_INVALID, "target %s does not go with output %s",
                              eng_desc_text(target, want, sizeof(want)),
                              eng_desc_text(output, have, sizeof(have)));
    }
    return BASE_OK;
}

int64_t eng_loss_classes(enum eng_loss loss, const struct eng_desc *output,
                         const struct eng_desc *target)
{
    bool labels = loss == ENG_LOSS_CROSS_ENTROPY && is_label(target->dtype);
    return labels ? shape_of(output).classes : 0;
}

// Counting from the end, as an index may, is for no class.
enum base_status eng_labels_check(const struct eng_array *target, int64_t classes,
                                  struct base_error *error)
{
    int64_t count = eng_desc_count(&target->desc);
    base_assert(is_label(target->desc.dtype));
    for (int64_t i = 0; i < count; i++) {
        int64_t label = target->desc.dtype == ENG_I32 ? ((const int32_t *)target->data)[i]
                                                      : ((const int64_t *)target->data)[i];
        if (label < 0 || label >= classes) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "the target's class at %lld is %lld, not in 0..%lld",
                                  (long long)i, (long long)label, (long long)classes - 1);
        }
    }
    return BASE_OK;
}

enum base_status eng_chances_check(enum eng_loss loss, const struct eng_array *target,
                                   struct base_error *error)
{
    int64_t count = loss == ENG_LOSS_MSE ? 0 : eng_desc_count(&target->desc);
    const float *chances = target->data;
    base_assert(count == 0 || target->desc.dtype == ENG_F32);
    for (int64_t i = 0; i < count; i++) {
        if (!(chances[i] >= 0 && chances[i] <= 1)) {
            return base_error_set(error, BASE_ERR_INVALID, "the target at %lld is %g, not in 0..1",
                                  (long long)i, (double)chances[i]);
        }
    }
    return BASE_OK;
}

// --- commands over rows of elements -----------------------------------------------------------

static enum base_status unary(struct eng_ad *ad, struct eng_unary unary, uint32_t input,
                              uint32_t *out)
{
    struct eng_command *command = NULL;
    base_assert(ad_tensor(ad, input)->desc.dtype == ENG_F32);
    BASE_TRY(ad_flat(ad, ENG_F32, ad_count(ad, input), out));
    BASE_TRY(ad_command(ad, ENG_OP_UNARY, &(struct ad_ports){&input, 1, *out}, &command));
    command->u.unary = unary;
    return BASE_OK;
}

// Of equal counts, or b of one element.
static enum base_status binary(struct eng_ad *ad, enum eng_binary_fn fn, uint32_t left,
                               uint32_t right, uint32_t *out)
{
    const uint32_t inputs[2] = {left, right};
    struct eng_command *command = NULL;
    base_assert(ad_count(ad, right) == 1 || ad_count(ad, right) == ad_count(ad, left));
    BASE_TRY(ad_flat(ad, ENG_F32, ad_count(ad, left), out));
    BASE_TRY(ad_command(ad, ENG_OP_BINARY, &(struct ad_ports){inputs, 2, *out}, &command));
    command->u.binary.fn = fn;
    command->box = ad_row(ad, left);
    command->views[0].stride[0] = 1;
    command->views[1].stride[0] = ad_count(ad, right) == 1 ? 0 : 1;
    return BASE_OK;
}

static enum base_status with_scalar(struct eng_ad *ad, enum eng_binary_fn fn, uint32_t operand,
                                    double value, uint32_t *out)
{
    uint32_t scalar = ENG_NONE;
    BASE_TRY(ad_scalar(ad, ENG_F32, value, &scalar));
    return binary(ad, fn, operand, scalar, out);
}

static enum base_status mean(struct eng_ad *ad, uint32_t input, uint32_t *out)
{
    const struct eng_reduce all = {ENG_REDUCE_MEAN, 1, ad_count(ad, input), 1};
    return ad_reduce(ad, input, &all, out);
}

// --- losses -----------------------------------------------------------------------------------

static enum base_status log_probabilities(struct eng_ad *ad, bool from_probabilities,
                                          const struct shape *shape, uint32_t output, uint32_t *out)
{
    struct eng_command *command = NULL;
    if (from_probabilities) {
        uint32_t cut = ENG_NONE;
        BASE_TRY(unary(ad, (struct eng_unary){ENG_CLIP, PROBABILITY_MIN, INFINITY}, output, &cut));
        return unary(ad, (struct eng_unary){ENG_LOG, 0, 0}, cut, out);
    }
    BASE_TRY(ad_like(ad, output, out));
    BASE_TRY(ad_command(ad, ENG_OP_SOFTMAX, &(struct ad_ports){&output, 1, *out}, &command));
    command->u.softmax = (struct eng_softmax){true, shape->outer, shape->classes, shape->inner};
    return BASE_OK;
}

static enum base_status cross_entropy(struct eng_ad *ad, bool from_probabilities, uint32_t output,
                                      uint32_t target, uint32_t *out)
{
    struct shape s = shape_of(&ad_tensor(ad, output)->desc);
    uint32_t logs = ENG_NONE, chosen = ENG_NONE, sum = ENG_NONE;
    struct eng_command *gather = NULL;
    BASE_TRY(log_probabilities(ad, from_probabilities, &s, output, &logs));
    if (is_label(ad_tensor(ad, target)->desc.dtype)) {
        const uint32_t inputs[2] = {logs, target};
        BASE_TRY(ad_flat(ad, ENG_F32, s.outer * s.inner, &chosen));
        BASE_TRY(ad_command(ad, ENG_OP_GATHER, &(struct ad_ports){inputs, 2, chosen}, &gather));
        gather->u.gather = (struct eng_gather){
            .outer = s.outer, .n = s.classes, .inner = s.inner, .elementwise = true, .m = 1};
    } else {
        BASE_TRY(binary(ad, ENG_MUL, logs, target, &chosen));
    }
    const struct eng_reduce all = {ENG_REDUCE_SUM, 1, ad_count(ad, chosen), 1};
    BASE_TRY(ad_reduce(ad, chosen, &all, &sum));
    return with_scalar(ad, ENG_MUL, sum, -1.0 / (double)(s.outer * s.inner), out);
}

static enum base_status mean_square(struct eng_ad *ad, uint32_t output, uint32_t target,
                                    uint32_t *out)
{
    uint32_t squares = ENG_NONE;
    BASE_TRY(binary(ad, ENG_SQUARED_DIFF, output, target, &squares));
    return mean(ad, squares, out);
}

// Of scores x: softplus(x) - t x, which is -t log p - (1 - t) log(1 - p) for p = sigmoid(x).
static enum base_status binary_scores(struct eng_ad *ad, uint32_t output, uint32_t target,
                                      uint32_t *out)
{
    uint32_t plus = ENG_NONE, product = ENG_NONE, each = ENG_NONE;
    BASE_TRY(unary(ad, (struct eng_unary){ENG_SOFTPLUS, 0, 0}, output, &plus));
    BASE_TRY(binary(ad, ENG_MUL, output, target, &product));
    BASE_TRY(binary(ad, ENG_SUB, plus, product, &each));
    return mean(ad, each, out);
}

// log(1 - p) + t (log p - log(1 - p)), the sign turned at the end.
static enum base_status binary_probabilities(struct eng_ad *ad, uint32_t output, uint32_t target,
                                             uint32_t *out)
{
    uint32_t p = ENG_NONE, q = ENG_NONE, log_p = ENG_NONE, log_q = ENG_NONE, each = ENG_NONE;
    const struct eng_unary cut = {ENG_CLIP, PROBABILITY_MIN, 1 - PROBABILITY_MIN};
    const struct eng_unary logarithm = {ENG_LOG, 0, 0};
    BASE_TRY(unary(ad, cut, output, &p));
    BASE_TRY(with_scalar(ad, ENG_SUB, p, 1, &q));
    BASE_TRY(unary(ad, (struct eng_unary){ENG_NEG, 0, 0}, q, &q));
    BASE_TRY(unary(ad, logarithm, p, &log_p));
    BASE_TRY(unary(ad, logarithm, q, &log_q));
    BASE_TRY(binary(ad, ENG_SUB, log_p, log_q, &each));
    BASE_TRY(binary(ad, ENG_MUL, each, target, &each));
    BASE_TRY(binary(ad, ENG_ADD, each, log_q, &each));
    BASE_TRY(mean(ad, each, &each));
    return with_scalar(ad, ENG_MUL, each, -1, out);
}

enum base_status eng_loss_emit(struct eng_program *program, const struct eng_criterion *criterion,
                               uint32_t *out_loss, struct base_error *error)
{
    struct eng_ad ad = {.program = program, .error = error};
    enum eng_loss loss = criterion->loss;
    uint32_t output = criterion->output, target = criterion->target;
    base_assert(output < program->tensor_count && target < program->tensor_count);
    base_assert(ad_tensor(&ad, output)->layout == ENG_PLAIN);
    BASE_TRY(
        eng_loss_check(loss, &ad_tensor(&ad, output)->desc, &ad_tensor(&ad, target)->desc, error));
    if (loss == ENG_LOSS_CROSS_ENTROPY) {
        return cross_entropy(&ad, criterion->from_probabilities, output, target, out_loss);
    }
    if (loss == ENG_LOSS_MSE) {
        return mean_square(&ad, output, target, out_loss);
    }
    return criterion->from_probabilities ? binary_probabilities(&ad, output, target, out_loss)
                                         : binary_scores(&ad, output, target, out_loss);
}
